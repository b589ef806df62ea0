//! How much of its budget a SCHED_DEADLINE thread uses, per job.

use punctual_stats::histogram::{Extremes, Histogram, HistogramRecord};

use crate::probe::timeline::Rows;
use punctual_record::watch::{Budget, BudgetWindow};
use punctual_trace::watch::{Job, Reservation};

/// The budgets of one thread, in the order of first use.
#[derive(Debug, Clone, Default)]
pub struct Budgets {
    each: Vec<Used>,
    /// Jobs with other budgets, for which there is no room.
    beyond: u64,
}

/// How much the jobs used of one budget.
#[derive(Debug, Clone)]
struct Used {
    of: Reservation,
    used: Histogram,
    over: u64,
    throttled: u64,
    worst_at_ns: u64,
    rows: Rows,
}

impl Budgets {
    /// Counts a job that ended.
    pub fn add(&mut self, job: &Job, start_ns: u64) {
        let at = match self.each.iter().position(|it| it.of == job.of) {
            Some(at) => at,
            None if self.each.len() < Budget::MOST => {
                self.each.push(Used::new(job.of));
                self.each.len() - 1
            }
            None => {
                self.beyond += 1;
                return;
            }
        };
        self.each[at].add(job, start_ns);
    }

    /// The budgets for the record, and the number of jobs that are in none of them.
    #[must_use]
    pub fn to_record(&self) -> (Vec<Budget>, u64) {
        (self.each.iter().map(Used::to_record).collect(), self.beyond)
    }
}

impl Used {
    fn new(of: Reservation) -> Self {
        Self {
            of,
            used: Histogram::new(),
            over: 0,
            throttled: 0,
            worst_at_ns: 0,
            rows: Rows::within(Budget::WINDOWS),
        }
    }

    fn add(&mut self, job: &Job, start_ns: u64) {
        let over = u64::from(job.used_ns > self.of.runtime_ns);
        if self.used.max().is_none_or(|most_ns| job.used_ns > most_ns) {
            self.worst_at_ns = job.end_ns;
        }
        self.used.record(job.used_ns);
        self.over += over;
        self.throttled += job.throttles;
        self.rows.reach(job.end_ns.saturating_sub(start_ns));
        let both = Extremes {
            min_ns: job.used_ns,
            max_ns: job.used_ns,
        };
        self.rows.add(1, job.used_ns, both);
        if let Some(row) = self.rows.last() {
            row.late += over;
            row.missed += job.throttles;
        }
    }

    fn to_record(&self) -> Budget {
        let (window_ns, rows) = self.rows.rows();
        let windows = rows.iter().map(|row| BudgetWindow {
            jobs: row.count,
            used_ns: row.sum_ns,
            max_ns: row.max_ns,
            over: row.late,
            throttled: row.missed,
        });
        Budget {
            runtime_ns: self.of.runtime_ns,
            deadline_ns: self.of.deadline_ns,
            period_ns: self.of.period_ns,
            used: HistogramRecord::from(&self.used),
            over: self.over,
            throttled: self.throttled,
            worst_at_ns: self.worst_at_ns,
            window_ns,
            windows: windows.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000_000;

    fn job(turn: u64, used_ns: u64, runtime_ns: u64) -> Job {
        Job {
            tid: 7,
            end_ns: START + turn * 20 * MS,
            used_ns,
            throttles: used_ns / (runtime_ns + 1),
            of: Reservation {
                runtime_ns,
                deadline_ns: 10 * MS,
                period_ns: 20 * MS,
            },
        }
    }

    #[test]
    fn jobs_are_counted_against_the_budget_that_they_had() {
        let mut budgets = Budgets::default();
        for turn in 0..1000 {
            let used_ns = if turn == 700 { 12 * MS } else { 2 * MS };
            budgets.add(&job(turn, used_ns, 5 * MS), START);
        }
        // Exactly the budget is not above it.
        budgets.add(&job(1000, 4 * MS, 4 * MS), START);
        let (record, beyond) = budgets.to_record();
        let [first, second] = &record[..] else {
            panic!("{record:?}");
        };
        assert_eq!(
            (first.used.count, first.over, first.throttled),
            (1000, 1, 2)
        );
        assert_eq!((first.used.max_ns, first.runtime_ns), (12 * MS, 5 * MS));
        assert_eq!(first.worst_at_ns, START + 14_000 * MS);
        assert_eq!((second.used.count, second.over, beyond), (1, 0, 0));
        // 20 s fit into the windows, and each job is in the window of its end.
        let total = |of: fn(&BudgetWindow) -> u64| first.windows.iter().map(of).sum::<u64>();
        assert!(first.windows.len() <= Budget::WINDOWS);
        assert_eq!((total(|it| it.jobs), total(|it| it.throttled)), (1000, 2));
        assert_eq!(total(|it| it.used_ns), 999 * 2 * MS + 12 * MS);
        let worst = &first.windows[(14_000 * MS / first.window_ns) as usize];
        assert_eq!((worst.max_ns, worst.over), (12 * MS, 1));
    }

    #[test]
    fn memory_stays_bounded_whatever_budgets_a_thread_is_given() {
        let mut budgets = Budgets::default();
        for turn in 0..100 {
            budgets.add(&job(turn * 1_000_000, MS, (turn + 2) * MS), START);
        }
        let (record, beyond) = budgets.to_record();
        assert_eq!(record.len(), Budget::MOST);
        assert_eq!(beyond, 100 - Budget::MOST as u64);
        assert!(record.iter().all(|it| it.windows.len() <= Budget::WINDOWS));
    }
}
