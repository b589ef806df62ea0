//! Experiments without an effect on a recorded machine: real drift and real bursts.
#![allow(clippy::print_stdout, reason = "docs/prove.md states these figures")]

use crate::support::Rng;
use punctual_stats::experiment::{BlockLatencies, KnobPairs, Pair, judge_knobs, pair_order};

const CONFIDENCE: f64 = 0.95;
/// Pairs of an experiment: 2.2 min.
const PAIRS: usize = 30;
const EXPERIMENTS: u64 = 2_000;

/// The recorded blocks, without those that were left out.
fn recorded() -> Vec<BlockLatencies> {
    let text = include_str!("../data/blocks-without-effect.csv");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let block = |line: &str| {
        let numbers: Vec<u64> = line.split(',').map_while(|it| it.parse().ok()).collect();
        let [count, p50_ns, p99_ns, max_ns, excess_ns] = numbers[..] else {
            assert_eq!(line, ",,,,");
            return None;
        };
        Some(BlockLatencies {
            count,
            p50_ns: Some(p50_ns),
            p99_ns: Some(p99_ns),
            p999_ns: None,
            max_ns,
            excess_ns,
            messages: None,
        })
    };
    lines.filter_map(block).collect()
}

/// Whether an experiment with these pairs says that something changed.
fn alarms(pairs: Vec<Pair>) -> bool {
    let results = judge_knobs(&[KnobPairs { pairs }], CONFIDENCE);
    results[0].effects.iter().any(|it| it.p <= 1.0 - CONFIDENCE)
}

fn pair(off: &BlockLatencies, on: &BlockLatencies) -> Pair {
    Pair {
        off: off.clone(),
        on: on.clone(),
    }
}

/// Pairs in random order, as `prove` makes them.
fn in_pairs(blocks: &[BlockLatencies], seed: u64) -> Vec<Pair> {
    let plans = pair_order(1, blocks.len() / 2, seed);
    let both = blocks.chunks_exact(2).zip(plans);
    both.map(|(two, plan)| match plan.on_first {
        true => pair(&two[1], &two[0]),
        false => pair(&two[0], &two[1]),
    })
    .collect()
}

/// The first half off, the second half on, which is how it is done by hand.
fn one_after_the_other(blocks: &[BlockLatencies]) -> Vec<Pair> {
    let (before, after) = blocks.split_at(blocks.len() / 2);
    let both = before.iter().zip(after);
    both.map(|(off, on)| pair(off, on)).collect()
}

#[test]
fn on_a_recorded_machine_random_pairs_alarm_as_often_as_they_say_and_before_and_after_far_more() {
    let blocks = recorded();
    assert!(blocks.len() > 600, "{}", blocks.len());
    let mut random = Rng::new(5);
    let (mut of_pairs, mut of_halves) = (0_u32, 0_u32);
    for seed in 0..EXPERIMENTS {
        // Two minutes somewhere in the record.
        let places = blocks.len() - 2 * PAIRS + 1;
        let first = (random.unit() * places as f64) as usize;
        let some = &blocks[first..first + 2 * PAIRS];
        of_pairs += u32::from(alarms(in_pairs(some, seed)));
        of_halves += u32::from(alarms(one_after_the_other(some)));
    }
    println!(
        "of {EXPERIMENTS} experiments of 30 pairs: {of_pairs} alarms in random order, {of_halves} \
         with the knob off first, then on"
    );
    // Five of a hundred: 3.5 to 6.5 with 99.8 % probability.
    assert!((70..=130).contains(&of_pairs), "{of_pairs}");
    assert!(of_halves >= 5 * of_pairs, "{of_halves} and {of_pairs}");
}

/// The whole record is one experiment, whichever blocks are called on: 35 to 65 of 1,000 at 5 %,
/// with 97 % probability.
#[test]
fn of_a_thousand_random_assignments_of_the_whole_record_five_of_a_hundred_alarm() {
    let blocks = recorded();
    let count = |seed| u32::from(alarms(in_pairs(&blocks, seed)));
    let of_pairs: u32 = (0..1_000).map(count).sum();
    println!("of 1000 experiments of 325 pairs: {of_pairs} alarms in random order");
    assert!((35..=65).contains(&of_pairs), "{of_pairs} of 1000");
    assert!(alarms(one_after_the_other(&blocks)));
}
