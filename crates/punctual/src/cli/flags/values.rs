//! Values that are numbers or lists, and what is expected instead of a wrong one.

use std::error::Error;
use std::fmt;

use punctual_machine::survey::cpus::{self, CpuListError};

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
            Self::Knob => f.write_str(
                "expected a finding of punctual check with a fix at run time, or /PATH=VALUE",
            ),
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
