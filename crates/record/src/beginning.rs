//! When a run began, and what it measured then: no evidence counts twice.

use serde::{Deserialize, Serialize};

use super::run::Run;

/// Host, time of day and instant of a clock that starts with the machine: no two runs share
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beginning {
    /// The host.
    pub hostname: String,
    /// The time of day, RFC 3339 in UTC.
    pub started: String,
    /// The instant from which it measured, in ns.
    pub start_ns: u64,
    /// How long it measured, in ns.
    #[serde(default)]
    pub measured_ns: u64,
    /// The ID of the machine's boot; absent where the record does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The CPUs that it probed; none where a program was watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
}

impl Beginning {
    /// That of a run which is no sum; none where the record doesn't say.
    #[must_use]
    pub fn of(run: &Run) -> Option<Self> {
        // The thread of a watched program may have run on any CPU: its last one tells nothing apart.
        let probes = run.threads.iter().filter(|_| run.watch.is_none());
        let cpus = probes.filter_map(|thread| thread.cpu);
        Some(Self {
            hostname: run.system.hostname.clone(),
            started: run.started.clone(),
            start_ns: run.start_ns?,
            measured_ns: run.measured_ns,
            boot_id: run.system.boot_id.clone(),
            cpus: cpus.collect(),
        })
    }

    /// Whether both are of one run.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let boots = self.boot_id.as_ref().zip(other.boot_id.as_ref());
        boots.is_none_or(|(own, other)| own == other)
            && self.start_ns == other.start_ns
            && self.started == other.started
            && self.hostname == other.hostname
    }

    /// Whether both measured a CPU, or a program, of one machine in the same time.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let begins_within =
            |a: &Self, b: &Self| a.start_ns < b.start_ns.saturating_add(b.measured_ns);
        let same_cpus = self.cpus.is_empty()
            || other.cpus.is_empty()
            || self.cpus.iter().any(|cpu| other.cpus.contains(cpu));
        self.boot_id.is_some()
            && self.boot_id == other.boot_id
            && begins_within(self, other)
            && begins_within(other, self)
            && same_cpus
    }
}
