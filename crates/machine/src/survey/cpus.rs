//! CPU lists in cyclictest's syntax, and the choice of CPUs to probe.

use std::fmt;

pub use punctual_record::cpu_list as format;
use punctual_rt::cpulist;
pub use punctual_rt::cpulist::CpuList;

mod choice;
mod place;
pub use choice::{Choice, Topology, default_probed, for_load, select};
pub use place::Place;

/// One more than the highest CPU number that a list may name: Linux's own limit
/// (`CONFIG_NR_CPUS` on x86-64).
pub const CPU_LIMIT: usize = punctual_rt::affinity::MAX_CPUS;

/// The expected form of a CPU list; every error ends with it.
pub const ACCEPTED: &str = "a CPU list like `3`, `0-2,5`, `0-7:2` (every second), `!1-2` (all allowed but these), or `all`";

/// Why a CPU list was refused. Its text names the place and the expected form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuListError {
    /// It is not a CPU list on any machine.
    Refused {
        /// What is wrong.
        error: cpulist::CpuListError,
        /// The part at fault.
        part: String,
    },
    /// A CPU that is not online, or does not exist.
    Offline {
        /// The CPU.
        cpu: usize,
        /// The online CPUs.
        online: Vec<usize>,
        /// The CPUs that this process may use.
        allowed: Vec<usize>,
    },
    /// A CPU that is online, but that this process can't move to.
    Forbidden {
        /// The CPU.
        cpu: usize,
        /// The online CPUs.
        online: Vec<usize>,
        /// The CPUs that it can move to.
        place: Box<Place>,
    },
    /// `!list` excludes every CPU.
    NoneLeft {
        /// The CPUs that this process may use.
        allowed: Vec<usize>,
    },
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { error, part } => {
                use cpulist::CpuListError as Kind;
                let part = crate::root::excerpt(part);
                match error {
                    Kind::Malformed => write!(f, "{part} is not a CPU or a range"),
                    Kind::Backwards => write!(f, "the range {part} ends before it begins"),
                    Kind::TooLarge => {
                        write!(
                            f,
                            "{part} is above the highest CPU number, {}",
                            CPU_LIMIT - 1
                        )
                    }
                    other => write!(f, "{other}"),
                }?;
                write!(f, "; expected {ACCEPTED}")
            }
            Self::Offline {
                cpu,
                online,
                allowed,
            } => write!(
                f,
                "CPU {cpu} is not online; online: {}; allowed: {}",
                format(online),
                format(allowed)
            ),
            Self::Forbidden { cpu, online, place } => {
                let may = format(&place.reachable);
                match (&place.refused, &place.cpuset) {
                    (Some(reason), _) => write!(
                        f,
                        "CPU {cpu} is not in this process's affinity ({may}), and the kernel \
                         refuses to change it: {reason}: start punctual with taskset -c {cpu}, or \
                         allow sched_setaffinity"
                    ),
                    (None, Some(file)) => write!(
                        f,
                        "CPU {cpu} is not in the cpuset of this process: {file} has CPUs {may}; \
                         online: {}: add it there, or start punctual in a cgroup that has it",
                        format(online)
                    ),
                    (None, None) => write!(
                        f,
                        "the kernel does not let this process move to CPU {cpu}; it may use CPUs \
                         {may}; online: {}: start punctual in a cgroup or container that has it",
                        format(online)
                    ),
                }
            }
            Self::NoneLeft { allowed } => write!(
                f,
                "the CPU list leaves none of the allowed CPUs ({}); expected {ACCEPTED}",
                format(allowed)
            ),
        }
    }
}

impl std::error::Error for CpuListError {}

impl From<cpulist::Refused<'_>> for CpuListError {
    fn from(refused: cpulist::Refused<'_>) -> Self {
        Self::Refused {
            error: refused.error,
            part: refused.part.to_owned(),
        }
    }
}

/// Parses a CPU list that a user wrote.
///
/// # Errors
/// If it is not a CPU list; the machine is not examined.
pub fn parse(text: &str) -> Result<CpuList, CpuListError> {
    Ok(CpuList::parse(text)?)
}

/// Parses a CPU list as the kernel prints it; empty means no CPU. The result is ascending,
/// each CPU once.
///
/// # Errors
/// If it is not a CPU list.
pub fn parse_kernel(text: &str) -> Result<Vec<usize>, CpuListError> {
    Ok(cpulist::numbers(text)?)
}
