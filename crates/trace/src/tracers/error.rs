//! Why a tracer of the kernel's own is not available.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a tracer of the kernel's own is not available.
#[derive(Debug)]
#[non_exhaustive]
pub enum TracerError {
    /// tracefs is not mounted.
    NotMounted,
    /// tracefs may not be read.
    Forbidden {
        /// Where it is mounted.
        path: &'static str,
    },
    /// The kernel lacks the tracer.
    Absent {
        /// Its name.
        tracer: String,
    },
    /// A step of the setup failed.
    Step {
        /// The file, or what was done.
        step: String,
        /// The system's error.
        source: io::Error,
    },
    /// A setting is not in force after it was written.
    Setting {
        /// The file.
        file: String,
        /// The requested value.
        requested: String,
        /// The value in force.
        found: String,
    },
}

impl fmt::Display for TracerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOUNT: &str = "as root: mount -t tracefs none /sys/kernel/tracing";
        const ALONE: &str =
            "it needs root, and no other user of the kernel's tracers at the same time";
        match self {
            Self::NotMounted => write!(f, "tracefs is not mounted; {MOUNT}"),
            Self::Forbidden { path } => write!(f, "{path} may not be read; run as root"),
            Self::Absent { tracer } => write!(
                f,
                "the kernel has no {tracer} tracer; it needs CONFIG_HWLAT_TRACER, \
                 CONFIG_OSNOISE_TRACER and CONFIG_TIMERLAT_TRACER, as the PREEMPT_RT kernels of \
                 distributions have them"
            ),
            Self::Step { step, source } => write!(f, "{step}: {source}; {ALONE}"),
            Self::Setting {
                file,
                requested,
                found,
            } => write!(
                f,
                "{file} is {found} after it was set to {requested}; {ALONE}"
            ),
        }
    }
}

impl Error for TracerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Step { source, .. } => Some(source),
            Self::NotMounted
            | Self::Forbidden { .. }
            | Self::Absent { .. }
            | Self::Setting { .. } => None,
        }
    }
}
