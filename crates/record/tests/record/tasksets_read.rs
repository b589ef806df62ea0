//! Records of executed task sets.

use std::path::Path;

use punctual_record::explanation::{BillRow, Cause, Stage};
use punctual_record::taskset::{JobBills, TaskFault, TaskRun, Wake};
use punctual_record::{Document, InvalidReason, MergeError, Run, invalid_reasons, merge};
use punctual_stats::verdict::Outcome;
use serde_json::{Value, json};

use crate::tasksets::{bill, executed, failed};

fn read_back(json: &Value) -> Result<Run, String> {
    Run::parse(Path::new("run.json"), json.to_string().as_bytes())
        .map_err(|error| error.to_string())
}

fn tasks(run: &Run) -> &TaskRun {
    run.tasks.as_ref().unwrap()
}

#[test]
fn a_bill_of_hundreds_of_tasks_keeps_its_sum_the_largest_and_its_own_work() {
    let mut long = bill();
    let row = |number: u64| BillRow {
        cause: match number {
            7 => Cause::Work,
            _ => Cause::Interrupt {
                irq: number as u32,
                name: format!("dev{number}"),
            },
        },
        ns: number,
        ..long.rows[0].clone()
    };
    let mut rows: Vec<BillRow> = (1..=500).rev().map(row).collect();
    rows[250].stage = Stage::Switch;
    long.rows = rows;
    let sum: u64 = long.rows.iter().map(|row| row.ns).sum();
    let mut bills = JobBills::default();
    bills.add(long, false);
    let kept = &bills.worst[0].rows;
    assert_eq!(kept.iter().map(|row| row.ns).sum::<u64>(), sum);
    assert!(kept.is_sorted_by(|a, b| a.ns >= b.ns), "{kept:?}");
    // 64, its own work, and the others of two stages.
    assert_eq!(kept.len(), 67);
    assert!(
        kept.iter()
            .any(|row| row.cause == Cause::Work && row.ns == 7)
    );
    let others = kept.iter().filter(|row| row.cause == Cause::Other);
    assert_eq!(others.count(), 2);
}

#[test]
fn it_comes_back_as_it_was_written() {
    for run in [executed(), failed()] {
        assert_eq!(
            read_back(&serde_json::to_value(&run).unwrap()).unwrap(),
            run
        );
    }
}

#[test]
fn each_task_is_judged_by_its_own_deadline_and_each_chain_by_its_limits() {
    let verdict = executed().verdict.unwrap();
    // A reaction was longer than its limit.
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(verdict.tasks.len(), tasks(&executed()).set.tasks.len());
    // One of 1,000 jobs was late where 1 % may be: how late others are, one does not tell.
    let outcomes = verdict.tasks.iter().map(|task| task.result.outcome);
    let open: Vec<(usize, Outcome)> = outcomes
        .enumerate()
        .filter(|(_, outcome)| *outcome != Outcome::Pass)
        .collect();
    assert_eq!(open, [(1, Outcome::Inconclusive)]);
    assert!(
        verdict.tasks[1]
            .result
            .bound
            .stalls
            .is_some_and(|it| it.are_few())
    );
    let lengths: Vec<(u64, Outcome)> = verdict
        .lengths
        .iter()
        .map(|it| (it.limit_ns, it.outcome))
        .collect();
    assert_eq!(
        lengths,
        [(3_000_000, Outcome::Fail), (2_000_000, Outcome::Pass)]
    );
    assert_eq!(verdict.lengths[1].name, "age of sensor to actuator");
    assert_eq!(verdict.tasks[1].result.bound.misses, 1);
    // Nothing may be late: the same figures fail by that one job.
    let mut strict = executed();
    strict.tasks.as_mut().unwrap().allowed = 0.0;
    let analysis = punctual_record::analyse_record(&strict).unwrap();
    let outcomes = analysis
        .verdict
        .tasks
        .iter()
        .map(|task| task.result.outcome);
    let failing: Vec<usize> = outcomes
        .enumerate()
        .filter(|(_, outcome)| *outcome == Outcome::Fail)
        .map(|(index, _)| index)
        .collect();
    assert_eq!(failing, [1]);
}

#[test]
fn what_is_seen_of_a_task_begins_with_its_first_arrival() {
    let judged = |offset: u64, measured_ns: u64| {
        let mut run = executed();
        run.measured_ns = measured_ns;
        let tasks = run.tasks.as_mut().unwrap();
        for task in &mut tasks.set.tasks {
            if let Wake::Timer { offset_ns, .. } = &mut task.wake {
                *offset_ns = offset;
            }
        }
        let analysis = punctual_record::analyse_record(&run).unwrap();
        analysis.verdict.tasks
    };
    const LENGTH_NS: u64 = 1_000_000_000;
    let later = judged(LENGTH_NS, 2 * LENGTH_NS);
    assert_eq!(later, judged(0, LENGTH_NS));
    assert_ne!(later, judged(0, 2 * LENGTH_NS));
}

#[test]
fn a_task_that_ended_early_makes_the_run_invalid() {
    let run = failed();
    let named = invalid_reasons(&run)
        .into_iter()
        .filter_map(|reason| match reason {
            InvalidReason::TaskFailed { task, fault } => Some((task, fault)),
            _ => None,
        });
    let named: Vec<(String, TaskFault)> = named.collect();
    assert_eq!(named.len(), 4);
    assert_eq!(named[3], ("logger".to_owned(), TaskFault::StillBusy {}));
    assert_eq!(run.verdict.unwrap().outcome, Outcome::Invalid);
}

#[test]
fn a_failure_that_is_shown_stands_though_a_task_did_not_end() {
    let outcomes = |run: &Run| {
        let verdict = punctual_record::analyse_record(run).unwrap().verdict;
        let tasks = verdict.tasks.iter().map(|task| task.result.outcome);
        let all: Vec<Outcome> = tasks.collect();
        (verdict.outcome, all)
    };
    let mut run = executed();
    let (before, each) = outcomes(&run);
    assert_eq!(before, Outcome::Fail);
    let fault = |run: &mut Run, fault: TaskFault| {
        run.tasks.as_mut().unwrap().tasks[3].fault = Some(fault);
    };
    fault(&mut run, TaskFault::StillBusy {});
    let (after, of_tasks) = outcomes(&run);
    assert_eq!(after, Outcome::Fail);
    for (before, after) in each.iter().zip(of_tasks) {
        let stays = *before == Outcome::Fail;
        assert_eq!(after, if stays { *before } else { Outcome::Invalid });
    }
    // What failed otherwise did not execute the set; where nothing fails, what was not seen may have.
    let error = "it is gone".to_owned();
    fault(&mut run, TaskFault::Wait { error });
    assert_eq!(outcomes(&run).0, Outcome::Invalid);
    let mut run = executed();
    let tasks = run.tasks.as_mut().unwrap();
    let chain = &mut tasks.set.chains[0];
    (chain.reaction_ns, chain.age_ns) = (None, None);
    tasks.allowed = 0.5;
    assert_eq!(outcomes(&run).0, Outcome::Pass);
    fault(&mut run, TaskFault::StillBusy {});
    assert_eq!(outcomes(&run).0, Outcome::Invalid);
}

#[test]
fn what_a_record_must_not_hold_is_refused_with_its_place() {
    let whole = serde_json::to_value(executed()).unwrap();
    for (pointer, value, place) in [
        ("/tasks/allowed", json!(1.5), "tasks.allowed"),
        ("/tasks/tasks", json!([]), "tasks.tasks"),
        (
            "/tasks/set/chains/0/tasks",
            json!([0, 99]),
            "tasks.set.chains[0]",
        ),
        (
            "/tasks/set/tasks/5/wake/task",
            json!(77),
            "tasks.set.tasks[5].wake",
        ),
        (
            "/tasks/set/tasks/5/wake/every",
            json!(0),
            "tasks.set.tasks[5].wake",
        ),
        (
            "/tasks/set/tasks/0/phases/0/work/1/lock",
            json!(9),
            "tasks.set.tasks[0].phases",
        ),
        (
            "/tasks/tasks/1/bills/worst/0/rows/0/ns",
            json!(1),
            "tasks.tasks[1].bills.worst[0]",
        ),
        ("/tasks/chains/0/age_longer", json!(5), "tasks.chains[0]"),
        (
            "/tasks/speeds/0/spread",
            json!(-1.0),
            "tasks.speeds[0].spread",
        ),
    ] {
        let mut broken = whole.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        let refused = match read_back(&broken) {
            // A set without figures is one that was ended at once: it has no threads either.
            Ok(_) => assert_refused_without_threads(pointer),
            Err(error) => error,
        };
        assert!(refused.contains(place), "{pointer}: {refused}");
    }
}

fn assert_refused_without_threads(pointer: &str) -> String {
    assert_eq!(pointer, "/tasks/tasks");
    "tasks.tasks".to_owned()
}

#[test]
fn such_runs_are_not_merged() {
    let refused = merge(&[executed(), executed()], true, Vec::new()).unwrap_err();
    assert_eq!(refused, MergeError::TaskSet { run: 0 });
}

#[test]
fn bills_are_bounded_and_the_longest_are_kept() {
    let mut bills = JobBills::default();
    for at in 0..500u64 {
        let mut one = bill();
        one.rows[0].cause = Cause::FairShare {
            task: format!("task{at}"),
        };
        one.rows[0].ns += at;
        one.ended_ns += at;
        bills.add(one, at % 2 == 0);
    }
    assert_eq!(bills.explained, 250);
    assert_eq!(bills.worst.len(), JobBills::WORST);
    let lengths: Vec<u64> = bills.worst.iter().map(|it| it.taken_ns()).collect();
    assert_eq!(lengths, [1_200_499, 1_200_498, 1_200_497, 1_200_496]);
    assert!(bills.causes.len() <= JobBills::CAUSES);
    // Nothing of the late jobs is lost: what had no room is in the rest.
    let counted: u64 = bills.causes.iter().map(|cause| cause.total_ns).sum();
    let expected: u64 = (0..500u64).step_by(2).map(|at| 1_200_000 + at).sum();
    assert_eq!(counted, expected);
    let ranked = bills.ranked();
    assert!(ranked.causes.is_sorted_by(|a, b| a.total_ns >= b.total_ns));
}
