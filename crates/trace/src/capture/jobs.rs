//! What happened while the job of a task was released and executed.

use std::collections::BTreeMap;

use super::slot::{Slot, kind};
use super::{Capture, Task, WINDOW, WakeUpPlace, Window};

/// Events of all CPUs with which a job is explained.
const EVENTS: usize = 8 * WINDOW;

impl Capture {
    /// The execution of a job of `task` from its start to its end, at both of which it ran; on a
    /// recorded CPU, or wherever its events say that it began. `None` where that is not known.
    ///
    /// Beside the events of that CPU it holds those of all others where the thread may have been on
    /// them, or waited for a lock.
    #[must_use]
    pub fn job(&self, task: Task, cpu: Option<u32>, from_ns: u64, to_ns: u64) -> Option<Window> {
        let bound = cpu.is_some();
        let cpu = cpu.or_else(|| self.ran_on(task.tid, from_ns))?;
        let own = self.options.cpus.iter().position(|known| *known == cpu)?;
        let (here, _) = self.histories.get(own)?.within(from_ns, to_ns);
        let waits = here.iter().any(|slot| slot.kind() == kind::LOCK_WAIT);
        let more = match bound && !waits {
            true => Vec::new(),
            false => self.others(own, from_ns, to_ns, here.len()),
        };
        if more.len() + here.len() > EVENTS {
            return None;
        }
        let mut window = self.span(task, own, from_ns, to_ns, &more);
        if !bound || waits {
            // What a CPU did that it was on, or the holder of a lock, may be missing.
            let lost = self.histories.iter().take(self.options.cpus.len());
            window.lost = lost.map(|other| other.within(from_ns, to_ns).1).sum();
        }
        window.job = true;
        Some(window)
    }

    /// What all recorded CPUs did from the arrival of a job to its end; `None` if that is too much.
    #[must_use]
    pub fn around_job(&self, task: Task, from_ns: u64, to_ns: u64) -> Option<Window> {
        let margin_ns = (to_ns.saturating_sub(from_ns) / 16).max(10_000);
        let begin_ns = from_ns.saturating_sub(margin_ns);
        let slots = self.others(usize::MAX, begin_ns, to_ns.saturating_add(margin_ns), 0);
        if slots.len() > EVENTS {
            return None;
        }
        let mut window = Window {
            cpu: slots.first().map_or(0, Slot::cpu),
            probe: task,
            waiting_ns: from_ns,
            due_ns: from_ns,
            woken_ns: to_ns,
            lost: 0,
            preempt_rt: self.preempt_rt,
            gap: false,
            job: false,
            cut: false,
            left: None,
            limits: Vec::new(),
            stalls: Vec::new(),
            events: self.events_of(&slots, [None; 2], None, (from_ns, to_ns)),
            symbols: BTreeMap::new(),
            origins: BTreeMap::new(),
        };
        self.complete(&mut window);
        Some(window)
    }

    /// Where a thread became ready for the job that it began at an instant, and where it then ran;
    /// `None` where that is not known.
    #[must_use]
    pub fn place_of(&self, tid: u32, released_ns: u64, started_ns: u64) -> Option<WakeUpPlace> {
        let running = self.ran_on(tid, started_ns)?;
        let wakes = |slot: &Slot| slot.kind() == kind::WAKING && slot.a() as u32 == tid;
        let wakings = self.histories.iter().filter_map(|history| {
            let waking = history.last_before(started_ns, wakes)?;
            (waking.at_ns() >= released_ns).then_some(waking)
        });
        let waking = wakings.max_by_key(|slot| slot.at_ns()).map(Slot::cpu);
        Some(WakeUpPlace {
            waking: waking.unwrap_or(running),
            running,
        })
    }

    /// The CPU on which a thread ran at an instant; `None` where no switch shows it.
    fn ran_on(&self, tid: u32, at_ns: u64) -> Option<u32> {
        let of_it = |slot: &Slot| {
            slot.kind() == kind::SWITCH && (slot.from_tid() == tid || slot.to_tid() == tid)
        };
        let lanes = self.histories.iter().take(self.options.cpus.len());
        let last = lanes
            .filter_map(|history| history.last_before(at_ns, of_it))
            .max_by_key(|slot| slot.at_ns())?;
        (last.to_tid() == tid).then(|| last.cpu())
    }

    /// The events of all CPUs but one, from the last switch before an instant to another instant: all
    /// of them, or those that say which thread ran where, if there are too many.
    fn others(&self, own: usize, from_ns: u64, to_ns: u64, beside: usize) -> Vec<Slot> {
        let mut slots: Vec<Slot> = Vec::new();
        let switch = |slot: &Slot| slot.kind() == kind::SWITCH;
        for (index, other) in self.histories.iter().enumerate() {
            if index == own {
                continue;
            }
            if index < self.options.cpus.len() {
                let before = other.last_before(from_ns.saturating_sub(1), switch);
                slots.extend(before.copied());
            }
            slots.extend(other.within(from_ns, to_ns).0);
        }
        if slots.len() + beside > WINDOW {
            let threads = [kind::SWITCH, kind::WAKING, kind::MIGRATE, kind::LOCK_WAIT];
            slots.retain(|slot| threads.contains(&slot.kind()));
        }
        slots.sort_by_key(Slot::at_ns);
        slots
    }
}
