//! The job: submitted held, each task bound to its node, watched until the last task has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::super::observer::{Observed, Observer};
use super::collect::{self, FleetRun, NoRun, RunEnd};
use super::commands::{Queue, Slurm};
use super::error::SlurmError;
use super::parse::{Attempt, Phase, Task};
use super::plan::{Counts, FleetPlan};
use super::{ATTEMPTS, BATCH_SCRIPT, HOME};

/// How often Slurm is asked for the tasks, of which the controller may have many.
const POLL: Duration = Duration::from_secs(1);
const POLL_OF_MANY: Duration = Duration::from_secs(5);
const MANY: usize = 100;
/// How soon a signal is noticed.
const GLANCE: Duration = Duration::from_millis(100);
/// How long after the last task the shared storage may take to show its run.
const SETTLE: Duration = Duration::from_secs(6);
/// How long a cancelled job may take to end.
const CANCEL: Duration = Duration::from_secs(60);
/// How long after its return the controller may take to say that a task is held.
const SET_BACK: Duration = Duration::from_secs(30);
/// How often a task that died is started again. The batch script has the same number.
const MOST_RESTARTS: u32 = 3;

/// Runs the plan in a new directory on shared storage, and brings the runs together there, in the order
/// of the nodes. Once `is_interrupted`, the job is cancelled; what is complete is brought together.
///
/// # Errors
/// The job can't be submitted, or the directory can't be used.
pub fn conduct(
    slurm: &Slurm,
    plan: &FleetPlan,
    directory: &Path,
    is_interrupted: &dyn Fn() -> bool,
    progress: &mut dyn Observer,
) -> Result<Vec<FleetRun>, SlurmError> {
    let directory = fs::canonicalize(directory)
        .map_err(|error| SlurmError::File(directory.to_owned(), error))?;
    let script = prepare(plan, &directory)?;
    let job = submit(slurm, plan, &directory, &script).inspect_err(|_| {
        // Nothing runs: no directory is left behind.
        let _ = fs::remove_dir_all(directory.join(HOME));
    })?;
    let mut guard = Submitted {
        slurm,
        job,
        is_over: false,
    };
    write(&directory.join(HOME).join("job"), &format!("{job}\n"))?;
    let tasks: Vec<(usize, &str)> = (0..plan.tasks())
        .filter_map(|index| Some((index, plan.run_of(index)?.0)))
        .collect();
    slurm.pin(job, &tasks)?;
    slurm.release(&job.to_string())?;
    progress.observe(Observed::Submitted(job, plan.tasks()));
    let mut watch = Watch {
        slurm,
        plan,
        directory: &directory,
        job,
        seen: BTreeMap::new(),
        told: BTreeSet::new(),
        restarts: BTreeMap::new(),
        cancelled: None,
        over_since: None,
        set_back: None,
    };
    watch.run(is_interrupted, progress)?;
    guard.is_over = true;
    watch.gather()
}

/// Cancels the job, however this ends.
struct Submitted<'a> {
    slurm: &'a Slurm,
    job: u64,
    is_over: bool,
}

impl Drop for Submitted<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = self.slurm.cancel(&self.job.to_string());
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), SlurmError> {
    fs::write(path, text).map_err(|error| SlurmError::File(path.to_owned(), error))
}

/// Writes what the tasks need; returns the script.
fn prepare(plan: &FleetPlan, directory: &Path) -> Result<PathBuf, SlurmError> {
    let home = directory.join(HOME);
    let attempts = home.join(ATTEMPTS);
    fs::create_dir_all(&attempts).map_err(|error| SlurmError::File(attempts.clone(), error))?;
    write(&home.join("nodes"), &(plan.nodes.join("\n") + "\n"))?;
    let script = home.join("qualify.sbatch");
    write(&script, BATCH_SCRIPT)?;
    if plan.program.is_none() {
        let copy = own_copy(directory);
        // This file, also if another has taken its name since.
        let running = Path::new("/proc/self/exe");
        let linked = std::env::current_exe().and_then(|own| fs::hard_link(own, &copy));
        linked
            .or_else(|_| fs::copy(running, &copy).map(drop))
            .map_err(|error| SlurmError::File(copy, error))?;
    }
    Ok(script)
}

fn own_copy(directory: &Path) -> PathBuf {
    directory.join(HOME).join("punctual")
}

fn submit(
    slurm: &Slurm,
    plan: &FleetPlan,
    directory: &Path,
    script: &Path,
) -> Result<u64, SlurmError> {
    let program = plan.program.clone().unwrap_or_else(|| own_copy(directory));
    let mut arguments = vec![directory.as_os_str(), program.as_os_str()];
    arguments.extend(plan.flags.iter().map(OsStr::new));
    slurm.submit(plan.tasks(), &plan.options, script, &arguments)
}

/// The job under way.
struct Watch<'a> {
    slurm: &'a Slurm,
    plan: &'a FleetPlan,
    directory: &'a Path,
    job: u64,
    /// Tasks as Slurm reported them last. It forgets a task some minutes after its end.
    seen: BTreeMap<usize, Task>,
    /// Tasks whose run was reported.
    told: BTreeSet<usize>,
    /// How often a task was started again from here.
    restarts: BTreeMap<usize, u32>,
    /// When it was cancelled.
    cancelled: Option<Instant>,
    /// Since when no task is left in the queue.
    over_since: Option<Instant>,
    /// When the controller may have forgotten that tasks were released.
    set_back: Option<Instant>,
}

impl Watch<'_> {
    fn run(
        &mut self,
        is_interrupted: &dyn Fn() -> bool,
        progress: &mut dyn Observer,
    ) -> Result<(), SlurmError> {
        let poll = match self.plan.tasks() {
            0..MANY => POLL,
            _ => POLL_OF_MANY,
        };
        loop {
            if is_interrupted() && self.cancelled.is_none() {
                let outcome = self.slurm.cancel(&self.job.to_string());
                progress.observe(Observed::Cancelled(self.job, outcome.as_ref().copied()));
                self.cancelled = Some(Instant::now());
            }
            let is_over = self.look(progress)?;
            let complete = self.complete()?;
            let now = Instant::now();
            self.tell(&complete, progress);
            match is_over {
                true => _ = self.over_since.get_or_insert(now),
                false => self.over_since = None,
            }
            let is_settled = |since: Instant| {
                complete.len() >= self.plan.tasks() || now.duration_since(since) > SETTLE
            };
            let is_given_up = |since: Instant| now.duration_since(since) > CANCEL;
            if self.over_since.is_some_and(is_settled) || self.cancelled.is_some_and(is_given_up) {
                return Ok(());
            }
            let next = now + poll;
            while Instant::now() < next && (self.cancelled.is_some() || !is_interrupted()) {
                thread::sleep(GLANCE);
            }
        }
    }

    /// Asks Slurm for the tasks; whether none is left in its queue.
    fn look(&mut self, progress: &mut dyn Observer) -> Result<bool, SlurmError> {
        let tasks = match self.slurm.queue(self.job)? {
            Queue::Tasks(tasks) => tasks,
            Queue::Forgotten => Vec::new(),
            Queue::Silent(said) => {
                progress.observe(Observed::ControllerSilent(&said));
                self.set_back = Some(Instant::now());
                return Ok(false);
            }
        };
        let is_set_back = tasks.iter().any(|task| {
            let before = self.seen.get(&task.index);
            before.is_some_and(|before| task.is_set_back_from(before))
        });
        if is_set_back {
            self.set_back = Some(Instant::now());
        }
        self.release_again(&tasks, progress);
        let listed: BTreeSet<usize> = tasks.iter().map(|task| task.index).collect();
        // Its end was not seen.
        self.seen
            .retain(|index, task| listed.contains(index) || task.phase.is_over());
        self.seen
            .extend(tasks.into_iter().map(|task| (task.index, task)));
        Ok(!self.revive(progress)? && self.seen.values().all(|task| task.phase.is_over()))
    }

    /// Releases tasks that are held once more, since a controller that is killed loses what it had not saved.
    /// A task that a user holds meanwhile is left alone, as long as the controller answers.
    fn release_again(&mut self, tasks: &[Task], progress: &mut dyn Observer) {
        let is_recent = self
            .set_back
            .is_some_and(|since| since.elapsed() < SET_BACK);
        if !is_recent || self.cancelled.is_some() {
            return;
        }
        let held = tasks.iter().filter(|task| task.is_held());
        let held: Vec<(usize, &str)> = held
            .filter_map(|task| Some((task.index, self.plan.run_of(task.index)?.0)))
            .collect();
        if held.is_empty() {
            return;
        }
        // Their nodes may be forgotten too. What fails is tried at the next look.
        let released = self.slurm.pin(self.job, &held).and_then(|()| {
            held.iter()
                .try_for_each(|(index, _)| self.slurm.release(&format!("{}_{index}", self.job)))
        });
        if released.is_ok() {
            progress.observe(Observed::Released(held.len()));
        }
    }

    /// Starts tasks again that died; whether there was one. Cancels tasks that Slurm starts again
    /// though their run is complete: a node that failed may never return.
    fn revive(&mut self, progress: &mut dyn Observer) -> Result<bool, SlurmError> {
        if self.cancelled.is_some() {
            return Ok(false);
        }
        let complete = self.complete()?;
        let mut has_revived = false;
        for (index, task) in &self.seen {
            let name = format!("{}_{index}", self.job);
            let is_complete = complete.contains_key(index);
            if is_complete && task.phase == Phase::Waiting {
                // If it can't be cancelled it runs again, and ends at once.
                let _ = self.slurm.cancel(&name);
                continue;
            }
            let why = NoRun::of(Some(task));
            let tries = self.restarts.entry(*index).or_default();
            let spent = task.restarts.max(*tries) >= MOST_RESTARTS;
            if is_complete || !why.died() || spent {
                continue;
            }
            *tries += 1;
            // Slurm may have done so already.
            if self.slurm.requeue(&name).is_ok() {
                has_revived = true;
                if let Some((node, repetition)) = self.plan.run_of(*index) {
                    progress.observe(Observed::Restarted(node, repetition, why));
                }
            }
        }
        Ok(has_revived)
    }

    fn complete(&self) -> Result<BTreeMap<usize, Attempt>, SlurmError> {
        let mut complete = collect::complete(self.directory, self.job)?;
        complete.retain(|index, _| *index < self.plan.tasks());
        Ok(complete)
    }

    fn counts(&self, complete: &BTreeMap<usize, Attempt>) -> Counts {
        let is_waiting = |(index, task): &(&usize, &Task)| {
            task.phase == Phase::Waiting && !complete.contains_key(*index)
        };
        let total = self.plan.tasks();
        let waiting = self.seen.iter().filter(is_waiting).count();
        let running = self
            .seen
            .iter()
            .filter(|(index, task)| task.phase == Phase::Running && !complete.contains_key(*index));
        let running = running.count();
        // What is bound to a node waits for it; why, Slurm says of the task that is next.
        let reasons = self.seen.iter().filter(is_waiting);
        let reason = reasons
            .map(|(_, task)| (task.pinned.clone(), task.reason.clone()))
            .find(|(_, reason)| !matches!(&**reason, "None" | "Resources" | "Priority"));
        Counts {
            total,
            done: total.saturating_sub(waiting).saturating_sub(running),
            running,
            waiting,
            reason,
        }
    }

    /// Reports the runs that are new, or that there is none.
    fn tell(&mut self, complete: &BTreeMap<usize, Attempt>, progress: &mut dyn Observer) {
        let counts = self.counts(complete);
        for (index, attempt) in complete {
            let Some((node, repetition)) = self.plan.run_of(*index) else {
                continue;
            };
            if self.told.insert(*index) {
                let place = collect::place_of(self.directory, attempt);
                let counts = Counts {
                    done: self.told.len(),
                    ..counts.clone()
                };
                progress.observe(Observed::RunDone(
                    &run(node, repetition, attempt, &place),
                    &counts,
                ));
            }
        }
        progress.observe(Observed::Runs(&counts));
    }

    /// Moves the runs to where the user finds them.
    fn gather(&self) -> Result<Vec<FleetRun>, SlurmError> {
        let complete = self.complete()?;
        let mut runs = Vec::new();
        let count = self.plan.nodes.len();
        let by_node = (0..count).flat_map(|node| (node..self.plan.tasks()).step_by(count));
        for index in by_node {
            let Some((node, repetition)) = self.plan.run_of(index) else {
                continue;
            };
            let Some(attempt) = complete.get(&index) else {
                runs.push(FleetRun {
                    node: node.to_owned(),
                    repetition,
                    end: RunEnd::Missing(NoRun::of(self.seen.get(&index))),
                    id: None,
                });
                continue;
            };
            let moved = collect::move_home(self.directory, attempt, node, repetition)?;
            runs.push(run(node, repetition, attempt, &moved));
        }
        Ok(runs)
    }
}

fn run(node: &str, repetition: u32, attempt: &Attempt, place: &Path) -> FleetRun {
    FleetRun {
        node: node.to_owned(),
        repetition,
        end: collect::end_of(attempt, place),
        id: Some((attempt.job, attempt.index, attempt.restarts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_script_starts_a_task_again_as_often() {
        let line = format!("most_restarts={MOST_RESTARTS}");
        assert!(BATCH_SCRIPT.lines().any(|l| l == line), "{line}");
    }
}
