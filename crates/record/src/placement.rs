//! Where the parts of a run were placed, and why these CPUs were probed.

use serde::{Deserialize, Serialize};

/// Why these CPUs were probed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// They were named.
    Named,
    /// They are isolated: `isolcpus`, or an isolated cgroup partition.
    Isolated,
    /// They run without a tick (`nohz_full`), and none is isolated.
    NohzFull,
    /// The affinity that the program was started with (`taskset`) is narrower than it must be.
    Inherited,
    /// They are all that this program may use, but for one where it could be spared.
    #[default]
    All,
}

/// Where the parts of a run were placed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Placement {
    /// Why these CPUs were probed.
    pub chosen: Chosen,
    /// The affinity that the program was started with.
    pub inherited: Vec<usize>,
    /// CPUs that it may move to: what its cpuset leaves.
    pub reachable: Vec<usize>,
    /// The isolated cgroup partition that it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// CPU of the collector and the tracer; absent where they run anywhere in the affinity
    /// that the program was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub housekeeping: Option<usize>,
    /// CPUs of the load; empty without one.
    pub load: Vec<usize>,
}
