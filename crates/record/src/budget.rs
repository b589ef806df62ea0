//! A budget: hops and one deadline for all of them together.

mod chain;
mod judge;
mod known;

use serde::{Deserialize, Serialize};

use punctual_stats::budget::{CommonBlocks, Exceedance};
use punctual_stats::verdict::Outcome;

use super::Run;
use super::invalid::InvalidReason;

pub use chain::of_chain;
pub use judge::judge;

/// The quantiles that are shown, as shares.
pub const BUDGET_QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetDemand {
    /// All hops together are to take this time at most, in ns.
    pub deadline_ns: u64,
    /// The share of cycles that may take longer, 0 to 1.
    pub allowed: f64,
    /// Of the verdict, within 0 and 1.
    pub confidence: f64,
}

/// What is known of a hop.
#[derive(Debug, Clone)]
pub enum HopTimes {
    /// A run measured it.
    Run {
        /// The run.
        run: Box<Run>,
        /// What of it.
        of: PartOfRun,
    },
    /// It always takes this time, in ns.
    Constant(u64),
    /// It takes longer than a time this often, exactly or less.
    Known(Exceedance),
}

/// The times of a run that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOfRun {
    /// The latencies of its threads: of all, or of those on one CPU.
    Threads {
        /// The CPU.
        cpu: Option<usize>,
    },
    /// The response times of a task of the set that it executed.
    Task {
        /// Which one.
        task: usize,
    },
    /// The reactions of a chain of the set that it executed.
    Chain {
        /// Which one.
        chain: usize,
    },
}

/// A run of the whole path.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The run.
    pub run: Run,
    /// What of it.
    pub of: PartOfRun,
}

/// A hop.
#[derive(Debug, Clone)]
pub struct Hop {
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub times: HopTimes,
    /// The part of the deadline that it is given, in ns, where that was decided beforehand.
    pub within_ns: Option<u64>,
}

/// The origin of a hop's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum HopOrigin {
    /// Measured.
    Run {
        /// Cycles: wake-ups and skipped periods.
        cycles: u64,
    },
    /// Given as a constant.
    Constant,
    /// Given as a distribution.
    Known,
}

/// What a budget says of a hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopFigures {
    /// Its name.
    pub name: String,
    /// Where its figures come from.
    pub origin: HopOrigin,
    /// Its quantiles in ns, those of [`BUDGET_QUANTILES`]; `None` where no time is exceeded so
    /// rarely.
    pub quantiles_ns: Vec<Option<u64>>,
    /// The longest time that was measured, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Its part of the deadline, and how often it takes longer.
    pub share: Option<HopShare>,
    /// Why its run is not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<InvalidReason>,
}

/// A part of the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HopShare {
    /// The part, in ns.
    pub within_ns: u64,
    /// How often the hop took longer, as a share.
    pub observed: f64,
    /// How often it takes longer at most, at the confidence of the verdict for all hops together.
    pub at_most: f64,
}

/// How often the sum takes longer than the deadline, and its quantiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SumFigures {
    /// The share of cycles.
    pub above_deadline: f64,
    /// As those of a hop.
    pub quantiles_ns: Vec<Option<u64>>,
}

/// What the verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BudgetBasis {
    /// The bound that holds under any dependence of the hops.
    AnyDependence,
    /// One hop alone, or the constants: which, from 0, and how often it exceeds the deadline at least.
    OneHop {
        /// The hop.
        hop: usize,
        /// At least so often, as a share.
        at_least: f64,
    },
    /// The sum of the hops exceeds the deadline however they depend on each other.
    AtLeast {
        /// At least so often, as a share.
        at_least: f64,
    },
    /// The run of the whole path.
    Whole,
    /// Reactions of a chain that were longer, and of which nothing else is known: no bound knows what else there was.
    Unsplit {
        /// How many.
        longer: u64,
    },
}

/// What a run of the whole path showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WholeFigures {
    /// Its verdict.
    pub outcome: Outcome,
    /// Cycles.
    pub cycles: u64,
    /// How often it took longer, as a share.
    pub observed: f64,
    /// At least so often, at the confidence.
    pub at_least: f64,
    /// At most so often, at the confidence.
    pub at_most: f64,
    /// Its quantiles in ns, as those of a hop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles_ns: Vec<Option<u64>>,
    /// The longest time that was measured, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// Why it is not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<InvalidReason>,
}

/// A budget, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// That of [`crate::document::Printed`].
    pub version: u32,
    /// What was asked.
    pub demand: BudgetDemand,
    /// The verdict.
    pub outcome: Outcome,
    /// What it rests on.
    pub basis: BudgetBasis,
    /// The hops, in their order.
    pub hops: Vec<HopFigures>,
    /// The sum, if the hops were independent of each other. No verdict rests on it.
    pub independent: SumFigures,
    /// The sum, however they depend on each other, as observed.
    pub any_dependence: SumFigures,
    /// It takes longer than the deadline at most so often, however the hops depend on each other, at
    /// the confidence.
    pub at_most: f64,
    /// What hops measured at the same time show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<CommonFigures>,
    /// The whole path, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<WholeFigures>,
}

/// Blocks of time in which all measured hops were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommonFigures {
    /// The width of a block in ns.
    pub block_ns: u64,
    /// How many.
    pub blocks: u64,
    /// Those in which the highest times of all hops add up to more than the deadline.
    pub possible: u64,
}

impl CommonFigures {
    pub(super) fn of(block_ns: u64, blocks: CommonBlocks) -> Self {
        Self {
            block_ns,
            blocks: blocks.blocks,
            possible: blocks.possible,
        }
    }
}
