//! `SCHED_DEADLINE` tasks of one CPU: each a reservation, a constant bandwidth server under EDF.
//!
//! A task whose jobs are at least a period of the reservation apart, and need no more than its
//! runtime, is never throttled: it is a sporadic task under EDF, whose deadline begins at its release.
//! Any other one may wake up while it has runtime left, and run that, and then its next runtime at
//! once: it is counted by what the server lets it take.

use crate::blocking::Locks;
use crate::bound::{Bound, Outcome, Source, Unbounded};
use crate::curve::Curve;
use crate::demand::{Cpu, Demand};
use crate::model::{Policy, TaskSet};
use crate::steps::{Request, Work};

/// A `SCHED_DEADLINE` task with what is charged to it.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    pub task: usize,
    pub runtime_ns: u64,
    pub deadline_ns: u64,
    pub period_ns: u64,
    /// Execution, switching included.
    pub cost_ns: u64,
    pub arrivals_ns: u64,
    pub jitter_ns: u64,
    pub obstacle: Option<Unbounded>,
    /// Its jobs may come closer than the period of the reservation.
    bunched: bool,
}

impl Reserved {
    /// Of a task with this policy; none of others.
    pub(crate) fn of(
        (set, locks): (&TaskSet, &Locks<'_>),
        task: usize,
        cost_ns: u64,
        jitter_ns: u64,
        top: &[Request],
    ) -> Option<Self> {
        let it = &set.tasks[task];
        let Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } = it.policy
        else {
            return None;
        };
        let bunched = it.period_ns.saturating_sub(jitter_ns) < period_ns;
        // Interrupts are charged to whom they interrupt, unless the kernel accounts them apart. One
        // that is bunched may be late by as much as its deadline.
        let window_ns = if bunched {
            deadline_ns.saturating_mul(2)
        } else {
            deadline_ns
        };
        // The server of ordinary tasks has a runtime of its own.
        let charged = top
            .iter()
            .filter(|request| !matches!(request.source, Source::Server(_)));
        let needed_ns = charged.fold(cost_ns, |sum, request| {
            sum.saturating_add(request.in_window(window_ns))
        });
        let obstacle = if let Err(lock) = locks.blocking_ns(task) {
            Some(lock)
        } else if it.suspension.count > 0 {
            Some(Unbounded::SuspendingDeadlineTask)
        } else if it.period_ns < period_ns {
            Some(Unbounded::FasterThanReservation)
        } else if needed_ns > runtime_ns {
            Some(Unbounded::Throttled { needed_ns })
        } else {
            None
        };
        Some(Reserved {
            task,
            runtime_ns,
            deadline_ns,
            period_ns,
            cost_ns,
            arrivals_ns: it.period_ns,
            jitter_ns,
            obstacle,
            bunched,
        })
    }

    fn is_plain(&self) -> bool {
        self.obstacle.is_none() && !self.bunched
    }

    fn curve(&self, overrun_ns: u64) -> Curve {
        if self.is_plain() {
            Curve::Sporadic {
                cost_ns: self.cost_ns,
                period_ns: self.arrivals_ns,
                jitter_ns: self.jitter_ns,
                deadline_ns: self.deadline_ns,
                first_ns: self.deadline_ns,
            }
        } else {
            Curve::Reservation {
                runtime_ns: self.runtime_ns,
                deadline_ns: self.deadline_ns,
                period_ns: self.period_ns,
                once_ns: overrun_ns,
            }
        }
    }

    /// What it takes from tasks of fixed priority: as long as all are on time, or in any case.
    pub(crate) fn request(&self, on_time: bool, overrun_ns: u64) -> Request {
        let source = Source::Task(self.task);
        if on_time && self.is_plain() {
            return Request::new(source, self.cost_ns, self.arrivals_ns, self.jitter_ns);
        }
        Request {
            once_ns: overrun_ns,
            ..Request::new(source, self.runtime_ns, self.period_ns, self.deadline_ns)
        }
    }

    /// Its bound, where the demand test says this of its CPU.
    pub(crate) fn outcome(&self, (demand, late_ns): (Demand, u64)) -> Outcome {
        if let Some(obstacle) = self.obstacle {
            return Err(obstacle);
        }
        match demand {
            Demand::Met => {}
            Demand::Exceeded {
                interval_ns,
                demand_ns,
                ..
            } => {
                return Err(Unbounded::Demand {
                    interval_ns,
                    demand_ns,
                });
            }
            Demand::Undecided => return Err(Unbounded::TooManySteps),
        }
        // By induction over its jobs: when one is done, its server's deadline is that much after the
        // arrival at the latest. The next job gets a new one from its release, or what is left of
        // this one and the next runtime a period later, and arrives a period later itself.
        let late_ns = if self.bunched { late_ns } else { 0 };
        let from_release_ns = self.deadline_ns.saturating_add(late_ns);
        let response_ns = self.jitter_ns.saturating_add(from_release_ns);
        Ok(Bound {
            response_ns,
            from_release_ns: if self.bunched {
                response_ns
            } else {
                from_release_ns
            },
            job: 0,
            jitter_ns: self.jitter_ns,
            arrival_in_window_ns: 0,
            at_offsets: false,
            parts: Vec::new(),
        })
    }
}

/// The demand test of a CPU's reservations, and how late they may be where it is met and they aren't
/// plain. A reservation runs over its runtime by up to a tick, before the kernel notices.
///
/// What a task has left when it wakes up early may be due at once, before any interrupt, and only its
/// own server cares. Then it is late by no more than the shortest deadline, if from there on all
/// intervals have room: all that is due in a shorter one is due in that one.
pub(crate) fn demand(
    reserved: &[Reserved],
    top: &[Request],
    nonpreemptible_ns: u64,
    overrun_ns: u64,
    work: &mut Work,
) -> (Demand, u64) {
    let mut cpu = Cpu {
        curves: reserved.iter().map(|one| one.curve(overrun_ns)).collect(),
        top: top.to_vec(),
        blocking: vec![(0, nonpreemptible_ns)],
        from_ns: 0,
    };
    let all = cpu.test(work);
    if all == Demand::Met || reserved.iter().all(Reserved::is_plain) {
        return (all, 0);
    }
    cpu.from_ns = reserved
        .iter()
        .map(|one| one.deadline_ns)
        .min()
        .unwrap_or(0);
    (cpu.test(work), cpu.from_ns)
}
