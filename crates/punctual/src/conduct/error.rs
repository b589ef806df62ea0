//! Why a run could not be begun.

use std::fmt;
use std::io;

use crate::trace::capture::Unavailable;

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
    /// The kernel's own tracer can't be had.
    Tracer(String),
    /// Nothing can be watched here.
    Watch(Unavailable),
    /// Signals can't be listened to.
    Signals(io::Error),
    /// A signal ended it, by the reason that a record would give.
    Interrupted(&'static str),
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
            Self::Watch(why) => write!(f, "nothing can be watched: {}; {}", why.reason, why.mend),
            Self::Signals(error) => write!(f, "can't listen to signals: {error}"),
            Self::Interrupted(reason) => write!(
                f,
                "ended by a signal ({reason}) before anything was measured: nothing is kept"
            ),
        }
    }
}

impl std::error::Error for ConductError {}
