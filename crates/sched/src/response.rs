//! Response times under fixed priorities.
//!
//! All jobs of the longest busy window are looked at, not only the first, which isn't the worst
//! where a deadline is longer than the period (Lehoczky 1990; Tindell, Burns, Wellings 1994). For job
//! `q` of a task with period `T`, jitter `J`, execution `C`:
//!
//! ```text
//! w(q) = B + (q + 1) C + sum over tasks j at or above it of ceil((w(q) + Jj) / Tj) Cj
//! R    = max over q of J + w(q) - q T,   as long as q T < window + J
//! ```
//!
//! Jobs that the end of its own jobs releases at once, on its CPU and not below it (`D` each, after every
//! `n`-th), come after the job that releases them: job `q` waits for those of the `q` jobs before it, no
//! more. None is left from before the window, at the beginning of which nothing of its rank is pending:
//!
//! ```text
//! w(q) = ... + ceil(q / n) D
//! ```
//!
//! A task above that suspends itself counts with the jitter `Rj - Cj`; the task's own suspension
//! counts as execution, after which tasks below may hold locks once more (Chen et al. 2019, "Many
//! suspensions, many problems", 4.1 and 4.2.1: both are sound, other treatments were not).

use crate::bound::{Bound, Outcome, Part, Source, Unbounded};
use crate::steps::{LIMIT_NS, Request, Work, is_overload, sum_in_window};

/// The task that is analysed, with what is charged to it.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub cost_ns: u64,
    pub suspended_ns: u64,
    pub suspensions: u64,
    pub period_ns: u64,
    pub jitter_ns: u64,
    /// Its first job arrives so long after the beginning of the window.
    pub delay_ns: u64,
    /// Where it arrives strictly by its period: at this time, and at each period before and after.
    pub offset_ns: Option<u64>,
    pub blocking_ns: u64,
    pub nonpreemptible_ns: u64,
    /// What the end of its jobs releases on its CPU, not below it.
    pub released: Vec<Released>,
}

/// A task of which every `every`-th job of the analysed one releases a job, at its end.
#[derive(Debug, Clone)]
pub(crate) struct Released {
    pub task: usize,
    pub cost_ns: u64,
    pub every: u64,
}

impl Released {
    /// What so many consecutive jobs release.
    fn after(&self, jobs: u64) -> u64 {
        jobs.div_ceil(self.every).saturating_mul(self.cost_ns)
    }
}

impl Own {
    /// How often tasks below may delay this many jobs: at the beginning, and after suspensions.
    fn delays(&self, jobs: u64) -> u64 {
        self.suspensions.saturating_mul(jobs).saturating_add(1)
    }

    /// What this many jobs take without others above.
    fn alone(&self, jobs: u64) -> u64 {
        let delay = self.blocking_ns.saturating_add(self.nonpreemptible_ns);
        let each = self.cost_ns.saturating_add(self.suspended_ns);
        let delays = self.delays(jobs).saturating_mul(delay);
        jobs.saturating_mul(each).saturating_add(delays)
    }

    /// What this many jobs release.
    fn released(&self, jobs: u64) -> u64 {
        let each = self.released.iter().map(|one| one.after(jobs));
        each.fold(0, u64::saturating_add)
    }

    /// How many of its jobs arrive in a window.
    fn jobs_in(&self, window_ns: u64) -> u64 {
        let until = window_ns
            .saturating_add(self.jitter_ns)
            .saturating_sub(self.delay_ns);
        until.div_ceil(self.period_ns)
    }
}

/// What runs above a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Above {
    pub requests: Vec<Request>,
    /// Requests that keep their distances, and may begin at each of some instants: of each group the
    /// requests as seen from each of them.
    pub groups: Vec<Vec<Vec<Request>>>,
}

impl Above {
    fn in_window(&self, window_ns: u64) -> u64 {
        let groups = self.groups.iter().map(|group| {
            let each = group
                .iter()
                .map(|requests| sum_in_window(requests, window_ns));
            each.max().unwrap_or(0)
        });
        groups.fold(
            sum_in_window(&self.requests, window_ns),
            u64::saturating_add,
        )
    }

    fn terms(&self) -> usize {
        let of_groups = self.groups.iter().flatten().map(Vec::len);
        self.requests.len() + of_groups.sum::<usize>()
    }

    /// The requests that make the sum in a window.
    fn in_force(&self, window_ns: u64) -> impl Iterator<Item = &Request> {
        let worst = self.groups.iter().filter_map(move |group| {
            group
                .iter()
                .max_by_key(|requests| sum_in_window(requests, window_ns))
        });
        self.requests.iter().chain(worst.flatten())
    }
}

/// The bound where all tasks may arrive together.
pub(crate) fn response(own: &Own, above: &Above, work: &mut Work) -> Outcome {
    let each = own.cost_ns.saturating_add(own.suspended_ns);
    let delay = own.blocking_ns.saturating_add(own.nonpreemptible_ns);
    let each = each.saturating_add(own.suspensions.saturating_mul(delay));
    let shares = above
        .requests
        .iter()
        .map(|request| (request.cost_ns, request.period_ns));
    let released = own.released.iter();
    let released = released.map(|one| (one.cost_ns, own.period_ns.saturating_mul(one.every)));
    if is_overload(shares.chain(released).chain([(each, own.period_ns)])) {
        return Err(Unbounded::Overload);
    }
    longest(own, above, work)?.ok_or(Unbounded::TooManySteps)
}

/// The longest response in a busy window; none where no job of the task arrives in it.
pub(crate) fn longest(
    own: &Own,
    above: &Above,
    work: &mut Work,
) -> Result<Option<Bound>, Unbounded> {
    let window = fixed_point(own.alone(0).max(1), above, work, |window| {
        let jobs = own.jobs_in(window);
        own.alone(jobs).saturating_add(own.released(jobs))
    })?;
    let jobs = own.jobs_in(window);
    let mut worst: Option<Bound> = None;
    let mut worst_end = 0;
    let (mut end, mut from_release) = (0u64, 0u64);
    for job in 0..jobs {
        let alone = own.alone(job + 1).saturating_add(own.released(job));
        end = fixed_point(alone.max(end), above, work, |_| alone)?;
        let arrival = job
            .saturating_mul(own.period_ns)
            .saturating_add(own.delay_ns);
        let response_ns = end.saturating_add(own.jitter_ns).saturating_sub(arrival);
        let since = end.saturating_sub(arrival.saturating_sub(own.jitter_ns));
        from_release = from_release.max(since);
        if worst
            .as_ref()
            .is_none_or(|worst| response_ns > worst.response_ns)
        {
            worst_end = end;
            worst = Some(Bound {
                response_ns,
                from_release_ns: 0,
                job,
                jitter_ns: own.jitter_ns,
                arrival_in_window_ns: end.cast_signed().wrapping_sub_unsigned(response_ns),
                at_offsets: false,
                parts: Vec::new(),
            });
        }
    }
    let Some(mut bound) = worst else {
        return Ok(None);
    };
    if bound.response_ns > LIMIT_NS {
        return Err(Unbounded::TooLong);
    }
    bound.from_release_ns = from_release;
    bound.parts = parts(own, above, bound.job + 1, worst_end);
    Ok(Some(bound))
}

/// The least window that holds all that is asked for in it, from one that isn't longer.
fn fixed_point(
    from: u64,
    above: &Above,
    work: &mut Work,
    alone: impl Fn(u64) -> u64,
) -> Result<u64, Unbounded> {
    let mut window = from;
    loop {
        if !work.take(above.terms()) {
            return Err(Unbounded::TooManySteps);
        }
        let next = alone(window).saturating_add(above.in_window(window));
        if next > LIMIT_NS {
            return Err(Unbounded::TooLong);
        }
        if next <= window {
            return Ok(window);
        }
        window = next;
    }
}

fn parts(own: &Own, above: &Above, jobs: u64, end_ns: u64) -> Vec<Part> {
    let delays = own.delays(jobs);
    let first = [
        (Source::Itself, jobs.saturating_mul(own.cost_ns)),
        (Source::Suspension, jobs.saturating_mul(own.suspended_ns)),
        (Source::Blocking, delays.saturating_mul(own.blocking_ns)),
        (
            Source::Nonpreemptible,
            delays.saturating_mul(own.nonpreemptible_ns),
        ),
    ];
    let above = above
        .in_force(end_ns)
        .map(|request| (request.source, request.in_window(end_ns)));
    let released = own.released.iter();
    let released = released.map(|one| (Source::Task(one.task), one.after(jobs - 1)));
    let all = first.into_iter().chain(released).chain(above);
    let all = all.filter(|(_, ns)| *ns > 0);
    all.map(|(source, ns)| Part { source, ns }).collect()
}
