//! Ladders: what is accepted keeps its promises, and what their blocks say.

use punctual_record::Document;
use std::path::Path;

use punctual_record::ladder::*;
use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;
use serde_json::Value;

use crate::ladders::{ROUNDS, ladder, load, of_every_kind, single};

fn parse(value: &Value) -> Result<Ladder, String> {
    let bytes = serde_json::to_vec(value).expect("JSON");
    Ladder::parse(Path::new("ladder.json"), &bytes).map_err(|error| error.to_string())
}

#[test]
fn ladders_of_every_kind_are_read_as_they_were_written() {
    for ladder in of_every_kind() {
        let value = serde_json::to_value(&ladder).expect("JSON");
        assert_eq!(parse(&value), Ok(ladder));
    }
}

#[test]
fn what_breaks_a_promise_is_refused_with_its_place() {
    let whole = serde_json::to_value(ladder()).expect("JSON");
    let changes: &[(&str, Value, &str)] = &[
        ("/format", "other".into(), "punctual-ladder"),
        ("/version", 99.into(), "version"),
        ("/rungs", Value::Array(Vec::new()), "no rung"),
        ("/rungs/0/rung", "affinity".into(), "from the lowest"),
        ("/rungs/0/rung", "seventh".into(), "rungs[0]"),
        ("/rungs/0/counts/cycles", 1.into(), "for each cycle"),
        ("/rungs/0/response/encoded", "x".into(), "rungs[0].response"),
        ("/rungs/4/is_measured", true.into(), "not possible"),
        ("/control", "affinity".into(), "not measured"),
        ("/blocks/0/rung", "affinity".into(), "not measured"),
        ("/blocks/0/is_second", true.into(), "not the control"),
        ("/blocks/0/in_force/cpus/0", 70_000.into(), "CPU number"),
        ("/design/confidence", 1.into(), "within 0 and 1"),
        ("/design/cpu", 70_000.into(), "CPU number"),
        ("/steps/0/from", "affinity".into(), "not measured"),
        ("/steps/0/result/effects/0/ratio", 0.into(), "no ratio"),
        ("/steps/0/result/effects/0/p", 2.into(), "no ratio"),
    ];
    for (place, value, says) in changes {
        let mut changed = whole.clone();
        match changed.pointer_mut(place) {
            Some(field) => *field = value.clone(),
            // It is left out where it is false.
            None => {
                let (parent, name) = place.rsplit_once('/').expect("a place");
                changed.pointer_mut(parent).expect(place)[name] = value.clone();
            }
        }
        let refused = parse(&changed).expect_err(place);
        assert!(refused.contains(says), "{place}: {refused}");
        assert!(!refused.contains('\n'), "{place}: {refused}");
    }
}

#[test]
fn each_rung_is_compared_with_the_one_below_it_in_pairs_of_a_round() {
    let ladder = ladder();
    let steps: Vec<_> = ladder.steps.iter().map(|it| (it.kind, it.to)).collect();
    assert_eq!(
        steps,
        [
            (StepKind::Step, Rung::AbsoluteSleep),
            (StepKind::Step, Rung::Priority),
            (StepKind::Step, Rung::LockedMemory),
            (StepKind::All, Rung::LockedMemory),
            (StepKind::Control, Rung::LockedMemory),
        ]
    );
    for step in &ladder.steps {
        assert_eq!(step.result.pairs as u64, ROUNDS);
        let effect = step.result.effects[0];
        let is_half = step.to == Rung::Priority || step.kind == StepKind::All;
        let expected = if is_half { 0.5 } else { 1.0 };
        assert!((effect.ratio / expected - 1.0).abs() < 0.05, "{effect:?}");
        let helps = step.result.conclusion == KnobConclusion::Helps;
        assert_eq!(helps, is_half, "{step:?}");
    }
    assert_eq!(ladder.verdict(), Some(Outcome::Pass));
}

#[test]
fn a_block_that_is_left_out_takes_the_pairs_of_its_round_with_it_and_no_other() {
    let mut ladder = ladder();
    let of = |it: &&mut LadderBlock| it.round == 3 && it.rung == Rung::AbsoluteSleep;
    let block = ladder.blocks.iter_mut().find(of).expect("a block");
    block.left_out = Some(RungLeftOut::ProcessStopped);
    ladder.judge();
    let pairs: Vec<u64> = ladder
        .steps
        .iter()
        .map(|it| it.result.pairs as u64)
        .collect();
    assert_eq!(pairs, [ROUNDS - 1, ROUNDS - 1, ROUNDS, ROUNDS, ROUNDS]);
    assert_eq!(ladder.verdict(), Some(Outcome::Pass));
}

#[test]
fn verdicts_follow_from_what_happened() {
    let with = |change: &dyn Fn(&mut Ladder)| {
        let mut changed = ladder();
        change(&mut changed);
        changed.judge();
        changed.verdict()
    };
    assert_eq!(with(&|it| it.outcome = None), None);
    assert_eq!(
        with(&|it| it.outcome = Some(LadderOutcome::Stopped)),
        Some(Outcome::Inconclusive)
    );
    let failed = LadderOutcome::Failed {
        error: String::new(),
    };
    assert_eq!(with(&|it| it.outcome = Some(failed.clone())), None);
    // Eleven rounds of twelve are too few.
    assert_eq!(
        with(&|it| it.blocks.retain(|block| block.round < 11)),
        Some(Outcome::Inconclusive)
    );
    assert_eq!(
        with(&|it| it.blocks[0].left_out = Some(RungLeftOut::NotInForce)),
        Some(Outcome::Invalid)
    );
    let failure = punctual_record::LoadFailure::SupervisorGone;
    assert_eq!(
        with(&|it| it.loads = vec![load(Some(failure.clone()))]),
        Some(Outcome::Invalid)
    );
    assert_eq!(with(&|it| it.loads = vec![load(None)]), Some(Outcome::Pass));
    let slower = |it: &mut Ladder| {
        for block in it.blocks.iter_mut().filter(|block| block.is_second) {
            block.figures.p50_ns = block.figures.p50_ns.map(|ns| ns * 2);
        }
    };
    assert_eq!(with(&slower), Some(Outcome::Invalid));
    assert_eq!(single().verdict(), Some(Outcome::Pass));
}

#[test]
fn a_step_that_is_not_possible_is_taken_on_no_rung() {
    let mut ladder = ladder();
    assert!(ladder.takes(Rung::LockedMemory, Rung::Priority));
    assert!(!ladder.takes(Rung::AbsoluteSleep, Rung::Priority));
    assert!(!ladder.takes(Rung::QuietInterrupts, Rung::Affinity));
    ladder.rungs[2].not_possible = Some(NotPossible::Refused {
        error: String::new(),
    });
    assert!(!ladder.takes(Rung::LockedMemory, Rung::Priority));
    for rung in Rung::ALL {
        assert_eq!(Rung::by_name(rung.name()), Some(rung));
    }
}
