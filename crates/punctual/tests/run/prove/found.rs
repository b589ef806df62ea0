//! The planted knob is found, the control is not, and the record says when it was on.

use std::time::Duration;

use punctual_record::Run;
use punctual_record::experiment::{Experiment, ExperimentBlock, ExperimentOutcome, Phase};
use punctual_stats::experiment::{
    KnobConclusion, KnobPairs, KnobResult, Measure, Pair, judge_knobs, pair_order,
};

use super::planted::{Change, Planted};
use super::{SLOT_NS, begin};
use crate::alone::alone;
use crate::common::{Place, cpus, need, needs};

/// The time by which the log of the file may be late.
const SLACK_NS: u64 = 60_000_000;

#[test]
fn a_planted_knob_is_found_and_the_record_says_when_it_was_on() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let planted = Planted::begin(place.path(), &cpus());
    // The control is a false alarm in 1 of 1,000 runs.
    let flags = ["-D", "95", "--confidence", "0.999", "--deadline", "100us"];
    let ended = begin(&place, &planted, &flags)
        .end_within(Duration::from_secs(180))
        .expect(0);
    assert_eq!(planted.value(), "1", "the file is as before");
    let log = planted.end();
    let run = place.run_of();
    let experiment = run.experiment.as_ref().expect("an experiment");
    assert_eq!(experiment.outcome, ExperimentOutcome::Complete);
    assert!(
        ended.stdout.contains("knob helps"),
        "{ended:#?}\n{:#?}",
        experiment.results
    );
    let conclusions: Vec<_> = experiment.results.iter().map(|it| it.conclusion).collect();
    let wanted = [KnobConclusion::Helps, KnobConclusion::NoEffectShown];
    assert_eq!(conclusions, wanted, "{:#?}", experiment.results);
    the_order_is_that_of_the_seed(experiment);
    the_file_held_what_the_blocks_say(&run, experiment, &log);
    the_figures_count_the_wake_ups(&run, experiment);
    the_results_follow_from_the_blocks(experiment);
    the_burning_threads_are_named(experiment);
}

/// Blocks of an experiment in pairs.
fn pairs(experiment: &Experiment) -> Vec<[&ExperimentBlock; 2]> {
    let blocks: Vec<_> = experiment
        .blocks
        .iter()
        .filter(|block| block.phase == Phase::Pairs)
        .collect();
    let numbered = blocks.chunk_by(|one, other| one.pair == other.pair);
    numbered
        .filter_map(|both| <[_; 2]>::try_from(both).ok())
        .collect()
}

#[track_caller]
fn the_order_is_that_of_the_seed(experiment: &Experiment) {
    assert_eq!(experiment.slot_ns(), SLOT_NS);
    let blocks = &experiment.blocks;
    assert!(
        blocks
            .windows(2)
            .all(|two| two[0].at_ns < two[1].at_ns && two[1].at_ns % SLOT_NS == 0)
    );
    let pilot = blocks.iter().filter(|it| it.phase == Phase::Pilot).count();
    assert_eq!(pilot, 6);
    // Of a slot that passed while the switching thread had no CPU there is no block, and none of
    // its place in the order is lost.
    let pairs = pairs(experiment);
    let plans = pair_order(2, pairs.len().div_ceil(2), experiment.seed);
    assert!(pairs.len() >= 30, "{} pairs", pairs.len());
    for (number, ([first, second], plan)) in pairs.iter().zip(&plans).enumerate() {
        assert_eq!(first.pair, Some(number as u64));
        assert_eq!(first.knob, Some(plan.knob));
        let side = |is_on: bool| if is_on { vec![plan.knob] } else { Vec::new() };
        assert_eq!(first.on, side(plan.on_first), "pair {number}");
        assert_eq!(second.on, side(!plan.on_first), "pair {number}");
    }
}

/// The log of another thread agrees with the record, in every block that counts.
#[track_caller]
fn the_file_held_what_the_blocks_say(run: &Run, experiment: &Experiment, log: &[Change]) {
    let start_ns = run.start_ns.expect("a start");
    let whole = experiment.blocks.iter().filter(|it| it.left_out.is_none());
    for block in whole.clone() {
        let from_ns = start_ns + block.at_ns + experiment.settle_ns;
        let to_ns = start_ns + block.at_ns + SLOT_NS;
        let wanted = if block.on.contains(&0) { "0" } else { "1" };
        let before = log.iter().rev().find(|change| change.at_ns <= from_ns);
        let during = log
            .iter()
            .filter(|it| it.at_ns > from_ns + SLACK_NS && it.at_ns < to_ns);
        let held: Vec<&str> = during.map(|it| it.value.as_str()).collect();
        let first = before.expect("the file was watched").value.as_str();
        assert!(
            held.is_empty() && first == wanted,
            "{block:?}: {first} {held:?}"
        );
    }
    assert!(whole.count() >= experiment.blocks.len() / 2);
    let sides: Vec<bool> = experiment
        .blocks
        .iter()
        .map(|it| it.on.contains(&0))
        .collect();
    let switches = sides.windows(2).filter(|two| two[0] != two[1]).count();
    let last = usize::from(sides.last() == Some(&true));
    assert_eq!(log.len() - 1, switches + last, "changes of the file");
}

/// The blocks have their share of all wake-ups, and of the periods that were skipped.
#[track_caller]
fn the_figures_count_the_wake_ups(run: &Run, experiment: &Experiment) {
    let cycles = run.threads.iter().map(|it| it.latency.count + it.missed);
    let all: u64 = cycles.sum();
    let figures = experiment
        .blocks
        .iter()
        .filter_map(|it| it.figures.as_ref());
    let (blocks, counted) = figures.fold((0, 0), |(blocks, sum), it| (blocks + 1, sum + it.count));
    let share = (blocks * experiment.block_ns) as f64 / run.measured_ns as f64;
    let ratio = counted as f64 / (all as f64 * share);
    assert!(counted <= all);
    assert!(
        (0.95..1.05).contains(&ratio),
        "{counted} of {all} in {share}"
    );
}

/// The results are what the stated method makes of the blocks.
#[track_caller]
fn the_results_follow_from_the_blocks(experiment: &Experiment) {
    let mut knobs = vec![KnobPairs::default(), KnobPairs::default()];
    for [first, second] in pairs(experiment) {
        let knob = first.knob.expect("a knob");
        let counts = first.left_out.is_none() && second.left_out.is_none();
        let (off, on) = match first.on.is_empty() {
            true => (first, second),
            false => (second, first),
        };
        if let (true, Some(off), Some(on)) = (counts, &off.figures, &on.figures) {
            let (off, on) = (off.clone(), on.clone());
            knobs[knob].pairs.push(Pair { off, on });
        }
    }
    let again = judge_knobs(&knobs, experiment.confidence);
    let figures = |results: &[KnobResult]| -> Vec<(usize, KnobConclusion, Vec<[f64; 6]>)> {
        let of = |it: &KnobResult| {
            let effects = it.effects.iter();
            let numbers = effects.map(|it| {
                let (low, high) = it.interval;
                [it.off_ns, it.on_ns, it.ratio, low, high, it.p]
            });
            (it.pairs, it.conclusion, numbers.collect())
        };
        results.iter().map(of).collect()
    };
    for (one, other) in figures(&experiment.results).iter().zip(figures(&again)) {
        assert_eq!((one.0, one.1), (other.0, other.1));
        let numbers = one.2.iter().flatten().zip(other.2.iter().flatten());
        for (one, other) in numbers {
            // A number in JSON may lose its last bit.
            assert!((one - other).abs() <= 1e-12 * one.abs(), "{one} {other}");
        }
    }
    // Two blocks of a pair have the same place in the mean, whichever came first.
    let mut effects = again[0].effects.iter();
    let quantile = effects.rfind(|it| it.measure != Measure::Excess);
    let effect = quantile.expect("a quantile");
    let ratio = effect.on_ns / effect.off_ns;
    assert!((ratio / effect.ratio - 1.0).abs() < 1e-9, "{effect:?}");
}

/// These threads cost more with the knob off.
fn the_burning_threads_are_named(experiment: &Experiment) {
    need!(needs::tracing());
    let costs = experiment.costs(0);
    let first = costs.first().expect("late wake-ups that were explained");
    assert!(first.off_ns > 5 * first.on_ns, "{costs:#?}");
    let name = format!("{:?}", first.cause);
    assert!(name.contains(super::planted::THREAD), "{costs:#?}");
}
