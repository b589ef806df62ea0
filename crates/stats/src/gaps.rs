//! The verdict on a run that looked for gaps: nothing may take a CPU for longer than a limit.
//!
//! How many gaps there are depends on what is called one, so no probability is made of their
//! number. A limit was kept while it was watched, or it was not; and how much of the time was
//! watched is said with it.

use crate::evidence::RunEvidence;
use crate::requirement::Requirement;
use crate::verdict::{
    InvalidEvidence, Outcome, RequirementResult, Seen, Verdict, decided, lost_samples, seconds,
    shorter_than,
};
use serde::{Deserialize, Serialize};

/// How long gaps were looked for, all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedTime {
    /// From the start to the end, in ns.
    pub span_ns: u64,
    /// What of it was watched, in ns.
    pub watched_ns: u64,
    /// The longest gap, in ns, of which nobody knows whether it counts.
    #[serde(default)]
    pub untold_ns: u64,
}

impl WatchedTime {
    /// What of it was watched, 0..=1.
    #[must_use]
    pub fn share(&self) -> f64 {
        match self.span_ns {
            0 => 0.0,
            span => self.watched_ns.min(span) as f64 / span as f64,
        }
    }
}

/// Judges gaps: one above the limit of a requirement is a FAIL, whatever else the requirement
/// says; none is a PASS, unless one may have been that is not known to count. What the caller finds
/// not to have been in force makes the run INVALID: [`Verdict::invalidated`].
pub fn judge_gaps(
    requirements: &[Requirement],
    evidence: &RunEvidence<'_>,
    time: WatchedTime,
    confidence: f64,
) -> Verdict {
    let unwatched = (time.watched_ns == 0).then_some(InvalidEvidence::NothingWatched);
    let invalid = unwatched.into_iter().chain(lost_samples(evidence));
    let peaks = evidence.peaks();
    let one = |requirement: &Requirement| {
        let limit_ns = requirement.limit_ns();
        let (fewest, most) = evidence.late(limit_ns);
        let longest_ns = evidence.max_ns().filter(|max| *max > limit_ns);
        let missing_ns = match longest_ns {
            None => shorter_than(limit_ns, evidence.duration_ns),
            Some(_) => None,
        };
        let needed_seconds = missing_ns.map(seconds);
        RequirementResult {
            alone: None,
            requirement: *requirement,
            outcome: match (longest_ns, needed_seconds) {
                (None, None) if time.untold_ns <= limit_ns => Outcome::Pass,
                (None, _) => Outcome::Inconclusive,
                (Some(_), _) => Outcome::Fail,
            },
            seen: Seen::Gaps {
                longer: longest_ns.map_or(0, |_| fewest.max(1)),
                longest_ns,
                time,
            },
            bound: evidence
                .misses(limit_ns, most, None, &peaks)
                .bound(confidence),
            needed_seconds,
            needed_without_miss_seconds: needed_seconds,
            never: None,
        }
    };
    let results: Vec<RequirementResult> = requirements.iter().map(one).collect();
    decided(results, Vec::new(), Vec::new(), confidence).unless(invalid.collect())
}
