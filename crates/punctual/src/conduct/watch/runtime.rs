//! The runtime of a watched program: its pauses, from a mark, and the ticks that they made late.

use std::cmp::Reverse;

use super::compose;
use super::followed::Followed;
use super::ticks::{LateTick, Pause, Ticks};
use crate::conduct::explain::{Explaining, Tick};
use punctual_record::watch::{self, ThreadRole, TickBill, WatchedRuntime};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::Wake;
use punctual_trace::watch::marks::MarkPass;
use punctual_trace::watch::marks::preset::Preset;

/// A tick that begins later than this is late, if nothing else is requested.
const LATE_NS: u64 = 1_000_000;

/// What is known of the runtime.
pub(super) struct RuntimeWatch {
    preset: &'static Preset,
    above_ns: u64,
    ticks: Option<Ticks>,
    /// Of all pauses.
    waited_ns: Option<u64>,
    /// The latest, the latest first.
    worst: Vec<LateTick>,
}

impl RuntimeWatch {
    /// Ticks later than this are late.
    pub(super) fn new(preset: &'static Preset, above_ns: Option<u64>) -> Self {
        let above_ns = above_ns.unwrap_or(LATE_NS);
        Self {
            preset,
            above_ns,
            ticks: preset.has_ticks.then(|| Ticks::new(above_ns)),
            waited_ns: Some(0),
            worst: Vec::new(),
        }
    }

    /// Adds a wake-up of a thread, by its place among those of the watch; `due_ns` is the instant of
    /// a new wait for its timer.
    pub(super) fn add_wake_up(
        &mut self,
        (place, thread): (usize, &Followed),
        wake: &Wake,
        due_ns: Option<u64>,
    ) {
        let role = self.preset.role(&thread.sleeper.task.name);
        if let Some(ticks) = self.ticks.as_mut().filter(|_| role == ThreadRole::Program) {
            ticks.add_wake_up(place, wake, due_ns);
        }
    }

    /// Adds the pauses among these passes of marks: the preset's marks are the first ones.
    pub(super) fn add_passes(&mut self, passes: &[MarkPass]) {
        let pauses = passes.iter().filter(|pass| pass.mark == 0);
        for (pass, length) in pauses.filter_map(|pass| Some((pass, pass.length?))) {
            let sum = self.waited_ns.zip(length.waited_ns);
            self.waited_ns = sum.map(|(sum, ns)| sum.saturating_add(ns));
            if let Some(ticks) = &mut self.ticks {
                ticks.add_pause(Pause {
                    from_ns: pass.at_ns.saturating_sub(length.ns),
                    to_ns: pass.at_ns,
                    waited_ns: length.waited_ns.unwrap_or(0),
                });
            }
        }
    }

    /// The late ticks of which everything is known by now; at the end, all of them.
    pub(super) fn settle(&mut self, now_ns: u64, end: bool) -> Vec<Tick> {
        let late = self.ticks.as_mut().map(|ticks| ticks.settle(now_ns, end));
        let late = late.unwrap_or_default();
        let tick = |late: &LateTick| Tick {
            tid: late.tid,
            at: late.at,
            due_ns: late.due_ns,
            begun_ns: late.begun_ns,
            pauses: late.pauses.clone(),
        };
        let ticks = late.iter().map(tick).collect();
        self.worst.extend(late);
        self.worst
            .sort_by_key(|late| Reverse(late.spent.total_ns()));
        self.worst.truncate(WatchedRuntime::BILLS);
        ticks
    }

    /// For the record.
    pub(super) fn compose(
        &self,
        threads: &[Followed],
        explaining: Option<&Explaining>,
        numbers: &Numbers,
    ) -> WatchedRuntime {
        let task = |place: usize| compose::task(&threads[place].sleeper.task, numbers);
        let all = self.ticks.iter().flat_map(|ticks| &ticks.threads);
        let seen = all.clone().enumerate().filter(|(_, ticks)| ticks.count > 0);
        let bill = |late: &LateTick| TickBill {
            task: task(late.thread),
            due_ns: late.due_ns,
            late_ns: late.spent.total_ns(),
            spent: late.spent,
            rows: explaining
                .and_then(|it| it.tick(late.tid, late.due_ns))
                .unwrap_or_default(),
        };
        WatchedRuntime {
            runtime: self.preset.runtime,
            pause: self
                .preset
                .specs()
                .first()
                .map_or_else(String::new, |it| it.name.clone()),
            pause_waited_ns: self.waited_ns,
            roles: threads
                .iter()
                .map(|it| self.preset.role(&it.sleeper.task.name))
                .collect(),
            late_above_ns: self.ticks.is_some().then_some(self.above_ns),
            ticks: seen
                .map(|(place, ticks)| watch::Ticks {
                    task: task(place),
                    count: ticks.count,
                    late: ticks.late,
                    held: ticks.held,
                    spent: ticks.spent,
                    worst_ns: ticks.worst_ns,
                })
                .collect(),
            beyond: all.map(|ticks| ticks.beyond).sum(),
            bills: self.worst.iter().map(bill).collect(),
        }
    }
}
