//! Limits of a watched program's marks.

use punctual_record::invalid::has_measured;
use punctual_record::{Condition, Demand, Fix, Run, analyse_record, condition};
use punctual_stats::{Outcome, Requirement};

use super::support::{run_of, thread};

#[test]
fn a_program_that_never_slept_is_judged_by_its_limits_alone() {
    let mut run = run_of(vec![thread(0, &[], 1)]);
    run.request.requirements.clear();
    let mut watch = super::watches::program("controller", 1);
    watch.marks.truncate(1);
    // The other one lost some.
    watch.marks[0].threads.truncate(1);
    watch.marks[0].beyond = 0;
    run.watch = Some(watch);
    // As the watch says it, of a program of which no thread was woken.
    let judge = |run: &Run| {
        let mut run = run.clone();
        let condition = Condition::Watched {
            target: condition::Target::System,
            every: false,
            seen: 1,
            woken: 0,
        };
        let demand = Demand::requested(condition, has_measured(&run), || Fix::WatchLonger);
        run.demands.push(demand);
        let analysis = analyse_record(&run).unwrap();
        (analysis.verdict.outcome, analysis.verdict)
    };
    let (outcome, verdict) = judge(&run);
    assert_eq!(outcome, Outcome::Fail, "{verdict:?}");
    let mark = &mut run.watch.as_mut().unwrap().marks[0];
    mark.limit_ns = Some(2_500_000);
    mark.threads[0].longer = 0;
    mark.threads[0].unfinished = 0;
    let (outcome, verdict) = judge(&run);
    assert_eq!(outcome, Outcome::Pass, "{verdict:?}");

    // What is wanted of wake-ups isn't known without one, nor is a program known that did nothing.
    run.watch.as_mut().unwrap().marks[0].limit_ns = None;
    let (outcome, verdict) = judge(&run);
    assert_eq!(outcome, Outcome::Invalid, "{verdict:?}");
}

#[test]
fn a_thread_that_never_woke_does_not_matter_to_limits_of_marks_alone() {
    let mut run = run_of(vec![thread(0, &[5_000; 1_000], 1), thread(1, &[], 1)]);
    run.request.requirements.clear();
    let mut watch = super::watches::program("controller", 2);
    watch.marks.truncate(1);
    let mark = &mut watch.marks[0];
    (mark.limit_ns, mark.beyond) = (Some(2_500_000), 0);
    mark.threads.truncate(1);
    mark.threads[0].longer = 0;
    mark.threads[0].unfinished = 0;
    // It lives, and waits for work.
    watch.threads[1].ended = false;
    watch.threads[1].slept_but_for_stops = false;
    watch.runtime = None;
    run.watch = Some(watch);
    let outcome = |run: &_| analyse_record(run).unwrap().verdict.outcome;
    assert_eq!(outcome(&run), Outcome::Pass);
    // A requirement of wake-ups is one of its own too.
    let max = Requirement::Max { limit_ns: 100_000 };
    run.request.requirements.push(max);
    assert_eq!(outcome(&run), Outcome::Invalid);
}
