//! The flags of `check`.

use std::path::PathBuf;

use clap::Args;
use punctual_record::finding::FindingId;

use super::super::units;
use super::names;
use super::values::{cpu_list, priority};

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  punctual check                            what makes this machine unfit for real time?
  punctual check -a 2,3                     for a program on CPUs 2 and 3
  punctual check -a 2,3 --sample 1          how often do interrupts come there?
  punctual check --explain transparent-hugepages
  punctual check --snapshot good.json       keep what was read
  punctual check good.json                  check that machine here
  punctual check good.json bad.json         which setting differs?

Exit status: 0 nothing is bad, 2 a finding is bad, 3 none is bad and one is unknown.";

/// Flags of `check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Check this snapshot, or the directory of a recorded machine (with proc and sys) [default: this machine]
    #[arg(value_name = "MACHINE")]
    pub machine: Option<PathBuf>,
    /// List the settings of this second machine that differ
    #[arg(value_name = "OTHER", conflicts_with_all = ["explain", "html", "junit", "snapshot"])]
    pub other: Option<PathBuf>,
    /// Name the CPUs for real-time work: 3-5,0 or !1-2 [default: the isolated CPUs]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true)]
    pub affinity: Option<Option<String>>,
    /// Name the priority of the program, 1 to 99: threads at or above it are listed
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true, default_value = "80")]
    pub priority: u32,
    /// Read the rights of this process [default: those of punctual itself]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "machine")]
    pub pid: Option<u32>,
    /// Count interrupts and SMIs for this time, in s or with a unit: 1, 500ms [default: count nothing]
    #[arg(long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true, conflicts_with = "machine")]
    pub sample: Option<u64>,
    /// Explain this finding of `check -v`: why it matters, what was read, what fixes it, the sources
    #[arg(long, value_name = "NAME", value_parser = names::finding(), hide_possible_values = true, conflicts_with = "json")]
    pub explain: Option<FindingId>,
    /// Write all that was read to this file, to check it on another machine
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub snapshot: Option<PathBuf>,
    /// Write the page to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write JUnit's XML to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Print all findings
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}
