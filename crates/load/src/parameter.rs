//! The parameters of a load, and their defaults on a machine.

use std::collections::BTreeMap;
use std::fmt;

use crate::{limits, memory};

/// The values of a generator's parameters.
pub type Values = BTreeMap<String, u64>;

/// The longest time without work that these values imply, if they imply one.
pub fn pause_ns(values: &Values) -> u64 {
    values
        .get("period_us")
        .map_or(0, |us| us.saturating_mul(1000))
}

/// One parameter: `--load name:key=value`.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// What it means, in one line.
    pub description: &'static str,
    /// Its default.
    pub default: Amount,
    /// The smallest value accepted.
    pub least: u64,
    /// The largest value accepted.
    pub most: u64,
}

impl Parameter {
    /// The number of processes, with the usual description.
    pub const WORKERS: Self = Self {
        key: "workers",
        description: "processes",
        default: Amount::PerCpu(1),
        least: 1,
        most: 4096,
    };
}

/// A default, which may depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The same everywhere.
    Fixed(u64),
    /// This many for each CPU.
    PerCpu(u64),
    /// This many bytes for each CPU, or less if memory is short: see
    /// [`memory::DEFAULT_SHARE`].
    Memory(u64),
    /// One large area of this many bytes for each CPU, or less if memory is short for all loads of
    /// the list: see [`memory::AREA_SHARE`].
    Area(u64),
    /// This many small processes, or fewer if memory is short, as for an area.
    Processes(u64),
    /// This many open files in a process, or fewer if the limit cannot be raised that far.
    Files(u64),
}

/// The approximate memory of a small forked process, in bytes: its stack in the kernel, its page
/// tables and the pages that it has touched.
pub const PROCESS_BYTES: u64 = 64 << 10;

impl Amount {
    /// The number on a machine with these CPUs and this memory.
    pub fn on(self, cpus: usize, available_memory: u64) -> u64 {
        let cpus = cpus.max(1) as u64;
        match self {
            Amount::Fixed(value) => value,
            Amount::PerCpu(value) => value * cpus,
            Amount::Memory(bytes) => {
                let share = available_memory / memory::DEFAULT_SHARE / cpus;
                // Whole 64 KiB, the largest page size in use.
                (bytes.min(share) & !0xffff).max(1 << 16)
            }
            Amount::Area(bytes) => {
                let share = available_memory / memory::AREA_SHARE / cpus;
                (bytes.min(share) & !0xffff).max(1 << 16)
            }
            Amount::Processes(count) => {
                let share = available_memory / memory::AREA_SHARE;
                count.min(share / PROCESS_BYTES).max(1)
            }
            Amount::Files(count) => limits::files_for(count).max(1),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Fixed(value) => f.write_str(&short(*value)),
            Amount::PerCpu(value) => write!(f, "{value} per CPU"),
            Amount::Memory(bytes) | Amount::Area(bytes) => write!(f, "{} or less", short(*bytes)),
            Amount::Processes(count) | Amount::Files(count) => write!(f, "{count} or less"),
        }
    }
}

/// `128K` if it is exactly that, else the plain number.
pub(crate) fn short(value: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = |&&(shift, _): &&(u32, _)| value > 0 && value.trailing_zeros() >= shift;
    match units.iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", value >> shift),
        None => value.to_string(),
    }
}

/// A whole number, optionally with K, M or G (powers of 1024).
pub fn parse_number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    // `parse` alone would take "+5".
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_unit() {
        assert_eq!(parse_number("0"), Some(0));
        assert_eq!(parse_number("16M"), Some(16 << 20));
        assert_eq!(parse_number("3k"), Some(3072));
        for text in ["", "M", "-1", "+1", "1.5", "1T", "17179869184G", "é"] {
            assert_eq!(parse_number(text), None, "{text}");
        }
    }

    #[test]
    fn memory_follows_the_machine() {
        let amount = Amount::Memory(64 << 20);
        assert_eq!(amount.on(2, 64 << 30), 64 << 20);
        assert_eq!(amount.on(2, 1 << 30), 32 << 20);
        assert_eq!(amount.on(64, 1 << 20), 1 << 16);
        assert_eq!(amount.on(0, 1 << 30), 64 << 20);
    }
}
