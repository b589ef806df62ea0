//! Stops of this process (a stop signal, a freezer, a debugger): which samples are within them.
//!
//! A stopped thread does not notice the stop, and to its clock a machine that stands still looks
//! the same. So only evidence from outside the thread counts as a stop: it reports that there was a
//! stop within a window of time. The stop's bounds come from the samples: during a stop no thread
//! of the process makes progress.

use super::cycle::Sample;
use punctual_record::{Stop, StopCause};

/// After a stop the threads take up to this long to run again: that is not a latency of the
/// machine. If they take longer, the time counts from the end of the stop.
pub const RESUME_NS: u64 = 10_000_000;

/// How often the watch for stops checks: each of its checks is progress, too.
pub const LOOK_NS: u64 = 25_000_000;

/// The process was stopped at some time within this window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopWindow {
    /// Its earliest start.
    pub from_ns: u64,
    /// Its latest end.
    pub to_ns: u64,
    /// Its cause.
    pub cause: StopCause,
}

/// Evidence of stops.
pub trait StopEvidence: Send {
    /// Stops that began before this instant have been reported, or the next call of
    /// [`StopEvidence::take`] reports them.
    fn settled_ns(&self) -> u64;
    /// The stops since the last call.
    fn take(&mut self) -> Vec<StopWindow>;
    /// Whether a single thread is stopped right now.
    fn is_stopped(&mut self, tid: i32) -> bool;
}

/// A lane's samples, for the search for a stop.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// Samples that are not counted yet, in order.
    pub samples: &'a [Sample],
    /// The thread polls: it made progress except during its samples.
    pub polls: bool,
}

/// Where a stop within a window was: all of a short window, else the longest stretch in which no thread made
/// progress. `usual_ns` is the length of such a stretch without a stop.
///
/// A stop that is as short as a stall can't be told from one. If the longest stretch of a short window were taken
/// for it, stalls would be taken out and no cycle that was on time: what is left would look better than it was.
#[must_use]
pub fn standstill(window: &StopWindow, lanes: &[Waiting<'_>], usual_ns: u64) -> Option<(u64, u64)> {
    let longest = longest_standstill(window, lanes);
    let overlaps =
        |sample: &Sample| sample.requested_ns < window.to_ns && sample.woke_ns() > window.from_ns;
    let seen = lanes.iter().flat_map(|lane| lane.samples);
    let mut seen = seen.filter(|sample| overlaps(sample));
    let length_ns = longest.map_or(0, |(from_ns, to_ns)| to_ns - from_ns);
    // While one of them was late, another was not: no stop of all of them did that.
    let one_alone = seen.any(|sample| sample.latency_ns() > length_ns.saturating_add(usual_ns));
    let is_short = window.to_ns.saturating_sub(window.from_ns) <= 2 * LOOK_NS;
    if is_short && !one_alone {
        // Where threads poll, it had an effect if there is a gap.
        let mut polls = lanes.iter().filter(|lane| lane.polls).peekable();
        let any = polls.peek().is_none() || polls.any(|lane| lane.samples.iter().any(overlaps));
        return any.then_some((window.from_ns, window.to_ns));
    }
    longest.filter(|_| length_ns > usual_ns)
}

/// The longest stretch of a window in which no thread made progress.
fn longest_standstill(window: &StopWindow, lanes: &[Waiting<'_>]) -> Option<(u64, u64)> {
    let within = |at_ns: &u64| (window.from_ns..=window.to_ns).contains(at_ns);
    let mut progress: Vec<u64> = vec![window.from_ns, window.to_ns];
    for lane in lanes {
        let woke = lane.samples.iter().map(Sample::woke_ns);
        progress.extend(woke.filter(within));
        if lane.polls {
            let ran = lane.samples.iter().map(|sample| sample.requested_ns);
            progress.extend(ran.filter(within));
        }
    }
    progress.sort_unstable();
    // A polling thread made progress wherever it has no sample, or it rested.
    let still = |&(from_ns, to_ns): &(u64, u64)| {
        let covers = |sample: &Sample| sample.requested_ns <= from_ns && sample.woke_ns() >= to_ns;
        let mut polls = lanes.iter().filter(|lane| lane.polls).peekable();
        polls.peek().is_none()
            || to_ns - from_ns > 2 * LOOK_NS
            || polls.any(|lane| lane.samples.iter().any(covers))
    };
    progress
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(still)
        .max_by_key(|(from_ns, to_ns)| to_ns - from_ns)
}

/// What was removed from a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Excluded {
    /// Wake-ups and periods.
    pub cycles: u64,
    /// Time in samples.
    pub ns: u64,
}

impl Excluded {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cycles: self.cycles.saturating_add(other.cycles),
            ns: self.ns.saturating_add(other.ns),
        }
    }
}

/// What is known of a lane's delays.
#[derive(Debug, Clone, Copy)]
pub struct Lateness {
    /// 0 for a thread that polls.
    pub interval_ns: u64,
    /// A wake-up that a stop cut short had been late already if it was due this long before. Of a shorter
    /// wait nobody knows how long it would have been.
    pub certain_ns: u64,
    /// By how much less than it took a sample may say that it was late: nothing is known of the parts of such a one.
    pub more_ns: u64,
    /// What is late by more is a miss.
    pub deadline_ns: u64,
}

/// Takes the stop from `from_ns` to `to_ns` out of a lane's samples, once: what was late before stays late,
/// and what the stop added is gone. Samples before `start_ns` are left alone.
pub fn exclude(
    samples: &mut Vec<Sample>,
    (from_ns, to_ns): (u64, u64),
    lateness: Lateness,
    start_ns: u64,
) -> Excluded {
    let mut excluded = Excluded::default();
    // They are in order: usually none of them can have been delayed by a past stop.
    if samples
        .first()
        .is_none_or(|first| first.requested_ns >= to_ns)
    {
        return excluded;
    }
    let mut rests: Vec<(usize, Sample)> = Vec::new();
    let mut index = 0;
    samples.retain(|sample| {
        index += 1;
        let requested_ns = sample.requested_ns;
        let woke_ns = sample.woke_ns().saturating_add(lateness.more_ns);
        if requested_ns < start_ns
            || requested_ns >= to_ns
            || woke_ns <= from_ns
            || woke_ns < requested_ns
        {
            return true;
        }
        let cycles = sample.missed.saturating_add(1);
        let rest = if lateness.more_ns > 0 {
            late_anyway(sample, to_ns - from_ns, lateness.deadline_ns)
        } else if requested_ns < from_ns {
            without(sample, (from_ns, to_ns), lateness)
        } else if is_late_after(sample, to_ns) {
            remainder(sample, to_ns, lateness.interval_ns)
        } else {
            None
        };
        let left = rest.map_or(0, |rest| match lateness.interval_ns {
            0 => 0,
            _ => rest.missed.saturating_add(1),
        });
        let left_ns = rest.map_or(0, |rest| rest.latency_ns());
        excluded.cycles = excluded.cycles.saturating_add(cycles.saturating_sub(left));
        let ns = sample.latency_ns().saturating_sub(left_ns);
        excluded.ns = excluded.ns.saturating_add(ns);
        if let Some(rest) = rest {
            rests.push((index, rest));
        }
        false
    });
    // At most one wake-up of a thread extends beyond a stop, and nothing is due before it.
    for (_, rest) in rests {
        let at = samples.partition_point(|sample| sample.requested_ns < rest.requested_ns);
        samples.insert(at, rest);
    }
    excluded
}

/// What is late even if a whole stop lay in it.
fn late_anyway(sample: &Sample, stop_ns: u64, deadline_ns: u64) -> Option<Sample> {
    let late_ns = sample.latency_ns().saturating_sub(stop_ns);
    (late_ns > deadline_ns).then(|| Sample {
        late_ns: i64::try_from(late_ns).unwrap_or(i64::MAX),
        ..*sample
    })
}

fn is_late_after(sample: &Sample, to_ns: u64) -> bool {
    sample.woke_ns() > to_ns.saturating_add(RESUME_NS)
}

/// A wake-up that was due before a stop, as if there had been none: it ends where the stop began, or as much
/// later as the thread ran after it. Periods that passed in the stop are no skipped ones.
fn without(sample: &Sample, (from_ns, to_ns): (u64, u64), lateness: Lateness) -> Option<Sample> {
    let before_ns = from_ns - sample.requested_ns;
    let (after_ns, shift_ns) = match is_late_after(sample, to_ns) {
        // It still ends when the thread woke.
        true => (sample.woke_ns() - to_ns, to_ns - from_ns),
        false => (0, 0),
    };
    if after_ns == 0 && before_ns < lateness.certain_ns {
        return None;
    }
    let late_ns = before_ns.saturating_add(after_ns);
    let passed = late_ns.checked_div(lateness.interval_ns).unwrap_or(0);
    Some(Sample {
        requested_ns: sample.requested_ns.saturating_add(shift_ns),
        late_ns: i64::try_from(late_ns).unwrap_or(i64::MAX),
        missed: sample.missed.min(passed),
    })
}

/// The part of a sample after the end of a stop: it begins at the first instant that was due then.
fn remainder(sample: &Sample, to_ns: u64, interval_ns: u64) -> Option<Sample> {
    let woke_ns = sample.woke_ns();
    let (requested_ns, passed) = match interval_ns {
        0 => (to_ns, 0),
        _ => {
            let passed = (to_ns - sample.requested_ns).div_ceil(interval_ns);
            let ahead_ns = passed.saturating_mul(interval_ns);
            (sample.requested_ns.saturating_add(ahead_ns), passed)
        }
    };
    let late_ns = woke_ns.checked_sub(requested_ns)?;
    // Each instant in between was a skipped period.
    if interval_ns > 0 && passed > sample.missed {
        return None;
    }
    Some(Sample {
        requested_ns,
        late_ns: i64::try_from(late_ns).unwrap_or(i64::MAX),
        missed: sample.missed.saturating_sub(passed),
    })
}

/// What is known of a stop of a single thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenStopped {
    /// It was not stopped then.
    pub from_ns: u64,
    /// It was stopped then.
    pub at_ns: u64,
    /// It was not stopped any more then; the end of time as long as it is.
    pub to_ns: u64,
}

/// The longest stop of a single thread that fits what was seen, within the wait that it lies in.
#[must_use]
pub fn of_thread(samples: &[Sample], seen: &SeenStopped) -> Option<(u64, u64)> {
    let sample = samples
        .iter()
        .find(|sample| sample.requested_ns <= seen.at_ns && seen.at_ns <= sample.woke_ns())?;
    Some((
        sample.requested_ns.max(seen.from_ns),
        sample.woke_ns().min(seen.to_ns),
    ))
}

/// The stop in the form of the record.
#[must_use]
pub fn recorded(
    (from_ns, to_ns): (u64, u64),
    cause: StopCause,
    cpu: Option<usize>,
    start_ns: u64,
) -> Stop {
    let from_ns = from_ns.max(start_ns);
    Stop {
        at_ns: from_ns - start_ns,
        length_ns: to_ns.saturating_sub(from_ns),
        cause,
        cpu,
        tid: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sample(asked_ms: u64, late_us: u64, missed: u64) -> Sample {
        Sample {
            requested_ns: asked_ms * MS,
            late_ns: late_us as i64 * 1_000,
            missed,
        }
    }

    fn lane(samples: &[Sample]) -> Waiting<'_> {
        Waiting {
            samples,
            polls: false,
        }
    }

    const EACH_MS: Lateness = Lateness {
        interval_ns: MS,
        certain_ns: MS,
        more_ns: 0,
        deadline_ns: MS,
    };
    const POLLS: Lateness = Lateness {
        interval_ns: 0,
        certain_ns: 1,
        more_ns: 0,
        deadline_ns: MS,
    };

    const WINDOW: StopWindow = StopWindow {
        from_ns: 5 * MS,
        to_ns: 330 * MS,
        cause: StopCause::Signal,
    };

    #[test]
    fn a_stop_is_located_where_no_thread_made_progress() {
        // Stopped from 12 to 310 ms; the second thread woke 0.4 ms after the first.
        let first = [
            sample(10, 20, 0),
            sample(11, 20, 0),
            sample(12, 298_100, 298),
            sample(311, 20, 0),
        ];
        let second = [
            sample(10, 700, 0),
            sample(11, 30, 0),
            sample(12, 298_500, 298),
        ];
        let lanes = [lane(&first), lane(&second)];
        let (from_ns, to_ns) = standstill(&WINDOW, &lanes, MS).unwrap();
        assert_eq!((from_ns, to_ns), (11 * MS + 30_000, 310 * MS + 100_000));
    }

    #[test]
    fn of_a_short_window_all_is_left_out_and_not_the_latest_wake_up_alone() {
        // 6 ms late from 12 ms on; where in the window the stop was nobody knows.
        let samples: Vec<Sample> = (0..12)
            .chain(18..40)
            .map(|ms| match ms {
                11 => sample(ms, 6_100, 6),
                _ => sample(ms, 20, 0),
            })
            .collect();
        let short = StopWindow {
            to_ns: 30 * MS,
            ..WINDOW
        };
        let stop = standstill(&short, &[lane(&samples)], MS).unwrap();
        assert_eq!(stop, (5 * MS, 30 * MS));
        let mut left = samples;
        let excluded = exclude(&mut left, stop, EACH_MS, 0);
        // Those of 5 to 29 ms.
        assert_eq!((excluded.cycles, left.len()), (25, 15));
        assert!(left.iter().all(|sample| sample.missed == 0));
        // Another thread was on time all along: it was no stop that made the first one late.
        let punctual: Vec<Sample> = (0..40).map(|ms| sample(ms, 20, 0)).collect();
        let late = [sample(10, 20, 0), sample(11, 6_100, 6), sample(18, 20, 0)];
        let lanes = [lane(&late), lane(&punctual)];
        assert_eq!(standstill(&short, &lanes, 2 * MS), None);
    }

    #[test]
    fn of_a_job_that_is_allowed_more_nothing_is_left() {
        // It took 598 ms, of which 400 ms are allowed: it says that it was 198 ms late, and was stopped after that.
        let late = [sample(10, 198_000, 0), sample(700, 20, 0)];
        let stop = (300 * MS, 500 * MS);
        let of = |more_ns, deadline_ns| {
            let mut left = late.to_vec();
            let lateness = Lateness {
                more_ns,
                deadline_ns,
                ..EACH_MS
            };
            let excluded = exclude(&mut left, stop, lateness, 0);
            (excluded.cycles, left.len())
        };
        assert_eq!(of(400 * MS, 10 * MS), (1, 1));
        assert_eq!(of(0, 10 * MS), (0, 2));
        // It would have been too late without the stop too: by 198 - 190 ms.
        let stop = (300 * MS, 490 * MS);
        let lateness = Lateness {
            more_ns: 400 * MS,
            deadline_ns: 7 * MS,
            ..EACH_MS
        };
        let mut left = late.to_vec();
        exclude(&mut left, stop, lateness, 0);
        assert_eq!(left[0].latency_ns(), 8 * MS);
    }

    #[test]
    fn a_window_in_which_one_thread_made_progress_has_no_stop() {
        // The first waited for 40 ms: a latency of the machine, even if a stop was reported.
        let first = [sample(10, 40_000, 40)];
        let second: Vec<Sample> = (5..=330).map(|ms| sample(ms, 20, 0)).collect();
        assert_eq!(
            standstill(&WINDOW, &[lane(&first), lane(&second)], 2 * MS),
            None
        );
        let polls = Waiting {
            samples: &[],
            polls: true,
        };
        let short = StopWindow {
            to_ns: 30 * MS,
            ..WINDOW
        };
        assert_eq!(standstill(&short, &[polls], 0), None);
    }

    #[test]
    fn wake_ups_within_a_stop_are_neither_late_nor_punctual_and_none_is_lost() {
        let mut samples = vec![
            sample(11, 30, 0),
            sample(12, 298_100, 298),
            sample(311, 20, 0),
        ];
        let excluded = exclude(
            &mut samples,
            (11 * MS + 30_000, 310 * MS + 100_000),
            EACH_MS,
            0,
        );
        assert_eq!(samples, [sample(11, 30, 0), sample(311, 20, 0)]);
        assert_eq!(excluded.cycles, 299);
    }

    #[test]
    fn a_wake_up_that_is_late_after_the_stop_is_late() {
        // The stop is over at 310.1 ms; the thread runs 50 ms later.
        let mut samples = vec![sample(12, 348_100, 348), sample(361, 20, 0)];
        let excluded = exclude(&mut samples, (11 * MS, 310 * MS + 100_000), EACH_MS, 0);
        assert_eq!(samples, [sample(311, 49_100, 49), sample(361, 20, 0)]);
        assert_eq!(excluded.cycles, 299);
        // Polling threads: the time after it is a separate gap.
        let mut gaps = vec![sample(12, 348_100, 0)];
        let excluded = exclude(&mut gaps, (12 * MS, 310 * MS + 100_000), POLLS, 0);
        assert_eq!(gaps[0].woke_ns(), 360 * MS + 100_000);
        assert_eq!(
            (gaps[0].latency_ns(), excluded.ns),
            (50 * MS, 298 * MS + 100_000)
        );
    }

    #[test]
    fn what_was_late_before_the_stop_stays_late() {
        // Due at 12 ms; stopped from 312 to 412 ms; awake at 412.1 ms.
        let stop = (312 * MS, 412 * MS);
        let mut samples = vec![sample(12, 400_100, 400), sample(413, 20, 0)];
        let excluded = exclude(&mut samples, stop, EACH_MS, 0);
        assert_eq!(samples, [sample(12, 300_000, 300), sample(413, 20, 0)]);
        assert_eq!((excluded.cycles, excluded.ns), (100, 100 * MS + 100_000));
        // It stalls for 50 ms more: both parts are one delay, which ends when it woke.
        let mut samples = vec![sample(12, 450_000, 450), sample(463, 20, 0)];
        let excluded = exclude(&mut samples, stop, EACH_MS, 0);
        assert_eq!(samples, [sample(112, 350_000, 350), sample(463, 20, 0)]);
        assert_eq!((excluded.cycles, excluded.ns), (100, 100 * MS));
        // A gap of a thread that polls.
        let mut gaps = vec![sample(12, 400_100, 0)];
        exclude(&mut gaps, stop, POLLS, 0);
        assert_eq!(gaps, [sample(12, 300_000, 0)]);
        // How long this one would have taken nobody knows.
        let mut samples = vec![Sample {
            requested_ns: stop.0 - MS / 2,
            late_ns: (100 * MS) as i64,
            missed: 100,
        }];
        let excluded = exclude(&mut samples, stop, EACH_MS, 0);
        assert_eq!((samples.len(), excluded.cycles), (0, 101));
    }

    #[test]
    fn of_several_stops_in_one_wait_each_is_taken_out() {
        let mut samples = vec![sample(10, 70_000, 70)];
        for stop in [(20 * MS, 30 * MS), (50 * MS, 60 * MS)] {
            assert_eq!(exclude(&mut samples, stop, EACH_MS, 0).cycles, 10);
        }
        assert_eq!(samples, [sample(30, 50_000, 50)]);
    }

    #[test]
    fn nothing_is_removed_before_the_start() {
        let mut samples = vec![sample(12, 298_100, 298)];
        let excluded = exclude(&mut samples, (11 * MS, 310 * MS), EACH_MS, 13 * MS);
        assert_eq!((samples.len(), excluded), (1, Excluded::default()));
    }

    #[test]
    fn a_single_stopped_thread_is_excused_for_that_wake_up_only() {
        let samples = [sample(10, 20, 0), sample(11, 400_000, 400)];
        let seen = |from_ms, at_ns, to_ms| SeenStopped {
            from_ns: from_ms * MS,
            at_ns,
            to_ns: to_ms * MS,
        };
        let of_thread = |seen| of_thread(&samples, &seen);
        let all = Some((11 * MS, 411 * MS));
        assert_eq!(of_thread(seen(2, 100 * MS, 900)), all);
        assert_eq!(of_thread(seen(2, 10_500_000, 900)), None);
        // It ran a while before and after.
        let part = Some((90 * MS, 300 * MS));
        assert_eq!(of_thread(seen(90, 100 * MS, 300)), part);
    }
}
