//! What of a machine's findings stands in the record of a run.

use serde::{Deserialize, Serialize};

use super::{Bearing, Check, Finding, FindingId, StateKind};

/// The bad findings of the machine, read before a run's probes were started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFindings {
    /// The CPUs that were taken for real-time work: those of the probes; where they are all that
    /// the machine has, without the first, which everything else would be left.
    pub cpus: Vec<usize>,
    /// The priority of the program that it was checked for.
    pub priority: u32,
    /// How many could not be found out.
    pub unknown: u64,
    /// How long the check took.
    pub took_ns: u64,
    /// The bad ones, in their order.
    pub bad: Vec<Finding>,
    /// Fixes of them that were not recorded for lack of space.
    #[serde(default)]
    pub left_out: u64,
}

impl RunFindings {
    /// Fixes that a record keeps of one finding.
    pub const FIXES: usize = 32;

    /// What a record keeps of a check for a program of this priority.
    #[must_use]
    pub fn of(check: &Check, priority: u32, took_ns: u64) -> Self {
        let is_bad = |finding: &&Finding| finding.state.kind() == StateKind::Bad;
        let mut bad: Vec<Finding> = check.findings.iter().filter(is_bad).cloned().collect();
        let mut left_out = 0;
        for finding in &mut bad {
            left_out += finding.fixes.len().saturating_sub(Self::FIXES) as u64;
            finding.fixes.truncate(Self::FIXES);
        }
        Self {
            cpus: check.cpus.clone(),
            priority,
            unknown: check.count(StateKind::Unknown) as u64,
            took_ns,
            bad,
            left_out,
        }
    }

    /// The bad findings that bear on wake-ups: first what may make a run INVALID, then what the
    /// bills ask for (`asked`, the dearest first), then what takes longest.
    #[must_use]
    pub fn that_matter(&self, asked: &[FindingId]) -> Vec<&Finding> {
        let mut matter: Vec<&Finding> = self.bad.iter().collect();
        matter.retain(|finding| finding.id.bearing() != Bearing::None);
        matter.sort_by_key(|finding| {
            let bearing = finding.id.bearing();
            let place = asked.iter().position(|id| *id == finding.id);
            let place = place.unwrap_or(usize::MAX);
            (bearing != Bearing::Validity, place, bearing)
        });
        matter
    }
}
