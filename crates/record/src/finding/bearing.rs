//! What a bad finding does to a run that measures wake-ups.

use super::FindingId;

/// How a bad finding bears on a run, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bearing {
    /// A condition that a run requests may be refused or end: the run is INVALID then.
    Validity,
    /// It delays a wake-up by milliseconds.
    Milliseconds,
    /// It delays a wake-up by microseconds.
    Microseconds,
    /// A program may suffer from it; a wake-up of a thread with locked memory does not.
    None,
}

impl FindingId {
    /// How it bears on a run where it is bad.
    #[must_use]
    pub const fn bearing(self) -> Bearing {
        match self {
            Self::HighResolution
            | Self::RtGroupSched
            | Self::RtprioLimit
            | Self::MemlockLimit
            | Self::RttimeLimit
            | Self::DmaLatencyAccess
            | Self::Affinity => Bearing::Validity,
            Self::RtKernel
            | Self::PreemptMode
            | Self::DebugOptions
            | Self::RtThrottling
            | Self::FairServer
            | Self::CompetingPriorities
            | Self::SchedExt
            | Self::DeadlineBandwidth
            | Self::IrqThreads
            | Self::ThreadedNapi
            | Self::SoftirqThreads
            | Self::Smi
            | Self::EfiRuntime
            | Self::FirmwareUpdates
            | Self::DeviceRuntimePm
            | Self::ThermalThrottling
            | Self::Hypervisor
            | Self::TransparentHugepages
            | Self::MemoryLimit
            | Self::PerfSampling
            | Self::SerialConsole => Bearing::Milliseconds,
            Self::Threadirqs
            | Self::NoHzFullSupport
            | Self::RcuNocbSupport
            | Self::Tracing
            | Self::UnknownParameter
            | Self::ParameterNotInForce
            | Self::Mitigations
            | Self::KernelVersion
            | Self::IsolatedCpus
            | Self::KernelStackOffset
            | Self::NohzFull
            | Self::RcuNocbs
            | Self::RcuThreads
            | Self::NohzPatience
            | Self::DefaultIrqAffinity
            | Self::IrqAffinity
            | Self::ManagedIrqs
            | Self::Irqbalance
            | Self::WorkqueueMask
            | Self::BoundKworkers
            | Self::VmstatInterval
            | Self::TimerMigration
            | Self::ReceiveSteering
            | Self::WatchdogMask
            | Self::KthreadCpus
            | Self::UserThreads
            | Self::SystemdSlices
            | Self::SmtSiblings
            | Self::Resctrl
            | Self::Numa
            | Self::Uclamp
            | Self::SkewTick
            | Self::Governor
            | Self::EnergyPreference
            | Self::FrequencyRange
            | Self::Uncore
            | Self::IdleStates
            | Self::ResumeLatency
            | Self::Clocksource
            | Self::Clockevent
            | Self::MachineCheckPolling
            | Self::Aspm
            | Self::Ksm
            | Self::NumaBalancing
            | Self::Compaction
            | Self::MemoryScanners
            | Self::DirtyWriteback
            | Self::Watchdogs
            | Self::RcuExpedited
            | Self::TimerJobs
            | Self::OtherTuners => Bearing::Microseconds,
            Self::KernelConfig
            | Self::Lockdown
            | Self::DualKernel
            | Self::Autogroup
            | Self::Stalld
            | Self::PstateDriver
            | Self::NvmePower
            | Self::UsbAutosuspend
            | Self::ClockSteps
            | Self::Swap
            | Self::Swappiness
            | Self::MinFree
            | Self::Hugepages
            | Self::RcuStall
            | Self::Audit
            | Self::Kdump
            | Self::SplitLock
            | Self::Filesystems
            | Self::BlockScheduler
            | Self::BusyPoll
            | Self::Rtkit
            | Self::Capabilities
            | Self::PosixOptions => Bearing::None,
        }
    }
}
