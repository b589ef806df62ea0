//! Ladders on simulated machines with a known truth: how often a step without effect is named, how
//! often one with an effect is found, and which.

use std::collections::BTreeMap;

use punctual_record::ladder::{
    Ladder, LadderBlock, LadderCounts, LadderOutcome, LadderRung, NotPossible, RungInForce,
    StepKind,
};
use punctual_record::{Document, Tool};
use punctual_stats::experiment::{BlockLatencies, KnobConclusion};
use punctual_stats::verdict::Outcome;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A ladder before its first block, of which these rungs can't be measured.
fn planned(seed: u64, impossible: &[Rung]) -> Ladder {
    let why = |rung: Rung| impossible.contains(&rung).then_some(NotPossible::OneCpu);
    let rung = |rung: Rung| LadderRung::new(rung, true, why(rung));
    Ladder {
        format: Ladder::FORMAT.to_owned(),
        version: Ladder::VERSION,
        tool: Tool::default(),
        command: Vec::new(),
        hostname: String::new(),
        kernel: String::new(),
        started: String::new(),
        design: LadderDesign {
            seed,
            interval_ns: 1_000_000,
            block_ns: 2 * SECOND,
            loops: None,
            settle_ns: SECOND / 5,
            rounds: 0,
            work_bytes: 64,
            deadline_ns: 100_000,
            confidence: 0.95,
            priority: 80,
            cpu: 1,
            cpus: vec![0, 1],
        },
        load: "none".to_owned(),
        load_class: String::new(),
        loads: Vec::new(),
        switched: Vec::new(),
        rungs: Rung::ALL.map(rung).to_vec(),
        control: None,
        blocks: Vec::new(),
        steps: Vec::new(),
        measured_ns: 0,
        outcome: Some(LadderOutcome::Complete),
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.unit().max(1e-12), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// A machine whose blocks drift together, and have bursts.
struct Machine {
    random: Random,
    drift: f64,
}

impl Machine {
    fn block(&mut self, ratio: f64) -> BlockLatencies {
        // A drift with a memory of six blocks, and slower machines toward the end.
        let memory = (-1.0_f64 / 6.0).exp();
        let fresh = self.random.normal() * (1.0 - memory * memory).sqrt();
        self.drift = memory * self.drift + fresh + 0.01;
        let level = 0.3 * self.drift;
        let burst = if self.random.unit() < 0.1 { 1.5 } else { 0.0 };
        let mut quantile = |base: f64, sd: f64| {
            let log = base.ln() + level + sd * self.random.normal();
            Some((log.exp() * ratio) as u64)
        };
        let (p50_ns, p99_ns) = (quantile(30_000.0, 0.1), quantile(90_000.0, 0.25));
        let high = (120_000.0 * f64::exp(burst + level) * ratio) as u64;
        BlockLatencies {
            count: 2_000,
            p50_ns,
            p99_ns,
            p999_ns: None,
            max_ns: high,
            excess_ns: high.saturating_sub(100_000) * 5,
            messages: None,
        }
    }
}

/// Measures a ladder on a machine where a place has this ratio of the times of rung 0.
fn measured(seed: u64, impossible: &[Rung], ratio: impl Fn(Rung, bool) -> f64) -> Ladder {
    let mut ladder = planned(seed, impossible);
    let order = ordered(&mut ladder, None, 300 * SECOND).expect("time enough");
    let mut machine = Machine {
        random: Random(seed * 2 + 1),
        drift: 0.0,
    };
    for (round, rung, is_second) in order {
        ladder.blocks.push(LadderBlock {
            at_ns: 0,
            round,
            rung,
            is_second,
            figures: machine.block(ratio(rung, is_second)),
            counts: LadderCounts::default(),
            in_force: RungInForce::default(),
            left_out: None,
        });
    }
    ladder.judge();
    ladder
}

fn is_named(conclusion: KnobConclusion) -> bool {
    conclusion != KnobConclusion::NoEffectShown
}

#[test]
fn every_round_has_each_rung_once_and_the_control_twice_in_an_order_of_its_own() {
    let mut ladder = planned(7, &[]);
    let order = ordered(&mut ladder, None, 300 * SECOND).expect("time enough");
    assert_eq!(ladder.control, Some(Rung::QuietInterrupts));
    // 300 s have room for 19 rounds of seven blocks of 2.2 s.
    assert_eq!(ladder.design.rounds, 19);
    assert_eq!(order.len(), 19 * 7);
    let mut firsts: BTreeMap<Rung, usize> = BTreeMap::new();
    for (at, round) in order.chunks(7).enumerate() {
        assert!(round.iter().all(|(of, _, _)| *of == at as u64));
        let mut places: Vec<_> = round
            .iter()
            .map(|(_, rung, second)| (*rung, *second))
            .collect();
        *firsts.entry(places[0].0).or_default() += 1;
        places.sort_unstable();
        let mut all: Vec<_> = Rung::ALL.map(|rung| (rung, false)).to_vec();
        all.push((Rung::QuietInterrupts, true));
        assert_eq!(places, all);
    }
    assert!(firsts.len() > 3, "{firsts:?}");
}

#[test]
fn too_short_a_time_is_refused_with_what_it_takes() {
    let mut ladder = planned(7, &[]);
    let refused = ordered(&mut ladder, None, 60 * SECOND);
    let Err(LadderError::TooShort {
        conditions,
        needed_ns,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(conditions, 7);
    assert_eq!(needed_ns, 12 * 7 * (2 * SECOND + SECOND / 5));
    ordered(&mut ladder, None, needed_ns).expect("exactly enough");
    assert_eq!(ladder.design.rounds, 12);
}

#[test]
fn a_step_that_is_not_possible_is_taken_on_no_rung() {
    let mut ladder = planned(7, &[Rung::Priority, Rung::QuietInterrupts]);
    ordered(&mut ladder, None, 300 * SECOND).expect("time enough");
    assert_eq!(ladder.control, Some(Rung::Affinity));
    let setup = setup_of(&ladder, Rung::Affinity);
    assert_eq!(setup.priority, None);
    assert!(setup.is_locked);
    assert_eq!(setup.cpus, [1]);
    let below = setup_of(&ladder, Rung::LockedMemory);
    assert_eq!(below.cpus, [0, 1]);
    let lowest = setup_of(&ladder, Rung::RelativeSleep);
    assert!(!lowest.is_locked);
    assert!(!loop_of(&ladder, Rung::RelativeSleep).is_absolute);
    assert!(loop_of(&ladder, Rung::AbsoluteSleep).is_absolute);
    ladder = measured(7, &[Rung::Priority, Rung::QuietInterrupts], |_, _| 1.0);
    let compared: Vec<_> = ladder
        .steps
        .iter()
        .map(|it| (it.kind, it.from, it.to))
        .collect();
    assert_eq!(
        compared,
        [
            (StepKind::Step, Rung::RelativeSleep, Rung::AbsoluteSleep),
            (StepKind::Step, Rung::AbsoluteSleep, Rung::LockedMemory),
            (StepKind::Step, Rung::LockedMemory, Rung::Affinity),
            (StepKind::All, Rung::RelativeSleep, Rung::Affinity),
            (StepKind::Control, Rung::Affinity, Rung::Affinity),
        ]
    );
}

/// Three standard deviations above 5 %.
#[test]
#[allow(clippy::print_stdout, reason = "the figures of docs/ladder.md")]
fn of_a_ladder_without_any_effect_a_step_is_named_in_at_most_five_of_a_hundred() {
    const LADDERS: u64 = 1000;
    let (mut named, mut invalid) = (0, 0);
    for seed in 0..LADDERS {
        let ladder = measured(seed, &[], |_, _| 1.0);
        let steps = ladder.steps.iter();
        named += u64::from(steps.clone().any(|it| is_named(it.result.conclusion)));
        invalid += u64::from(ladder.verdict() == Some(Outcome::Invalid));
    }
    println!("{named} of {LADDERS} named a step, {invalid} were INVALID");
    assert!(named <= 70, "{named} of {LADDERS}");
    assert!(invalid <= named);
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures of docs/ladder.md")]
fn a_planted_effect_is_found_and_no_other_step_is_named_for_it() {
    const LADDERS: u64 = 100;
    let (mut found, mut others) = (0, 0);
    for seed in 0..LADDERS {
        // Half as long from the priority on.
        let ratio = |rung: Rung, _| if rung.has(Rung::Priority) { 0.5 } else { 1.0 };
        let ladder = measured(1000 + seed, &[], ratio);
        for step in &ladder.steps {
            let is_it = step.to == Rung::Priority || step.kind == StepKind::All;
            let conclusion = step.result.conclusion;
            if step.to == Rung::Priority {
                found += u64::from(conclusion == KnobConclusion::Helps);
            } else if !is_it {
                others += u64::from(is_named(conclusion));
            }
        }
        let effect = ladder.steps[1].result.effects[0];
        assert!((0.3..0.8).contains(&effect.ratio), "{effect:?}");
    }
    println!("found in {found} of {LADDERS}, {others} others named");
    assert!(found >= 95, "{found} of {LADDERS}");
    // 5 % and three standard deviations.
    assert!(others <= 11, "{others} of {LADDERS}");
}

#[test]
fn a_control_that_differs_makes_the_ladder_invalid() {
    let ladder = measured(3, &[], |_, is_second| if is_second { 3.0 } else { 1.0 });
    assert!(ladder.control_fails());
    assert_eq!(ladder.verdict(), Some(Outcome::Invalid));
    let ladder = measured(3, &[], |_, _| 1.0);
    assert_eq!(ladder.verdict(), Some(Outcome::Pass));
}
