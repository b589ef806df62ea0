//! The verdict on a run.
//!
//! PASS iff the upper bound of every requirement is within what is allowed,
//! FAIL iff a lower bound is above it, and INCONCLUSIVE between the two. Where
//! nothing is allowed, the first miss is a FAIL, and none at all is a PASS that
//! states what it shows. A run whose conditions were not in force, that lost a
//! sample, or in which a thread never woke up that should have is INVALID whatever it measured.

use crate::evidence::RunEvidence;
use crate::format;
use crate::lengths::LengthResult;
use crate::miss::{MissBound, TimeUnknown};
use crate::peaks::Peaks;
use crate::requirement::Requirement;
use serde::{Deserialize, Serialize};

/// What a run says about a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Met, at the stated confidence.
    Pass,
    /// Not met, at the stated confidence.
    Fail,
    /// Too little evidence for either.
    Inconclusive,
    /// The conditions were not in force, so the figures mean nothing.
    Invalid,
}

impl Outcome {
    /// Exit code of the tool: 0 PASS, 2 FAIL, 3 INCONCLUSIVE, 4 INVALID.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Pass => 0,
            Outcome::Fail => 2,
            Outcome::Inconclusive => 3,
            Outcome::Invalid => 4,
        }
    }

    /// The word for it, as it stands in every output.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Pass => "PASS",
            Outcome::Fail => "FAIL",
            Outcome::Inconclusive => "INCONCLUSIVE",
            Outcome::Invalid => "INVALID",
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// The verdict on one requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequirementResult {
    /// The requirement.
    pub requirement: Requirement,
    /// The verdict on it.
    pub outcome: Outcome,
    /// The verdict in a sentence, without the word of the outcome.
    pub sentence: String,
    /// The bounds it rests on.
    pub bound: MissBound,
    /// Further seconds of measuring until it can be shown; `None` when it was
    /// decided, or when no time would do.
    pub needed_seconds: Option<u64>,
    /// Why no time would do.
    pub never: Option<TimeUnknown>,
}

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict on all requirements together.
    pub outcome: Outcome,
    /// A sentence to quote, with the word of the outcome.
    pub sentence: String,
    /// Why the run is invalid, or what decided in the case of several
    /// requirements.
    pub reasons: Vec<String>,
    /// One result for each requirement, in their order.
    pub requirements: Vec<RequirementResult>,
    /// One for each part of the program whose length was limited, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthResult>,
    /// Further seconds of measuring until all can be shown, when that is known
    /// and needed.
    pub needed_seconds: Option<u64>,
    /// One-sided confidence, within (0, 1).
    pub confidence: f64,
}

/// Judges a run by its requirements at one-sided `confidence` (within 0..1).
///
/// `invalid_reasons` are what the caller found not to be in force; any makes
/// the run INVALID. Without requirements a valid run is INCONCLUSIVE.
pub fn judge(
    requirements: &[Requirement],
    evidence: &RunEvidence<'_>,
    invalid_reasons: &[String],
    confidence: f64,
) -> Verdict {
    let mut reasons = invalid_reasons.to_vec();
    reasons.extend(invalid_evidence(evidence));
    let peaks = evidence.peaks();
    let results: Vec<RequirementResult> = requirements
        .iter()
        .map(|requirement| judge_one(*requirement, evidence, &peaks, confidence))
        .collect();
    if !reasons.is_empty() {
        return invalid(reasons, results, confidence);
    }
    decided(results, Vec::new(), confidence)
}

/// The verdict on all from the verdicts on each.
pub(crate) fn decided(
    requirements: Vec<RequirementResult>,
    lengths: Vec<LengthResult>,
    confidence: f64,
) -> Verdict {
    let waking = requirements
        .iter()
        .map(|r| (r.outcome, r.sentence.as_str(), r.requirement.to_string()));
    let taking = lengths
        .iter()
        .map(|r| (r.outcome, r.sentence.as_str(), r.required()));
    let all: Vec<(Outcome, &str, String)> = waking.chain(taking).collect();
    let outcome = overall(all.iter().map(|(outcome, ..)| *outcome));
    let deciding = all.iter().filter(|(own, ..)| *own == outcome);
    let sentences: Vec<&str> = deciding.map(|(_, sentence, _)| *sentence).collect();
    let sentence = if sentences.is_empty() {
        "INCONCLUSIVE: nothing was required".to_owned()
    } else {
        format!("{outcome}: {}", sentences.join(" "))
    };
    let reasons = if all.len() > 1 {
        let line = |(outcome, _, asked): &(Outcome, &str, String)| format!("{outcome}: {asked}");
        all.iter().map(line).collect()
    } else {
        Vec::new()
    };
    let open = requirements
        .iter()
        .filter(|r| r.outcome == Outcome::Inconclusive);
    let needed: Option<Vec<u64>> = open.map(|result| result.needed_seconds).collect();
    Verdict {
        outcome,
        sentence,
        reasons,
        needed_seconds: needed
            .filter(|_| outcome == Outcome::Inconclusive)
            .and_then(|seconds| seconds.into_iter().max()),
        requirements,
        lengths,
        confidence,
    }
}

/// The verdict on a run whose conditions were not in force.
pub(crate) fn invalid(
    reasons: Vec<String>,
    mut results: Vec<RequirementResult>,
    confidence: f64,
) -> Verdict {
    for result in &mut results {
        result.outcome = Outcome::Invalid;
        result.needed_seconds = None;
    }
    Verdict {
        outcome: Outcome::Invalid,
        sentence: format!("INVALID: {}", reasons.join("; ")),
        reasons,
        requirements: results,
        lengths: Vec::new(),
        needed_seconds: None,
        confidence,
    }
}

/// What in the evidence itself makes a run invalid.
fn invalid_evidence(evidence: &RunEvidence<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if evidence.samples() == 0 {
        reasons.push("not one wake-up was measured".to_owned());
        return reasons;
    }
    for thread in &evidence.threads {
        if thread.histogram.is_empty() && !thread.may_be_empty {
            reasons.push(format!("the thread on CPU {} never woke up", thread.cpu));
        }
    }
    reasons.extend(lost_samples(evidence));
    reasons
}

/// That samples were lost, if any was.
pub(crate) fn lost_samples(evidence: &RunEvidence<'_>) -> Option<String> {
    match evidence.lost() {
        0 => None,
        1 => Some("1 sample was lost".to_owned()),
        lost => Some(format!("{} samples were lost", format::count(lost))),
    }
}

/// The worst of them; nothing is shown where there is none.
fn overall(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let severity = |outcome: &Outcome| match outcome {
        Outcome::Pass => 0,
        Outcome::Inconclusive => 1,
        Outcome::Fail => 2,
        Outcome::Invalid => 3,
    };
    outcomes
        .max_by_key(severity)
        .unwrap_or(Outcome::Inconclusive)
}

fn judge_one(
    requirement: Requirement,
    evidence: &RunEvidence<'_>,
    peaks: &Peaks,
    confidence: f64,
) -> RequirementResult {
    let limit_ns = requirement.limit_ns();
    let counts_missed = requirement.counts_missed();
    let (fewest, most) = evidence.late(limit_ns);
    let (passed, may_have_passed) = evidence.missed_late(limit_ns);
    let counted = |missed| counts_missed.then_some(missed);
    let mut bound = evidence
        .misses(limit_ns, most, counted(may_have_passed), peaks)
        .bound(confidence);
    if fewest < most || counts_missed && passed < may_have_passed {
        // The histogram alone knows the count, up to the width of a bucket.
        let low = evidence.misses(limit_ns, fewest, counted(passed), peaks);
        bound.lower = low.bound(confidence).lower.min(bound.lower);
    }
    let allowed = requirement.allowed();
    let surely = match requirement {
        Requirement::Max { limit_ns } => {
            u64::from(evidence.max_ns().is_some_and(|max| max > limit_ns))
        }
        _ => fewest + passed,
    };
    let outcome = if allowed <= 0.0 {
        match (surely, bound.misses) {
            (1.., _) => Outcome::Fail,
            (0, 0) => Outcome::Pass,
            // At most the width of a bucket over the limit.
            (0, _) => Outcome::Inconclusive,
        }
    } else if bound.upper <= allowed {
        Outcome::Pass
    } else if bound.lower > allowed {
        Outcome::Fail
    } else {
        Outcome::Inconclusive
    };
    let (mut needed_seconds, mut never) = (None, None);
    if outcome == Outcome::Inconclusive {
        match bound.time_needed(allowed) {
            Ok(ns) => needed_seconds = Some(ns.div_ceil(1_000_000_000).max(1)),
            Err(reason) => never = Some(reason),
        }
    }
    let sentence = sentence(
        &requirement,
        outcome,
        &bound,
        evidence,
        needed_seconds,
        never,
    );
    RequirementResult {
        requirement,
        outcome,
        sentence,
        bound,
        needed_seconds,
        never,
    }
}

fn sentence(
    requirement: &Requirement,
    outcome: Outcome,
    bound: &MissBound,
    evidence: &RunEvidence<'_>,
    needed_seconds: Option<u64>,
    never: Option<TimeUnknown>,
) -> String {
    let limit = format::duration(bound.limit_ns);
    let cycles = format::count(bound.cycles);
    let load = evidence
        .load
        .map_or_else(String::new, |load| format!(" under {load}"));
    let confidence = format::percent(bound.confidence);
    let mut text = if bound.misses == 0 {
        format!("no wake-up in {cycles} was later than {limit}{load}")
    } else {
        let misses = misses_in_words(bound, evidence);
        format!("{misses} in {cycles} cycles missed {limit}{load}")
    };
    let upper = format::probability(bound.upper);
    let lower = format::probability(bound.lower);
    let allowed = format::probability(requirement.allowed());
    match outcome {
        Outcome::Pass => {
            let verb = if bound.misses == 0 { "are" } else { "do" };
            text += &format!("; with {confidence} confidence fewer than {upper} {verb}.");
        }
        Outcome::Fail if requirement.allowed() <= 0.0 => text += "; none may.",
        Outcome::Fail => {
            text +=
                &format!("; with {confidence} confidence more than {lower} do, and {allowed} may.");
        }
        Outcome::Inconclusive => {
            text += &format!(
                "; that shows fewer than {upper} with {confidence} confidence, and {allowed} may."
            );
            if let Some(seconds) = needed_seconds {
                let time = format::duration_f64(seconds as f64 * 1e9);
                text += &format!(" Run {time} longer.");
            } else if let Some(reason) = never {
                text += &format!(" A longer run will not show it as things are: {reason}.");
            }
        }
        Outcome::Invalid => {}
    }
    text
}

/// "12 (worst 1.52 ms, in 3 bursts, 9 of them periods that passed)".
fn misses_in_words(bound: &MissBound, evidence: &RunEvidence<'_>) -> String {
    let mut details = Vec::new();
    if let Some(max) = evidence.max_ns() {
        details.push(format!("worst {}", format::duration(max)));
    }
    match bound.bursts {
        Some(1) if bound.misses > 1 => details.push("in one burst".to_owned()),
        Some(bursts) if bound.misses > 1 => {
            details.push(format!("in {} bursts", format::count(bursts)));
        }
        _ => {}
    }
    if bound.missed > 0 {
        details.push(match bound.missed {
            1 => "1 of them a period that passed".to_owned(),
            missed => format!("{} of them periods that passed", format::count(missed)),
        });
    }
    format!("{} ({})", format::count(bound.misses), details.join(", "))
}
