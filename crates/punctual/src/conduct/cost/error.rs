//! Why a cost could not be found.

use std::error::Error;
use std::fmt;
use std::io;

use punctual_machine::tune::TuneError;
use punctual_record::lab::NoResult;
use punctual_stats::format::duration;

/// The probe as an error names it.
pub const PROBE: &str = "the probe beside the command";

/// Why the runs ended early. Nothing is left changed, or the error says what.
#[derive(Debug)]
pub enum CostError {
    /// Signal handlers can't be installed.
    Signals(io::Error),
    /// The process above a run can't be started, or its answer not be read.
    Runner(io::Error),
    /// The process above a run ended without an answer: somebody killed it.
    RunnerKilled,
    /// The command was not started: why not, and the exit status for that.
    Refused {
        /// In one line.
        line: String,
        /// The exit status.
        status: u8,
    },
    /// The command ended with a status other than 0.
    Status {
        /// The command.
        program: String,
        /// The status.
        status: i32,
        /// Whether its output is kept in a file.
        is_kept: bool,
    },
    /// A signal ended the command.
    Signal {
        /// The command.
        program: String,
        /// The signal.
        signal: i32,
    },
    /// It did not end.
    Limit {
        /// The command.
        program: String,
        /// The limit in ns.
        limit_ns: u64,
    },
    /// What prepares a run failed.
    Prepare {
        /// As it was given.
        line: String,
        /// How it ended.
        how: String,
    },
    /// A thread can't be started with the requested scheduling.
    Thread {
        /// What it is for.
        what: &'static str,
        /// What was refused.
        step: String,
        /// Why.
        source: io::Error,
    },
    /// A setting can't be switched or restored.
    Switch(TuneError),
    /// A guest of the laboratory.
    Guest(String),
    /// A guest gave no result.
    NoResult {
        /// Its kernel.
        kernel: String,
        /// Why not.
        why: NoResult,
    },
    /// The record can't be saved.
    Unsaved(String),
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signals(error) => write!(f, "cannot receive signals: {error}"),
            Self::Runner(error) => write!(f, "starting the process above a run failed: {error}"),
            Self::RunnerKilled => f.write_str(
                "the process above a run ended without an answer: was it killed? The run does not count",
            ),
            Self::Refused { line, .. } => f.write_str(line),
            Self::Status {
                program,
                status,
                is_kept,
            } => {
                write!(
                    f,
                    "{program} ended with status {status}: fix it, or accept that with \
                     --ignore-failure"
                )?;
                match is_kept {
                    true => Ok(()),
                    false => f.write_str("; --print-to FILE keeps what it prints"),
                }
            }
            Self::Signal { program, signal } => {
                write!(f, "{program} was ended by signal {signal}: such a run has no cost")
            }
            Self::Limit { program, limit_ns } => write!(
                f,
                "{program} had not ended after {}, and was ended: give more time with --limit",
                duration(*limit_ns)
            ),
            Self::Prepare { line, how } => write!(f, "--prepare '{line}' {how}"),
            Self::Thread { what, step, source } => write!(
                f,
                "{what}: {step} failed: {source}: real-time priority needs CAP_SYS_NICE or a limit \
                 (ulimit -r){}",
                match *what == PROBE {
                    true => ", or leave the probe out with --no-probe",
                    false => "",
                }
            ),
            Self::Switch(error) => error.fmt(f),
            Self::NoResult { kernel, .. } => write!(f, "{kernel}: the guest gave no result"),
            Self::Guest(line) | Self::Unsaved(line) => f.write_str(line),
        }
    }
}

impl Error for CostError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Signals(error) | Self::Runner(error) => Some(error),
            Self::Thread { source, .. } => Some(source),
            Self::Switch(error) => Some(error),
            _ => None,
        }
    }
}

impl CostError {
    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Refused { status, .. } => *status,
            _ => 1,
        }
    }
}
