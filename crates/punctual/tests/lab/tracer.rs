//! The exact cost of tracing for the wake-ups that it explains, in virtual time.

use std::path::Path;

use punctual_record::explanation::{Bill, BillRow, Cause, RowNote};
use punctual_record::{Document, Run};

use super::common::{Place, need};
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
    Run::read(folder).unwrap_or_else(|error| panic!("{error}"))
}

fn bills(run: &Run) -> &[Bill] {
    &run.explanation.as_ref().expect("it is explained").bills
}

/// The number of bills with time for the tracer.
fn traced(run: &Run) -> usize {
    let has = |bill: &&Bill| bill.rows.iter().any(|row| row.cause == Cause::Tracer);
    bills(run).iter().filter(has).count()
}

/// On an idle CPU each wake-up is the same, with the tracer and without: the difference is what
/// its programs execute.
#[test]
fn a_traced_wake_up_executes_1_600_instructions_more_at_most() {
    need!(ready());
    let place = Place::new();
    let flags = [("without", "--no-explain"), ("with", "--explain-above 1ms")];
    let [without, with] = flags.map(|(name, flag)| {
        let words = format!("-l 200 -i 509 {flag}");
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
    // Some wake-ups find the kernel's trees of timers or threads in another shape, 150 to 200
    // instructions away, traced or not; one in a hundred coincides with the tick.
    for (share, limit) in [(10, 1_400), (50, 1_400), (90, 1_600)] {
        let at = |of: &[u64]| of[of.len() * share / 100];
        let more = at(&with).saturating_sub(at(&without));
        assert!((500..=limit).contains(&more), "p{share}: {more} ns");
    }
}

/// The stack of the thread in the way is taken once the probe sleeps again, unless it is requested
/// at once. Whatever else runs before that thread runs again, and however soon the probe
/// is due again, the bill says where it was.
#[test]
fn a_late_wake_up_is_not_made_later_by_its_explanation() {
    need!(ready());
    let place = Place::new();
    let runs = explained(&place, "default", 5, &[]);
    let all_rows = || runs.iter().flat_map(bills).flat_map(|bill| &bill.rows);
    // The lookup of a system call just before the probe is due takes at most this long.
    let looked_up = |row: &&BillRow| row.cause == Cause::Tracer;
    let cost_ns: Vec<u64> = all_rows().filter(looked_up).map(|row| row.ns).collect();
    assert!(cost_ns.iter().all(|ns| *ns <= 500), "{cost_ns:?}");
    // A wake-up that waited for the one before it has that one's bill for its place.
    let kept: Vec<&BillRow> = runs
        .iter()
        .flat_map(bills)
        .filter(|bill| bill.latency_ns > 200_000)
        .filter_map(|bill| bill.rows.iter().max_by_key(|row| row.ns))
        .filter(|row| matches!(row.cause, Cause::PreemptOff { .. } | Cause::IrqsOff { .. }))
        .collect();
    let names_its_place = |row: &&&BillRow| {
        let call = |note: &RowNote| matches!(note, RowNote::SystemCall { .. });
        !row.stack.is_empty() || row.notes.iter().any(call)
    };
    let (all, placed) = (kept.len(), kept.iter().filter(names_its_place).count());
    assert!(all >= 20, "{all}");
    // Of a thread that has ended meanwhile nobody can tell; one of them may have slept by itself.
    let ended = |row: &&&BillRow| !names_its_place(row) && row.by.iter().any(|by| by.ended);
    let gone = kept.iter().filter(ended).count();
    assert!(
        placed + gone + 1 >= all && gone * 4 < all,
        "{placed} of {all} say where, {gone} had ended"
    );
    // Before Linux 6.7 only where an interrupt comes anyway.
    let at_once = explained(&place, "at-once", 2, &["--stack-above", "200us"]);
    assert!(at_once.iter().map(traced).sum::<usize>() > 0);
}

/// Late wake-ups of the standard kernel, from several seeds, because one may give few.
fn explained(place: &Place, name: &str, seeds: u64, more: &[&str]) -> Vec<Run> {
    let words = format!(
        "--no-explain --kernel standard --load exit --seeds {seeds} -o {name} -- measure -l 150 -i 509 \
         --explain-above 200us"
    );
    let words: Vec<&str> = words.split_whitespace().collect();
    lab(place, &[&words, more].concat()).expect(0);
    let of_seed = |seed| place.path().join(format!("{name}/standard/exit-{seed}"));
    (1..=seeds).map(|seed| read(&of_seed(seed))).collect()
}
