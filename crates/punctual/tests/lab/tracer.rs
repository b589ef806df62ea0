//! What tracing costs the wake-ups that it explains, exactly: in virtual time.

use std::path::Path;

use punctual::record::Run;
use punctual::record::explanation::{Bill, Cause};

use super::common::{Place, skip};
use super::{lab, ready};

/// Runs one probe in a guest, and reads its record.
fn run(place: &Place, name: &str, kernel: &str, load: &str, words: &str) -> Run {
    let flags = [
        "--kernel", kernel, "--load", load, "--jobs", "1", "-o", name,
    ];
    let flags = flags.into_iter().chain(["--", "measure"]);
    let arguments: Vec<&str> = flags.chain(words.split_whitespace()).collect();
    lab(place, &arguments).expect(0);
    let folder = place.path().join(name).join(kernel).join(load);
    read(&folder)
}

fn read(folder: &Path) -> Run {
    punctual::record::read(folder).unwrap_or_else(|error| panic!("{error}"))
}

fn bills(run: &Run) -> &[Bill] {
    &run.explanation.as_ref().expect("it is explained").bills
}

/// Whose bill says that tracing took time from them.
fn traced(run: &Run) -> usize {
    let has = |bill: &&Bill| bill.rows.iter().any(|row| row.cause == Cause::Tracer);
    bills(run).iter().filter(has).count()
}

/// On an idle CPU each wake-up is the same, with the tracer and without: the difference is what
/// its programs execute on the way.
#[test]
fn a_traced_wake_up_executes_1_500_instructions_more_at_most() {
    if let Err(why) = ready() {
        skip!("{why}");
    }
    let place = Place::new();
    let flags = [("without", "--no-explain"), ("with", "--explain-above 1ms")];
    let [without, with] = flags.map(|(name, flag)| {
        let words = format!("-l 200 -i 1013 {flag}");
        let run = run(&place, name, "rt", "idle", &words);
        let mut latencies: Vec<u64> = run.threads[0]
            .peaks
            .iter()
            .map(|it| it.latency_ns)
            .collect();
        assert_eq!(latencies.len(), 200, "all are kept whole");
        latencies.sort_unstable();
        latencies
    });
    // One in a hundred meets the tick.
    for share in [10, 50, 90] {
        let at = |of: &[u64]| of[of.len() * share / 100];
        let more = at(&with).saturating_sub(at(&without));
        assert!((500..=1_500).contains(&more), "p{share}: {more} ns");
    }
}

/// The stack of what is in the way is taken once the probe sleeps again, unless it is asked for
/// at once.
#[test]
fn a_late_wake_up_is_not_made_later_by_its_explanation() {
    if let Err(why) = ready() {
        skip!("{why}");
    }
    let place = Place::new();
    let words = "-l 150 -i 1013 --explain-above 200us";
    let by_default = run(&place, "default", "standard", "exit", words);
    assert!(
        bills(&by_default).len() >= 8,
        "{:?}",
        bills(&by_default).len()
    );
    assert_eq!(traced(&by_default), 0);
    let held = |bill: &&Bill| {
        bill.rows.iter().any(|row| {
            let place = !row.stack.is_empty()
                || row
                    .note
                    .as_ref()
                    .is_some_and(|note| note.contains("system call"));
            matches!(row.cause, Cause::PreemptOff { .. } | Cause::IrqsOff { .. }) && place
        })
    };
    let late = bills(&by_default)
        .iter()
        .filter(|bill| bill.latency_ns > 200_000);
    let (all, placed) = (late.clone().count(), late.filter(held).count());
    assert!(placed * 10 >= all * 9, "{placed} of {all} say where");
    let words = format!("{words} --stack-above 200us");
    assert!(traced(&run(&place, "at-once", "standard", "exit", &words)) > 0);
}
