//! What each thread did when, and what woke it.

use std::collections::BTreeMap;

use crate::attribute::event::{Event, Kind, Task};
use crate::attribute::naming;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Now {
    /// It runs on this CPU.
    On(u32),
    Ready,
    Asleep,
    Stopped,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Woken<'w> {
    pub at: u64,
    pub cpu: u32,
    /// Absent if an interrupt did it.
    pub by: Option<&'w Task>,
}

/// A thread that is about to leave its CPU may be woken; the switch away follows.
const CROSSING_NS: u64 = 100_000;

#[derive(Debug, Default)]
struct Life<'w> {
    /// What it did, and from when on.
    turns: Vec<(u64, Now)>,
    /// By the instant at which it became ready.
    wakings: Vec<(u64, Woken<'w>)>,
    /// It was woken while it still had the CPU.
    early: Option<Woken<'w>>,
}

impl<'w> Life<'w> {
    fn now(&self) -> Option<Now> {
        self.turns.last().map(|turn| turn.1)
    }

    fn wakes(&mut self, woken: Woken<'w>) {
        match self.now() {
            Some(Now::On(_)) => self.early = Some(woken),
            Some(Now::Ready) => {
                // A ready thread is not woken: the previous waking did not end this sleep.
                if let [.., (slept, Now::Asleep), (ready, Now::Ready)] = self.turns[..]
                    && slept == ready
                {
                    self.turns.pop();
                    self.wakings.pop();
                    self.turns.push((woken.at, Now::Ready));
                    self.wakings.push((woken.at, woken));
                }
            }
            before => {
                if before.is_none() {
                    self.turns.push((0, Now::Asleep));
                }
                self.turns.push((woken.at, Now::Ready));
                self.wakings.push((woken.at, woken));
            }
        }
    }

    fn leaves(&mut self, at: u64, cpu: u32, now: Now) {
        if self.turns.is_empty() {
            self.turns.push((0, Now::On(cpu)));
        }
        self.turns.push((at, now));
        let early = self.early.take();
        let crossing = early.filter(|woken| woken.at.saturating_add(CROSSING_NS) >= at);
        if let (Some(woken), Now::Asleep) = (crossing, now) {
            self.turns.push((at, Now::Ready));
            self.wakings.push((at, woken));
        }
    }

    fn comes(&mut self, at: u64, cpu: u32) {
        if self.turns.is_empty() {
            self.turns.push((0, Now::Ready));
        }
        self.turns.push((at, Now::On(cpu)));
    }
}

/// The threads of a window.
#[derive(Debug, Default)]
pub(super) struct Lives<'w> {
    threads: BTreeMap<u32, Life<'w>>,
    tasks: BTreeMap<u32, &'w Task>,
}

impl<'w> Lives<'w> {
    /// From events in order.
    pub(super) fn of(events: &[&'w Event]) -> Self {
        let mut lives = Self::default();
        for event in events {
            let (at, cpu) = (event.at_ns, event.cpu);
            match &event.kind {
                Kind::Switch {
                    from,
                    from_state,
                    preempted,
                    to,
                } => {
                    let now = match *from_state {
                        _ if *preempted => Now::Ready,
                        0 => Now::Ready,
                        state if naming::is_stopped(state) => Now::Stopped,
                        _ => Now::Asleep,
                    };
                    // Each CPU has an idle task, and all of them have number 0.
                    if from.tid != 0 {
                        lives
                            .threads
                            .entry(from.tid)
                            .or_default()
                            .leaves(at, cpu, now);
                        lives.tasks.entry(from.tid).or_insert(from);
                    }
                    if to.tid != 0 {
                        lives.threads.entry(to.tid).or_default().comes(at, cpu);
                        lives.tasks.insert(to.tid, to);
                    }
                }
                Kind::Waking { tid, by } => {
                    let by = by.as_ref();
                    let woken = Woken { at, cpu, by };
                    lives.threads.entry(*tid).or_default().wakes(woken);
                }
                Kind::Rename { task } => {
                    lives.tasks.insert(task.tid, task);
                }
                _ => {}
            }
        }
        lives
    }

    /// What a thread did just before an instant, since when, and what it did after that.
    pub(super) fn before(&self, tid: u32, at: u64) -> (u64, Now, Option<Now>) {
        let turns = self.threads.get(&tid).map_or(&[][..], |life| &life.turns);
        let end = turns.partition_point(|turn| turn.0 < at);
        let next = turns.get(end).map(|turn| turn.1);
        match end.checked_sub(1).map(|index| turns[index]) {
            Some((since, now)) => (since, now, next),
            // It was never seen: treated as asleep and not woken.
            None => (0, Now::Asleep, next),
        }
    }

    /// How a sleep ended at an instant.
    pub(super) fn woken(&self, tid: u32, at: u64) -> Option<Woken<'w>> {
        let wakings = &self.threads.get(&tid)?.wakings;
        let index = wakings.binary_search_by_key(&at, |waking| waking.0).ok()?;
        Some(wakings[index].1)
    }

    /// When a thread last began to run, up to an instant.
    pub(super) fn came(&self, tid: u32, until: u64) -> Option<u64> {
        let turns = &self.threads.get(&tid)?.turns;
        let end = turns.partition_point(|turn| turn.0 <= until);
        let mut before = turns[..end].iter().rev();
        let came = before.find(|turn| matches!(turn.1, Now::On(_)))?;
        (came.0 > 0).then_some(came.0)
    }

    /// When it had gone to sleep before it began to run at an instant.
    pub(super) fn left(&self, tid: u32, came: u64) -> Option<u64> {
        let turns = &self.threads.get(&tid)?.turns;
        let end = turns.partition_point(|turn| turn.0 < came);
        let mut before = turns[..end].iter().rev();
        let left = before.find(|turn| matches!(turn.1, Now::Asleep | Now::Stopped))?;
        (left.0 > 0).then_some(left.0)
    }

    pub(super) fn task(&self, tid: u32) -> Option<&'w Task> {
        self.tasks.get(&tid).copied()
    }

    /// A thread that no switch shows.
    pub(super) fn know(&mut self, task: &'w Task) {
        self.tasks.entry(task.tid).or_insert(task);
    }
}
