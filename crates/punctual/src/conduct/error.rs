//! Why a run could not be begun.

use std::fmt;
use std::io;

use punctual_record::{Demand, Ending};
use punctual_trace::capture::Unavailable;
use punctual_trace::tracers::error::TracerError;

/// Why a run could not be begun.
#[derive(Debug)]
pub enum ConductError {
    /// The record can't be kept.
    Record(String),
    /// A load can't be started.
    Load(String),
    /// A probe thread can't be started.
    Probe {
        /// Its CPU.
        cpu: usize,
        /// The reason.
        reason: String,
    },
    /// A probe thread did not set itself up in time.
    NotReady {
        /// How many did.
        ready: usize,
    },
    /// The collector or another helper thread can't be started.
    Collector(io::Error),
    /// The kernel's own tracer is not available.
    Tracer(TracerError),
    /// Nothing can be watched here; `report` has the words for why.
    Watch(Unavailable),
    /// The kernel would kill the probes.
    TimeLimit {
        /// How long they run without sleeping, in µs; absent where they never do.
        needs_us: Option<u64>,
        /// RLIMIT_RTTIME, hard, in µs.
        hard_us: u64,
    },
    /// Signals can't be listened to.
    Signals(io::Error),
    /// What was requested and is not in force: the run would be INVALID whatever it measured.
    NotInForce(Vec<Demand>),
    /// A signal ended it, by the reason that a record would give.
    Interrupted(Ending),
}

impl fmt::Display for ConductError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(reason) => f.write_str(reason),
            Self::Load(reason) => f.write_str(reason),
            Self::Probe { cpu, reason } => write!(f, "the probe thread on CPU {cpu}: {reason}"),
            Self::NotReady { ready } => write!(
                f,
                "only {ready} of the probe threads got ready within 30 s: \
                 is a real-time task keeping a CPU to itself?"
            ),
            Self::Tracer(reason) => write!(f, "the kernel's tracer: {reason}"),
            Self::Collector(error) => write!(f, "can't start a thread: {error}"),
            Self::Watch(_) => f.write_str("nothing can be watched"),
            Self::TimeLimit { needs_us, hard_us } => {
                let length = match needs_us {
                    Some(us) => format!("for {us} µs in each period"),
                    None => "all the time".to_owned(),
                };
                write!(
                    f,
                    "RLIMIT_RTTIME is {hard_us} µs: the kernel kills a real-time thread that runs \
                     so long without sleeping, and the probe polls {length}. Raise the limit \
                     (`ulimit -R unlimited`, or LimitRTTIME=infinity in a systemd unit), poll for \
                     less than half of it with --runtime, or use --policy other"
                )
            }
            Self::Signals(error) => write!(f, "can't listen to signals: {error}"),
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
            Self::Tracer(source) => Some(source),
            Self::Collector(source) | Self::Signals(source) => Some(source),
            _ => None,
        }
    }
}
