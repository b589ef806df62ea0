//! Runs that repeat exactly, in pairs of one seed: what only moves the phases is never named, what
//! does more is, and nothing is named that the control may do as well.

use punctual_stats::experiment::*;

const CONFIDENCE: f64 = 0.95;

/// Uniform in 0 to 1, the same in each test.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A run that meets some phase: its maximum is that of the longest path it met.
fn run(draws: &mut Draws, ratio: f64) -> BlockLatencies {
    let phase = draws.next();
    let scaled = |ns: f64| (ns * ratio) as u64;
    BlockLatencies {
        count: 4_000,
        p50_ns: Some(scaled(3_900.0 + 60.0 * phase)),
        p99_ns: Some(scaled(8_000.0 + 9_000.0 * draws.next())),
        p999_ns: None,
        max_ns: scaled(20_000.0 + 30_000.0 * draws.next()),
        excess_ns: 0,
        messages: None,
    }
}

fn pairs(draws: &mut Draws, seeds: usize, ratio: f64) -> Vec<Pair> {
    let mut pair = |_| Pair {
        off: run(draws, 1.0),
        on: run(draws, ratio),
    };
    (0..seeds).map(&mut pair).collect()
}

/// Parameters by their ratios, and the control at the end.
fn rows(draws: &mut Draws, seeds: usize, ratios: &[f64]) -> Vec<SeedPairs> {
    let control = Some(ratios.len());
    let mut rows: Vec<SeedPairs> = ratios
        .iter()
        .map(|ratio| SeedPairs {
            pairs: pairs(draws, seeds, *ratio),
            control,
        })
        .collect();
    rows.push(SeedPairs {
        pairs: pairs(draws, seeds, 1.0),
        control: None,
    });
    rows
}

fn judged(rows: &[SeedPairs]) -> Vec<KnobConclusion> {
    let results = judge_seeds(rows, &Measure::EXACT[..4], CONFIDENCE);
    results.iter().map(|it| it.conclusion).collect()
}

#[test]
fn what_only_moves_the_phases_is_named_in_at_most_5_percent_of_all_experiments() {
    let mut draws = Draws(7);
    let mut named = 0;
    for _ in 0..1_000 {
        let found = judged(&rows(&mut draws, 12, &[1.0, 1.0]));
        let is_none = |it: &KnobConclusion| *it == KnobConclusion::NoEffectShown;
        named += u32::from(!found[..2].iter().all(is_none));
    }
    assert!(named <= 50, "{named} of 1000");
}

#[test]
fn a_change_beyond_that_of_the_control_is_named() {
    let mut draws = Draws(11);
    for _ in 0..20 {
        let found = judged(&rows(&mut draws, 12, &[0.2, 3.0, 1.0]));
        assert_eq!(found[..2], [KnobConclusion::Helps, KnobConclusion::Harms]);
    }
    // The median varies by 1 %, so 4 % are seen.
    let found = judged(&rows(&mut draws, 12, &[1.04]));
    assert_eq!(found[0], KnobConclusion::Harms);
}

#[test]
fn nothing_is_named_that_the_control_may_do_as_well() {
    let mut draws = Draws(13);
    let mut rows = rows(&mut draws, 12, &[1.04]);
    rows[1].pairs = pairs(&mut draws, 12, 1.05);
    let results = judge_seeds(&rows, &Measure::EXACT, CONFIDENCE);
    let of = |at: usize| *results[at].effect(Measure::P50).expect("the median");
    assert!(of(0).p <= 0.05 && of(0).ratio > 1.03, "{:?}", of(0));
    assert!(!of(0).is_named_beyond(Some(&results[1]), CONFIDENCE));
    assert!(of(0).is_named_beyond(None, CONFIDENCE));
    assert_eq!(results[0].conclusion, KnobConclusion::NoEffectShown);
}

#[test]
fn the_same_figures_are_no_effect_and_changes_of_an_instruction_are_not_named() {
    let block = |ns: u64| BlockLatencies {
        count: 4_000,
        p50_ns: Some(ns),
        p99_ns: Some(2 * ns),
        p999_ns: None,
        max_ns: 3 * ns,
        excess_ns: 0,
        messages: None,
    };
    let row = |ns: u64, control| SeedPairs {
        pairs: vec![
            Pair {
                off: block(4_000),
                on: block(ns),
            };
            12
        ],
        control,
    };
    for (ns, conclusion) in [
        (4_000, KnobConclusion::NoEffectShown),
        (4_001, KnobConclusion::NoEffectShown),
        (4_050, KnobConclusion::Harms),
        (3_900, KnobConclusion::Helps),
    ] {
        let results = judge_seeds(
            &[row(ns, Some(1)), row(4_000, None)],
            &Measure::EXACT,
            CONFIDENCE,
        );
        assert_eq!(results[0].conclusion, conclusion, "{ns}");
        let effect = results[0].effect(Measure::Worst).expect("the worst");
        assert_eq!(effect.ratio, effect.interval.0, "{ns}");
    }
}

#[test]
fn too_few_seeds_say_nothing_and_neither_do_those_without_a_control() {
    let mut draws = Draws(17);
    let few = judged(&rows(&mut draws, LEAST_PAIRS - 1, &[0.1]));
    assert_eq!(few, [KnobConclusion::TooFewPairs; 2]);
    let mut without = rows(&mut draws, 12, &[0.1]);
    without[1].pairs.truncate(3);
    assert_eq!(judged(&without)[0], KnobConclusion::TooFewPairs);
}

#[test]
fn many_tests_need_more_seeds_or_cannot_be_made() {
    assert_eq!(least_seeds(1, 0.95), Some(12));
    // 2^-11 of each, by Holm.
    assert_eq!(least_seeds(102, 0.95), Some(12));
    assert_eq!(least_seeds(103, 0.95), Some(13));
    assert_eq!(least_seeds(250, 0.95), Some(14));
    // Of more pairs not all signs are tried: 5,000.
    assert_eq!(least_seeds(251, 0.95), None);
}
