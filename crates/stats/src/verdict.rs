//! The verdict on a run.
//!
//! PASS iff the upper bound of every requirement is within what is allowed,
//! FAIL iff a lower bound is above it, and INCONCLUSIVE between the two. Where
//! nothing is allowed, the first miss is a FAIL, and none at all is a PASS that
//! states what it shows. A run whose conditions were not in force, that lost a
//! sample, or in which a thread never woke up that should have is INVALID whatever it measured.
//!
//! A verdict is data: outcomes, bounds and counts. Whoever shows it finds the words.

use crate::evidence::{RunEvidence, Skipped, ThreadEvidence};
use crate::extremal::MIN_EXCEEDANCES;
use crate::gaps::WatchedTime;
use crate::lengths::LengthResult;
use crate::miss::{MissBound, MissEvidence, TimeNeeded, TimeUnknown};
use crate::peaks::Peaks;
use crate::requirement::Requirement;
use crate::tasks::TaskResult;
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

/// What was seen of the limit of a requirement, beside the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Seen {
    /// Wake-ups.
    WakeUps {
        /// How many were measured.
        samples: u64,
        /// Periods that were skipped.
        skipped: u64,
        /// The latest cycle that can miss the limit; `None` where there was none.
        worst_ns: Option<u64>,
    },
    /// Gaps.
    Gaps {
        /// Those longer than the limit, as few as there may have been.
        longer: u64,
        /// The longest of these; `None` where no gap was longer.
        longest_ns: Option<u64>,
        /// How long gaps were looked for.
        time: WatchedTime,
    },
}

/// The verdict on one requirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequirementResult {
    /// The requirement.
    pub requirement: Requirement,
    /// The verdict on it.
    pub outcome: Outcome,
    /// What was seen.
    pub seen: Seen,
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
    /// The thread that alone is shown not to meet it, where all together are not: its misses are few among the cycles
    /// of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Box<AloneResult>>,
}

impl RequirementResult {
    /// The bounds that decide: those of the thread that fails alone, or of all.
    pub fn deciding(&self) -> &MissBound {
        self.alone
            .as_ref()
            .map_or(&self.bound, |alone| &alone.bound)
    }
}

/// One of several threads, by its own cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AloneResult {
    /// Its place among the threads, from 0.
    pub thread: usize,
    /// What was seen of it.
    pub seen: Seen,
    /// The bounds on its share: of n threads with the n-th part of the doubt.
    pub bound: MissBound,
}

/// What in the evidence itself makes a run invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum InvalidEvidence {
    /// Not one wake-up was measured.
    NoWakeUp,
    /// A thread never woke up that should have.
    NeverWoke {
        /// Its CPU, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu: Option<u32>,
    },
    /// Gaps were looked for, and no time was watched.
    NothingWatched,
    /// Samples were lost.
    Lost {
        /// How many.
        samples: u64,
    },
}

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The verdict on all requirements together.
    pub outcome: Outcome,
    /// What in the evidence itself makes the run invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<InvalidEvidence>,
    /// One result for each requirement, in their order.
    pub requirements: Vec<RequirementResult>,
    /// One for each part of the program whose length was limited, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<LengthResult>,
    /// One for each task of a set, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskResult>,
    /// Further seconds of measuring until all can be shown, when that is known
    /// and needed.
    pub needed_seconds: Option<u64>,
    /// One-sided confidence, within (0, 1).
    pub confidence: f64,
}

impl Verdict {
    /// The verdict where conditions were not in force: INVALID, whatever was measured.
    #[must_use]
    pub fn invalidated(self) -> Self {
        self.invalidated_where(|_| true)
    }

    /// The verdict where more misses may have come than were seen: what is shown to FAIL does, and all else is INVALID.
    #[must_use]
    pub fn invalidated_unless_failed(self) -> Self {
        self.invalidated_where(|outcome| outcome != Outcome::Fail)
    }

    fn invalidated_where(mut self, is_invalid: impl Fn(Outcome) -> bool) -> Self {
        let invalidate = |outcome: &mut Outcome| {
            if is_invalid(*outcome) {
                *outcome = Outcome::Invalid;
            }
        };
        invalidate(&mut self.outcome);
        self.needed_seconds = None;
        let of_tasks = self.tasks.iter_mut().map(|task| &mut task.result);
        for result in self.requirements.iter_mut().chain(of_tasks) {
            invalidate(&mut result.outcome);
            result.needed_seconds = None;
            result.needed_without_miss_seconds = None;
        }
        for result in &mut self.lengths {
            invalidate(&mut result.outcome);
        }
        self
    }
}

/// Judges a run by its requirements at one-sided `confidence` (within 0..1).
///
/// Without requirements a valid run is INCONCLUSIVE. What the caller finds not to have been in
/// force makes it INVALID: [`Verdict::invalidated`].
pub fn judge(requirements: &[Requirement], evidence: &RunEvidence<'_>, confidence: f64) -> Verdict {
    let peaks = evidence.peaks();
    let results: Vec<RequirementResult> = requirements
        .iter()
        .map(|requirement| {
            let judged = |confidence| judge_one(*requirement, evidence, &peaks, confidence);
            // Of several threads one alone may fail, too: all together have half of the doubt for a FAIL.
            let of_all = match evidence.threads.len() {
                ..2 => judged(confidence),
                _ => strictly(judged, confidence, 2),
            };
            match alone(*requirement, evidence, confidence) {
                Some(alone) if of_all.outcome != Outcome::Fail => RequirementResult {
                    outcome: Outcome::Fail,
                    needed_seconds: None,
                    needed_without_miss_seconds: None,
                    never: None,
                    alone: Some(Box::new(alone)),
                    ..of_all
                },
                _ => of_all,
            }
        })
        .collect();
    decided(results, Vec::new(), Vec::new(), confidence).unless(invalid_evidence(evidence))
}

/// A verdict of which a FAIL holds with the n-th part of the doubt: else it is open.
pub(crate) fn strictly(
    judged: impl Fn(f64) -> RequirementResult,
    confidence: f64,
    parts: usize,
) -> RequirementResult {
    let result = judged(confidence);
    if result.outcome != Outcome::Fail {
        return result;
    }
    let strict = judged(1.0 - (1.0 - confidence) / parts.max(1) as f64);
    match strict.outcome {
        Outcome::Inconclusive => strict,
        _ => result,
    }
}

/// The thread with the highest share of misses that its own cycles alone show to be too high; none where one thread is
/// all, or no share is allowed. Where not each of its misses is known, those that are longer than all others are: they
/// are no more probable than all.
fn alone(
    requirement: Requirement,
    evidence: &RunEvidence<'_>,
    confidence: f64,
) -> Option<AloneResult> {
    let allowed = requirement.allowed();
    if evidence.threads.len() < 2 || allowed <= 0.0 {
        return None;
    }
    let strict = 1.0 - (1.0 - confidence) / (2 * evidence.threads.len()) as f64;
    let limit_ns = requirement.limit_ns();
    let of_thread = |(index, thread): (usize, &ThreadEvidence<'_>)| {
        let own = RunEvidence {
            threads: vec![thread.clone()],
            // What was counted of all together does not tell of one.
            rows: None,
            halves: None,
            seconds: 0,
            seconds_with_miss: 0,
            ..evidence.clone()
        };
        // Most are spared the bound.
        let missed = own.late(limit_ns).0 + own.missed_late(limit_ns).0;
        if missed as f64 <= allowed * own.cycles() as f64 {
            return None;
        }
        let judge = |limit_ns| {
            let requirement = requirement.with_limit(limit_ns);
            judge_one(requirement, &own, thread.peaks, strict)
        };
        let judged = judge(limit_ns);
        let lower = match judged.bound.bursts {
            Some(_) => judged.bound.lower,
            None => {
                let longest = judge(limit_ns.max(thread.peaks.threshold())).bound;
                longest.bursts.map(|_| longest.lower)?
            }
        };
        (lower > allowed).then_some(AloneResult {
            thread: index,
            seen: judged.seen,
            bound: MissBound {
                seconds_with_miss: None,
                lower,
                ..judged.bound
            },
        })
    };
    let threads = evidence.threads.iter().enumerate();
    let failed = threads.filter_map(of_thread);
    failed.max_by(|a, b| a.bound.lower.total_cmp(&b.bound.lower))
}

/// The verdict on all from the verdicts on each.
pub(crate) fn decided(
    requirements: Vec<RequirementResult>,
    lengths: Vec<LengthResult>,
    tasks: Vec<TaskResult>,
    confidence: f64,
) -> Verdict {
    let judged = || {
        let of_tasks = tasks.iter().map(|task| &task.result);
        requirements.iter().chain(of_tasks)
    };
    let taking = lengths.iter().map(|result| result.outcome);
    let outcome = overall(judged().map(|result| result.outcome).chain(taking));
    let open = judged().filter(|result| result.outcome == Outcome::Inconclusive);
    let needed: Option<Vec<u64>> = open.map(|result| result.needed_seconds).collect();
    Verdict {
        outcome,
        invalid: Vec::new(),
        needed_seconds: needed
            .filter(|_| outcome == Outcome::Inconclusive)
            .and_then(|seconds| seconds.into_iter().max()),
        requirements,
        lengths,
        tasks,
        confidence,
    }
}

impl Verdict {
    /// The verdict, INVALID where the evidence itself is.
    pub(crate) fn unless(mut self, invalid: Vec<InvalidEvidence>) -> Self {
        if invalid.is_empty() {
            return self;
        }
        self.invalid = invalid;
        self.invalidated()
    }
}

/// What in the evidence itself makes a run invalid.
pub(crate) fn invalid_evidence(evidence: &RunEvidence<'_>) -> Vec<InvalidEvidence> {
    let misses = |thread: &ThreadEvidence<'_>| thread.may_be_empty && thread.missed > 0;
    if evidence.samples() == 0 && !evidence.threads.iter().any(misses) {
        return vec![InvalidEvidence::NoWakeUp];
    }
    let threads = evidence.threads.iter();
    let unwoken = threads.filter(|thread| thread.histogram.is_empty() && !thread.may_be_empty);
    unwoken
        .map(|thread| InvalidEvidence::NeverWoke { cpu: thread.cpu })
        .chain(lost_samples(evidence))
        .collect()
}

/// That samples were lost, if any was.
pub(crate) fn lost_samples(evidence: &RunEvidence<'_>) -> Option<InvalidEvidence> {
    match evidence.lost() {
        0 => None,
        samples => Some(InvalidEvidence::Lost { samples }),
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

pub(crate) fn judge_one(
    requirement: Requirement,
    evidence: &RunEvidence<'_>,
    peaks: &Peaks,
    confidence: f64,
) -> RequirementResult {
    let limit_ns = requirement.limit_ns();
    let never = |thread: &ThreadEvidence<'_>| thread.skipped == Skipped::Never;
    let counts_missed = requirement.counts_missed() || evidence.threads.iter().any(never);
    let (fewest, most) = evidence.late(limit_ns);
    let (passed, may_have_passed) = evidence.missed_late(limit_ns);
    let counted = |missed| counts_missed.then_some(missed);
    let misses = evidence.misses(limit_ns, most, counted(may_have_passed), peaks);
    let mut bound = misses.bound(confidence);
    if fewest < most || counts_missed && passed < may_have_passed {
        // The histogram alone knows the count, up to the width of a bucket.
        let low = evidence.misses(limit_ns, fewest, counted(passed), peaks);
        bound.lower = low.bound(confidence).lower.min(bound.lower);
    }
    let result = |outcome, needed: Option<TimeNeeded>, never| {
        let worst_ns = match bound.missed {
            0 => evidence.max_ns(),
            _ => evidence.worst_ns(),
        };
        RequirementResult {
            requirement,
            outcome,
            seen: Seen::WakeUps {
                samples: evidence.samples(),
                skipped: evidence.missed(),
                worst_ns,
            },
            needed_seconds: needed.map(|time| seconds(time.likely_ns)),
            needed_without_miss_seconds: needed.map(|time| seconds(time.without_miss_ns)),
            never,
            alone: None,
            bound: bound.clone(),
        }
    };
    if let Requirement::Episodes { per_hour, .. } = requirement {
        let (outcome, time) = episodes_outcome(&bound, &misses, per_hour, confidence);
        return result(outcome, time.ok().flatten(), time.err());
    }
    let allowed = requirement.allowed();
    let surely = match requirement {
        Requirement::Max { limit_ns } => {
            let later = evidence.max_ns().is_some_and(|max| max > limit_ns);
            let never = evidence.threads.iter().filter(|thread| never(thread));
            u64::from(later) + never.map(|thread| thread.missed).sum::<u64>()
        }
        _ => fewest + passed,
    };
    let unseen = misses.unseen;
    let outcome = if allowed <= 0.0 {
        match (surely, bound.misses) {
            (1.., _) => Outcome::Fail,
            (0, 0) if unseen == 0 => Outcome::Pass,
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
    let too_short = match outcome {
        Outcome::Pass => too_short(&bound, limit_ns, allowed),
        _ => None,
    };
    let outcome = too_short.map_or(outcome, |_| Outcome::Inconclusive);
    let (mut needed, mut never) = (too_short, None);
    if outcome == Outcome::Inconclusive && needed.is_none() {
        // As many of a longer run will go unseen.
        let room = allowed - misses.unseen_upper(confidence);
        let of_unseen = room <= 0.0 && unseen > 0 && bound.misses == 0;
        let time = match of_unseen || allowed > 0.0 && room <= 0.0 {
            true => Err(TimeUnknown::Unseen),
            false => bound.time_needed(room.max(0.0)),
        };
        match time {
            Ok(time) => {
                let of_limit = shorter_than(limit_ns, bound.duration_ns).unwrap_or(0);
                needed = Some(TimeNeeded {
                    without_miss_ns: time.without_miss_ns.max(of_limit),
                    likely_ns: time.likely_ns.max(of_limit),
                });
            }
            Err(reason) => never = Some(reason),
        }
    }
    result(outcome, needed, never)
}

/// Whether misses come in at most so many episodes an hour; how much longer to run where that is open.
fn episodes_outcome(
    bound: &MissBound,
    misses: &MissEvidence<'_>,
    per_hour: f64,
    confidence: f64,
) -> (Outcome, Result<Option<TimeNeeded>, TimeUnknown>) {
    let Some(episodes) = bound.episodes.filter(|_| bound.duration_ns > 0) else {
        // More misses than are kept one by one.
        return (Outcome::Inconclusive, Err(TimeUnknown::RateTooHigh));
    };
    let hours = bound.hours();
    if episodes.upper / hours <= per_hour {
        return match too_short(bound, bound.limit_ns, 0.0) {
            None => (Outcome::Pass, Ok(None)),
            some => (Outcome::Inconclusive, Ok(some)),
        };
    }
    if episodes.lower / hours > per_hour {
        return (Outcome::Fail, Ok(None));
    }
    // As many of a longer run will go unseen.
    let room = per_hour - misses.unseen_episodes(confidence) / hours;
    let time = match room <= 0.0 {
        true => Err(TimeUnknown::Unseen),
        false => episodes.time_needed(bound.duration_ns, room, confidence),
    };
    (Outcome::Inconclusive, time.map(Some))
}

/// How long a run has to be to say anything: longer than the limit, with a few cycles, and where a share of
/// misses is allowed with as many as show whether they come in bursts.
fn too_short(bound: &MissBound, limit_ns: u64, allowed: f64) -> Option<TimeNeeded> {
    let enough = 2 * MIN_EXCEEDANCES as u64;
    let is_share = allowed > 0.0 && allowed < MOST_UNKNOWN;
    let cycles = [
        (bound.upper > MOST_UNKNOWN, ENOUGH_CYCLES),
        (is_share && bound.extremal_index.is_none(), enough),
    ];
    let lacking = cycles.iter().filter(|it| it.0 && bound.cycles < it.1);
    let spacing_ns = bound.duration_ns / bound.cycles.max(1);
    let of_cycles = lacking.map(|it| spacing_ns.saturating_mul(it.1));
    let of_limit = shorter_than(limit_ns, bound.duration_ns);
    let without_miss_ns = of_cycles.chain(of_limit).max()?;
    Some(TimeNeeded {
        without_miss_ns,
        likely_ns: without_miss_ns,
    })
}

/// Nothing can be later than a limit that is as long as the run: how much longer it has to be, in ns.
pub(crate) fn shorter_than(limit_ns: u64, duration_ns: u64) -> Option<u64> {
    let missing_ns = limit_ns.saturating_mul(2).saturating_sub(duration_ns);
    (1..=limit_ns).contains(&duration_ns).then_some(missing_ns)
}

/// A run passes only if it shows that a cycle rather meets its limit than misses it.
const MOST_UNKNOWN: f64 = 0.5;
/// With as many that is shown, at any usual confidence.
const ENOUGH_CYCLES: u64 = 10;

pub(crate) fn seconds(ns: u64) -> u64 {
    ns.div_ceil(1_000_000_000).max(1)
}
