//! The sums of a merge, part by part.

use std::collections::BTreeMap;

use punctual_stats::histogram::{Histogram, HistogramRecord, SparseHistogram};
use punctual_stats::peaks::Peak;

use super::super::condition::{Demand, Standing};
use super::super::event::{Event, Happening};
use super::super::gaps::Watched;
use super::super::laboratory::{Fingerprint, Laboratory};
use super::super::load::WorkCheck;
use super::super::run::{Faults, Imported, Load, Thread, ThreadFault, Timeline, TimelineRow};

/// Peaks kept of one thread; twice as many stand in memory for a while.
const PEAKS: usize = 1 << 16;
/// Events kept, those that invalidate the run before others.
const EVENTS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct MergedThread {
    /// Where all of them ran.
    cpu: Option<usize>,
    histogram: Histogram,
    runs: u64,
    late: u64,
    missed: u64,
    missed_late: u64,
    lost: u64,
    early: u64,
    warm_up: u64,
    peaks: Vec<Peak>,
    peaks_above_ns: u64,
    measured_ns: u64,
    faults: Option<Faults>,
    preemptions: Option<u64>,
    fault: Option<ThreadFault>,
    watched: Option<Watched>,
}

impl MergedThread {
    /// Adds a thread; its time, that began at `shift.0`, begins at `shift.1`.
    pub(super) fn add(
        &mut self,
        thread: &Thread,
        histogram: &SparseHistogram,
        (late, missed_late): (u64, u64),
        shift: (u64, u64),
    ) {
        let cycles = self.histogram.count().saturating_add(self.missed);
        self.peaks_above_ns = self.peaks_above_ns.max(thread.peaks_above_ns);
        let above = self.peaks_above_ns;
        let kept = thread.peaks.iter().filter(|peak| peak.latency_ns > above);
        self.peaks.extend(kept.map(|peak| Peak {
            cycle: peak.cycle.saturating_add(cycles),
            asked_ns: (peak.asked_ns.saturating_sub(shift.0)).saturating_add(shift.1),
            ..*peak
        }));
        if self.peaks.len() > 2 * PEAKS {
            self.thin_out();
        }
        self.histogram.merge_sparse(histogram);
        for (sum, term) in [
            (&mut self.late, late),
            (&mut self.missed, thread.missed),
            (&mut self.missed_late, missed_late),
            (&mut self.lost, thread.lost),
            (&mut self.early, thread.early),
            (&mut self.warm_up, thread.warm_up),
            (&mut self.measured_ns, thread.measured_ns),
        ] {
            *sum = sum.saturating_add(term);
        }
        // A sum is known only where every term is.
        let first = self.runs == 0;
        self.cpu = thread.cpu.filter(|_| first || self.cpu == thread.cpu);
        let none = Faults { minor: 0, major: 0 };
        let so_far = if first { Some(none) } else { self.faults };
        self.faults = so_far.zip(thread.faults).map(|(sum, term)| Faults {
            minor: sum.minor.saturating_add(term.minor),
            major: sum.major.saturating_add(term.major),
        });
        let so_far = if first { Some(0) } else { self.preemptions };
        self.preemptions = so_far
            .zip(thread.preemptions)
            .map(|(sum, term)| sum.saturating_add(term));
        if self.fault.is_none() {
            self.fault.clone_from(&thread.fault);
        }
        self.runs += 1;
    }

    /// Adds what a thread watched that looked for gaps.
    pub(super) fn add_watched(&mut self, more: &Watched) {
        let first = self.watched.is_none();
        let sum = self.watched.get_or_insert_default();
        for (sum, term) in [
            (&mut sum.polled_ns, more.polled_ns),
            (&mut sum.gap_ns, more.gap_ns),
            (&mut sum.unwatched_ns, more.unwatched_ns),
            (&mut sum.polls, more.polls),
            (&mut sum.set_aside, more.set_aside),
            (&mut sum.set_aside_ns, more.set_aside_ns),
            (&mut sum.untold, more.untold),
        ] {
            // Small enough that three of them can be added up.
            *sum = sum.saturating_add(term).min(u64::MAX / 4);
        }
        sum.longest_untold_ns = sum.longest_untold_ns.max(more.longest_untold_ns);
        sum.span_ns = sum.polled_ns + sum.gap_ns + sum.unwatched_ns;
        let so_far = if first { Some(0) } else { sum.smi };
        sum.smi = so_far
            .zip(more.smi)
            .map(|(sum, term)| sum.saturating_add(term));
    }

    /// Gaps up to this length may have come and were not kept.
    pub(super) fn has_untold(&mut self, most_ns: u64) {
        let sum = self.watched.get_or_insert_default();
        sum.longest_untold_ns = sum.longest_untold_ns.max(most_ns);
    }

    /// What was watched in all.
    pub(super) fn watched(&self) -> Watched {
        self.watched.unwrap_or_default()
    }

    /// Raises the threshold until the peaks fit: what is above it stays complete.
    fn thin_out(&mut self) {
        let above = self.peaks_above_ns;
        self.peaks.retain(|peak| peak.latency_ns > above);
        if self.peaks.len() > PEAKS {
            let cut = self.peaks.len() - PEAKS;
            let (_, at, _) = self
                .peaks
                .select_nth_unstable_by_key(cut, |peak| peak.latency_ns);
            self.peaks_above_ns = at.latency_ns;
            let above = self.peaks_above_ns;
            self.peaks.retain(|peak| peak.latency_ns > above);
        }
    }

    pub(super) fn into_thread(mut self) -> Thread {
        self.thin_out();
        self.peaks
            .sort_unstable_by_key(|peak| (peak.asked_ns, peak.cycle));
        Thread {
            cpu: self.cpu,
            tid: 0,
            latency: HistogramRecord::from(&self.histogram),
            late: self.late,
            missed: self.missed,
            missed_late: Some(self.missed_late),
            lost: self.lost,
            early: self.early,
            warm_up: self.warm_up,
            peaks: self.peaks,
            peaks_above_ns: self.peaks_above_ns,
            measured_ns: self.measured_ns,
            faults: self.faults,
            preemptions: self.preemptions,
            // The first half of many runs is no half of anything.
            first_half: None,
            first_half_misses: None,
            fault: self.fault,
        }
    }
}

/// Runs one after the other. Rows widen as they do while measuring; where the
/// widths of two runs don't fit each other there are no rows.
#[derive(Debug, Default)]
pub(super) struct MergedTimeline {
    sum: Timeline,
    unfit: bool,
}

impl MergedTimeline {
    pub(super) fn add(&mut self, timeline: &Timeline) {
        let sum = &mut self.sum;
        sum.seconds = sum.seconds.saturating_add(timeline.seconds);
        sum.seconds_with_miss = sum
            .seconds_with_miss
            .saturating_add(timeline.seconds_with_miss);
        if self.unfit || timeline.rows.is_empty() {
            return;
        }
        let mut rows = timeline.rows.clone();
        let mut row_ns = timeline.row_ns;
        if sum.rows.is_empty() {
            sum.row_ns = row_ns;
        }
        while row_ns < sum.row_ns {
            row_ns = widen(&mut rows, row_ns);
        }
        while sum.row_ns < row_ns {
            sum.row_ns = widen(&mut sum.rows, sum.row_ns);
        }
        if row_ns != sum.row_ns {
            self.unfit = true;
            return;
        }
        sum.rows.append(&mut rows);
        while sum.rows.len() > Timeline::ROWS {
            sum.row_ns = widen(&mut sum.rows, sum.row_ns);
        }
    }

    pub(super) fn into_timeline(mut self) -> Timeline {
        if self.unfit {
            self.sum.rows.clear();
            self.sum.row_ns = 0;
        }
        self.sum
    }
}

/// Makes one row of two.
fn widen(rows: &mut Vec<TimelineRow>, row_ns: u64) -> u64 {
    let joined = rows
        .chunks(2)
        .map(|pair| pair.iter().copied().reduce(join).unwrap_or_default());
    *rows = joined.collect();
    row_ns.saturating_mul(2)
}

fn join(a: TimelineRow, b: TimelineRow) -> TimelineRow {
    TimelineRow {
        count: a.count.saturating_add(b.count),
        min_ns: match (a.count, b.count) {
            (0, _) => b.min_ns,
            (_, 0) => a.min_ns,
            _ => a.min_ns.min(b.min_ns),
        },
        sum_ns: a.sum_ns.saturating_add(b.sum_ns),
        max_ns: a.max_ns.max(b.max_ns),
        late: a.late.saturating_add(b.late),
        missed: a.missed.saturating_add(b.missed),
        misses: a.misses.saturating_add(b.misses),
    }
}

#[derive(Debug, Default)]
pub(super) struct MergedLoads {
    loads: Vec<(Load, u64)>,
}

impl MergedLoads {
    pub(super) fn add(&mut self, loads: &[Load], measured_ns: u64) {
        for load in loads {
            let same = |(known, _): &&mut (Load, u64)| {
                known.name == load.name
                    && known.parameters == load.parameters
                    && known.unit == load.unit
            };
            match self.loads.iter_mut().find(same) {
                None => self.loads.push((load.clone(), measured_ns)),
                Some((known, time)) => {
                    // Rates over unequal times don't average: weigh by time.
                    let (before, now) = (*time as f64, measured_ns as f64);
                    if before + now > 0.0 {
                        known.rate = (known.rate * before + load.rate * now) / (before + now);
                    }
                    *time = time.saturating_add(measured_ns);
                    known.work = known.work.saturating_add(load.work);
                    known.processes = known.processes.max(load.processes);
                    if known.failed.is_none() {
                        known.failed.clone_from(&load.failed);
                    }
                    // Good runs beside it don't make a run valid.
                    known.idle_run = idle_run(known).or_else(|| idle_run(load));
                    match (&mut known.check, &load.check) {
                        (Some(check), Some(more)) => check.merge(more),
                        (check, more) => *check = check.or(*more),
                    }
                }
            }
        }
    }

    pub(super) fn into_loads(self) -> Vec<Load> {
        self.loads.into_iter().map(|(load, _)| load).collect()
    }
}

/// What was seen of a load in a run in which it was without work for too long.
fn idle_run(load: &Load) -> Option<WorkCheck> {
    load.idle_run
        .or_else(|| load.check.filter(WorkCheck::is_idle))
}

#[derive(Debug, Default)]
pub(super) struct MergedEvents {
    weighty: Vec<Event>,
    others: Vec<Event>,
    left_out: BTreeMap<&'static str, u64>,
    invalidating_left_out: bool,
}

impl MergedEvents {
    /// Adds those of a run; `before` runs were added already.
    pub(super) fn add(&mut self, events: &[Event], before: u64, offset_ns: u64) {
        for event in events {
            let list = if event.invalidates {
                &mut self.weighty
            } else {
                &mut self.others
            };
            if list.len() >= EVENTS {
                *self.left_out.entry(event.kind()).or_default() += 1;
                self.invalidating_left_out |= event.invalidates;
                continue;
            }
            list.push(Event {
                at_ns: event.at_ns.saturating_add(offset_ns),
                // Those of a sum are numbered from its first run on.
                run: Some(before.saturating_add(event.run.unwrap_or(1))),
                ..event.clone()
            });
        }
    }

    pub(super) fn into_events(mut self) -> Vec<Event> {
        let mut events = self.weighty;
        events.append(&mut self.others);
        events.sort_by_key(|event| event.at_ns);
        let at_ns = events.last().map_or(0, |event| event.at_ns);
        for (of, count) in self.left_out {
            let of = of.to_owned();
            events.push(Event {
                invalidates: self.invalidating_left_out,
                ..Event::new(at_ns, Happening::LeftOut { of, count })
            });
        }
        events
    }
}

/// The worse, the higher.
pub(super) fn severity(demand: &Demand) -> u8 {
    match demand.standing {
        Standing::InForce => 0,
        Standing::Stated => 1,
        Standing::NotInForce => 2,
    }
}

/// What stands for the origin of several runs of the laboratory: the first one's, and no
/// result, since there was none that all of this came from.
pub(super) fn merged_laboratory(laboratory: Laboratory) -> Laboratory {
    let fingerprint = Fingerprint {
        result_sha256: String::new(),
        ..laboratory.fingerprint
    };
    Laboratory {
        fingerprint,
        ..laboratory
    }
}

/// What stands for the figures of several runs of another tool: what one of them does not
/// know, all of them don't. Their summaries were of each run.
pub(super) fn merge_import(sum: &mut Option<Imported>, imported: &Imported) {
    let sum = sum.get_or_insert_with(|| Imported {
        threads: Vec::new(),
        ..imported.clone()
    });
    for field in &imported.unknown {
        if !sum.unknown.contains(field) {
            sum.unknown.push(*field);
        }
    }
    sum.resolution_ns = sum.resolution_ns.max(imported.resolution_ns);
    let ends = [sum.kept_below_ns, imported.kept_below_ns];
    sum.kept_below_ns = ends.into_iter().flatten().min();
}
