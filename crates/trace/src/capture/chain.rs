//! From events to the instants of each wake-up.

use std::collections::{HashMap, VecDeque};

use super::slot::{LOCAL_TIMER, Slot, kind};
use punctual_record::explanation::Instants;

/// Wake-ups of a thread that are kept until their sample arrives.
const KEPT: usize = 1 << 16;

/// The current state of a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    /// When the timer's interrupt began.
    interrupt_ns: Option<u64>,
    /// The timer whose callback runs, and since when.
    callback: Option<(u64, u64)>,
}

/// The current state of a target.
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
    pub fn following(tids: impl Iterator<Item = u32>) -> Self {
        Self {
            cpus: HashMap::new(),
            targets: tids.map(|tid| (tid, Target::default())).collect(),
        }
    }

    /// Follows one more.
    pub fn follow(&mut self, tid: u32) {
        self.targets.entry(tid).or_default();
    }

    /// Stops following a thread.
    pub fn drop(&mut self, tid: u32) {
        self.targets.remove(&tid);
    }

    /// Takes the next event; the events of all CPUs are in the order of their times.
    pub fn add_event(&mut self, slot: &Slot) {
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

    /// Drops what is in progress: events are missing.
    pub fn forget(&mut self) {
        self.cpus.clear();
        for target in self.targets.values_mut() {
            target.waking = None;
            target.timer = 0;
        }
    }

    /// The wake-up that ended when a thread read the clock: the last one before that. Older ones are
    /// dropped.
    pub fn take_wake_up(&mut self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Instants> {
        let done = &mut self.targets.get_mut(&tid)?.done;
        let mut last = None;
        while let Some(next) = done.front()
            && next.switch_ns.is_none_or(|at_ns| at_ns <= woken_ns)
        {
            last = done.pop_front();
        }
        // A wake-up that ended before the instant belongs to an earlier wait: this wait needed none.
        let ended = last?.switch_ns.unwrap_or(0);
        let instants = Instants {
            due_ns,
            woken_ns,
            ..last?
        };
        (ended >= due_ns).then_some(instants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: u64 = 42;
    const TIMER: u64 = 0xffff_8880_0000_1000;

    fn slot(at_ns: u64, of: u16, cpu: u64, words: [u64; 3]) -> Slot {
        let head = u64::from(of) << 32 | cpu << 48;
        Slot([at_ns, head, words[0], words[1], words[2], 0, 0, 0])
    }

    /// A complete wake-up that is due at an instant.
    fn wake_up(due_ns: u64) -> Vec<Slot> {
        vec![
            slot(due_ns - 900, kind::TIMER_START, 1, [TIMER, due_ns, TID]),
            slot(due_ns + 10, kind::VECTOR_ENTRY, 1, [LOCAL_TIMER, 0, 0]),
            slot(due_ns + 20, kind::TIMER_EXPIRE, 1, [TIMER, 0, due_ns]),
            slot(due_ns + 30, kind::WAKING, 1, [TID, 0, 0]),
            slot(due_ns + 35, kind::TIMER_DONE, 1, [TIMER, 0, 0]),
            slot(due_ns + 40, kind::VECTOR_EXIT, 1, [LOCAL_TIMER, 0, 0]),
            slot(due_ns + 50, kind::SWITCH, 1, [TID << 32 | 7, 0, 0]),
        ]
    }

    fn fed(slots: &[Slot]) -> Chains {
        let mut chains = Chains::following([TID as u32].into_iter());
        for slot in slots {
            chains.add_event(slot);
        }
        chains
    }

    fn whole(due_ns: u64) -> Instants {
        Instants {
            due_ns,
            irq_ns: Some(due_ns + 10),
            callback_ns: Some(due_ns + 20),
            waking_ns: Some(due_ns + 30),
            exit_ns: Some(due_ns + 40),
            switch_ns: Some(due_ns + 50),
            woken_ns: due_ns + 60,
        }
    }

    #[test]
    fn a_wake_up_has_all_its_instants() {
        let mut chains = fed(&wake_up(5000));
        assert_eq!(chains.take_wake_up(42, 5000, 5060), Some(whole(5000)));
        assert_eq!(
            chains.take_wake_up(42, 5000, 5060),
            None,
            "each is taken once"
        );
        assert_eq!(chains.take_wake_up(43, 5000, 5060), None);
    }

    #[test]
    fn each_sample_has_its_wake_up_and_a_wait_without_one_has_none() {
        let slots: Vec<Slot> = [5000, 6000, 8000].into_iter().flat_map(wake_up).collect();
        let mut chains = fed(&slots);
        assert_eq!(
            chains.take_wake_up(42, 6000, 6060),
            Some(whole(6000)),
            "an earlier one is passed over"
        );
        assert_eq!(chains.take_wake_up(42, 7000, 7001), None);
        assert_eq!(chains.take_wake_up(42, 8000, 8060), Some(whole(8000)));
    }

    #[test]
    fn another_timers_callback_and_another_threads_switch_are_not_ours() {
        let mut slots = wake_up(5000);
        slots.insert(2, slot(5012, kind::TIMER_EXPIRE, 1, [TIMER + 64, 0, 5000]));
        slots.insert(3, slot(5015, kind::TIMER_DONE, 1, [TIMER + 64, 0, 0]));
        slots.insert(8, slot(5045, kind::SWITCH, 1, [9 << 32 | 7, 0, 0]));
        assert_eq!(fed(&slots).take_wake_up(42, 5000, 5060), Some(whole(5000)));
    }

    #[test]
    fn a_wake_up_by_a_thread_has_no_interrupt() {
        let slots = [
            slot(5030, kind::WAKING, 0, [TID, 0, 0]),
            slot(5050, kind::SWITCH, 1, [TID << 32, 0, 0]),
        ];
        let chain = fed(&slots).take_wake_up(42, 5000, 5060).expect("a wake-up");
        assert_eq!(
            (chain.irq_ns, chain.callback_ns, chain.exit_ns),
            (None, None, None)
        );
        assert_eq!((chain.waking_ns, chain.switch_ns), (Some(5030), Some(5050)));
    }

    #[test]
    fn no_wake_up_is_assembled_across_a_gap() {
        let slots = wake_up(5000);
        let mut chains = fed(&slots[..4]);
        chains.forget();
        for slot in &slots[4..] {
            chains.add_event(slot);
        }
        assert_eq!(chains.take_wake_up(42, 5000, 5060), None);
    }

    #[test]
    fn a_thread_that_is_preempted_before_it_reads_the_clock_is_woken_once() {
        let mut slots = wake_up(5000);
        slots.push(slot(5052, kind::SWITCH, 1, [9 << 32 | TID, 0, 0]));
        slots.push(slot(5100, kind::SWITCH, 1, [TID << 32 | 9, 0, 0]));
        let chain = fed(&slots).take_wake_up(42, 5000, 5110).expect("a wake-up");
        assert_eq!(chain.switch_ns, Some(5050));
    }
}
