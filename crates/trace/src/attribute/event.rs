//! What the kernel did, as seen by the tracer: the events that a bill is made from.
//!
//! Times are CLOCK_MONOTONIC in nanoseconds. Addresses are the kernel's own;
//! [`Window::symbols`] has names for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use punctual_record::explanation::{Ancestor, GroupLimit};

/// One late wake-up of a probe, with what happened around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The probe's CPU.
    pub cpu: u32,
    /// The probe thread, by the kernel's thread number.
    pub probe: Task,
    /// The instant at which the probe began to wait.
    pub waiting_ns: u64,
    /// The requested instant.
    pub due_ns: u64,
    /// The probe's first reading of the clock after it ran again.
    pub woken_ns: u64,
    /// Events that were overwritten before they were copied: the window is blind there.
    pub lost: u64,
    /// Whether some of those were not overwritten, but too many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether the kernel is PREEMPT_RT: there a softirq belongs to the thread that it
    /// runs in, and can be preempted with it.
    #[serde(default)]
    pub preempt_rt: bool,
    /// Whether this is not a wake-up, but a gap between two readings of the clock by a thread that
    /// polls it, at `due_ns` and `woken_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gap: bool,
    /// Whether this is not a wake-up, but the job of a task from its start to its end, at `due_ns`
    /// and `woken_ns`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub job: bool,
    /// The kernel's number for the state in which the probe left its CPU, if it left before
    /// the first event; 0 if it was preempted or throttled: it was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// Limits on the CPU time of the probe's control group and its ancestors, the nearest
    /// first, with what the kernel counted between two readings around the wake-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<GroupLimit>,
    /// When CPUs stood still. For the window's own CPU this follows from its events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stall>,
    /// What happened, on any CPU, in any order.
    pub events: Vec<Event>,
    /// The names of the addresses in `events`: `function+0x1a`, or without an offset.
    #[serde(default)]
    pub symbols: BTreeMap<u64, String>,
    /// Where threads in `events` come from, of those that began during the recording.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origins: BTreeMap<u32, Origin>,
}

/// Where a thread comes from, as it was when the thread began or executed a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its process, as the kernel numbers it.
    pub pid: u32,
    /// Who created it, and who created that: the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Ancestor>,
    /// The command line of its process; empty of a kernel thread, absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its control group; absent if that is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A stretch without events on a CPU, which this CPU ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Which CPU.
    pub cpu: u32,
    /// From its last event, or from when its timer was due.
    pub from_ns: u64,
    /// To the first event after that.
    pub to_ns: u64,
    /// Whether kernel code may have delayed it; otherwise its timer came late over a program or an
    /// idle CPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_kernel: bool,
}

/// A thread at one instant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// The thread's number; 0 is the idle task.
    pub tid: u32,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: String,
    /// The kernel's own priority: 0-98 for real-time priority 99-1, -1 for SCHED_DEADLINE,
    /// 100-139 for the others.
    pub priority: i32,
    /// SCHED_OTHER 0, FIFO 1, RR 2, BATCH 3, IDLE 5, DEADLINE 6.
    pub policy: u32,
}

impl Task {
    const ORDINARY: i32 = 100;

    /// Neither real-time nor SCHED_DEADLINE: such threads share the CPU by the scheduler's choice.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        self.priority >= Self::ORDINARY
    }

    /// SCHED_FIFO or SCHED_RR: the limit of real-time threads is for all of these alike.
    #[must_use]
    pub fn has_priority(&self) -> bool {
        (0..Self::ORDINARY).contains(&self.priority)
    }
}

/// Something the kernel did on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// When it was recorded.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// What happened.
    #[serde(rename = "what")]
    pub kind: Kind,
}

/// In the flags of a lock: it is a futex, and its address is in the program.
pub const FUTEX: u32 = 1 << 16;

/// What an event reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An interrupt of the CPU itself began.
    VectorEntry {
        /// Which one.
        vector: Vector,
        /// What it interrupted, if that could be read (timer interrupts only).
        interrupted: Option<Interrupted>,
    },
    /// It ended.
    VectorExit {
        /// Which one.
        vector: Vector,
    },
    /// A device's handler began, within an interrupt or in its own thread's CPU time.
    HandlerEntry {
        /// The interrupt's number.
        irq: u32,
        /// The device, as /proc/interrupts names it.
        name: String,
    },
    /// It ended.
    HandlerExit {
        /// The interrupt's number.
        irq: u32,
    },
    /// A softirq began.
    SoftirqEntry {
        /// 0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 5 IRQ_POLL, 6 TASKLET, 7 SCHED,
        /// 8 HRTIMER, 9 RCU.
        number: u32,
    },
    /// It ended.
    SoftirqExit {
        /// The number at its entry.
        number: u32,
    },
    /// The probe armed its timer.
    TimerStart {
        /// The timer's address.
        timer: u64,
        /// When it is to expire.
        expires_ns: u64,
    },
    /// A high-resolution timer's callback began.
    TimerExpire {
        /// The timer's address.
        timer: u64,
        /// The callback's address.
        function: u64,
        /// When it was to expire.
        expires_ns: u64,
        /// Whether it is the probe's.
        of_probe: bool,
    },
    /// It ended.
    TimerDone {
        /// The timer's address.
        timer: u64,
    },
    /// A thread or an interrupt began to wake a thread.
    Waking {
        /// The thread that is woken.
        tid: u32,
        /// The thread that wakes it; absent for an interrupt, or if it could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Task>,
    },
    /// The CPU went from one thread to another.
    Switch {
        /// The thread that leaves.
        from: Task,
        /// Its state as it leaves: 0 means still runnable.
        from_state: u64,
        /// Whether it was preempted.
        preempted: bool,
        /// The thread that runs next.
        to: Task,
    },
    /// A thread was moved.
    Migrate {
        /// The thread.
        tid: u32,
        /// The CPU that it will run on.
        to_cpu: u32,
        /// The CPU whose queue it leaves, if that was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_cpu: Option<u32>,
    },
    /// A non-maskable interrupt ended; it had begun `duration_ns` earlier.
    Nmi {
        /// How long its handler took.
        duration_ns: u64,
    },
    /// The idle task enters an idle state, or left it (`None`).
    Idle {
        /// The state's number.
        state: Option<u32>,
    },
    /// Another CPU sent an IPI that requests a function call.
    CallSent {
        /// Its address.
        function: u64,
        /// The CPU that sent it.
        from_cpu: u32,
        /// The request's address; the same at its execution.
        request: u64,
        /// The thread that sent it; absent if an interrupt did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Task>,
    },
    /// A function that another CPU requested began.
    CallEntry {
        /// Its address.
        function: u64,
        /// The request's address; 0 where it isn't known.
        #[serde(default, skip_serializing_if = "is_unknown")]
        request: u64,
    },
    /// It ended.
    CallExit {
        /// Its address.
        function: u64,
    },
    /// A work item began in the running kernel thread.
    WorkStart {
        /// Its function's address.
        function: u64,
    },
    /// The running thread waits for a lock.
    LockWait {
        /// The lock's address.
        lock: u64,
        /// The kernel's flags: 1 spin, 2 read, 4 write, 8 real-time, 16 percpu, 32 mutex; and
        /// [`FUTEX`].
        flags: u32,
        /// The thread that holds it, if that could be read.
        holder: Option<Task>,
    },
    /// The wait for the lock ended.
    LockDone {
        /// The lock's address.
        lock: u64,
    },
    /// A page fault of the probe.
    Fault {
        /// The address that faulted.
        address: u64,
    },
    /// The running thread changed its name, mostly because it executes another program.
    Rename {
        /// Its name from now on.
        task: Task,
    },
    /// A probe left its CPU because it was stopped.
    Stop {
        /// The probe.
        tid: u32,
        /// The signal; absent if a debugger stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// The thread that sent the signal, or the debugger; absent for an interrupt, or if that is
        /// not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Task>,
    },
    /// The stack of the thread that ran when the probe was already late.
    Stack {
        /// The thread whose stack it is.
        tid: u32,
        /// How long taking it took: the tracer's own cost, which ends at `at_ns`.
        cost_ns: u64,
        /// Return addresses, innermost first.
        frames: Vec<u64>,
    },
    /// A thread released the CPU for a probe that was late.
    Left {
        /// The thread.
        tid: u32,
        /// The number of the system call that it was in; absent outside system calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<u32>,
        /// Return addresses, innermost first; empty if it was on its way to user mode.
        frames: Vec<u64>,
    },
    /// The hypervisor's account: time stolen from this CPU since boot.
    Stolen {
        /// The total.
        total_ns: u64,
    },
    /// The processor's count of system management interrupts since boot.
    SmiCount {
        /// The total.
        total: u64,
    },
}

impl Kind {
    /// The threads in it.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Task> {
        let (first, second) = match self {
            Self::Switch { from, to, .. } => (Some(from), Some(to)),
            Self::Waking { by, .. } | Self::CallSent { by, .. } | Self::Stop { by, .. } => {
                (by.as_ref(), None)
            }
            Self::LockWait { holder, .. } => (holder.as_ref(), None),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// An interrupt vector of the CPU itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vector {
    /// The CPU's timer.
    LocalTimer,
    /// Requests a reschedule.
    Reschedule,
    /// Requests function calls.
    CallFunction,
    /// Requests one function call.
    CallFunctionSingle,
    /// Work that a handler deferred.
    IrqWork,
    /// A platform interrupt.
    Platform,
    /// Thermal event.
    Thermal,
    /// A corrected machine check.
    Threshold,
    /// Another vector.
    Other(u32),
}

/// What an interrupt interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Interrupted {
    /// The instruction that it returned to.
    pub address: u64,
    /// Whether that is user code, not the kernel's.
    pub user: bool,
    /// The kernel's preemption count at that point; 0 if it could have been preempted.
    pub preempt_count: u32,
}

fn is_unknown(request: &u64) -> bool {
    *request == 0
}
