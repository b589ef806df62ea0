//! What Slurm's programs print, read by total functions: lines that are none of theirs are left out.
//! Plugins of a site may print lines of their own.

use punctual_stats::verdict::Outcome;

/// What separates the columns that are requested of Slurm's programs. No name has it.
pub const SEPARATOR: char = '|';

/// The columns of `squeue --Format` that [`tasks`] reads. A column is cut at its width.
pub const TASK_COLUMNS: &str =
    "ArrayTaskID:24|,State:24|,exit_code:16|,RestartCnt:16|,ReqNodes:512|,Reason:120|";

/// The columns of `sinfo --format` that [`nodes`] reads.
pub const NODE_COLUMNS: &str = "%N|%T|%P";

/// The number of the job that `sbatch --parsable` prints: `17`, or `17;cluster`.
#[must_use]
pub fn job_number(printed: &str) -> Option<u64> {
    printed.lines().rev().find_map(|line| {
        let number = line.trim().split(';').next().unwrap_or_default();
        number.parse().ok().filter(|number| *number > 0)
    })
}

/// Where a task of the array is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its node.
    Waiting,
    /// It runs, or its end is being dealt with.
    Running,
    /// Its script has ended by itself.
    Ended,
    /// Its node failed.
    NodeFailed,
    /// It was cancelled.
    Cancelled,
    /// Its time was over.
    OutOfTime,
    /// Another job took its node.
    Preempted,
    /// It needed more memory than its node gave it.
    OutOfMemory,
}

impl Phase {
    /// Slurm's word for it; a word that later versions have is an end that is looked into.
    fn of(word: &str) -> Self {
        match word {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => Self::Waiting,
            "RUNNING" | "CONFIGURING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING"
            | "STAGE_OUT" | "RESIZING" | "REVOKED" => Self::Running,
            "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" => Self::NodeFailed,
            "CANCELLED" => Self::Cancelled,
            "TIMEOUT" | "DEADLINE" => Self::OutOfTime,
            "PREEMPTED" => Self::Preempted,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            _ => Self::Ended,
        }
    }

    /// Whether Slurm does nothing more with it.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A task of the array, as Slurm sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its index in the array.
    pub index: usize,
    /// Where it is.
    pub phase: Phase,
    /// The status that its script exited with.
    pub status: u8,
    /// The signal that ended its script; 0 for none.
    pub signal: u8,
    /// How often Slurm has started it again.
    pub restarts: u32,
    /// The node that it is pinned to.
    pub pinned: String,
    /// Why it waits, in Slurm's word: `Resources`.
    pub reason: String,
}

impl Task {
    /// Whether it waits to be released.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.phase == Phase::Waiting && self.reason == "JobHeldUser"
    }

    /// Whether it was under way, and waits again without having been started again: the controller was
    /// killed, and had not saved that the task was released. Why it waits is said later.
    #[must_use]
    pub fn is_set_back_from(&self, before: &Self) -> bool {
        let is_back = self.phase == Phase::Waiting && before.phase != Phase::Waiting;
        is_back && self.restarts <= before.restarts
    }
}

/// The tasks that `squeue` prints in [`TASK_COLUMNS`].
#[must_use]
pub fn tasks(printed: &str) -> Vec<Task> {
    printed.lines().filter_map(task).collect()
}

fn task(line: &str) -> Option<Task> {
    let mut columns = line.split(SEPARATOR).map(str::trim);
    let mut column = || columns.next();
    let (index, state, ended) = (column()?, column()?, column()?);
    let (restarts, pinned, reason) = (column()?, column()?, column()?);
    // As wait(2) has it: the status in the second byte, the signal in the first.
    let ended: u32 = ended.parse().unwrap_or(0);
    Some(Task {
        index: index.parse().ok()?,
        phase: Phase::of(state),
        status: u8::try_from(ended >> 8 & 0xff).unwrap_or(0),
        signal: u8::try_from(ended & 0x7f).unwrap_or(0),
        restarts: restarts.parse().unwrap_or(0),
        pinned: pinned.to_owned(),
        reason: reason.to_owned(),
    })
}

/// A node, as Slurm sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its state in Slurm's word: `idle`, `down*`.
    pub state: String,
    /// Its partition.
    pub partition: String,
    /// Whether that is the default one.
    pub is_default: bool,
}

impl Node {
    /// Whether a job that is submitted now can run there, perhaps after others.
    #[must_use]
    pub fn takes_jobs(&self) -> bool {
        // `*`: it does not respond.
        let bad = [
            "down", "drain", "fail", "maint", "unknown", "future", "error",
        ];
        !self.state.ends_with('*') && !bad.iter().any(|bad| self.state.starts_with(bad))
    }
}

/// The nodes that `sinfo` prints in [`NODE_COLUMNS`]. A node is listed once for each partition that
/// it is in.
#[must_use]
pub fn nodes(printed: &str) -> Vec<Node> {
    let node = |line: &str| {
        let mut columns = line.split(SEPARATOR).map(str::trim);
        let (name, state, partition) = (columns.next()?, columns.next()?, columns.next()?);
        (columns.next().is_none() && is_node_name(name)).then(|| Node {
            name: name.to_owned(),
            state: state.to_owned(),
            partition: partition.trim_end_matches('*').to_owned(),
            is_default: partition.ends_with('*'),
        })
    };
    printed.lines().filter_map(node).collect()
}

/// Whether this is a node's name: it becomes the name of a directory, and a line of a file.
#[must_use]
pub fn is_node_name(name: &str) -> bool {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 255 && !name.starts_with(['.', '-']) && name.chars().all(kept)
}

/// The message of a program that failed: its last line with `error:`, or its first line.
#[must_use]
pub fn complaint(stderr: &str) -> String {
    let mut lines = stderr
        .lines()
        .filter_map(|line| Some(line.rsplit_once("error: ")?.1.trim()));
    let plain = || stderr.lines().map(str::trim).find(|line| !line.is_empty());
    let line = lines
        .next_back()
        .or_else(plain)
        .unwrap_or("it says nothing");
    // The caller names the program.
    line.strip_prefix("sbatch: ").unwrap_or(line).to_owned()
}

/// What a task of the array has left in the shared directory: the file `slurm.txt` of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The job of the array.
    pub job: u64,
    /// The index in the array.
    pub index: usize,
    /// How often Slurm had started the task before.
    pub restarts: u32,
    /// The exit status of punctual.
    pub status: u8,
}

impl Attempt {
    /// Reads `slurm.txt`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        };
        Some(Self {
            job: value("job")?.parse().ok()?,
            index: value("index")?.parse().ok()?,
            restarts: value("restarts")?.parse().ok()?,
            status: value("status")?.parse().ok()?,
        })
    }

    /// The name of its directory.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.index, self.restarts)
    }

    /// The verdict that the exit status stands for.
    #[must_use]
    pub fn verdict(&self) -> Option<Outcome> {
        [
            Outcome::Pass,
            Outcome::Fail,
            Outcome::Inconclusive,
            Outcome::Invalid,
        ]
        .into_iter()
        .find(|outcome| outcome.exit_code() == self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_found_among_lines_of_a_site() {
        assert_eq!(job_number("17\n"), Some(17));
        assert_eq!(job_number("17;cluster\n"), Some(17));
        assert_eq!(job_number("*** maintenance at 5 ***\n17\n"), Some(17));
        for junk in [
            "",
            "0\n",
            "-1\n",
            "Submitted\n",
            "99999999999999999999999\n",
            "\0\n",
        ] {
            assert_eq!(job_number(junk), None, "{junk:?}");
        }
    }

    #[test]
    fn tasks_are_read_with_the_status_of_wait() {
        let printed = "slurm: hello\n\
            7         |FAILED   |512  |0  |n2 |NonZeroExitCode|\n\
            8|PENDING|0|2||Resources|\n9|FAILED|9|0|n1|None|\nx|RUNNING|0|0|n1|None|\n1|RUNNING\n";
        let tasks = tasks(printed);
        assert_eq!(tasks.len(), 3, "{tasks:?}");
        assert_eq!((tasks[0].status, tasks[0].signal), (2, 0));
        assert_eq!(
            (&*tasks[0].pinned, &*tasks[0].reason),
            ("n2", "NonZeroExitCode")
        );
        assert_eq!((tasks[1].phase, tasks[1].restarts), (Phase::Waiting, 2));
        assert_eq!((tasks[2].status, tasks[2].signal), (0, 9));
        assert!(tasks[2].phase.is_over() && !tasks[1].phase.is_over());
    }

    #[test]
    fn a_task_that_the_controller_set_back_is_no_task_that_somebody_holds() {
        let task = |line: &str| task(line).expect("a task");
        let held = task("8|PENDING|0|0|n1|JobHeldUser|");
        assert!(held.is_set_back_from(&task("8|RUNNING|0|0|n1|None|")));
        assert!(!held.is_set_back_from(&task("8|PENDING|0|0|n1|Resources|")));
        let requeued = task("8|PENDING|0|1|n1|JobHeldUser|");
        assert!(!requeued.is_set_back_from(&task("8|RUNNING|0|0|n1|None|")));
        assert!(!task("8|PENDING|0|0|n1|BeginTime|").is_held());
    }

    #[test]
    fn nodes_are_read_with_their_partition() {
        let nodes = nodes("n1|idle|rt*\nn2|down*|gpu\n../x|idle|rt\nn3|mixed\nn4|drained|rt|x\n");
        assert_eq!(nodes.len(), 2, "{nodes:?}");
        assert!(nodes[0].is_default && nodes[0].partition == "rt" && nodes[0].takes_jobs());
        assert!(!nodes[1].is_default && !nodes[1].takes_jobs());
    }

    #[test]
    fn a_node_name_is_no_path() {
        assert!(is_node_name("cab-12.example_a"));
        for name in [
            "", ".", "..", ".slurm", "a/b", "n[1", "-n", "a b", "a|b", "n\n",
        ] {
            assert!(!is_node_name(name), "{name:?}");
        }
    }

    #[test]
    fn an_attempt_is_read_whatever_else_the_file_has() {
        let text = "job=17\nindex=3\nrestarts=1\nnode=n1\nrepetition=2\nstatus=2\n";
        let attempt = Attempt::parse(text).expect("an attempt");
        assert_eq!(attempt.name(), "3.1");
        assert_eq!(attempt.verdict(), Some(Outcome::Fail));
        assert_eq!(
            Attempt {
                status: 1,
                ..attempt
            }
            .verdict(),
            None
        );
        for cut in 0..text.len() {
            // The last line may be cut without a change.
            let _ = Attempt::parse(&text[..cut]);
        }
        assert_eq!(
            Attempt::parse("job=17\nindex=-3\nrestarts=1\nstatus=2\n"),
            None
        );
        assert_eq!(Attempt::parse(""), None);
    }

    #[test]
    fn a_complaint_is_the_last_error() {
        let said = "sbatch: error: invalid partition specified: nope\n\
                    sbatch: error: Batch job submission failed: Invalid partition name specified\n";
        assert_eq!(
            complaint(said),
            "Batch job submission failed: Invalid partition name specified"
        );
        let said =
            "sbatch: unrecognized option '--x'\nTry \"sbatch --help\" for more information\n";
        assert_eq!(complaint(said), "unrecognized option '--x'");
        assert_eq!(complaint("\n \n"), "it says nothing");
    }
}
