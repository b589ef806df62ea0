//! The controlling side: starts loads, watches them, stops them.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::board::state;
use crate::error::LoadError;
use crate::item::LoadItem;
use crate::job::{COMMAND, Job};
use crate::look::Pause;
use crate::parameter::Values;
use crate::report::{LoadReport, LoadStatus, rate};
use crate::running::{Running, unique};
use crate::settings::LoadSettings;
use crate::spec::LoadSpec;
use crate::{memory, registry, standard, sys};
use punctual_record::LoadFailure;

/// How long loads may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Running loads. Dropping it kills them.
#[derive(Debug)]
pub struct LoadSet {
    loads: Vec<Running>,
}

impl LoadSet {
    /// Starts the loads; they wait until [`release`](Self::release) or
    /// [`wait_ready`](Self::wait_ready).
    pub fn start(spec: &LoadSpec, settings: &LoadSettings) -> Result<Self, LoadError> {
        let mut set = LoadSet { loads: Vec::new() };
        for job in jobs(spec, settings)? {
            set.loads.push(Running::start(job, settings)?);
        }
        Ok(set)
    }

    /// Waits until every task of every load is ready, then releases all of them at once.
    pub fn wait_ready(&self, timeout: Duration) -> Result<(), LoadError> {
        self.await_tasks_while(timeout, || true)?;
        self.release();
        Ok(())
    }

    /// Releases all tasks at once; they must be ready.
    pub fn release(&self) {
        self.loads.iter().for_each(|load| load.board.release());
    }

    /// Waits until every task of every load is ready, and releases none; gives up as soon as `wanted`
    /// returns false, and returns false then.
    pub fn await_tasks_while(
        &self,
        timeout: Duration,
        wanted: impl Fn() -> bool,
    ) -> Result<bool, LoadError> {
        let deadline = Instant::now() + timeout;
        for load in &self.loads {
            loop {
                if let Some(failure) = load.failure() {
                    let load = load.job.name.clone();
                    return Err(match failure {
                        LoadFailure::Error { error } => LoadError::Failed {
                            load,
                            reason: error,
                        },
                        _ => LoadError::SupervisorGone { load },
                    });
                }
                if load.board.state() != state::STARTING {
                    break;
                }
                if Instant::now() >= deadline {
                    return Err(LoadError::Late {
                        load: load.job.name.clone(),
                        alive: load.board.alive(),
                        expected: load.board.expected(),
                        timeout,
                    });
                }
                if !wanted() {
                    return Ok(false);
                }
                let pause = Duration::from_millis(20);
                load.board.await_change(state::STARTING, pause);
            }
        }
        Ok(true)
    }

    /// What each load is doing. Cheap: it only reads memory and disturbs no process.
    pub fn status(&self) -> Vec<LoadStatus> {
        self.loads.iter().map(Running::status).collect()
    }

    /// Checks whether the loads continue to work; must be called several times per second. Returns
    /// the times without work that have ended.
    pub fn look(&mut self) -> Vec<Pause> {
        let loads = self.loads.iter_mut();
        loads.filter_map(|load| load.look(sys::now())).collect()
    }

    /// Checks for the last time, and ends the current times without work.
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

    /// Stops the loads, waits until none of their processes is left, and returns what they did. A
    /// finite load that is already done has failed: the rest of the run was measured without it.
    pub fn stop(self) -> Vec<LoadReport> {
        let done = |load: &Running| load.board.state() == state::FINISHED;
        let done: Vec<bool> = self.loads.iter().map(done).collect();
        let mut reports = self.conclude();
        for (report, _) in reports.iter_mut().zip(done).filter(|(_, done)| *done) {
            let after_ns = nanoseconds(report.seconds);
            let early = LoadFailure::EndedEarly { after_ns };
            report.failed = report.failed.take().or(Some(early));
        }
        reports
    }

    /// Like [`stop`](Self::stop), for loads that may be done.
    fn conclude(mut self) -> Vec<LoadReport> {
        let mut reports: Vec<_> = self.loads.iter().map(Running::report).collect();
        self.loads.iter().for_each(Running::request_stop);
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
                let ran_ns = nanoseconds(report.seconds);
                report.failed = Some(LoadFailure::NoWork { ran_ns });
            }
        }
        reports
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl Drop for LoadSet {
    fn drop(&mut self) {
        self.loads.iter().for_each(Running::request_stop);
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
    // A load that is stopped before its release says so in its report.
    let wanted = || watch(&set.status());
    let ready = set.await_tasks_while(PATIENCE, wanted)?;
    if ready {
        set.release();
    }
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
        let run = Some(line.clone());
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
        let unknown = || LoadError::Unknown { load: name.clone() };
        let generator = registry::find(&name).ok_or_else(unknown)?;
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
        return Err(LoadError::Memory {
            loads: spec.label(),
            wanted_mib: wanted >> 20,
            available_mib: available >> 20,
        });
    }
    Ok(jobs)
}

fn scratch_path(settings: &LoadSettings) -> PathBuf {
    let parent = settings.scratch_dir.clone().unwrap_or_else(env::temp_dir);
    // The worker may have another working directory.
    let parent = fs::canonicalize(&parent).unwrap_or(parent);
    parent.join(format!("punctual-load-{}", unique()))
}
