//! What each finding is about, and why it matters.

mod isolation;
mod kernel;
mod memory;
mod noise;
mod power;
mod rights;
mod scheduler;

use punctual_record::finding::{FindingId, Group};

/// What stays the same of a finding, whatever the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingText {
    /// What it is about, in a few words.
    pub title: &'static str,
    /// When it is bad, and what it costs a real-time thread.
    pub why: &'static str,
    /// What to do where no setting of the running machine fixes it; may be empty.
    pub by_hand: &'static str,
    /// Who says so.
    pub source: &'static str,
}

/// The title of a group.
#[must_use]
pub fn group_title(group: Group) -> &'static str {
    match group {
        Group::Kernel => "Kernel",
        Group::Isolation => "Isolation of CPUs",
        Group::Scheduler => "Scheduler",
        Group::Power => "Power, clocks, firmware",
        Group::Memory => "Memory",
        Group::Noise => "Noise",
        Group::Rights => "Rights of a program",
    }
}

/// The text of a finding.
#[must_use]
pub fn text(id: FindingId) -> FindingText {
    match id {
        FindingId::RtKernel => kernel::RT_KERNEL,
        FindingId::PreemptMode => kernel::PREEMPT_MODE,
        FindingId::Threadirqs => kernel::THREADIRQS,
        FindingId::KernelConfig => kernel::KERNEL_CONFIG,
        FindingId::HighResolution => kernel::HIGH_RESOLUTION,
        FindingId::NoHzFullSupport => kernel::NO_HZ_FULL_SUPPORT,
        FindingId::RcuNocbSupport => kernel::RCU_NOCB_SUPPORT,
        FindingId::DebugOptions => kernel::DEBUG_OPTIONS,
        FindingId::Tracing => kernel::TRACING,
        FindingId::UnknownParameter => kernel::UNKNOWN_PARAMETER,
        FindingId::ParameterNotInForce => kernel::PARAMETER_NOT_IN_FORCE,
        FindingId::Lockdown => kernel::LOCKDOWN,
        FindingId::Mitigations => kernel::MITIGATIONS,
        FindingId::KernelStackOffset => kernel::KERNEL_STACK_OFFSET,
        FindingId::KernelVersion => kernel::KERNEL_VERSION,
        FindingId::DualKernel => kernel::DUAL_KERNEL,
        FindingId::IsolatedCpus => isolation::ISOLATED_CPUS,
        FindingId::NohzFull => isolation::NOHZ_FULL,
        FindingId::RcuNocbs => isolation::RCU_NOCBS,
        FindingId::RcuThreads => isolation::RCU_THREADS,
        FindingId::NohzPatience => isolation::NOHZ_PATIENCE,
        FindingId::DefaultIrqAffinity => isolation::DEFAULT_IRQ_AFFINITY,
        FindingId::IrqAffinity => isolation::IRQ_AFFINITY,
        FindingId::ManagedIrqs => isolation::MANAGED_IRQS,
        FindingId::Irqbalance => isolation::IRQBALANCE,
        FindingId::WorkqueueMask => isolation::WORKQUEUE_MASK,
        FindingId::BoundKworkers => isolation::BOUND_KWORKERS,
        FindingId::VmstatInterval => isolation::VMSTAT_INTERVAL,
        FindingId::TimerMigration => isolation::TIMER_MIGRATION,
        FindingId::ReceiveSteering => isolation::RECEIVE_STEERING,
        FindingId::WatchdogMask => isolation::WATCHDOG_MASK,
        FindingId::KthreadCpus => isolation::KTHREAD_CPUS,
        FindingId::UserThreads => isolation::USER_THREADS,
        FindingId::SystemdSlices => isolation::SYSTEMD_SLICES,
        FindingId::SmtSiblings => isolation::SMT_SIBLINGS,
        FindingId::Resctrl => isolation::RESCTRL,
        FindingId::Numa => isolation::NUMA,
        FindingId::RtThrottling => scheduler::RT_THROTTLING,
        FindingId::FairServer => scheduler::FAIR_SERVER,
        FindingId::RtGroupSched => scheduler::RT_GROUP_SCHED,
        FindingId::Autogroup => scheduler::AUTOGROUP,
        FindingId::CompetingPriorities => scheduler::COMPETING_PRIORITIES,
        FindingId::SoftirqThreads => scheduler::SOFTIRQ_THREADS,
        FindingId::IrqThreads => scheduler::IRQ_THREADS,
        FindingId::ThreadedNapi => scheduler::THREADED_NAPI,
        FindingId::Uclamp => scheduler::UCLAMP,
        FindingId::SkewTick => scheduler::SKEW_TICK,
        FindingId::DeadlineBandwidth => scheduler::DEADLINE_BANDWIDTH,
        FindingId::Stalld => scheduler::STALLD,
        FindingId::SchedExt => scheduler::SCHED_EXT,
        FindingId::Governor => power::GOVERNOR,
        FindingId::EnergyPreference => power::ENERGY_PREFERENCE,
        FindingId::FrequencyRange => power::FREQUENCY_RANGE,
        FindingId::PstateDriver => power::PSTATE_DRIVER,
        FindingId::Uncore => power::UNCORE,
        FindingId::IdleStates => power::IDLE_STATES,
        FindingId::ResumeLatency => power::RESUME_LATENCY,
        FindingId::Clocksource => power::CLOCKSOURCE,
        FindingId::Clockevent => power::CLOCKEVENT,
        FindingId::Smi => power::SMI,
        FindingId::EfiRuntime => power::EFI_RUNTIME,
        FindingId::FirmwareUpdates => power::FIRMWARE_UPDATES,
        FindingId::MachineCheckPolling => power::MACHINE_CHECK_POLLING,
        FindingId::Aspm => power::ASPM,
        FindingId::DeviceRuntimePm => power::DEVICE_RUNTIME_PM,
        FindingId::NvmePower => power::NVME_POWER,
        FindingId::UsbAutosuspend => power::USB_AUTOSUSPEND,
        FindingId::ThermalThrottling => power::THERMAL_THROTTLING,
        FindingId::Hypervisor => power::HYPERVISOR,
        FindingId::ClockSteps => power::CLOCK_STEPS,
        FindingId::Swap => memory::SWAP,
        FindingId::Swappiness => memory::SWAPPINESS,
        FindingId::TransparentHugepages => memory::TRANSPARENT_HUGEPAGES,
        FindingId::Ksm => memory::KSM,
        FindingId::NumaBalancing => memory::NUMA_BALANCING,
        FindingId::Compaction => memory::COMPACTION,
        FindingId::MemoryScanners => memory::MEMORY_SCANNERS,
        FindingId::DirtyWriteback => memory::DIRTY_WRITEBACK,
        FindingId::MinFree => memory::MIN_FREE,
        FindingId::Hugepages => memory::HUGEPAGES,
        FindingId::MemoryLimit => memory::MEMORY_LIMIT,
        FindingId::Watchdogs => noise::WATCHDOGS,
        FindingId::RcuExpedited => noise::RCU_EXPEDITED,
        FindingId::RcuStall => noise::RCU_STALL,
        FindingId::SerialConsole => noise::SERIAL_CONSOLE,
        FindingId::Audit => noise::AUDIT,
        FindingId::Kdump => noise::KDUMP,
        FindingId::PerfSampling => noise::PERF_SAMPLING,
        FindingId::TimerJobs => noise::TIMER_JOBS,
        FindingId::SplitLock => noise::SPLIT_LOCK,
        FindingId::Filesystems => noise::FILESYSTEMS,
        FindingId::BlockScheduler => noise::BLOCK_SCHEDULER,
        FindingId::BusyPoll => noise::BUSY_POLL,
        FindingId::OtherTuners => noise::OTHER_TUNERS,
        FindingId::RtprioLimit => rights::RTPRIO_LIMIT,
        FindingId::MemlockLimit => rights::MEMLOCK_LIMIT,
        FindingId::RttimeLimit => rights::RTTIME_LIMIT,
        FindingId::Rtkit => rights::RTKIT,
        FindingId::DmaLatencyAccess => rights::DMA_LATENCY_ACCESS,
        FindingId::Capabilities => rights::CAPABILITIES,
        FindingId::Affinity => rights::AFFINITY,
        FindingId::PosixOptions => rights::POSIX_OPTIONS,
    }
}
