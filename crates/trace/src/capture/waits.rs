//! What happened on all CPUs while a thread waited for another.

use std::collections::BTreeMap;

use super::slot::{Slot, kind};
use super::{Capture, WakeUpPlace};
use crate::attribute::event::{Task, Window};

/// Events of one wait, the last ones: some 50 ms of a busy machine, seconds of a quiet one; and at
/// least this many of one CPU.
const EVENTS: usize = 1 << 16;
const EVENTS_OF_CPU: usize = 1 << 12;
/// The two BPF programs that see a waking read the clock one after the other.
const APART_NS: u64 = 100_000;

impl Capture {
    /// The thread that woke a thread at an instant, and the CPU; absent if an interrupt did, or if it
    /// was not recorded.
    #[must_use]
    pub fn waker(&self, tid: u32, waking_ns: u64, cpu: u32) -> Option<Task> {
        let mut lanes = self.options.cpus.iter().zip(&self.histories);
        let (_, history) = lanes.find(|(known, _)| **known == cpu)?;
        let wakes = |slot: &Slot| slot.kind() == kind::WAKING && slot.a() as u32 == tid;
        let waking = history.last_before(waking_ns.saturating_add(APART_NS), wakes)?;
        if waking.at_ns().abs_diff(waking_ns) > APART_NS {
            return None;
        }
        waking.waker()
    }

    /// What happened between two instants, on all CPUs, and since when no event of that is missing:
    /// for [`chain`](crate::attribute::waits::chain).
    #[must_use]
    pub fn wait(&self, tid: u32, at: WakeUpPlace, from_ns: u64, to_ns: u64) -> (Window, u64) {
        let lanes = self.histories.iter().take(self.options.cpus.len());
        let each = (EVENTS / lanes.len().max(1)).max(EVENTS_OF_CPU);
        let known = lanes.clone().map(|history| {
            let looked_at = history.since(to_ns, each).unwrap_or(0);
            history.known_from(to_ns).max(looked_at)
        });
        let known_from_ns = known.max().unwrap_or(0);
        let begin_ns = from_ns.max(known_from_ns);
        let mut slots: Vec<Slot> = Vec::new();
        for history in lanes {
            slots.extend(history.cut(begin_ns, to_ns).0);
        }
        slots.sort_by_key(Slot::at_ns);
        let events = self.events_of(&slots, [None; 2], None, (from_ns, to_ns));
        let mut window = Window {
            cpu: at.running,
            probe: self.probe(tid, &events),
            waiting_ns: from_ns,
            due_ns: from_ns,
            woken_ns: to_ns,
            lost: 0,
            preempt_rt: self.preempt_rt,
            gap: false,
            job: false,
            limits: Vec::new(),
            stalls: Vec::new(),
            cut: false,
            left: None,
            events,
            symbols: BTreeMap::new(),
            origins: BTreeMap::new(),
        };
        self.complete(&mut window);
        (window, known_from_ns)
    }
}
