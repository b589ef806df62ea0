//! From events to the instants that each wake-up went through.

use std::collections::{HashMap, VecDeque};

use super::slot::{LOCAL_TIMER, Slot, kind};
use crate::record::explanation::Instants;

/// Wake-ups of a thread that wait for their sample.
const KEPT: usize = 1 << 16;

/// What a CPU is at.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// Since when in the timer's interrupt.
    interrupt_ns: Option<u64>,
    /// In the callback of which timer, and since when.
    callback: Option<(u64, u64)>,
}

/// What a target is at.
#[derive(Debug, Default)]
struct Target {
    timer: u64,
    due_ns: u64,
    waking: Option<Waking>,
    done: VecDeque<Instants>,
}

#[derive(Debug, Clone, Copy)]
struct Waking {
    at_ns: u64,
    on_cpu: u32,
    interrupt_ns: Option<u64>,
    callback_ns: Option<u64>,
    interrupt_end_ns: Option<u64>,
}

/// Follows the wake-ups of all targets.
#[derive(Debug, Default)]
pub struct Chains {
    cpus: HashMap<u32, Cpu>,
    targets: HashMap<u32, Target>,
}

impl Chains {
    /// Follows these threads.
    #[must_use]
    pub fn of(tids: impl Iterator<Item = u32>) -> Self {
        Self {
            cpus: HashMap::new(),
            targets: tids.map(|tid| (tid, Target::default())).collect(),
        }
    }

    /// Takes the next event; those of all CPUs in the order of their times.
    pub fn feed(&mut self, slot: &Slot) {
        let at_ns = slot.at_ns();
        let vector = u64::from(slot.a() as u32);
        match slot.kind() {
            kind::VECTOR_ENTRY if vector == LOCAL_TIMER => {
                self.cpu(slot).interrupt_ns = Some(at_ns);
            }
            kind::VECTOR_EXIT if vector == LOCAL_TIMER => {
                *self.cpu(slot) = Cpu::default();
                for target in self.targets.values_mut() {
                    if let Some(waking) = &mut target.waking
                        && waking.on_cpu == slot.cpu()
                        && waking.interrupt_ns.is_some()
                    {
                        waking.interrupt_end_ns.get_or_insert(at_ns);
                    }
                }
            }
            kind::TIMER_EXPIRE => self.cpu(slot).callback = Some((slot.a(), at_ns)),
            kind::TIMER_DONE => self.cpu(slot).callback = None,
            kind::TIMER_START => {
                if let Some(target) = self.targets.get_mut(&(slot.c() as u32)) {
                    target.timer = slot.a();
                    target.due_ns = slot.b();
                    target.waking = None;
                }
            }
            kind::WAKING => self.waking(slot),
            kind::SWITCH => self.switched(slot),
            _ => {}
        }
    }

    fn cpu(&mut self, slot: &Slot) -> &mut Cpu {
        self.cpus.entry(slot.cpu()).or_default()
    }

    fn waking(&mut self, slot: &Slot) {
        let cpu = *self.cpu(slot);
        let Some(target) = self.targets.get_mut(&(slot.a() as u32)) else {
            return;
        };
        if target.waking.is_some() {
            return;
        }
        let timer = target.timer;
        let callback = cpu.callback.filter(|(of, _)| *of == timer && timer != 0);
        target.waking = Some(Waking {
            at_ns: slot.at_ns(),
            on_cpu: slot.cpu(),
            interrupt_ns: callback.and(cpu.interrupt_ns),
            callback_ns: callback.map(|(_, at_ns)| at_ns),
            interrupt_end_ns: None,
        });
    }

    fn switched(&mut self, slot: &Slot) {
        let tid = slot.to_tid();
        let Some(target) = self.targets.get_mut(&tid) else {
            return;
        };
        let Some(waking) = target.waking.take() else {
            return;
        };
        if target.done.len() == KEPT {
            target.done.pop_front();
        }
        target.done.push_back(Instants {
            due_ns: target.due_ns,
            irq_ns: waking.interrupt_ns,
            callback_ns: waking.callback_ns,
            waking_ns: Some(waking.at_ns),
            exit_ns: waking.interrupt_end_ns,
            switch_ns: Some(slot.at_ns()),
            woken_ns: slot.at_ns(),
        });
    }

    /// Forgets what goes on: events are missing.
    pub fn forget(&mut self) {
        self.cpus.clear();
        for target in self.targets.values_mut() {
            target.waking = None;
            target.timer = 0;
        }
    }

    /// The wake-up that ended when a thread read the clock: the last before. What is older is
    /// given up.
    pub fn take(&mut self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Instants> {
        let done = &mut self.targets.get_mut(&tid)?.done;
        let mut last = None;
        while let Some(next) = done.front()
            && next.switch_ns.is_none_or(|at_ns| at_ns <= woken_ns)
        {
            last = done.pop_front();
        }
        // One that ended before the instant belongs to an earlier wait: this one needed none.
        let ended = last?.switch_ns.unwrap_or(0);
        let instants = Instants {
            due_ns,
            woken_ns,
            ..last?
        };
        (ended >= due_ns).then_some(instants)
    }
}
