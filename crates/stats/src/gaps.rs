//! The verdict on a run that looked for gaps: nothing may take a CPU for longer than a limit.
//!
//! How many gaps there are depends on what is called one, so no probability is made of their
//! number. A limit was kept while it was watched, or it was not; and how much of the time was
//! watched is said with it.

use crate::evidence::RunEvidence;
use crate::format;
use crate::requirement::Requirement;
use crate::verdict::{Outcome, RequirementResult, Verdict, decided, invalid, lost_samples};

/// How long gaps were looked for, all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedTime {
    /// From the start to the end, in ns.
    pub span_ns: u64,
    /// What of it was watched, in ns.
    pub watched_ns: u64,
}

impl std::fmt::Display for WatchedTime {
    /// `19.0 s watched (95.0 % of the time)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = match self.span_ns {
            0 => 0.0,
            span => self.watched_ns.min(span) as f64 / span as f64,
        };
        write!(
            f,
            "{} watched ({:.1} % of the time)",
            format::duration(self.watched_ns),
            share * 100.0
        )
    }
}

/// Judges gaps: one above the limit of a requirement is a FAIL, whatever else the requirement
/// says; none is a PASS. `invalid_reasons` are what the caller found not to be in force.
pub fn judge_gaps(
    requirements: &[Requirement],
    evidence: &RunEvidence<'_>,
    watched: WatchedTime,
    invalid_reasons: &[String],
    confidence: f64,
) -> Verdict {
    let mut reasons = invalid_reasons.to_vec();
    if watched.watched_ns == 0 {
        reasons.push("nothing was watched".to_owned());
    }
    reasons.extend(lost_samples(evidence));
    let peaks = evidence.peaks();
    let one = |requirement: &Requirement| {
        let limit_ns = requirement.limit_ns();
        let (fewest, most) = evidence.late(limit_ns);
        let longest = evidence.max_ns().filter(|max| *max > limit_ns);
        let limit = format::duration(limit_ns);
        let load = evidence
            .load
            .map_or_else(String::new, |load| format!(" under {load}"));
        let (outcome, sentence) = match longest {
            None => (
                Outcome::Pass,
                format!("no gap in {watched}{load} was longer than {limit}."),
            ),
            Some(longest) => (
                Outcome::Fail,
                format!(
                    "{} (worst {}) in {watched}{load} longer than {limit}; none may be.",
                    match fewest.max(1) {
                        1 => "1 gap".to_owned(),
                        n => format!("{} gaps", format::count(n)),
                    },
                    format::duration(longest)
                ),
            ),
        };
        RequirementResult {
            requirement: *requirement,
            outcome,
            sentence,
            bound: evidence
                .misses(limit_ns, most, None, &peaks)
                .bound(confidence),
            needed_seconds: None,
            needed_without_miss_seconds: None,
            never: None,
        }
    };
    let results: Vec<RequirementResult> = requirements.iter().map(one).collect();
    if !reasons.is_empty() {
        return invalid(reasons, results, confidence);
    }
    decided(results, Vec::new(), confidence)
}
