//! Errors of loads, one line each.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::class::LoadClass;
use crate::sys::Ended;

/// Why a text is not a load with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// There is no load of this name.
    UnknownLoad {
        /// The name.
        name: String,
        /// The set that stands for several.
        set: &'static str,
        /// The existing loads.
        known: Vec<&'static str>,
    },
    /// The load has no such parameter.
    UnknownParameter {
        /// The load.
        load: &'static str,
        /// The parameter.
        key: String,
        /// Its parameters.
        known: Vec<&'static str>,
    },
    /// A parameter cannot have this value.
    Value {
        /// The load.
        load: &'static str,
        /// The parameter.
        key: &'static str,
        /// The value.
        text: String,
        /// The smallest value accepted.
        least: u64,
        /// The largest value accepted.
        most: u64,
        /// What the parameter means.
        description: &'static str,
    },
    /// A parameter has two values.
    Twice {
        /// The load.
        load: &'static str,
        /// The parameter.
        key: String,
    },
    /// An argument that hackbench does not have.
    ClassicArgument(String),
    /// An argument of hackbench without its number.
    ClassicNumber(String),
    /// A hackbench without messages (`-l 0`).
    ClassicNothing,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLoad { name, set, known } => {
                let alone = match name.as_str() {
                    "none" | "standard" => ", each without other loads",
                    _ => "",
                };
                write!(
                    f,
                    "unknown load '{name}': expected standard or none{alone}, {set}, a list of \
                     {}, or a command line with a space or a slash in it",
                    known.join(", ")
                )
            }
            Self::UnknownParameter { load, key, known } => write!(
                f,
                "load {load} has no parameter '{key}': expected {}",
                known.join(", ")
            ),
            Self::Value {
                load,
                key,
                text,
                least,
                most,
                description,
            } => write!(
                f,
                "load {load}: {key}='{text}': expected a number from {least} to {most} \
                 ({description})"
            ),
            Self::Twice { load, key } => write!(f, "load {load}: {key} is set twice"),
            Self::ClassicArgument(argument) => write!(
                f,
                "hackbench: unknown argument '{argument}': expected -g -l -s -f with a number, \
                 and -p -T -P"
            ),
            Self::ClassicNumber(letter) => write!(f, "hackbench: {letter} needs a number"),
            Self::ClassicNothing => f.write_str("hackbench: -l 0: expected a number from 1"),
        }
    }
}

impl Error for SpecError {}

/// Why loads could not be started, or were not ready in time.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// This program has no such load.
    Unknown {
        /// Its name.
        load: String,
    },
    /// The supervisor of a load could not be started.
    Supervisor {
        /// The load.
        load: String,
        /// The system's error.
        source: io::Error,
    },
    /// A load failed.
    Failed {
        /// The load.
        load: String,
        /// Why, as its own processes report it.
        reason: String,
    },
    /// A load's supervisor ended and left no error behind.
    SupervisorGone {
        /// The load.
        load: String,
    },
    /// A load was not ready in time.
    Late {
        /// The load.
        load: String,
        /// Tasks that are running.
        alive: u64,
        /// Tasks that it should have.
        expected: u64,
        /// How long they had to start.
        timeout: Duration,
    },
    /// The loads would need too much memory.
    Memory {
        /// The loads.
        loads: String,
        /// What they would need, in MiB.
        wanted_mib: u64,
        /// What is available, in MiB.
        available_mib: u64,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { load } => write!(f, "load {load}: no load has this name"),
            Self::Supervisor { load, source } => {
                write!(f, "load {load}: starting its supervisor failed: {source}")
            }
            Self::Failed { load, reason } => write!(f, "load {load}: {reason}"),
            Self::SupervisorGone { load } => write!(
                f,
                "load {load}: its supervisor ended and left no error message (killed, or not a \
                 punctual binary)"
            ),
            Self::Late {
                load,
                alive,
                expected,
                timeout,
            } => write!(
                f,
                "load {load}: only {alive} of {expected} tasks are running after {timeout:?}"
            ),
            Self::Memory {
                loads,
                wanted_mib,
                available_mib,
            } => write!(
                f,
                "load {loads}: about {wanted_mib} MiB of memory would be needed, and of the \
                 {available_mib} MiB available at most half may be: name fewer loads, or give \
                 them smaller numbers"
            ),
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Supervisor { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a load fails, as its own processes report it. The board passes the line to the controller.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkError {
    /// The system refused something.
    System {
        /// What failed: `fork failed`.
        what: String,
        /// The system's error.
        source: io::Error,
        /// What to do; empty if that depends.
        advice: &'static str,
    },
    /// A process ended that should work for ever.
    Ended {
        /// Which: `a worker (process 7)`.
        who: String,
        /// How.
        end: Ended,
    },
    /// The process of the load ended.
    Broken {
        /// How.
        end: Ended,
        /// Its last line on standard error.
        said: Option<String>,
    },
    /// A task ended without a reason.
    Early {
        /// Which: `a worker`.
        who: &'static str,
    },
    /// A process no longer exists.
    Lost {
        /// Which.
        who: &'static str,
    },
    /// There is no memory for the stacks.
    NoRoom {
        /// The number of threads.
        threads: usize,
    },
    /// A thread panicked.
    Panicked,
    /// Something is missing in the job.
    NotGiven {
        /// What is missing.
        what: &'static str,
    },
    /// The limit of open files is too low.
    OpenFiles {
        /// Descriptors that are needed.
        wanted: u64,
        /// The limit.
        limit: u64,
        /// Descriptors that it allows.
        possible: u64,
    },
    /// This program has no such load.
    Unknown,
    /// A signal ended the supervisor.
    ToldToStop,
    /// Other CPUs than the requested ones are in force.
    Cpus {
        /// The requested ones.
        wanted: Vec<usize>,
        /// Those in force.
        got: Vec<usize>,
    },
    /// Another class than the requested one is in force.
    Class {
        /// The requested class.
        wanted: LoadClass,
        /// The policy in force.
        got: i32,
    },
}

impl WorkError {
    /// What failed, for `map_err`.
    pub fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        Self::advised(what, "")
    }

    /// Like [`system`](Self::system), with what to do.
    pub fn advised<E: Into<io::Error>>(
        what: impl Into<String>,
        advice: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |error| Self::System {
            what: what.into(),
            source: error.into(),
            advice,
        }
    }

    /// How a process ended that should work for ever.
    pub fn ended(who: impl Into<String>, end: Ended) -> Self {
        let who = who.into();
        Self::Ended { who, end }
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System {
                what,
                source,
                advice: "",
            } => write!(f, "{what}: {source}"),
            Self::System {
                what,
                source,
                advice,
            } => write!(f, "{what}: {source}: {advice}"),
            Self::Ended { who, end } => write!(f, "{who} ended: {end}"),
            Self::Broken { end, said } => {
                write!(f, "it ended before it was stopped: {end}")?;
                said.iter().try_for_each(|line| write!(f, ": {line}"))
            }
            Self::Early { who } => write!(f, "{who} ended too early"),
            Self::Lost { who } => write!(f, "{who} is lost"),
            Self::NoRoom { threads } => write!(
                f,
                "no memory for {threads} threads: raise the limit (ulimit -v)"
            ),
            Self::Panicked => f.write_str("a thread panicked"),
            Self::NotGiven { what } => write!(f, "no {what} was given"),
            Self::OpenFiles {
                wanted,
                limit,
                possible,
            } => write!(
                f,
                "{wanted} descriptors are needed, and the limit of open files (ulimit -Hn) is \
                 {limit}: give fewer with poll:descriptors={possible}, or raise the limit"
            ),
            Self::Unknown => f.write_str("no load has this name"),
            Self::ToldToStop => f.write_str("a signal stopped the supervisor"),
            Self::Cpus { wanted, got } => write!(
                f,
                "requested CPUs {wanted:?}, running on {got:?}: are they online and in the \
                 cpuset?"
            ),
            Self::Class { wanted, got } => {
                write!(f, "requested class {wanted}, policy {got} is in force")
            }
        }
    }
}

impl Error for WorkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}
