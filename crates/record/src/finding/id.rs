//! The names of the findings.

use serde::{Deserialize, Serialize};

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// How the kernel was built and booted.
    Kernel,
    /// Whether the CPUs for real-time work are left alone.
    Isolation,
    /// Scheduling of the kernel's and other threads.
    Scheduler,
    /// Power management, clocks and firmware.
    Power,
    /// What makes memory slow or absent.
    Memory,
    /// What runs now and then.
    Noise,
    /// What a program may do.
    Rights,
}

/// Defines the findings: variant, name, group.
macro_rules! findings {
    ($($variant:ident $name:literal $group:ident,)*) => {
        /// A finding's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum FindingId {
            $(
                #[doc = concat!("`", $name, "`")]
                #[serde(rename = $name)]
                $variant,
            )*
        }

        impl FindingId {
            /// All, in their order.
            pub const ALL: &[FindingId] = &[$(Self::$variant,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it is about.
            #[must_use]
            pub const fn group(self) -> Group {
                match self {
                    $(Self::$variant => Group::$group,)*
                }
            }
        }
    };
}

findings! {
    RtKernel "rt-kernel" Kernel,
    PreemptMode "preempt-mode" Kernel,
    Threadirqs "threadirqs" Kernel,
    KernelConfig "kernel-config" Kernel,
    HighResolution "high-resolution" Kernel,
    NoHzFullSupport "no-hz-full-support" Kernel,
    RcuNocbSupport "rcu-nocb-support" Kernel,
    DebugOptions "debug-options" Kernel,
    Tracing "tracing" Kernel,
    UnknownParameter "unknown-parameter" Kernel,
    ParameterNotInForce "parameter-not-in-force" Kernel,
    Lockdown "lockdown" Kernel,
    Mitigations "mitigations" Kernel,
    KernelStackOffset "kernel-stack-offset" Kernel,
    KernelVersion "kernel-version" Kernel,
    DualKernel "dual-kernel" Kernel,
    IsolatedCpus "isolated-cpus" Isolation,
    NohzFull "nohz-full" Isolation,
    RcuNocbs "rcu-nocbs" Isolation,
    RcuThreads "rcu-threads" Isolation,
    NohzPatience "nohz-patience" Isolation,
    DefaultIrqAffinity "default-irq-affinity" Isolation,
    IrqAffinity "irq-affinity" Isolation,
    ManagedIrqs "managed-irqs" Isolation,
    Irqbalance "irqbalance" Isolation,
    WorkqueueMask "workqueue-mask" Isolation,
    BoundKworkers "bound-kworkers" Isolation,
    VmstatInterval "vmstat-interval" Isolation,
    TimerMigration "timer-migration" Isolation,
    ReceiveSteering "receive-steering" Isolation,
    WatchdogMask "watchdog-mask" Isolation,
    KthreadCpus "kthread-cpus" Isolation,
    UserThreads "user-threads" Isolation,
    SystemdSlices "systemd-slices" Isolation,
    SmtSiblings "smt-siblings" Isolation,
    Resctrl "resctrl" Isolation,
    Numa "numa" Isolation,
    RtThrottling "rt-throttling" Scheduler,
    FairServer "fair-server" Scheduler,
    RtGroupSched "rt-group-sched" Scheduler,
    Autogroup "autogroup" Scheduler,
    CompetingPriorities "competing-priorities" Scheduler,
    SoftirqThreads "softirq-threads" Scheduler,
    IrqThreads "irq-threads" Scheduler,
    ThreadedNapi "threaded-napi" Scheduler,
    Uclamp "uclamp" Scheduler,
    SkewTick "skew-tick" Scheduler,
    DeadlineBandwidth "deadline-bandwidth" Scheduler,
    Stalld "stalld" Scheduler,
    SchedExt "sched-ext" Scheduler,
    Governor "governor" Power,
    EnergyPreference "energy-preference" Power,
    FrequencyRange "frequency-range" Power,
    PstateDriver "pstate-driver" Power,
    Uncore "uncore" Power,
    IdleStates "idle-states" Power,
    ResumeLatency "resume-latency" Power,
    Clocksource "clocksource" Power,
    Clockevent "clockevent" Power,
    Smi "smi" Power,
    EfiRuntime "efi-runtime" Power,
    FirmwareUpdates "firmware-updates" Power,
    MachineCheckPolling "machine-check-polling" Power,
    Aspm "aspm" Power,
    DeviceRuntimePm "device-runtime-pm" Power,
    NvmePower "nvme-power" Power,
    UsbAutosuspend "usb-autosuspend" Power,
    ThermalThrottling "thermal-throttling" Power,
    Hypervisor "hypervisor" Power,
    ClockSteps "clock-steps" Power,
    Swap "swap" Memory,
    Swappiness "swappiness" Memory,
    TransparentHugepages "transparent-hugepages" Memory,
    Ksm "ksm" Memory,
    NumaBalancing "numa-balancing" Memory,
    Compaction "compaction" Memory,
    MemoryScanners "memory-scanners" Memory,
    DirtyWriteback "dirty-writeback" Memory,
    MinFree "min-free" Memory,
    Hugepages "hugepages" Memory,
    MemoryLimit "memory-limit" Memory,
    Watchdogs "watchdogs" Noise,
    RcuExpedited "rcu-expedited" Noise,
    RcuStall "rcu-stall" Noise,
    SerialConsole "serial-console" Noise,
    Audit "audit" Noise,
    Kdump "kdump" Noise,
    PerfSampling "perf-sampling" Noise,
    TimerJobs "timer-jobs" Noise,
    SplitLock "split-lock" Noise,
    Filesystems "filesystems" Noise,
    BlockScheduler "block-scheduler" Noise,
    BusyPoll "busy-poll" Noise,
    OtherTuners "other-tuners" Noise,
    RtprioLimit "rtprio-limit" Rights,
    MemlockLimit "memlock-limit" Rights,
    RttimeLimit "rttime-limit" Rights,
    Rtkit "rtkit" Rights,
    DmaLatencyAccess "dma-latency-access" Rights,
    Capabilities "capabilities" Rights,
    Affinity "affinity" Rights,
    PosixOptions "posix-options" Rights,
}

impl FindingId {
    /// The finding of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|id| id.name() == name)
    }
}

impl std::fmt::Display for FindingId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
