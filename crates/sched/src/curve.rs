//! Demand-bound functions: what of a task is due in an interval.

use crate::demand::{EdfTask, From};

/// What is due of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Curve {
    Sporadic {
        cost_ns: u64,
        period_ns: u64,
        jitter_ns: u64,
        deadline_ns: u64,
        first_ns: u64,
    },
    /// A reservation whose task may wake up at any time: Linux then leaves it what its density
    /// allows until the old deadline, and its whole runtime in the next period (the revised wake-up
    /// rule, Abeni, Buttazzo 1998 for implicit deadlines).
    Reservation {
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
        once_ns: u64,
    },
}

impl Curve {
    pub(crate) fn of(task: &EdfTask) -> Self {
        Curve::Sporadic {
            cost_ns: task.execution_ns,
            period_ns: task.period_ns,
            jitter_ns: task.jitter_ns,
            deadline_ns: task.deadline_ns,
            first_ns: Curve::first(task),
        }
    }

    /// The shortest distance of release and deadline.
    pub(crate) fn first(task: &EdfTask) -> u64 {
        match task.deadline_from {
            From::Release => task.deadline_ns,
            From::Arrival => task.deadline_ns.saturating_sub(task.jitter_ns),
        }
    }

    /// What is due in an interval.
    pub(crate) fn due(&self, interval_ns: u64) -> u64 {
        match *self {
            Curve::Sporadic {
                cost_ns,
                period_ns,
                jitter_ns,
                deadline_ns,
                first_ns,
            } => {
                if interval_ns < first_ns {
                    return 0;
                }
                let beyond = interval_ns
                    .saturating_add(jitter_ns)
                    .saturating_sub(deadline_ns);
                (beyond / period_ns)
                    .saturating_add(1)
                    .saturating_mul(cost_ns)
            }
            Curve::Reservation {
                runtime_ns,
                deadline_ns,
                period_ns,
                once_ns,
            } => {
                let (whole, rest) = (interval_ns / period_ns, interval_ns % period_ns);
                // Rounded down: the kernel leaves whole nanoseconds.
                let rest = u128::from(rest) * u128::from(runtime_ns) / u128::from(deadline_ns);
                let partial = u64::try_from(rest).unwrap_or(u64::MAX).min(runtime_ns);
                let whole = whole.saturating_mul(runtime_ns);
                whole.saturating_add(partial).saturating_add(once_ns)
            }
        }
    }

    /// What it asks for in a busy window.
    pub(crate) fn request(&self) -> (u64, u64, u64, u64) {
        match *self {
            Curve::Sporadic {
                cost_ns,
                period_ns,
                jitter_ns,
                ..
            } => (cost_ns, period_ns, jitter_ns, 0),
            Curve::Reservation {
                runtime_ns,
                deadline_ns,
                period_ns,
                once_ns,
            } => (runtime_ns, period_ns, deadline_ns, once_ns),
        }
    }

    /// The next interval after this one in which more is due, if these are few.
    pub(crate) fn next(&self, interval_ns: u64) -> Option<u64> {
        match *self {
            Curve::Sporadic {
                period_ns,
                jitter_ns,
                deadline_ns,
                first_ns,
                ..
            } => {
                if interval_ns < first_ns {
                    return Some(first_ns);
                }
                let beyond = interval_ns
                    .saturating_add(jitter_ns)
                    .saturating_sub(deadline_ns);
                let next = (beyond / period_ns)
                    .saturating_add(1)
                    .saturating_mul(period_ns);
                Some(next.saturating_add(deadline_ns).saturating_sub(jitter_ns))
            }
            Curve::Reservation { .. } => None,
        }
    }
}
