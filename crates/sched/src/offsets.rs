//! Tasks that arrive strictly by their periods, at known offsets: not all of them arrive together.
//!
//! The busy window in which a job ends begins at some instant `t`, at which a job of its rank or above is
//! released and no earlier one is pending. In it count the jobs that may be released at `t` or later:
//! of a task with offset `O`, period `T` and jitter `J` those with `O + k T + J >= t`, each from
//! `max(O + k T, t)` on (Tindell 1994, "Adding time-offsets to schedulability analysis"; Palencia,
//! González Harbour 1998).
//!
//! Of all `t` only those matter at which a job of these tasks is released as late as its jitter allows
//! (`O + k T + J = t`): up to the next such instant the same jobs count, and what has to be done in the
//! window does not change; what is left of the CPU by others, of which only the most in a window of some
//! length is known (sporadic tasks, ticks), is the less, the shorter the window. So the job ends the
//! later, the later the window begins. Such instants repeat with the least common multiple of the
//! periods: all of them are looked at. Without jitter, locks and others, each is what happens if the
//! window begins there, and the bound is exact.
//!
//! Where the common multiple is long, tasks are put into groups that have a short one. Of a group
//! without the task itself the most in a window of any length counts, whichever of its instants the
//! window begins at; of a task alone in its group that is what it asks for when all arrive together.
//! The result is never above that of tasks that arrive together, which stands where this takes too long.
//!
//! A task above that suspends itself within its jobs executes at other distances than it arrives at: it
//! stays among the others. So does one that only every `n`-th job of another one releases: which of them
//! isn't known, because jobs may be missing.

use crate::bound::Bound;
use crate::model::{Arrivals, TaskSet};
use crate::response::{Above, Own, longest};
use crate::steps::{Request, Work};

/// Instants at which windows of a group begin, at most: of that with the task itself, and of others.
const OWN_INSTANTS: u64 = 10_000;
const OTHER_INSTANTS: u64 = 64;

/// Groups without the task itself, at most.
const GROUPS: usize = 8;

/// Longer common multiples of periods and longer jitters aren't handled.
const LONGEST: u64 = 1 << 58;

/// Of each task when it arrives, modulo its period; none where that isn't known.
pub(crate) fn offsets(set: &TaskSet) -> Vec<Option<u64>> {
    let of = |index: usize| {
        let period_ns = set.tasks[index].period_ns;
        let mut at = &set.tasks[index];
        // The tasks before it form no circle.
        while let Some(before) = at.after {
            at = &set.tasks[before];
            if at.period_ns != period_ns {
                return None;
            }
        }
        (at.arrivals == Arrivals::Periodic).then(|| at.offset_ns % period_ns)
    };
    (0..set.tasks.len()).map(of).collect()
}

/// Something that arrives strictly by its period.
#[derive(Debug, Clone, Copy)]
struct Strict {
    offset_ns: u64,
    period_ns: u64,
    jitter_ns: u64,
    /// Which request; none for the task itself.
    request: Option<usize>,
}

impl Strict {
    /// When its first job of those that may be released at an instant or later arrives: so long before
    /// that instant (jitter) or after it (delay); one of them is 0.
    fn seen_from(&self, instant: u64) -> (u64, u64) {
        let (period, instant) = (i128::from(self.period_ns), i128::from(instant));
        let offset = i128::from(self.offset_ns);
        let passed = instant - i128::from(self.jitter_ns) - offset;
        let first = offset - (-passed).div_euclid(period) * period;
        let apart = u64::try_from((first - instant).unsigned_abs()).unwrap_or(u64::MAX);
        if first < instant {
            (apart, 0)
        } else {
            (0, apart)
        }
    }

    /// Its latest release after an arrival at the offset.
    fn latest_ns(&self) -> u64 {
        self.offset_ns + self.jitter_ns
    }
}

/// The bound of a task whose bound with all tasks arriving together is known: a lesser one if it is at
/// most `most_ns`.
pub(crate) fn at_offsets(
    own: &Own,
    above: &[Request],
    together: Bound,
    most_ns: u64,
    work: &mut Work,
) -> Bound {
    let (groups, others) = match grouped(own, above) {
        Some(grouped) if !alike(own, above, work) => grouped,
        _ => return together,
    };
    let mut known = Above {
        requests: others.iter().map(|at| above[*at].clone()).collect(),
        groups: Vec::new(),
    };
    let (mut mine, mut rest) = (Vec::new(), Vec::new());
    for group in groups {
        if group.iter().any(|one| one.request.is_none()) {
            mine = group;
        } else {
            rest.push(group);
        }
    }
    for group in rest {
        let from = |instant: u64| {
            let of = |one: &Strict| Some(seen(&above[one.request?], one, instant));
            group.iter().filter_map(of).collect()
        };
        known.groups.push(instants(&group).map(from).collect());
    }
    let mut worst: Option<Bound> = None;
    // Without the task itself in a group, there is nothing that an instant would be counted from.
    let own_instants: Vec<u64> = match mine.is_empty() {
        true => vec![0],
        false => instants(&mine).collect(),
    };
    for instant in own_instants {
        let (mut own, mut above_it) = (own.clone(), known.clone());
        for one in &mine {
            match one.request {
                None => (own.jitter_ns, own.delay_ns) = one.seen_from(instant),
                Some(at) => above_it.requests.push(seen(&above[at], one, instant)),
            }
        }
        let Ok(found) = longest(&own, &above_it, work) else {
            return together;
        };
        let Some(found) = found else { continue };
        if found.response_ns >= together.response_ns || found.response_ns > most_ns {
            return together;
        }
        if worst
            .as_ref()
            .is_none_or(|worst| found.response_ns > worst.response_ns)
        {
            worst = Some(found);
        }
    }
    let Some(worst) = worst else { return together };
    Bound {
        from_release_ns: together.from_release_ns.min(worst.response_ns),
        jitter_ns: together.jitter_ns,
        at_offsets: true,
        ..worst
    }
}

fn seen(request: &Request, one: &Strict, instant: u64) -> Request {
    let (jitter_ns, delay_ns) = one.seen_from(instant);
    Request {
        jitter_ns,
        delay_ns,
        ..request.clone()
    }
}

/// All that arrives strictly by its period, the task itself first.
fn strict(own: &Own, above: &[Request]) -> Vec<Strict> {
    let itself = own.offset_ns.map(|offset_ns| Strict {
        offset_ns,
        period_ns: own.period_ns,
        jitter_ns: own.jitter_ns,
        request: None,
    });
    let requests = above.iter().enumerate().filter_map(|(at, request)| {
        Some(Strict {
            offset_ns: request.offset_ns?,
            period_ns: request.period_ns,
            jitter_ns: request.jitter_ns,
            request: Some(at),
        })
    });
    let all = itself.into_iter().chain(requests);
    all.filter(|one| one.period_ns <= LONGEST && one.jitter_ns <= LONGEST)
        .collect()
}

/// Whether all arrive together sometimes, each as late as it may: then nothing is gained. Also where it
/// takes too long to say.
fn alike(own: &Own, above: &[Request], work: &mut Work) -> bool {
    let all = strict(own, above).into_iter();
    let mut all: Vec<(u64, u64)> = all
        .map(|one| (one.period_ns, one.latest_ns() % one.period_ns))
        .collect();
    all.sort_unstable();
    all.dedup();
    if !work.take(all.len().saturating_mul(all.len())) {
        return true;
    }
    coincide(&all)
}

/// Whether arrivals, each by its period and an instant of it, come all at once sometimes: those that agree in pairs do
/// (the Chinese remainder theorem).
#[must_use]
pub fn coincide(arrivals: &[(u64, u64)]) -> bool {
    arrivals.iter().enumerate().all(|(at, one)| {
        arrivals[..at].iter().all(|other| {
            let apart = one.1.abs_diff(other.1);
            apart.is_multiple_of(common_divisor(one.0, other.0))
        })
    })
}

/// Groups with few instants, and the requests that are in none; nothing where no group has two.
fn grouped(own: &Own, above: &[Request]) -> Option<(Vec<Vec<Strict>>, Vec<usize>)> {
    let mut left = strict(own, above);
    // The task itself, then the shortest periods: those that ask most often.
    left.sort_by_key(|one| (one.request.is_some(), one.period_ns));
    let mut groups = Vec::new();
    while let (Some(first), true) = (left.first().copied(), groups.len() <= GROUPS) {
        let most = match first.request {
            None => OWN_INSTANTS,
            Some(_) => OTHER_INSTANTS,
        };
        let (mut group, mut multiple, mut count) = (Vec::new(), 1u64, 0u64);
        left.retain(|one| {
            let Some(with) = common_multiple(multiple, one.period_ns) else {
                return true;
            };
            let repeated = count.saturating_mul(with / multiple);
            let more = repeated.saturating_add(with / one.period_ns);
            // The first one is in its group whatever its period.
            if more > most && !group.is_empty() {
                return true;
            }
            (multiple, count) = (with, more);
            group.push(*one);
            false
        });
        groups.push(group);
    }
    groups.retain(|group| group.len() > 1);
    let inside = |at: usize| groups.iter().flatten().any(|one| one.request == Some(at));
    let others = (0..above.len()).filter(|at| !inside(*at)).collect();
    (!groups.is_empty()).then_some((groups, others))
}

/// Whether tasks with these periods are one group: each of its instants is looked at, and nothing is counted that need
/// not come together.
#[must_use]
pub fn is_one_group(periods: impl Iterator<Item = u64> + Clone) -> bool {
    let multiple = common_multiple_of(periods.clone());
    let count = |multiple: u64| {
        let each = periods.map(|period_ns| multiple / period_ns.max(1));
        each.fold(0, u64::saturating_add)
    };
    multiple.is_some_and(|multiple| count(multiple) <= OWN_INSTANTS)
}

/// The instants at which something of a group is released as late as it may be, once each.
fn instants(group: &[Strict]) -> impl Iterator<Item = u64> + use<> {
    let multiple = common_multiple_of(group.iter().map(|one| one.period_ns));
    let multiple = multiple.unwrap_or(LONGEST);
    let mut all: Vec<u64> = Vec::new();
    for one in group {
        let first = one.latest_ns() % one.period_ns;
        all.extend((0..multiple / one.period_ns).map(|number| first + number * one.period_ns));
    }
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// None where it is too long.
fn common_multiple(a: u64, b: u64) -> Option<u64> {
    let multiple = (a / common_divisor(a, b)).checked_mul(b)?;
    (multiple <= LONGEST).then_some(multiple)
}

fn common_multiple_of(mut periods: impl Iterator<Item = u64>) -> Option<u64> {
    periods.try_fold(1, common_multiple)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_may_be_released_later_counts_from_its_arrival() {
        let one = |offset_ns, jitter_ns| Strict {
            offset_ns,
            period_ns: 10,
            jitter_ns,
            request: None,
        };
        // At 3, 13, 23: from 3 itself, from 4 the next one.
        assert_eq!(one(3, 0).seen_from(3), (0, 0));
        assert_eq!(one(3, 0).seen_from(4), (0, 9));
        assert_eq!(one(3, 0).seen_from(0), (0, 3));
        // Up to 4 later: that of 3 until 7; with 14, that of -7, and of 3, until 7.
        assert_eq!(one(3, 4).seen_from(7), (4, 0));
        assert_eq!(one(3, 4).seen_from(8), (0, 5));
        assert_eq!(one(3, 14).seen_from(7), (14, 0));
        assert_eq!(one(3, 14).seen_from(8), (5, 0));
    }

    #[test]
    fn instants_repeat_with_the_common_multiple() {
        let one = |offset_ns, period_ns, jitter_ns| Strict {
            offset_ns,
            period_ns,
            jitter_ns,
            request: None,
        };
        let all: Vec<u64> = instants(&[one(1, 4, 0), one(0, 6, 9)]).collect();
        assert_eq!(all, [1, 3, 5, 9]);
    }
}
