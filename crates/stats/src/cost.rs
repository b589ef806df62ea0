//! What does a treatment cost a command? Pairs of runs without and with it, judged against pairs in
//! which nothing differs.
//!
//! Identical runs differ: by the caches, by where the kernel puts them, by what else runs. A test
//! of the pairs says how often chance makes a difference as clear as the one seen; only the pairs
//! in which nothing differs (the A/A series of the same hour) say how large a difference without a
//! cause gets. A cost is named if it is beyond both.
//!
//! | step | what it gives |
//! |---|---|
//! | [`judge_costs`] | of each treatment and measure: the ratio, its interval, whether it is named |
//! | [`tail_of_runs`] | a quantile of a latency, with an interval that takes runs, not samples, as units |
//! | [`break_even`] | the length of work up to which a shorter tail makes up for slower work |

mod even;
mod judge;

use serde::{Deserialize, Serialize};

pub use even::{BreakEven, BreakEvenKind, Price, TailQuantile, break_even, tail_of_runs};
pub use judge::{CostEffect, CostResults, UsagePair, judge_apart, judge_costs, least_pairs};

/// What one run of a command used, with all of its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in the kernel, in ns.
    pub system_ns: u64,
    /// Instructions, where the CPU counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// From its start to its end, in ns.
    pub elapsed_ns: u64,
    /// Context switches in which it waited.
    pub voluntary_switches: u64,
    /// Context switches in which another task took its CPU.
    pub involuntary_switches: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults with input.
    pub major_faults: u64,
}

/// What is compared. Each is judged on its logarithm: costs are ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CostMeasure {
    /// CPU time, user and system.
    CpuTime,
    /// Instructions.
    Instructions,
    /// CPU time in user mode.
    User,
    /// CPU time in the kernel.
    System,
    /// Elapsed time.
    Elapsed,
    /// Context switches, of both kinds.
    Switches,
    /// Page faults, of both kinds.
    Faults,
}

/// Times below this, in ns, are as good as none, and so is one event: a logarithm of almost
/// nothing must not decide.
const TIME_FLOOR_NS: f64 = 1_000_000.0;
const COUNT_FLOOR: f64 = 10.0;

impl CostMeasure {
    /// All, the most reliable first.
    pub const ALL: [CostMeasure; 7] = [
        Self::CpuTime,
        Self::Instructions,
        Self::User,
        Self::System,
        Self::Elapsed,
        Self::Switches,
        Self::Faults,
    ];

    /// Whether its unit is the nanosecond.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Self::CpuTime | Self::User | Self::System | Self::Elapsed
        )
    }

    fn floor(self) -> f64 {
        match self.is_time() {
            true => TIME_FLOOR_NS,
            false => COUNT_FLOOR,
        }
    }
}

impl Usage {
    /// CPU time, user and system, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// A figure in its unit, if it was counted.
    #[must_use]
    pub fn of(&self, measure: CostMeasure) -> Option<u64> {
        Some(match measure {
            CostMeasure::CpuTime => self.cpu_ns(),
            CostMeasure::Instructions => return self.instructions,
            CostMeasure::User => self.user_ns,
            CostMeasure::System => self.system_ns,
            CostMeasure::Elapsed => self.elapsed_ns,
            CostMeasure::Switches => self
                .voluntary_switches
                .saturating_add(self.involuntary_switches),
            CostMeasure::Faults => self.minor_faults.saturating_add(self.major_faults),
        })
    }

    /// The natural logarithm of a figure; what is below 1 ms, or ten events, counts as that.
    #[must_use]
    pub fn log(&self, measure: CostMeasure) -> Option<f64> {
        let figure = self.of(measure)? as f64;
        Some(figure.max(measure.floor()).ln())
    }
}

/// The measures that all of these runs have.
fn known<'u>(usages: impl Iterator<Item = &'u Usage> + Clone) -> Vec<CostMeasure> {
    let has = |measure: &CostMeasure| usages.clone().all(|usage| usage.of(*measure).is_some());
    CostMeasure::ALL.into_iter().filter(has).collect()
}
