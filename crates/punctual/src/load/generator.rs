//! What a load generator is, and the list of all that there are.
//!
//! A new one is a file of its own and a line in [`ALL`].

use std::collections::BTreeMap;

use super::worker::Context;
use super::{cpu, files, fork, hackbench, memory, mmap, net, timers};

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
];

/// The generator of this name.
pub fn find(name: &str) -> Option<&'static Generator> {
    ALL.iter().copied().find(|generator| generator.name == name)
}

/// The values of a generator's parameters.
pub type Values = BTreeMap<String, u64>;

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
}

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
        }
    }
}

impl Generator {
    /// All parameters: those set, and the defaults of the others. Values set
    /// were checked when they were parsed.
    pub fn resolve(&self, set: &Values, cpus: usize, available_memory: u64) -> Values {
        let value = |parameter: &Parameter| {
            let default = || {
                let amount = parameter.default.on(cpus, available_memory);
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
