//! Executes a set of tasks, and records when each job was released, began and ended.

mod calls;
mod chains;
mod compose;
mod plan;
mod split;
mod suspects;
mod tasks;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use punctual_rt::clock;
use punctual_rt::ring::{Consumer, ring};

use super::blocks::Stretches;
use super::compose::{PEAKS, empty, stop_event};
use super::error::ConductError;
use super::explain::{self, Explaining, TaskSeen, Wanted};
use super::keeping::{Keeping, save};
use super::observer::{Observed, Observer};
use super::run::gather::Gathering;
use super::run::in_force::{self, Held};
use super::run::pace::Pace;
use super::run::setup;
use super::run::stops::StopDetector;
use super::run::time_limit::TimeLimit;
use super::signals::Signals;
use super::under_way::{Measured, UnderWay};
use crate::probe::collector::{Collector, Lane, SampleSink};
use crate::probe::cycle::Sample;
use crate::probe::tally::{Halves, Tally};
use crate::system::monitor::{Monitor, Monitored};
use chains::ChainTally;
pub use plan::ExecPlan;
use punctual_exec::{Outcome, Passed, Unended};
use punctual_load::LoadSet;
use punctual_machine::Root;
use punctual_machine::survey::{self, SurveyRequest};
use punctual_record::event::Halted;
use punctual_record::live::Step;
use punctual_record::taskset::{CpuSpeed, LockProtocol, TaskPolicy, TaskRun};
use punctual_record::{
    Ending, Event, Happening, Interval, RecordError, Run, RunDirectory, State, time,
};
use punctual_trace::attribute::event::Window;
use suspects::Suspects;
pub use tasks::ExecError;
use tasks::{Figures, Tasks};

/// How often the end of the run is checked.
const NAP: Duration = Duration::from_millis(250);

/// Executes a set until the end, and returns the record, judged and saved.
///
/// # Errors
/// The set could not be started; later problems are in the record.
pub fn exec(
    plan: &ExecPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    progress.observe(Observed::Step(&Step::ReadSettings));
    let mut run = survey(plan, &root);
    progress.observe(Observed::Step(&Step::MeasureSpeed));
    let speeds = tasks::speeds(plan)?;
    run.tasks = Some(TaskRun {
        set: plan.set.clone(),
        all_on_cpu: plan.all_on_cpu,
        allowed: plan.allowed,
        speeds: speeds.clone(),
        analysis: plan.analysis.clone(),
        tasks: Vec::new(),
        chains: Vec::new(),
    });
    let started = start(plan, directory, &root, run, &speeds, (progress, signals))?;
    Ok(started)
}

/// A record of the machine, before anything runs.
fn survey(plan: &ExecPlan, root: &Root) -> Run {
    let request = SurveyRequest {
        probed_cpus: plan.cpus(),
        priority: plan.priority(),
    };
    let started = time::rfc3339(SystemTime::now());
    let machine = survey::survey(root, &request);
    let command = plan.command.clone();
    empty("exec", command, plan.request(), started, machine)
}

/// The steps after the survey: tasks, the first save, tracing, load, read-back, and the execution.
fn start(
    plan: &ExecPlan,
    directory: &RunDirectory,
    root: &Root,
    mut run: Run,
    speeds: &[CpuSpeed],
    (progress, signals): (&mut dyn Observer, Signals),
) -> Result<Run, ConductError> {
    progress.observe(Observed::Step(&Step::SetUpTasks));
    let time_limit = TimeLimit::unless(|limit_us, hard_us| plan.beyond(limit_us, hard_us))?;
    // Of a set that can't be started nothing is kept.
    let (tasks, mut figures) = tasks::start(plan, speeds)?;
    save(directory, &run)?;
    directory.reserve::<Run>();
    let bound = |task: usize| match plan.cpus_of(task) {
        [cpu] => Some(*cpu),
        _ => None,
    };
    let cpus: Vec<Option<usize>> = (0..tasks.tids.len()).map(bound).collect();
    let pinned = tasks.tids.iter().zip(&cpus);
    let pinned: Vec<(i32, usize)> = pinned
        .filter_map(|(tid, cpu)| Some((*tid, (*cpu)?)))
        .collect();
    let wanted = plan.tracing.explain.then(|| Wanted {
        cpus: plan.cpus(),
        threads: pinned.clone(),
        above_ns: plan.tracing.above_ns,
        stack_above_ns: plan.tracing.stack_above_ns,
        tasks: seen(plan, &tasks, &cpus),
        unbound: unbound(&tasks, &cpus),
        locks: named_locks(plan, &tasks),
        polling: None,
        housekeeping: plan.housekeeping,
    });
    // Without a thread that it may follow, it would follow every thread of the machine.
    let wanted = wanted.filter(|wanted| !wanted.tasks.is_empty());
    let (mut explaining, feed) = explain::begin(wanted, None, &mut run.events).unzip();
    let sinks = feed.map(|feed| Box::new(feed) as Box<dyn SampleSink>);
    let suspects = figures
        .iter_mut()
        .map(|it| std::mem::replace(&mut it.suspects, ring(2).1));
    let suspects: Vec<_> = suspects.collect();
    let job_feed = explaining.as_mut().and_then(Explaining::take_job_feed);
    let suspects = job_feed
        .map(|feed| Box::new(Suspects::new(&plan.set, suspects, feed)) as Box<dyn SampleSink>);
    let sinks = sinks.into_iter().chain(suspects);
    setup::refuse_if_signalled(&signals)?;
    let loads = setup::start_loads(&plan.load, &signals, progress)?;
    let pace = Arc::new(Pace::of(&Interval::Fixed { interval_ns: 0 }));
    let stops = StopDetector::begin(&signals, plan.housekeeping, &pace)?;
    let (lanes, passed) = lanes(plan, &tasks, &cpus, figures);
    let collector =
        Collector::new(lanes, u64::MAX, sinks.collect()).with_evidence(Some(stops.evidence()));
    let gathering = Gathering::begin(collector, plan.housekeeping, &pace)?;
    let (held, demands) = in_force::hold_machine(
        &plan.conditions,
        plan.tracing.explain,
        plan.priority(),
        root,
        &mut run.system,
    );
    in_force::refuse_unmet(&plan.conditions, &demands)?;
    run.demands = demands;
    let ceilings = plan
        .set
        .locks
        .iter()
        .filter_map(|lock| match lock.protocol {
            LockProtocol::Protect { ceiling } => Some(u32::from(ceiling)),
            _ => None,
        });
    let ceiling = ceilings.max();
    let own = |tid: i32| {
        let task = tasks.tids.iter().position(|it| *it == tid)?;
        match plan.set.tasks.get(task)?.policy {
            TaskPolicy::Fifo { priority } | TaskPolicy::Rr { priority } => Some(priority.into()),
            _ => None,
        }
    };
    let monitored = pinned.iter().map(|(tid, cpu)| Monitored {
        cpu: *cpu,
        tid: *tid,
        raised: own(*tid).zip(ceiling),
    });
    let monitor = Monitor::start(root, &monitored.collect::<Vec<_>>());
    let start_ns = gathering.look().start_at(Tasks::next_start_ns());
    if let Some(explaining) = &explaining {
        explaining.count_stolen_from(start_ns);
    }
    tasks.go(start_ns, plan.duration_ns);
    let kept = Keeping::new(run, directory, monitor, start_ns);
    let chains = || plan.set.chains.iter();
    let first_of = chains().map(|chain| chain.tasks.first().copied().unwrap_or(0));
    let last_of = chains().map(|chain| chain.tasks.last().copied().unwrap_or(0));
    let throttling_every = kept.throttling_check_interval();
    let executing = Executing {
        start_ns,
        duration_ns: plan.duration_ns,
        tasks,
        cpus,
        gathering,
        stops,
        stops_told: 0,
        passed,
        first_of: first_of.collect(),
        last_of: last_of.collect(),
        chains: (0..plan.set.chains.len())
            .map(|chain| ChainTally::new(&plan.set, chain, start_ns, halves_of(plan)))
            .collect(),
        stretches: Stretches::new(),
        loads,
        held: Some(held),
        explaining,
        outcomes: Vec::new(),
        throttling_every,
        next_throttling: Instant::now() + throttling_every,
        time_limit,
    };
    let under_way = UnderWay::new(kept, progress, signals);
    Ok(under_way.until_judged(executing))
}

/// The tasks whose jobs are explained.
fn seen(plan: &ExecPlan, tasks: &Tasks, cpus: &[Option<usize>]) -> Vec<TaskSeen> {
    let each = plan.set.tasks.iter().zip(&tasks.tids).zip(cpus);
    each.zip(&tasks.helpers)
        .map(|(((task, tid), cpu), helpers)| TaskSeen {
            tid: *tid,
            helpers: helpers.clone(),
            name: task.name.clone(),
            policy: task.policy,
            cpu: *cpu,
        })
        .collect()
}

/// How the run is divided into halves.
fn halves_of(plan: &ExecPlan) -> Halves {
    match plan.duration_ns {
        Some(length_ns) => Halves::At((length_ns / 2).max(1)),
        None => Halves::Doubling(1_000_000_000),
    }
}

/// The threads of tasks that may run on several CPUs.
fn unbound(tasks: &Tasks, cpus: &[Option<usize>]) -> Vec<i32> {
    let each = tasks.tids.iter().zip(cpus);
    each.filter(|(_, cpu)| cpu.is_none())
        .map(|(tid, _)| *tid)
        .collect()
}

/// The locks of the set by their addresses.
fn named_locks(plan: &ExecPlan, tasks: &Tasks) -> BTreeMap<u64, String> {
    let names = plan.set.locks.iter().map(|lock| lock.name.clone());
    tasks.locks.iter().copied().zip(names).collect()
}

/// What the collector keeps: of each task its wake-ups, then of each its jobs. Also returns where the
/// outputs of chains come from.
fn lanes(
    plan: &ExecPlan,
    tasks: &Tasks,
    cpus: &[Option<usize>],
    figures: Vec<Figures>,
) -> (Vec<Lane>, Vec<Consumer<Passed>>) {
    let set = &plan.set;
    let peaks = (PEAKS / set.tasks.len().max(1)).clamp(256, 4096);
    let halves = halves_of(plan);
    let (mut wake_ups, mut jobs, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    for (index, figures) in figures.into_iter().enumerate() {
        let task = &set.tasks[index];
        let period_ns = set.period_ns(index).unwrap_or(0).max(1);
        let (cpu, tid) = (cpus[index].unwrap_or(0), tasks.tids[index]);
        let tally = |deadline_ns| {
            Tally::new(u64::MAX, deadline_ns, halves, peaks)
                .with_shortest_interval(period_ns)
                .with_interval(period_ns)
        };
        let lane = Lane::new(cpu, tid, figures.wake_ups, tally(u64::MAX));
        let is_bound = cpus[index].is_some();
        wake_ups.push(lane.with_interval(period_ns).with_sinks(is_bound));
        let lane = Lane::new(cpu, tid, figures.jobs, tally(task.deadline_ns));
        let more = (0..task.phases.len()).map(|phase| task.more_ns(phase));
        let lane = lane.with_more(more.max().unwrap_or(0));
        jobs.push(lane.with_interval(period_ns).with_sinks(false));
        passed.push(figures.passed);
    }
    wake_ups.append(&mut jobs);
    (wake_ups, passed)
}

/// A set that is being executed.
struct Executing {
    start_ns: u64,
    duration_ns: Option<u64>,
    tasks: Tasks,
    /// The CPUs that tasks are bound to.
    cpus: Vec<Option<usize>>,
    gathering: Gathering,
    stops: StopDetector,
    stops_told: usize,
    passed: Vec<Consumer<Passed>>,
    chains: Vec<ChainTally>,
    /// The first task of each chain, and the last.
    first_of: Vec<usize>,
    last_of: Vec<usize>,
    stretches: Stretches,
    loads: Option<LoadSet>,
    /// Restored before the run is judged.
    held: Option<Held>,
    explaining: Option<Explaining>,
    outcomes: Vec<Option<Outcome>>,
    throttling_every: Duration,
    next_throttling: Instant,
    time_limit: TimeLimit,
}

impl Measured for Executing {
    const ENDING: Step = Step::EndRun;
    const LEAST_NAP: Duration = Duration::from_millis(10);
    const INTERRUPT_FINISHES: bool = true;

    fn nap(&self) -> Duration {
        NAP.min(self.throttling_every)
            .min(self.time_limit.look.unwrap_or(NAP))
    }

    fn collect(&mut self, _: u64) {
        self.take_outputs(clock::now_ns());
    }

    fn is_complete(&self, elapsed_ns: u64) -> bool {
        // A step that never returns doesn't keep the set from its end.
        self.tasks.are_over() || self.tasks.is_overdue(elapsed_ns, self.duration_ns)
    }

    fn note(&mut self, kept: &mut Keeping<'_>) {
        self.tell_stops(kept);
        if Instant::now() >= self.next_throttling {
            self.next_throttling = Instant::now() + self.throttling_every;
            kept.check_throttling();
        }
        if let Some(loads) = &mut self.loads {
            super::run::wake_ups::tell_pauses(&loads.look(), kept);
        }
        let collector = self.gathering.look();
        let wake_ups = &collector.lanes[..collector.lanes.len() / 2];
        self.stretches.look_at_lanes(wake_ups, kept.elapsed_ns());
    }

    fn show(&self, run: &Run, elapsed_ns: u64, progress: &mut dyn Observer) {
        let most_by = self.explaining.as_ref().map(Explaining::most_by);
        let most_by = most_by.unwrap_or_default();
        let view = view::of(run, &self.gathering.look().lanes, &most_by, elapsed_ns);
        progress.observe(Observed::Tasks(&view));
    }

    fn compose(&mut self, run: &mut Run, elapsed_ns: u64) {
        let longest = self.tasks.longest_taken_ns();
        let copies = compose::copy(&self.gathering.look().lanes, &self.cpus, longest);
        let chains = self.chains.iter().zip(&self.last_of);
        let chains = chains.map(|(tally, last)| {
            let lost = self.passed.get(*last).map_or(0, Consumer::refused);
            tally.to_record(lost, elapsed_ns)
        });
        compose::fill(run, self.start_ns, &copies, chains.collect());
        run.blocks = self.stretches.blocks();
        run.own_cost.collector_cpu_ns = self.gathering.cpu_ns();
        if let Some(loads) = &self.loads {
            let status = loads.status();
            run.loads = status
                .iter()
                .map(super::run::compose::load_under_way)
                .collect();
        }
        if let Some(explaining) = &self.explaining {
            explaining.put_into(run);
            let tasks = run.tasks.iter_mut().flat_map(|tasks| &mut tasks.tasks);
            for (figures, bills) in tasks.zip(explaining.job_bills()) {
                figures.bills = Some(bills);
            }
        }
    }

    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let explaining = self.explaining.as_ref();
        explaining.map_or(Ok(()), |it| it.save(directory))
    }

    fn finish(&mut self, kept: &mut Keeping<'_>) {
        kept.check_throttling();
        let reached = |event: &Event| {
            matches!(
                event.what,
                Happening::Signal {
                    signal: Ending::TimeLimit
                }
            )
        };
        // What jobs miss without their priority is not the set's.
        let mut demoted_ns = None;
        if kept.run.events.iter().any(reached) {
            self.tasks.end.now();
            demoted_ns = Some(clock::now_ns());
            self.tasks.demote();
        }
        let unended;
        (self.outcomes, unended) = self.tasks.end();
        self.stops.end();
        self.gathering.end();
        let until_ns = demoted_ns.unwrap_or_else(clock::now_ns);
        self.count_unended(&kept.run, &unended, until_ns);
        self.take_outputs(u64::MAX);
        self.end_chains();
        self.tell_stops(kept);
        if let Some(explaining) = &mut self.explaining {
            explaining.end();
        }
        if let Some(mut loads) = self.loads.take() {
            super::run::wake_ups::tell_pauses(&loads.look_last(), kept);
            kept.run.loads = loads
                .stop()
                .into_iter()
                .map(super::run::compose::load)
                .collect();
        }
        super::run::wake_ups::tell_failed_loads(kept);
    }

    fn conclude(&mut self, kept: &mut Keeping<'_>, state: State) -> State {
        compose::finish(&mut kept.run, std::mem::take(&mut self.outcomes));
        self.held = None;
        state
    }

    fn ring(&self, _: &Run) -> Option<Window> {
        None
    }
}

impl Executing {
    /// Takes what came out of the chains; what came out long before an instant counts.
    fn take_outputs(&mut self, now_ns: u64) {
        let chains = &mut self.chains;
        for outputs in &mut self.passed {
            outputs.drain(|passed| {
                if let Some(tally) = chains.get_mut(passed.chain) {
                    tally.add(passed);
                }
            });
        }
        let stops = self.stop_instants();
        for (tally, first) in self.chains.iter_mut().zip(&self.first_of) {
            if let Some(read_ns) = self.tasks.first_read_ns(*first) {
                tally.begin(read_ns);
            }
            tally.settle(now_ns, &stops);
        }
    }

    /// When stops of the process that were detected began, and ended.
    fn stop_instants(&self) -> Vec<(u64, u64)> {
        self.gathering.look().stop_instants().to_vec()
    }

    /// A job that has not ended, and will not be waited for any longer, has missed its deadline if that had passed at an
    /// instant; so have those that its timer would have released until then.
    fn count_unended(&self, run: &Run, unended: &[Option<Unended>], until_ns: u64) {
        let end_ns = self.tasks.end.at_ns();
        let stops = self.stop_instants();
        let mut collector = self.gathering.look();
        let of_jobs = collector.lanes.len() / 2;
        let tasks = run.tasks.iter().flat_map(|tasks| &tasks.set.tasks);
        let jobs = collector.lanes[of_jobs..].iter_mut().zip(&self.outcomes);
        for (((lane, outcome), unended), task) in jobs.zip(unended).zip(tasks) {
            let is_missed = |it: &Unended| {
                // One that was stopped had no time to end.
                let stopped = |stop: &(u64, u64)| stop.0 < until_ns && stop.1 > it.arrival_ns;
                it.arrival_ns < end_ns && it.due_ns < until_ns && !stops.iter().any(stopped)
            };
            let Some(job) = unended.filter(|it| outcome.is_none() && is_missed(it)) else {
                continue;
            };
            let tally = &mut lane.tally;
            if tally.count() > 0 && tally.last_requested_ns >= job.arrival_ns {
                // It has ended after all.
                continue;
            }
            let more = compose::missed_after(task, job, until_ns, end_ns);
            tally.record_all(&[Sample::lost(job.arrival_ns, more)]);
        }
    }

    /// Judges what has not come out of the chains, after the last of what has.
    fn end_chains(&mut self) {
        let (end_ns, stops) = (self.tasks.end.at_ns(), self.stop_instants());
        for tally in &mut self.chains {
            tally.end(end_ns, &stops);
        }
    }

    /// Stops of the process that were detected.
    fn tell_stops(&mut self, kept: &mut Keeping<'_>) {
        let stops = self.gathering.look().stops.clone();
        for stop in stops.list.iter().skip(self.stops_told) {
            let who = match stop.cpu {
                Some(cpu) => Halted::Probe { cpu },
                None => Halted::Process,
            };
            kept.run.events.push(stop_event(stop, who));
        }
        self.stops_told = stops.list.len();
        kept.run.stops = (stops.count > 0).then_some(stops);
    }
}
