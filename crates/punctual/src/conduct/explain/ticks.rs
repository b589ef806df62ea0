//! The latest ticks of threads that their runtime stops, each with what made it late.

use std::cmp::Reverse;

use super::feed::Tick;
use crate::conduct::culprits;
use punctual_record::explanation::{Culprit, Doing};
use punctual_record::watch::{TickRow, WatchedRuntime};
use punctual_trace::attribute::waits::tick;
use punctual_trace::capture::Capture;
use punctual_trace::capture::numbers::Numbers;

/// Ticks that are followed per round: one on a busy machine takes a few ms.
const AT_ONCE: usize = 4;

/// The latest so far, the latest first.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    kept: Vec<(Tick, Vec<TickRow>)>,
    /// Ticks that there was no time for.
    pending: Vec<Tick>,
}

fn late_ns(tick: &Tick) -> u64 {
    tick.begun_ns.saturating_sub(tick.due_ns)
}

impl Ticks {
    /// Follows those of the ticks that are later than the ones before.
    pub(super) fn take(&mut self, ticks: Vec<Tick>, capture: &Capture, numbers: &Numbers) {
        self.pending.extend(ticks);
        self.pending.sort_by_key(|tick| Reverse(late_ns(tick)));
        self.pending.truncate(WatchedRuntime::BILLS);
        if let Some((least, _)) = self.kept.get(WatchedRuntime::BILLS - 1) {
            let least_ns = late_ns(least);
            self.pending.retain(|tick| late_ns(tick) > least_ns);
        }
        let now = self.pending.len().min(AT_ONCE);
        for late in self.pending.drain(..now).collect::<Vec<_>>() {
            let (due_ns, begun_ns) = (late.due_ns, late.begun_ns);
            let (window, known_from_ns) = capture.wait(late.tid, late.at, due_ns, begun_ns);
            let mut rows = tick(&window, known_from_ns, &late.pauses);
            culprits::look_up_threads(threads(&mut rows), begun_ns, numbers);
            let before = |kept: &(Tick, Vec<TickRow>)| late_ns(&kept.0) >= late_ns(&late);
            let at = self.kept.partition_point(before);
            self.kept.insert(at, (late, rows));
        }
        self.kept.truncate(WatchedRuntime::BILLS);
    }

    /// Whether there was no time for some.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What is known of one.
    pub(super) fn rows(&self, tid: u32, due_ns: u64) -> Option<Vec<TickRow>> {
        let mut kept = self.kept.iter();
        let (_, rows) = kept.find(|(tick, _)| (tick.tid, tick.due_ns) == (tid, due_ns))?;
        Some(rows.clone())
    }
}

/// All threads in it, those with the most time first.
fn threads(rows: &mut [TickRow]) -> Vec<&mut Culprit> {
    let mut threads: Vec<&mut Culprit> = Vec::new();
    for TickRow { row, .. } in rows {
        threads.extend(&mut row.thread);
        if let Doing::Ready { behind } = &mut row.doing {
            threads.extend(behind);
        }
    }
    threads.sort_by_key(|thread| Reverse(thread.ns));
    threads
}
