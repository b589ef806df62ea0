//! The course of an experiment: which knobs are on in the next slot. Pure.

use std::collections::VecDeque;

use punctual_record::experiment::{
    Experiment, ExperimentOutcome, Forecast, Phase, Pilot, WantedEffect,
};
use punctual_stats::experiment::{
    BlockLatencies, LEAST_PAIRS, Power, Spread, pair_order, screening_order,
};

/// Changes whose time is stated after the pilot, as ratios.
const STATED: [f64; 3] = [1.05, 1.1, 1.2];
/// Knobs that are tested in pairs after a screening, at most.
const CANDIDATES: usize = 3;
/// A knob is tested after a screening if chance alone makes its effect less often than this.
const WORTH_A_LOOK: f64 = 0.3;
/// Blocks of the shortest pilot.
const LEAST_PILOT: u64 = 6;

/// Lengths and aims of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Design {
    /// Length of the pilot in ns.
    pub pilot_ns: u64,
    /// Whether all knobs are screened first.
    pub screening: bool,
}

impl Design {
    /// With more knobs than this they are screened first.
    const SCREENED_FROM: usize = 4;

    /// Whether so many knobs are screened first, if nobody says otherwise.
    #[must_use]
    pub fn screens(knobs: usize) -> bool {
        knobs > Self::SCREENED_FROM
    }
}

/// A slot: a switch, the time to settle, and a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// What it is for.
    pub phase: Phase,
    /// The knobs that are on.
    pub on: Vec<usize>,
    /// Its pair.
    pub pair: Option<u64>,
    /// The knob that the pair tests.
    pub knob: Option<usize>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// This slot.
    Slot(Slot),
    /// Nothing.
    Over(ExperimentOutcome),
}

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pilot,
    Screening,
    Pairs,
}

/// The course.
#[derive(Debug)]
pub struct Course {
    design: Design,
    stage: Stage,
    queue: VecDeque<Slot>,
    /// The place in time of the next slot: slots that passed unused count.
    begun: usize,
    pairs: u64,
}

impl Course {
    /// The course of an experiment that has not begun.
    #[must_use]
    pub fn new(design: Design, experiment: &Experiment) -> Self {
        let mut queue = VecDeque::new();
        for _ in 0..pilot_slots(design.pilot_ns, experiment.slot_ns()) {
            queue.push_back(idle(Phase::Pilot));
        }
        // The last blocks of the pilot are collected meanwhile.
        queue.push_back(idle(Phase::Between));
        Self {
            design,
            stage: Stage::Pilot,
            queue,
            begun: 0,
            pairs: 0,
        }
    }

    /// Whether all slots of the pilot, and the one after it, have begun.
    #[must_use]
    pub fn has_ended_pilot(&self) -> bool {
        self.stage != Stage::Pilot || self.queue.is_empty()
    }

    /// What to do in the slot at this place in time. `experiment` has the figures of all blocks
    /// before the last one; what follows from a stage that has ended is put into it.
    pub fn next(&mut self, experiment: &mut Experiment, slot: usize) -> Step {
        self.begun = slot;
        if self.left(experiment) == 0 {
            // Slots that passed unused took the last ones of the plan along.
            return Step::Over(match self.stage {
                Stage::Pilot => ExperimentOutcome::Stopped,
                Stage::Screening | Stage::Pairs => ExperimentOutcome::Complete,
            });
        }
        if self.queue.is_empty()
            && let Some(outcome) = self.end_stage(experiment)
        {
            return Step::Over(outcome);
        }
        match self.queue.pop_front() {
            Some(slot) => Step::Slot(slot),
            None => Step::Over(ExperimentOutcome::Complete),
        }
    }

    /// Slots that the budget still has room for.
    fn left(&self, experiment: &Experiment) -> usize {
        let all = (experiment.budget_ns / experiment.slot_ns()) as usize;
        all.saturating_sub(self.begun)
    }

    /// Plans the next stage; or why there is none.
    fn end_stage(&mut self, experiment: &mut Experiment) -> Option<ExperimentOutcome> {
        match self.stage {
            Stage::Pilot => self.end_pilot(experiment),
            Stage::Screening => self.end_screening(experiment),
            Stage::Pairs => Some(ExperimentOutcome::Complete),
        }
    }

    fn end_pilot(&mut self, experiment: &mut Experiment) -> Option<ExperimentOutcome> {
        let knobs = experiment.knobs.len();
        let left = self.left(experiment);
        let Some(pilot) = pilot(experiment, left) else {
            return Some(ExperimentOutcome::NoSpread);
        };
        let needed = needed(experiment, &pilot.spreads, knobs);
        let most = pilot.pairs as usize;
        experiment.pilot = Some(pilot);
        if self.design.screening {
            // Half of what is left, and a slot to collect the last of its blocks.
            let screening = left.saturating_sub(1) / 4;
            let left = left.saturating_sub(1 + 2 * screening);
            let confirming = left / 2 / (CANDIDATES + 1);
            if screening <= knobs + 2 || confirming < LEAST_PAIRS {
                let slots = least_for_screening(knobs) + self.begun;
                return Some(too_small(experiment, Some(slots)));
            }
            self.stage = Stage::Screening;
            self.queue_screening(knobs, screening, experiment.seed);
            return None;
        }
        let Some(needed) = needed else {
            return Some(too_small(experiment, None));
        };
        if needed > most {
            let slots = self.begun + 2 * needed * knobs;
            return Some(too_small(experiment, Some(slots)));
        }
        let pairs = match experiment.wanted {
            Some(_) => needed,
            None => most,
        };
        self.stage = Stage::Pairs;
        let all: Vec<usize> = (0..knobs).collect();
        self.queue_pairs(&all, pairs, experiment.seed);
        None
    }

    fn end_screening(&mut self, experiment: &mut Experiment) -> Option<ExperimentOutcome> {
        experiment.judge();
        let mut chosen = candidates(experiment);
        if chosen.is_empty() {
            return Some(ExperimentOutcome::Complete);
        }
        // The control is the last knob.
        chosen.push(experiment.knobs.len() - 1);
        let pairs = self.left(experiment) / 2 / chosen.len();
        self.stage = Stage::Pairs;
        self.queue_pairs(&chosen, pairs, experiment.seed ^ 1);
        None
    }

    fn queue_screening(&mut self, knobs: usize, pairs: usize, seed: u64) {
        for first in screening_order(knobs, pairs, seed) {
            for side in [true, false] {
                let on = (0..knobs).filter(|at| first[*at] == side).collect();
                self.queue.push_back(Slot {
                    phase: Phase::Screening,
                    on,
                    pair: Some(self.pairs),
                    knob: None,
                });
            }
            self.pairs += 1;
        }
        self.queue.push_back(idle(Phase::Between));
    }

    fn queue_pairs(&mut self, knobs: &[usize], rounds: usize, seed: u64) {
        for plan in pair_order(knobs.len(), rounds, seed) {
            let knob = knobs[plan.knob];
            for is_on in [plan.on_first, !plan.on_first] {
                self.queue.push_back(Slot {
                    phase: Phase::Pairs,
                    on: if is_on { vec![knob] } else { Vec::new() },
                    pair: Some(self.pairs),
                    knob: Some(knob),
                });
            }
            self.pairs += 1;
        }
    }
}

/// Slots of a pilot.
#[must_use]
pub fn pilot_slots(pilot_ns: u64, slot_ns: u64) -> u64 {
    (pilot_ns / slot_ns.max(1)).max(LEAST_PILOT)
}

fn idle(phase: Phase) -> Slot {
    Slot {
        phase,
        on: Vec::new(),
        pair: None,
        knob: None,
    }
}

/// What the pilot's blocks say; `None` if they say nothing.
fn pilot(experiment: &Experiment, left: usize) -> Option<Pilot> {
    let blocks = experiment.blocks.iter();
    let of_pilot = blocks.filter(|it| it.phase == Phase::Pilot && it.left_out.is_none());
    let figures: Vec<BlockLatencies> = of_pilot.filter_map(|it| it.figures.clone()).collect();
    let spreads = Spread::of_pilot(&figures);
    if spreads.is_empty() {
        return None;
    }
    let knobs = experiment.knobs.len();
    let power = power(experiment, &spreads, knobs);
    let forecast = |spread: &Spread, ratio: f64| {
        let length_ns = |spread: &Spread| {
            let slots = power.pairs(spread, ratio).map(|pairs| 2 * pairs * knobs)?;
            Some(slots as u64 * experiment.slot_ns())
        };
        Forecast {
            measure: spread.measure,
            ratio,
            length_ns: length_ns(spread),
            shortest_ns: length_ns(&spread.lowest()),
            longest_ns: length_ns(&spread.highest()),
        }
    };
    let ratios = |spread| STATED.map(|ratio| forecast(spread, ratio));
    Some(Pilot {
        forecasts: spreads.iter().flat_map(ratios).collect(),
        pairs: (left / 2 / knobs.max(1)) as u64,
        spreads,
    })
}

fn power(experiment: &Experiment, spreads: &[Spread], knobs: usize) -> Power {
    Power {
        confidence: experiment.confidence,
        power: experiment.power,
        tests: knobs * spreads.len(),
    }
}

/// Pairs of each knob that the wanted effect needs, or without one any test; `None` where no number
/// of them is enough. A pilot of few blocks may have seen too little of how much they vary: what it
/// leaves possible counts.
fn needed(experiment: &Experiment, spreads: &[Spread], knobs: usize) -> Option<usize> {
    let Some(WantedEffect { measure, ratio }) = experiment.wanted else {
        return Some(LEAST_PAIRS);
    };
    let spread = spreads.iter().find(|spread| spread.measure == measure)?;
    power(experiment, spreads, knobs).pairs(&spread.highest(), ratio)
}

/// The shortest experiment with so many knobs and the control, in ns: known before anything runs. How
/// many pairs are needed for what the pilot shows may be more.
#[must_use]
pub fn least_ns(knobs: usize, pilot_ns: u64, slot_ns: u64) -> u64 {
    let all = knobs + 1;
    let slots = match Design::screens(knobs) {
        true => least_for_screening(all),
        // One between the pilot and the pairs, of which each is two.
        false => 1 + 2 * LEAST_PAIRS * all,
    };
    // The last one ends a little late.
    let slots = pilot_slots(pilot_ns, slot_ns).saturating_add(slots as u64 + 1);
    slots.saturating_mul(slot_ns)
}

/// Slots in which a screening and its confirmation have room.
fn least_for_screening(knobs: usize) -> usize {
    let confirming = 2 * LEAST_PAIRS * (CANDIDATES + 1);
    1 + (4 * (knobs + 3)).max(2 * confirming)
}

fn too_small(experiment: &Experiment, slots: Option<usize>) -> ExperimentOutcome {
    ExperimentOutcome::BudgetTooSmall {
        needed_ns: slots.map(|slots| slots as u64 * experiment.slot_ns()),
    }
}

/// The knobs that a screening makes worth a closer look, the most promising first.
fn candidates(experiment: &Experiment) -> Vec<usize> {
    let screened = experiment.screened.iter().enumerate();
    let mut chosen: Vec<(f64, usize)> = screened
        .filter(|(at, _)| !experiment.knobs[*at].is_control)
        .map(|(at, screened)| (screened.p(), at))
        .filter(|(p, _)| *p <= WORTH_A_LOOK)
        .collect();
    chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
    chosen.truncate(CANDIDATES);
    chosen.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
