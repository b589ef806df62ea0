//! What time can be lost to. A cause is what a ranking counts by: it names who, and
//! leaves out what differs each time.

use serde::{Deserialize, Serialize};

/// Who or what took time from a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Cause {
    /// The wake-up itself: the timer's interrupt, the callback, the switch and the return.
    WakePath,
    /// In a gap: the way into the kernel and out of it, before the first event and after the
    /// last.
    Crossing,
    /// No event explains it and no kernel code was in the way: the timer hardware, system
    /// management mode or a hypervisor.
    Platform,
    /// The hypervisor's own account says that it took the processor.
    Steal,
    /// Several CPUs stood still at the same time, with no event on any of them: the host of a
    /// virtual machine took them all, or the firmware.
    Host {
        /// Which, ascending.
        cpus: Vec<u32>,
    },
    /// As [`Cause::Platform`], and the count of system management interrupts moved.
    Smi,
    /// A non-maskable interrupt.
    Nmi,
    /// The processor slept and came back.
    IdleExit {
        /// The idle state's number, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<u32>,
    },
    /// A device's interrupt.
    Interrupt {
        /// Its number.
        irq: u32,
        /// The device, as /proc/interrupts names it.
        name: String,
    },
    /// Another interrupt of the CPU's own: `reschedule`, `irq-work`, `vector 236`.
    CpuInterrupt {
        /// Which.
        vector: String,
    },
    /// A function that another CPU had called on this one.
    Call {
        /// The function's name or address.
        function: String,
    },
    /// The callback of somebody else's timer, within the timer interrupt.
    TimerCallback {
        /// The function's name or address.
        function: String,
    },
    /// A softirq.
    Softirq {
        /// Its number: see [`softirq_name`].
        number: u32,
    },
    /// Kernel code with interrupts off.
    IrqsOff {
        /// Where they came on again: the function's name or address.
        function: String,
        /// The thread whose code it was.
        task: String,
    },
    /// The timer's interrupt, or another CPU's request to switch, was late, and it is not known
    /// upon what it came: interrupts off, or the platform.
    LateInterrupt {
        /// The thread that ran.
        task: String,
    },
    /// A thread of lower priority that the kernel did not preempt.
    PreemptOff {
        /// Its name.
        task: String,
        /// The work item that it did, for a kernel worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<String>,
    },
    /// A thread of higher or equal priority.
    Thread {
        /// Its name.
        task: String,
        /// Its policy, e.g. `SCHED_FIFO`.
        policy: String,
        /// Its real-time priority, 1-99; 0 where the policy has none.
        priority: u32,
    },
    /// An ordinary thread ran, and the probe is ordinary too: the scheduler shares the CPU among
    /// them.
    FairShare {
        /// Its name.
        task: String,
    },
    /// A thread of lower priority ran although the probe was ready: real-time throttling, or
    /// the kernel's server for ordinary threads.
    Throttled {
        /// Who ran; empty where the CPU was idle.
        task: String,
    },
    /// The kernel kept the probe off the CPU because its control group had used up what the
    /// group may run of each period, whichever thread ran meanwhile.
    GroupThrottled {
        /// The group: its directory, as it is mounted.
        group: String,
        /// The file that sets the limit: `cpu.max`, `cpu.cfs_quota_us` or `cpu.rt_runtime_us`.
        file: String,
    },
    /// The probe waited for a lock that a thread of lower priority held.
    Inversion {
        /// The lock's name or address.
        lock: String,
        /// The holder's name.
        holder: String,
        /// What the holder did meanwhile, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meanwhile: Option<Meanwhile>,
    },
    /// The probe waited for a lock.
    Lock {
        /// The lock's name or address.
        lock: String,
        /// The holder's name, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// What the holder did meanwhile, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meanwhile: Option<Meanwhile>,
    },
    /// A page fault in the probe itself.
    Fault,
    /// The probe itself slept: `asleep`, `disk`, `stopped`, `traced`, `frozen`, or `earlier-timer`
    /// where it still waited for the wake-up before.
    Blocked {
        /// In which state.
        state: String,
    },
    /// Who was to wake the probe had not done so yet.
    Waker {
        /// The waker's name.
        task: String,
    },
    /// The probe was awake: its previous cycle still ran, or a signal had woken it.
    Probe,
    /// The job of a task had not been released yet: its jitter, or the tasks before it.
    NotReleased,
    /// The job of a task executed.
    Work,
    /// What looking at it cost.
    Tracer,
    /// Causes that a ranking had no room for.
    Other,
    /// Every event is there and none explains it.
    Unexplained,
    /// Events are missing there.
    Blind,
}

/// What the holder of a lock did while another thread waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "did", rename_all = "kebab-case")]
pub enum Meanwhile {
    /// It ran.
    Ran,
    /// It was ready, and this thread ran on its CPU.
    Preempted {
        /// The thread's name.
        task: String,
        /// Its policy, e.g. `SCHED_FIFO`.
        policy: String,
        /// Its real-time priority, 1-99; 0 where the policy has none.
        priority: u32,
    },
    /// It waited for another lock itself.
    Blocked {
        /// The lock's name or address.
        lock: String,
        /// The holder's name, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// It slept.
    Slept {
        /// In which state.
        state: String,
    },
}

impl Cause {
    /// Whether this says that nothing is known.
    #[must_use]
    pub fn is_residue(&self) -> bool {
        matches!(self, Self::Unexplained | Self::Blind)
    }

    /// Whether this belongs to every wake-up, disturbed or not.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self, Self::WakePath | Self::Crossing)
    }

    /// The thread that a cause is about, by its name.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::IrqsOff { task, .. }
            | Self::LateInterrupt { task }
            | Self::PreemptOff { task, .. }
            | Self::Thread { task, .. }
            | Self::FairShare { task }
            | Self::Throttled { task }
            | Self::Waker { task } => Some(task),
            _ => None,
        }
    }

    /// The same cause without what tells one instance from another: all of the kernel's
    /// workers are `kworker`, whatever number they bear. Rankings count by this.
    #[must_use]
    pub fn general(&self) -> Self {
        let mut cause = self.clone();
        match &mut cause {
            Self::IrqsOff { task, .. }
            | Self::LateInterrupt { task }
            | Self::PreemptOff { task, .. }
            | Self::Thread { task, .. }
            | Self::FairShare { task }
            | Self::Throttled { task }
            | Self::Waker { task } => *task = general_name(task),
            Self::Inversion {
                lock,
                holder,
                meanwhile,
            } => {
                *lock = general_lock(lock);
                *holder = general_name(holder);
                meanwhile.iter_mut().for_each(Meanwhile::generalise);
            }
            Self::Lock {
                lock,
                holder,
                meanwhile,
            } => {
                *lock = general_lock(lock);
                if let Some(holder) = holder {
                    *holder = general_name(holder);
                }
                meanwhile.iter_mut().for_each(Meanwhile::generalise);
            }
            _ => {}
        }
        cause
    }
}

impl Meanwhile {
    fn generalise(&mut self) {
        match self {
            Self::Preempted { task, .. } => *task = general_name(task),
            Self::Blocked { lock, holder } => {
                *lock = general_lock(lock);
                if let Some(holder) = holder {
                    *holder = general_name(holder);
                }
            }
            Self::Ran | Self::Slept { .. } => {}
        }
    }
}

/// `kworker/1:2-events` is any of the kernel's workers; `ksoftirqd/1` any CPU's.
#[must_use]
pub fn general_name(name: &str) -> String {
    const PER_CPU: [&str; 7] = [
        "kworker",
        "ksoftirqd",
        "ktimers",
        "migration",
        "cpuhp",
        "rcuc",
        "rcuop",
    ];
    match name.split_once('/') {
        Some((family, _)) if PER_CPU.contains(&family) => family.to_owned(),
        _ => name.to_owned(),
    }
}

/// The address of a lock differs in each run; its name doesn't.
fn general_lock(lock: &str) -> String {
    if lock.starts_with("0x") {
        String::new()
    } else {
        lock.to_owned()
    }
}

/// The state of a probe that still waited for the wake-up before.
pub const EARLIER_TIMER: &str = "earlier-timer";

/// The state of the holder of a lock that slept before anything was seen of it: for what is not known.
pub const SLEPT_EARLIER: &str = "earlier";

/// What the kernel calls a softirq.
#[must_use]
pub fn softirq_name(number: u32) -> &'static str {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(number as usize).copied().unwrap_or("unknown")
}
