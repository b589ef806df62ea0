//! Earliest deadline first on one CPU: whether all deadlines are met, by processor demand.
//!
//! In each interval, the jobs that are both released and due within it must fit into it (Baruah,
//! Rosier, Howell 1990). With release jitter, deadlines may come closer to the release (Spuri
//! 1996); a job of a later deadline that holds a lock adds its section (Baruah 2006). Only
//! intervals up to the longest busy period can fail, and of these QPA looks at few (Zhang, Burns
//! 2009): it goes down from the longest, to the demand of the interval where that is shorter.
//!
//! The test is exact for sporadic tasks without jitter and locks, and sufficient otherwise.

use crate::curve::Curve;
use crate::model::MAX_NS;
use crate::steps::{LIMIT_NS, Request, Work, sum_in_window};

/// A task under EDF. Times are in nanoseconds, up to [`MAX_NS`]; the period is at least 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdfTask {
    /// Worst-case execution time of a job.
    pub execution_ns: u64,
    /// Least distance of two arrivals.
    pub period_ns: u64,
    /// A job is released at most this long after its arrival.
    pub jitter_ns: u64,
    /// The deadline, from where `deadline_from` says; it may be longer than the period.
    pub deadline_ns: u64,
    /// Where the deadline is counted from.
    pub deadline_from: From,
    /// Critical sections: lock and length. They don't nest.
    pub sections: Vec<(usize, u64)>,
}

/// Where a deadline begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At the arrival: jitter is lost.
    Arrival,
    /// At the release, as in Linux.
    Release,
}

/// How tasks under EDF share locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The holder inherits the earliest deadline of those that wait.
    Inherit,
    /// The stack resource policy: no job begins before it can get all its locks (Baker 1991).
    Stack,
}

/// What the demand test says of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// All deadlines are met.
    Met,
    /// More is due in an interval than fits.
    Exceeded {
        /// The length of the interval.
        interval_ns: u64,
        /// What is due in it, blocking included.
        demand_ns: u64,
        /// No shorter interval fails.
        first: bool,
    },
    /// The test was ended after 2 * 10^7 terms, or at 2^60 ns.
    Undecided,
}

/// Whether these tasks meet their deadlines under EDF on one CPU. A time beyond its range counts as
/// [`Demand::Undecided`].
#[must_use]
pub fn edf(tasks: &[EdfTask], sharing: Sharing) -> Demand {
    let hostile = tasks.iter().any(|task| {
        let times = [
            task.execution_ns,
            task.period_ns,
            task.jitter_ns,
            task.deadline_ns,
        ];
        let mut sections = task.sections.iter().map(|section| section.1);
        task.period_ns == 0 || times.iter().any(|ns| *ns > MAX_NS) || sections.any(|ns| ns > MAX_NS)
    });
    if hostile {
        return Demand::Undecided;
    }
    let curves = tasks.iter().map(Curve::of).collect();
    let mut ends: Vec<u64> = tasks
        .iter()
        .flat_map(|task| [task.deadline_ns, Curve::first(task)])
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut blocking = vec![];
    let mut from = 0;
    for end in ends {
        if end > from {
            blocking.push((from, blocking_in(tasks, sharing, from)));
            from = end;
        }
    }
    blocking.push((from, 0));
    Cpu {
        curves,
        top: Vec::new(),
        blocking,
        from_ns: 0,
    }
    .test(&mut Work::new())
}

/// What jobs with deadlines beyond an interval of this length may add to it.
fn blocking_in(tasks: &[EdfTask], sharing: Sharing, interval_ns: u64) -> u64 {
    let inside = |lock: usize| {
        tasks.iter().any(|task| {
            Curve::first(task) <= interval_ns && task.sections.iter().any(|(used, _)| *used == lock)
        })
    };
    let mut by_lock = std::collections::BTreeMap::new();
    let (mut by_task, mut longest) = (0u64, 0u64);
    for later in tasks.iter().filter(|task| task.deadline_ns > interval_ns) {
        let mut own = 0;
        for (lock, length) in later.sections.iter().filter(|(lock, _)| inside(*lock)) {
            own = own.max(*length);
            let entry = by_lock.entry(*lock).or_insert(0);
            *entry = (*entry).max(*length);
        }
        by_task = by_task.saturating_add(own);
        longest = longest.max(own);
    }
    match sharing {
        Sharing::Stack => longest,
        Sharing::Inherit => by_lock
            .into_values()
            .fold(0, u64::saturating_add)
            .min(by_task),
    }
}

/// The CPU that is tested.
pub(crate) struct Cpu {
    pub curves: Vec<Curve>,
    /// What runs above EDF.
    pub top: Vec<Request>,
    /// From each length of interval on, the blocking; ascending, the first from 0.
    pub blocking: Vec<(u64, u64)>,
    /// Shorter intervals aren't looked at: what is due in them is late by no more than this.
    pub from_ns: u64,
}

impl Cpu {
    fn due(&self, interval_ns: u64, blocking_ns: u64) -> u64 {
        let due = self.curves.iter().map(|curve| curve.due(interval_ns));
        let due = due.fold(blocking_ns, u64::saturating_add);
        due.saturating_add(sum_in_window(&self.top, interval_ns))
    }

    fn blocking_at(&self, interval_ns: u64) -> u64 {
        let at = self
            .blocking
            .partition_point(|(from, _)| *from <= interval_ns);
        self.blocking[at - 1].1
    }

    fn terms(&self) -> usize {
        self.curves.len() + self.top.len()
    }

    pub(crate) fn test(&self, work: &mut Work) -> Demand {
        if self.curves.is_empty() {
            return Demand::Met;
        }
        let Some(longest) = self.busy_period(work) else {
            return self.grow(work);
        };
        let mut end = longest;
        for &(from, blocking) in self.blocking.iter().rev() {
            let from = from.max(self.from_ns);
            if from > end {
                continue;
            }
            match self.descend(from, end, blocking, work) {
                Some(None) => {}
                Some(Some(interval)) => return self.exceeded(interval, work),
                None => return Demand::Undecided,
            }
            end = from.saturating_sub(1);
        }
        Demand::Met
    }

    /// QPA between two lengths of interval: the one that fails, if any; none where the work ended.
    fn descend(&self, from: u64, to: u64, blocking: u64, work: &mut Work) -> Option<Option<u64>> {
        let mut interval = to;
        loop {
            if !work.take(self.terms()) {
                return None;
            }
            // Nothing is due: nothing is late, whatever runs above.
            if self.curves.iter().all(|curve| curve.due(interval) == 0) {
                return Some(None);
            }
            let due = self.due(interval, blocking);
            if due > interval {
                return Some(Some(interval));
            }
            // In intervals from `due` to this one, no more is due than in this one.
            let next = if due < interval {
                due
            } else {
                interval.saturating_sub(1)
            };
            if next < from || interval == 0 {
                return Some(None);
            }
            interval = next;
        }
    }

    /// The longest time without idling; none where it is not bounded, or not found.
    fn busy_period(&self, work: &mut Work) -> Option<u64> {
        let blocking = self.blocking.iter().map(|step| step.1).max().unwrap_or(0);
        let requests: Vec<_> = self.curves.iter().map(Curve::request).collect();
        let once = requests
            .iter()
            .fold(blocking, |sum, request| sum.saturating_add(request.3));
        let mut window = 1u64;
        loop {
            if !work.take(self.terms()) {
                return None;
            }
            let asked = requests
                .iter()
                .fold(once, |sum, (cost, period, jitter, _)| {
                    let count = window.saturating_add(*jitter).div_ceil(*period);
                    sum.saturating_add(count.saturating_mul(*cost))
                });
            let next = asked.saturating_add(sum_in_window(&self.top, window));
            if next <= window {
                return Some(window);
            }
            if next > LIMIT_NS {
                return None;
            }
            window = next;
        }
    }

    /// Looks for a failure where the busy period has no end.
    fn grow(&self, work: &mut Work) -> Demand {
        // A busy period that wasn't found may have used up the work: a few steps more.
        let mut interval = self.from_ns.max(1);
        while interval < LIMIT_NS {
            let some = self.curves.iter().any(|curve| curve.due(interval) > 0);
            if some && self.due(interval, self.blocking_at(interval)) > interval {
                return self.exceeded(interval, work);
            }
            interval *= 2;
        }
        Demand::Undecided
    }

    /// The first interval that fails, where it can be found with what is left of the work.
    fn exceeded(&self, known: u64, work: &mut Work) -> Demand {
        let shown = |interval: u64, first: bool| Demand::Exceeded {
            interval_ns: interval,
            demand_ns: self.due(interval, self.blocking_at(interval)),
            first,
        };
        // What runs above steps too, which the deadlines alone don't show: the first deadline that
        // fails is the first interval that fails, as demand is only looked at where something is due.
        let mut interval = self.from_ns;
        while interval < known {
            if !work.take(2 * self.terms()) {
                return shown(known, false);
            }
            let due = self.due(interval, self.blocking_at(interval));
            if due > interval && self.curves.iter().any(|curve| curve.due(interval) > 0) {
                return shown(interval, true);
            }
            let mut next = known;
            for curve in &self.curves {
                match curve.next(interval) {
                    Some(step) => next = next.min(step),
                    None => return shown(known, false),
                }
            }
            interval = next.max(interval + 1);
        }
        let no_steps = self.curves.iter().any(|curve| curve.next(0).is_none());
        shown(known, !no_steps)
    }
}
