//! What jobs under SCHED_DEADLINE used of their budget, as tables.

use punctual_stats::histogram::Histogram;

use super::{Table, instant, none, some_count};
use crate::words;
use punctual_record::Run;
use punctual_record::watch::{Budget, BudgetWindow, Watch};

/// Stretches of time of one budget that are shown.
const STRETCHES: usize = 12;

/// `5 ms in 20 ms`.
fn name(budget: &Budget) -> String {
    format!(
        "{} in {}",
        words::duration(budget.runtime_ns),
        words::duration(budget.period_ns)
    )
}

/// A share of the budget.
fn share(ns: f64, budget: &Budget) -> String {
    format!("{:.1} %", ns / budget.runtime_ns.max(1) as f64 * 100.0)
}

/// The budgets of all threads, each with its thread.
fn all(watch: &Watch) -> impl Iterator<Item = (usize, &Budget)> {
    let threads = watch.threads.iter().enumerate();
    threads.flat_map(|(index, thread)| thread.budgets.iter().map(move |it| (index, it)))
}

/// Which share of its budget each job used.
pub(super) fn used(run: &Run, watch: &Watch) -> Table {
    let rows = all(watch).map(|(index, budget)| {
        // A record that was read holds sound histograms.
        let used = Histogram::try_from(&budget.used).unwrap_or_default();
        let percentile = |quantile: f64, least: u64| {
            let supported = used.count() >= least;
            let ns = used.quantile(quantile).filter(|_| supported);
            ns.map_or_else(none, |ns| share(ns as f64, budget))
        };
        let thread = &watch.threads[index];
        let own = thread.jobs.unwrap_or_default();
        // Where the budget was changed, its lengths are those of all budgets together.
        let alone = thread.budgets.len() == 1;
        let long = |ns: u64| match own.throttled {
            some if some > 0 && alone => words::duration(ns),
            _ => none(),
        };
        vec![
            words::label(&run.thread_label(index)),
            name(budget),
            words::count(used.count()),
            used.mean().map_or_else(none, |ns| share(ns, budget)),
            percentile(0.5, 20),
            // Ten beyond a percentile are the least that support it.
            percentile(0.99, 1000),
            used.max().map_or_else(none, |ns| share(ns as f64, budget)),
            instant(run, budget.worst_at_ns),
            some_count(budget.over),
            some_count(if alone {
                own.throttled
            } else {
                budget.throttled
            }),
            long(own.worst_throttled_ns),
        ]
    });
    Table {
        name: "What jobs used of their budget",
        heads: vec![
            "thread",
            "budget",
            "jobs",
            "mean",
            "p50",
            "p99",
            "max",
            "at",
            "over it",
            "throttled",
            "longest",
        ],
        rows: rows.collect(),
        below: None,
        asked: false,
        spare: &["at", "p50", "longest", "p99", "mean"],
    }
}

/// Joins neighbouring windows until few enough are left.
fn condensed(windows: &[BudgetWindow]) -> (Vec<BudgetWindow>, usize) {
    let each = windows.len().div_ceil(STRETCHES).max(1);
    let joined = windows.chunks(each).map(|chunk| {
        chunk
            .iter()
            .fold(BudgetWindow::default(), |sum, it| BudgetWindow {
                jobs: sum.jobs.saturating_add(it.jobs),
                used_ns: sum.used_ns.saturating_add(it.used_ns),
                max_ns: sum.max_ns.max(it.max_ns),
                over: sum.over.saturating_add(it.over),
                throttled: sum.throttled.saturating_add(it.throttled),
            })
    });
    (joined.collect(), each)
}

/// The same over time.
pub(super) fn over_time(run: &Run, watch: &Watch) -> Table {
    let mut rows = Vec::new();
    for (index, budget) in all(watch) {
        let (windows, each) = condensed(&budget.windows);
        let width_ns = budget.window_ns.saturating_mul(each as u64);
        for (number, window) in (0_u64..).zip(&windows).filter(|(_, it)| it.jobs > 0) {
            let mean_ns = window.used_ns as f64 / window.jobs as f64;
            rows.push(vec![
                words::label(&run.thread_label(index)),
                name(budget),
                words::instant(number.saturating_mul(width_ns)),
                words::duration(width_ns),
                words::count(window.jobs),
                share(mean_ns, budget),
                share(window.max_ns as f64, budget),
                some_count(window.over),
                some_count(window.throttled),
            ]);
        }
    }
    Table {
        name: "Budget used, over time",
        heads: vec![
            "thread",
            "budget",
            "from",
            "for",
            "jobs",
            "mean",
            "max",
            "over it",
            "throttled",
        ],
        rows,
        below: None,
        asked: false,
        spare: &["budget", "for", "over it", "jobs"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_windows_keep_the_most_and_the_sums() {
        let windows: Vec<BudgetWindow> = (1..=100)
            .map(|n| BudgetWindow {
                jobs: 1,
                used_ns: n,
                max_ns: n,
                over: n % 2,
                throttled: 2,
            })
            .collect();
        let (few, each) = condensed(&windows);
        assert_eq!((few.len(), each), (12, 9));
        let sum = |of: fn(&BudgetWindow) -> u64| few.iter().map(of).sum::<u64>();
        assert_eq!((sum(|it| it.jobs), sum(|it| it.used_ns)), (100, 5050));
        assert_eq!((sum(|it| it.over), sum(|it| it.throttled)), (50, 200));
        assert_eq!(few[0].max_ns, 9);
        assert_eq!(condensed(&[]), (Vec::new(), 1));
    }
}
