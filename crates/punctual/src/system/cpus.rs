//! CPU lists in cyclictest's manner, and the choice of CPUs to probe.

pub use crate::record::cpu_list as format;
use std::fmt;

mod choice;
pub use choice::{Choice, Topology, default_probed, select};

/// One above the highest CPU number that a list may name. Linux's own limit is
/// 8192 (`CONFIG_NR_CPUS` on x86-64); the bound keeps a hostile list small.
pub const CPU_LIMIT: usize = 1 << 16;

/// What a CPU list may look like; every error ends in it.
pub const ACCEPTED: &str = "a CPU list like `3`, `0-2,5`, `0-7:2` (every second), `!1-2` (all allowed but these), or `all`";

/// Why a CPU list was refused. Its text names the place and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuListError {
    /// It names no CPU.
    Empty,
    /// A part is not a CPU, a range, or a range with a stride.
    Malformed {
        /// The part.
        part: String,
    },
    /// A range that ends before it begins.
    Backwards {
        /// The range.
        part: String,
    },
    /// A number at or above [`CPU_LIMIT`].
    TooLarge {
        /// The part.
        part: String,
    },
    /// Ranges without end.
    TooLong,
    /// A CPU that is not online, or does not exist.
    Offline {
        /// The CPU.
        cpu: usize,
        /// Those that are online.
        online: Vec<usize>,
        /// Those that this process may use.
        allowed: Vec<usize>,
    },
    /// A CPU that is online, but that this process may not use (`taskset`, cpuset).
    Forbidden {
        /// The CPU.
        cpu: usize,
        /// Those that are online.
        online: Vec<usize>,
        /// Those that this process may use.
        allowed: Vec<usize>,
    },
    /// `!list` named all of them.
    NoneLeft {
        /// Those that this process may use.
        allowed: Vec<usize>,
    },
}

impl fmt::Display for CpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the CPU list is empty; accepted is {ACCEPTED}"),
            Self::Malformed { part } => {
                write!(
                    f,
                    "{} is not a CPU or a range; accepted is {ACCEPTED}",
                    super::root::excerpt(part)
                )
            }
            Self::Backwards { part } => write!(
                f,
                "the range {} ends before it begins; accepted is {ACCEPTED}",
                super::root::excerpt(part)
            ),
            Self::TooLarge { part } => write!(
                f,
                "{} is above the highest CPU number, {}; accepted is {ACCEPTED}",
                super::root::excerpt(part),
                CPU_LIMIT - 1
            ),
            Self::TooLong => write!(f, "the CPU list is too long; accepted is {ACCEPTED}"),
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
            Self::Forbidden {
                cpu,
                online,
                allowed,
            } => write!(
                f,
                "CPU {cpu} is not allowed for this process (affinity or cpuset); allowed: {}; online: {}",
                format(allowed),
                format(online)
            ),
            Self::NoneLeft { allowed } => write!(
                f,
                "the CPU list leaves none of the allowed CPUs ({}); accepted is {ACCEPTED}",
                format(allowed)
            ),
        }
    }
}

impl std::error::Error for CpuListError {}

/// A CPU list as a person writes it, before it is held against a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuList {
    /// `all`: every CPU that is online and allowed.
    All,
    /// These, in ascending order, each once.
    Only(Vec<usize>),
    /// `!list`: all that are allowed but these.
    Except(Vec<usize>),
}

impl std::str::FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        parse(text)
    }
}

/// Parses a CPU list as a person writes it.
///
/// # Errors
/// When it is not one; nothing about the machine is looked at.
pub fn parse(text: &str) -> Result<CpuList, CpuListError> {
    let text = text.trim();
    if text == "all" {
        return Ok(CpuList::All);
    }
    let (except, list) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let cpus = parse_kernel(list)?;
    match (cpus.is_empty(), except) {
        (true, _) => Err(CpuListError::Empty),
        (false, true) => Ok(CpuList::Except(cpus)),
        (false, false) => Ok(CpuList::Only(cpus)),
    }
}

/// Parses a CPU list as the kernel prints it (`0-3,8`; empty is no CPU), with the
/// strides that `taskset` (`0-7:2`) and the kernel (`0-31:2/8`, the first 2 of
/// each 8) accept. The result is ascending, each CPU once.
///
/// # Errors
/// When it is not one.
pub fn parse_kernel(text: &str) -> Result<Vec<usize>, CpuListError> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Ok(cpus);
    }
    let mut steps = 0;
    for part in text.split(',') {
        let range = Range::parse(part.trim())?;
        // A hostile list may repeat one wide range for a megabyte.
        steps += range.last - range.first + 1;
        if steps > 4 * CPU_LIMIT {
            return Err(CpuListError::TooLong);
        }
        cpus.extend(range.cpus());
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// One part of a list: `N`, `N-M`, `N-M:stride` or `N-M:used/group`.
struct Range {
    first: usize,
    last: usize,
    /// The first so many of each group are meant.
    used: usize,
    group: usize,
}

impl Range {
    fn parse(part: &str) -> Result<Self, CpuListError> {
        let malformed = || CpuListError::Malformed {
            part: part.to_owned(),
        };
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first, part)?, number(last, part)?),
            None if stride.is_some() => return Err(malformed()),
            None => {
                let cpu = number(range, part)?;
                (cpu, cpu)
            }
        };
        if last < first {
            return Err(CpuListError::Backwards {
                part: part.to_owned(),
            });
        }
        let (used, group) = match stride {
            None => (1, 1),
            Some(stride) => match stride.split_once('/') {
                Some((used, group)) => (number(used, part)?, number(group, part)?),
                None => (1, number(stride, part)?),
            },
        };
        if used == 0 || group == 0 || used > group {
            return Err(malformed());
        }
        Ok(Self {
            first,
            last,
            used,
            group,
        })
    }

    fn cpus(&self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).filter(|cpu| (cpu - self.first) % self.group < self.used)
    }
}

/// A CPU number below [`CPU_LIMIT`].
fn number(text: &str, part: &str) -> Result<usize, CpuListError> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits {
        return Err(CpuListError::Malformed {
            part: part.to_owned(),
        });
    }
    match text.parse::<usize>() {
        Ok(number) if number < CPU_LIMIT => Ok(number),
        _ => Err(CpuListError::TooLarge {
            part: part.to_owned(),
        }),
    }
}
