//! The longest intervals of a watched program's marks, to be shown beside what ran meanwhile.

use crate::words;
use punctual_record::Run;
use punctual_record::explanation::{Bill, Picture};
use punctual_record::watch::WorstLength;

/// Intervals in one picture, at most: the longest.
const MOST: usize = 64;

/// One of the longest intervals of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval<'a> {
    /// Whose: `controller/4711`.
    pub thread: String,
    /// Of which mark.
    pub mark: &'a str,
    /// When it began, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// How long it took, and what the thread went through within it.
    pub worst: &'a WorstLength,
}

impl Interval<'_> {
    /// When it ended, CLOCK_MONOTONIC.
    #[must_use]
    pub fn to_ns(&self) -> u64 {
        self.worst.at_ns
    }

    /// What a bar of it says: `step() 1.45 ms`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} {}", self.mark, words::duration(self.worst.length_ns))
    }
}

/// All that the record keeps: by thread, then in the order of the marks, the earliest first.
/// None of a merged record, whose instants are of several machines or boots.
#[must_use]
pub fn intervals(run: &Run) -> Vec<Interval<'_>> {
    let watch = run.watch.iter().filter(|_| run.merged.is_none());
    let mut found = Vec::new();
    for (at, mark) in watch.flat_map(|watch| watch.marks.iter().enumerate()) {
        for thread in &mark.threads {
            let name = format!("{}/{}", thread.task.name, thread.task.tid);
            found.extend(thread.worst.iter().map(|worst| {
                let interval = Interval {
                    thread: name.clone(),
                    mark: &mark.name,
                    from_ns: worst.at_ns.saturating_sub(worst.length_ns),
                    worst,
                };
                (at, interval)
            }));
        }
    }
    found.sort_by(|(a, one), (b, other)| {
        (&one.thread, a, one.from_ns).cmp(&(&other.thread, b, other.from_ns))
    });
    found.into_iter().map(|(_, interval)| interval).collect()
}

/// Those of them that a bill's picture shows a part of.
#[must_use]
pub fn around<'a>(all: &[Interval<'a>], bill: &Bill, picture: &Picture) -> Vec<Interval<'a>> {
    let at = |offset: i64| bill.due_ns.saturating_add_signed(offset);
    let woken_ns = bill.due_ns.saturating_add(bill.latency_ns);
    let first = picture.spans.iter().map(|span| at(span.from_ns)).min();
    let last = picture.spans.iter().map(|span| at(span.to_ns)).max();
    let from_ns = first.unwrap_or(bill.due_ns).min(bill.due_ns);
    let to_ns = last.unwrap_or(woken_ns).max(woken_ns);
    let near = |it: &&Interval<'_>| it.from_ns < to_ns && it.to_ns() > from_ns;
    let mut near: Vec<Interval<'a>> = all.iter().filter(near).cloned().collect();
    if near.len() > MOST {
        let mut lengths: Vec<u64> = near.iter().map(|it| it.worst.length_ns).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let least_ns = lengths[MOST - 1];
        near.retain(|it| it.worst.length_ns >= least_ns);
        near.truncate(MOST);
    }
    near
}
