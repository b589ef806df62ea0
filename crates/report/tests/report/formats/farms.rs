//! What test farms read: KTAP and LAVA's signals.

use std::collections::BTreeSet;

use punctual_record::{Run, Standing, State};
use punctual_report::formats::{Format, write};

use crate::support::{latencies, run, run_of, thread};

fn text(format: Format, run: &Run) -> String {
    write(format, run).expect("text")
}

fn passed() -> Run {
    run(1)
}

fn failed() -> Run {
    run_of(vec![thread(0, &latencies(1, 10_000, 90_000_000), 512)])
}

fn inconclusive() -> Run {
    run_of(vec![thread(0, &latencies(1, 150, 90_000), 512)])
}

/// A condition is not in force, an event was, and the run was killed.
fn invalid() -> Run {
    let mut run = failed();
    run.demands[0].standing = Standing::NotInForce;
    run.events[0].invalidates = true;
    run.state = State::Unfinished;
    run.verdict = Some(punctual_record::analyse_record(&run).expect("it").verdict);
    run
}

/// The results of KTAP by its grammar: whether each is ok, its name, and its directive.
fn ktap(run: &Run) -> Vec<(bool, String, String)> {
    let text = text(Format::Ktap, run);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("KTAP version 1"));
    let plan = lines.next().and_then(|line| line.strip_prefix("1.."));
    let plan: usize = plan.and_then(|it| it.parse().ok()).expect("a plan");
    let results: Vec<_> = lines
        .filter(|line| !line.starts_with("# "))
        .enumerate()
        .map(|(place, line)| {
            let (is_ok, rest) = match line.strip_prefix("not ok ") {
                Some(rest) => (false, rest),
                None => (true, line.strip_prefix("ok ").expect("a result")),
            };
            let (number, rest) = rest.split_once(' ').expect("a number");
            assert_eq!(number.parse(), Ok(place + 1), "{line}");
            let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
            assert!(!name.contains('#'), "{line}");
            (is_ok, name.to_owned(), directive.to_owned())
        })
        .collect();
    assert_eq!(results.len(), plan);
    results
}

#[test]
fn ktap_has_a_result_for_each_case() {
    let results = ktap(&passed());
    assert_eq!(results.len(), 4);
    assert!(
        results
            .iter()
            .all(|(is_ok, _, directive)| *is_ok && directive.is_empty())
    );
    assert!(results[0].1.starts_with("requirement: "), "{results:?}");
    assert_eq!(results[3].1, "record: complete");
    for run in [failed(), inconclusive()] {
        let word = run.verdict.as_ref().expect("a verdict").outcome.word();
        let results = ktap(&run);
        assert!(
            results
                .iter()
                .any(|(is_ok, _, directive)| !is_ok && directive.is_empty())
        );
        let shown = text(Format::Ktap, &run);
        assert!(shown.contains(&format!("\n# {word}: ")), "{shown}");
    }
    let results = ktap(&invalid());
    let errors = results
        .iter()
        .filter(|(is_ok, _, directive)| !is_ok && directive.starts_with("ERROR "));
    assert_eq!(errors.count(), 5, "{results:?}");
    let mut skipped = invalid();
    skipped.request.best_effort = true;
    let results = ktap(&skipped);
    assert!(
        results
            .iter()
            .any(|(is_ok, _, directive)| *is_ok && directive.starts_with("SKIP "))
    );
}

#[test]
fn a_hostile_name_stays_on_its_line() {
    let mut run = invalid();
    run.system.kernel.release = "6.1\nnot ok 1 x # SKIP".to_owned();
    ktap(&run);
    signals(&run);
}

/// LAVA's signals as its dispatcher reads them: words of `KEY=VALUE` up to the first `>`.
fn signals(run: &Run) -> Vec<(String, String, Option<u64>)> {
    let text = text(Format::Lava, run);
    let lines: Vec<&str> = text.lines().collect();
    let [first, cases @ .., last] = &lines[..] else {
        panic!("{text}")
    };
    let set = first
        .strip_prefix("<LAVA_SIGNAL_TESTSET START ")
        .expect("a set");
    assert_eq!(last.strip_prefix("<LAVA_SIGNAL_TESTSET STOP "), Some(set));
    let found: Vec<_> = cases
        .iter()
        .map(|line| {
            let signal = line.strip_prefix("<LAVA_SIGNAL_TESTCASE ").expect("a case");
            let signal = signal.strip_suffix('>').expect("its end");
            assert!(!signal.contains(['<', '>']), "{line}");
            let value = |key: &str| {
                let mut words = signal.split(' ').filter_map(|word| word.split_once('='));
                words
                    .find(|(name, _)| *name == key)
                    .map(|(_, value)| value.to_owned())
            };
            let name = value("TEST_CASE_ID").expect("a name");
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(name.chars().all(allowed), "{line}");
            let measured = value("MEASUREMENT").map(|it| it.parse().expect("a number"));
            assert_eq!(measured.is_some(), value("UNITS").is_some());
            (name, value("RESULT").expect("a result"), measured)
        })
        .collect();
    let names: BTreeSet<_> = found.iter().map(|it| &it.0).collect();
    assert_eq!(names.len(), found.len(), "{text}");
    found
}

fn results(run: &Run, class: &str) -> BTreeSet<String> {
    let of_class = signals(run)
        .into_iter()
        .filter(|it| it.0.starts_with(class));
    of_class.map(|it| it.1).collect()
}

#[test]
fn lavas_signals_tell_a_failure_from_what_is_unknown() {
    let only = |word: &str| BTreeSet::from([word.to_owned()]);
    assert_eq!(results(&passed(), ""), only("pass"));
    assert!(results(&failed(), "requirement.").contains("fail"));
    assert_eq!(results(&failed(), "latency."), only("pass"));
    let unsure = results(&inconclusive(), "requirement.");
    assert!(
        unsure.contains("unknown") && !unsure.contains("fail"),
        "{unsure:?}"
    );
    assert_eq!(results(&invalid(), "requirement."), only("unknown"));
    assert_eq!(results(&invalid(), "latency."), only("unknown"));
    assert_eq!(results(&invalid(), "record."), only("unknown"));
}

#[test]
fn lava_has_the_figures() {
    let run = passed();
    let of = |name: &str| {
        let found = signals(&run).into_iter().find(|it| it.0 == name);
        found.and_then(|it| it.2)
    };
    let latency = |run: &Run| {
        run.threads
            .iter()
            .map(|it| it.latency.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("latency.max"),
        latency(&run).iter().map(|it| it.max_ns).max()
    );
    assert_eq!(
        of("samples"),
        Some(latency(&run).iter().map(|it| it.count).sum())
    );
    assert!(of("latency.p50") < of("latency.p99"));
    assert!(of("latency.p50").is_some());
}
