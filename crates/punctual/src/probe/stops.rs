//! Stops of this process (a stop signal, a freezer, a debugger): which samples lie in them.
//!
//! A thread that is stopped knows nothing of it, and a machine that stands still looks the same
//! to its clock. So a stop is taken for one on evidence alone: somebody else says that there was
//! a stop within a window of time. Its bounds come from the samples: during a stop no thread of
//! the process makes progress.

use super::cycle::Sample;
use punctual_record::{Stop, StopCause};

/// After a stop the threads take up to this long to get going again: that is no latency of the
/// machine. What is later counts from the end of the stop.
pub const RESUME_NS: u64 = 10_000_000;

/// How often the watch for stops looks: each of its looks is progress, too.
pub const LOOK_NS: u64 = 25_000_000;

/// The process was stopped at some time within this window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopWindow {
    /// Not before this instant.
    pub from_ns: u64,
    /// Over by this instant.
    pub to_ns: u64,
    /// What made it.
    pub cause: StopCause,
}

/// What knows of stops.
pub trait StopEvidence: Send {
    /// Stops that began before this instant have been told, or will be by the next call of
    /// [`StopEvidence::take`].
    fn settled_ns(&self) -> u64;
    /// The stops since the last call.
    fn take(&mut self) -> Vec<StopWindow>;
    /// Whether a single thread is seen to be stopped right now.
    fn is_stopped(&mut self, tid: i32) -> bool;
}

/// What is known of a lane's samples while a stop is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// Samples that are not counted yet, in their order.
    pub samples: &'a [Sample],
    /// The thread polls: its samples are the only times in which it made no progress.
    pub polls: bool,
}

/// Where all threads stood still within a window: the longest stretch in which none made
/// progress. `usual_ns` is how long that is anyhow.
#[must_use]
pub fn standstill(window: &StopWindow, lanes: &[Waiting<'_>], usual_ns: u64) -> Option<(u64, u64)> {
    let within = |at_ns: &u64| (window.from_ns..=window.to_ns).contains(at_ns);
    let mut progress: Vec<u64> = vec![window.from_ns, window.to_ns];
    for lane in lanes {
        let woke = lane.samples.iter().map(Sample::woke_ns);
        progress.extend(woke.filter(within));
        if lane.polls {
            let ran = lane.samples.iter().map(|sample| sample.asked_ns);
            progress.extend(ran.filter(within));
        }
    }
    progress.sort_unstable();
    // A thread that polls made progress where it has no sample, or rested.
    let still = |&(from_ns, to_ns): &(u64, u64)| {
        let covers = |sample: &Sample| sample.asked_ns <= from_ns && sample.woke_ns() >= to_ns;
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
        .filter(|(from_ns, to_ns)| to_ns - from_ns > usual_ns)
}

/// What was taken out of a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Excluded {
    /// Wake-ups and periods.
    pub cycles: u64,
    /// Time in samples.
    pub ns: u64,
}

/// Takes out of a lane's samples what lies within the stop from `from_ns` to `to_ns`.
/// `interval_ns` is 0 for a thread that polls; samples before `start_ns` are left alone.
pub fn exclude(
    samples: &mut Vec<Sample>,
    (from_ns, to_ns): (u64, u64),
    interval_ns: u64,
    start_ns: u64,
) -> Excluded {
    let mut excluded = Excluded::default();
    // They are in order: most hold nothing that a stop of long ago could have delayed.
    if samples.first().is_none_or(|first| first.asked_ns >= to_ns) {
        return excluded;
    }
    let mut rests: Vec<(usize, Sample)> = Vec::new();
    let mut index = 0;
    samples.retain(|sample| {
        index += 1;
        let (asked_ns, woke_ns) = (sample.asked_ns, sample.woke_ns());
        if asked_ns < start_ns || asked_ns >= to_ns || woke_ns <= from_ns || woke_ns < asked_ns {
            return true;
        }
        let cycles = sample.missed.saturating_add(1);
        let rest = if woke_ns > to_ns.saturating_add(RESUME_NS) {
            remainder(sample, to_ns, interval_ns)
        } else {
            None
        };
        let left = rest.map_or(0, |rest| match interval_ns {
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
    // At most one wake-up of a thread outlasts a stop, and nothing is due before it.
    for (_, rest) in rests {
        let at = samples.partition_point(|sample| sample.asked_ns < rest.asked_ns);
        samples.insert(at, rest);
    }
    excluded
}

/// What is left of a sample after the end of a stop: the first instant that was due then.
fn remainder(sample: &Sample, to_ns: u64, interval_ns: u64) -> Option<Sample> {
    let woke_ns = sample.woke_ns();
    let (asked_ns, passed) = match interval_ns {
        0 => (to_ns, 0),
        _ => {
            let passed = (to_ns - sample.asked_ns).div_ceil(interval_ns);
            let ahead_ns = passed.saturating_mul(interval_ns);
            (sample.asked_ns.saturating_add(ahead_ns), passed)
        }
    };
    let late_ns = woke_ns.checked_sub(asked_ns)?;
    // Each instant in between was a skipped period.
    if interval_ns > 0 && passed > sample.missed {
        return None;
    }
    Some(Sample {
        asked_ns,
        late_ns: i64::try_from(late_ns).unwrap_or(i64::MAX),
        missed: sample.missed.saturating_sub(passed),
    })
}

/// The stop of one thread alone, which was seen at an instant.
#[must_use]
pub fn of_thread(samples: &[Sample], seen_ns: u64) -> Option<(u64, u64)> {
    let sample = samples
        .iter()
        .find(|sample| sample.asked_ns <= seen_ns && seen_ns <= sample.woke_ns())?;
    Some((sample.asked_ns, sample.woke_ns()))
}

/// The stop as the record keeps it.
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
            asked_ns: asked_ms * MS,
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

    const WINDOW: StopWindow = StopWindow {
        from_ns: 5 * MS,
        to_ns: 330 * MS,
        cause: StopCause::Signal,
    };

    #[test]
    fn a_stop_lies_where_no_thread_made_progress() {
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
    fn where_one_thread_went_on_nothing_was_stopped() {
        // The first waited for 40 ms: a machine's latency, whoever says that there was a stop.
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
    fn what_lies_in_a_stop_is_neither_late_nor_good_and_no_cycle_is_lost() {
        let mut samples = vec![
            sample(11, 30, 0),
            sample(12, 298_100, 298),
            sample(311, 20, 0),
        ];
        let excluded = exclude(&mut samples, (11 * MS + 30_000, 310 * MS + 100_000), MS, 0);
        assert_eq!(samples, [sample(11, 30, 0), sample(311, 20, 0)]);
        assert_eq!(excluded.cycles, 299);
    }

    #[test]
    fn who_is_late_after_the_stop_is_late() {
        // The stop is over at 310.1 ms; the thread runs 50 ms later.
        let mut samples = vec![sample(12, 348_100, 348), sample(361, 20, 0)];
        let excluded = exclude(&mut samples, (11 * MS, 310 * MS + 100_000), MS, 0);
        assert_eq!(samples, [sample(311, 49_100, 49), sample(361, 20, 0)]);
        assert_eq!(excluded.cycles, 299);
        // Those that poll: the time after it is a gap of its own.
        let mut gaps = vec![sample(12, 348_100, 0)];
        let excluded = exclude(&mut gaps, (12 * MS, 310 * MS + 100_000), 0, 0);
        assert_eq!(gaps[0].woke_ns(), 360 * MS + 100_000);
        assert_eq!(
            (gaps[0].latency_ns(), excluded.ns),
            (50 * MS, 298 * MS + 100_000)
        );
    }

    #[test]
    fn before_the_start_nothing_is_taken_out() {
        let mut samples = vec![sample(12, 298_100, 298)];
        let excluded = exclude(&mut samples, (11 * MS, 310 * MS), MS, 13 * MS);
        assert_eq!((samples.len(), excluded), (1, Excluded::default()));
    }

    #[test]
    fn a_thread_alone_is_excused_for_the_wake_up_in_which_it_was_seen() {
        let samples = [sample(10, 20, 0), sample(11, 400_000, 400)];
        assert_eq!(of_thread(&samples, 100 * MS), Some((11 * MS, 411 * MS)));
        assert_eq!(of_thread(&samples, 10_500_000), None);
    }
}
