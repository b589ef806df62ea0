//! Gaps between two readings of the clock by a thread that polls it: whether the kernel caused
//! them, and what it did in them.

use std::collections::BTreeMap;

use super::slot::{Slot, kind};
use super::{Capture, Task, Window};

impl Capture {
    /// Whether the kernel did nothing on a recorded CPU between two instants; `None` if
    /// that isn't known. The last copied event must be later than both.
    #[must_use]
    pub fn is_quiet(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Option<bool> {
        let index = self.options.cpus.iter().position(|known| *known == cpu)?;
        self.histories.get(index)?.is_quiet(from_ns, to_ns)
    }

    /// What happened in a gap of a target, without its surroundings: at both ends the target
    /// ran. `None` if `probe` is not a target.
    #[must_use]
    pub fn gap(&self, probe: Task, from_ns: u64, to_ns: u64) -> Option<Window> {
        let targets = &self.options.targets;
        let (_, cpu) = *targets.iter().find(|(known, _)| *known == probe.tid)?;
        let own = self.options.cpus.iter().position(|known| *known == cpu)?;
        Some(self.span(probe, own, from_ns, to_ns, &[]))
    }

    /// What the CPU at this position did between two instants at which a target ran on it, and what
    /// the others did for the target, or that is in `more`.
    pub(super) fn span(
        &self,
        probe: Task,
        own: usize,
        from_ns: u64,
        to_ns: u64,
        more: &[Slot],
    ) -> Window {
        let cpu = self.options.cpus[own];
        let history = &self.histories[own];
        let (mut slots, lost) = history.within(from_ns, to_ns);
        let others = self.histories.iter().enumerate();
        for (_, other) in others.filter(|(index, _)| *index != own) {
            let (here, _) = other.within(from_ns, to_ns);
            let concerns =
                |slot: &Slot| slot.kind() == kind::WAKING && slot.a() as u32 == probe.tid;
            if more.is_empty() {
                slots.extend(here.into_iter().filter(concerns));
            }
        }
        slots.extend(more);
        slots.sort_by_key(Slot::at_ns);
        self.add_senders(&mut slots);
        let account = |slot: &Slot| slot.stolen_ns().is_some();
        let stolen = [
            history.last_before(from_ns, account).copied(),
            history.first_after(to_ns, account).copied(),
        ];
        let mut window = Window {
            cpu,
            probe,
            waiting_ns: from_ns,
            due_ns: from_ns,
            woken_ns: to_ns,
            lost,
            preempt_rt: self.preempt_rt,
            limits: Vec::new(),
            stalls: self.stalls(super::WakeUpPlace::on_cpu(cpu), from_ns, to_ns),
            cut: false,
            left: None,
            gap: true,
            job: false,
            events: self.events_of(&slots, stolen, None, (from_ns, to_ns)),
            symbols: BTreeMap::new(),
            origins: BTreeMap::new(),
        };
        self.complete(&mut window);
        window
    }

    /// System management interrupts of a recorded CPU since the start, if the processor
    /// counts them.
    #[must_use]
    pub fn smi_count(&self, cpu: u32) -> Option<u64> {
        self.smi.as_ref()?.since_start(cpu)
    }
}
