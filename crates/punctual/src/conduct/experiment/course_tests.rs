use super::*;
use punctual_record::experiment::{ExcessLimit, ExperimentBlock, ExperimentKnob};
use punctual_stats::experiment::{KnobConclusion, Measure};

const SECOND: u64 = 1_000_000_000;

fn experiment(knobs: usize, minutes: u64) -> Experiment {
    let knob = |at: usize| ExperimentKnob {
        name: format!("knob-{at}"),
        settings: Vec::new(),
        is_control: at == knobs,
    };
    Experiment {
        knobs: (0..=knobs).map(knob).collect(),
        budget_ns: minutes * 60 * SECOND,
        limit: Some(ExcessLimit {
            ns: 100_000,
            is_deadline: true,
        }),
        ..Experiment::planned(5, 5 * SECOND, SECOND, 0.95)
    }
}

/// A machine whose tail each knob scales by its ratio.
struct Machine {
    ratios: Vec<f64>,
    state: u64,
    sd: f64,
}

impl Machine {
    fn new(ratios: &[f64], sd: f64) -> Self {
        Self {
            ratios: ratios.to_vec(),
            state: 12345,
            sd,
        }
    }

    fn noise(&mut self) -> f64 {
        let sum: f64 = (0..12)
            .map(|_| {
                self.state = self
                    .state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (self.state >> 11) as f64 / (1_u64 << 53) as f64
            })
            .sum();
        sum - 6.0
    }

    fn block(&mut self, on: &[usize]) -> BlockLatencies {
        let ratio: f64 = on
            .iter()
            .map(|at| self.ratios.get(*at).unwrap_or(&1.0))
            .product();
        let mut quantile = |ns: f64| Some((ns * ratio * (self.sd * self.noise()).exp()) as u64);
        let (p50_ns, p99_ns, p999_ns) = (quantile(9e3), quantile(5e4), quantile(1.5e5));
        BlockLatencies {
            count: 5_000,
            p50_ns,
            p99_ns,
            p999_ns,
            max_ns: p999_ns.unwrap_or(0),
            excess_ns: p999_ns.unwrap_or(0).saturating_sub(100_000) * 5,
            messages: None,
        }
    }
}

fn block(slot: Slot, at_ns: u64, figures: BlockLatencies) -> ExperimentBlock {
    ExperimentBlock {
        at_ns,
        phase: slot.phase,
        on: slot.on,
        pair: slot.pair,
        knob: slot.knob,
        switching_ns: 0,
        figures: Some(figures),
        left_out: None,
        costs: Vec::new(),
    }
}

/// Runs a course to its end.
fn conduct(design: Design, experiment: &mut Experiment, machine: &mut Machine) {
    let mut course = Course::new(design, experiment);
    for slot in 0.. {
        match course.next(experiment, slot as usize) {
            Step::Over(outcome) => {
                experiment.outcome = outcome;
                break;
            }
            Step::Slot(next) => {
                let figures = machine.block(&next.on);
                let at_ns = slot * experiment.slot_ns();
                experiment.blocks.push(block(next, at_ns, figures));
            }
        }
    }
    experiment.judge();
}

const PAIRS: Design = Design {
    pilot_ns: 120 * SECOND,
    screening: false,
};

#[test]
fn an_experiment_uses_its_budget_and_not_more() {
    for (knobs, minutes) in [(1, 20), (2, 20), (3, 60)] {
        let mut experiment = experiment(knobs, minutes);
        conduct(PAIRS, &mut experiment, &mut Machine::new(&[1.0; 4], 0.2));
        assert_eq!(experiment.outcome, ExperimentOutcome::Complete);
        let used_ns = experiment.blocks.len() as u64 * experiment.slot_ns();
        assert!(used_ns <= experiment.budget_ns);
        // No room for one more round.
        let round_ns = 2 * (knobs as u64 + 1) * experiment.slot_ns();
        assert!(
            used_ns + round_ns > experiment.budget_ns,
            "{knobs}: {used_ns}"
        );
        let pilot = experiment
            .blocks
            .iter()
            .filter(|it| it.phase == Phase::Pilot);
        assert_eq!(pilot.count(), 20);
        let pairs: Vec<usize> = experiment.results.iter().map(|it| it.pairs).collect();
        assert!(
            pairs.iter().all(|it| *it == pairs[0] && *it >= LEAST_PAIRS),
            "{pairs:?}"
        );
    }
}

#[test]
fn a_knob_with_an_effect_is_named_and_the_control_is_not() {
    let mut experiment = experiment(2, 20);
    conduct(
        PAIRS,
        &mut experiment,
        &mut Machine::new(&[1.0, 0.6, 1.0], 0.2),
    );
    let conclusions: Vec<_> = experiment.results.iter().map(|it| it.conclusion).collect();
    let none = KnobConclusion::NoEffectShown;
    assert_eq!(conclusions, [none, KnobConclusion::Helps, none]);
    assert!(!experiment.control_fails());
}

#[test]
fn a_control_with_an_effect_fails() {
    let mut experiment = experiment(1, 20);
    conduct(PAIRS, &mut experiment, &mut Machine::new(&[1.0, 0.6], 0.2));
    assert!(experiment.control_fails());
}

#[test]
fn an_effect_that_the_budget_has_no_room_for_is_refused_before_anything_is_switched() {
    let mut small = experiment(2, 20);
    small.wanted = Some(WantedEffect {
        measure: Measure::P99,
        ratio: 1.05,
    });
    conduct(PAIRS, &mut small, &mut Machine::new(&[0.95; 3], 0.3));
    let ExperimentOutcome::BudgetTooSmall {
        needed_ns: Some(needed_ns),
    } = small.outcome
    else {
        panic!("{:?}", small.outcome);
    };
    assert!(small.blocks.iter().all(|block| block.on.is_empty()));
    assert!(needed_ns > small.budget_ns);
    // The budget that it asks for is enough.
    let mut large = experiment(2, needed_ns.div_ceil(60 * SECOND));
    large.wanted = small.wanted;
    conduct(PAIRS, &mut large, &mut Machine::new(&[0.95; 3], 0.3));
    assert_eq!(large.outcome, ExperimentOutcome::Complete);
}

#[test]
fn a_large_wanted_effect_ends_before_the_budget_does() {
    let mut experiment = experiment(1, 120);
    experiment.wanted = Some(WantedEffect {
        measure: Measure::P99,
        ratio: 2.0,
    });
    conduct(PAIRS, &mut experiment, &mut Machine::new(&[0.5, 1.0], 0.2));
    assert_eq!(experiment.outcome, ExperimentOutcome::Complete);
    let used_ns = experiment.blocks.len() as u64 * experiment.slot_ns();
    assert!(used_ns < experiment.budget_ns / 4);
    assert_eq!(experiment.results[0].conclusion, KnobConclusion::Helps);
}

#[test]
fn a_measure_that_no_block_has_cannot_be_wanted() {
    let mut experiment = experiment(1, 20);
    experiment.wanted = Some(WantedEffect {
        measure: Measure::P999,
        ratio: 2.0,
    });
    let mut course = Course::new(PAIRS, &experiment);
    let mut machine = Machine::new(&[], 0.1);
    let outcome = loop {
        let slot_number = experiment.blocks.len();
        match course.next(&mut experiment, slot_number) {
            Step::Over(outcome) => break outcome,
            Step::Slot(slot) => {
                let figures = BlockLatencies {
                    p999_ns: None,
                    ..machine.block(&[])
                };
                let at_ns = slot_number as u64 * experiment.slot_ns();
                experiment.blocks.push(block(slot, at_ns, figures));
            }
        }
    };
    assert_eq!(
        outcome,
        ExperimentOutcome::BudgetTooSmall { needed_ns: None }
    );
}

#[test]
fn a_budget_without_room_for_a_test_says_what_it_needs() {
    let mut small = experiment(8, 10);
    conduct(PAIRS, &mut small, &mut Machine::new(&[1.0; 9], 0.2));
    let ExperimentOutcome::BudgetTooSmall {
        needed_ns: Some(needed_ns),
    } = small.outcome
    else {
        panic!("{:?}", small.outcome);
    };
    let mut large = experiment(8, needed_ns.div_ceil(60 * SECOND));
    conduct(PAIRS, &mut large, &mut Machine::new(&[1.0; 9], 0.2));
    assert_eq!(large.outcome, ExperimentOutcome::Complete);
}

#[test]
fn a_screening_is_confirmed_in_pairs_of_the_knobs_that_seem_to_matter() {
    let design = Design {
        screening: true,
        ..PAIRS
    };
    let mut ratios = [1.0; 9];
    ratios[3] = 0.5;
    let mut all = experiment(8, 60);
    conduct(design, &mut all, &mut Machine::new(&ratios, 0.2));
    assert_eq!(all.outcome, ExperimentOutcome::Complete);
    assert_eq!(all.screened.len(), 9);
    assert_eq!(all.results[3].conclusion, KnobConclusion::Helps);
    let tested = all.results.iter().filter(|it| it.pairs > 0).count();
    assert!((2..=4).contains(&tested), "{tested}");
    assert!(
        all.results[8].pairs >= LEAST_PAIRS,
        "the control is always tested"
    );
    let used_ns = all.blocks.len() as u64 * all.slot_ns();
    assert!(used_ns <= all.budget_ns);
    // In each pair of a screening, the second block has what the first has not.
    let screening: Vec<_> = all
        .blocks
        .iter()
        .filter(|it| it.phase == Phase::Screening)
        .collect();
    for pair in screening.chunks(2) {
        assert_eq!(pair[0].on.len() + pair[1].on.len(), 9);
        assert_eq!(pair[0].pair, pair[1].pair);
    }
    // The smallest budget that it asks for is enough.
    let mut small = experiment(8, 10);
    conduct(design, &mut small, &mut Machine::new(&ratios, 0.2));
    let ExperimentOutcome::BudgetTooSmall {
        needed_ns: Some(needed_ns),
    } = small.outcome
    else {
        panic!("{:?}", small.outcome);
    };
    let mut enough = experiment(8, needed_ns.div_ceil(60 * SECOND));
    conduct(design, &mut enough, &mut Machine::new(&ratios, 0.2));
    assert_eq!(enough.outcome, ExperimentOutcome::Complete);
}

#[test]
fn a_block_that_is_left_out_takes_its_pair_along() {
    let mut experiment = experiment(1, 20);
    conduct(PAIRS, &mut experiment, &mut Machine::new(&[1.0; 2], 0.2));
    let before = experiment.results[0].pairs;
    let block = experiment
        .blocks
        .iter_mut()
        .find(|it| it.knob == Some(0))
        .unwrap();
    block.left_out = Some(punctual_record::experiment::LeftOut::SlowSwitching);
    experiment.judge();
    assert_eq!(experiment.results[0].pairs, before - 1);
}

/// While the process was stopped, slots passed: what is left of the budget is used, and no more.
#[test]
fn slots_that_passed_unused_do_not_make_it_longer() {
    let mut experiment = experiment(1, 20);
    let mut course = Course::new(PAIRS, &experiment);
    let mut machine = Machine::new(&[0.6, 1.0], 0.2);
    let all = (experiment.budget_ns / experiment.slot_ns()) as usize;
    let mut slot = 0;
    let outcome = loop {
        let next = match course.next(&mut experiment, slot) {
            Step::Over(outcome) => break outcome,
            Step::Slot(next) => next,
        };
        let figures = machine.block(&next.on);
        let at_ns = slot as u64 * experiment.slot_ns();
        experiment.blocks.push(block(next, at_ns, figures));
        // Three are lost in the pilot, and three later.
        slot += if [10, 50].contains(&slot) { 4 } else { 1 };
        assert!(slot <= all);
    };
    assert_eq!(outcome, ExperimentOutcome::Complete);
    experiment.judge();
    assert_eq!(slot, all);
    assert_eq!(experiment.results[0].conclusion, KnobConclusion::Helps);
}

#[test]
fn every_budget_ends_in_an_outcome_and_within_it() {
    let lengths = [1, 2, 3, 6, 30].into_iter();
    for (minutes, knobs) in lengths.flat_map(|minutes| [1, 2, 12].map(|knobs| (minutes, knobs))) {
        for screening in [false, true] {
            let design = Design {
                pilot_ns: SECOND,
                screening,
            };
            let mut experiment = experiment(knobs, minutes);
            conduct(design, &mut experiment, &mut Machine::new(&[0.5], 0.2));
            let used_ns = experiment.blocks.len() as u64 * experiment.slot_ns();
            assert!(used_ns <= experiment.budget_ns, "{minutes} {knobs}");
            let is_on = |it: &ExperimentBlock| !it.on.is_empty();
            match experiment.outcome {
                ExperimentOutcome::Complete => assert!(experiment.blocks.iter().any(is_on)),
                ExperimentOutcome::BudgetTooSmall { needed_ns } => {
                    assert!(needed_ns.is_some_and(|ns| ns > experiment.budget_ns));
                    assert!(!experiment.blocks.iter().any(is_on));
                }
                other => panic!("{minutes} {knobs}: {other:?}"),
            }
        }
    }
}
