//! The controlling side: starts loads, watches them, stops them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use serde::{Deserialize, Serialize};

use super::board::state;
use super::generator::{self, Values};
use super::look::{LEAST_CPU_NS, Pause};
use super::running::Running;
use super::spec::{LoadItem, LoadSpec};
use super::worker::{COMMAND, Job};
use super::{memory, standard, sys};
use punctual_record::WorkCheck;

/// How long loads may take to get going.
const PATIENCE: Duration = Duration::from_secs(30);

/// The scheduling class of the loads, always with nice 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClass {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
}

impl LoadClass {
    /// The kernel's number for it.
    pub fn policy(self) -> i32 {
        match self {
            LoadClass::Other => libc::SCHED_OTHER,
            LoadClass::Batch => libc::SCHED_BATCH,
            LoadClass::Idle => libc::SCHED_IDLE,
        }
    }
}

impl fmt::Display for LoadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoadClass::Other => "other",
            LoadClass::Batch => "batch",
            LoadClass::Idle => "idle",
        })
    }
}

impl FromStr for LoadClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "other" => Ok(LoadClass::Other),
            "batch" => Ok(LoadClass::Batch),
            "idle" => Ok(LoadClass::Idle),
            _ => Err(format!(
                "unknown load class '{text}': it is other, batch or idle"
            )),
        }
    }
}

/// How loads are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSettings {
    /// Their scheduling class.
    pub class: LoadClass,
    /// The CPUs that they run on; `None` is all that are allowed, whatever
    /// the caller's own affinity is.
    pub cpus: Option<Vec<usize>>,
    /// How many CPUs `cpus: None` means; loads are scaled to it.
    pub allowed_cpus: usize,
    /// Where files are made, in a directory that is removed afterwards;
    /// `None` is the directory for temporary files.
    pub scratch_dir: Option<PathBuf>,
    /// The program that knows the verb [`worker::VERB`](super::worker::VERB);
    /// `None` is the running one.
    pub program: Option<PathBuf>,
    /// Moves each task's begin by up to 10 ms and makes random choices others.
    /// 0 does neither: that is the standard load.
    pub seed: u64,
    /// CPU time that a command must use in each second to count as working; with 0 it is
    /// not looked at.
    pub least_cpu_ns: u64,
}

impl Default for LoadSettings {
    fn default() -> Self {
        LoadSettings {
            class: LoadClass::default(),
            cpus: None,
            allowed_cpus: allowed_cpus(),
            scratch_dir: None,
            program: None,
            seed: 0,
            least_cpu_ns: LEAST_CPU_NS,
        }
    }
}

/// How many CPUs this process may have, whatever its affinity is now.
pub fn allowed_cpus() -> usize {
    // Affinity belongs to a thread: a new one tries, and takes it away again.
    let widened = || sys::set_affinity(None).and_then(|()| sys::affinity());
    let widened = thread::Builder::new()
        .spawn(widened)
        .ok()
        .and_then(|thread| thread.join().ok());
    // Where no thread can be had, what follows will say so.
    let cpus = widened.unwrap_or_else(sys::affinity);
    cpus.map_or(1, |cpus| cpus.len().max(1))
}

/// Why loads could not be started, or did not get going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    pub(super) fn new(load: &str, what: impl fmt::Display) -> Self {
        LoadError(format!("load {load}: {what}"))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// What a load is doing right now.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatus {
    /// Its name.
    pub name: String,
    /// The process above all of its processes.
    pub supervisor: u32,
    /// Tasks (processes or threads) that it is meant to have.
    pub expected: u64,
    /// Tasks that it has.
    pub alive: u64,
    /// Work done so far, in `unit`.
    pub work: u64,
    /// What it is counted in.
    pub unit: String,
    /// What else was counted, by its unit.
    pub also: BTreeMap<String, u64>,
    /// Seconds since its tasks were let go.
    pub seconds: f64,
    /// Work per second since then.
    pub rate: f64,
    /// Whether it goes on working, as far as it was looked at.
    pub check: WorkCheck,
    /// Whether it is finite and done.
    pub finished: bool,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What a load did, from the first to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Its name.
    pub name: String,
    /// Everything needed to do it again.
    pub parameters: BTreeMap<String, String>,
    /// Tasks (processes or threads) that did the work.
    pub processes: u64,
    /// Work done, in `unit`.
    pub work: u64,
    /// What it is counted in.
    pub unit: String,
    /// What else was counted, by its unit.
    pub also: BTreeMap<String, u64>,
    /// Seconds from the instant at which the tasks were let go until the load
    /// was done or stopped.
    pub seconds: f64,
    /// Work per second.
    pub rate: f64,
    /// Whether it went on working; absent where it was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<WorkCheck>,
    /// Why it failed, if it did. A run beside such a load is not valid.
    pub failed: Option<String>,
}

/// Loads that run. Dropping it kills them.
#[derive(Debug)]
pub struct LoadSet {
    loads: Vec<Running>,
}

impl LoadSet {
    /// Starts the loads; they wait until [`wait_ready`](Self::wait_ready) lets
    /// them go.
    pub fn start(spec: &LoadSpec, settings: &LoadSettings) -> Result<Self, LoadError> {
        let mut set = LoadSet { loads: Vec::new() };
        for job in jobs(spec, settings)? {
            set.loads.push(Running::start(job, settings)?);
        }
        Ok(set)
    }

    /// Waits until every task of every load is there, then lets all of them go
    /// at once.
    pub fn wait_ready(&self, timeout: Duration) -> Result<(), LoadError> {
        self.wait_ready_while(timeout, || true).map(|_| ())
    }

    /// As [`wait_ready`](Self::wait_ready), and gives up as soon as nobody wants
    /// them any more: then it is false, and none was let go.
    pub fn wait_ready_while(
        &self,
        timeout: Duration,
        wanted: impl Fn() -> bool,
    ) -> Result<bool, LoadError> {
        let deadline = Instant::now() + timeout;
        for load in &self.loads {
            loop {
                if let Some(error) = load.error() {
                    return Err(LoadError::new(&load.job.name, error));
                }
                if load.board.state() != state::STARTING {
                    break;
                }
                if Instant::now() >= deadline {
                    let (alive, expected) = (load.board.alive(), load.board.expected());
                    let what =
                        format!("only {alive} of {expected} tasks are there after {timeout:?}");
                    return Err(LoadError::new(&load.job.name, what));
                }
                if !wanted() {
                    return Ok(false);
                }
                let pause = Duration::from_millis(20);
                load.board.await_change(state::STARTING, pause);
            }
        }
        self.loads.iter().for_each(|load| load.board.release());
        Ok(true)
    }

    /// What each load is doing. Cheap: it reads memory, and no process is
    /// disturbed.
    pub fn status(&self) -> Vec<LoadStatus> {
        self.loads.iter().map(Running::status).collect()
    }

    /// Looks whether the loads go on working; to be called several times in a second. Gives
    /// the times without work that are over.
    pub fn look(&mut self) -> Vec<Pause> {
        let loads = self.loads.iter_mut();
        loads.filter_map(|load| load.look(sys::now())).collect()
    }

    /// Looks for the last time; the times without work that still go on are over too.
    pub fn look_last(&mut self) -> Vec<Pause> {
        let mut pauses = self.look();
        let loads = self.loads.iter_mut();
        pauses.extend(loads.filter_map(Running::idle_now));
        pauses
    }

    /// Whether every load is over: done or failed.
    pub fn is_over(&self) -> bool {
        let over = |load: &Running| load.board.is_over() || load.is_gone();
        self.loads.iter().all(over)
    }

    /// Stops the loads, waits until none of their processes is left, and says
    /// what they did. A finite load that was done by now has failed: what was
    /// measured since was measured without it.
    pub fn stop(self) -> Vec<LoadReport> {
        let done = |load: &Running| load.board.state() == state::FINISHED;
        let done: Vec<bool> = self.loads.iter().map(done).collect();
        let mut reports = self.conclude();
        for (report, _) in reports.iter_mut().zip(done).filter(|(_, done)| *done) {
            let seconds = report.seconds;
            let early = || format!("it was done after {seconds:.3} s, before it was stopped");
            report.failed = report.failed.take().or_else(|| Some(early()));
        }
        reports
    }

    /// As [`stop`](Self::stop), for loads that may be done.
    fn conclude(mut self) -> Vec<LoadReport> {
        let mut reports: Vec<_> = self.loads.iter().map(Running::report).collect();
        self.loads.iter().for_each(Running::tell_to_stop);
        for (load, report) in self.loads.iter_mut().zip(&mut reports) {
            let left = load.finish();
            if load.job.name == COMMAND {
                // Its supervisor has counted once more.
                report.work = load.board.work();
                report.rate = rate(report.work, report.seconds);
            }
            report.failed = report.failed.take().or(left);
            let unchecked = report.check.is_some_and(|check| check.is_off());
            if report.work == 0 && report.failed.is_none() && !unchecked {
                let seconds = report.seconds;
                report.failed = Some(format!("it did no work in {seconds:.3} s"));
            }
        }
        reports
    }
}

impl Drop for LoadSet {
    fn drop(&mut self) {
        self.loads.iter().for_each(Running::tell_to_stop);
        for load in &mut self.loads {
            load.finish();
        }
    }
}

/// Runs loads for `duration`, or (`None`) until finite ones are done, and says
/// what they did. It ends early when all loads are over.
pub fn standalone(
    spec: &LoadSpec,
    settings: &LoadSettings,
    duration: Option<Duration>,
    watch: impl Fn(&[LoadStatus]) -> bool,
) -> Result<Vec<LoadReport>, LoadError> {
    let set = LoadSet::start(spec, settings)?;
    // What is stopped before it was let go says so in its report.
    let wanted = || watch(&set.status());
    let ready = set.wait_ready_while(PATIENCE, wanted)?;
    let begin = Instant::now();
    let left = || duration.map(|duration| duration.saturating_sub(begin.elapsed()));
    let is_left = || left().is_none_or(|left| !left.is_zero());
    while ready && is_left() && !set.is_over() && watch(&set.status()) {
        let pause = Duration::from_millis(50);
        thread::sleep(left().map_or(pause, |left| left.min(pause)));
    }
    Ok(set.conclude())
}

/// The jobs of a specification, with all numbers in place and checked.
fn jobs(spec: &LoadSpec, settings: &LoadSettings) -> Result<Vec<Job>, LoadError> {
    let cpus = settings
        .cpus
        .as_ref()
        .map_or(settings.allowed_cpus, Vec::len);
    let available = memory::available();
    let job = |name: &str| Job {
        name: name.to_owned(),
        class: settings.class,
        cpus: settings.cpus.clone(),
        scratch: None,
        run: None,
        values: Values::new(),
    };
    if let LoadSpec::Command(line) = spec {
        let run = Some(line.into());
        return Ok(vec![Job {
            run,
            ..job(COMMAND)
        }]);
    }
    let mut wanted = 0_u64;
    let mut jobs = Vec::new();
    let items = spec.items();
    let loads = items.len();
    for LoadItem { name, set } in items {
        let unknown = || LoadError::new(&name, "there is no such load");
        let generator = generator::find(&name).ok_or_else(unknown)?;
        let standard = matches!(spec, LoadSpec::Standard)
            .then(|| standard::resolve(&name, cpus, available))
            .flatten();
        let set = standard.unwrap_or(set);
        let values = generator.resolve(&set, cpus, available, loads);
        wanted = wanted.saturating_add((generator.memory)(&values));
        let scratch = generator.scratch.then(|| scratch_path(settings));
        jobs.push(Job {
            scratch,
            values,
            ..job(&name)
        });
    }
    if wanted > available / memory::REFUSED_SHARE {
        let (wanted, available) = (wanted >> 20, available >> 20);
        let what = format!(
            "about {wanted} MiB of memory would be taken, and of the {available} MiB available \
             at most half may be: name fewer loads, or give them smaller numbers"
        );
        return Err(LoadError::new(&spec.label(), what));
    }
    Ok(jobs)
}

/// A name that no other load has.
pub(super) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{count}-{}", process::id(), sys::now())
}

fn scratch_path(settings: &LoadSettings) -> PathBuf {
    let parent = settings.scratch_dir.clone().unwrap_or_else(env::temp_dir);
    // The worker may have another working directory one day.
    let parent = fs::canonicalize(&parent).unwrap_or(parent);
    parent.join(format!("punctual-load-{}", unique()))
}

pub(super) fn rate(work: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        work as f64 / seconds
    } else {
        0.0
    }
}
