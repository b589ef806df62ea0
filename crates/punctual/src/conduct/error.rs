//! Why a run could not start.

use std::fmt;
use std::io;

use super::exec::ExecError;
use punctual_load::LoadError;
use punctual_machine::queueing::NoLaunching;
use punctual_machine::tune::TuneError;
use punctual_network::sender::connect::ConnectError;
use punctual_record::{Demand, Ending, RecordError};
use punctual_rt::thread::SpawnError;
use punctual_trace::capture::Unavailable;
use punctual_trace::tracers::error::TracerError;

/// Why a run could not start.
#[derive(Debug)]
pub enum ConductError {
    /// The record cannot be saved.
    Record(RecordError),
    /// A load cannot be started.
    Load(LoadError),
    /// A probe thread cannot be started.
    Probe {
        /// Its CPU.
        cpu: usize,
        /// The reason.
        source: SpawnError,
    },
    /// A probe thread did not set itself up in time.
    NotReady {
        /// How many were ready.
        ready: usize,
    },
    /// The collector or another helper thread cannot be started.
    Collector(io::Error),
    /// The kernel's own tracer is not available.
    Tracer(TracerError),
    /// Watching is not possible here; `report` has the words for why.
    Watch(Unavailable),
    /// The kernel would kill the probes.
    TimeLimit {
        /// How long they run without sleeping, in µs; absent if they never sleep.
        needs_us: Option<u64>,
        /// RLIMIT_RTTIME, hard, in µs.
        hard_us: u64,
    },
    /// The settings cannot be changed for the run.
    Tune(TuneError),
    /// The settings of an experiment cannot be switched.
    Switch(TuneError),
    /// Signal handlers cannot be installed.
    Signals(io::Error),
    /// Requested conditions that are not in force: the run would be INVALID.
    NotInForce(Vec<Demand>),
    /// There is no session with the other machine.
    Connect(ConnectError),
    /// Messages to the other machine can't have launch times.
    Launch(NoLaunching),
    /// A task set can't be executed.
    Exec(ExecError),
    /// A signal ended it.
    Interrupted(Ending),
}

impl fmt::Display for ConductError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => error.fmt(f),
            Self::Load(error) => error.fmt(f),
            Self::Probe { cpu, source } => {
                write!(f, "cannot start the probe thread on CPU {cpu}: {source}")
            }
            Self::NotReady { ready } => write!(
                f,
                "only {ready} of the probe threads were ready within 30 s: does a real-time task \
                 occupy a CPU?"
            ),
            Self::Tracer(error) => write!(f, "the kernel's tracer: {error}"),
            Self::Collector(error) => write!(f, "cannot start a thread: {error}"),
            Self::Watch(_) => f.write_str("cannot watch"),
            Self::TimeLimit { needs_us, hard_us } => {
                let length = match needs_us {
                    Some(us) => format!("for {us} µs in each period"),
                    None => "all the time".to_owned(),
                };
                write!(
                    f,
                    "RLIMIT_RTTIME is {hard_us} µs: the kernel kills a real-time thread that runs \
                     longer without sleeping, and the probe polls {length}. Raise the limit \
                     (`ulimit -R unlimited`, or LimitRTTIME=infinity in a systemd unit), poll for \
                     less than half of it with --runtime, or use --policy other"
                )
            }
            // The session has ended: it restores what it had changed.
            Self::Tune(TuneError::Refused {
                setting,
                value,
                source,
            }) => write!(
                f,
                "--tuned: {setting}: the kernel refuses `{value}`: {source}; everything is \
                 restored: name other knobs with --tuned=KNOB,KNOB"
            ),
            Self::Tune(error) => write!(f, "--tuned: {error}"),
            Self::Switch(error) => error.fmt(f),
            Self::Exec(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
            Self::Launch(error) => write!(f, "--txtime: {error}"),
            Self::Signals(error) => write!(f, "cannot receive signals: {error}"),
            Self::NotInForce(demands) => {
                let names: Vec<&str> = demands.iter().map(Demand::name).collect();
                write!(f, "requested and not in force: {}", names.join(", "))
            }
            Self::Interrupted(_) => {
                f.write_str("ended by a signal before anything was measured: nothing is kept")
            }
        }
    }
}

impl std::error::Error for ConductError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Record(error) => Some(error),
            Self::Load(error) => Some(error),
            Self::Probe { source, .. } => Some(source),
            Self::Collector(error) | Self::Signals(error) => Some(error),
            Self::Tracer(error) => Some(error),
            Self::Exec(error) => Some(error),
            Self::Connect(error) => Some(error),
            Self::Launch(error) => Some(error),
            Self::Tune(error) | Self::Switch(error) => Some(error),
            _ => None,
        }
    }
}
