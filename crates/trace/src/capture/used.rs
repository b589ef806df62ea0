//! Who used up the time that the kernel leaves to real-time threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Capture;
use super::slot::{Slot, kind};
use crate::attribute::event::{Kind, Task};

/// Priorities below this are those of real-time threads, as the kernel counts them.
const ORDINARY: i32 = 100;

impl Capture {
    /// The real-time threads that ran on a CPU between two instants and for how long, the longest
    /// first. Of lost events nothing is counted.
    #[must_use]
    pub fn real_time_threads(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Vec<(Task, u64)> {
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let lane = lanes
            .filter(|(of, _)| **of == cpu)
            .map(|(_, history)| history);
        let slots = lane.flat_map(|history| history.within(from_ns, to_ns).0);
        let switches = slots.filter(|slot| slot.kind() == kind::SWITCH);
        let switch = |slot: Slot| {
            Some((
                slot.at_ns(),
                slot.event_kind(&self.names, self.own, |_| false)?,
            ))
        };
        add_up(switches.filter_map(switch), from_ns, to_ns)
    }
}

fn add_up(
    switches: impl Iterator<Item = (u64, Kind)>,
    from_ns: u64,
    to_ns: u64,
) -> Vec<(Task, u64)> {
    let mut sums: BTreeMap<u32, (Task, u64)> = BTreeMap::new();
    let mut add = |task: Task, ns: u64| {
        if task.tid > 0 && task.priority < ORDINARY && ns > 0 {
            let sum = sums.entry(task.tid).or_insert((task, 0));
            sum.1 = sum.1.saturating_add(ns);
        }
    };
    let (mut since_ns, mut runs) = (from_ns, None);
    for (at_ns, kind) in switches {
        if let Kind::Switch { from, to, .. } = kind {
            add(from, at_ns.saturating_sub(since_ns));
            (since_ns, runs) = (at_ns, Some(to));
        }
    }
    if let Some(task) = runs {
        add(task, to_ns.saturating_sub(since_ns));
    }
    let mut threads: Vec<(Task, u64)> = sums.into_values().collect();
    threads.sort_by_key(|(task, ns)| (Reverse(*ns), task.tid));
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_threads_have_the_time_between_their_switches() {
        let task = |tid, priority| Task {
            tid,
            name: format!("t{tid}"),
            priority,
            policy: 1,
        };
        let switch = |at_ns, from: Task, to: Task| {
            let kind = Kind::Switch {
                from,
                from_state: 0,
                preempted: true,
                to,
            };
            (at_ns, kind)
        };
        let (hog, ordinary, probe) = (task(7, 89), task(8, 120), task(9, 39));
        let switches = [
            switch(1_300, hog.clone(), ordinary.clone()),
            switch(1_350, ordinary.clone(), hog.clone()),
            switch(1_900, hog.clone(), probe.clone()),
        ];
        let found = add_up(switches.into_iter(), 1_000, 2_000);
        assert_eq!(found, [(hog, 850), (probe, 100)]);
        assert_eq!(add_up(std::iter::empty(), 1_000, 2_000), []);
    }
}
