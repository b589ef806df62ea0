//! What a record hands to the statistics.

use punctual_stats::analysis::{Analysis, Settings, analyse};
use punctual_stats::evidence::{HalfEvidence, RunEvidence, ThreadEvidence};
use punctual_stats::gaps::{WatchedTime, judge_gaps};
use punctual_stats::histogram::{DecodeError, Histogram};
use punctual_stats::lengths::judge_lengths;
use punctual_stats::miss::MissRows;
use punctual_stats::peaks::Peaks;

use super::condition::{Condition, Demand, FoundScheduling, Scheduling, Standing};
use super::field::Field;
use super::run::{Run, Thread};
use super::stops::Stops;
use super::watch::{Subject, WatchedMark, WatchedThread};
use super::words;

/// The histograms and peaks of a record, decoded.
#[derive(Debug)]
pub struct Evidence {
    threads: Vec<ThreadParts>,
    halves: Option<[Half; 2]>,
    load: Option<String>,
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
    /// Decodes.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read by [`super::read()`] has no such fault.
    pub fn of(run: &Run) -> Result<Self, DecodeError> {
        let threads = run
            .threads
            .iter()
            .enumerate()
            .map(|(index, thread)| parts(thread, run.watched(index)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            halves: halves(run, &threads)?,
            load: load(run),
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
        let threads =
            run.threads
                .iter()
                .zip(&self.threads)
                .enumerate()
                .map(|(index, (thread, parts))| ThreadEvidence {
                    interval_ns: interval_ns(run, index),
                    // Those of a watch have names: see `never_woke`.
                    may_be_empty: run.watch.is_some(),
                    cpu: u32::try_from(thread.cpu).unwrap_or(u32::MAX),
                    histogram: &parts.histogram,
                    late: thread.late,
                    missed: thread.missed,
                    missed_late: missed_late(thread),
                    lost: thread.lost,
                    unseen: unseen(run, index),
                    peaks: &parts.peaks,
                });
        let half = |half: &'a Half| HalfEvidence {
            histogram: &half.histogram,
            misses: half.misses,
        };
        RunEvidence {
            threads: threads.collect(),
            duration_ns: run.measured_ns,
            deadline_ns,
            seconds: run.timeline.seconds,
            seconds_with_miss: run.timeline.seconds_with_miss,
            rows: (!run.timeline.rows.is_empty()).then(|| MissRows {
                width_ns: run.timeline.row_ns,
                misses: run.timeline.rows.iter().map(|row| row.misses).collect(),
            }),
            halves: self
                .halves
                .as_ref()
                .map(|[first, second]| [half(first), half(second)]),
            load: self.load.as_deref(),
            repeats: run.repeats(),
        }
    }
}

/// Wake-ups of a watched thread that the kernel did not show.
fn unseen(run: &Run, index: usize) -> u64 {
    let watched = run
        .watch
        .as_ref()
        .and_then(|watch| watch.threads.get(index));
    watched.map_or(0, |thread| thread.unseen)
}

/// The interval at which wake-ups of a thread are due, where they have one.
fn interval_ns(run: &Run, index: usize) -> Option<u64> {
    match &run.watch {
        Some(watch) => watch.threads.get(index).and_then(|thread| thread.period_ns),
        None if run.gaps.is_some() || !run.knows(Field::Interval) => None,
        None => Some(run.request.interval.nominal_ns()),
    }
}

/// Skipped periods of a thread that miss the deadline.
pub(super) fn missed_late(thread: &Thread) -> u64 {
    thread.missed_late.unwrap_or(thread.missed)
}

/// Both halves, where every thread kept its first.
fn halves(run: &Run, threads: &[ThreadParts]) -> Result<Option<[Half; 2]>, DecodeError> {
    let mut halves = [(); 2].map(|()| Half {
        histogram: Histogram::new(),
        misses: 0,
    });
    let [first, second] = &mut halves;
    for (thread, parts) in run.threads.iter().zip(threads) {
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

/// The load in words, for the sentence of the verdict; what a best effort went
/// without is part of it, so that nobody quotes the one without the other.
fn load(run: &Run) -> Option<String> {
    let label = run.request.load.as_str();
    let loaded = !matches!(label, "none" | "no load") && run.knows(Field::Load);
    let undone: Vec<String> = run
        .demands
        .iter()
        .filter(|demand| run.request.best_effort && demand.standing == Standing::NotInForce)
        .map(undone)
        .collect();
    if undone.is_empty() {
        return loaded.then(|| label.to_owned());
    }
    let label = if loaded { label } else { "no load" };
    Some(format!("{label}, at best effort ({})", undone.join(", ")))
}

/// What a demand that was not met comes down to, in a word or two.
fn undone(demand: &Demand) -> String {
    match &demand.condition {
        Condition::Priority { found, .. } if !found.is_empty() && found.iter().all(is_ordinary) => {
            "SCHED_OTHER".to_owned()
        }
        Condition::Priority { requested, .. } => format!("not {}", words::scheduling(requested)),
        Condition::Affinity { .. } => "not pinned".to_owned(),
        Condition::LockedMemory { .. } => "memory not locked".to_owned(),
        Condition::CpuDmaLatency { .. } => "idle states not held off".to_owned(),
        other => format!("no {}", other.name()),
    }
}

fn is_ordinary(found: &FoundScheduling) -> bool {
    found.scheduling == Some(Scheduling::Other)
}

fn parts(thread: &Thread, watched: Option<&WatchedThread>) -> Result<ThreadParts, DecodeError> {
    let skips = watched.map(|watched| watched.skips.clone());
    Ok(ThreadParts {
        histogram: Histogram::try_from(&thread.latency)?,
        peaks: Peaks::restored(thread.peaks_above_ns, &thread.peaks)
            .with_skips(skips.unwrap_or_default()),
    })
}

/// What makes a run invalid apart from its figures: demands not in force, unless
/// the run was made with `--best-effort`, events that ended the conditions, loads
/// that did not do their work, and probe threads that broke off.
#[must_use]
pub fn invalid_reasons(run: &Run) -> Vec<String> {
    let demands = run
        .demands
        .iter()
        .filter(|demand| demand.standing == Standing::NotInForce && !run.request.best_effort);
    let demands = demands.map(|demand| {
        format!(
            "{}: requested {}, found {}",
            demand.name(),
            words::requested(demand),
            words::found(demand)
        )
    });
    let events = run.events.iter().filter(|event| event.invalidates);
    let loads = run.loads.iter().filter_map(super::load::invalid);
    let threads = run.threads.iter().filter_map(|thread| {
        let reason = thread.error.as_ref()?;
        Some(format!("the probe thread on CPU {}: {reason}", thread.cpu))
    });
    let marks = run.watch.iter().flat_map(|watch| &watch.marks);
    demands
        .chain(never_woke(run))
        .chain(not_followed(run))
        .chain(marks.filter_map(WatchedMark::not_judged))
        .chain(events.map(|event| words::event(event, &run.tool.name)))
        .chain(loads)
        .chain(threads)
        .chain(Stops::too_much(run))
        .collect()
}

/// Threads of a watched program that ran, live, and were never woken: they may wait for the
/// CPU. Those that have ended had no wake-up left to be late; and where not one thread was
/// woken, that is said of all.
fn never_woke(run: &Run) -> impl Iterator<Item = String> {
    let labels = unwoken(run, false).into_iter();
    labels.map(|label| format!("the thread {label} never woke up"))
}

/// That threads of a watched program found no room: of their wake-ups nothing is known, and a
/// deadline that the others kept is not one that the program kept.
fn not_followed(run: &Run) -> Option<String> {
    // Limits of marks are judged by the marks' own counts.
    let watch = run.watch.as_ref()?;
    if run.request.requirements.is_empty() {
        return None;
    }
    let followed = watch.threads.len();
    if let Subject::Programs { refused: 1.., .. } = watch.subject {
        return Some("programs were not followed, and nothing of them was measured".to_owned());
    }
    match (watch.beyond, watch.unfollowed) {
        (0, 0) => None,
        (1, 0) => Some(format!(
            "1 thread was not followed, and nothing of it was measured: there was room for \
             {followed}"
        )),
        (beyond, 0) => Some(format!(
            "{beyond} threads were not followed, and nothing of them was measured: there was \
             room for {followed}"
        )),
        (beyond, _) => Some(format!(
            "more than {beyond} threads were not followed, and nothing of them was measured: \
             there was room for {followed}"
        )),
    }
}

/// The labels of a watch's threads that were never woken while others were: of those that have
/// ended, or of those that live.
pub fn unwoken(run: &Run, ended: bool) -> Vec<String> {
    let woke = |thread: &Thread| thread.latency.count > 0;
    if !run.threads.iter().any(woke) {
        return Vec::new();
    }
    let watched = run.watch.iter().flat_map(|watch| &watch.threads);
    let threads = watched.zip(&run.threads).enumerate();
    threads
        .filter(|(_, (watched, thread))| {
            watched.ended == ended && !woke(thread) && !watched.slept_but_for_stops
        })
        .map(|(index, _)| run.thread_label(index))
        .collect()
}

/// Analyses a record anew, as a merge or an import needs.
///
/// # Errors
/// As [`Evidence::of`].
pub fn analyse_record(run: &Run) -> Result<Analysis, DecodeError> {
    let evidence = Evidence::of(run)?;
    let settings = Settings {
        confidence: run.request.confidence,
        requirements: run.request.requirements.clone(),
        invalid_reasons: invalid_reasons(run),
    };
    let view = evidence.view(run);
    let mut analysis = analyse(&view, &settings);
    if let Some(gaps) = &run.gaps {
        let (span_ns, watched_ns) = gaps.spans_ns();
        let watched = WatchedTime {
            span_ns,
            watched_ns,
        };
        // The number of gaps is no number of trials.
        analysis.miss = None;
        analysis.verdict = judge_gaps(
            &settings.requirements,
            &view,
            watched,
            &settings.invalid_reasons,
            settings.confidence,
        );
    }
    let marks = run.watch.iter().flat_map(|watch| &watch.marks);
    let lengths: Vec<_> = marks.filter_map(WatchedMark::evidence).collect();
    // A program may run for hours and never sleep: then its marks say all that was asked.
    let by_lengths_alone = settings.requirements.is_empty()
        && settings.invalid_reasons.is_empty()
        && view.samples() == 0
        && lengths.iter().any(|length| length.count > 0);
    analysis.verdict = if by_lengths_alone {
        judge_lengths(&lengths, settings.confidence)
    } else {
        analysis.verdict.with_lengths(&lengths)
    };
    Ok(analysis)
}
