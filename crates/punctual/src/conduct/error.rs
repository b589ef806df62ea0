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
    /// Nothing can be watched here.
    Watch(Unavailable),
    /// Signals can't be listened to.
    Signals(io::Error),
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
            Self::Collector(error) => write!(f, "can't start a thread: {error}"),
            Self::Watch(why) => write!(f, "nothing can be watched: {}; {}", why.reason, why.mend),
            Self::Signals(error) => write!(f, "can't listen to signals: {error}"),
        }
    }
}

impl std::error::Error for ConductError {}
