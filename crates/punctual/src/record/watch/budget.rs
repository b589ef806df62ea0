//! What jobs under SCHED_DEADLINE used of their budget.

use punctual_stats::histogram::HistogramRecord;
use serde::{Deserialize, Serialize};

use super::{add_histogram, is_zero};
use crate::record::validate::{Broken, at_most, ensure, histogram};

/// A budget (`sched_runtime` in each `sched_period`), and what the jobs that had it used of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// What a job may run in one period.
    pub runtime_ns: u64,
    /// Within this time from the beginning of the period.
    pub deadline_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// How much the kernel took off the budget for each job; more than `runtime_ns` where a job
    /// went on over several periods.
    pub used: HistogramRecord,
    /// Jobs that used more than `runtime_ns`.
    pub over: u64,
    /// How often these jobs were throttled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled: u64,
    /// When the job ended that used most, CLOCK_MONOTONIC.
    pub worst_at_ns: u64,
    /// How long each of `windows` is.
    pub window_ns: u64,
    /// The same over time, from the beginning of the watch; none in a sum of runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<BudgetWindow>,
}

/// Jobs that ended in one stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetWindow {
    /// How many.
    pub jobs: u64,
    /// What they used, all together.
    pub used_ns: u64,
    /// The most that one used.
    pub max_ns: u64,
    /// Those that used more than their budget.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over: u64,
    /// How often they were throttled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled: u64,
}

impl Budget {
    /// Budgets of one thread that are told apart.
    pub const MOST: usize = 4;
    /// Stretches of time.
    pub const WINDOWS: usize = 128;
}

pub(super) fn check(budgets: &[Budget], place: &str) -> Result<(), Broken> {
    at_most(budgets.len(), Budget::MOST, format!("{place}.budgets"))?;
    for (index, budget) in budgets.iter().enumerate() {
        let place = format!("{place}.budgets[{index}]");
        histogram(&budget.used, &format!("{place}.used"))?;
        at_most(
            budget.windows.len(),
            Budget::WINDOWS,
            format!("{place}.windows"),
        )?;
        ensure(
            budget.runtime_ns > 0,
            format!("{place}.runtime_ns"),
            "a budget of nothing",
        )?;
    }
    Ok(())
}

/// Adds the budgets of another run, and returns the jobs of those that found no room.
pub(super) fn add_up(sum: &mut Vec<Budget>, terms: &[Budget]) -> u64 {
    let mut beyond: u64 = 0;
    for one in sum.iter_mut() {
        one.windows.clear();
    }
    for term in terms {
        let key = |it: &Budget| (it.runtime_ns, it.deadline_ns, it.period_ns);
        match sum.iter().position(|it| key(it) == key(term)) {
            Some(at) => {
                let all = &mut sum[at];
                if term.used.max_ns > all.used.max_ns {
                    all.worst_at_ns = term.worst_at_ns;
                }
                add_histogram(&mut all.used, &term.used);
                all.over = all.over.saturating_add(term.over);
                all.throttled = all.throttled.saturating_add(term.throttled);
            }
            None if sum.len() < Budget::MOST => sum.push(Budget {
                windows: Vec::new(),
                ..term.clone()
            }),
            None => beyond = beyond.saturating_add(term.used.count),
        }
    }
    beyond
}
