//! Many runs of the same thing, merged: histograms are added, never percentiles
//! averaged; the analysis is made again from all the evidence.

mod anew;
mod decoded;
mod error;
mod parts;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use punctual_stats::evidence::RunPart;
use punctual_stats::histogram::{Histogram, SparseHistogram};

use super::beginning::Beginning;
use super::blocks::Blocking;
use super::condition::Demand;
use super::conditions::{Difference, Role, differences};
use super::document::Document;
use super::event::{Ending, Event, Happening, State};
use super::gaps::Gaps;
use super::invalid::{InvalidReason, not_in_force};
use super::judgement::analyse_record;
use super::ledger::Ledger;
use super::run::{Imported, Merged, OwnCost, Run};
use super::stops::Stops;
use super::watch::{self, Watch};
pub use decoded::Decoded;
pub use error::MergeError;
use parts::{MergedEvents, MergedLoads, MergedThread, MergedTimeline};

/// Adds up runs one at a time, so that a thousand take the memory of one.
#[derive(Debug)]
pub struct Merger {
    force: bool,
    seen: Vec<Beginning>,
    /// Of runs that don't say when they began: a hash of what they measured.
    contents: Vec<u64>,
    first: Option<Box<Run>>,
    /// By place or CPU, and which of those on that CPU.
    threads: BTreeMap<(usize, usize), MergedThread>,
    timeline: MergedTimeline,
    /// Each run is a block, as long as all are about equally long.
    blocks: Option<Blocking>,
    loads: MergedLoads,
    events: MergedEvents,
    demands: Vec<Demand>,
    own_cost: OwnCost,
    explanation: Option<Ledger>,
    watch: Option<Watch>,
    stops: Option<Stops>,
    merged: Merged,
    measured_ns: u64,
    /// Where the next run begins in the merged record's time.
    offset_ns: u64,
    duration_ns: Option<u64>,
    unfinished: u64,
    /// The highest of a run.
    confidence: f64,
    /// A run was made with `--best-effort`.
    best_effort: bool,
    /// One was not, and lacked a condition.
    strict: bool,
    /// Of runs of another tool: what all of them know.
    imported: Option<Imported>,
    added: usize,
}

impl Merger {
    /// With `force`, runs are added although they differ, and the merged record
    /// says in what.
    #[must_use]
    pub fn new(force: bool) -> Self {
        Self {
            force,
            seen: Vec::new(),
            contents: Vec::new(),
            first: None,
            threads: BTreeMap::new(),
            timeline: MergedTimeline::default(),
            blocks: None,
            loads: MergedLoads::default(),
            events: MergedEvents::default(),
            demands: Vec::new(),
            own_cost: OwnCost::default(),
            explanation: None,
            watch: None,
            stops: None,
            merged: Merged {
                runs: 0,
                samples: Vec::new(),
                max_ns: Vec::new(),
                first_started: String::new(),
                last_started: String::new(),
                differences: Vec::new(),
                begun: Vec::new(),
                parts: Vec::new(),
                invalid: Vec::new(),
            },
            measured_ns: 0,
            offset_ns: 0,
            duration_ns: Some(0),
            unfinished: 0,
            confidence: 0.0,
            best_effort: false,
            strict: false,
            imported: None,
            added: 0,
        }
    }

    /// Adds a run. After an error nothing of it was added.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn add(&mut self, run: &Run) -> Result<(), MergeError> {
        let decoded = Decoded::whole(run).map_err(|source| MergeError::Damaged {
            run: self.added,
            source,
        })?;
        self.add_decoded(run, &decoded)
    }

    /// Adds a run whose histograms are decoded: `decoded` was made of `run`. After an error
    /// nothing of it was added.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn add_decoded(&mut self, run: &Run, decoded: &Decoded) -> Result<(), MergeError> {
        let number = self.added;
        if run.tasks.is_some() {
            return Err(MergeError::TaskSet { run: number });
        }
        if run.path.is_some() {
            return Err(MergeError::Path { run: number });
        }
        self.check(number, run)?;
        self.seen.extend(beginnings(run));
        self.contents.extend(content(run));

        let earliest = run
            .threads
            .iter()
            .flat_map(|t| t.peaks.first())
            .map(|p| p.asked_ns)
            .min();
        let latest = run
            .threads
            .iter()
            .flat_map(|t| &t.peaks)
            .map(|p| p.asked_ns.saturating_add(p.latency_ns))
            .max();
        let limit_ns = self.first.as_deref().unwrap_or(run).deadline_ns();
        let shift = (earliest.unwrap_or(0), self.offset_ns);
        self.add_parts(run, shift);
        let watched = run
            .watch
            .as_ref()
            .map(|watch| watch::add_up(&mut self.watch, watch, shift, run.parts()));
        for (index, (thread, histogram)) in run.threads.iter().zip(&decoded.latency).enumerate() {
            let watched = watched.as_ref().and_then(|places| places.get(index));
            let key = match watched {
                Some(place) => (*place, 0),
                None => {
                    let before = run.threads[..index].iter();
                    let there = before.filter(|it| it.cpu.is_some() && it.cpu == thread.cpu);
                    (thread.cpu.unwrap_or(index), there.count())
                }
            };
            let late = anew::late(run, thread, histogram, limit_ns);
            let missed_late = anew::missed_late(run, index, limit_ns);
            let sum = self.threads.entry(key).or_default();
            sum.add(thread, histogram, (late, missed_late), shift);
            if let Some(watched) = run.gaps.as_ref().and_then(|gaps| gaps.threads.get(index)) {
                sum.add_watched(watched);
                // A run with a higher threshold kept none of the gaps between both.
                let others = self.first.as_deref().unwrap_or(run).gaps.as_ref();
                let above_ns = |gaps: Option<&Gaps>| gaps.map_or(0, |it| it.above_ns);
                let (here, first) = (above_ns(run.gaps.as_ref()), above_ns(others));
                if here > first {
                    sum.has_untold(here);
                }
            }
        }
        self.timeline.add(&run.timeline);
        self.add_block(run, &decoded.latency);
        self.loads.add(&run.loads, run.measured_ns);
        self.events
            .add(&run.events, self.merged.runs, self.offset_ns);
        self.add_demands(&run.demands);
        self.confidence = self.confidence.max(run.request.confidence);
        self.best_effort |= run.request.best_effort;
        self.strict |= !run.request.best_effort && not_in_force(run).next().is_some();
        self.add_cost(&run.own_cost);
        if let Some(explanation) = &run.explanation {
            self.explanation
                .get_or_insert_with(|| Ledger::new(explanation.above_ns))
                .add_record(explanation, &decoded.stages, self.merged.runs);
        }
        if let Some(stops) = &run.stops {
            self.stops.get_or_insert_default().add_run(stops);
        }
        InvalidReason::add_up(&mut self.merged.invalid, run, self.merged.runs);
        self.add_header(run);
        let span = latest
            .zip(earliest)
            .map_or(0, |(latest, earliest)| latest.saturating_sub(earliest));
        self.added += 1;
        self.measured_ns = self.measured_ns.saturating_add(run.measured_ns);
        self.offset_ns = self.offset_ns.saturating_add(span.max(run.measured_ns));
        Ok(())
    }

    fn check(&mut self, number: usize, run: &Run) -> Result<(), MergeError> {
        for begun in beginnings(run) {
            if self.seen.iter().any(|seen| seen.is(&begun)) {
                return Err(MergeError::Twice {
                    run: number,
                    started: begun.started,
                });
            }
            if let Some(seen) = self.seen.iter().find(|seen| seen.overlaps(&begun)) {
                return Err(MergeError::Overlapping {
                    run: number,
                    started: begun.started,
                    other: seen.started.clone(),
                });
            }
        }
        if content(run).is_some_and(|it| self.contents.contains(&it)) {
            return Err(MergeError::Twice {
                run: number,
                started: run.started.clone(),
            });
        }
        let Some(first) = &self.first else {
            return Ok(());
        };
        let found = differences(first, run);
        let weighty = |difference: &&Difference| difference.role != Role::Detail;
        if !self.force && found.iter().any(|difference| weighty(&difference)) {
            return Err(MergeError::Different {
                run: number,
                differences: found.iter().filter(weighty).cloned().collect(),
            });
        }
        if let Some((sum, watch)) = self.watch.as_ref().zip(run.watch.as_ref())
            && !watch::find_room(&sum.marks, &watch.marks)
        {
            return Err(MergeError::Marks { run: number });
        }
        found.into_iter().for_each(|it| self.note_difference(it));
        Ok(())
    }

    fn note_difference(&mut self, difference: Difference) {
        let noted = &mut self.merged.differences;
        if noted.contains(&difference) {
            return;
        }
        // A thousand runs may differ in a thousand ways: what the evidence depends on is among those that are kept.
        let is_first = !noted.iter().any(|it| it.aspect == difference.aspect);
        if noted.len() < Merged::DIFFERENCES {
            noted.push(difference);
        } else if is_first {
            let repeats = |at: &usize| noted[..*at].iter().any(|it| it.aspect == noted[*at].aspect);
            if let Some(last) = (0..noted.len()).rev().find(repeats) {
                noted[last] = difference;
            }
        }
    }

    fn add_parts(&mut self, run: &Run, shift: (u64, u64)) {
        let of_sum = run.merged.iter().flat_map(|merged| &merged.parts);
        let shifted = |part: &RunPart| RunPart {
            start_ns: (part.start_ns.saturating_sub(shift.0)).saturating_add(shift.1),
            ..*part
        };
        let before = self.merged.parts.len();
        self.merged.parts.extend(of_sum.map(shifted));
        if self.merged.parts.len() == before {
            self.merged.parts.push(RunPart {
                start_ns: shift.1,
                unseen: run.watch.as_ref().map_or(0, Watch::unseen),
            });
        }
    }

    fn add_block(&mut self, run: &Run, histograms: &[SparseHistogram]) {
        let length_ns = run.measured_ns;
        let first = self.first.as_deref().unwrap_or(run);
        let alike = first.measured_ns.abs_diff(length_ns) <= length_ns / 10;
        if self.added == 0 {
            self.blocks = Some(Blocking::new(length_ns));
        }
        if !alike || run.merged.is_some() {
            self.blocks = None;
        }
        if let Some(blocks) = &mut self.blocks {
            let mut all_threads = Histogram::new();
            for histogram in histograms {
                all_threads.merge_sparse(histogram);
            }
            blocks.add(&all_threads, 1);
        }
    }

    fn add_header(&mut self, run: &Run) {
        // Of what was merged by force before.
        let inner = run.merged.iter().flat_map(|it| &it.differences);
        inner.for_each(|it| self.note_difference(it.clone()));
        let merged = &mut self.merged;
        match &run.merged {
            // Merged runs merged again: each of them counts.
            Some(inner) => {
                merged.runs = merged.runs.saturating_add(inner.runs);
                merged.samples.extend_from_slice(&inner.samples);
                merged.max_ns.extend_from_slice(&inner.max_ns);
            }
            None => {
                merged.runs += 1;
                merged
                    .samples
                    .push(run.threads.iter().map(|t| t.latency.count).sum());
                merged.max_ns.push(
                    run.threads
                        .iter()
                        .map(|t| t.latency.max_ns)
                        .max()
                        .unwrap_or(0),
                );
            }
        }
        if let Some(imported) = &run.imported {
            parts::merge_import(&mut self.imported, imported);
        }
        merged.begun.extend(beginnings(run));
        let (earliest, latest) = match &run.merged {
            Some(inner) => (&inner.first_started, &inner.last_started),
            None => (&run.started, &run.started),
        };
        // RFC 3339 in UTC sorts as text.
        if !earliest.is_empty()
            && (merged.first_started.is_empty() || *earliest < merged.first_started)
        {
            merged.first_started.clone_from(earliest);
        }
        if *latest > merged.last_started {
            merged.last_started.clone_from(latest);
        }
        self.unfinished = self.unfinished.saturating_add(match run.state {
            State::Unfinished => 1,
            State::Stopped(Ending::UnfinishedRuns { unfinished, .. }) => unfinished,
            State::Finished | State::Stopped(_) => 0,
        });
        self.duration_ns = self
            .duration_ns
            .zip(run.request.duration_ns)
            .map(|(sum, duration)| sum.saturating_add(duration));
        match &mut self.first {
            None => {
                let mut first = run.clone();
                // The figures are in the sums; the conditions are what is wanted.
                first.threads.clear();
                first.timeline = Default::default();
                first.blocks = None;
                self.first = Some(Box::new(first));
            }
            Some(first) => {
                // Of runs that were placed otherwise nothing is said that holds for all.
                first
                    .placement
                    .take_if(|place| run.placement.as_ref() != Some(place));
                for cpu in &run.request.cpus {
                    if !first.request.cpus.contains(cpu) {
                        first.request.cpus.push(*cpu);
                    }
                }
            }
        }
    }

    /// Demands of one name are one demand: as bad as in the worst run.
    fn add_demands(&mut self, demands: &[Demand]) {
        for demand in demands {
            let same = |known: &&mut Demand| known.name() == demand.name();
            match self.demands.iter_mut().find(same) {
                None => self.demands.push(demand.clone()),
                Some(known) if parts::severity(demand) > parts::severity(known) => {
                    *known = demand.clone();
                }
                Some(_) => {}
            }
        }
    }

    fn add_cost(&mut self, cost: &OwnCost) {
        let own = &mut self.own_cost;
        own.collector_cpu_ns = own.collector_cpu_ns.saturating_add(cost.collector_cpu_ns);
        own.probes_cpu_ns = own.probes_cpu_ns.saturating_add(cost.probes_cpu_ns);
        own.peak_resident_bytes = own.peak_resident_bytes.max(cost.peak_resident_bytes);
        own.clock_read_ns = own.clock_read_ns.max(cost.clock_read_ns);
        if let Some(cost) = &cost.tracer {
            let own = own.tracer.get_or_insert_default();
            own.cpu_ns = own.cpu_ns.saturating_add(cost.cpu_ns);
            own.events = own.events.saturating_add(cost.events);
            own.lost = own.lost.saturating_add(cost.lost);
            own.unread_ns = own.unread_ns.saturating_add(cost.unread_ns);
        }
    }

    /// The merged run, analysed and judged again. `command` is the command line
    /// that merged them.
    ///
    /// # Errors
    /// [`MergeError::Nothing`].
    pub fn into_run(self, command: Vec<String>) -> Result<Run, MergeError> {
        let first = self.first.ok_or(MergeError::Nothing)?;
        let mut request = first.request;
        request.confidence = self.confidence;
        request.best_effort = self.best_effort && !self.strict;
        request.duration_ns = self.duration_ns;
        request.loops = None;
        let state = match self.unfinished {
            0 => State::Finished,
            unfinished => State::Stopped(Ending::UnfinishedRuns {
                unfinished,
                runs: self.merged.runs,
            }),
        };
        let watched = self.threads.values().map(MergedThread::watched).collect();
        let mut merged = self.merged;
        let invalid = std::mem::take(&mut merged.invalid);
        let mut run = Run {
            format: Run::FORMAT.to_owned(),
            version: Run::VERSION,
            tool: first.tool,
            verb: "merge".to_owned(),
            command,
            started: merged.first_started.clone(),
            start_ns: None,
            state,
            request,
            placement: first.placement,
            system: first.system,
            // Each run's own stand in its record.
            findings: None,
            tuned: first.tuned,
            demands: self.demands,
            measured_ns: self.measured_ns,
            threads: self
                .threads
                .into_values()
                .map(MergedThread::into_thread)
                .collect(),
            timeline: self.timeline.into_timeline(),
            blocks: self.blocks.as_ref().and_then(Blocking::blocks),
            loads: self.loads.into_loads(),
            events: self.events.into_events(),
            own_cost: self.own_cost,
            analysis: None,
            verdict: None,
            imported: self.imported,
            merged: Some(merged),
            laboratory: first.laboratory.map(parts::merged_laboratory),
            explanation: self.explanation.map(|ledger| ledger.to_record()),
            experiment: None,
            tasks: None,
            path: None,
            gaps: first.gaps.map(|gaps| Gaps {
                threads: watched,
                ..gaps
            }),
            // Each run's own stands in its record.
            cross_check: None,
            watch: self.watch,
            stops: self.stops,
        };
        // Watches that were merged by force with what is none name not all threads.
        let fits = |watch: &Watch| [0, run.threads.len()].contains(&watch.threads.len());
        let whole = run.watch.take();
        run.watch = whole.clone().filter(fits);
        if whole.is_some() && run.watch.is_none() {
            // A verdict takes from it what went unseen, its marks, and how late skipped periods were.
            let event = Event::invalidating(0, Happening::WatchLeftOut);
            run.events.push(event);
        }
        let analyse = |run: &Run| {
            analyse_record(run).map_err(|source| MergeError::Damaged { run: 0, source })
        };
        let mut analysis = analyse(&run)?;
        let left = InvalidReason::left_of_sum(invalid, &run, &analysis.verdict.invalid);
        if let Some(merged) = run.merged.as_mut().filter(|_| !left.is_empty()) {
            merged.invalid = left;
            analysis = analyse(&run)?;
        }
        run.conclude(analysis);
        Ok(run)
    }
}

/// When the run began, or each of those that it is the sum of; none for what doesn't say.
pub fn beginnings(run: &Run) -> impl Iterator<Item = Beginning> {
    let of_sum = run.merged.iter().flat_map(|merged| &merged.begun).cloned();
    of_sum.chain(Beginning::of(run))
}

/// A hash of what a run measured that doesn't say when it began: no two measurements are alike.
fn content(run: &Run) -> Option<u64> {
    let measured = run.threads.iter().any(|it| it.latency.count > 0);
    if !measured || beginnings(run).next().is_some() {
        return None;
    }
    let text = serde_json::to_vec(&run.threads).ok()?;
    let mut hash = DefaultHasher::new();
    (&run.started, text).hash(&mut hash);
    Some(hash.finish())
}

/// Merges runs that are in memory; see [`Merger`] for many.
///
/// # Errors
/// [`MergeError`].
pub fn merge(runs: &[Run], force: bool, command: Vec<String>) -> Result<Run, MergeError> {
    let mut merger = Merger::new(force);
    for run in runs {
        merger.add(run)?;
    }
    merger.into_run(command)
}
