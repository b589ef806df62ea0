//! A run from its first to its last moment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use punctual_rt::clock;

use super::blocks::Stretches;
use super::breach::{self, Breach, Frozen};
use super::error::ConductError;
use super::explain::{Explaining, number};
use super::gather::Gathering;
use super::keeping::Keeping;
use super::observer::Observer;
use super::pace::Pace;
use super::plan::Plan;
use super::prepare::{self, Held, Lined};
use super::sampling::Sampling;
use super::setup::{explain, go_on, halves, sieve, start_loads, stop_watch};
use super::signals::Signals;
use super::stops::StopWatch;
use super::time_limit::TimeLimit;
use super::tracers::{self, Hwlat};
use super::{compose, view};
use crate::probe::collector::{Collector, Lane};
use crate::probe::cycle::Ended;
use crate::probe::gaps::GapFeed;
use crate::probe::tally::Tally;
use crate::probe::thread::{Outcome, Probe, StartLine};
use crate::system::watch::{self, Watch};
use crate::system::{self, Root, SurveyRequest};
use punctual_load::{LoadSet, Pause};
use punctual_record::event::Halted;
use punctual_record::samples::SAMPLES_DIRECTORY;
use punctual_record::{
    Ending, Event, Happening, RUN_FILE, RecordError, Run, RunDirectory, Standing, State, Thread,
};
use punctual_report::facts;

/// How often whoever watches is told.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// How often the conditions are looked at.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(1);
/// How often everything is saved.
pub(super) const SAVE_EVERY: Duration = Duration::from_secs(5);
/// How long a probe thread may take to end after it was told, its interval aside.
const END_WITHIN: Duration = Duration::from_secs(2);
/// The highest samples that are kept, over all threads.
pub(super) const PEAKS: usize = 8192;

/// Makes a run in a directory that exists already, and returns its record, judged
/// and saved.
///
/// # Errors
/// When the run could not be begun; what comes up later stands in the record.
pub fn conduct(
    plan: &Plan,
    directory: &RunDirectory,
    observer: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    let request = SurveyRequest {
        probed_cpus: plan.cpus.clone(),
        priority: plan.policy.priority(),
    };
    observer.stage("looking at the machine");
    let run = compose::begun(
        plan,
        punctual_record::time::rfc3339(SystemTime::now()),
        system::survey(&root, &request),
    );
    save(directory, &run)?;
    directory.reserve();
    let mut outcome = begin(plan, directory, observer, signals, root, run);
    if let (Ok(run), true) = (&mut outcome, plan.cross_check) {
        run.cross_check = Some(tracers::cross_check(plan, run, observer));
        // It was measured, and what stands of it is noted in the directory.
        if directory.save(run).is_ok() {
            observer.saved(run, directory);
        }
    }
    if outcome.is_err() {
        // Nothing was measured: nothing is left behind.
        directory.release();
        directory.remove(RUN_FILE);
        directory.remove_empty(SAMPLES_DIRECTORY);
    }
    outcome
}

/// What follows once the directory holds a record.
fn begin(
    plan: &Plan,
    directory: &RunDirectory,
    observer: &mut dyn Observer,
    mut signals: Signals,
    root: Root,
    mut run: Run,
) -> Result<Run, ConductError> {
    let time_limit = TimeLimit::begin(plan)?;
    observer.stage("setting up the probe threads");
    let feed = Hwlat::begin(plan)?.map(|hwlat| Arc::new(hwlat) as Arc<dyn GapFeed>);
    let lined = prepare::line_up(plan, feed)?;
    signals
        .end_at_time_limit(&lined.halt)
        .map_err(ConductError::Signals)?;
    if !plan.measure_unmet {
        // Before anything else is set up; what was changed to find out is put back at once.
        let (_held, demands) = prepare::hold(plan, &lined, &root, &mut run.system);
        prepare::refuse_unmet(plan, &demands)?;
    }
    let mut sinks = Vec::new();
    let sampling = if plan.samples {
        let (sampling, sink) = Sampling::begin(directory.folder())?;
        sinks.push(sink);
        Some(sampling)
    } else {
        None
    };
    let Lined {
        line,
        halt,
        probes,
        ready,
        rings,
        accounts,
    } = lined;
    // Before the loads: beside hundreds of busy processes it would take many seconds.
    let explaining = explain(plan, &ready, &mut sinks, &mut run);
    go_on(&signals)?;
    let loads = start_loads(plan, &signals, observer)?;
    let deadline_ns = plan.deadline_ns().unwrap_or(u64::MAX);
    let peaks = (PEAKS / plan.cpus.len().max(1)).clamp(256, 4096);
    let lanes = plan
        .cpus
        .iter()
        .zip(&ready)
        .zip(rings)
        .map(|((&cpu, ready), ring)| {
            let tally = Tally::new(u64::MAX, deadline_ns, halves(plan), peaks)
                .with_shortest_interval(plan.interval.shortest_ns())
                .with_interval(plan.interval.nominal_ns());
            Lane::new(cpu, ready.tid, ring, tally).with_interval(match plan.gaps {
                Some(_) => 0,
                None => plan.interval.nominal_ns(),
            })
        })
        .collect();
    let pace = Arc::new(Pace::of(&plan.interval));
    let sieve = sieve(&explaining, &mut run);
    let stops = stop_watch(plan, &signals, &pace)?;
    let collector = Collector::new(lanes, u64::MAX, sinks)
        .with_sieve(sieve)
        .with_evidence(stops.as_ref().map(StopWatch::evidence));
    let gathering = Gathering::begin(collector, plan.placement.housekeeping, &pace)?;
    let lined = Lined {
        line,
        halt,
        probes,
        ready,
        rings: Vec::new(),
        accounts,
    };
    // Memory is locked when all of it is there, and before anything is measured.
    let (held, demands) = prepare::hold(plan, &lined, &root, &mut run.system);
    prepare::refuse_unmet(plan, &demands)?;
    run.demands = demands;
    let watched: Vec<watch::Probe> = plan
        .cpus
        .iter()
        .zip(&lined.ready)
        .map(|(&cpu, ready)| watch::Probe {
            cpu,
            tid: ready.tid,
        })
        .collect();
    let watch = Watch::start(&root, &watched);
    // The start must lie ahead for all: there is a warm-up to be made before it.
    let start_ns = gathering
        .look()
        .start_at(clock::now_ns() + StartLine::run_up_ns());
    if let Some(length_ns) = plan.duration_ns {
        lined.halt.set(start_ns.saturating_add(length_ns));
    }
    pace.begin(start_ns);
    lined.line.go(start_ns);
    if let Some(explaining) = &explaining {
        explaining.count_stolen_from(start_ns);
    }
    let mut session = Session {
        plan,
        observer,
        kept: Keeping::new(run, directory, start_ns),
        pace,
        lined,
        gathering,
        stretches: Stretches::new(),
        stops,
        stops_told: 0,
        time_limit,
        loads,
        watch,
        held: Some(held),
        sampling,
        explaining,
        signals,
        frozen: None,
    };
    let state = session.measure();
    Ok(session.close(state))
}

pub(super) fn save(directory: &RunDirectory, run: &Run) -> Result<(), ConductError> {
    directory
        .save(run)
        .map_err(|error| ConductError::Record(error.to_string()))
}

/// A run under way.
struct Session<'a> {
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    kept: Keeping<'a>,
    pace: Arc<Pace>,
    lined: Lined,
    gathering: Gathering,
    stretches: Stretches,
    /// Ended before the rings are emptied for the last time.
    stops: Option<StopWatch>,
    stops_told: usize,
    time_limit: TimeLimit,
    loads: Option<LoadSet>,
    watch: Watch,
    /// Given back before the run is judged.
    held: Option<Held>,
    sampling: Option<Sampling>,
    explaining: Option<Explaining>,
    signals: Signals,
    /// The kernel's trace buffer, once the run has ended by itself.
    frozen: Option<Frozen>,
}

impl Session<'_> {
    /// Waits for the end, whatever brings it, and keeps the record meanwhile.
    fn measure(&mut self) -> State {
        let mut next_watch = Instant::now() + WATCH_EVERY;
        let accounts_every = self.watch.throttling_every();
        let nap = TICK
            .min(accounts_every)
            .min(self.time_limit.look.unwrap_or(TICK));
        let mut next_account = Instant::now() + accounts_every;
        let mut next_save = Instant::now() + SAVE_EVERY;
        loop {
            if let Some(signal) = self.signals.end() {
                self.kept.event(Happening::Signal { signal });
                return State::Stopped(signal);
            }
            if self.lined.probes.iter().all(Probe::is_over) {
                // The threads themselves say whether it was for a break value.
                self.frozen = breach::freeze(self.plan.break_ns, &mut self.kept);
                return State::Finished;
            }
            self.tell_stops();
            if Instant::now() >= next_account {
                next_account = Instant::now() + accounts_every;
                self.look_at_accounts();
            }
            if Instant::now() >= next_watch {
                next_watch = Instant::now() + WATCH_EVERY;
                let elapsed_ns = self.kept.elapsed_ns();
                self.watch.poll_into(elapsed_ns, &mut self.kept.run.events);
            }
            if Instant::now() >= next_save {
                self.save_under_way();
                next_save = Instant::now() + SAVE_EVERY;
            }
            self.look_at_loads();
            let elapsed_ns = self.kept.elapsed_ns();
            self.stretches.look(&self.gathering.look(), elapsed_ns);
            self.tick();
            self.pace.nap(nap.min(self.until_end()));
        }
    }

    /// What a latency above the break value leaves beside the run.
    fn keep_breach(&mut self) -> Breach {
        let explaining = &self.explaining;
        Breach::keep(self.frozen.take(), &mut self.kept, |run| {
            let bills = run
                .explanation
                .iter()
                .flat_map(|explanation| &explanation.bills);
            let bill = bills.max_by_key(|bill| bill.latency_ns)?;
            let on = |thread: &&Thread| number(thread.cpu) == bill.cpu;
            let thread = run.threads.iter().find(on)?;
            let woken_ns = bill.due_ns.saturating_add(bill.latency_ns);
            let explaining = explaining.as_ref()?;
            Some(explaining.ring(thread.tid, thread.cpu, bill.due_ns, woken_ns))
        })
    }

    /// Keeps the times in which a load did no work.
    fn look_at_loads(&mut self) {
        if let Some(loads) = &mut self.loads {
            let pauses = loads.look();
            self.tell_pauses(&pauses);
        }
    }

    fn tell_pauses(&mut self, pauses: &[Pause]) {
        let events = pauses.iter().map(|p| compose::pause(p, self.kept.start_ns));
        let events: Vec<_> = events.collect();
        self.kept.run.events.extend(events);
    }

    fn look_at_accounts(&mut self) {
        let events = self.watch.poll_throttling(self.kept.elapsed_ns());
        self.kept.run.events.extend(events);
    }

    /// Stops of the process that have come to be known.
    fn tell_stops(&mut self) {
        let stops = self.gathering.look().stops.clone();
        for stop in stops.list.iter().skip(self.stops_told) {
            let who = match stop.cpu {
                Some(cpu) => Halted::Probe { cpu },
                None => Halted::Process,
            };
            self.kept.run.events.push(compose::stop_event(stop, who));
        }
        self.stops_told = stops.list.len();
        self.kept.run.stops = (stops.count > 0).then_some(stops);
    }

    /// Time until the run should be over, at least a little.
    fn until_end(&self) -> Duration {
        self.kept
            .left(self.plan.duration_ns)
            .max(Duration::from_millis(10))
    }

    fn tick(&mut self) {
        if !self.observer.looks() {
            return;
        }
        let loads = self.loads.as_ref().map(LoadSet::status).unwrap_or_default();
        let mut notes: Vec<String> = self
            .kept
            .run
            .demands
            .iter()
            .filter(|demand| demand.standing == Standing::NotInForce)
            .map(|demand| {
                format!(
                    "{}: asked {}, found {}",
                    demand.name(),
                    facts::requested(demand),
                    facts::found(demand)
                )
            })
            .collect();
        let run = &self.kept.run;
        let last = run.events.last();
        notes.extend(last.map(|event| facts::event(event, &run.tool.name)));
        let elapsed_ns = self.kept.elapsed_ns();
        let view = view::of(
            self.plan,
            &self.gathering.look(),
            &loads,
            elapsed_ns,
            &notes,
        );
        self.observer.tick(&view);
    }

    fn save_under_way(&mut self) {
        let lanes = compose::copy(&self.gathering.look(), &self.lined.accounts);
        compose::fill(&mut self.kept.run, self.kept.start_ns, &lanes);
        self.kept.run.blocks = self.stretches.blocks();
        self.kept.run.own_cost.collector_cpu_ns = self.gathering.cpu_ns();
        let loads = self.loads.as_ref().map(LoadSet::status).unwrap_or_default();
        self.kept.run.loads = loads.iter().map(compose::load_under_way).collect();
        self.put_explanation();
        let beside = windows_of(&self.explaining);
        self.kept.save_under_way(beside, self.observer);
    }

    /// Ends everything in order, judges, and saves.
    fn close(mut self, state: State) -> Run {
        self.observer.stage("ending the run");
        // While the probes can still be asked.
        self.look_at_accounts();
        self.lined.halt.now();
        let outcomes = self.end_probes();
        if let Some(stops) = &mut self.stops {
            stops.end();
        }
        self.gathering.end();
        self.tell_stops();
        if let Some(explaining) = &mut self.explaining {
            explaining.end();
        }
        let pauses = self.loads.as_mut().map(LoadSet::look_last);
        self.tell_pauses(&pauses.unwrap_or_default());
        let loads = self.loads.take().map(LoadSet::stop).unwrap_or_default();
        self.kept.run.loads = loads.into_iter().map(compose::load).collect();
        self.tell_failed_loads();
        // Probe threads that are gone by now are no event to the watch.
        let elapsed_ns = self.kept.elapsed_ns();
        compose::last_conditions(&mut self.kept.run, &mut self.watch, elapsed_ns);
        self.put_stolen(elapsed_ns);
        let lanes = compose::copy(&self.gathering.look(), &self.lined.accounts);
        compose::fill(&mut self.kept.run, self.kept.start_ns, &lanes);
        self.kept.run.blocks = self.stretches.blocks();
        self.kept.run.own_cost.collector_cpu_ns = self.gathering.cpu_ns();
        let broke = outcomes
            .iter()
            .flatten()
            .any(|o| matches!(o.ended, Ended::Broke));
        self.tell_failed_probes(&outcomes);
        compose::finish_threads(&mut self.kept.run, outcomes);
        let highest_ns = self.kept.run.threads.iter().map(|t| t.latency.max_ns).max();
        let by_stop = self.kept.run.stops.is_some() && highest_ns <= self.plan.break_ns;
        self.kept.run.state = match state {
            State::Finished if broke && by_stop => State::Stopped(Ending::ProcessStopped),
            State::Finished if broke => State::Stopped(Ending::BreakValue),
            other => other,
        };
        self.end_sampling();
        self.put_explanation();
        self.held = None;
        self.observer.stage("analysing");
        compose::judge(&mut self.kept.run);
        let breach = self.keep_breach();
        if let Some(ring) = &breach.ring {
            let (run, directory) = (&self.kept.run, self.kept.directory);
            self.observer.breached(ring, run, directory);
        }
        let beside = windows_of(&self.explaining);
        let beside = |directory: &RunDirectory| {
            let windows = beside(directory);
            windows.and(breach.save(directory))
        };
        self.kept.save_last(beside, self.observer)
    }

    /// A load that failed was asked for and not there; that it makes the run
    /// invalid follows from the load itself.
    fn tell_failed_loads(&mut self) {
        let loads = &self.kept.run.loads;
        let failed = loads.iter().filter_map(|load| {
            Some(Happening::LoadFailed {
                load: load.name.clone(),
                error: load.failed.clone()?,
            })
        });
        for what in failed.collect::<Vec<_>>() {
            self.kept.event(what);
        }
    }

    /// A probe whose wait failed measured only until then; that this makes the run
    /// invalid follows from the thread itself.
    fn tell_failed_probes(&mut self, outcomes: &[Option<Outcome>]) {
        for (index, outcome) in outcomes.iter().enumerate() {
            let Some(Outcome {
                ended: Ended::Failed(error),
                ..
            }) = outcome
            else {
                continue;
            };
            let cpu = self.plan.cpus[index];
            let error = error.to_string();
            self.kept.event(Happening::ProbeFailed { cpu, error });
        }
    }

    fn end_probes(&mut self) -> Vec<Option<Outcome>> {
        let interval = Duration::from_nanos(self.plan.interval.nominal_ns());
        let patience = Instant::now() + END_WITHIN + interval.min(END_WITHIN);
        while !self.lined.probes.iter().all(Probe::is_over) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.lined.probes.drain(..).map(Probe::finish).collect()
    }

    fn put_explanation(&mut self) {
        if let Some(explaining) = &self.explaining {
            self.kept.run.explanation = Some(explaining.explanation());
            if let Some(gaps) = &mut self.kept.run.gaps {
                for (watched, thread) in gaps.threads.iter_mut().zip(&self.kept.run.threads) {
                    watched.smi = explaining.smi_count(thread.cpu);
                }
            }
            self.kept.run.own_cost.tracer = Some(explaining.cost());
        }
    }

    /// The hypervisor's own account, by which bills are made, where the tracer saw it.
    fn put_stolen(&mut self, elapsed_ns: u64) {
        let Some(explaining) = &self.explaining else {
            return;
        };
        let cpus: BTreeSet<usize> = self.plan.cpus.iter().copied().collect();
        let each: Option<Vec<u64>> = cpus.iter().map(|cpu| explaining.stolen_ns(*cpu)).collect();
        if let Some(each) = each {
            let total_ns: u64 = each.iter().sum();
            let span_ns = elapsed_ns.saturating_mul(cpus.len() as u64).max(1);
            let virtualisation = &mut self.kept.run.system.virtualisation;
            virtualisation.stolen_ns = Some(total_ns);
            virtualisation.stolen_share = Some((total_ns as f64 / span_ns as f64).min(1.0));
            virtualisation.stolen_grain_ns = Some(1);
        }
    }

    fn end_sampling(&mut self) {
        // The sinks' end is what tells the writer to close its files.
        self.gathering.look().end_sinks();
        if let Some(sampling) = self.sampling.take() {
            let measured: u64 = self
                .kept
                .run
                .threads
                .iter()
                .map(|thread| thread.latency.count)
                .sum();
            let written = sampling.end();
            if let Some(what) = written.lacks(measured) {
                let event = Event::told(0, what);
                let why = facts::event(&event, "");
                self.kept.directory.note_unsaved(SAMPLES_DIRECTORY, why);
                self.kept.event(event.what);
            }
        }
    }
}

/// What saves the windows beside the record.
fn windows_of(
    explaining: &Option<Explaining>,
) -> impl FnOnce(&RunDirectory) -> Result<(), RecordError> {
    |directory| {
        let windows = explaining.as_ref();
        windows.map_or(Ok(()), |it| it.save(directory))
    }
}
