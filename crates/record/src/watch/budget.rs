//! What jobs under SCHED_DEADLINE used of their budget.

use punctual_stats::histogram::HistogramRecord;
use serde::{Deserialize, Serialize};

use super::add_histogram;
use crate::bounds::{Broken, Extent, at_most, broken, ensure, histogram};
use crate::is_zero;

/// A budget (`sched_runtime` in each `sched_period`), and what the jobs that had it used of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Budgets of one thread that are distinguished.
    pub const MOST: usize = 4;
    /// Stretches of time.
    pub const WINDOWS: usize = 128;

    /// What distinguishes budgets: runtime, deadline and period.
    fn key(&self) -> (u64, u64, u64) {
        (self.runtime_ns, self.deadline_ns, self.period_ns)
    }
}

pub(super) fn check(budgets: &[Budget], place: &str, extent: &Extent) -> Result<(), Broken> {
    at_most(budgets.len(), Budget::MOST, format!("{place}.budgets"))?;
    for (index, budget) in budgets.iter().enumerate() {
        let place = format!("{place}.budgets[{index}]");
        let twice = budgets[..index].iter().any(|it| it.key() == budget.key());
        ensure(!twice, &place, "the same budget twice")?;
        ensure(
            budget.runtime_ns > 0,
            format!("{place}.runtime_ns"),
            "a budget of nothing",
        )?;
        // sched_setattr(2) takes no other.
        let (runtime, deadline, period) = budget.key();
        ensure(
            runtime <= deadline && deadline <= period,
            format!("{place}.runtime_ns"),
            format!("runtime {runtime}, deadline {deadline}, period {period}: not ascending"),
        )?;
        used(budget, &place, extent)?;
        windows(budget, &place)?;
    }
    Ok(())
}

fn used(budget: &Budget, place: &str, extent: &Extent) -> Result<(), Broken> {
    let used = &budget.used;
    histogram(used, &format!("{place}.used"))?;
    ensure(
        used.count > 0,
        format!("{place}.used"),
        "a budget that no job had",
    )?;
    let most = if used.max_ns > budget.runtime_ns {
        1..=used.count
    } else {
        0..=0
    };
    ensure(
        most.contains(&budget.over),
        format!("{place}.over"),
        format!(
            "{} of {} jobs, of which the most used {} ns of {}",
            budget.over, used.count, used.max_ns, budget.runtime_ns
        ),
    )?;
    extent.holds(budget.worst_at_ns, &format!("{place}.worst_at_ns"))
}

fn windows(budget: &Budget, place: &str) -> Result<(), Broken> {
    let windows = &budget.windows;
    let at = format!("{place}.windows");
    at_most(windows.len(), Budget::WINDOWS, &at)?;
    if windows.is_empty() {
        return Ok(());
    }
    ensure(
        budget.window_ns > 0,
        format!("{place}.window_ns"),
        "windows without a length",
    )?;
    for (index, window) in windows.iter().enumerate() {
        let reason = if window.over > window.jobs {
            "more jobs over the budget than there are"
        } else if (window.over > 0) != (window.max_ns > budget.runtime_ns) {
            "its maximum does not agree with its jobs over the budget"
        } else if window.jobs == 0 && (window.used_ns, window.throttled) != (0, 0) {
            "figures without jobs"
        } else if window.used_ns < window.max_ns
            || u128::from(window.used_ns) > u128::from(window.jobs) * u128::from(window.max_ns)
        {
            "its sum does not agree with its maximum"
        } else {
            continue;
        };
        return broken(format!("{at}[{index}]"), reason);
    }
    let sum = |of: fn(&BudgetWindow) -> u64| windows.iter().map(|it| u128::from(of(it))).sum();
    let all: [(&str, u128, u128); 4] = [
        ("jobs", sum(|it| it.jobs), budget.used.count.into()),
        ("used_ns", sum(|it| it.used_ns), budget.used.sum_ns),
        ("over", sum(|it| it.over), budget.over.into()),
        ("throttled", sum(|it| it.throttled), budget.throttled.into()),
    ];
    for (name, sum, whole) in all {
        ensure(
            sum == whole,
            &at,
            format!("their {name} sum to {sum}, but the budget has {whole}"),
        )?;
    }
    let most = windows.iter().map(|it| it.max_ns).max();
    ensure(
        most == Some(budget.used.max_ns),
        at,
        "their maximum is not the maximum of the budget",
    )
}

/// Adds the budgets of another run, and returns the jobs of those that there was no space for.
pub(super) fn add_up(sum: &mut Vec<Budget>, terms: &[Budget]) -> u64 {
    let mut beyond: u64 = 0;
    for one in sum.iter_mut() {
        one.windows.clear();
    }
    for term in terms {
        match sum.iter().position(|it| it.key() == term.key()) {
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
