//! Reading `fit.json`. It may come from anywhere: reading is total, and what is accepted keeps its
//! promises.

use std::path::{Component, Path};

use super::{Fit, FitOutcome, FitStep, FitWork};
use crate::bounds::{Bounds, Broken, at_most, ensure};
use crate::document::Document;
use crate::finding::FindingId;

/// Knobs of one step, obstacles, causes of one.
const MOST_KNOBS: usize = 256;
/// A change of a measure beyond this is none that was measured.
const MOST_RATIO: f64 = 1e12;

impl Document for Fit {
    const WHAT: &'static str = "record of a fit";
    const FILE: &'static str = "fit.json";
    const PAGE: Option<&'static str> = Some("fit.html");
    const FORMAT: &'static str = "punctual-fit";
    const VERSION: u32 = 1;
    const MOST_BYTES: u64 = 16 << 20;

    fn header(&self) -> (&str, u32) {
        (&self.format, self.version)
    }

    fn promises(&self) -> Result<(), Broken> {
        promises(self)
    }
}

/// What a fit promises beyond its types.
fn promises(fit: &Fit) -> Result<(), Broken> {
    at_most(fit.steps.len(), Bounds::SHORT_LIST, "steps")?;
    at_most(fit.command.len(), Bounds::SHORT_LIST, "command")?;
    at_most(fit.obstacles.len(), MOST_KNOBS, "obstacles")?;
    for it in &fit.obstacles {
        at_most(it.causes.len(), MOST_KNOBS, "obstacles[].causes")?;
    }
    at_most(fit.untried_boot.len(), MOST_KNOBS, "untried_boot")?;
    at_most(fit.kept.len(), Bounds::SETTINGS, "kept")?;
    for (name, cpus) in [("cpus", &fit.cpus), ("tuned_for", &fit.tuned_for)] {
        at_most(cpus.len(), Bounds::CPUS, name)?;
        for cpu in cpus {
            ensure(
                *cpu < Bounds::CPUS,
                name,
                format!("CPU {cpu} does not exist"),
            )?;
        }
    }
    for knobs in fit.outcome.iter().flat_map(knobs_of) {
        at_most(knobs.len(), MOST_KNOBS, "outcome")?;
    }
    let mut steps = fit.steps.iter().enumerate();
    steps.try_for_each(|(at, it)| step(it, &format!("steps[{at}]")))
}

/// The lists of knobs of an end.
fn knobs_of(outcome: &FitOutcome) -> Vec<&[FindingId]> {
    match outcome {
        FitOutcome::Met { knobs, untried } => vec![knobs, untried],
        FitOutcome::NotEnough { knobs } | FitOutcome::FirstKeep { knobs } => vec![knobs],
        FitOutcome::MetAlready
        | FitOutcome::NothingToTurn
        | FitOutcome::OutOfReach { .. }
        | FitOutcome::NothingHelps
        | FitOutcome::BudgetTooSmall { .. }
        | FitOutcome::TooLittleEvidence
        | FitOutcome::Invalid
        | FitOutcome::Stopped => Vec::new(),
    }
}

fn step(step: &FitStep, place: &str) -> Result<(), Broken> {
    let mut parts = Path::new(&step.directory).components();
    let is_inside = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    ensure(
        is_inside,
        format!("{place}.directory"),
        "is no directory within that of the fit",
    )?;
    match &step.what {
        FitWork::Qualify {
            on,
            asked,
            makes_valid,
            ..
        } => {
            let mut lists = [on, asked, makes_valid].into_iter();
            lists.try_for_each(|knobs| at_most(knobs.len(), MOST_KNOBS, place))
        }
        FitWork::Prove { knobs, .. } => {
            let place = format!("{place}.knobs");
            for ratio in knobs.iter().filter_map(|it| it.ratio) {
                let is_ratio = ratio > 0.0 && ratio < MOST_RATIO;
                ensure(is_ratio, place.as_str(), format!("a ratio of {ratio}"))?;
            }
            at_most(knobs.len(), MOST_KNOBS, place)
        }
    }
}
