//! Values that are numbers or lists, and what is expected instead of a wrong one.

use std::error::Error;
use std::fmt;

use punctual_machine::survey::cpus::{self, CpuListError};
use punctual_network::wire::limits;
use punctual_record::tuning::{RouteMetric, ThreadSetting};

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueError {
    /// Not a real-time priority.
    Priority,
    /// Not a number of threads.
    Threads,
    /// A distance between the intervals of threads.
    Distance,
    /// Not a number of cycles.
    Loops,
    /// Not a seed.
    Seed,
    /// Not a list of CPUs.
    Cpus(CpuListError),
    /// Not a size that stacks can have.
    StackSize,
    /// No word for the stack library.
    StackDebug,
    /// A word that the stack library does not know.
    StackDebugWord(String),
    /// Neither a kind of interval nor an interval.
    Interval,
    /// Not a number of bytes that a cycle writes.
    Work,
    /// Not a change in percent.
    Percent,
    /// Neither a finding nor a file with a value.
    Knob,
    /// Not the name of a knob that can have been changed.
    KnobName,
    /// Not a value of a metric of a route.
    RouteMetric(RouteMetric),
    /// Not the state of an entry of the neighbour table.
    Neighbour,
    /// Not a way in which a network device receives.
    Napi,
    /// Not the number of a thread.
    Thread,
    /// Not what a thread can have.
    ThreadSetting(ThreadSetting),
    /// Not a part of a CPU's time that leaves room for anything else.
    Utilisation,
    /// Not a number of pairs.
    Pairs,
    /// Not a number of runs.
    WarmUps,
    /// Not a number of CPUs.
    CpuCount,
    /// Not the number of a CPU.
    Cpu,
    /// Not a percentile.
    Percentile,
    /// Not the length of a message.
    MessageSize,
    /// Not a number of messages.
    Burst,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STACK_DEBUG: &str =
            "expected words of audit, audit=0..64, guards, noaccess, leaks, separated by commas";
        match self {
            Self::Priority => f.write_str("expected a real-time priority from 1 to 99"),
            Self::Threads => f.write_str("expected a number of threads from 1 to 4096"),
            Self::Distance => f.write_str("expected 0: every thread has the same interval"),
            Self::Loops => f.write_str("expected a number of cycles from 1"),
            Self::Seed => write!(f, "expected a whole number from 0 to {}", u64::MAX),
            Self::Cpus(source) => source.fmt(f),
            Self::StackSize => f.write_str("expected a size from 32K to 2M"),
            Self::StackDebug => f.write_str(STACK_DEBUG),
            Self::StackDebugWord(word) => write!(f, "{STACK_DEBUG}, not '{word}'"),
            Self::Work => f.write_str("expected a number of bytes from 0 to 65536"),
            Self::Percent => f.write_str("expected a change from 1 to 1000 percent, such as 20"),
            Self::Utilisation => f.write_str("expected a part from 0.01 to 0.9, such as 0.3"),
            Self::Pairs => f.write_str("expected a number of pairs from 6 to 1000"),
            Self::WarmUps => f.write_str("expected a number of runs from 0 to 1000"),
            Self::Cpu => f.write_str("expected the number of a CPU, from 0 to 4095"),
            Self::CpuCount => f.write_str("expected a number of CPUs from 1 to 4096"),
            Self::Percentile => {
                f.write_str("expected a percentile from 50 to 99.9999, such as 99.9")
            }
            Self::MessageSize => write!(
                f,
                "expected a length from {} to {} bytes",
                limits::LEAST_MESSAGE_BYTES,
                limits::MOST_MESSAGE_BYTES
            ),
            Self::Burst => write!(
                f,
                "expected a number of messages from 1 to {}",
                limits::MOST_BURST
            ),
            Self::Knob => f.write_str(
                "expected a finding (`punctual check -v` and docs/findings.md list them), \
                 /PATH=VALUE, or a setting of docs/tune.md such as rto_min@HOST=5ms",
            ),
            Self::KnobName => f.write_str(
                "expected the name of a knob as punctual tune status prints it, without a value",
            ),
            Self::RouteMetric(RouteMetric::RtoMin) => f.write_str(
                "rto_min: expected a whole number of ms from 1ms to 120s, with its unit",
            ),
            Self::RouteMetric(RouteMetric::InitCwnd) => {
                f.write_str("initcwnd: expected a number of segments from 1 to 1000")
            }
            Self::RouteMetric(RouteMetric::QuickAck) => {
                f.write_str("quickack: expected no value, or 1")
            }
            Self::Neighbour => f.write_str(
                "neighbour: expected no value, permanent, or a link-layer address such as \
                 02:00:00:00:00:01",
            ),
            Self::Napi => f.write_str(
                "napi: expected softirq, threads, or threads:PRIORITY with a priority from 1 to 99",
            ),
            Self::Thread => f.write_str(
                "expected the number of a thread behind the @, as ps -eL prints it (LWP), or TID:START \
                 with field 22 of /proc/TID/stat",
            ),
            Self::ThreadSetting(ThreadSetting::Scheduling) => f.write_str(
                "scheduling: expected fifo:PRIORITY or rr:PRIORITY from 1 to 99, other, other:NICE, \
                 batch, or idle",
            ),
            Self::ThreadSetting(ThreadSetting::Affinity) => {
                f.write_str("affinity: expected a list of CPUs such as 0,2-3")
            }
            Self::Interval => {
                f.write_str("expected fixed, primes, or an interval such as 1000 or 250us")
            }
        }
    }
}

impl Error for ValueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cpus(source) => Some(source),
            _ => None,
        }
    }
}

/// Words that the stack library in the program knows.
pub fn stack_debug(words: &str) -> Result<String, ValueError> {
    match punctual_rt::stack::DebugOptions::parse(words) {
        Ok(options) if options.any() => Ok(words.to_owned()),
        Ok(_) => Err(ValueError::StackDebug),
        Err(word) => Err(ValueError::StackDebugWord(word.to_string())),
    }
}

/// Bytes, or a number with K or M; rounded up to a size that stacks can have.
pub fn stack_size(text: &str) -> Result<usize, ValueError> {
    let (digits, shift) = match text.trim_end_matches(['B', 'b']) {
        text if text.ends_with(['K', 'k']) => (&text[..text.len() - 1], 10),
        text if text.ends_with(['M', 'm']) => (&text[..text.len() - 1], 20),
        text => (text, 0),
    };
    digits
        .parse::<usize>()
        .ok()
        .filter(|number| digits.bytes().all(|byte| byte.is_ascii_digit()) && *number > 0)
        .and_then(|number| number.checked_mul(1 << shift))
        .and_then(punctual_rt::stack::class_of)
        .ok_or(ValueError::StackSize)
}

pub fn priority(text: &str) -> Result<u32, ValueError> {
    match text.parse() {
        Ok(priority @ 1..=99) => Ok(priority),
        _ => Err(ValueError::Priority),
    }
}

/// A change in percent.
pub fn percent(text: &str) -> Result<f64, ValueError> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (1.0..=1000.0).contains(&percent) => Ok(percent),
        _ => Err(ValueError::Percent),
    }
}

/// Bytes that a cycle writes.
pub fn work(text: &str) -> Result<u64, ValueError> {
    match text.parse() {
        Ok(bytes @ 0..=65_536) => Ok(bytes),
        _ => Err(ValueError::Work),
    }
}

pub fn threads(text: &str) -> Result<usize, ValueError> {
    match text.parse() {
        Ok(threads @ 1..=4096) => Ok(threads),
        _ => Err(ValueError::Threads),
    }
}

pub fn distance(text: &str) -> Result<u64, ValueError> {
    match text {
        "0" => Ok(0),
        _ => Err(ValueError::Distance),
    }
}

pub fn loops(text: &str) -> Result<u64, ValueError> {
    match text.parse() {
        Ok(loops @ 1..) => Ok(loops),
        _ => Err(ValueError::Loops),
    }
}

pub fn seed(text: &str) -> Result<u64, ValueError> {
    text.parse().map_err(|_| ValueError::Seed)
}

/// Refused here if it is no list at all; checked against the machine later.
pub fn cpu_list(text: &str) -> Result<String, ValueError> {
    match cpus::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(ValueError::Cpus(error)),
    }
}

/// A part of a CPU's time: above 0.9, the kernel's limit for real-time tasks (95 %) would be near.
pub fn utilisation(text: &str) -> Result<f64, ValueError> {
    match text.trim().parse::<f64>() {
        Ok(part) if (0.01..=0.9).contains(&part) => Ok(part),
        _ => Err(ValueError::Utilisation),
    }
}

/// Fewer pairs than 6 can't show anything.
pub fn pairs(text: &str) -> Result<u64, ValueError> {
    match text.parse() {
        Ok(pairs @ 6..=1000) => Ok(pairs),
        _ => Err(ValueError::Pairs),
    }
}

pub fn warm_ups(text: &str) -> Result<u64, ValueError> {
    match text.parse() {
        Ok(runs @ 0..=1000) => Ok(runs),
        _ => Err(ValueError::WarmUps),
    }
}

/// The number of a CPU.
///
/// # Errors
/// It is none.
pub fn cpu(text: &str) -> Result<usize, ValueError> {
    match text.trim().parse() {
        Ok(cpu @ 0..=4095) => Ok(cpu),
        _ => Err(ValueError::Cpu),
    }
}

pub fn cpu_count(text: &str) -> Result<usize, ValueError> {
    match text.parse() {
        Ok(cpus @ 1..=4096) => Ok(cpus),
        _ => Err(ValueError::CpuCount),
    }
}

/// As a quantile: 99.9 is 0.999.
pub fn percentile(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().strip_prefix('p').unwrap_or(text.trim());
    match number.parse::<f64>() {
        Ok(percentile) if (50.0..=99.9999).contains(&percentile) => {
            // Rounded as it was written: 99.9 is 0.999 and not one in its last bit less.
            Ok((percentile * 1e8).round() / 1e10)
        }
        _ => Err(ValueError::Percentile),
    }
}

/// The length of a message, which a reply has too.
pub fn message_size(text: &str) -> Result<u32, ValueError> {
    const RANGE: std::ops::RangeInclusive<u32> =
        limits::LEAST_MESSAGE_BYTES..=limits::MOST_MESSAGE_BYTES;
    match text.parse() {
        Ok(bytes) if RANGE.contains(&bytes) => Ok(bytes),
        _ => Err(ValueError::MessageSize),
    }
}

/// Messages at each instant.
pub fn burst(text: &str) -> Result<u32, ValueError> {
    match text.parse() {
        Ok(messages @ 1..=limits::MOST_BURST) => Ok(messages),
        _ => Err(ValueError::Burst),
    }
}
