//! The flags of `lab` as plain data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::super::flags::names;
use super::super::units;
use super::experiment::shipped;
use super::values::{
    ValueError, column, cpus, jobs, may_grow, memory, module, operations, parameter, seeds,
};
use punctual_load::KERNEL_PATHS_NAME;
use punctual_record::lab::Operation;
use punctual_record::laboratory::Architecture;

/// Examples in the help.
pub const LAB_EXAMPLES: &str = "\
Examples:
  punctual lab                              rt and standard kernel, each native load alone
  punctual lab --kernel rt --load files,hackbench -- measure nanosleep -D 5
  punctual lab --kernel ./bzImage --param preempt=full -- ./my_control_loop --rate 1000
  punctual lab -- exec robot.toml --cpu 0   a task set: each task on both kernels, beside its bound
  punctual lab run rt-vs-standard           four preemption models, all loads
  punctual lab prove preempt=full --load poll,exit   which boot parameter helps, over 12 seeds
  punctual lab compare A B                  which loads differ, by how many ns
  git bisect run punctual lab bisect --build 'make -j8' --kernel ./vmlinux -- qualify --deadline 50us
  punctual lab bound --load fork,exit       how late a wake-up could have been, and through what
  punctual lab cost                         instructions per operation: preemption models, PREEMPT_RT
  punctual lab gate A --allow 500ns         fails if a median or a worst latency grew by more
  punctual lab verify A                     runs it again: identical, or the first difference

Times are virtual: one instruction is one nanosecond, on every host.";

/// Flags of `lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabFlags {
    /// Run an experiment, or work with recorded labs
    #[command(subcommand)]
    pub action: Option<LabAction>,
    /// The guests and what they run.
    #[command(flatten)]
    pub guest: GuestFlags,
}

/// Flags that say which guests run what.
#[derive(Debug, Args)]
pub struct GuestFlags {
    /// Boot these kernels, separated by commas: rt, standard, cloud, a version (6.12-rt), a package or an image
    #[arg(long, value_name = "KERNELS", default_value = DEFAULT_KERNELS, value_delimiter = ',', value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, help_heading = GUEST)]
    pub kernel: Vec<String>,
    /// The guests' machine.
    #[command(flatten)]
    pub machine: MachineFlags,
    /// Run these loads, each in its own guest; files+net runs both in one guest; idle is no load, native each of the standard load, kernel-paths each of that set [default: idle,native; idle for a task set or a program]
    #[arg(long, value_name = "LOADS", value_parser = names::text(loads), hide_possible_values = true, help_heading = GUEST)]
    pub load: Option<String>,
    /// Give the guest this number of processors; with more than one, latencies are not valid
    #[arg(long, value_name = "N", default_value = "1", value_parser = cpus, allow_negative_numbers = true, help_heading = GUEST)]
    pub cpus: usize,
    /// Run everything with seeds 1 to N; a maximum is valid for one seed only
    #[arg(long, value_name = "N", default_value = "1", value_parser = seeds, allow_negative_numbers = true, help_heading = GUEST)]
    pub seeds: u64,
    /// How the host runs it.
    #[command(flatten)]
    pub host: HostFlags,
    /// Run this in the guest: measure, qualify or exec with their flags, or a program with its arguments [default: measure nanosleep -p 80 -i 509 -l 4000]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags that say what each guest has.
#[derive(Debug, Args)]
pub struct MachineFlags {
    /// Give the guests processors of this architecture: amd64, arm64 or riscv64 [default: that of this program]
    #[arg(long, value_name = "ARCH", default_value = Architecture::OWN.name(), hide_default_value = true, value_parser = names::architecture(), hide_possible_values = true, help_heading = GUEST)]
    pub arch: Architecture,
    /// Add a word to the kernel's command line; may be repeated
    #[arg(long, value_name = "WORD", value_parser = parameter, allow_hyphen_values = true, help_heading = GUEST)]
    pub param: Vec<String>,
    /// Load this module first, and the modules that it needs; may be repeated
    #[arg(long, value_name = "NAME|FILE.ko", value_parser = module, help_heading = GUEST)]
    pub module: Vec<String>,
    /// Copy this file or directory to a path in the guest, a program with its libraries; may be repeated [default path: /lab/bin/NAME]
    #[arg(long, value_name = "FILE[=PATH]", help_heading = GUEST)]
    pub bring: Vec<PathBuf>,
    /// Run everything in this root file system: a directory, a tar (plain, gz, xz, zst) or an OCI layout [default: only the program and the files that it needs]
    #[arg(long, value_name = "PATH", help_heading = GUEST)]
    pub rootfs: Option<PathBuf>,
    /// Give the guest this much memory, with M or G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory, allow_negative_numbers = true, help_heading = GUEST)]
    pub mem: u64,
}

/// Flags of every verb that runs cells: the host's side.
#[derive(Debug, Args)]
pub struct HostFlags {
    /// Run this number of guests in parallel [default: the host's CPUs]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true, help_heading = HOST)]
    pub jobs: Option<usize>,
    /// Stop a guest after this virtual time, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub virtual_limit: u64,
    /// Stop a guest after this time of the host, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub host_limit: u64,
    /// Stop a guest that uses this processor time of the host before its first process starts, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::duration, allow_negative_numbers = true, help_heading = HOST)]
    pub boot_limit: u64,
    /// Print the whole bill of each worst wake-up: its instructions, by function of the kernel; of a task set, trace the kernel, so that its runs have bills
    #[arg(long, conflicts_with = "no_explain", help_heading = OUTPUT)]
    pub explain: bool,
    /// Don't trace what the guests execute: somewhat faster, but the result names no functions
    #[arg(long, help_heading = HOST)]
    pub no_explain: bool,
    /// Write all runs into this directory [default: punctual-lab-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Write a test suite for CI as JUnit XML: a case for each kernel and load
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Print the table as JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Print only what a program in the guest prints
    #[arg(short, long, conflicts_with = "json", help_heading = OUTPUT)]
    pub quiet: bool,
}

/// The kernels that are booted by default.
pub const DEFAULT_KERNELS: &str = "rt,standard";

const GUEST: &str = "Guest";
const HOST: &str = "Host";
const OUTPUT: &str = "Output";

/// What `lab` does with records.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Run an experiment: a file names the machines and loads
    Run(LabRunFlags),
    /// Compare two labs: which loads differ, by how many ns
    Compare(LabCompareFlags),
    /// Find out which boot parameter helps: boot each seed without and with it
    Prove(LabProveFlags),
    /// Run a lab again, and print whether it is identical, or the first difference
    Verify(LabVerifyFlags),
    /// Run a lab again, and fail if a figure grew by more than is allowed: for CI of a kernel, a driver or a program
    Gate(LabGateFlags),
    /// Measure how late a wake-up could have been, whenever its timer had expired, and which functions would have delayed it
    Bound(LabBoundFlags),
    /// Count the instructions of system calls, wake-ups, faults, forks and files, or of a program, on several kernels: the price of PREEMPT_RT, of a preemption model, of mitigations
    Cost(LabCostFlags),
    /// Judge a commit for `git bisect run`: exit with 0 for PASS, 1 for FAIL, 125 if neither is certain
    Bisect(LabBisectFlags),
}

/// Flags of `lab run`.
#[derive(Debug, Args)]
pub struct LabRunFlags {
    /// Run this experiment: a TOML file, or one of punctual's own: rt-vs-standard, peers, ladder, kernels, exec
    #[arg(value_name = "EXPERIMENT", value_parser = names::PathOr(shipped), hide_possible_values = true)]
    pub experiment: PathBuf,
    /// Give the guests processors of this architecture, instead of that in the file: amd64, arm64 or riscv64
    #[arg(long, value_name = "ARCH", value_parser = names::architecture(), hide_possible_values = true, help_heading = GUEST)]
    pub arch: Option<Architecture>,
    /// Run these loads instead of those in the file
    #[arg(long, value_name = "LOADS", value_parser = names::text(loads), hide_possible_values = true, help_heading = GUEST)]
    pub load: Option<String>,
    /// Run everything with seeds 1 to N, instead of the number in the file
    #[arg(long, value_name = "N", value_parser = seeds, allow_negative_numbers = true, help_heading = GUEST)]
    pub seeds: Option<u64>,
    /// How the host runs it.
    #[command(flatten)]
    pub host: HostFlags,
}

/// Flags of `lab prove`.
#[derive(Debug, Args)]
pub struct LabProveFlags {
    /// Test these boot parameters, each by itself: words of the kernel's command line, such as preempt=full or threadirqs
    #[arg(value_name = "PARAM", required = true, value_parser = parameter)]
    pub parameters: Vec<String>,
    /// Boot these kernels, separated by commas: rt, standard, cloud, a version (6.12-rt), a package or an image
    #[arg(long, value_name = "KERNELS", default_value = "standard", value_delimiter = ',', value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, help_heading = GUEST)]
    pub kernel: Vec<String>,
    /// The guests' machine.
    #[command(flatten)]
    pub machine: MachineFlags,
    /// Run these loads, each in its own guest; files+net runs both in one guest; idle is no load, native each of the standard load, kernel-paths each of that set [default: standard, all of it at once]
    #[arg(long, value_name = "LOADS", value_parser = names::text(loads), hide_possible_values = true, help_heading = GUEST)]
    pub load: Option<String>,
    /// Boot each with seeds 1 to N: each is a pair, and fewer than 12 say nothing
    #[arg(long, value_name = "N", default_value = "12", value_parser = seeds, allow_negative_numbers = true, help_heading = GUEST)]
    pub seeds: u64,
    /// How the host runs it.
    #[command(flatten)]
    pub host: HostFlags,
    /// Run this in the guest: measure or qualify with their flags [default: measure nanosleep -p 80 -i 509 -l 4000]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Flags of `lab compare`.
#[derive(Debug, Args)]
pub struct LabCompareFlags {
    /// Compare this lab: its directory
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Compare with this lab
    #[arg(value_name = "B")]
    pub second: PathBuf,
}

/// Flags of `lab gate`.
#[derive(Debug, Args)]
pub struct LabGateFlags {
    /// Compare with this lab: its directory, or its lab.json
    #[arg(value_name = "BASELINE")]
    pub baseline: PathBuf,
    /// Boot this kernel instead of the baseline's only one: rt, standard, cloud, a version (6.12-rt), a package or an image
    #[arg(long, value_name = "KERNEL", value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, help_heading = GUEST)]
    pub kernel: Option<String>,
    /// Allow the median and the worst of each cell, or of those with this load, to grow by this, in us or with a unit: 500ns, exit=20us; may be repeated [default: 0]
    #[arg(long, value_name = "[LOAD=]TIME", value_parser = may_grow, allow_hyphen_values = true, help_heading = GUEST)]
    pub allow: Vec<MayGrow>,
    /// Compare this figure alone [default: both]
    #[arg(long, value_name = "FIGURE", help_heading = GUEST)]
    pub figure: Option<FigureName>,
    /// How the host runs it.
    #[command(flatten)]
    pub host: HostFlags,
}

/// A figure of a cell or task, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FigureName {
    /// The median: the usual path
    Median,
    /// The worst: it also depends on when ticks and loads come
    Worst,
}

/// By how much figures may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MayGrow {
    /// Those of this load; of all others without it.
    pub load: Option<String>,
    /// In ns.
    pub ns: u64,
}

/// Flags of `lab bound`.
#[derive(Debug, Args)]
pub struct LabBoundFlags {
    /// The guests and what they run.
    #[command(flatten)]
    pub guest: GuestFlags,
}

/// Flags of `lab cost`.
#[derive(Debug, Args)]
pub struct LabCostFlags {
    /// Add a column to each kernel, with these words on its command line: preempt=full, 'preempt=none mitigations=off'
    #[arg(value_name = "WORDS", value_parser = column)]
    pub columns: Vec<ColumnWords>,
    /// Boot these kernels, separated by commas: rt, standard, cloud, a version (6.12-rt), a package or an image; the first column is the base of all ratios [default: standard with preempt=none, preempt=voluntary, preempt=full and 'preempt=none mitigations=off', and rt; with WORDS standard alone]
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, help_heading = GUEST)]
    pub kernel: Vec<String>,
    /// Count these operations alone, separated by commas, such as pipe,fork [default: all]
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',', value_parser = operation(), conflicts_with = "command", help_heading = GUEST)]
    pub only: Vec<Operation>,
    /// Count a run of the program as this number of operations: its instructions are divided by it [default: 1]
    #[arg(long, value_name = "N", requires = "command", value_parser = operations, allow_negative_numbers = true, help_heading = GUEST)]
    pub operations: Option<u64>,
    /// The guests' machine.
    #[command(flatten)]
    pub machine: MachineFlags,
    /// How the host runs it.
    #[command(flatten)]
    pub host: HostFlags,
    /// Count the instructions of one run of this program, instead of operations
    #[arg(last = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// Words of a kernel's command line, those of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnWords(pub Vec<String>);

/// Flags of `lab bisect`.
#[derive(Debug, Args)]
pub struct LabBisectFlags {
    /// Run this shell command first, in the working directory, to build what is booted; if it fails, the commit is skipped [default: build nothing]
    #[arg(long, value_name = "COMMAND", help_heading = GUEST)]
    pub build: Option<String>,
    /// The guests and what they run.
    #[command(flatten)]
    pub guest: GuestFlags,
}

/// Flags of `lab verify`.
#[derive(Debug, Args)]
pub struct LabVerifyFlags {
    /// Verify this lab or run: its directory
    #[arg(value_name = "RECORD")]
    pub record: PathBuf,
    /// Run this number of guests in parallel [default: the host's CPUs]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub jobs: Option<usize>,
}

/// The values of `--load` here, for the shells to complete.
pub fn loads() -> Vec<&'static str> {
    let sets = ["idle", "native", KERNEL_PATHS_NAME, "standard"];
    [&sets[..], &names::generators()].concat()
}

/// The values of `--only`.
fn operation() -> impl TypedValueParser<Value = Operation> {
    let names = Operation::ALL.map(Operation::name);
    PossibleValuesParser::new(names)
        .try_map(|name| Operation::named(&name).ok_or(ValueError::Parameter))
}
