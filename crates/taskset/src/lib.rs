//! Sets of real-time tasks: read from TOML or from rt-app's JSON, checked, and analysed.
//!
//! Pure: text in, data out. Any text ends in a set or in one fault with its line.
//!
//! ```
//! let text = "[[task]]\nname = \"tick\"\npriority = 80\ncpu = 0\nperiod = \"1ms\"\nwork = \"200us\"\n";
//! let read = punctual_taskset::read(text, "tick", punctual_taskset::Format::Toml).unwrap();
//! assert_eq!(read.set.tasks[0].deadline_ns, 1_000_000);
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `toml` | the format of punctual |
//! | `rtapp` | that of rt-app |
//! | `check` | what a set must not have, whatever it was read from |
//! | `work` | the times of a phase's work |
//! | [`analyse`](mod@analyse) | bounds on response times, and why there are none |
#![forbid(unsafe_code)]

pub mod analyse;

mod certain;
mod check;
mod convert;
mod fault;
mod rtapp;
mod toml;
mod work;

use std::path::Path;

use punctual_record::taskset::TaskSet;

pub use analyse::{Machine, analyse};
pub use check::put_on_cpu;
pub use fault::Fault;

/// The longest file, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// In which form a set is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// That of punctual.
    Toml,
    /// rt-app's JSON.
    RtApp,
}

impl Format {
    /// By the ending of a file's name: `.json` is rt-app's.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(end) if end.eq_ignore_ascii_case("json") => Format::RtApp,
            _ => Format::Toml,
        }
    }
}

/// A set that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The set; nothing is wrong with it.
    pub set: TaskSet,
    /// What of the file has no effect, or another one than there; empty for TOML.
    pub notes: Vec<Fault>,
}

/// Reads a set. `name` is what it is called where the file doesn't say.
///
/// # Errors
/// What is wrong, and in which line.
pub fn read(text: &str, name: &str, format: Format) -> Result<Read, Fault> {
    if text.len() > MOST_BYTES {
        return Err(Fault::new(1, "longer than 1 MiB: expected a task set"));
    }
    match format {
        Format::Toml => toml::read(text, name),
        Format::RtApp => rtapp::read(text, name),
    }
}

/// The line of a step of a task's work, from 1; the step is counted through its phase and what is within
/// its locks. Absent where the set's format does not tell.
#[must_use]
pub fn line_of_step(
    text: &str,
    format: Format,
    task: usize,
    phase: usize,
    step: usize,
) -> Option<usize> {
    match format {
        Format::Toml => toml::line_of_step(text, task, phase, step),
        Format::RtApp => None,
    }
}

/// The JSON schemas of all formats of punctual, each with its name and version: those of the records, and
/// that of the TOML format.
#[cfg(feature = "schema")]
#[must_use]
pub fn schemas() -> Vec<(String, serde_json::Value)> {
    let mut all = punctual_record::schema::all();
    all.push(toml::schema());
    all
}
