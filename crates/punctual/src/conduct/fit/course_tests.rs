use super::*;

const MINUTE: u64 = 60_000_000_000;

const LENGTHS: FitLengths = FitLengths {
    deadline_ns: 50_000,
    budget_ns: 120 * MINUTE,
    qualify_ns: 2 * MINUTE,
    pilot_ns: 2 * MINUTE,
    slot_ns: 6_000_000_000,
};

fn qualified(outcome: Outcome, asked: &[FindingId]) -> FitWork {
    FitWork::Qualify {
        on: Vec::new(),
        outcome,
        samples: 1,
        late: 0,
        max_ns: 1,
        min_ns: 1,
        asked: asked.to_vec(),
        makes_valid: Vec::new(),
    }
}

fn proven(knobs: &[(FindingId, KnobConclusion, Option<f64>)]) -> FitWork {
    let knob = |(knob, conclusion, ratio): &(FindingId, KnobConclusion, Option<f64>)| ProvenKnob {
        knob: *knob,
        conclusion: *conclusion,
        ratio: *ratio,
    };
    FitWork::Prove {
        knobs: knobs.iter().map(knob).collect(),
        is_valid: true,
        is_short: false,
        needed_ns: None,
    }
}

/// A machine that meets its deadline when all of `needed` are on.
struct Machine {
    helpful: Vec<FindingId>,
    needed: Vec<FindingId>,
    asked: Vec<FindingId>,
}

impl Machine {
    fn answer(&self, next: &FitNext) -> Option<FitWork> {
        match next {
            FitNext::Qualify(on) => {
                let passes = self.needed.iter().all(|knob| on.contains(knob));
                let outcome = if passes { Outcome::Pass } else { Outcome::Fail };
                Some(qualified(outcome, &self.asked))
            }
            FitNext::Prove(knobs, _) => {
                let result = |knob: &FindingId| match self.helpful.contains(knob) {
                    true => (*knob, KnobConclusion::Helps, Some(0.5)),
                    false => (*knob, KnobConclusion::NoEffectShown, None),
                };
                let results: Vec<_> = knobs.iter().map(result).collect();
                Some(proven(&results))
            }
            FitNext::Over(_) => None,
        }
    }

    /// The steps, and the end.
    fn fit(&self, lengths: FitLengths) -> (Vec<FitNext>, FitOutcome) {
        let (mut course, mut next) = FitCourse::begin(lengths);
        let (mut steps, mut elapsed_ns) = (Vec::new(), 0);
        while let Some(result) = self.answer(&next) {
            elapsed_ns += match &next {
                FitNext::Prove(_, within_ns) => *within_ns,
                _ => lengths.qualify_ns,
            };
            steps.push(next);
            next = course.next(&result, elapsed_ns);
        }
        match next {
            FitNext::Over(outcome) => (steps, outcome),
            other => panic!("{other:?}"),
        }
    }
}

use FindingId::{Compaction, Governor, Ksm, RtThrottling, Swappiness, VmstatInterval};

#[test]
fn a_machine_that_meets_its_deadline_is_left_alone() {
    let machine = Machine {
        helpful: vec![Ksm],
        needed: Vec::new(),
        asked: vec![Ksm],
    };
    let (steps, outcome) = machine.fit(LENGTHS);
    assert_eq!(steps, [FitNext::Qualify(Vec::new())]);
    assert_eq!(outcome, FitOutcome::MetAlready);
}

#[test]
fn of_the_knobs_that_help_the_smallest_set_is_kept() {
    let machine = Machine {
        helpful: vec![Ksm, Governor, Compaction],
        needed: vec![Governor],
        asked: vec![Ksm, Governor, Swappiness, Compaction],
    };
    let (steps, outcome) = machine.fit(LENGTHS);
    let met = FitOutcome::Met {
        knobs: vec![Governor],
        untried: Vec::new(),
    };
    assert_eq!(outcome, met);
    assert_eq!(outcome.verdict(), Outcome::Pass);
    // Before, prove, after; without ksm, without governor, without compaction.
    assert_eq!(steps.len(), 6, "{steps:?}");
    // Every set that passed is among the steps: the kept one too.
    assert!(steps.contains(&FitNext::Qualify(vec![Governor])));
}

#[test]
fn without_time_all_that_helps_is_kept_and_what_was_not_tried_is_said() {
    let machine = Machine {
        helpful: vec![Ksm, Governor],
        needed: vec![Governor],
        asked: vec![Ksm, Governor],
    };
    let lengths = |minutes| FitLengths {
        budget_ns: minutes * MINUTE,
        ..LENGTHS
    };
    let (steps, outcome) = machine.fit(lengths(16));
    // The reserve is for one qualification after it and one without a knob: ksm, which is not
    // needed. Without the governor it is the machine as it was.
    assert_eq!(steps.len(), 4);
    let met = FitOutcome::Met {
        knobs: vec![Governor],
        untried: Vec::new(),
    };
    assert_eq!(outcome, met);
    let machine = Machine {
        helpful: vec![Ksm, Governor, Compaction],
        needed: vec![Governor, Compaction],
        asked: vec![Governor, Ksm, Compaction],
    };
    let (_, outcome) = machine.fit(lengths(19));
    let met = FitOutcome::Met {
        knobs: vec![Governor, Ksm, Compaction],
        untried: vec![Ksm, Compaction],
    };
    assert_eq!(outcome, met);
}

#[test]
fn what_helps_but_not_enough_is_not_kept() {
    let machine = Machine {
        helpful: vec![Ksm],
        needed: vec![Ksm, RtThrottling],
        asked: vec![Ksm, RtThrottling],
    };
    let (_, outcome) = machine.fit(LENGTHS);
    assert_eq!(outcome, FitOutcome::NotEnough { knobs: vec![Ksm] });
    assert_eq!(outcome.verdict(), Outcome::Fail);
}

#[test]
fn nothing_to_turn_and_nothing_that_helps_are_told_apart() {
    let machine = |asked: &[FindingId]| Machine {
        helpful: Vec::new(),
        needed: vec![RtThrottling],
        asked: asked.to_vec(),
    };
    assert_eq!(machine(&[]).fit(LENGTHS).1, FitOutcome::NothingToTurn);
    assert_eq!(machine(&[Ksm]).fit(LENGTHS).1, FitOutcome::NothingHelps);
}

#[test]
fn a_budget_without_room_says_how_much_is_needed() {
    let machine = Machine {
        helpful: vec![Ksm],
        needed: vec![Ksm],
        asked: vec![Ksm],
    };
    let within = |budget_ns| FitLengths {
        budget_ns,
        ..LENGTHS
    };
    let (steps, outcome) = machine.fit(within(10 * MINUTE));
    assert_eq!(steps.len(), 1);
    // Known before anything runs.
    let needed_ns = LENGTHS.least_budget_ns();
    assert_eq!(outcome, FitOutcome::BudgetTooSmall { needed_ns });
    // 20 blocks of pilot, 24 pairs, one between and one to end, three qualifications.
    assert_eq!(needed_ns, 70 * 6_000_000_000 + 20_000_000_000 + 6 * MINUTE);
    assert_eq!(machine.fit(within(needed_ns)).1.verdict(), Outcome::Pass);
}

/// Whatever the bills ask for: what is announced is enough, and a fifth less is not.
#[test]
fn a_budget_that_is_announced_is_enough() {
    let all = [
        Ksm,
        Governor,
        Compaction,
        Swappiness,
        VmstatInterval,
        RtThrottling,
    ];
    for knobs in 1..=all.len() {
        let machine = Machine {
            helpful: vec![all[knobs - 1]],
            needed: vec![all[knobs - 1]],
            asked: all[..knobs].to_vec(),
        };
        let within = |budget_ns| FitLengths {
            budget_ns,
            ..LENGTHS
        };
        let mut announced = LENGTHS.least_budget_ns();
        let outcome = machine.fit(within(announced)).1;
        if knobs > 1 {
            // The dearest alone was tried, and it is not what helps.
            let FitOutcome::BudgetTooSmall { needed_ns } = outcome else {
                panic!("{knobs}: {outcome:?}");
            };
            announced = needed_ns;
        }
        let outcome = machine.fit(within(announced)).1;
        assert_eq!(outcome.verdict(), Outcome::Pass, "{knobs}");
        let outcome = machine.fit(within(announced / 5 * 4)).1;
        assert_eq!(outcome.verdict(), Outcome::Inconclusive, "{knobs}");
    }
}

#[test]
fn what_is_not_valid_ends_it() {
    let (mut course, _) = FitCourse::begin(LENGTHS);
    let invalid = qualified(Outcome::Invalid, &[Ksm]);
    assert_eq!(course.next(&invalid, 0), FitNext::Over(FitOutcome::Invalid));
    let (mut course, _) = FitCourse::begin(LENGTHS);
    let next = course.next(&qualified(Outcome::Fail, &[VmstatInterval]), 0);
    assert!(matches!(next, FitNext::Prove(..)));
    let failed_control = FitWork::Prove {
        knobs: Vec::new(),
        is_valid: false,
        is_short: false,
        needed_ns: None,
    };
    let next = course.next(&failed_control, 0);
    assert_eq!(next, FitNext::Over(FitOutcome::Invalid));
    let (mut course, _) = FitCourse::begin(LENGTHS);
    course.next(&qualified(Outcome::Fail, &[Ksm]), 0);
    // Blocks that don't count, and not a knob that does nothing.
    let short = FitWork::Prove {
        knobs: Vec::new(),
        is_valid: true,
        is_short: true,
        needed_ns: None,
    };
    let over = FitNext::Over(FitOutcome::TooLittleEvidence);
    assert_eq!(course.next(&short, 0), over);
    let unsure = qualified(Outcome::Inconclusive, &[Ksm]);
    let (mut course, _) = FitCourse::begin(LENGTHS);
    assert_eq!(course.next(&unsure, 0), over);
}

#[test]
fn at_most_eight_knobs_are_tried() {
    let asked: Vec<FindingId> = FindingId::ALL[..20].to_vec();
    let (mut course, _) = FitCourse::begin(LENGTHS);
    let FitNext::Prove(knobs, within_ns) = course.next(&qualified(Outcome::Fail, &asked), MINUTE)
    else {
        panic!("knobs are to be proven");
    };
    assert_eq!(knobs, asked[..8]);
    // A minute is over, and nine qualifications are to come.
    assert_eq!(within_ns, 101 * MINUTE);
}

/// A run that is INVALID, or not, where these knobs make it valid.
fn with(outcome: Outcome, asked: &[FindingId], makes_valid: &[FindingId], min_ns: u64) -> FitWork {
    FitWork::Qualify {
        on: Vec::new(),
        outcome,
        samples: 1,
        late: 1,
        max_ns: min_ns,
        min_ns,
        asked: asked.to_vec(),
        makes_valid: makes_valid.to_vec(),
    }
}

/// Throttled probes make a run INVALID, and throttling has a knob: that comes first.
#[test]
fn what_makes_a_run_valid_is_tried_first_and_is_needed() {
    let throttled = with(Outcome::Invalid, &[Ksm, RtThrottling], &[RtThrottling], 1);
    for (then, outcome) in [
        (
            Outcome::Pass,
            FitOutcome::Met {
                knobs: vec![RtThrottling],
                untried: Vec::new(),
            },
        ),
        (
            Outcome::Fail,
            FitOutcome::FirstKeep {
                knobs: vec![RtThrottling],
            },
        ),
        (Outcome::Inconclusive, FitOutcome::TooLittleEvidence),
        (Outcome::Invalid, FitOutcome::Invalid),
    ] {
        let (mut course, _) = FitCourse::begin(LENGTHS);
        let next = course.next(&throttled, MINUTE);
        assert_eq!(next, FitNext::Qualify(vec![RtThrottling]));
        // Whatever would make it valid again is not asked for a second time.
        let again = with(then, &[Ksm], &[RtThrottling], 1);
        assert_eq!(course.next(&again, 2 * MINUTE), FitNext::Over(outcome));
    }
    let (mut course, _) = FitCourse::begin(LENGTHS);
    let other = with(Outcome::Invalid, &[Ksm, RtThrottling], &[], 1);
    let next = course.next(&other, MINUTE);
    assert_eq!(next, FitNext::Over(FitOutcome::Invalid));
}

/// Without the knob the machine is throttled: the run is INVALID, and the knob is needed.
#[test]
fn a_knob_without_which_a_run_is_not_valid_is_needed() {
    let (mut course, _) = FitCourse::begin(LENGTHS);
    course.next(&qualified(Outcome::Fail, &[Ksm, RtThrottling]), MINUTE);
    let both = [Ksm, RtThrottling].map(|knob| (knob, KnobConclusion::Helps, Some(0.5)));
    course.next(&proven(&both), 2 * MINUTE);
    let next = course.next(&qualified(Outcome::Pass, &[]), 3 * MINUTE);
    let FitNext::Qualify(on) = next else {
        panic!("{next:?}")
    };
    let tried = if on == [Ksm] { RtThrottling } else { Ksm };
    let next = course.next(&qualified(Outcome::Invalid, &[]), 4 * MINUTE);
    let FitNext::Qualify(on) = next else {
        panic!("{next:?}")
    };
    assert_eq!(on, [tried]);
    let next = course.next(&qualified(Outcome::Pass, &[]), 5 * MINUTE);
    let (knobs, untried) = (vec![tried], Vec::new());
    assert_eq!(next, FitNext::Over(FitOutcome::Met { knobs, untried }));
}

#[test]
fn a_deadline_that_not_one_wake_up_met_is_out_of_reach_unless_power_settings_delay_all() {
    let (deadline_ns, min_ns) = (LENGTHS.deadline_ns, LENGTHS.deadline_ns + 1);
    for (asked, lowest_ns, is_out_of_reach) in [
        (&[Ksm][..], min_ns, true),
        (&[], min_ns, true),
        (&[Ksm, Governor], min_ns, false),
        (&[Ksm], deadline_ns, false),
    ] {
        let (mut course, _) = FitCourse::begin(LENGTHS);
        let next = course.next(&with(Outcome::Fail, asked, &[], lowest_ns), MINUTE);
        let out_of_reach = FitNext::Over(FitOutcome::OutOfReach { min_ns });
        assert_eq!(next == out_of_reach, is_out_of_reach, "{asked:?} {next:?}");
    }
}
