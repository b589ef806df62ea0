//! The part of a record that the statistics take.

use punctual_stats::evidence::{HalfEvidence, RunEvidence, Skipped, ThreadEvidence};
use punctual_stats::histogram::{DecodeError, Histogram};
use punctual_stats::miss::MissRows;
use punctual_stats::peaks::Peaks;

use super::conditions::Aspect;
use super::field::Field;
use super::run::{Run, Thread, Timeline};
use super::watch::{Subject, Watch, WatchedThread};

/// The histograms and peaks of a record, decoded.
#[derive(Debug)]
pub struct Evidence {
    threads: Vec<ThreadParts>,
    halves: Option<[Half; 2]>,
}

/// One half of the run, all threads together.
#[derive(Debug)]
struct Half {
    histogram: Histogram,
    misses: u64,
}

#[derive(Debug)]
struct ThreadParts {
    histogram: Histogram,
    peaks: Peaks,
}

impl Evidence {
    /// Decodes the histograms and peaks of a run.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read by [`crate::Document::read`] has no such fault.
    pub fn decode(run: &Run) -> Result<Self, DecodeError> {
        let threads = run
            .threads
            .iter()
            .enumerate()
            .map(|(index, thread)| parts(thread, run.watched(index)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            halves: halves(run.threads.iter(), &threads)?,
            threads,
        })
    }

    /// The histograms of the threads, in their order.
    pub fn histograms(&self) -> impl Iterator<Item = &Histogram> {
        self.threads.iter().map(|thread| &thread.histogram)
    }

    /// The evidence as the statistics take it; `run` is the one that it was made of.
    #[must_use]
    pub fn view<'a>(&'a self, run: &'a Run) -> RunEvidence<'a> {
        let deadline_ns = run.deadline_ns();
        let swallowed = run
            .path
            .as_ref()
            .is_some_and(|path| path.counts.are_swallowed());
        let watch = run.watch.as_ref();
        let unseen = |index: usize| watch.map_or((0, None), |it| it.unseen_of(index));
        let threads =
            run.threads
                .iter()
                .zip(&self.threads)
                .enumerate()
                .map(|(index, (thread, parts))| ThreadEvidence {
                    interval_ns: interval_ns(run, index),
                    // Those of a watch have names: see `InvalidReason::NeverWoke`. Of a path that swallows
                    // all, every message is known to have missed.
                    may_be_empty: run.watch.is_some() || swallowed,
                    skipped: match (&run.path, &run.watch, &run.tasks) {
                        (Some(_), ..) => Skipped::Never,
                        (None, None, None) => Skipped::ByWakeUps,
                        _ => Skipped::Alone,
                    },
                    cpu: thread.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
                    histogram: &parts.histogram,
                    rounded_up: rounded_up(run),
                    late: thread.late,
                    missed: thread.missed,
                    missed_late: missed_late(thread),
                    lost: thread.lost,
                    unseen: unseen(index).0,
                    unseen_most_ns: unseen(index).1,
                    peaks: &parts.peaks,
                });
        let reading_ns = run.watch.as_ref().map_or(0, |watch| watch.reading_ns);
        let whole = self.whole(
            threads.collect(),
            &run.timeline,
            run.measured_ns,
            deadline_ns,
            miss_rows(&run.timeline, run.start_ns, reading_ns),
        );
        let merged = run.merged.iter();
        RunEvidence {
            parts: merged.flat_map(|it| &it.parts).copied().collect(),
            ..whole
        }
    }

    fn whole<'a>(
        &'a self,
        threads: Vec<ThreadEvidence<'a>>,
        timeline: &Timeline,
        duration_ns: u64,
        deadline_ns: Option<u64>,
        rows: Option<MissRows>,
    ) -> RunEvidence<'a> {
        let half = |half: &'a Half| HalfEvidence {
            histogram: &half.histogram,
            misses: half.misses,
        };
        RunEvidence {
            parts: Vec::new(),
            threads,
            duration_ns,
            deadline_ns,
            seconds: timeline.seconds,
            seconds_with_miss: timeline.seconds_with_miss,
            rows,
            halves: self
                .halves
                .as_ref()
                .map(|[first, second]| [half(first), half(second)]),
        }
    }

    /// Decodes times that were measured one after the other: those of the jobs of a task, or of a
    /// hop.
    ///
    /// # Errors
    /// As [`Evidence::decode`].
    pub fn of_times(times: &Thread) -> Result<Self, DecodeError> {
        let threads = vec![parts(times, None)?];
        Ok(Self {
            halves: halves(std::iter::once(times), &threads)?,
            threads,
        })
    }

    /// The same as the statistics take them; `times` are those that this was made of.
    #[must_use]
    pub fn times<'a>(
        &'a self,
        times: &'a Thread,
        timeline: &Timeline,
        deadline_ns: Option<u64>,
        period_ns: Option<u64>,
        duration_ns: u64,
    ) -> RunEvidence<'a> {
        let thread = self.threads.iter().map(|parts| ThreadEvidence {
            interval_ns: period_ns,
            // A task without an arrival has nothing to show.
            // Of a job that never ended there is no sample, and it is a miss.
            may_be_empty: true,
            skipped: Skipped::Undone,
            cpu: times.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            histogram: &parts.histogram,
            rounded_up: None,
            late: times.late,
            missed: times.missed,
            missed_late: missed_late(times),
            lost: times.lost,
            unseen: 0,
            unseen_most_ns: None,
            peaks: &parts.peaks,
        });
        let rows = miss_rows(timeline, None, 0);
        self.whole(thread.collect(), timeline, duration_ns, deadline_ns, rows)
    }
}

/// The misses by rows; a miss may have been so much before or after its row.
fn miss_rows(timeline: &Timeline, start_ns: Option<u64>, slack_ns: u64) -> Option<MissRows> {
    (!timeline.rows.is_empty()).then(|| MissRows {
        width_ns: timeline.row_ns,
        misses: timeline.rows.iter().map(|row| row.misses).collect(),
        start_ns,
        slack_ns,
    })
}

/// A watch of the system counts in the kernel, and takes each for the longest of its bucket.
fn rounded_up(run: &Run) -> Option<u64> {
    let watch = run.watch.as_ref()?;
    matches!(watch.subject, Subject::System).then_some(Watch::SYSTEM_RESOLUTION)
}

/// The interval at which wake-ups of a thread are due, where they have one.
pub(super) fn interval_ns(run: &Run, index: usize) -> Option<u64> {
    match &run.watch {
        Some(watch) => watch.threads.get(index).and_then(|thread| thread.period_ns),
        None if run.tasks.is_some() => run.tasks.as_ref()?.set.period_ns(index),
        None if run.gaps.is_some() || !run.knows(Field::Interval) => None,
        None if has_several_intervals(run) => None,
        None => Some(run.request.interval.nominal_ns()),
    }
}

/// Whether runs of other intervals were merged by force: by which of them a period was skipped nobody knows.
fn has_several_intervals(run: &Run) -> bool {
    let merged = run.merged.as_ref();
    merged.is_some_and(|it| {
        let mut differences = it.differences.iter();
        differences.any(|it| it.aspect == Aspect::Interval)
    })
}

/// Skipped periods of a thread that miss the deadline.
pub(super) fn missed_late(thread: &Thread) -> u64 {
    thread.missed_late.unwrap_or(thread.missed)
}

/// Both halves, where every thread kept its first.
fn halves<'a>(
    of: impl Iterator<Item = &'a Thread>,
    threads: &[ThreadParts],
) -> Result<Option<[Half; 2]>, DecodeError> {
    let mut halves = [(); 2].map(|()| Half {
        histogram: Histogram::new(),
        misses: 0,
    });
    let [first, second] = &mut halves;
    for (thread, parts) in of.zip(threads) {
        let (Some(record), Some(misses)) = (&thread.first_half, thread.first_half_misses) else {
            return Ok(None);
        };
        let half = Histogram::try_from(record)?;
        second.histogram.merge(&parts.histogram.without(&half));
        first.histogram.merge(&half);
        first.misses = first.misses.saturating_add(misses);
        let all = thread.late.saturating_add(missed_late(thread));
        second.misses = second.misses.saturating_add(all.saturating_sub(misses));
    }
    // A run that was ended in its first half has no second.
    let both = halves.iter().all(|half| !half.histogram.is_empty());
    Ok(both.then_some(halves))
}

fn parts(thread: &Thread, watched: Option<&WatchedThread>) -> Result<ThreadParts, DecodeError> {
    let skips = watched.map(|watched| watched.skips.clone());
    Ok(ThreadParts {
        histogram: Histogram::try_from(&thread.latency)?,
        peaks: Peaks::restored(thread.peaks_above_ns, &thread.peaks)
            .with_skips(skips.unwrap_or_default()),
    })
}
