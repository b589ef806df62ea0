//! What the kernel side writes for each event, and its meaning: decodes the slots of
//! `bpf/recorder.bpf.c`.

use std::collections::HashMap;

use crate::attribute::event::{Interrupted, Kind, Task, Vector};

/// Words of a slot.
pub const WORDS: usize = 8;

/// One event as it is in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub [u64; WORDS]);

/// The kinds that are used by name; see `enum kind`.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of the C declarations")]
    pub const VECTOR_ENTRY: u16 = 1;
    pub const VECTOR_EXIT: u16 = 2;
    pub const HANDLER_ENTRY: u16 = 3;
    pub const HANDLER_EXIT: u16 = 4;
    pub const SOFTIRQ_ENTRY: u16 = 5;
    pub const SOFTIRQ_EXIT: u16 = 6;
    pub const TIMER_START: u16 = 7;
    pub const TIMER_EXPIRE: u16 = 8;
    pub const TIMER_DONE: u16 = 9;
    pub const WAKING: u16 = 10;
    pub const SWITCH: u16 = 11;
    pub const MIGRATE: u16 = 12;
    pub const NMI: u16 = 13;
    pub const IDLE: u16 = 14;
    pub const CALL_ENTRY: u16 = 15;
    pub const CALL_EXIT: u16 = 16;
    pub const WORK_START: u16 = 17;
    pub const LOCK_WAIT: u16 = 18;
    pub const LOCK_DONE: u16 = 19;
    pub const FAULT: u16 = 20;
    pub const STACK: u16 = 21;
    pub const RENAME: u16 = 22;
    pub const LEFT: u16 = 23;
    pub const CALL_SENT: u16 = 24;
    pub const STOP: u16 = 25;
}

/// The CPU's timer among the vectors.
pub const LOCAL_TIMER: u64 = 0;
/// The state that the idle task reports when it leaves an idle state.
const AWAKE: u32 = u32::MAX;

/// A text that the kernel wrote into words: up to the first zero byte.
#[must_use]
pub fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Slot {
    /// When it was recorded.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.0[0]
    }

    /// The number of the event in its lane, from 1 on, modulo 2³².
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.0[1] as u32
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> u16 {
        (self.0[1] >> 32) as u16
    }

    /// Its CPU.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        (self.0[1] >> 48) as u32
    }

    /// The first word of its payload.
    #[must_use]
    pub fn a(&self) -> u64 {
        self.0[2]
    }

    /// The second word.
    #[must_use]
    pub fn b(&self) -> u64 {
        self.0[3]
    }

    /// The third word.
    #[must_use]
    pub fn c(&self) -> u64 {
        self.0[4]
    }

    /// The fourth word.
    #[must_use]
    pub fn d(&self) -> u64 {
        self.0[5]
    }

    /// For the stack of a thread that released the CPU: when it did.
    #[must_use]
    pub fn left_ns(&self) -> u64 {
        self.0[6]
    }

    /// The name in it, if there is one.
    #[must_use]
    pub fn name(&self) -> String {
        text(&self.0[6..])
    }

    /// For a switch: the thread that runs next.
    #[must_use]
    pub fn to_tid(&self) -> u32 {
        (self.a() >> 32) as u32
    }

    /// For a switch: the thread that leaves.
    #[must_use]
    pub fn from_tid(&self) -> u32 {
        self.a() as u32
    }

    /// For a switch: whether the thread that leaves was preempted.
    #[must_use]
    pub fn is_preempted(&self) -> bool {
        self.d() & 1 != 0
    }

    /// For a waking by a thread: the waker.
    #[must_use]
    pub fn waker(&self) -> Option<Task> {
        let tid = self.b() as u32;
        (tid != 0).then(|| self.other(tid))
    }

    /// The other thread in it.
    fn other(&self, tid: u32) -> Task {
        Task {
            tid,
            name: self.name(),
            priority: priority(self.c() as u16),
            policy: (self.c() >> 32) as u32,
        }
    }

    /// Whether it is the start of the CPU's timer interrupt, with the hypervisor's account.
    #[must_use]
    pub fn stolen_ns(&self) -> Option<u64> {
        let timer = self.kind() == kind::VECTOR_ENTRY && self.a() as u32 as u64 == LOCAL_TIMER;
        (timer && self.d() != 0).then(|| self.d())
    }

    /// Whether an interrupt interrupted a program, if that could be read.
    #[must_use]
    pub fn is_over_program(&self) -> bool {
        self.kind() == kind::VECTOR_ENTRY && self.b() != 0 && is_user(self.c())
    }

    /// Its meaning, or `None` for an unknown kind. Stacks are looked up elsewhere; names
    /// of threads that leave a CPU were learnt when they began to run.
    #[must_use]
    pub fn event_kind(
        &self,
        names: &ThreadNames,
        own: TracingPreemptCount,
        of_probe: impl Fn(u64) -> bool,
    ) -> Option<Kind> {
        let (a, b, c) = (self.a(), self.b(), self.c());
        Some(match self.kind() {
            kind::VECTOR_ENTRY => Kind::VectorEntry {
                vector: vector(a as u32),
                interrupted: (b != 0).then(|| Interrupted {
                    address: b,
                    // The two lowest bits of a code segment are the privilege level: 3 is user mode.
                    user: is_user(c),
                    preempt_count: own.subtract_from(preempt_count((a >> 32) as u32)),
                }),
            },
            kind::VECTOR_EXIT => Kind::VectorExit {
                vector: vector(a as u32),
            },
            kind::HANDLER_ENTRY => Kind::HandlerEntry {
                irq: a as u32,
                name: self.name(),
            },
            kind::HANDLER_EXIT => Kind::HandlerExit { irq: a as u32 },
            kind::SOFTIRQ_ENTRY => Kind::SoftirqEntry { number: a as u32 },
            kind::SOFTIRQ_EXIT => Kind::SoftirqExit { number: a as u32 },
            kind::TIMER_START => Kind::TimerStart {
                timer: a,
                expires_ns: b,
            },
            kind::TIMER_EXPIRE => Kind::TimerExpire {
                timer: a,
                function: b,
                expires_ns: c,
                of_probe: of_probe(a),
            },
            kind::TIMER_DONE => Kind::TimerDone { timer: a },
            kind::WAKING => Kind::Waking {
                tid: a as u32,
                by: self.waker(),
            },
            kind::SWITCH => Kind::Switch {
                from: Task {
                    tid: self.from_tid(),
                    name: names.name_of(self.from_tid()),
                    priority: priority(c as u16),
                    policy: (c >> 32) as u32 & 0xffff,
                },
                from_state: b,
                preempted: self.is_preempted(),
                to: Task {
                    tid: self.to_tid(),
                    name: self.name(),
                    priority: priority((c >> 16) as u16),
                    policy: (c >> 48) as u32,
                },
            },
            kind::MIGRATE => Kind::Migrate {
                tid: a as u32,
                to_cpu: b as u32,
                from_cpu: None,
            },
            kind::NMI => Kind::Nmi { duration_ns: a },
            kind::IDLE => Kind::Idle {
                state: Some(a as u32).filter(|state| *state != AWAKE),
            },
            kind::CALL_SENT => Kind::CallSent {
                function: a,
                from_cpu: (b >> 32) as u32,
                request: self.d(),
                by: (b as u32 != 0).then(|| self.other(b as u32)),
            },
            kind::CALL_ENTRY => Kind::CallEntry {
                function: a,
                request: b,
            },
            kind::CALL_EXIT => Kind::CallExit { function: a },
            kind::WORK_START => Kind::WorkStart { function: a },
            kind::LOCK_WAIT => Kind::LockWait {
                lock: a,
                flags: (b >> 32) as u32,
                holder: (b as u32 != 0).then(|| self.other(b as u32)),
            },
            kind::LOCK_DONE => Kind::LockDone { lock: a },
            kind::FAULT => Kind::Fault { address: a },
            kind::RENAME => Kind::Rename {
                task: self.other(a as u32),
            },
            kind::STOP => Kind::Stop {
                tid: a as u32,
                signal: Some(self.d() as i32).filter(|signal| *signal != 0),
                by: (b as u32 != 0).then(|| self.other(b as u32)),
            },
            _ => return None,
        })
    }
}

fn vector(number: u32) -> Vector {
    match number {
        0 => Vector::LocalTimer,
        1 => Vector::Reschedule,
        2 => Vector::CallFunction,
        3 => Vector::CallFunctionSingle,
        4 => Vector::IrqWork,
        5 => Vector::Platform,
        6 => Vector::Thermal,
        7 => Vector::Threshold,
        other => Vector::Other(other),
    }
}

fn priority(bits: u16) -> i32 {
    i32::from(bits as i16)
}

/// The count before the interrupt: the interrupt itself adds 1 to the hard interrupts'
/// part, and the highest bit says that no reschedule is needed.
fn preempt_count(read: u32) -> u32 {
    const NOT_NEEDED: u32 = 1 << 31;
    const ONE_INTERRUPT: u32 = 1 << 16;
    let count = read & !NOT_NEEDED;
    if count & 0x000f_0000 != 0 {
        count - ONE_INTERRUPT
    } else {
        count
    }
}

fn is_user(segment: u64) -> bool {
    segment & 3 != 0
}

/// What tracing itself adds to the preemption count: kernels differ. Programs run at 0, so
/// the value that is read over one is tracing's.
#[derive(Debug, Clone, Copy)]
pub struct TracingPreemptCount(u32);

impl Default for TracingPreemptCount {
    fn default() -> Self {
        Self(1)
    }
}

impl TracingPreemptCount {
    /// Learns from a timer's interrupt.
    pub fn learn(&mut self, slot: &Slot) {
        // It isn't read each time; during an interrupt it is never 0.
        let read = slot.a() >> 32 != 0;
        if slot.kind() == kind::VECTOR_ENTRY && slot.b() != 0 && is_user(slot.c()) && read {
            self.0 = preempt_count((slot.a() >> 32) as u32) & 0xff;
        }
    }

    fn subtract_from(self, count: u32) -> u32 {
        count - self.0.min(count & 0xff)
    }
}

/// Names of threads by their numbers, as last recorded.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, [u64; 2]>);

/// Threads whose names are kept.
const KEPT: usize = 1 << 15;

impl ThreadNames {
    /// Learns from a switch, and from a thread that changes its name.
    pub fn learn(&mut self, slot: &Slot) {
        let tid = match slot.kind() {
            kind::SWITCH => slot.to_tid(),
            kind::RENAME => slot.a() as u32,
            _ => return,
        };
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        self.0.insert(tid, [slot.0[6], slot.0[7]]);
    }

    /// A thread's name; empty if no switch to it was recorded.
    #[must_use]
    pub fn name_of(&self, tid: u32) -> String {
        match self.0.get(&tid) {
            Some(words) => Slot([0, 0, 0, 0, 0, 0, words[0], words[1]]).name(),
            None if tid == 0 => "swapper".to_owned(),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(address: u64, segment: u64, preempt_count: u64) -> Slot {
        let head = u64::from(kind::VECTOR_ENTRY) << 32;
        Slot([1, head, preempt_count << 32, address, segment, 0, 0, 0])
    }

    fn count(slot: Slot, own: TracingPreemptCount) -> u32 {
        match slot.event_kind(&ThreadNames::default(), own, |_| false) {
            Some(Kind::VectorEntry {
                interrupted: Some(interrupted),
                ..
            }) => interrupted.preempt_count,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_tracing_adds_to_the_preemption_count_is_learnt_from_programs() {
        let mut own = TracingPreemptCount::default();
        let in_kernel = |count| timer(0xffff_ffff_8100_0000, 0x10, count);
        // The interrupt itself is in the third byte, the flag "no reschedule needed" in the highest.
        assert_eq!(count(in_kernel(0x8001_0002), own), 1);
        own.learn(&timer(0x7f00_0000, 0x33, 0x8001_0000));
        assert_eq!(count(in_kernel(0x8001_0002), own), 2);
        own.learn(&timer(0x7f00_0000, 0x33, 0x0001_0001));
        assert_eq!(count(in_kernel(0x0001_0101), own), 0x100, "a softirq stays");
        own.learn(&in_kernel(0x8001_0005));
        assert_eq!(
            count(in_kernel(0x8001_0001), own),
            0,
            "the kernel teaches nothing"
        );
    }

    #[test]
    fn a_switch_names_both_threads_and_names_are_remembered() {
        let mut names = ThreadNames::default();
        let name = u64::from_ne_bytes(*b"kworker/");
        let head = u64::from(kind::SWITCH) << 32 | 3 << 48;
        let (other, deadline) = (120_u64, u64::from(-1_i16 as u16));
        let came = Slot([5, head, 9 << 32, 0, other << 16, 0, name, 0]);
        names.learn(&came);
        let went = Slot([
            6,
            head,
            11 << 32 | 9,
            1,
            6 << 48 | deadline << 16 | other,
            1,
            0,
            0,
        ]);
        let kind = went.event_kind(&names, TracingPreemptCount::default(), |_| false);
        let task = |tid, name: &str, priority, policy| Task {
            tid,
            name: name.to_owned(),
            priority,
            policy,
        };
        assert_eq!(
            kind,
            Some(Kind::Switch {
                from: task(9, "kworker/", 120, 0),
                from_state: 1,
                preempted: true,
                to: task(11, "", -1, 6),
            })
        );
        assert_eq!((went.cpu(), went.to_tid(), went.from_tid()), (3, 11, 9));
    }

    #[test]
    fn a_stop_has_its_signal_and_its_sender_or_the_debugger() {
        let name = u64::from_ne_bytes(*b"pkill\0\0\0");
        let head = u64::from(kind::STOP) << 32;
        let stop = |sender: u64, signal: u64| {
            let slot = Slot([5, head, 7, sender, 1 << 32 | 39, signal, name, 0]);
            slot.event_kind(
                &ThreadNames::default(),
                TracingPreemptCount::default(),
                |_| false,
            )
        };
        let sender = Task {
            tid: 4711,
            name: "pkill".to_owned(),
            priority: 39,
            policy: 1,
        };
        let expected = |signal, by| Some(Kind::Stop { tid: 7, signal, by });
        assert_eq!(stop(4711, 19), expected(Some(19), Some(sender.clone())));
        assert_eq!(stop(4711, 0), expected(None, Some(sender)));
        assert_eq!(stop(0, 20), expected(Some(20), None));
    }

    #[test]
    fn any_slot_is_decoded_without_a_panic() {
        for of in 0..=40 {
            for word in [0, 1, u64::MAX, 0x8000_0000_0000_0000] {
                let head = u64::from(of as u16) << 32;
                let slot = Slot([word, head, word, word, word, word, word, word]);
                let kind = slot.event_kind(
                    &ThreadNames::default(),
                    TracingPreemptCount::default(),
                    |_| true,
                );
                let elsewhere = [0, i32::from(kind::STACK), i32::from(kind::LEFT)];
                let none = elsewhere.contains(&of) || of > i32::from(kind::STOP);
                assert_eq!(kind.is_none(), none);
                let _ = slot.stolen_ns();
            }
        }
    }
}
