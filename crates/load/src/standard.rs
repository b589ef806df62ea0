//! The standard load: the definition behind every figure "under standard load".
//!
//! A change of anything here is a new [`VERSION`]: figures of different
//! versions are not compared. `docs/load.md` holds the same table, and a test
//! compares the two.

use crate::item::LoadItem;
use crate::parameter::{Amount, Values};

/// The version of the definition, part of the label of every figure.
pub const VERSION: u32 = 1;

/// One generator of the standard load.
#[derive(Debug)]
pub struct Part {
    /// The generator.
    pub name: &'static str,
    /// Its purpose.
    pub why: &'static str,
    /// Its parameters, all of them, so that a changed default of the
    /// generator does not change the standard.
    pub set: &'static [(&'static str, Amount)],
}

use Amount::{Fixed, Memory, PerCpu};

/// The definition.
pub const PARTS: &[Part] = &[
    Part {
        name: "hackbench",
        why: "wake-ups, run queues, sockets, inter-processor interrupts",
        set: &[
            ("groups", PerCpu(1)),
            ("loops", Fixed(0)),
            ("datasize", Fixed(100)),
            ("fds", Fixed(8)),
            ("pipe", Fixed(0)),
            ("threads", Fixed(0)),
        ],
    },
    Part {
        name: "mmap",
        why: "page faults, freeing of large areas, TLB shoot-downs",
        set: &[
            ("workers", PerCpu(1)),
            ("threads", Fixed(2)),
            ("bytes", Memory(64 << 20)),
        ],
    },
    Part {
        name: "fork",
        why: "creation, exec and exit of processes, RCU",
        set: &[("workers", PerCpu(1)), ("pages", Fixed(64))],
    },
    Part {
        name: "files",
        why: "page cache, directories, truncation, the block layer",
        set: &[
            ("readers", PerCpu(1)),
            ("bytes", Memory(16 << 20)),
            ("block", Fixed(128 << 10)),
            ("churners", Fixed(1)),
            ("small", Fixed(64)),
            ("cold", Fixed(0)),
        ],
    },
    Part {
        name: "net",
        why: "TCP over loopback: network softirqs, bulk and ping-pong",
        set: &[
            ("pairs", PerCpu(1)),
            ("streams", PerCpu(1)),
            ("message", Fixed(256)),
            ("block", Fixed(64 << 10)),
        ],
    },
    Part {
        name: "cpu",
        why: "integer, floating point, caches and memory bandwidth",
        set: &[("workers", PerCpu(1)), ("bytes", Memory(16 << 20))],
    },
    Part {
        name: "timers",
        why: "timer interrupts, short sleeps",
        set: &[
            ("workers", PerCpu(1)),
            ("timers", Fixed(64)),
            ("sleepers", Fixed(4)),
            ("period_us", Fixed(1000)),
        ],
    },
];

/// The standard load on this machine: the numbers depend only on its CPUs and memory.
pub(crate) fn resolve(name: &str, cpus: usize, available_memory: u64) -> Option<Values> {
    let part = PARTS.iter().find(|part| part.name == name)?;
    let value = |(key, amount): &(&str, Amount)| {
        let value = amount.on(cpus, available_memory);
        ((*key).to_owned(), value)
    };
    Some(part.set.iter().map(value).collect())
}

/// The parts as list items; their values are resolved when they start.
pub(crate) fn items() -> Vec<LoadItem> {
    let item = |part: &Part| LoadItem {
        name: part.name.to_owned(),
        set: Values::new(),
    };
    PARTS.iter().map(item).collect()
}

/// The definition as a table in Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| load | purpose | parameters |\n|---|---|---|\n");
    for Part { name, why, set } in PARTS {
        let set: Vec<_> = set
            .iter()
            .map(|(key, amount)| format!("{key} {amount}"))
            .collect();
        text += &format!("| `{name}` | {why} | {} |\n", set.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn the_table_in_the_documents_is_this_one() {
        let document = include_str!("../../../docs/load.md");
        let title = format!("## The standard load, version {VERSION}\n");
        assert!(document.contains(&title), "its version");
        let table = markdown();
        assert!(
            document.contains(&table),
            "docs/load.md must hold\n\n{table}"
        );
    }

    #[test]
    fn every_parameter_is_laid_down_and_in_range() {
        for Part { name, set, .. } in PARTS {
            let generator = registry::find(name).expect("a generator of this name");
            assert_eq!(set.len(), generator.parameters.len(), "{name}");
            for parameter in generator.parameters {
                let given = set.iter().find(|(key, _)| *key == parameter.key);
                let (key, amount) = given.expect(parameter.key);
                for (cpus, memory) in [(1, 1 << 28), (2, 1 << 30), (1024, 1 << 40)] {
                    let value = amount.on(cpus, memory);
                    let range = parameter.least..=parameter.most;
                    assert!(range.contains(&value), "{name} {key} on {cpus} CPUs");
                }
            }
        }
    }

    #[test]
    fn it_takes_less_than_a_quarter_of_the_memory() {
        for (cpus, available) in [
            (1, 400 << 20),
            (2, 800 << 20),
            (8, 4 << 30),
            (256, 128 << 30),
        ] {
            let memory = |part: &Part| {
                let generator = registry::find(part.name).expect("a generator of this name");
                let values = resolve(part.name, cpus, available).expect("a part of it");
                (generator.memory)(&values)
            };
            let total: u64 = PARTS.iter().map(memory).sum();
            assert!(total < available / 4, "{} MiB on {cpus} CPUs", total >> 20);
        }
    }
}
