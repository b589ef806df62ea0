//! The marks of a watched program as tables.

use punctual_stats::histogram::Histogram;

use super::{Table, instant, none, some_count};
use crate::words;
use punctual_record::Run;
use punctual_record::watch::{MarkedThread, Watch, WatchedMark};

/// The longest of a mark that are shown.
const LONGEST: usize = 3;

/// Short, so that the figures find room: they are told apart by the beginning.
fn name(mark: &WatchedMark) -> String {
    words::shortened(&mark.name, 20)
}

/// How long each took, thread by thread; what was not seen says why.
pub(super) fn lengths(_: &Run, watch: &Watch) -> Table {
    let broken = |mark: &WatchedMark| {
        let threads = mark.threads.iter();
        threads.fold((0_u64, 0_u64), |(unfinished, lost), thread| {
            (
                unfinished
                    .saturating_add(thread.unfinished)
                    .saturating_add(thread.unmatched),
                lost.saturating_add(thread.lost),
            )
        })
    };
    let sums = watch.marks.iter().map(broken);
    let (unfinished, lost) = sums.fold((0, 0), |a, b| (a.0 | b.0, a.1 | b.1));
    let mut heads = vec![
        "mark", "thread", "what", "times", "min", "mean", "p50", "p99", "99.9", "max",
    ];
    if unfinished > 0 {
        heads.push("unpaired");
    }
    if watch.limits() {
        heads.push("too long");
    }
    if lost > 0 {
        heads.push("lost");
    }
    let mut rows = Vec::new();
    for mark in &watch.marks {
        let row = |who: String, what: &str| {
            let mut row = vec![name(mark), who, what.to_owned()];
            row.resize(heads.len(), none());
            row
        };
        if mark.refused.is_some() {
            // Why stands among the events.
            rows.push(row(none(), "not seen"));
        } else if mark.threads.is_empty() && mark.unwatched == 0 {
            rows.push(row(none(), "not passed"));
        }
        for thread in &mark.threads {
            let mut cells = figures(mark, thread);
            if unfinished > 0 {
                cells.push(some_count(
                    thread.unfinished.saturating_add(thread.unmatched),
                ));
            }
            if watch.limits() {
                let longer = mark.limit_ns.map(|_| words::count(thread.longer));
                cells.push(longer.unwrap_or_else(none));
            }
            if lost > 0 {
                cells.push(some_count(thread.lost));
            }
            rows.push(cells);
        }
        for (count, what) in [(mark.unwatched, "not watched"), (mark.beyond, "no room")] {
            if count > 0 {
                let mut cells = row("other threads".to_owned(), what);
                cells[3] = words::count(count);
                rows.push(cells);
            }
        }
    }
    Table {
        name: "What its marks took, in µs",
        heads,
        rows,
        below: None,
        asked: false,
        spare: &["99.9", "p50", "min", "mean", "p99"],
    }
}

fn figures(mark: &WatchedMark, thread: &MarkedThread) -> Vec<String> {
    // A record that was read holds sound histograms.
    let lengths = Histogram::try_from(&thread.lengths).unwrap_or_default();
    let micros = |ns: Option<f64>| ns.map_or_else(none, words::micros);
    // Ten beyond a percentile are the least that support it.
    let percentile = |quantile: f64, least: u64| {
        let supported = lengths.count() >= least;
        micros(
            lengths
                .quantile(quantile)
                .filter(|_| supported)
                .map(|ns| ns as f64),
        )
    };
    vec![
        name(mark),
        words::label(&format!("{}/{}", thread.task.name, thread.task.tid)),
        if mark.point { "interval" } else { "duration" }.to_owned(),
        words::count(thread.count),
        micros(lengths.min().map(|ns| ns as f64)),
        micros(lengths.mean()),
        percentile(0.5, 20),
        percentile(0.99, 1_000),
        percentile(0.999, 10_000),
        micros(lengths.max().map(|ns| ns as f64)),
    ]
}

/// The longest, and what the thread went through within them.
pub(super) fn worst(run: &Run, watch: &Watch) -> Table {
    let mut rows = Vec::new();
    for mark in &watch.marks {
        let of = |thread: &MarkedThread| {
            let name = format!("{}/{}", thread.task.name, thread.task.tid);
            let worst = thread.worst.clone().into_iter();
            worst
                .map(move |one| (name.clone(), one))
                .collect::<Vec<_>>()
        };
        let mut all: Vec<_> = mark.threads.iter().flat_map(of).collect();
        all.sort_by_key(|(_, one)| std::cmp::Reverse(one.length_ns));
        for (thread, one) in all.into_iter().take(LONGEST) {
            rows.push(vec![
                name(mark),
                words::label(&thread),
                words::duration(one.length_ns),
                match one.waited_ns {
                    None | Some(0) => none(),
                    Some(ns) => words::duration(ns),
                },
                some_count(one.preempted),
                some_count(one.slept),
                some_count(one.faults),
                instant(run, one.at_ns),
            ]);
        }
    }
    Table {
        name: "The longest of its marks",
        heads: vec![
            "mark",
            "thread",
            "took",
            "without a CPU",
            "preempted",
            "slept",
            "faults",
            "at",
        ],
        rows,
        below: None,
        asked: false,
        spare: &["thread"],
    }
}
