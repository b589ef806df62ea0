//! What of a machine's findings stands in the record of a run.

use serde::{Deserialize, Serialize};

use super::{
    Bearing, Check, Fault, Finding, FindingFix, FindingId, FindingState, Reading, StateKind,
};

/// The bad findings of the machine, read before a run's probes were started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunFindings {
    /// The CPUs that were taken for real-time work: those of the probes; where these are all that
    /// the machine has, without the first, which everything else is left.
    pub cpus: Vec<usize>,
    /// The priority of the program that it was checked for.
    pub priority: u32,
    /// How many could not be found out.
    pub unknown: u64,
    /// How long the check took.
    pub took_ns: u64,
    /// The bad ones, in their order.
    pub bad: Vec<BadFinding>,
    /// Fixes of them that were not recorded for lack of space.
    #[serde(default)]
    pub left_out: u64,
}

/// A finding that was bad.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BadFinding {
    /// Which one.
    pub id: FindingId,
    /// In which way.
    pub fault: Fault,
    /// What was read, and where: the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// What would fix it; the first is the best.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<FindingFix>,
}

impl BadFinding {
    /// The finding as `check` has it.
    #[must_use]
    pub fn finding(&self) -> Finding {
        let fault = self.fault.clone();
        Finding {
            id: self.id,
            state: FindingState::Bad { fault },
            readings: self.readings.clone(),
            fixes: self.fixes.clone(),
        }
    }
}

impl RunFindings {
    /// Fixes that a record keeps of one finding.
    pub const FIXES: usize = 32;

    /// What a record keeps of a check for a program of this priority.
    #[must_use]
    pub fn of(check: &Check, priority: u32, took_ns: u64) -> Self {
        let mut findings = Self {
            cpus: check.cpus.clone(),
            priority,
            unknown: check.count(StateKind::Unknown) as u64,
            took_ns,
            ..Self::default()
        };
        for finding in &check.findings {
            if let FindingState::Bad { fault } = &finding.state {
                let kept = finding.fixes.len().min(Self::FIXES);
                findings.left_out += (finding.fixes.len() - kept) as u64;
                findings.bad.push(BadFinding {
                    id: finding.id,
                    fault: fault.clone(),
                    readings: finding.readings.clone(),
                    fixes: finding.fixes[..kept].to_vec(),
                });
            }
        }
        findings
    }

    /// The bad findings that bear on wake-ups: first what may make a run INVALID, then what the
    /// bills ask for (`asked`, the dearest first), then what takes longest.
    #[must_use]
    pub fn that_matter(&self, asked: &[FindingId]) -> Vec<&BadFinding> {
        let mut matter: Vec<&BadFinding> = self.bad.iter().collect();
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
