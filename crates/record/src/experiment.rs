//! Which knob helped? An experiment that switches settings while latencies are measured: what was
//! switched when, what each block measured, and what follows.

use punctual_stats::experiment::{
    BlockLatencies, KnobConclusion, KnobResult, Measure, Screened, Spread,
};
use serde::{Deserialize, Serialize};

use crate::explanation::Cause;
use crate::tuning::Setting;

mod check;
mod judge;

pub(crate) use check::{check, is_sound};
pub use judge::Costs;

/// An experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Experiment {
    /// The knobs; the last is the control, which changes nothing.
    pub knobs: Vec<ExperimentKnob>,
    /// The order of switching follows from it.
    pub seed: u64,
    /// Length of a block that is measured.
    pub block_ns: u64,
    /// Time after each switch that is not measured.
    pub settle_ns: u64,
    /// Time for everything.
    pub budget_ns: u64,
    /// How sure a conclusion must be.
    pub confidence: f64,
    /// How often an effect of the planned size must be found.
    pub power: f64,
    /// The effect that must be found; without one, what the budget allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<WantedEffect>,
    /// The excess of latencies is counted above this; absent until the pilot has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ExcessLimit>,
    /// What the pilot says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pilot: Option<Pilot>,
    /// All blocks, in order.
    pub blocks: Vec<ExperimentBlock>,
    /// Of each knob, what the screening says; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub screened: Vec<Screened>,
    /// Of each knob, what its pairs say.
    pub results: Vec<KnobResult>,
    /// How it ended.
    pub outcome: ExperimentOutcome,
}

/// Something that is switched on and off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentKnob {
    /// The name of its finding, or the file.
    pub name: String,
    /// What it changes. Of the control: what it writes again, unchanged.
    pub settings: Vec<SwitchedSetting>,
    /// Whether it changes nothing: an effect of it would show that the experiment is wrong.
    pub is_control: bool,
}

/// A setting and its two values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchedSetting {
    /// What is written.
    pub setting: Setting,
    /// Its value with the knob off: that before the experiment.
    pub off: String,
    /// Its value with the knob on.
    pub on: String,
}

/// The smallest effect that must not be missed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WantedEffect {
    /// On this measure.
    pub measure: Measure,
    /// On by off, above 1; its inverse is wanted too.
    pub ratio: f64,
}

/// Where an excess begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExcessLimit {
    /// In ns.
    pub ns: u64,
    /// Whether it is the deadline, or else the 99th percentile of the pilot.
    pub is_deadline: bool,
}

/// What the pilot says about the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pilot {
    /// How much each measure varies.
    pub spreads: Vec<Spread>,
    /// How long it takes to find effects.
    pub forecasts: Vec<Forecast>,
    /// Pairs of blocks for each knob that the budget has room for, if all knobs are tested in pairs.
    pub pairs: u64,
}

/// How long it takes to find an effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// On this measure.
    pub measure: Measure,
    /// On by off, above 1.
    pub ratio: f64,
    /// Time in ns for all knobs together; absent where no experiment finds it.
    pub length_ns: Option<u64>,
    /// The same if blocks vary as little as the pilot leaves possible, in nine of ten pilots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_ns: Option<u64>,
    /// The same if they vary as much as it leaves possible: a wanted effect is planned with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
}

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All knobs off: how much do blocks vary?
    Pilot,
    /// Each knob on or off at random: which are worth a closer look?
    Screening,
    /// One knob on in one block of two.
    Pairs,
    /// All knobs off, while it is decided how to go on.
    Between,
}

/// A block of time with its knobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentBlock {
    /// When the switching began, from the start of the measurement.
    pub at_ns: u64,
    /// What it is for.
    pub phase: Phase,
    /// The knobs that are on, by their place in [`Experiment::knobs`].
    pub on: Vec<usize>,
    /// The pair that it belongs to, counted through all phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<u64>,
    /// The knob that its pair tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knob: Option<usize>,
    /// How long the switching took.
    pub switching_ns: u64,
    /// What was measured; absent until it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<BlockLatencies>,
    /// Why it counts for nothing, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// What took the time of its late wake-ups that were explained, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<BlockCost>,
}

/// What a cause took in a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockCost {
    /// The cause.
    pub cause: Cause,
    /// Its part of these latencies, in ns.
    pub ns: u64,
}

impl ExperimentBlock {
    /// Causes that are kept of a block.
    pub const COSTS: usize = 12;
}

/// Why a block, and with it its pair, counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// Switching took longer than the time for settling.
    SlowSwitching,
    /// The measuring process was stopped meanwhile.
    ProcessStopped,
    /// No wake-up was measured.
    NoWakeUps,
    /// It was not over when the experiment ended.
    CutShort,
}

/// How an experiment ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExperimentOutcome {
    /// It has not.
    UnderWay,
    /// As planned.
    Complete,
    /// The budget has no room for the wanted effect, or for a test at all: nothing was switched.
    BudgetTooSmall {
        /// Time in ns that is needed; absent where no budget is enough.
        needed_ns: Option<u64>,
    },
    /// The pilot is too short, or has too few wake-ups, to say how much they vary.
    NoSpread,
    /// Another program changed a setting that was to be switched.
    Conflict {
        /// Which.
        setting: Setting,
        /// Its value then.
        found: String,
    },
    /// A setting could not be switched: the system's words.
    Failed {
        /// Why not.
        error: String,
    },
    /// A signal or the end of the run.
    Stopped,
}

impl ExperimentOutcome {
    /// Whether a setting could not be switched.
    #[must_use]
    pub fn is_not_made(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Conflict { .. })
    }
}

impl Experiment {
    /// How often an effect of the planned size is found, if nothing else is asked for.
    const POWER: f64 = 0.8;

    /// One that has not begun: without knobs, budget and limit.
    #[must_use]
    pub fn planned(seed: u64, block_ns: u64, settle_ns: u64, confidence: f64) -> Self {
        Self {
            knobs: Vec::new(),
            seed,
            block_ns,
            settle_ns,
            budget_ns: 0,
            confidence,
            power: Self::POWER,
            wanted: None,
            limit: None,
            pilot: None,
            blocks: Vec::new(),
            screened: Vec::new(),
            results: Vec::new(),
            outcome: ExperimentOutcome::UnderWay,
        }
    }

    /// Whether messages to another machine were measured, or else wake-ups.
    #[must_use]
    pub fn is_of_messages(&self) -> bool {
        let mut figures = self.blocks.iter().filter_map(|it| it.figures.as_ref());
        figures.any(|it| it.messages.is_some())
    }

    /// From one switch to the next, in ns.
    #[must_use]
    pub fn slot_ns(&self) -> u64 {
        self.settle_ns.saturating_add(self.block_ns).max(1)
    }

    /// The control, and what its pairs say.
    #[must_use]
    pub fn control(&self) -> Option<&KnobResult> {
        let at = self.knobs.iter().position(|knob| knob.is_control)?;
        self.results.get(at)
    }

    /// Whether too few pairs count to say anything about a knob that was tested in pairs, or should
    /// have been; or about any in a screening.
    #[must_use]
    pub fn has_too_few_pairs(&self) -> bool {
        let is_screened = self.blocks.iter().any(|it| it.phase == Phase::Screening);
        if is_screened && self.screened.iter().all(|it| it.effects.is_empty()) {
            return true;
        }
        let is_tested =
            |knob: usize| !is_screened || self.blocks.iter().any(|it| it.knob == Some(knob));
        let results = self.results.iter().enumerate();
        results
            .filter(|(_, result)| result.conclusion == KnobConclusion::TooFewPairs)
            .any(|(at, _)| is_tested(at))
    }

    /// Whether the control shows an effect: then no result can be trusted.
    #[must_use]
    pub fn control_fails(&self) -> bool {
        let none = [KnobConclusion::NoEffectShown, KnobConclusion::TooFewPairs];
        self.control()
            .is_some_and(|it| !none.contains(&it.conclusion))
    }
}
