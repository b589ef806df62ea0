//! The machine as it was found: filled by `system`, read by `report`.

use crate::Hypervisor;
use serde::{Deserialize, Serialize};

use super::unread::Unread;

/// What is known of the machine. A field that could not be read is `None` or
/// empty, and `unread` says why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SystemState {
    /// Host name.
    pub hostname: String,
    /// The ID of the boot: another one each time that the machine starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Distribution's pretty name.
    pub distribution: Option<String>,
    /// The kernel.
    pub kernel: Kernel,
    /// Processor and topology.
    pub processor: Processor,
    /// What the firmware says of the machine; absent where it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The clock that the figures were read from.
    pub clock: Clock,
    /// Frequency and idle states.
    pub power: Power,
    /// Hypervisor and container.
    pub virtualisation: Virtualisation,
    /// The scheduler's limits and competitors.
    pub scheduler: Scheduler,
    /// Limits of this process.
    pub limits: Limits,
    /// Memory.
    pub memory: Memory,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

/// What the firmware says of the machine, by SMBIOS or in the device tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Hardware {
    /// Vendor and product, or the board's model: `LENOVO 30E0CTO1WW`, `Raspberry Pi 5 Model B Rev 1.0`.
    pub model: String,
    /// Version and date of the BIOS; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bios: Option<String>,
}

/// The kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// `uname -v`.
    pub version: String,
    /// `uname -m`.
    pub machine: String,
    /// `rt`, `full`, `lazy`, `voluntary`, `none` or `unknown`.
    pub preemption: String,
    /// Where that was read.
    pub preemption_source: String,
    /// The kernel's command line.
    pub command_line: String,
    /// `/proc/sys/kernel/tainted`.
    pub tainted: Option<u64>,
}

/// Processor and topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Processor {
    /// Model name.
    pub model: String,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Online CPUs.
    pub online: Vec<usize>,
    /// CPUs that this process may use.
    pub allowed: Vec<usize>,
    /// `isolcpus` and isolated partitions.
    pub isolated: Vec<usize>,
    /// `nohz_full`.
    pub nohz_full: Vec<usize>,
    /// Whether SMT is active.
    pub smt_active: Option<bool>,
    /// For each probed CPU: the other threads of its core.
    pub siblings: Vec<Siblings>,
    /// NUMA nodes and their CPUs.
    pub nodes: Vec<Node>,
}

/// The SMT siblings of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Siblings {
    /// The CPU.
    pub cpu: usize,
    /// The other threads of its core.
    pub others: Vec<usize>,
}

/// A NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Node {
    /// Its number.
    pub node: usize,
    /// Its CPUs.
    pub cpus: Vec<usize>,
}

/// The clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Clock {
    /// Current clock source.
    pub source: String,
    /// Available clock sources.
    pub available: Vec<String>,
    /// Resolution of CLOCK_MONOTONIC; above 1 there are no high-resolution timers.
    pub resolution_ns: u64,
    /// Clock event device of the first probed CPU.
    pub event_device: Option<String>,
}

/// Frequency and idle states.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Power {
    /// Frequency driver.
    pub frequency_driver: Option<String>,
    /// Governors in use with the CPUs they govern, as a list.
    pub governors: Vec<(String, Vec<usize>)>,
    /// Idle driver.
    pub idle_driver: Option<String>,
    /// Idle states of the first probed CPU.
    pub idle_states: Vec<IdleState>,
    /// Turbo or boost allowed.
    pub boost: Option<bool>,
    /// What `/dev/cpu_dma_latency` was held at for the run; absent where it was left alone.
    pub cpu_dma_latency_held_us: Option<i32>,
    /// What is known of it for a program that was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_dma_latency_watched: Option<WatchedLatency>,
}

/// `/dev/cpu_dma_latency` and a program that was watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WatchedLatency {
    /// Whether the program had it open when it was looked at.
    pub open: bool,
    /// The bound in force then, the lowest of all programs'; absent where it could not be read.
    pub in_force_us: Option<i32>,
}

/// An idle state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Exit latency as the driver states it.
    pub exit_latency_us: u64,
    /// Whether it is disabled.
    pub disabled: bool,
}

/// Hypervisor and container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Virtualisation {
    /// The hypervisor; absent on bare metal.
    pub hypervisor: Option<Hypervisor>,
    /// Kind of the container; absent outside one.
    pub container: Option<String>,
    /// Time stolen by the host during the run, on the probed CPUs.
    pub stolen_ns: Option<u64>,
    /// The same as a share of the run, per probed CPU: 0 to 1.
    pub stolen_share: Option<f64>,
    /// The account's step: 1 for the hypervisor's own, which the bills use too, else a tick of
    /// `/proc/stat`. Absent where it isn't known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_grain_ns: Option<u64>,
}

/// The scheduler's limits and competitors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Scheduler {
    /// `kernel.sched_rt_period_us`.
    pub rt_period_us: Option<i64>,
    /// `kernel.sched_rt_runtime_us`; −1 is no throttling.
    pub rt_runtime_us: Option<i64>,
    /// Real-time group scheduling: our group's runtime where it applies.
    pub rt_group_runtime_us: Option<i64>,
    /// The file that sets it.
    pub rt_group_file: Option<String>,
    /// Timer slack of this process.
    pub timer_slack_ns: Option<u64>,
    /// Tasks whose real-time priority is at or above ours and that may run on a
    /// probed CPU: the first 64, other programs' before the kernel's own threads.
    pub above: Vec<TaskAbove>,
    /// How many such tasks there were in all, also those not listed.
    pub above_count: u64,
    /// How many of all of them were kernel threads (`migration/N`, `irq/N-name`).
    pub above_kernel_count: u64,
}

/// A task that may preempt a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TaskAbove {
    /// Thread id.
    pub tid: i32,
    /// Name.
    pub name: String,
    /// `fifo`, `rr` or `deadline`.
    pub policy: String,
    /// Real-time priority.
    pub priority: u32,
    /// A kernel thread.
    pub kernel: bool,
    /// The probed CPUs it may run on.
    pub cpus: Vec<usize>,
}

/// Limits of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Limits {
    /// Effective user id.
    pub user: u32,
    /// Effective capabilities that matter here.
    pub capabilities: Vec<String>,
    /// Whether this is a user namespace below the first, as in a rootless container:
    /// capabilities then don't reach the scheduler. Absent where it can't be read.
    pub user_namespace: Option<bool>,
    /// RLIMIT_RTPRIO; unlimited stands as 99, the highest.
    pub rtprio: Option<u64>,
    /// RLIMIT_MEMLOCK in bytes; absent is unlimited.
    pub memlock_bytes: Option<u64>,
    /// RLIMIT_RTTIME in µs, the soft limit; absent is unlimited.
    pub rttime_us: Option<u64>,
    /// The hard limit of the same; absent is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rttime_hard_us: Option<u64>,
    /// cgroup paths.
    pub cgroups: Vec<String>,
    /// cgroup limits that apply, `file = value`.
    pub cgroup_limits: Vec<String>,
}

/// Memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Memory {
    /// Total.
    pub total_bytes: u64,
    /// Swap.
    pub swap_bytes: u64,
    /// `transparent_hugepage/enabled`.
    pub transparent_huge_pages: Option<String>,
    /// Automatic NUMA balancing.
    pub numa_balancing: Option<bool>,
    /// Kernel samepage merging.
    pub ksm: Option<bool>,
}
