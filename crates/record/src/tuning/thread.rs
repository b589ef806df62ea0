//! What can be set of one thread.

use serde::{Deserialize, Serialize};

use super::Setting;

/// A thread by its identity: its number is used again, its start time is not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadIdentity {
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// When it started, in ticks since boot.
    pub start: u64,
}

/// Policies by their names and the kernel's numbers: without SCHED_DEADLINE, which takes more than
/// a priority.
const POLICIES: [(&str, u32); 5] = [
    ("other", 0),
    ("fifo", 1),
    ("rr", 2),
    ("batch", 3),
    ("idle", 5),
];

/// What a user can name of a thread: `scheduling@TID`, `affinity@TID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadSetting {
    /// Its policy, with its priority or nice value.
    Scheduling,
    /// Its CPUs.
    Affinity,
}

impl ThreadSetting {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Scheduling, Self::Affinity];

    /// Its name before the `@`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduling => "scheduling",
            Self::Affinity => "affinity",
        }
    }

    /// The knob's name for a thread: with the start time its number can't mean another thread.
    #[must_use]
    pub fn knob(self, tid: impl std::fmt::Display, start: Option<u64>) -> String {
        let start = start.map_or_else(String::new, |start| format!(":{start}"));
        format!("{}@{tid}{start}", self.name())
    }

    /// The setting of a thread.
    #[must_use]
    pub fn of(self, thread: ThreadIdentity) -> Setting {
        match self {
            Self::Scheduling => Setting::Scheduling { thread },
            Self::Affinity => Setting::Affinity { thread },
        }
    }

    /// What a user writes for a value of the setting: `fifo:79`, `other:-5`, `0,2-3`.
    #[must_use]
    pub fn argument(self, value: &str) -> String {
        let mut numbers = value.split(' ');
        let policy = numbers.next().and_then(|it| it.parse().ok());
        let known = POLICIES.iter().find(|(_, number)| Some(*number) == policy);
        match (self, known) {
            (Self::Scheduling, Some((policy, 1 | 2))) => {
                format!("{policy}:{}", numbers.next().unwrap_or_default())
            }
            (Self::Scheduling, Some((policy, _))) => match numbers.nth(1) {
                None | Some("0") => (*policy).to_owned(),
                Some(nice) => format!("{policy}:{nice}"),
            },
            _ => value.to_owned(),
        }
    }
}

/// The value of [`Setting::Scheduling`] for a policy as a user writes it: `fifo:79`, `other`,
/// `other:-5`; nothing for a text that is none.
#[must_use]
pub fn scheduling(text: &str) -> Option<String> {
    let (policy, number) = match text.split_once(':') {
        Some((policy, number)) => (policy, Some(number.parse::<i32>().ok()?)),
        None => (text, None),
    };
    let (name, policy) = POLICIES.iter().find(|(name, _)| *name == policy)?;
    match (*name, number) {
        ("fifo" | "rr", Some(priority @ 1..=99)) => Some(format!("{policy} {priority} 0")),
        ("other" | "batch", Some(nice @ -20..=19)) => Some(format!("{policy} 0 {nice}")),
        ("other" | "batch" | "idle", None) => Some(format!("{policy} 0 0")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written_alike() {
        for (text, value) in [
            ("fifo:79", "1 79 0"),
            ("rr:1", "2 1 0"),
            ("other", "0 0 0"),
            ("other:-5", "0 0 -5"),
            ("batch:19", "3 0 19"),
            ("idle", "5 0 0"),
        ] {
            assert_eq!(scheduling(text).as_deref(), Some(value));
            assert_eq!(ThreadSetting::Scheduling.argument(value), text);
        }
        for text in [
            "", "fifo", "fifo:0", "fifo:100", "rr:", "other:20", "idle:1", "deadline", "FIFO:1",
        ] {
            assert_eq!(scheduling(text), None, "{text}");
        }
    }
}
