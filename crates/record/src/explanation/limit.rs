//! What a control group may run, and how often the kernel threw it off the CPUs for that.

use serde::{Deserialize, Serialize};

/// A limit on the CPU time of a control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupLimit {
    /// The group: its directory, as it is mounted.
    pub group: String,
    /// The file that sets the limit: `cpu.max`, `cpu.cfs_quota_us` or `cpu.rt_runtime_us`.
    pub file: String,
    /// What the group may run of each period, in µs; on every CPU for real-time threads, on all
    /// of them together for the others.
    pub runtime_us: u64,
    /// The period, in µs.
    pub period_us: u64,
    /// By how much the groups above and beside it let the limit be raised, in µs; for real-time
    /// threads alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_us: Option<u64>,
    /// What the kernel counted in the time that is looked at; absent where it doesn't count, or
    /// its account could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<GroupThrottling>,
}

/// Time of each CPU that the kernel keeps for ordinary threads, however many real-time ones want it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrdinaryTime {
    /// What keeps it.
    pub by: Keeper,
    /// How much of each period, in ns.
    pub kept_ns: u64,
    /// The period, in ns.
    pub period_ns: u64,
    /// Why it can't be changed on this machine: the system's reason; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<String>,
}

/// What keeps time for ordinary threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Keeper {
    /// RT throttling: `kernel.sched_rt_runtime_us`. It stops real-time threads, whether or not an
    /// ordinary one is ready.
    RtThrottling,
    /// The fair server, from Linux 6.12 on: it runs ordinary threads that starve.
    FairServer,
}

/// How much a control group was throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupThrottling {
    /// Periods in which its threads were throttled.
    pub periods: u64,
    /// For how long, summed over the CPUs, in ns.
    pub ns: u64,
}

/// The file that limits the real-time threads of a group.
pub const RT_RUNTIME: &str = "cpu.rt_runtime_us";

impl GroupLimit {
    /// Whether it holds for real-time threads; else for the others.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.file == RT_RUNTIME
    }
}
