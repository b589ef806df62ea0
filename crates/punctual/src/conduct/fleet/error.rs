//! Why runs on a cluster can't be begun or brought together.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What went wrong, in one line that says what to do.
#[derive(Debug)]
pub enum SlurmError {
    /// A program of Slurm is not installed.
    Absent(&'static str),
    /// A program of Slurm can't be started.
    Start(&'static str, io::Error),
    /// A program of Slurm failed, with what it said.
    Refused(&'static str, String),
    /// `sbatch` printed something else than a job's number.
    Junk(String),
    /// There is no such partition.
    Partition(String),
    /// Slurm has no such node, or not in the partition.
    Node(String, Option<String>),
    /// A node takes no jobs.
    Unavailable {
        /// The node.
        node: String,
        /// Its state.
        state: String,
    },
    /// Neither the partition nor the list has a node that takes jobs.
    NoNodes(String),
    /// A task could not be bound to its node.
    Pin {
        /// The task.
        task: String,
        /// The node.
        node: String,
    },
    /// A file or directory can't be written or read.
    File(PathBuf, io::Error),
}

impl fmt::Display for SlurmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(program) => write!(
                f,
                "there is no {program} in the path: install Slurm's client (package slurm-client of Debian \
                 and Ubuntu, slurm elsewhere), or run this on a login node of the cluster"
            ),
            Self::Start(program, error) => write!(f, "{program} can't be started: {error}"),
            Self::Refused(program, said) => write!(f, "{program}: {said}"),
            Self::Junk(printed) => write!(
                f,
                "sbatch printed no job number but '{printed}': see squeue for a held job named punctual, \
                 and cancel it with scancel"
            ),
            Self::Partition(name) => {
                write!(
                    f,
                    "--partition {name}: Slurm has no such partition; sinfo lists them"
                )
            }
            Self::Node(name, None) => {
                write!(
                    f,
                    "--nodes: Slurm has no node named {name}; sinfo -N lists them"
                )
            }
            Self::Node(name, Some(partition)) => write!(
                f,
                "--nodes: partition {partition} has no node named {name}; sinfo -N lists them"
            ),
            Self::Unavailable { node, state } => write!(
                f,
                "--nodes: {node} takes no jobs, its state is {state}: leave it out, or resume it with \
                 scontrol update NodeName={node} State=RESUME"
            ),
            Self::NoNodes(place) => {
                write!(f, "{place}: no node takes jobs; sinfo -R lists the reasons")
            }
            Self::Pin { task, node } => write!(
                f,
                "task {task} could not be bound to node {node}: the job is cancelled"
            ),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SlurmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(_, error) | Self::File(_, error) => Some(error),
            _ => None,
        }
    }
}
