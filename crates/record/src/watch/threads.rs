//! Threads of several runs, or of one row, as one.

use super::{Jobs, Timing, Watch, WatchedCall, WatchedThread, add_histogram, budget};

/// Adds threads to those of their names, if there are any to those of their periods too, and says where each is now.
pub(super) fn add_threads(sum: &mut Vec<WatchedThread>, threads: &[WatchedThread]) -> Vec<usize> {
    let mut places = vec![None; threads.len()];
    for by_period in [true, false] {
        for (index, thread) in threads.iter().enumerate() {
            let fits = |at: &usize| {
                let period_ns = sum[*at].period_ns;
                sum[*at].task.name == thread.task.name
                    && !places.contains(&Some(*at))
                    && (!by_period || is_one_period(period_ns, thread.period_ns))
            };
            if places[index].is_none()
                && let Some(at) = (0..sum.len()).find(fits)
            {
                sum[at].add(thread);
                places[index] = Some(at);
            }
        }
    }
    let each = places.into_iter().zip(threads);
    each.map(|(place, thread)| {
        place.unwrap_or_else(|| {
            sum.push(thread.clone());
            sum.len() - 1
        })
    })
    .collect()
}

/// Whether both are one period, as it was found in two runs.
fn is_one_period(a_ns: Option<u64>, b_ns: Option<u64>) -> bool {
    match (a_ns, b_ns) {
        (Some(a), Some(b)) => a.abs_diff(b) <= a / 20,
        (a, b) => a == b,
    }
}

impl WatchedThread {
    /// Itself, and a thread that continues its entry.
    #[must_use]
    pub fn followed_by(&self, next: &Self) -> Self {
        let mut both = self.clone();
        both.add(next);
        both.task.clone_from(&next.task);
        both.ended = next.ended;
        both.slept_but_for_stops = false;
        // Which of both it is of would not be known.
        both.budgets.iter_mut().for_each(|it| it.windows.clear());
        both
    }

    /// As `unseen_most_ns`; 0 if none went unseen.
    fn most_unseen_ns(&self) -> Option<u64> {
        match self.unseen {
            0 => Some(0),
            _ => self.unseen_most_ns,
        }
    }

    fn add(&mut self, other: &Self) {
        let most_ns = self.most_unseen_ns().zip(other.most_unseen_ns());
        self.unseen_most_ns = most_ns.map(|(a, b)| a.max(b)).filter(|it| *it > 0);
        add_histogram(&mut self.by_timer, &other.by_timer);
        add_histogram(&mut self.by_others, &other.by_others);
        for (sum, term) in [
            (&mut self.overruns, other.overruns),
            (&mut self.skipped_itself, other.skipped_itself),
            (&mut self.switches, other.switches),
            (&mut self.migrations, other.migrations),
            (&mut self.calls_beyond, other.calls_beyond),
            (&mut self.unseen, other.unseen),
            (&mut self.others, other.others),
            (&mut self.budgets_beyond, other.budgets_beyond),
        ] {
            *sum = sum.saturating_add(term);
        }
        self.worst_overrun_ns = self.worst_overrun_ns.max(other.worst_overrun_ns);
        self.ended |= other.ended;
        self.skips.merge(&other.skips);
        if self.timing != other.timing {
            self.timing = Timing::Unknown;
        }
        // The shortest: in a stall as long as the deadline it has the most misses.
        let periods = [self.period_ns, other.period_ns];
        self.period_ns = periods.into_iter().flatten().min();
        self.jobs = match (self.jobs, other.jobs) {
            (Some(a), Some(b)) => Some(Jobs {
                count: a.count.saturating_add(b.count),
                late: a.late.saturating_add(b.late),
                worst_ns: a.worst_ns.max(b.worst_ns),
                postponed: a.postponed.saturating_add(b.postponed),
                throttled: a.throttled.saturating_add(b.throttled),
                throttled_ns: a.throttled_ns.saturating_add(b.throttled_ns),
                worst_throttled_ns: a.worst_throttled_ns.max(b.worst_throttled_ns),
            }),
            (a, b) => a.or(b),
        };
        self.budgets_beyond = self
            .budgets_beyond
            .saturating_add(budget::add_up(&mut self.budgets, &other.budgets));
        for call in &other.calls {
            let known = self.calls.iter().position(|known| known.name == call.name);
            match known {
                Some(at) => self.calls[at].add(call),
                None if self.calls.len() < Watch::CALLS => self.calls.push(call.clone()),
                None => self.calls_beyond = self.calls_beyond.saturating_add(call.count),
            }
        }
    }
}

impl WatchedCall {
    fn add(&mut self, other: &Self) {
        if other.worst_ns > self.worst_ns {
            self.worst_ns = other.worst_ns;
            self.other.clone_from(&other.other);
            self.held = other.held;
        }
        for (sum, term) in [
            (&mut self.count, other.count),
            (&mut self.total_ns, other.total_ns),
            (&mut self.by_timer, other.by_timer),
            (&mut self.inversions, other.inversions),
        ] {
            *sum = sum.saturating_add(term);
        }
    }
}
