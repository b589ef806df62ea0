//! The course of a fit: which step comes next. Pure.

use super::super::experiment::least_ns;
use super::AROUND_NS;
use punctual_record::finding::{FindingId, Group};
use punctual_record::fit::{FitOutcome, FitWork, ProvenKnob};
use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;

/// Knobs that are tried, at most: those of the dearest causes.
const MOST_KNOBS: usize = 8;

/// Qualifications that there must be time for after an experiment.
const LEAST_RESERVE: u64 = 2;

/// Lengths.
#[derive(Debug, Clone, Copy)]
pub struct FitLengths {
    /// The deadline, in ns.
    pub deadline_ns: u64,
    /// Time for everything, in ns.
    pub budget_ns: u64,
    /// A qualification, in ns: its measurement, and what it takes around it.
    pub qualify_ns: u64,
    /// The pilot of an experiment, in ns.
    pub pilot_ns: u64,
    /// A block of it with its time to settle, in ns.
    pub slot_ns: u64,
}

impl FitLengths {
    /// The shortest experiment with so many knobs, and what it takes around it, in ns.
    fn least_prove_ns(&self, knobs: usize) -> u64 {
        least_ns(knobs, self.pilot_ns, self.slot_ns).saturating_add(AROUND_NS)
    }

    /// The shortest budget with which one knob can be tried, in ns.
    #[must_use]
    pub fn least_budget_ns(&self) -> u64 {
        self.needed_ns(self.qualify_ns, 1)
    }

    /// What is needed for so many knobs after so much time, in ns.
    fn needed_ns(&self, elapsed_ns: u64, knobs: usize) -> u64 {
        let reserve_ns = self.qualify_ns.saturating_mul(LEAST_RESERVE);
        elapsed_ns
            .saturating_add(reserve_ns)
            .saturating_add(self.least_prove_ns(knobs))
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum FitNext {
    /// A qualification with these knobs on.
    Qualify(Vec<FindingId>),
    /// An experiment with these knobs, within this time.
    Prove(Vec<FindingId>, u64),
    /// Nothing.
    Over(FitOutcome),
}

/// Where it stands.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Before,
    /// With knobs on without which a run is not valid.
    Valid(Vec<FindingId>),
    Proving,
    After(Vec<FindingId>),
    /// The knobs that are needed so far, those still to be tried without, and which one is.
    Without {
        needed: Vec<FindingId>,
        untried: Vec<FindingId>,
        tried: FindingId,
    },
}

/// The course.
#[derive(Debug)]
pub struct FitCourse {
    lengths: FitLengths,
    stage: Stage,
    /// The budget that has room for the knobs that were left out.
    for_all_ns: Option<u64>,
}

impl FitCourse {
    /// The course, and its first step.
    #[must_use]
    pub fn begin(lengths: FitLengths) -> (Self, FitNext) {
        let course = Self {
            lengths,
            stage: Stage::Before,
            for_all_ns: None,
        };
        (course, FitNext::Qualify(Vec::new()))
    }

    /// What follows from the result of the last step, after so much time.
    pub fn next(&mut self, result: &FitWork, elapsed_ns: u64) -> FitNext {
        match result {
            FitWork::Qualify {
                outcome,
                asked,
                makes_valid,
                min_ns,
                ..
            } => self.qualified(*outcome, asked, makes_valid, *min_ns, elapsed_ns),
            FitWork::Prove {
                knobs,
                is_valid,
                is_short,
                needed_ns,
            } => {
                if let Some(needed_ns) = needed_ns {
                    self.without_room(*needed_ns, elapsed_ns)
                } else if !is_valid {
                    FitNext::Over(FitOutcome::Invalid)
                } else if *is_short {
                    FitNext::Over(FitOutcome::TooLittleEvidence)
                } else {
                    self.proven(knobs)
                }
            }
        }
    }

    fn qualified(
        &mut self,
        outcome: Outcome,
        asked: &[FindingId],
        makes_valid: &[FindingId],
        min_ns: u64,
        elapsed_ns: u64,
    ) -> FitNext {
        match (self.stage.clone(), outcome) {
            (Stage::Before, Outcome::Invalid) if !makes_valid.is_empty() => {
                self.stage = Stage::Valid(makes_valid.to_vec());
                FitNext::Qualify(makes_valid.to_vec())
            }
            (
                Stage::Without {
                    mut needed,
                    untried,
                    tried,
                },
                outcome,
            ) => {
                // Anything but a PASS shows that it can't be left out for sure; without some a run
                // is not valid.
                if outcome != Outcome::Pass {
                    needed.push(tried);
                }
                self.try_without(needed, untried, elapsed_ns)
            }
            (_, Outcome::Invalid) => FitNext::Over(FitOutcome::Invalid),
            (Stage::Valid(knobs), outcome) => FitNext::Over(match outcome {
                Outcome::Pass => FitOutcome::Met {
                    knobs,
                    untried: Vec::new(),
                },
                Outcome::Inconclusive => FitOutcome::TooLittleEvidence,
                _ => FitOutcome::FirstKeep { knobs },
            }),
            (Stage::Before | Stage::Proving, outcome) => {
                self.before(outcome, asked, min_ns, elapsed_ns)
            }
            (Stage::After(helped), outcome) => match outcome {
                Outcome::Pass => self.try_without(Vec::new(), helped, elapsed_ns),
                Outcome::Inconclusive => FitNext::Over(FitOutcome::TooLittleEvidence),
                _ => self.over(FitOutcome::NotEnough { knobs: helped }),
            },
        }
    }

    fn before(
        &mut self,
        outcome: Outcome,
        asked: &[FindingId],
        min_ns: u64,
        elapsed_ns: u64,
    ) -> FitNext {
        match outcome {
            Outcome::Pass => return FitNext::Over(FitOutcome::MetAlready),
            Outcome::Inconclusive => return FitNext::Over(FitOutcome::TooLittleEvidence),
            Outcome::Fail | Outcome::Invalid => {}
        }
        // Idle states and clock frequencies delay every wake-up; other knobs some of them.
        let makes_all_faster = |knob: &FindingId| knob.group() == Group::Power;
        if min_ns > self.lengths.deadline_ns && !asked.iter().any(makes_all_faster) {
            return FitNext::Over(FitOutcome::OutOfReach { min_ns });
        }
        if asked.is_empty() {
            return FitNext::Over(FitOutcome::NothingToTurn);
        }
        let mut knobs: Vec<FindingId> = asked.iter().copied().take(MOST_KNOBS).collect();
        let lengths = self.lengths;
        let left = |qualifications: u64| {
            let reserve_ns = lengths.qualify_ns.saturating_mul(qualifications);
            lengths
                .budget_ns
                .saturating_sub(elapsed_ns.saturating_add(reserve_ns))
        };
        // The dearest that there is time for.
        let has_room = |knobs: &usize| left(LEAST_RESERVE) >= lengths.least_prove_ns(*knobs);
        let all_ns = lengths.needed_ns(elapsed_ns, knobs.len());
        let Some(most) = (1..=knobs.len()).rev().find(has_room) else {
            let needed_ns = lengths.needed_ns(elapsed_ns, 1);
            return FitNext::Over(FitOutcome::BudgetTooSmall { needed_ns });
        };
        if most < knobs.len() {
            knobs.truncate(most);
            self.for_all_ns = Some(all_ns);
        }
        // One qualification after it, and one without each knob, as far as there is time.
        let all = 1 + knobs.len() as u64;
        let left_ns = match left(all) {
            enough if enough >= lengths.least_prove_ns(most) => enough,
            _ => left(LEAST_RESERVE),
        };
        self.stage = Stage::Proving;
        FitNext::Prove(knobs, left_ns)
    }

    /// Ends it, unless knobs that were left out might have changed that.
    fn over(&self, outcome: FitOutcome) -> FitNext {
        FitNext::Over(match self.for_all_ns {
            Some(needed_ns) => FitOutcome::BudgetTooSmall { needed_ns },
            None => outcome,
        })
    }

    /// The experiment found that it needs so much time.
    fn without_room(&self, needed_ns: u64, elapsed_ns: u64) -> FitNext {
        let reserve_ns = self.lengths.qualify_ns.saturating_mul(LEAST_RESERVE);
        FitNext::Over(FitOutcome::BudgetTooSmall {
            needed_ns: elapsed_ns
                .saturating_add(reserve_ns)
                .saturating_add(needed_ns),
        })
    }

    fn proven(&mut self, knobs: &[ProvenKnob]) -> FitNext {
        let helps = |it: &&ProvenKnob| it.conclusion == KnobConclusion::Helps;
        let mut helped: Vec<&ProvenKnob> = knobs.iter().filter(helps).collect();
        // The one that helps least first: it is the first that is left out.
        helped.sort_by(|a, b| {
            let ratio = |it: &ProvenKnob| it.ratio.unwrap_or(1.0);
            ratio(b).total_cmp(&ratio(a))
        });
        let helped: Vec<FindingId> = helped.into_iter().map(|it| it.knob).collect();
        if helped.is_empty() {
            return self.over(FitOutcome::NothingHelps);
        }
        self.stage = Stage::After(helped.clone());
        FitNext::Qualify(helped)
    }

    /// Leaves the next knob out, if there is one and time for it.
    fn try_without(
        &mut self,
        needed: Vec<FindingId>,
        mut untried: Vec<FindingId>,
        elapsed_ns: u64,
    ) -> FitNext {
        let is_last = needed.is_empty() && untried.len() == 1;
        let has_time = elapsed_ns.saturating_add(self.lengths.qualify_ns) <= self.lengths.budget_ns;
        // Without the last one it is the machine as it was, which failed.
        if untried.is_empty() || is_last || !has_time {
            let mut knobs = needed;
            knobs.extend(&untried);
            let untried = if is_last { Vec::new() } else { untried };
            return FitNext::Over(FitOutcome::Met { knobs, untried });
        }
        let tried = untried.remove(0);
        let mut on = needed.clone();
        on.extend(&untried);
        self.stage = Stage::Without {
            needed,
            untried,
            tried,
        };
        FitNext::Qualify(on)
    }
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
