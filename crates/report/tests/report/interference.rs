//! What an experiment with `mmap_lock` shows, in words.

use punctual_record::explanation::{Culprit, Doing, Wait, WaitRow};
use punctual_record::interference::{Interference, LockWaits, Operation, OperationTimes};
use punctual_report::interference::{sentence, summary};
use punctual_report::style::Style;
use punctual_stats::histogram::{Histogram, HistogramRecord};

fn times(ns: u64, count: u64) -> HistogramRecord {
    let mut histogram = Histogram::new();
    histogram.record_n(ns, count);
    HistogramRecord::from(&histogram)
}

/// Those of these operations waited.
fn done(waited: &[Operation], name: &str) -> Interference {
    let thread = |tid, name: &str| Culprit {
        tid,
        name: Some(name.to_owned()),
        ..Culprit::default()
    };
    let row = |ns, depth, thread, doing| WaitRow {
        ns,
        depth,
        thread: Some(thread),
        doing,
    };
    let behind = Some(thread(9, "hog"));
    let wait = Wait {
        ended_by: name.to_owned(),
        wait_ns: 46_000_000,
        rows: vec![
            row(40_000_000, 1, thread(8, name), Doing::Ran),
            row(6_000_000, 1, thread(8, name), Doing::Ready { behind }),
        ],
        ..Wait::default()
    };
    let of = |operation: Operation| {
        let waits = waited.contains(&operation);
        OperationTimes {
            operation,
            alone: times(4_000, 200),
            beside: times(46_000_000, 200),
            waits: match waits {
                true => LockWaits {
                    count: 12,
                    total_ns: 500_000_000,
                    longest_ns: 45_000_000,
                },
                false => LockWaits::default(),
            },
            longest: waits.then(|| wait.clone()),
        }
    };
    Interference {
        mappers: 2,
        map_bytes: 100 << 20,
        maps: 43,
        priority: 80,
        period_ns: 10_000_000,
        begin_ns: 1,
        measured_ns: 8_000_000_000,
        between: 3,
        unplaced: 0,
        operations: Operation::ALL.map(of).to_vec(),
    }
}

#[test]
fn the_sentence_names_what_waited_and_what_did_not() {
    let some = sentence(&done(&[Operation::Fault, Operation::Mmap], "mapper"));
    assert!(
        some.starts_with("fault, mmap waited for mmap_lock"),
        "{some}"
    );
    assert!(
        some.ends_with("; futex, condvar, mutex, proc did not."),
        "{some}"
    );
    assert!(
        some.contains("2 threads of the program map, touch and unmap 100"),
        "{some}"
    );
    let none = sentence(&done(&[], "mapper"));
    assert!(
        none.starts_with("No operation waited for mmap_lock"),
        "{none}"
    );
    let all = sentence(&done(&Operation::ALL, "mapper"));
    assert!(
        all.starts_with("Every operation waited for mmap_lock"),
        "{all}"
    );
}

#[test]
fn a_sleep_at_an_unknown_place_leaves_open_what_did_not_wait() {
    let open = |waited: &[Operation]| {
        sentence(&Interference {
            unplaced: 1,
            ..done(waited, "mapper")
        })
    };
    let some = open(&[Operation::Fault, Operation::Mmap]);
    let words =
        "; whether futex, condvar, mutex, proc did is not known: 1 sleep has no known place.";
    assert!(some.starts_with("fault, mmap waited for"), "{some}");
    assert!(some.ends_with(words), "{some}");
    let none = open(&[]);
    assert!(none.starts_with("Whether operations waited"), "{none}");
    assert!(open(&Operation::ALL).starts_with("Every operation waited"));
}

#[test]
fn the_longest_wait_names_the_holder_and_what_kept_it() {
    let text = summary(
        &done(&[Operation::Mmap], "mapper"),
        "there",
        &Style::plain(),
    );
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = "longest wait 46 ms, woken by mapper: mapper ran 40 ms; mapper was ready to run, \
                  hog had its CPU 6 ms";
    assert!(flat.contains(wanted), "{text}");
    let row = |name: &str| {
        let mut lines = text
            .lines()
            .skip_while(|line| !line.starts_with("operation"));
        let line = lines.find(|line| line.trim_start().starts_with(name));
        line.expect("a row").split_whitespace().collect::<Vec<_>>()
    };
    let cells = row("mmap ");
    assert!(
        cells.contains(&"12") && cells.contains(&"46,000"),
        "{cells:?}"
    );
    let none = row("futex ");
    assert_eq!(
        none.iter().filter(|cell| **cell == "—").count(),
        3,
        "{none:?}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("punctual report -v there"), "{text}");
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let text = summary(
        &done(&[Operation::Proc], "x\u{1b}[31m\n"),
        "there",
        &Style::plain(),
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
