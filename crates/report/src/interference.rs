//! In words: which operations wait while other threads of the program map memory, and for whom.

use punctual_record::explanation::{Doing, WaitRow};
use punctual_record::interference::{Interference, LockWaits, Operation, OperationTimes};
use punctual_stats::histogram::{Histogram, HistogramRecord};

use crate::experiment::fact_lines;
use crate::explain::waits::{named, text, woken_by};
use crate::style::{Style, Tone, cut, wrap};
use crate::table::{self, Cell};
use crate::words;

/// Rows of a wait that are shown.
const ROWS: usize = 3;

/// What an operation is.
fn what(operation: Operation) -> &'static str {
    match operation {
        Operation::Futex => "a timed wait on a futex (100 µs)",
        Operation::Condvar => "a timed wait on a condition variable (100 µs)",
        Operation::Mutex => "lock and unlock a mutex that a thread holds for 100 µs more",
        Operation::Fault => "the first touch of a page",
        Operation::Mmap => "mmap and munmap of one page",
        Operation::Proc => "read /proc/self/maps",
    }
}

/// Those that waited for the lock, or did not.
fn names(done: &Interference, waited: bool) -> Vec<String> {
    let all = done.operations.iter();
    let those = all.filter(|it| (it.waits.count > 0) == waited);
    those.map(|it| it.operation.to_string()).collect()
}

/// The result in a sentence.
#[must_use]
pub fn sentence(done: &Interference) -> String {
    let (waited, free) = (names(done, true), names(done, false));
    let beside = format!(
        "while {} threads of the program map, touch and unmap {} each",
        done.mappers,
        words::bytes(done.map_bytes)
    );
    let (waited, free) = (waited.join(", "), free.join(", "));
    match (waited.is_empty(), free.is_empty(), done.unplaced) {
        (true, _, 0) => format!("No operation waited for mmap_lock {beside}."),
        (false, true, _) => format!("Every operation waited for mmap_lock {beside}."),
        (false, false, 0) => format!("{waited} waited for mmap_lock {beside}; {free} did not."),
        (_, _, count) => {
            let whose = match waited.is_empty() {
                true => format!("Whether operations waited for mmap_lock {beside} is not known"),
                false => {
                    format!(
                        "{waited} waited for mmap_lock {beside}; whether {free} did is not known"
                    )
                }
            };
            let sleeps = words::plural(count, "sleep has", "sleeps have");
            format!("{whose}: {sleeps} no known place.")
        }
    }
}

/// The summary, with a final newline; the record of the watch is in that directory.
#[must_use]
pub fn summary(done: &Interference, place: &str, style: &Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in wrap(&sentence(done), style.columns()) {
        lines.push(style.paint(Tone::Bold, &line));
    }
    lines.push(String::new());
    lines.push(style.paint(
        Tone::Bold,
        "How long an operation takes, in µs, and its waits for mmap_lock",
    ));
    let rows: Vec<Vec<Cell>> = std::iter::once(head())
        .chain(done.operations.iter().map(row))
        .collect();
    lines.extend(table::set(&rows, style.columns(), style));
    lines.push(String::new());
    for of in &done.operations {
        lines.extend(fact_lines(style, &of.operation.to_string(), &detail(of)));
    }
    let cycles = format!(
        "each operation every {} in a thread with SCHED_FIFO {}, for {}; alone and beside {} \
         mappings in turns",
        words::duration(done.period_ns),
        done.priority,
        words::duration(done.measured_ns),
        words::count(done.maps),
    );
    lines.extend(fact_lines(style, "Measured", &cycles));
    let more = format!("punctual report -v {place}");
    lines.extend(fact_lines(style, "Details", &more));
    let lines = lines
        .iter()
        .map(|line| cut(line.trim_end(), style.columns()) + "\n");
    lines.collect()
}

fn head() -> Vec<Cell> {
    let heads = [
        "operation",
        "alone p50",
        "max",
        "beside p50",
        "p90",
        "max",
        "waits",
        "longest",
        "in all",
    ];
    heads.into_iter().map(Cell::new).collect()
}

fn row(of: &OperationTimes) -> Vec<Cell> {
    let mut row = vec![Cell::new(of.operation.to_string())];
    row.extend(quantiles(&of.alone, &[0.5]));
    row.extend(quantiles(&of.beside, &[0.5, 0.9]));
    row.extend(waits(&of.waits).map(Cell::new));
    row
}

/// The quantiles, and the maximum.
fn quantiles(times: &HistogramRecord, wanted: &[f64]) -> Vec<Cell> {
    // A record that was read holds sound histograms.
    let times = Histogram::try_from(times).unwrap_or_default();
    let micros = |ns: Option<u64>| ns.map_or_else(|| "—".to_owned(), |ns| words::micros(ns as f64));
    // Ten beyond a percentile are the least that support it.
    let supported = |quantile: f64| {
        let least = (10.0 / (1.0 - quantile)).round() as u64;
        times.quantile(quantile).filter(|_| times.count() >= least)
    };
    let wanted = wanted.iter().map(|it| supported(*it));
    let all = wanted.chain([times.max()]);
    all.map(|ns| Cell::new(micros(ns))).collect()
}

fn waits(waits: &LockWaits) -> [String; 3] {
    match waits.count {
        0 => ["—".to_owned(), "—".to_owned(), "—".to_owned()],
        count => [
            words::count(count),
            words::duration(waits.longest_ns),
            words::duration(waits.total_ns),
        ],
    }
}

/// What it is, and for whom it waited longest.
fn detail(of: &OperationTimes) -> String {
    let what = what(of.operation);
    let Some(wait) = &of.longest else {
        return format!("{what}; no other thread ended a wait");
    };
    let mut rows: Vec<&WaitRow> = wait.rows.iter().filter(|row| row.ns > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    let rows = rows.iter().take(ROWS).map(|row| match &row.doing {
        Doing::Ready { behind: Some(by) } => format!(
            "{} was ready to run, {} had its CPU {}",
            named(row.thread.as_ref()),
            named(Some(by)),
            words::duration(row.ns)
        ),
        _ => format!("{} {}", text(row), words::duration(row.ns)),
    });
    format!(
        "{what}; longest wait {}, {}: {}",
        words::duration(wait.wait_ns),
        words::clean(&woken_by(wait)),
        rows.collect::<Vec<_>>().join("; ")
    )
}
