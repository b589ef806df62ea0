//! What a reader of a bill must know of one of its rows, as data.

use crate::KernelCall;
use serde::{Deserialize, Serialize};

use super::Culprit;
use crate::earlier::Sentence;

/// What is known of a row beside its cause and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RowNote {
    /// A softirq ran in a thread.
    InSoftirq {
        /// Its number.
        number: u32,
    },
    /// The last thread that was seen on the CPU before events were lost.
    LastSeen {
        /// Its name.
        thread: String,
        /// Its number.
        tid: u32,
    },
    /// No event says which thread ran.
    UnknownThread,
    /// The probe still waited for the previous wake-up.
    PreviousWakeUp {
        /// By how much the timer of that wake-up expired late.
        late_ns: u64,
    },
    /// Where the timer's interrupt arrived. Until then interrupts were disabled, or the platform
    /// delayed it.
    InterruptAt {
        /// The function of the kernel, with the offset in it.
        place: String,
    },
    /// The probe was awake already: a signal had woken it, or another thread.
    AwakeAlready,
    /// The probe was not asleep yet.
    NotAsleepYet,
    /// Another CPU woke the probe, and its request to switch came late.
    LateRequest,
    /// A thread ran already and was let run on, although an interrupt found it in user mode.
    LetRunOn,
    /// A real-time thread of lower priority ran although the probe was ready, and no limit of real-time
    /// threads lets it: its priority was higher for that time.
    PriorityRaised,
    /// The probe had the CPU, and nothing is known to have stopped it.
    HadCpu,
    /// Within the interrupt that wakes the probe.
    InWakingInterrupt,
    /// The CPU went idle although the probe was ready.
    IdleThoughReady,
    /// The CPU was idle for longer than any idle state takes to leave.
    IdleTooLong,
    /// The probe waited for the page.
    WaitedForPage,
    /// Which system call the thread was in.
    SystemCall {
        /// Which.
        call: KernelCall,
    },
    /// The stack is from when the thread released the CPU.
    StackOfRelease,
    /// The thread's control group has a quota, and how often it was throttled could not be read.
    QuotaUnread {
        /// The group's directory.
        group: String,
    },
    /// The thread's control group has a limit for real-time threads, and the end of its throttling
    /// was not seen: it may be another limit's.
    LimitNotSeen {
        /// The group's directory.
        group: String,
        /// The file that sets the limit.
        file: String,
        /// What the group may run of each period, in µs.
        runtime_us: u64,
        /// The period, in µs.
        period_us: u64,
    },
    /// The limit of the group for real-time threads.
    RealTimeLimit {
        /// What they may run of each period, in µs.
        runtime_us: u64,
        /// The period, in µs.
        period_us: u64,
    },
    /// A real-time thread that used up what the kernel leaves them, in the second before.
    UsedUpBy {
        /// The thread; `ns` is how long it ran.
        thread: Box<Culprit>,
    },
    /// Who stopped the thread.
    StoppedBy {
        /// The signal; absent if a debugger did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// The thread that sent it, or the debugger; `ns` is 0. Absent if the terminal did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread: Option<Box<Culprit>>,
    },
    /// The quota of the group.
    Quota {
        /// What it may run of each period, in µs.
        runtime_us: u64,
        /// The period, in µs.
        period_us: u64,
        /// For how long it was throttled around the wake-up, summed over the CPUs.
        throttled_ns: u64,
    },
    /// A thread on another CPU sent the call.
    SentFrom {
        /// The CPU.
        cpu: u32,
    },
    /// An interrupt on another CPU sent the call.
    SentByInterrupt {
        /// The CPU.
        cpu: u32,
    },
    /// The count of system management interrupts rose.
    SmiCount {
        /// By how much.
        count: u64,
        /// Between which readings of the count, where these are so far apart that the time may be another's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ns: Option<u64>,
    },
    /// CPUs stood still up to the same time, all of them in the kernel: likely the host took them,
    /// or one waited for the other with interrupts disabled.
    LikelyHost {
        /// Which CPUs.
        cpus: Vec<u32>,
    },
    /// The sentence of an earlier version.
    Earlier {
        /// The sentence.
        text: String,
    },
}

impl RowNote {
    /// The thread that it is about.
    #[must_use]
    pub fn thread(&self) -> Option<&Culprit> {
        match self {
            Self::UsedUpBy { thread } => Some(thread),
            Self::StoppedBy { thread, .. } => thread.as_deref(),
            _ => None,
        }
    }

    /// The same, to be looked up.
    pub fn thread_mut(&mut self) -> Option<&mut Culprit> {
        match self {
            Self::UsedUpBy { thread } => Some(thread),
            Self::StoppedBy { thread, .. } => thread.as_deref_mut(),
            _ => None,
        }
    }
}

impl Sentence for RowNote {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}
