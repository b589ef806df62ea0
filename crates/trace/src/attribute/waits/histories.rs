//! What each thread did when, and what woke it.

use std::collections::BTreeMap;

use crate::attribute::event::{Event, Kind, Task};
use crate::attribute::naming;
use crate::attribute::track::CROSSING_NS;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// It runs on this CPU.
    On(u32),
    Ready,
    Asleep,
    Stopped,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct SleepEnd<'w> {
    pub at: u64,
    pub cpu: u32,
    /// Absent if an interrupt did it.
    pub by: Option<&'w Task>,
}

#[derive(Debug, Default)]
struct ThreadHistory<'w> {
    /// What it did, and from when on.
    turns: Vec<(u64, ThreadState)>,
    /// By the instant at which it became ready.
    wakings: Vec<(u64, SleepEnd<'w>)>,
    /// It was woken while it still had the CPU.
    early: Option<SleepEnd<'w>>,
}

impl<'w> ThreadHistory<'w> {
    fn now(&self) -> Option<ThreadState> {
        self.turns.last().map(|turn| turn.1)
    }

    fn wakes(&mut self, woken: SleepEnd<'w>) {
        match self.now() {
            Some(ThreadState::On(_)) => self.early = Some(woken),
            Some(ThreadState::Ready) => {
                // A ready thread is not woken: the previous waking did not end this sleep.
                if let [
                    ..,
                    (slept, ThreadState::Asleep),
                    (ready, ThreadState::Ready),
                ] = self.turns[..]
                    && slept == ready
                {
                    self.turns.pop();
                    self.wakings.pop();
                    self.turns.push((woken.at, ThreadState::Ready));
                    self.wakings.push((woken.at, woken));
                }
            }
            before => {
                if before.is_none() {
                    self.turns.push((0, ThreadState::Asleep));
                }
                self.turns.push((woken.at, ThreadState::Ready));
                self.wakings.push((woken.at, woken));
            }
        }
    }

    fn leave_cpu(&mut self, at: u64, cpu: u32, now: ThreadState) {
        if self.turns.is_empty() {
            self.turns.push((0, ThreadState::On(cpu)));
        }
        self.turns.push((at, now));
        let early = self.early.take();
        let crossing = early.filter(|woken| woken.at.saturating_add(CROSSING_NS) >= at);
        if let (Some(woken), ThreadState::Asleep) = (crossing, now) {
            self.turns.push((at, ThreadState::Ready));
            self.wakings.push((at, woken));
        }
    }

    fn enter_cpu(&mut self, at: u64, cpu: u32) {
        if self.turns.is_empty() {
            self.turns.push((0, ThreadState::Ready));
        }
        self.turns.push((at, ThreadState::On(cpu)));
    }
}

/// The threads of a window.
#[derive(Debug, Default)]
pub(super) struct ThreadHistories<'w> {
    threads: BTreeMap<u32, ThreadHistory<'w>>,
    tasks: BTreeMap<u32, &'w Task>,
}

impl<'w> ThreadHistories<'w> {
    /// From events in order.
    pub(super) fn from_events(events: &[&'w Event]) -> Self {
        let mut histories = Self::default();
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
                        _ if *preempted => ThreadState::Ready,
                        0 => ThreadState::Ready,
                        state if naming::is_stopped(state) => ThreadState::Stopped,
                        _ => ThreadState::Asleep,
                    };
                    // Each CPU has an idle task, and all of them have number 0.
                    if from.tid != 0 {
                        histories
                            .threads
                            .entry(from.tid)
                            .or_default()
                            .leave_cpu(at, cpu, now);
                        histories.tasks.entry(from.tid).or_insert(from);
                    }
                    if to.tid != 0 {
                        histories
                            .threads
                            .entry(to.tid)
                            .or_default()
                            .enter_cpu(at, cpu);
                        histories.tasks.insert(to.tid, to);
                    }
                }
                Kind::Waking { tid, by } => {
                    let by = by.as_ref();
                    let woken = SleepEnd { at, cpu, by };
                    histories.threads.entry(*tid).or_default().wakes(woken);
                }
                Kind::Rename { task } => {
                    histories.tasks.insert(task.tid, task);
                }
                _ => {}
            }
        }
        histories
    }

    /// What a thread did just before an instant, since when, and what it did after that.
    pub(super) fn state_before(
        &self,
        tid: u32,
        at: u64,
    ) -> (u64, ThreadState, Option<ThreadState>) {
        let turns = self
            .threads
            .get(&tid)
            .map_or(&[][..], |history| &history.turns);
        let end = turns.partition_point(|turn| turn.0 < at);
        let next = turns.get(end).map(|turn| turn.1);
        match end.checked_sub(1).map(|index| turns[index]) {
            Some((since, now)) => (since, now, next),
            // It was never seen: treated as asleep and not woken.
            None => (0, ThreadState::Asleep, next),
        }
    }

    /// How a sleep ended at an instant.
    pub(super) fn woken(&self, tid: u32, at: u64) -> Option<SleepEnd<'w>> {
        let wakings = &self.threads.get(&tid)?.wakings;
        let index = wakings.binary_search_by_key(&at, |waking| waking.0).ok()?;
        Some(wakings[index].1)
    }

    /// When a thread last began to run, up to an instant.
    pub(super) fn came(&self, tid: u32, until: u64) -> Option<u64> {
        let turns = &self.threads.get(&tid)?.turns;
        let end = turns.partition_point(|turn| turn.0 <= until);
        let mut before = turns[..end].iter().rev();
        let came = before.find(|turn| matches!(turn.1, ThreadState::On(_)))?;
        (came.0 > 0).then_some(came.0)
    }

    /// When it had gone to sleep before it began to run at an instant.
    pub(super) fn asleep_since(&self, tid: u32, came: u64) -> Option<u64> {
        let turns = &self.threads.get(&tid)?.turns;
        let end = turns.partition_point(|turn| turn.0 < came);
        let mut before = turns[..end].iter().rev();
        let left =
            before.find(|turn| matches!(turn.1, ThreadState::Asleep | ThreadState::Stopped))?;
        (left.0 > 0).then_some(left.0)
    }

    pub(super) fn task(&self, tid: u32) -> Option<&'w Task> {
        self.tasks.get(&tid).copied()
    }

    /// A thread that no switch shows.
    pub(super) fn add_task(&mut self, task: &'w Task) {
        self.tasks.entry(task.tid).or_insert(task);
    }
}
