//! What a load generator is, and the list of all that there are.
//!
//! A new one is a file of its own and a line in [`ALL`].

use std::collections::BTreeMap;
use std::fmt;

use super::worker::Context;
use super::{cpu, files, fork, hackbench, memory, mmap, net, paths, timers};

/// A kind of load that can be asked for by name.
#[derive(Debug)]
pub struct Generator {
    /// Its name in `--load`.
    pub name: &'static str,
    /// What its work is counted in, a plural.
    pub unit: &'static str,
    /// What else it counts, a plural each.
    pub also: &'static [&'static str],
    /// What it stresses, in one line.
    pub description: &'static str,
    /// What can be set.
    pub parameters: &'static [Parameter],
    /// Whether it needs a directory for files.
    pub scratch: bool,
    /// About how much memory it takes with these values, in bytes.
    pub memory: fn(&Values) -> u64,
    /// The load itself; returns when it is finite and done, or has failed.
    pub run: fn(&Context<'_>) -> Result<(), String>,
}

/// The generators, in the order in which they are listed.
pub const ALL: &[&Generator] = &[
    &hackbench::GENERATOR,
    &mmap::GENERATOR,
    &fork::GENERATOR,
    &files::GENERATOR,
    &net::GENERATOR,
    &cpu::GENERATOR,
    &timers::GENERATOR,
    &paths::poll::GENERATOR,
    &paths::memory::EXIT,
    &paths::memory::MUNMAP,
    &paths::memory::MPROTECT,
    &paths::memory::HUGEPAGES,
    &paths::memory::VMREAD,
    &paths::kill::GENERATOR,
    &paths::truncate::GENERATOR,
    &paths::proc::GENERATOR,
];

/// The generator of this name.
pub fn find(name: &str) -> Option<&'static Generator> {
    ALL.iter().copied().find(|generator| generator.name == name)
}

/// The values of a generator's parameters.
pub type Values = BTreeMap<String, u64>;

/// The longest time without work that such values mean, where they mean one.
pub fn pause_ns(values: &Values) -> u64 {
    values
        .get("period_us")
        .map_or(0, |us| us.saturating_mul(1000))
}

/// One number that can be set: `--load name:key=value`.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// What it means, in one line.
    pub description: &'static str,
    /// What it is when it is not set.
    pub default: Amount,
    /// The smallest value accepted.
    pub least: u64,
    /// The largest value accepted.
    pub most: u64,
}

impl Parameter {
    /// How many processes there are, where nothing special is to be said of them.
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
    /// So many for each CPU.
    PerCpu(u64),
    /// So many bytes for each CPU, or less where memory is short: see
    /// [`memory::DEFAULT_SHARE`].
    Memory(u64),
    /// One large area of so many bytes for each CPU, or less where memory is short for all
    /// loads of the list: see [`memory::AREA_SHARE`].
    Area(u64),
    /// So many small processes, or fewer where memory is short, as for an area.
    Processes(u64),
    /// So many open files in a process, or fewer where the limit can't be raised so far.
    Files(u64),
}

/// About what a small forked process takes, in bytes: its stack in the kernel, its page
/// tables and the pages that it has touched.
pub const PROCESS_BYTES: u64 = 64 << 10;

impl Amount {
    /// The number on a machine with so many CPUs and so much memory.
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
            Amount::Files(count) => paths::files_allowed(count).max(1),
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

/// `128K` for what is exactly that, else the plain number.
fn short(value: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let whole = |&&(shift, _): &&(u32, _)| value > 0 && value.trailing_zeros() >= shift;
    match units.iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", value >> shift),
        None => value.to_string(),
    }
}

/// All generators and their parameters, as a list in Markdown.
pub fn markdown() -> String {
    let mut text = String::new();
    for generator in ALL {
        let Generator {
            name,
            unit,
            description,
            ..
        } = generator;
        let counted = [&[*unit][..], generator.also].concat().join(", ");
        text += &format!("- **`{name}`**: {description}. Counts {counted}.\n");
        for parameter in generator.parameters {
            let Parameter {
                key,
                description,
                default,
                ..
            } = parameter;
            let (least, most) = (short(parameter.least), short(parameter.most));
            text += &format!("  - `{key}` ({default}; {least} to {most}): {description}\n");
        }
    }
    text
}

impl Generator {
    /// All parameters: those set, and the defaults of the others, for a list of so many loads.
    /// Values set were checked when they were parsed.
    pub fn resolve(
        &self,
        set: &Values,
        cpus: usize,
        available_memory: u64,
        loads: usize,
    ) -> Values {
        let value = |parameter: &Parameter| {
            let default = || {
                let available = match parameter.default {
                    Amount::Area(_) | Amount::Processes(_) => {
                        available_memory / loads.max(1) as u64
                    }
                    _ => available_memory,
                };
                let amount = parameter.default.on(cpus, available);
                amount.clamp(parameter.least, parameter.most)
            };
            set.get(parameter.key).copied().unwrap_or_else(default)
        };
        let pair = |parameter: &Parameter| (parameter.key.to_owned(), value(parameter));
        self.parameters.iter().map(pair).collect()
    }

    /// Checks one setting; the error names the key and what is accepted.
    pub fn check(&self, key: &str, text: &str) -> Result<u64, String> {
        let name = self.name;
        let Some(parameter) = self.parameters.iter().find(|p| p.key == key) else {
            let known: Vec<_> = self.parameters.iter().map(|p| p.key).collect();
            let known = known.join(", ");
            return Err(format!(
                "load {name} has no parameter '{key}': it has {known}"
            ));
        };
        let Parameter { least, most, .. } = parameter;
        parse_number(text)
            .filter(|value| (least..=most).contains(&value))
            .ok_or_else(|| {
                format!(
                    "load {name}: {key}='{text}' is not accepted: \
                     give a number from {least} to {most} ({})",
                    parameter.description
                )
            })
    }
}

/// A whole number, with K, M or G (powers of 1024) behind it if need be.
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

    #[test]
    fn every_default_is_in_range_and_every_key_once() {
        for generator in ALL {
            let defaults = generator.resolve(&Values::new(), 2, 1 << 30, 1);
            assert_eq!(
                defaults.len(),
                generator.parameters.len(),
                "{}",
                generator.name
            );
            for parameter in generator.parameters {
                let value = parameter.default.on(2, 1 << 30);
                let range = parameter.least..=parameter.most;
                assert!(
                    range.contains(&value),
                    "{} {}",
                    generator.name,
                    parameter.key
                );
                // These are the supervisor's own.
                let taken = ["class", "cpus", "scratch", "run"];
                assert!(!taken.contains(&parameter.key), "{}", parameter.key);
            }
            assert!((generator.memory)(&defaults) > 0, "{}", generator.name);
        }
    }
}
