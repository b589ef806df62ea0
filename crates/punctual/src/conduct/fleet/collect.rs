//! Brings together the runs that the tasks of an array left in the shared directory.
//!
//! A task that Slurm started several times may have left several attempts. The last complete one is its
//! run; the others stay where they are.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use punctual_record::{Document, Judgement, Run};
use punctual_stats::verdict::Outcome;

use super::error::SlurmError;
use super::parse::{Attempt, Phase, Task};
use super::{ATTEMPT_FILE, ATTEMPTS, HOME, status};

/// The longest `slurm.txt` that is read.
const LONGEST_FILE: u64 = 4096;

/// One run of the fleet: a node and a repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRun {
    /// The node.
    pub node: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// How it ended.
    pub end: RunEnd,
    /// The job, the index in its array, and how often Slurm started it again: which run this is.
    pub id: Option<(u64, usize, u32)>,
}

/// How a run of the fleet ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// It was judged.
    Judged {
        /// The verdict.
        outcome: Outcome,
        /// The worst latency in ns; none if nothing was measured.
        worst_ns: Option<u64>,
    },
    /// punctual ended with an error.
    Error(u8),
    /// The record can't be read, or its verdict is not that of the exit status.
    BadRecord(String),
    /// There is no run.
    Missing(NoRun),
}

/// Why there is no run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRun {
    /// It is not done yet.
    Unfinished,
    /// It was cancelled.
    Cancelled,
    /// Its time limit was over.
    OutOfTime,
    /// Another job took the node.
    Preempted,
    /// The node failed.
    NodeFailed,
    /// The memory did not suffice.
    OutOfMemory,
    /// A signal killed it, each time that it was started.
    Killed(u8),
    /// The task was not on its node.
    Elsewhere,
    /// The directory is not on storage that the node shares.
    Unshared,
    /// The run could not be copied to the directory.
    Uncopied,
    /// The task ended with this status, and left nothing.
    Nothing(u8),
    /// Slurm has forgotten the job, and the task left nothing.
    Forgotten,
}

impl NoRun {
    /// Why a task that left no run has none.
    pub(super) fn of(task: Option<&Task>) -> Self {
        let Some(task) = task else {
            return Self::Forgotten;
        };
        match (task.phase, task.status, task.signal) {
            (Phase::Waiting | Phase::Running, ..) => Self::Unfinished,
            (Phase::Cancelled, ..) => Self::Cancelled,
            (Phase::OutOfTime, ..) => Self::OutOfTime,
            (Phase::Preempted, ..) => Self::Preempted,
            (Phase::NodeFailed, ..) => Self::NodeFailed,
            (Phase::OutOfMemory, ..) => Self::OutOfMemory,
            (Phase::Ended, status::ELSEWHERE, _) => Self::Elsewhere,
            (Phase::Ended, status::UNSHARED, _) => Self::Unshared,
            (Phase::Ended, status::UNCOPIED, _) => Self::Uncopied,
            (Phase::Ended, status @ 129.., _) => Self::Killed(status - 128),
            (Phase::Ended, _, signal @ 1..) => Self::Killed(signal),
            (Phase::Ended, status, 0) => Self::Nothing(status),
        }
    }

    /// Whether another try may end otherwise, and Slurm makes none by itself.
    pub(super) fn died(self) -> bool {
        matches!(self, Self::Killed(_) | Self::NodeFailed)
    }
}

/// The attempts that are complete, by index: of each task the last one.
///
/// # Errors
/// The directory can't be read.
pub(super) fn complete(directory: &Path, job: u64) -> Result<BTreeMap<usize, Attempt>, SlurmError> {
    let folder = directory.join(HOME).join(ATTEMPTS);
    let entries = fs::read_dir(&folder).map_err(|error| SlurmError::File(folder.clone(), error))?;
    let attempts = entries.flatten().filter_map(|entry| {
        let file = entry.path().join(ATTEMPT_FILE);
        let small = fs::metadata(&file).is_ok_and(|file| file.len() <= LONGEST_FILE);
        let text = small.then(|| fs::read_to_string(&file).ok())??;
        let attempt = Attempt::parse(&text)?;
        // Attempts that were cut short have other names.
        (attempt.job == job && entry.file_name() == *attempt.name()).then_some(attempt)
    });
    Ok(last_of_each(attempts))
}

/// Of each task the last attempt.
fn last_of_each(attempts: impl Iterator<Item = Attempt>) -> BTreeMap<usize, Attempt> {
    let mut last: BTreeMap<usize, Attempt> = BTreeMap::new();
    for attempt in attempts {
        let kept = last.entry(attempt.index).or_insert(attempt);
        if kept.restarts < attempt.restarts {
            *kept = attempt;
        }
    }
    last
}

/// Where an attempt is before it is collected.
pub(super) fn place_of(directory: &Path, attempt: &Attempt) -> PathBuf {
    directory.join(HOME).join(ATTEMPTS).join(attempt.name())
}

/// How the run of an attempt ended, by its record.
pub(super) fn end_of(attempt: &Attempt, place: &Path) -> RunEnd {
    let Some(outcome) = attempt.verdict() else {
        return RunEnd::Error(attempt.status);
    };
    // A run whose conditions are not in force is refused before there is a record.
    let refused = outcome == Outcome::Invalid && !place.join(Run::FILE).exists();
    if refused {
        return RunEnd::Judged {
            outcome,
            worst_ns: None,
        };
    }
    let run = match Run::read(place) {
        Ok(run) => run,
        Err(error) => return RunEnd::BadRecord(error.to_string()),
    };
    let judged = Judgement::from_run(&run).map(|judgement| judgement.verdict.outcome);
    if judged != Some(outcome) {
        return RunEnd::BadRecord(format!(
            "the record's verdict is {}, the exit status {}",
            judged.map_or("none", Outcome::word),
            attempt.status
        ));
    }
    let measured = run.threads.iter().map(|thread| &thread.latency);
    let measured = measured.filter(|latency| latency.count > 0);
    RunEnd::Judged {
        outcome,
        worst_ns: measured.map(|latency| latency.max_ns).max(),
    }
}

/// Moves the run of an attempt to `NODE/REPETITION`.
///
/// # Errors
/// It can't be moved.
pub(super) fn move_home(
    directory: &Path,
    attempt: &Attempt,
    node: &str,
    repetition: u32,
) -> Result<PathBuf, SlurmError> {
    let folder = directory.join(node);
    let target = folder.join(repetition.to_string());
    let failed = |path: &Path| {
        let path = path.to_owned();
        |error| SlurmError::File(path, error)
    };
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(&folder)(error))?,
        _ => {}
    }
    fs::rename(place_of(directory, attempt), &target).map_err(failed(&target))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(index: usize, restarts: u32, status: u8) -> Attempt {
        Attempt {
            job: 17,
            index,
            restarts,
            status,
        }
    }

    #[test]
    fn the_last_complete_attempt_counts_once() {
        let all = [
            attempt(0, 1, 2),
            attempt(0, 0, 0),
            attempt(3, 0, 4),
            attempt(0, 2, 3),
        ];
        let last = last_of_each(all.into_iter());
        assert_eq!(last.len(), 2);
        assert_eq!(last[&0], attempt(0, 2, 3));
        assert_eq!(last[&3], attempt(3, 0, 4));
    }

    #[test]
    fn attempts_of_other_jobs_and_parts_are_left_out() {
        let place = tempfile::tempdir().expect("a directory");
        let folder = place.path().join(HOME).join(ATTEMPTS);
        let put = |name: &str, text: &str| {
            fs::create_dir_all(folder.join(name)).expect("a directory");
            fs::write(folder.join(name).join(ATTEMPT_FILE), text).expect("a file");
        };
        let text = "job=17\nindex=1\nrestarts=0\nstatus=0\n";
        put("1.0", text);
        put(".1.0.cut", text);
        put("1.1", "job=16\nindex=1\nrestarts=1\nstatus=2\n");
        put("1.2", "job=17\nindex=1\n");
        put("1.3", &"x".repeat(5000));
        let found = complete(place.path(), 17).expect("attempts");
        assert_eq!(found.into_values().collect::<Vec<_>>(), [attempt(1, 0, 0)]);
        assert!(complete(&place.path().join("none"), 17).is_err());
    }

    #[test]
    fn what_a_task_left_nothing_for_is_named() {
        let task = |phase, status, signal| Task {
            index: 0,
            phase,
            status,
            signal,
            restarts: 0,
            pinned: "n1".to_owned(),
            reason: "None".to_owned(),
        };
        let why = |phase, status, signal| NoRun::of(Some(&task(phase, status, signal)));
        assert_eq!(why(Phase::Ended, 73, 0), NoRun::Unshared);
        assert_eq!(why(Phase::Ended, 137, 0), NoRun::Killed(9));
        assert_eq!(why(Phase::Ended, 0, 9), NoRun::Killed(9));
        assert_eq!(why(Phase::Ended, 0, 0), NoRun::Nothing(0));
        assert_eq!(why(Phase::Cancelled, 0, 15), NoRun::Cancelled);
        assert_eq!(NoRun::of(None), NoRun::Forgotten);
        assert!(why(Phase::NodeFailed, 0, 0).died() && !why(Phase::Cancelled, 0, 0).died());
    }

    #[test]
    fn a_verdict_without_its_record_is_none() {
        let place = tempfile::tempdir().expect("a directory");
        assert!(matches!(
            end_of(&attempt(0, 0, 0), place.path()),
            RunEnd::BadRecord(_)
        ));
        assert_eq!(end_of(&attempt(0, 0, 64), place.path()), RunEnd::Error(64));
        assert_eq!(
            end_of(&attempt(0, 0, 4), place.path()),
            RunEnd::Judged {
                outcome: Outcome::Invalid,
                worst_ns: None
            }
        );
    }
}
