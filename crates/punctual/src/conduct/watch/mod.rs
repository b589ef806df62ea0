//! Watches a running program's threads, or every real-time thread of the machine, without changing
//! them.

mod budgets;
mod compose;
mod followed;
mod limits;
mod marks;
mod members;
mod off_cpu;
mod paced;
mod plan;
mod program;
mod queues;
mod runtime;
mod skipped;
mod stopped;
mod ticks;
mod whole;

use std::time::{Duration, SystemTime};

use punctual_rt::sys::task;
use punctual_rt::sys::time::clock_now;
use punctual_stats::requirement::Requirement;

use super::compose::{empty, put_memory};
use super::error::ConductError;
use super::explain::{self, Wanted};
use super::housekeeper::NICE;
use super::keeping::{Keeping, save};
use super::observer::{Observed, Observer};
use super::plan::TracingPlan;
use super::signals::Signals;
use super::under_way::{Measured, UnderWay};
use crate::system::monitor::{Monitor, Monitored};
use limits::Limits;
pub use plan::{Scope, Target, WatchPlan};
use program::Program;
use punctual_machine::Root;
use punctual_machine::survey::{self, SurveyRequest};
use punctual_record::event::Gone;
use punctual_record::live::{LiveWatch, Step};
use punctual_record::{Demand, Ending, RecordError, Run, RunDirectory, State, time};
use punctual_trace::attribute::event::Window;
use punctual_trace::watch::Other;
use runtime::RuntimeWatch;
use whole::Whole;

/// The length of a watch, and its limits.
#[derive(Debug, Clone)]
struct Length {
    /// The length of the watch in ns, if it has one.
    duration_ns: Option<u64>,
    /// The first latency above, in ns, ends it.
    break_ns: Option<u64>,
    /// The deadline in ns, if there is one.
    deadline_ns: Option<u64>,
    /// All that a wake-up is compared with.
    limits: Limits,
}

/// A wake-up above the break value.
#[derive(Debug, Clone)]
struct Breached {
    /// The thread, by its ID in the kernel.
    task: Other,
    /// The CPU on which the thread ran again.
    cpu: u32,
    /// The instant from which its latency counts.
    from_ns: u64,
    /// When the thread ran again.
    woken_ns: u64,
}

impl Breached {
    fn latency_ns(&self) -> u64 {
        self.woken_ns.saturating_sub(self.from_ns)
    }
}

/// What is watched, and how it is read.
trait Watched {
    /// How often [`Watched::collect`] is called.
    const NAP: Duration;

    /// Since when it is watched: its times count from then.
    fn start_ns(&self) -> u64;

    /// Takes new data.
    fn collect(&mut self, elapsed_ns: u64);

    /// Reads the kernel's counts, several times a second.
    fn count(&mut self, elapsed_ns: u64);

    /// Why there is nothing left to watch, if so.
    fn is_over(&self) -> Option<Gone> {
        None
    }

    /// Its state, for the display.
    fn view(&self, run: &Run, elapsed_ns: u64) -> LiveWatch;

    /// Puts the figures so far into the record.
    fn compose(&mut self, run: &mut Run, elapsed_ns: u64);

    /// Saves the files beside the record.
    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let _ = directory;
        Ok(())
    }

    /// Takes the last data, and ends the helpers.
    fn finish(&mut self, elapsed_ns: u64);

    /// The first wake-up above the break value, once there was one.
    fn breach(&self) -> Option<&Breached>;

    /// The content of the recorder around it, after the watch has finished.
    fn ring(&self) -> Option<Window> {
        None
    }

    /// The requested and actual conditions of the watch.
    fn demand(&self, run: &Run) -> Demand;
}

/// Watches until the end, and returns the record, judged and saved.
///
/// # Errors
/// The watch could not start; later problems are in the record.
pub fn watch(
    plan: &WatchPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    watch_with(signals, plan, directory, progress)
}

/// [`watch`], with signals that the caller has listened for since it began.
///
/// # Errors
/// As [`watch`].
pub(super) fn watch_with(
    signals: Signals,
    plan: &WatchPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let root = Root::live();
    progress.observe(Observed::Step(&Step::ReadSettings));
    let cpus = survey::online(&root);
    let mut run = survey(plan, &cpus, &root);
    progress.observe(Observed::Step(&Step::SetUpTracing));
    let limits_ns = plan.claim.requirements.iter().map(Requirement::limit_ns);
    let length = Length {
        duration_ns: plan.duration_ns,
        break_ns: plan.break_ns,
        deadline_ns: plan.claim.deadline_ns(),
        limits: Limits::new(limits_ns.chain(plan.break_ns)),
    };
    if let Some(target) = &plan.target {
        // Its BPF programs must see each event before ours, so that the event that ends a wake-up is
        // in its window.
        let wanted = explained(&plan.tracing, length.deadline_ns, &cpus);
        let explaining = explain::begin(wanted, None, &mut run.events);
        let marks = (&plan.marks[..], &plan.limits[..]);
        let above_ns = plan.tracing.above_ns.or(length.deadline_ns);
        let runtime = plan
            .runtime
            .map(|preset| RuntimeWatch::new(preset, above_ns));
        let events = &mut run.events;
        let mut program = Program::begin(
            target, plan.scope, length, marks, runtime, explaining, events,
        )?;
        program.compose(&mut run, 0);
        measure(run, directory, progress, signals, &cpus, program)
    } else {
        let whole = Whole::begin(length, plan.scope.run_queue)?;
        measure(run, directory, progress, signals, &cpus, whole)
    }
}

/// A record of the machine, before anything is watched.
fn survey(plan: &WatchPlan, cpus: &[usize], root: &Root) -> Run {
    let request = SurveyRequest {
        probed_cpus: cpus.to_vec(),
        priority: 0,
    };
    let started = time::rfc3339(SystemTime::now());
    let machine = survey::survey(root, &request);
    let command = plan.command.clone();
    empty("watch", command, plan.request(cpus), started, machine)
}

/// What to trace around wake-ups; `None` if nothing is explained.
fn explained(plan: &TracingPlan, deadline_ns: Option<u64>, cpus: &[usize]) -> Option<Wanted> {
    plan.explain.then(|| Wanted {
        cpus: cpus.to_vec(),
        threads: Vec::new(),
        above_ns: plan.above_ns.or(deadline_ns),
        stack_above_ns: plan.stack_above_ns,
        tasks: Vec::new(),
        unbound: Vec::new(),
        locks: std::collections::BTreeMap::new(),
        polling: None,
        housekeeping: None,
    })
}

fn measure<W: Watched>(
    mut run: Run,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
    signals: Signals,
    cpus: &[usize],
    watched: W,
) -> Result<Run, ConductError> {
    let start_ns = watched.start_ns();
    run.start_ns = Some(start_ns);
    save(directory, &run)?;
    directory.reserve::<Run>();
    // Optional: events that are overwritten before they are read are counted.
    let _ = task::set_nice(NICE);
    let cpus = cpus.iter().map(|&cpu| Monitored {
        cpu,
        tid: 0,
        raised: None,
    });
    let monitor = Monitor::start(&Root::live(), &cpus.collect::<Vec<_>>());
    let threads = Threads {
        duration_ns: run.request.duration_ns,
        used_ns: clock_now(libc::CLOCK_THREAD_CPUTIME_ID),
        watched,
    };
    let kept = Keeping::new(run, directory, monitor, start_ns);
    let under_way = UnderWay::new(kept, progress, signals);
    Ok(under_way.until_judged(threads))
}

/// What a watch measures: threads of running programs.
struct Threads<W> {
    duration_ns: Option<u64>,
    /// Processor time of the setup.
    used_ns: u64,
    watched: W,
}

impl<W: Watched> Measured for Threads<W> {
    const ENDING: Step = Step::EndWatch;
    const LEAST_NAP: Duration = Duration::from_millis(1);
    const INTERRUPT_FINISHES: bool = true;

    fn nap(&self) -> Duration {
        W::NAP
    }

    fn collect(&mut self, elapsed_ns: u64) {
        self.watched.collect(elapsed_ns);
    }

    fn has_breach(&self) -> bool {
        self.watched.breach().is_some()
    }

    fn is_complete(&self, elapsed_ns: u64) -> bool {
        self.duration_ns
            .is_some_and(|length_ns| elapsed_ns >= length_ns)
    }

    fn count(&mut self, elapsed_ns: u64) {
        self.watched.count(elapsed_ns);
    }

    fn show(&self, run: &Run, elapsed_ns: u64, progress: &mut dyn Observer) {
        progress.observe(Observed::Watched(&self.watched.view(run, elapsed_ns)));
    }

    fn has_vanished(&self) -> Option<Gone> {
        self.watched.is_over()
    }

    fn compose(&mut self, run: &mut Run, elapsed_ns: u64) {
        run.measured_ns = elapsed_ns;
        self.watched.compose(run, elapsed_ns);
        let used_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        run.own_cost.collector_cpu_ns = used_ns.saturating_sub(self.used_ns);
        put_memory(run);
    }

    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        self.watched.save_beside(directory)
    }

    fn finish(&mut self, kept: &mut Keeping<'_>) {
        self.watched.finish(kept.elapsed_ns());
    }

    fn conclude(&mut self, kept: &mut Keeping<'_>, state: State) -> State {
        if let Some(what) = compose::never_woken(&kept.run) {
            kept.event(what);
        }
        kept.run.demands = compose::demands(self.watched.demand(&kept.run), &kept.run);
        if self.watched.breach().is_none() || state != State::Finished {
            return state;
        }
        if let Some(what) = compose::breached(&kept.run) {
            kept.event(what);
        }
        State::Stopped(Ending::BreakValue)
    }

    fn ring(&self, _: &Run) -> Option<Window> {
        self.watched.ring()
    }
}
