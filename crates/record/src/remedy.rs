//! What helps against a cause of late wake-ups: the knobs that bear on it, and what stands in the
//! way where none does. A pure function of the bills.

mod ask;
mod task;

use serde::{Deserialize, Serialize};

use crate::explanation::{Cause, RT_RUNTIME};
use crate::finding::FindingId;
use crate::run::Run;

pub use ask::{BillsAsk, CauseCost};

/// Why no setting of the machine helps against a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The host of the virtual machine.
    Host,
    /// Firmware or hardware.
    Firmware,
    /// The kernel's own sections without preemption or interrupts, its timers and messages between
    /// CPUs.
    Kernel,
    /// The program itself: its locks, faults, system calls, policy.
    Program,
    /// A limit of the program's control group.
    Group,
    /// punctual's own threads and tracing.
    Tool,
    /// Every wake-up takes this.
    WakeUp,
    /// It is not known what took the time.
    Unknown,
}

/// What helps against a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// The knobs that bear on it, the best first.
    pub knobs: Vec<FindingId>,
    /// What stands in the way where none of them is left to turn.
    pub obstacle: Obstacle,
}

/// What of a machine decides on the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surroundings {
    /// It is a virtual machine.
    pub is_virtual: bool,
    /// Its kernel is PREEMPT_RT.
    pub is_real_time: bool,
    /// The cause is punctual itself, or the load that it ran.
    pub is_own: bool,
}

impl Surroundings {
    /// Those of a cause in the bills of a run.
    #[must_use]
    pub fn of(run: &Run, cause: &Cause) -> Self {
        Self {
            is_virtual: run.system.virtualisation.hypervisor.is_some(),
            is_real_time: run.system.kernel.preemption.starts_with("rt"),
            is_own: is_own(run, cause),
        }
    }

    /// Who has what is below the kernel.
    fn below(self) -> Obstacle {
        if self.is_virtual {
            Obstacle::Host
        } else {
            Obstacle::Firmware
        }
    }
}

fn with(knobs: &[FindingId], obstacle: Obstacle) -> Remedy {
    Remedy {
        knobs: knobs.to_vec(),
        obstacle,
    }
}

/// The frequency of a CPU decides how long its kernel takes.
const SPEED: [FindingId; 3] = [
    FindingId::Governor,
    FindingId::EnergyPreference,
    FindingId::FrequencyRange,
];

/// Keeps programs, and with them their timers and messages, off a CPU.
const ALONE: [FindingId; 2] = [FindingId::IsolatedCpus, FindingId::UserThreads];

/// What helps against a cause.
#[must_use]
pub fn remedy(cause: &Cause, surroundings: Surroundings) -> Remedy {
    use FindingId as F;
    match cause {
        Cause::WakePath | Cause::Crossing => with(&SPEED, Obstacle::WakeUp),
        Cause::Steal => with(&[], Obstacle::Host),
        Cause::Platform | Cause::Host { .. } if surroundings.is_virtual => {
            with(&[], Obstacle::Host)
        }
        Cause::Platform | Cause::Host { .. } => with(&[F::Clockevent], Obstacle::Firmware),
        Cause::Smi => with(&[F::FirmwareUpdates, F::EfiRuntime], Obstacle::Firmware),
        Cause::Nmi => with(&[F::Watchdogs, F::PerfSampling], surroundings.below()),
        Cause::IdleExit { .. } => with(&[F::IdleStates], surroundings.below()),
        Cause::Interrupt { name, .. } => interrupt(name),
        Cause::CpuInterrupt { vector } => vector_of(vector),
        Cause::Call { function } => call(function),
        Cause::TimerCallback { function } => timer(function),
        Cause::Softirq { number } => softirq(*number),
        Cause::IrqsOff { task, .. } => task::that_disabled(task, None, false, surroundings),
        // It may have been the platform too.
        Cause::LateInterrupt { task } => Remedy {
            obstacle: Obstacle::Unknown,
            ..task::that_disabled(task, None, false, surroundings)
        },
        Cause::PreemptOff { task, work } => {
            task::that_disabled(task, work.as_deref(), true, surroundings)
        }
        Cause::Thread { task, policy, .. } => task::above(task, policy),
        Cause::FairShare { task } => task::beside(task),
        Cause::Throttled { .. } => with(&[F::RtThrottling, F::FairServer], Obstacle::Kernel),
        Cause::GroupThrottled { file, .. } if file == RT_RUNTIME => {
            with(&[F::RtGroupSched], Obstacle::Group)
        }
        Cause::GroupThrottled { .. } => with(&[], Obstacle::Group),
        // What moves, merges or unmaps pages that are locked.
        Cause::Fault => with(
            &[
                F::NumaBalancing,
                F::Compaction,
                F::Ksm,
                F::TransparentHugepages,
            ],
            Obstacle::Program,
        ),
        Cause::Inversion { .. }
        | Cause::Lock { .. }
        | Cause::Blocked { .. }
        | Cause::Waker { .. }
        | Cause::Probe
        | Cause::NotReleased
        | Cause::Work => with(&[], Obstacle::Program),
        Cause::Tracer => with(&[], Obstacle::Tool),
        Cause::Other | Cause::Unexplained | Cause::Blind => with(&[], Obstacle::Unknown),
    }
}

/// Whether a cause is punctual itself, or the load that it ran: whatever its threads are called, and none
/// of those that were measured.
#[must_use]
pub fn is_own(run: &Run, cause: &Cause) -> bool {
    let culprits = run
        .explanation
        .as_ref()
        .map_or_else(Vec::new, |it| it.culprits(cause));
    !culprits.is_empty() && culprits.iter().all(|by| by.own && !by.is_of(run))
}

/// Drivers of disks that leave their queues' interrupts to the kernel (`PCI_IRQ_AFFINITY`), by the names of those.
const MANAGED: [&str; 11] = [
    "megasas", "mpt2sas", "mpt3sas", "mpi3mr", "hpsa", "smartpqi", "aacraid", "lpfc", "qla2xxx",
    "hisi_sas", "csiostor",
];

/// Whether the kernel itself places a device's interrupt, by its name: queues of disks.
/// The kernel tells nobody which interrupts it manages before it refuses to move one.
#[must_use]
pub fn is_managed(name: &str) -> bool {
    (name.starts_with("virtio") && name.contains("-req"))
        || (name.starts_with("nvme") && name.contains('q') && !name.ends_with("q0"))
        || MANAGED.iter().any(|driver| name.starts_with(driver))
}

/// Interrupts of one CPU alone on Xen, whose number follows.
const OF_XEN: [&str; 6] = [
    "resched",
    "callfunc",
    "callfuncsingle",
    "spinlock",
    "irqwork",
    "debug",
];

/// Whether an interrupt is of one CPU alone, by its name: a timer, a counter, what CPUs send each other.
#[must_use]
pub fn is_per_cpu(name: &str) -> bool {
    let stem = name.trim_end_matches(|last: char| last.is_ascii_digit());
    name.contains("timer")
        || name.contains("pmu")
        || name.starts_with("IPI")
        || (stem != name && OF_XEN.contains(&stem))
}

fn interrupt(name: &str) -> Remedy {
    if is_per_cpu(name) {
        // A timer's interrupt belongs to its CPU.
        return with(&[FindingId::NohzFull], Obstacle::Kernel);
    }
    let mover = if is_managed(name) {
        FindingId::ManagedIrqs
    } else {
        FindingId::IrqAffinity
    };
    with(
        &[mover, FindingId::Irqbalance, FindingId::Threadirqs],
        Obstacle::Kernel,
    )
}

/// An interrupt of the CPU's own, as the bills name it.
fn vector_of(vector: &str) -> Remedy {
    use FindingId as F;
    match vector {
        "local timer" => with(&[F::NohzFull, F::IsolatedCpus], Obstacle::Kernel),
        "thermal" => with(&[F::ThermalThrottling], Obstacle::Firmware),
        "machine check threshold" => with(&[F::MachineCheckPolling], Obstacle::Firmware),
        "irq work" => with(
            &[F::RcuNocbs, F::NohzFull, F::PerfSampling],
            Obstacle::Kernel,
        ),
        _ => with(&ALONE, Obstacle::Kernel),
    }
}

/// Parts of the names of functions of RCU's expedited grace periods, which another CPU has called.
pub const EXPEDITED: [&str; 2] = ["rcu_exp", "exp_handler"];

/// A function that another CPU had called, by a part of its name.
fn call(function: &str) -> Remedy {
    use FindingId as F;
    const KNOWN: [(&str, &[FindingId]); 10] = [
        (
            "flush_tlb",
            &[
                F::IsolatedCpus,
                F::UserThreads,
                F::NumaBalancing,
                F::TransparentHugepages,
            ],
        ),
        ("do_sync_core", &[F::Tracing]),
        ("text_poke", &[F::Tracing]),
        ("perf", &[F::PerfSampling]),
        ("msr", &[F::OtherTuners]),
        ("clock", &[F::Clocksource]),
        ("tsc", &[F::Clocksource]),
        ("rcu_barrier", &[F::RcuNocbs]),
        (EXPEDITED[0], &[F::RcuExpedited]),
        (EXPEDITED[1], &[F::RcuExpedited]),
    ];
    let known = KNOWN.iter().find(|(part, _)| function.contains(part));
    with(known.map_or(&ALONE, |(_, knobs)| knobs), Obstacle::Kernel)
}

/// The callback of somebody's timer, by a part of its name.
fn timer(function: &str) -> Remedy {
    use FindingId as F;
    const KNOWN: [(&str, &[FindingId]); 5] = [
        ("tick", &[F::NohzFull]),
        ("watchdog", &[F::WatchdogMask, F::Watchdogs]),
        ("mce", &[F::MachineCheckPolling]),
        ("rt_period", &[F::RtThrottling]),
        ("dl_", &[F::FairServer]),
    ];
    let known = KNOWN.iter().find(|(part, _)| function.contains(part));
    let others: &[FindingId] = &[F::IsolatedCpus, F::UserThreads, F::TimerMigration];
    with(known.map_or(others, |(_, knobs)| knobs), Obstacle::Kernel)
}

/// A softirq by its number: see [`crate::explanation::softirq_name`].
fn softirq(number: u32) -> Remedy {
    use FindingId as F;
    let knobs: &[FindingId] = match number {
        1 | 8 => &[F::NohzFull, F::IsolatedCpus, F::TimerMigration],
        2 | 3 => &[F::IrqAffinity, F::ReceiveSteering, F::Irqbalance],
        4 => &[F::IrqAffinity, F::ManagedIrqs, F::Irqbalance],
        7 => &[F::IsolatedCpus],
        9 => &[F::RcuNocbs, F::NohzPatience],
        _ => &[F::IrqAffinity, F::Irqbalance],
    };
    with(knobs, Obstacle::Kernel)
}
