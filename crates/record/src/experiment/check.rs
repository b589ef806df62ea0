//! What an experiment promises beyond its types.

use punctual_stats::experiment::Effect;

use super::{Experiment, ExperimentBlock};
use crate::bounds::{Broken, at_most, ensure};

/// Knobs, with the control.
const MOST_KNOBS: usize = 1024;
/// Blocks: of 5 s, those of a week.
const MOST_BLOCKS: usize = 1 << 17;
/// Settings of one knob.
const MOST_SETTINGS: usize = 1 << 12;
/// A change beyond this is none that was measured.
const MOST_RATIO: f64 = 1e12;

pub(crate) fn check(experiment: &Experiment) -> Result<(), Broken> {
    let knobs = experiment.knobs.len();
    at_most(knobs, MOST_KNOBS, "experiment.knobs")?;
    ensure(knobs > 0, "experiment.knobs", "no knob, not even a control")?;
    for (at, knob) in experiment.knobs.iter().enumerate() {
        let place = format!("experiment.knobs[{at}].settings");
        at_most(knob.settings.len(), MOST_SETTINGS, place)?;
    }
    let is_within = |share: f64, low: f64| share > low && share < 1.0;
    ensure(
        is_within(experiment.confidence, 0.0),
        "experiment.confidence",
        "not within 0 and 1",
    )?;
    ensure(
        is_within(experiment.power, 0.5),
        "experiment.power",
        "not within 0.5 and 1",
    )?;
    at_most(experiment.blocks.len(), MOST_BLOCKS, "experiment.blocks")?;
    for (at, one) in experiment.blocks.iter().enumerate() {
        block(one, knobs, &format!("experiment.blocks[{at}]"))?;
    }
    for (name, count) in [
        ("experiment.results", experiment.results.len()),
        ("experiment.screened", experiment.screened.len()),
    ] {
        let is_whole = count == 0 || count == knobs;
        ensure(is_whole, name, "not one for each knob")?;
    }
    for (at, result) in experiment.results.iter().enumerate() {
        let place = format!("experiment.results[{at}].effects");
        at_most(result.effects.len(), 4, place.as_str())?;
        ensure(result.effects.iter().all(is_sound), place, "no ratio")?;
    }
    pilot(experiment)
}

fn block(block: &ExperimentBlock, knobs: usize, place: &str) -> Result<(), Broken> {
    at_most(block.on.len(), knobs, format!("{place}.on"))?;
    let mut named = block.on.iter().chain(&block.knob);
    ensure(
        named.all(|knob| *knob < knobs),
        place,
        "names a knob that is not there",
    )?;
    let costs = format!("{place}.costs");
    at_most(block.costs.len(), ExperimentBlock::COSTS, costs)
}

fn is_ratio(ratio: f64) -> bool {
    ratio > 1.0 / MOST_RATIO && ratio < MOST_RATIO
}

/// Whether an effect is one that was measured.
pub(crate) fn is_sound(effect: &Effect) -> bool {
    let (low, high) = effect.interval;
    is_ratio(effect.ratio) && low >= 0.0 && low <= high && (0.0..=1.0).contains(&effect.p)
}

fn pilot(experiment: &Experiment) -> Result<(), Broken> {
    let wanted = experiment.wanted.as_ref().map(|it| it.ratio);
    ensure(
        wanted.is_none_or(is_ratio),
        "experiment.wanted.ratio",
        "no ratio",
    )?;
    let Some(pilot) = &experiment.pilot else {
        return Ok(());
    };
    at_most(pilot.spreads.len(), 4, "experiment.pilot.spreads")?;
    at_most(pilot.forecasts.len(), 64, "experiment.pilot.forecasts")?;
    ensure(
        pilot.spreads.iter().all(|it| it.difference_sd >= 0.0),
        "experiment.pilot.spreads",
        "a negative spread",
    )?;
    ensure(
        pilot.forecasts.iter().all(|it| is_ratio(it.ratio)),
        "experiment.pilot.forecasts",
        "no ratio",
    )
}
