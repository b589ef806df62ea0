//! Throttling by control groups: the probe is ready, and its group has used up its CPU time.
//! The thread that runs meanwhile, if any, is not the cause.

use super::classify::Attribution;
use super::event::{Kind, Task, Vector, Window};
use super::naming;
use super::stages::{ProbeHistory, ProbeState};
use punctual_record::explanation::{Cause, GroupLimit, GroupThrottling, RowNote};

/// From the end of a real-time group's throttling to the switch to one of its threads.
const RT_SWITCH_MOST_NS: u64 = 1_000_000;
/// From a request to switch to the switch.
const REQUEST_MOST_NS: u64 = 100_000;
/// No idle state takes longer to leave: a CPU that stays idle longer although a thread is ready
/// is not allowed to run that thread.
const IDLE_EXIT_MOST_NS: u64 = 1_000_000;
/// Functions that replenish the quota of a group of ordinary threads, on this CPU or for another.
const QUOTA_ENDS: [&str; 3] = [
    "sched_cfs_period_timer",
    "sched_cfs_slack_timer",
    "__cfsb_csd_unthrottle",
];
const RT_ENDS: &str = "sched_rt_period_timer";

/// The functions that end a group's throttling; it does not matter on which CPU they run.
#[must_use]
pub fn ends_throttling(function: &str) -> bool {
    QUOTA_ENDS.contains(&function) || function == RT_ENDS
}

/// What is known of the limits of the probe's groups.
#[derive(Debug, Default)]
pub(super) struct Groups<'w> {
    /// The nearest group that bounds real-time threads.
    real_time: Option<&'w GroupLimit>,
    /// The group of ordinary threads that was throttled most in this time.
    quota: Option<(&'w GroupLimit, GroupThrottling)>,
    /// A group with a quota whose account could not be read.
    unread: Option<&'w GroupLimit>,
    /// When a quota was replenished; when a request to switch came that may be a result of that.
    renewed: Vec<u64>,
    requests: Vec<u64>,
    /// When the runtime of real-time groups was replenished.
    rt_renewed: Vec<u64>,
    /// When a thread of higher or equal priority came to the probe's CPU, and when it left.
    above: Vec<(u64, u64)>,
    /// When the probe's CPU switched from one thread to another.
    switches: Vec<u64>,
}

impl<'w> Groups<'w> {
    pub(super) fn from_window(window: &'w Window, cpu: u32) -> Self {
        if window.limits.is_empty() {
            return Self::default();
        }
        let quotas = || window.limits.iter().filter(|limit| !limit.is_real_time());
        let moved = quotas().filter_map(|limit| {
            let throttled = limit.throttled?;
            (throttled.periods > 0 || throttled.ns > 0).then_some((limit, throttled))
        });
        let mut groups = Self {
            real_time: window.limits.iter().find(|limit| limit.is_real_time()),
            quota: moved.max_by_key(|(_, throttled)| throttled.ns),
            unread: quotas().find(|limit| limit.throttled.is_none()),
            ..Self::default()
        };
        let mut switches: Vec<(u64, &Task)> = Vec::new();
        for event in &window.events {
            let here = event.cpu == cpu;
            match &event.kind {
                Kind::TimerExpire { function, .. } | Kind::CallEntry { function, .. } => {
                    let function = naming::function(window, *function);
                    if QUOTA_ENDS.contains(&function.as_str()) {
                        groups.renewed.push(event.at_ns);
                    } else if function == RT_ENDS {
                        groups.rt_renewed.push(event.at_ns);
                    }
                }
                Kind::VectorEntry {
                    vector: Vector::Reschedule,
                    ..
                } if here => groups.requests.push(event.at_ns),
                Kind::Switch { to, .. } if here => switches.push((event.at_ns, to)),
                _ => {}
            }
        }
        switches.sort_by_key(|(at, _)| *at);
        groups.switches = switches.iter().map(|(at, _)| *at).collect();
        for (index, (came, to)) in switches.iter().enumerate() {
            if is_above(to, &window.probe) {
                let left = switches.get(index + 1).map_or(u64::MAX, |(at, _)| *at);
                groups.above.push((*came, left));
            }
        }
        let lists = [
            &mut groups.renewed,
            &mut groups.requests,
            &mut groups.rt_renewed,
        ];
        lists.into_iter().for_each(|list| list.sort_unstable());
        groups
    }

    /// The first replenishment of a quota after an instant.
    pub(super) fn renewed_after(&self, at: u64) -> Option<u64> {
        self.quota?;
        let next = self.renewed.partition_point(|renewed| *renewed <= at);
        self.renewed.get(next).copied()
    }

    /// An idle CPU although the probe has been ready since then, in the stretch from `at` to `to`: only
    /// throttling keeps it idle for longer than an idle state takes to leave, or until the quota is
    /// replenished.
    pub(super) fn idle(
        &self,
        probe: &Task,
        came_after: bool,
        (at, to): (u64, u64),
        (since, until): (u64, u64),
    ) -> Option<Attribution> {
        let next = self.switches.partition_point(|switch| *switch <= at);
        let until = self.switches.get(next).map_or(until, |it| until.min(*it));
        if probe.is_ordinary()
            && let Some(found) = self.until_renewed(to, (since, until))
        {
            return Some(found);
        }
        if !came_after && until.saturating_sub(since) <= IDLE_EXIT_MOST_NS {
            return None;
        }
        if !probe.is_ordinary() {
            return self.real_time.map(real_time);
        }
        self.quota.map(quota)
    }

    /// An ordinary thread runs while an ordinary probe is ready: until the instant at which the
    /// quota was replenished the probe's group was throttled; from then on they share the CPU. The
    /// stretch ends at `to`.
    pub(super) fn ordinary(&self, to: u64, span: (u64, u64)) -> Option<Attribution> {
        if !within(&self.renewed, span).is_empty() {
            return self.until_renewed(to, span);
        }
        let request = *within(&self.requests, span).last()?;
        (span.1 - request <= REQUEST_MOST_NS)
            .then(|| self.throttled_until(to, span.0, &[request]))
            .flatten()
    }

    /// The same where the replenishment itself was seen.
    fn until_renewed(&self, to: u64, span: (u64, u64)) -> Option<Attribution> {
        self.throttled_until(to, span.0, within(&self.renewed, span))
    }

    /// A stretch up to `to` is due to a quota that was replenished at one of these instants, if the group was
    /// throttled for that long. The periods go on while the thread shares the CPU, and so do those of
    /// other groups: the last instant that its account allows ended it.
    fn throttled_until(&self, to: u64, since: u64, renewed: &[u64]) -> Option<Attribution> {
        let (limit, throttled) = self.quota?;
        let fits = |renewed: &u64| throttled.ns >= (renewed - since) / 10 * 9;
        let ended = renewed.iter().copied().rfind(fits)?;
        (to <= ended).then(|| quota((limit, throttled)))
    }

    /// A thread of lower priority runs while a real-time probe is ready: the group is throttled
    /// if its runtime was replenished as the time of the lower threads ended. Other real-time
    /// threads, outside the group, may have run in between.
    pub(super) fn below(&self, to: u64) -> Option<Attribution> {
        let limit = self.real_time?;
        let renewed_before = |came: u64| {
            let after = self.rt_renewed.partition_point(|renewed| *renewed <= came);
            let renewed = after.checked_sub(1).map(|index| self.rt_renewed[index]);
            renewed.is_some_and(|renewed| came - renewed <= RT_SWITCH_MOST_NS)
        };
        let first = self.above.partition_point(|(came, _)| *came < to);
        for (came, left) in &self.above[first..] {
            if renewed_before(*came) {
                return Some(real_time(limit));
            }
            if left - came > RT_SWITCH_MOST_NS {
                return None;
            }
        }
        None
    }

    /// Whether only a higher priority lets this thread run although its own is below that of the probe, which
    /// is ready: the machine's limit of real-time threads stops both, and the probe's group has none of its own.
    pub(super) fn only_if_raised(&self, thread: &Task, probe: &Task) -> bool {
        thread.has_priority() && probe.has_priority() && self.real_time.is_none()
    }

    /// A note for throttling that is seen, but not by which limit.
    pub(super) fn note_of_doubt(&self, probe: &Task) -> Vec<RowNote> {
        self.possible(probe).into_iter().collect()
    }

    fn possible(&self, probe: &Task) -> Option<RowNote> {
        if probe.is_ordinary() {
            let limit = self.unread?;
            let group = naming::bounded(&limit.group);
            return Some(RowNote::QuotaUnread { group });
        }
        let limit = self.real_time?;
        Some(RowNote::LimitNotSeen {
            group: naming::bounded(&limit.group),
            file: naming::bounded(&limit.file),
            runtime_us: limit.runtime_us,
            period_us: limit.period_us,
        })
    }
}

/// Those of ascending instants that are after `since`, up to `until`.
fn within(list: &[u64], (since, until): (u64, u64)) -> &[u64] {
    let first = list.partition_point(|at| *at <= since);
    let end = list.partition_point(|at| *at <= until);
    list.get(first..end).unwrap_or_default()
}

fn is_above(task: &Task, probe: &Task) -> bool {
    task.tid == probe.tid || task.tid != 0 && task.priority <= probe.priority
}

fn cause(limit: &GroupLimit) -> Cause {
    Cause::GroupThrottled {
        group: naming::bounded(&limit.group),
        file: naming::bounded(&limit.file),
    }
}

fn real_time(limit: &GroupLimit) -> Attribution {
    let note = RowNote::RealTimeLimit {
        runtime_us: limit.runtime_us,
        period_us: limit.period_us,
    };
    (cause(limit), vec![note])
}

fn quota((limit, throttled): (&GroupLimit, GroupThrottling)) -> Attribution {
    let note = RowNote::Quota {
        runtime_us: limit.runtime_us,
        period_us: limit.period_us,
        throttled_ns: throttled.ns,
    };
    (cause(limit), vec![note])
}

/// From when to when the probe is ready around an instant.
pub(super) fn ready_span(history: &ProbeHistory<'_>, at: u64, since: u64, end: u64) -> (u64, u64) {
    let (doing, until) = history.state_at(at);
    match doing {
        Some(ProbeState::Ready(_)) => (since, until.min(end)),
        _ => (since, end),
    }
}
