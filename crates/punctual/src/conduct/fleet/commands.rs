//! Slurm's programs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::error::SlurmError;
use super::parse::{self, NODE_COLUMNS, Node, TASK_COLUMNS, Task};

/// What `squeue` says of a job.
#[derive(Debug)]
pub(super) enum Queue {
    /// Its tasks.
    Tasks(Vec<Task>),
    /// Slurm has forgotten it: it ended a while ago.
    Forgotten,
    /// The controller does not answer.
    Silent(String),
}

/// The programs of Slurm, which were all found.
#[derive(Debug)]
pub struct Slurm(());

impl Slurm {
    /// Looks for the programs.
    ///
    /// # Errors
    /// One of them is not installed.
    pub fn find() -> Result<Self, SlurmError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        for program in ["sbatch", "scontrol", "squeue", "scancel", "sinfo"] {
            if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
                return Err(SlurmError::Absent(program));
            }
        }
        Ok(Self(()))
    }

    fn call(
        &self,
        program: &'static str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Output, SlurmError> {
        Command::new(program)
            .args(arguments)
            // What a user sets for other uses must not change what is printed.
            .envs([("SLURM_TIME_FORMAT", "standard"), ("LC_ALL", "C")])
            .env_remove("SBATCH_WAIT")
            .env_remove("SQUEUE_FORMAT")
            .env_remove("SQUEUE_FORMAT2")
            .env_remove("SINFO_FORMAT")
            .stdin(Stdio::null())
            // Ctrl-C is for this program: sbatch must not end before it has printed the job's number.
            .process_group(0)
            .output()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => SlurmError::Absent(program),
                _ => SlurmError::Start(program, error),
            })
    }

    /// What a program prints; its complaint if it fails.
    fn ask(&self, program: &'static str, arguments: &[&str]) -> Result<String, SlurmError> {
        let output = self.call(program, arguments)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(refused(program, &output)),
        }
    }

    /// The nodes to qualify, in Slurm's order, and those of the partition that take no jobs.
    ///
    /// # Errors
    /// There is no such partition or node, or a node of the list takes no jobs.
    pub fn nodes(
        &self,
        partition: Option<&str>,
        list: Option<&str>,
    ) -> Result<(Vec<String>, Vec<Node>), SlurmError> {
        if let Some(name) = partition {
            // sinfo prints nothing, and succeeds.
            self.ask("scontrol", &["show", "partition", name])
                .map_err(|error| match error {
                    SlurmError::Refused(..) => SlurmError::Partition(name.to_owned()),
                    error => error,
                })?;
        }
        let mut arguments = vec!["--noheader", "--Node", "--format", NODE_COLUMNS];
        arguments.extend(partition.into_iter().flat_map(|name| ["--partition", name]));
        let mut known = parse::nodes(&self.ask("sinfo", &arguments)?);
        match list {
            Some(list) => {
                let wanted = self.ask("scontrol", &["show", "hostnames", list])?;
                chosen(&wanted, &known, partition).map(|names| (names, Vec::new()))
            }
            None => {
                known.retain(|node| partition.is_some() || node.is_default);
                let (taken, left): (Vec<Node>, Vec<Node>) =
                    known.into_iter().partition(Node::takes_jobs);
                let mut seen = BTreeSet::new();
                let names = taken.into_iter().map(|node| node.name);
                let names: Vec<String> = names.filter(|name| seen.insert(name.clone())).collect();
                match names.is_empty() {
                    true => Err(SlurmError::NoNodes(partition.map_or_else(
                        || "the default partition (--partition names another)".to_owned(),
                        |name| format!("--partition {name}"),
                    ))),
                    false => Ok((names, left)),
                }
            }
        }
    }

    /// Submits the script as an array of held tasks, and returns the job's number.
    pub(super) fn submit(
        &self,
        tasks: usize,
        options: &[String],
        script: &Path,
        arguments: &[&OsStr],
    ) -> Result<u64, SlurmError> {
        let array = format!("--array=0-{}", tasks.saturating_sub(1));
        let own = ["--parsable", "--hold", "--chdir=/", &array];
        let words = own.iter().copied().map(OsStr::new);
        let words = words
            .chain(options.iter().map(OsStr::new))
            .chain([script.as_os_str()])
            .chain(arguments.iter().copied());
        let output = self.call("sbatch", words)?;
        if !output.status.success() {
            return Err(refused("sbatch", &output));
        }
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        parse::job_number(&printed).ok_or_else(|| {
            let line = printed.lines().next().unwrap_or_default();
            SlurmError::Junk(line.chars().take(80).collect())
        })
    }

    /// Binds tasks of an array to nodes.
    pub(super) fn pin(&self, job: u64, tasks: &[(usize, &str)]) -> Result<(), SlurmError> {
        // One program for all: it reads its commands as a user would type them. Its status says
        // nothing of them, so each is looked at afterwards.
        let mut child = Command::new("scontrol")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| SlurmError::Start("scontrol", error))?;
        let mut commands = String::new();
        for (index, node) in tasks {
            commands.push_str(&format!("update JobId={job}_{index} ReqNodeList={node}\n"));
        }
        if let Some(mut pipe) = child.stdin.take() {
            // One that ends early has bound too few: that is found below.
            let _ = pipe.write_all(commands.as_bytes());
        }
        child
            .wait()
            .map_err(|error| SlurmError::Start("scontrol", error))?;
        let queued = match self.queue(job)? {
            Queue::Tasks(tasks) => tasks,
            Queue::Silent(said) => return Err(SlurmError::Refused("squeue", said)),
            Queue::Forgotten => Vec::new(),
        };
        for (index, node) in tasks {
            let task = queued.iter().find(|task| task.index == *index);
            if task.is_none_or(|task| task.pinned != *node) {
                return Err(SlurmError::Pin {
                    task: format!("{job}_{index}"),
                    node: (*node).to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Lets a held job, or a task of an array, run.
    pub(super) fn release(&self, what: &str) -> Result<(), SlurmError> {
        self.ask("scontrol", &["release", what]).map(drop)
    }

    /// What Slurm knows of the tasks of an array.
    pub(super) fn queue(&self, job: u64) -> Result<Queue, SlurmError> {
        let job = job.to_string();
        let arguments = [
            "--noheader",
            "--array",
            "--states=all",
            "--jobs",
            &job,
            "--Format",
            TASK_COLUMNS,
        ];
        match self.ask("squeue", &arguments) {
            Ok(printed) => Ok(match parse::tasks(&printed) {
                tasks if tasks.is_empty() => Queue::Forgotten,
                tasks => Queue::Tasks(tasks),
            }),
            Err(SlurmError::Refused(_, said)) if said.contains("Invalid job id") => {
                Ok(Queue::Forgotten)
            }
            Err(SlurmError::Refused(_, said)) => Ok(Queue::Silent(said)),
            Err(error) => Err(error),
        }
    }

    /// Cancels a job, or a task of an array: `17`, `17_3`.
    pub(super) fn cancel(&self, what: &str) -> Result<(), SlurmError> {
        self.ask("scancel", &[what]).map(drop)
    }

    /// Starts a task again.
    pub(super) fn requeue(&self, task: &str) -> Result<(), SlurmError> {
        self.ask("scontrol", &["requeue", task]).map(drop)
    }
}

fn refused(program: &'static str, output: &Output) -> SlurmError {
    let said = String::from_utf8_lossy(&output.stderr);
    SlurmError::Refused(program, parse::complaint(&said))
}

/// The nodes of a list, each once, if Slurm has them all and they take jobs.
fn chosen(
    wanted: &str,
    known: &[Node],
    partition: Option<&str>,
) -> Result<Vec<String>, SlurmError> {
    let mut names: Vec<String> = Vec::new();
    for name in wanted
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let Some(node) = known.iter().find(|node| node.name == name) else {
            return Err(SlurmError::Node(
                name.to_owned(),
                partition.map(str::to_owned),
            ));
        };
        if !node.takes_jobs() {
            return Err(SlurmError::Unavailable {
                node: node.name.clone(),
                state: node.state.clone(),
            });
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    match names.is_empty() {
        true => Err(SlurmError::NoNodes("--nodes".to_owned())),
        false => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_known_nodes_that_take_jobs_each_once() {
        let known = parse::nodes("n1|idle|rt*\nn2|allocated|rt*\nn3|down*|rt*\nn1|idle|all\n");
        let list = chosen("n2\nn1\nn2\n", &known, None).expect("nodes");
        assert_eq!(list, ["n2", "n1"]);
        let error = |wanted| {
            chosen(wanted, &known, Some("rt"))
                .expect_err("none")
                .to_string()
        };
        assert!(
            error("n1\nn]\n").contains("no node named n]"),
            "{}",
            error("n]")
        );
        assert!(error("n3\n").contains("n3 takes no jobs, its state is down*"));
        assert!(error("\n").contains("no node takes jobs"));
    }
}
