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
use crate::miss::{MissBound, TimeNeeded, TimeUnknown};
use crate::peaks::Peaks;
use crate::requirement::Requirement;
use crate::shares::Shares;
use serde::{Deserialize, Serialize};

/// What a run says about a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequirementResult {
    /// The requirement.
    pub requirement: Requirement,
    /// The verdict on it.
    pub outcome: Outcome,
    /// The verdict in a sentence, without the word of the outcome.
    pub sentence: String,
    /// The bounds it rests on.
    pub bound: MissBound,
    /// Further seconds of measuring after which 9 in 10 runs pass if misses come as they did;
    /// `None` when it was decided, or when no time would do.
    pub needed_seconds: Option<u64>,
    /// Further seconds after which it is shown if no further miss comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_without_miss_seconds: Option<u64>,
    /// Why no time would do.
    pub never: Option<TimeUnknown>,
}

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        result.needed_without_miss_seconds = None;
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
    // Wake-ups that went unseen may all have been late.
    let unseen = evidence.unseen();
    let unseen_share = unseen as f64 / evidence.cycles().max(1) as f64;
    let outcome = if allowed <= 0.0 {
        match (surely, bound.misses) {
            (1.., _) => Outcome::Fail,
            (0, 0) if unseen == 0 => Outcome::Pass,
            // At most the width of a bucket over the limit.
            (0, _) => Outcome::Inconclusive,
        }
    } else if bound.upper + unseen_share <= allowed {
        Outcome::Pass
    } else if bound.lower > allowed {
        Outcome::Fail
    } else {
        Outcome::Inconclusive
    };
    let (mut needed, mut never) = (None, None);
    if outcome == Outcome::Inconclusive {
        let time = match bound.upper + unseen_share <= allowed || bound.upper > allowed {
            false => Err(TimeUnknown::Unseen),
            true => bound.time_needed(allowed),
        };
        match time {
            Ok(time) => needed = Some(time),
            Err(reason) => never = Some(reason),
        }
    }
    let sentence = sentence(&requirement, outcome, &bound, evidence, needed, never);
    RequirementResult {
        requirement,
        outcome,
        sentence,
        bound,
        needed_seconds: needed.map(|time| seconds(time.likely_ns)),
        needed_without_miss_seconds: needed.map(|time| seconds(time.without_miss_ns)),
        never,
    }
}

fn seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).max(1)
}

fn sentence(
    requirement: &Requirement,
    outcome: Outcome,
    bound: &MissBound,
    evidence: &RunEvidence<'_>,
    needed: Option<TimeNeeded>,
    never: Option<TimeUnknown>,
) -> String {
    let (observed, allowed) = (bound.observed_probability, requirement.allowed());
    let named = match outcome {
        Outcome::Fail => bound.lower,
        _ => bound.upper,
    };
    let shares = Shares::of(&[observed, named, allowed]);
    let load = evidence
        .load
        .map_or_else(String::new, |load| format!(" under {load}"));
    let confidence = format::percent(bound.confidence);
    let mut text = what_was_seen(bound, evidence, shares) + &load;
    let upper = shares.at_most(bound.upper);
    let allowance = shares.exactly(allowed);
    match outcome {
        Outcome::Fail if allowed <= 0.0 => text += "; none is allowed.",
        Outcome::Pass | Outcome::Inconclusive if allowed <= 0.0 => {
            text += &format!("; with {confidence} confidence fewer than {upper}, none is allowed.");
        }
        Outcome::Pass => {
            text +=
                &format!("; with {confidence} confidence fewer than {upper}, allowed {allowance}.");
        }
        Outcome::Fail => {
            let lower = shares.at_least(bound.lower);
            text +=
                &format!("; with {confidence} confidence at least {lower}, allowed {allowance}.");
        }
        Outcome::Inconclusive => {
            text += &format!(
                "; that shows fewer than {upper} with {confidence} confidence, allowed {allowance}."
            );
        }
        Outcome::Invalid => {}
    }
    text + &how_to_show_it(bound, evidence.repeats, needed, never)
}

/// "4.0 % of 120,126 cycles missed 100 µs (4,494 late, 284 skipped; worst 99.4 ms)".
fn what_was_seen(bound: &MissBound, evidence: &RunEvidence<'_>, shares: Shares) -> String {
    let limit = format::duration(bound.limit_ns);
    let skipped = evidence.missed();
    if bound.misses == 0 {
        let seen = format!(
            "no wake-up in {} was later than {limit}",
            format::count(evidence.samples())
        );
        return match skipped {
            0 => seen,
            1 => seen + " (1 skipped period)",
            _ => format!("{seen} ({} skipped periods)", format::count(skipped)),
        };
    }
    let cycles = format::count(bound.cycles);
    let how_many = match shares {
        Shares::Percent => format!("{} of {cycles}", shares.text(bound.observed_probability)),
        Shares::Scientific => format!("{} of {cycles}", format::count(bound.misses)),
    };
    let mut counts = vec![format!("{} late", format::count(bound.late))];
    match bound.missed {
        0 => {}
        missed if missed == skipped => {
            counts.push(format!("{} skipped", format::count(missed)));
        }
        missed => counts.push(format!(
            "{} of {} skipped",
            format::count(missed),
            format::count(skipped)
        )),
    }
    let mut details = vec![counts.join(", ")];
    match bound.bursts {
        Some(1) if bound.misses > 1 => details.push("1 burst".to_owned()),
        Some(bursts) if bound.misses > 1 => {
            details.push(format!("{} bursts", format::count(bursts)));
        }
        _ => {}
    }
    let worst_ns = if bound.missed > 0 {
        evidence.worst_ns()
    } else {
        evidence.max_ns()
    };
    if let Some(max) = worst_ns {
        details.push(format!("worst {}", format::duration(max)));
    }
    format!("{how_many} cycles missed {limit} ({})", details.join("; "))
}

/// How much longer to run, or why no time would do.
fn how_to_show_it(
    bound: &MissBound,
    repeats: bool,
    needed: Option<TimeNeeded>,
    never: Option<TimeUnknown>,
) -> String {
    let time = |ns: u64| format::duration_f64(seconds(ns) as f64 * 1e9);
    match (needed, never) {
        (Some(needed), _) => {
            let (likely, least) = (time(needed.likely_ns), time(needed.without_miss_ns));
            match bound.misses {
                0 if repeats => format!(" Run {least} longer: enough if no miss comes."),
                _ if repeats => format!(
                    " Run {likely} longer: enough if misses come as they did ({least} if none \
                     comes)."
                ),
                0 => format!(
                    " Run {least} longer: enough if no miss comes. {likely} longer is enough for \
                     9 in 10 machines that miss half as often as is allowed."
                ),
                _ => format!(
                    " Run {likely} longer: 9 in 10 such runs then pass if misses come as they did \
                     ({least} if none comes)."
                ),
            }
        }
        (None, Some(reason)) => {
            format!(" A longer run will not show it as things are: {reason}.")
        }
        (None, None) => String::new(),
    }
}
