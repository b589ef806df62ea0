//! Watches what runs already: a program's threads, or every real-time thread of the machine.
//! Nothing about it is changed.

mod budgets;
mod compose;
mod followed;
mod marks;
mod members;
mod off_cpu;
mod program;
mod queues;
mod skipped;
mod stopped;
mod system;

use std::time::{Duration, Instant, SystemTime};

use punctual_rt::clock;
use punctual_rt::sys::task;
use punctual_rt::sys::time::clock_now;
use punctual_stats::requirement::Requirement;

use super::breach::{self, Breach};
use super::error::ConductError;
use super::housekeeper::NICE;
use super::keeping::Keeping;
use super::observer::Observer;
use super::session::{SAVE_EVERY, TICK, WATCH_EVERY, save};
use super::signals::Signals;
use crate::system::group::Group;
use crate::system::process::Process;
use crate::system::watch::{self, Watch};
use crate::system::{self as machine, Root, SurveyRequest};
use program::Program;
use punctual_record::event::Gone;
use punctual_record::{Demand, Ending, Happening, RecordError, Run, RunDirectory, State, time};
use punctual_report::live::LiveWatch;
use punctual_trace::attribute::event::Window;
use punctual_trace::watch::Other;
use punctual_trace::watch::marks::Mark;
use system::System;

/// A watch that can be begun.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The command line as it was given.
    pub command: Vec<String>,
    /// What is watched; absent for every real-time thread of the machine.
    pub target: Option<Target>,
    /// Its threads of ordinary priority too.
    pub every: bool,
    /// Also where the threads are while they are off the CPU.
    pub off_cpu: bool,
    /// Also how long they wait for a CPU; of a whole system every thread.
    pub run_queue: bool,
    /// Length of the watch in ns; absent: until it is interrupted, or the program ends.
    pub duration_ns: Option<u64>,
    /// End at the first latency above this, in ns.
    pub break_ns: Option<u64>,
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// Level of confidence, in (0, 1).
    pub confidence: f64,
    /// Places of the program that its threads pass.
    pub marks: Vec<Mark>,
    /// How long each of them may at most take, in ns, in their order.
    pub limits: Vec<Option<u64>>,
    /// Explain late wake-ups of the program.
    pub explain: bool,
    /// Those later than this, in ns; absent for the deadline.
    pub explain_above_ns: Option<u64>,
    /// How late a thread is when what runs in its place is interrupted and its stack taken.
    pub stack_above_ns: Option<u64>,
}

/// Whose threads are watched.
#[derive(Debug, Clone)]
pub enum Target {
    /// One program's.
    Program {
        /// Which.
        process: Process,
        /// Its children's too, and theirs.
        children: bool,
    },
    /// Every program's of a name, those too that come later.
    Named(String),
    /// Every program's in a control group.
    Group {
        /// As it was asked for.
        wanted: String,
        /// Which.
        group: Group,
    },
}

impl Target {
    /// In a few words.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Program { process, .. } => &process.name,
            Self::Named(name) => name,
            Self::Group { wanted, .. } => wanted,
        }
    }

    /// The one program that it begins with, where there is one.
    #[must_use]
    pub fn program(&self) -> Option<&Process> {
        match self {
            Self::Program { process, .. } => Some(process),
            Self::Named(_) | Self::Group { .. } => None,
        }
    }
}

impl WatchPlan {
    fn deadline_ns(&self) -> Option<u64> {
        self.requirements.first().map(Requirement::limit_ns)
    }
}

/// A wake-up above the break value.
#[derive(Debug, Clone)]
struct Breached {
    /// Whose, by the kernel's number.
    task: Other,
    /// On which CPU the thread ran again.
    cpu: u32,
    /// What its latency counts from.
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

    /// Takes what has come.
    fn collect(&mut self, elapsed_ns: u64);

    /// Reads the kernel's counts, several times a second.
    fn count(&mut self, elapsed_ns: u64);

    /// Why there is nothing left to watch, if so.
    fn is_over(&self) -> Option<Gone> {
        None
    }

    /// How it stands, for the screen.
    fn view(&self, run: &Run, elapsed_ns: u64) -> LiveWatch;

    /// Puts the figures as they stand into the record.
    fn compose(&mut self, run: &mut Run, elapsed_ns: u64);

    /// Saves what stands beside the record.
    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let _ = directory;
        Ok(())
    }

    /// Takes the last that comes, and ends what goes on beside.
    fn finish(&mut self, elapsed_ns: u64);

    /// The first wake-up above the break value, once there was one.
    fn breach(&self) -> Option<&Breached>;

    /// Everything that is still recorded around it, once the watch has finished.
    fn ring(&self) -> Option<Window> {
        None
    }

    /// What was asked of the watch, and what was got.
    fn demand(&self, run: &Run) -> Demand;
}

/// Watches until the end, and returns the record, judged and saved.
///
/// # Errors
/// When the watch could not be begun; what comes up later stands in the record.
pub fn watch(
    plan: &WatchPlan,
    directory: &RunDirectory,
    observer: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    observer.stage("looking at the machine");
    let cpus = machine::online(&root);
    let request = SurveyRequest {
        probed_cpus: cpus.clone(),
        priority: 0,
    };
    let started = time::rfc3339(SystemTime::now());
    let mut run = compose::begun(plan, &cpus, started, machine::survey(&root, &request));
    observer.stage("setting up tracing");
    if let Some(target) = &plan.target {
        let program = Program::begin(plan, target, &cpus, &mut run)?;
        conduct(plan, directory, observer, signals, (run, &cpus), program)
    } else {
        let system = System::begin(plan)?;
        conduct(plan, directory, observer, signals, (run, &cpus), system)
    }
}

fn conduct<W: Watched>(
    plan: &WatchPlan,
    directory: &RunDirectory,
    observer: &mut dyn Observer,
    signals: Signals,
    (mut run, cpus): (Run, &[usize]),
    watched: W,
) -> Result<Run, ConductError> {
    let start_ns = clock::now_ns();
    run.start_ns = Some(start_ns);
    save(directory, &run)?;
    directory.reserve();
    // A wish: what is overwritten before it is read is counted.
    let _ = task::set_nice(NICE);
    let probed = cpus.iter().map(|&cpu| watch::Probe { cpu, tid: 0 });
    let conditions = Watch::start(&Root::live(), &probed.collect::<Vec<_>>());
    let session = Session {
        plan,
        observer,
        kept: Keeping::new(run, directory, start_ns),
        used_ns: clock_now(libc::CLOCK_THREAD_CPUTIME_ID),
        watched,
        conditions,
        signals,
    };
    Ok(session.run())
}

/// A watch under way.
struct Session<'a, W> {
    plan: &'a WatchPlan,
    observer: &'a mut dyn Observer,
    kept: Keeping<'a>,
    /// Processor time that the setting up took.
    used_ns: u64,
    watched: W,
    conditions: Watch,
    signals: Signals,
}

impl<W: Watched> Session<'_, W> {
    fn run(mut self) -> Run {
        let state = self.until_over();
        self.close(state)
    }

    /// Waits for the end, whatever brings it, and keeps the record meanwhile.
    fn until_over(&mut self) -> State {
        let begin = Instant::now();
        let (mut next_tick, mut next_look, mut next_save) =
            (begin, begin + WATCH_EVERY, begin + SAVE_EVERY);
        loop {
            let elapsed_ns = self.kept.elapsed_ns();
            self.watched.collect(elapsed_ns);
            if self.watched.breach().is_some() {
                return State::Finished;
            }
            match (self.signals.end(), self.plan.duration_ns) {
                // That is how one without a length ends.
                (Some(Ending::Interrupt), None) => return State::Finished,
                (Some(signal), _) => {
                    self.kept.event(Happening::Signal { signal });
                    return State::Stopped(signal);
                }
                (None, Some(length_ns)) if elapsed_ns >= length_ns => return State::Finished,
                _ => {}
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.watched.count(elapsed_ns);
                if self.observer.looks() {
                    let view = self.watched.view(&self.kept.run, elapsed_ns);
                    self.observer.watched(&view);
                }
                if let Some(gone) = self.watched.is_over() {
                    self.kept.event(Happening::ProgramEnded { gone });
                    return State::Finished;
                }
            }
            if now >= next_look {
                next_look = now + WATCH_EVERY;
                self.conditions
                    .poll_into(elapsed_ns, &mut self.kept.run.events);
            }
            if now >= next_save {
                next_save = now + SAVE_EVERY;
                self.save_under_way();
            }
            std::thread::sleep(W::NAP.min(self.until_end()));
        }
    }

    fn until_end(&self) -> Duration {
        self.kept
            .left(self.plan.duration_ns)
            .max(Duration::from_millis(1))
    }

    fn save_under_way(&mut self) {
        self.compose();
        let beside = |directory: &RunDirectory| self.watched.save_beside(directory);
        self.kept.save_under_way(beside, self.observer);
    }

    fn compose(&mut self) {
        let elapsed_ns = self.kept.elapsed_ns();
        self.kept.run.measured_ns = elapsed_ns;
        self.watched.compose(&mut self.kept.run, elapsed_ns);
        let used_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        self.kept.run.own_cost.collector_cpu_ns = used_ns.saturating_sub(self.used_ns);
        if let Ok(usage) = task::process_usage() {
            let kibibytes = u64::try_from(usage.ru_maxrss).unwrap_or(0);
            self.kept.run.own_cost.peak_resident_bytes = kibibytes * 1024;
        }
    }

    /// Ends everything in order, judges, and saves.
    fn close(mut self, state: State) -> Run {
        let ended_itself = state == State::Finished;
        let break_ns = self.plan.break_ns.filter(|_| ended_itself);
        let frozen = breach::freeze(break_ns, &mut self.kept);
        self.observer.stage("ending the watch");
        let elapsed_ns = self.kept.elapsed_ns();
        self.watched.finish(elapsed_ns);
        super::compose::last_conditions(&mut self.kept.run, &mut self.conditions, elapsed_ns);
        self.compose();
        if let Some(what) = compose::never_woken(&self.kept.run) {
            self.kept.event(what);
        }
        self.kept.run.demands =
            compose::demands(self.watched.demand(&self.kept.run), &self.kept.run);
        self.kept.run.state = match self.watched.breach() {
            Some(_) if ended_itself => {
                if let Some(what) = compose::breached(&self.kept.run) {
                    self.kept.event(what);
                }
                State::Stopped(Ending::BreakValue)
            }
            _ => state,
        };
        self.observer.stage("analysing");
        super::compose::judge(&mut self.kept.run);
        let breach = Breach::keep(frozen, &mut self.kept, |_| self.watched.ring());
        if let Some(ring) = &breach.ring {
            let (run, directory) = (&self.kept.run, self.kept.directory);
            self.observer.breached(ring, run, directory);
        }
        let beside = |directory: &RunDirectory| {
            let windows = self.watched.save_beside(directory);
            windows.and(breach.save(directory))
        };
        self.kept.save_last(beside, self.observer)
    }
}
