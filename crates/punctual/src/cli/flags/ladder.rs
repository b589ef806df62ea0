//! The flags of `ladder`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use punctual_load::{LoadClass, LoadSpec};
use punctual_machine::tune::Journal;
use punctual_record::ladder::Rung;
use punctual_report::ladder::Language;

use super::super::units;
use super::names;
use super::values::{cpu_list, loops, priority, seed, work};

pub(super) const LADDER_EXAMPLES: &str = "\
Examples:
  punctual ladder                           each step on this machine, in 5 min
  punctual ladder -a 3 --load 'make -j8' -D 30m
  punctual ladder --rung priority -D 10     one rung by itself
  punctual ladder --code c                  the example program, to copy
  punctual lab run ladder                   the same rungs on real kernels in virtual time";

const LADDER: &str = "Ladder";
const CONDITIONS: &str = "Conditions";
const OUTPUT: &str = "Output";

/// A language of the example programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodeLanguage {
    /// punctual_rt
    Rust,
    /// punctual.h
    C,
}

impl From<CodeLanguage> for Language {
    fn from(language: CodeLanguage) -> Self {
        match language {
            CodeLanguage::Rust => Self::Rust,
            CodeLanguage::C => Self::C,
        }
    }
}

/// Flags of `ladder`.
#[derive(Debug, Args)]
pub struct LadderFlags {
    /// Print the example program in this language, to copy, and measure nothing: rust or c
    #[arg(long, value_name = "LANGUAGE", exclusive = true, help_heading = LADDER)]
    pub code: Option<CodeLanguage>,
    /// Measure this rung alone: relative-sleep, absolute-sleep, priority, locked-memory, affinity or quiet-interrupts [default: all, and what each gains]
    #[arg(long, value_name = "RUNG", value_parser = names::rung(), hide_possible_values = true, help_heading = LADDER)]
    pub rung: Option<Rung>,
    /// Measure for this time, in s or with a unit: 5m, 1h [default: 5m; 10 with --rung]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true, help_heading = LADDER)]
    pub duration: Option<u64>,
    /// Measure this number of cycles; needs --rung [default: no limit]
    #[arg(short, long, value_name = "N", value_parser = loops, allow_hyphen_values = true, requires = "rung", help_heading = LADDER)]
    pub loops: Option<u64>,
    /// Measure blocks of this length, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration, allow_hyphen_values = true, conflicts_with = "rung", help_heading = LADDER)]
    pub block: u64,
    /// Leave this time at the beginning of each block out, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = units::duration, allow_hyphen_values = true, help_heading = LADDER)]
    pub settle: u64,
    /// Set the period of the thread, in us or with a unit
    #[arg(short, long, value_name = "US", default_value = "1000", value_parser = units::interval, allow_hyphen_values = true, help_heading = LADDER)]
    pub interval: u64,
    /// Write this number of bytes in each cycle, 0 to 65536, to memory that is new to the thread
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = work, allow_hyphen_values = true, help_heading = LADDER)]
    pub work: u64,
    /// Set the real-time priority of the rungs that have one, 1 to 99
    #[arg(short, long, value_name = "PRIO", default_value = "80", value_parser = priority, allow_hyphen_values = true, help_heading = LADDER)]
    pub priority: u32,
    /// Run the rungs with an affinity on this CPU [default: an isolated CPU, else the last allowed]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_list, allow_hyphen_values = true, help_heading = LADDER)]
    pub affinity: Option<String>,
    /// Add up what response times have above this, in us or with a unit
    #[arg(long, value_name = "US", default_value = "100", value_parser = units::latency, allow_hyphen_values = true, help_heading = LADDER)]
    pub deadline: u64,
    /// Set the confidence of the conclusions and the intervals
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = units::confidence, allow_hyphen_values = true, help_heading = LADDER)]
    pub confidence: f64,
    /// Set the seed of the order of blocks, a whole number [default: from the clock; the record states it]
    #[arg(long, value_name = "N", value_parser = seed, allow_hyphen_values = true, help_heading = LADDER)]
    pub seed: Option<u64>,

    /// Run this load: standard, kernel-paths, none, a list of loads, or a command
    #[arg(long, value_name = "LOAD", default_value = "standard", value_parser = names::load(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load: LoadSpec,
    /// Set the scheduling class of the load: other, batch or idle
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = names::load_class(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load_class: LoadClass,
    /// Keep the journal of changed settings in this directory [default: /var/lib/punctual]
    #[arg(long, value_name = "DIR", help_heading = CONDITIONS)]
    pub state: Option<PathBuf>,

    /// Write the ladder into this directory [default: punctual-ladder-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub json: bool,
    /// Print nothing but the sentence
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
}

impl LadderFlags {
    /// The directory of the journal.
    #[must_use]
    pub fn state(&self) -> &Path {
        self.state.as_deref().unwrap_or(Path::new(Journal::FOLDER))
    }
}
