//! What a run measures: the wake-ups of its probe threads, or the gaps that they find.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::companion::Companion;
use super::compose;
use super::gather::Gathering;
use super::in_force::Held;
use super::pace::Pace;
use super::probes::Probes;
use super::sampling::Sampling;
use super::stops::StopDetector;
use super::time_limit::TimeLimit;
use super::tuned;
use super::view;
use crate::conduct::blocks::Stretches;
use crate::conduct::compose::stop_event;
use crate::conduct::explain::{Explaining, number};
use crate::conduct::keeping::Keeping;
use crate::conduct::observer::{Observed, Observer};
use crate::conduct::under_way::Measured;
use crate::probe::collector::Lane;
use crate::probe::cycle::Ended;
use crate::probe::thread::Outcome;
use punctual_load::{LoadSet, Pause};
use punctual_record::event::Halted;
use punctual_record::live::Step;
use punctual_record::samples::SAMPLES_DIRECTORY;
use punctual_record::{Ending, Happening, RecordError, Run, RunDirectory, State, Thread};
use punctual_record::{UnsavedPart, UnsavedReason};
use punctual_rt::clock;
use punctual_trace::attribute::event::Window;

/// How often the end of the run is checked.
const NAP: Duration = Duration::from_millis(250);

/// The probe threads, and everything that was set up for them.
pub(super) struct WakeUps {
    pub pace: Arc<Pace>,
    pub probes: Probes,
    pub gathering: Gathering,
    /// Ended before the rings are emptied for the last time.
    pub stops: Option<StopDetector>,
    pub time_limit: TimeLimit,
    pub loads: Option<LoadSet>,
    /// Restored before the run is judged.
    pub held: Option<Held>,
    pub sampling: Option<Sampling>,
    pub explaining: Option<Explaining>,
    pub companion: Option<Box<dyn Companion>>,
    pub course: Course,
}

/// Its progress.
pub(super) struct Course {
    stretches: Stretches,
    stops_told: usize,
    throttling_check_interval: Duration,
    next_throttling: Instant,
    start_ns: u64,
    /// The outcomes of the probe threads.
    outcomes: Vec<Option<Outcome>>,
    /// Which of them wait for an instant that is still to come.
    asleep: Vec<bool>,
}

impl Course {
    pub fn new(start_ns: u64, throttling_check_interval: Duration) -> Self {
        Self {
            stretches: Stretches::new(),
            stops_told: 0,
            throttling_check_interval,
            next_throttling: Instant::now() + throttling_check_interval,
            start_ns,
            outcomes: Vec::new(),
            asleep: Vec::new(),
        }
    }
}

impl Measured for WakeUps {
    const ENDING: Step = Step::EndRun;
    const LEAST_NAP: Duration = Duration::from_millis(10);
    const INTERRUPT_FINISHES: bool = false;

    fn nap(&self) -> Duration {
        NAP.min(self.course.throttling_check_interval)
            .min(self.time_limit.look.unwrap_or(NAP))
    }

    fn sleep(&self, length: Duration) {
        self.pace.nap(length);
    }

    fn is_complete(&self, _: u64) -> bool {
        let companion = self.companion.as_deref();
        self.probes.are_over() || companion.is_some_and(Companion::is_over)
    }

    fn note(&mut self, kept: &mut Keeping<'_>) {
        self.tell_stops(kept);
        if Instant::now() >= self.course.next_throttling {
            self.course.next_throttling = Instant::now() + self.course.throttling_check_interval;
            kept.check_throttling();
        }
        if let Some(loads) = &mut self.loads {
            tell_pauses(&loads.look(), kept);
        }
        let stretches = &mut self.course.stretches;
        stretches.look(&self.gathering.look(), kept.elapsed_ns());
    }

    fn show(&self, run: &Run, elapsed_ns: u64, progress: &mut dyn Observer) {
        let loads = self.loads.as_ref().map(LoadSet::status).unwrap_or_default();
        let view = view::of(run, &self.gathering.look(), &loads, elapsed_ns);
        progress.observe(Observed::Tick(&view));
    }

    fn compose(&mut self, run: &mut Run, _: u64) {
        let lanes = compose::copy(&self.gathering.look(), &self.probes.accounts);
        compose::fill(run, self.course.start_ns, &lanes);
        run.blocks = self.course.stretches.blocks();
        run.own_cost.collector_cpu_ns = self.gathering.cpu_ns();
        if let Some(loads) = &self.loads {
            let status = loads.status();
            run.loads = status.iter().map(compose::load_under_way).collect();
        }
        if let Some(companion) = &self.companion {
            companion.put_into(run);
        }
        if let Some(explaining) = &self.explaining {
            explaining.put_into(run);
            if let Some(gaps) = &mut run.gaps {
                for (watched, thread) in gaps.threads.iter_mut().zip(&run.threads) {
                    watched.smi = thread.cpu.and_then(|cpu| explaining.smi_count(cpu));
                }
            }
        }
    }

    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let explaining = self.explaining.as_ref();
        explaining.map_or(Ok(()), |it| it.save(directory))
    }

    fn finish(&mut self, kept: &mut Keeping<'_>) {
        // While the probes are alive.
        kept.check_throttling();
        if let Some(companion) = &mut self.companion {
            companion.end();
        }
        self.course.outcomes = self.probes.end();
        if let Some(stops) = &mut self.stops {
            stops.end();
        }
        self.gathering.end();
        let now_ns = clock::now_ns();
        let asleep = |lane: &Lane| self.probes.owes_nothing(&lane.tally, now_ns);
        self.course.asleep = self.gathering.look().lanes.iter().map(asleep).collect();
        self.tell_stops(kept);
        if let Some(explaining) = &mut self.explaining {
            explaining.end();
        }
        if let Some(mut loads) = self.loads.take() {
            tell_pauses(&loads.look_last(), kept);
            kept.run.loads = loads.stop().into_iter().map(compose::load).collect();
        }
        tell_failed_loads(kept);
    }

    fn conclude(&mut self, kept: &mut Keeping<'_>, state: State) -> State {
        self.put_stolen(kept);
        let outcomes = std::mem::take(&mut self.course.outcomes);
        let broke = outcomes
            .iter()
            .flatten()
            .any(|o| matches!(o.ended, Ended::Broke));
        self.tell_failed_probes(&outcomes, kept);
        compose::finish_threads(&mut kept.run, outcomes, &self.course.asleep);
        self.end_sampling(kept);
        let elapsed_ns = kept.elapsed_ns();
        let lost = tuned::lost(&kept.run.tuned, elapsed_ns);
        kept.run.events.extend(lost);
        self.held = None;
        let highest_ns = kept.run.threads.iter().map(|t| t.latency.max_ns).max();
        let by_stop = kept.run.stops.is_some() && highest_ns <= kept.run.request.break_ns;
        match state {
            State::Finished if broke && by_stop => State::Stopped(Ending::ProcessStopped),
            State::Finished if broke => State::Stopped(Ending::BreakValue),
            other => other,
        }
    }

    fn ring(&self, run: &Run) -> Option<Window> {
        let bills = run
            .explanation
            .iter()
            .flat_map(|explanation| &explanation.bills);
        let bill = bills.max_by_key(|bill| bill.latency_ns)?;
        let on = |thread: &&Thread| thread.cpu.map(number) == Some(bill.cpu);
        let thread = run.threads.iter().find(on)?;
        let woken_ns = bill.due_ns.saturating_add(bill.latency_ns);
        let explaining = self.explaining.as_ref()?;
        Some(explaining.ring(thread.tid, thread.cpu?, bill.due_ns, woken_ns))
    }
}

impl WakeUps {
    /// Stops of the process that were detected.
    fn tell_stops(&mut self, kept: &mut Keeping<'_>) {
        let stops = self.gathering.look().stops.clone();
        for stop in stops.list.iter().skip(self.course.stops_told) {
            let who = match stop.cpu {
                Some(cpu) => Halted::Probe { cpu },
                None => Halted::Process,
            };
            kept.run.events.push(stop_event(stop, who));
        }
        self.course.stops_told = stops.list.len();
        kept.run.stops = (stops.count > 0).then_some(stops);
    }

    /// A probe whose wait failed measured only until then; its error makes the run invalid.
    fn tell_failed_probes(&self, outcomes: &[Option<Outcome>], kept: &mut Keeping<'_>) {
        for (cpu, outcome) in self.probes.cpus().zip(outcomes) {
            let Some(Outcome {
                ended: Ended::Failed(error),
                ..
            }) = outcome
            else {
                continue;
            };
            let error = error.to_string();
            kept.event(Happening::ProbeFailed { cpu, error });
        }
    }

    /// The stolen time that the hypervisor reports and that bills use, if the tracer read it.
    fn put_stolen(&self, kept: &mut Keeping<'_>) {
        let Some(explaining) = &self.explaining else {
            return;
        };
        let elapsed_ns = kept.elapsed_ns();
        let cpus: BTreeSet<usize> = self.probes.cpus().collect();
        let each: Option<Vec<u64>> = cpus.iter().map(|cpu| explaining.stolen_ns(*cpu)).collect();
        if let Some(each) = each {
            let total_ns: u64 = each.iter().sum();
            let span_ns = elapsed_ns.saturating_mul(cpus.len() as u64).max(1);
            let virtualisation = &mut kept.run.system.virtualisation;
            virtualisation.stolen_ns = Some(total_ns);
            virtualisation.stolen_share = Some((total_ns as f64 / span_ns as f64).min(1.0));
            virtualisation.stolen_grain_ns = Some(1);
        }
    }

    fn end_sampling(&mut self, kept: &mut Keeping<'_>) {
        // Dropping the sinks makes the writer close its files.
        self.gathering.look().end_sinks();
        if let Some(sampling) = self.sampling.take() {
            let threads = kept.run.threads.iter();
            let measured: u64 = threads.map(|thread| thread.latency.count).sum();
            let written = sampling.end();
            if let Some(missing) = written.missing(measured) {
                let part = UnsavedPart::File {
                    name: SAMPLES_DIRECTORY.to_owned(),
                };
                let why = UnsavedReason::Samples(missing.clone());
                kept.directory.note_unsaved(part, why);
                kept.event(Happening::Samples(missing));
            }
        }
    }
}

/// The events of times in which a load did no work.
pub(in crate::conduct) fn tell_pauses(pauses: &[Pause], kept: &mut Keeping<'_>) {
    let events = pauses.iter().map(|p| compose::pause(p, kept.start_ns));
    let events: Vec<_> = events.collect();
    kept.run.events.extend(events);
}

/// The event of a load that failed; its failure makes the run invalid.
pub(in crate::conduct) fn tell_failed_loads(kept: &mut Keeping<'_>) {
    let loads = &kept.run.loads;
    let failed = loads.iter().filter_map(|load| {
        Some(Happening::LoadFailed {
            load: load.name.clone(),
            failure: load.failed.clone()?,
        })
    });
    for what in failed.collect::<Vec<_>>() {
        kept.event(what);
    }
}
