//! The flags of `tune`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual_machine::tune::Journal;

use super::knob::KnobArgument;
use super::names;
use super::values::{cpu_list, priority};

pub(super) const TUNE_EXAMPLES: &str = "\
Examples:
  punctual tune plan -a 2,3                 what would be changed, as commands to copy
  punctual tune apply -a 2,3                change it; the originals are kept first
  punctual tune apply vmstat-interval ksm   change these knobs alone
  punctual tune apply rto_min@10.0.0.2=5ms  a setting of the route to this machine
  punctual tune plan --from run-1           what the late wake-ups of a run ask for
  punctual tune apply --boot -a 2,3         add boot parameters; they need a reboot
  punctual tune apply --keep -a 2,3         stay, and change also threads that appear later
  punctual tune run -a 2,3 -- cyclictest -q -D 60   for the time of a command, then as before
  punctual tune persist -a 2,3              make what is changed now again at each boot
  punctual tune status                      ours, changed by others, gone?
  punctual tune restore                     everything as before, also after kill -9
  punctual tune restore vmstat-interval     this knob alone";

/// Flags of `tune`.
#[derive(Debug, Args)]
pub struct TuneFlags {
    /// What to do.
    #[command(subcommand)]
    pub action: TuneAction,
}

/// What `tune` does.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Print what would be changed, as commands
    Plan(KnobFlags),
    /// Change settings; their originals are on disk first
    Apply(ApplyFlags),
    /// Change settings, run a command, and restore them when it ends
    Run(TuneRunFlags),
    /// Install files that make what apply has changed again at each boot
    Persist(PersistFlags),
    /// Print how the changed settings are now
    Status(StateFlags),
    /// Restore the originals of the changed settings
    Restore(RestoreFlags),
}

/// Flags of `tune apply`.
#[derive(Debug, Args)]
pub struct ApplyFlags {
    /// Which knobs.
    #[command(flatten)]
    pub knobs: KnobFlags,
    /// Add boot parameters to the boot loader's configuration, and change nothing at run time
    #[arg(long, conflicts_with_all = ["partition", "from"])]
    pub boot: bool,
    /// Keep running: change also threads that appear later, and hold /dev/cpu_dma_latency
    #[arg(long, conflicts_with_all = ["boot", "from"])]
    pub keep: bool,
}

/// Which knobs.
#[derive(Debug, Args)]
pub struct KnobFlags {
    /// Change these knobs: findings of `punctual check`, or settings with a value: /PATH=VALUE, NAME=VALUE of sysctl, rto_min@HOST=TIME, initcwnd@HOST=N, quickack@HOST, neighbour@HOST, napi@DEVICE=MODE, scheduling@TID=POLICY, affinity@TID=CPUS [default: all bad findings that have such a fix]
    #[arg(value_name = "KNOB", value_parser = names::knob(), hide_possible_values = true)]
    pub knobs: Vec<KnobArgument>,
    /// Name the CPUs for real-time work: 3-5,0 or !1-2 [default: the isolated CPUs]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true)]
    pub affinity: Option<Option<String>>,
    /// Name the priority of the program, 1 to 99 [default: that of the run of --from, else 80]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true)]
    pub priority: Option<u32>,
    /// Change what the bills of this run ask for, those knobs first whose causes cost most; its CPUs are the default of -a
    #[arg(long, value_name = "RUN", conflicts_with_all = ["knobs", "partition"])]
    pub from: Option<PathBuf>,
    /// Give the CPUs of -a a cgroup v2 partition, or a cpuset of v1, in which programs must be placed
    #[arg(long, requires = "affinity")]
    pub partition: bool,
    /// Where the journal is.
    #[command(flatten)]
    pub state: StateFlags,
}

/// Flags of `tune run`.
#[derive(Debug, Args)]
pub struct TuneRunFlags {
    /// Change these knobs: findings of `punctual check`, or settings with a value: /PATH=VALUE, NAME=VALUE of sysctl, rto_min@HOST=TIME, initcwnd@HOST=N, quickack@HOST, neighbour@HOST, napi@DEVICE=MODE, scheduling@TID=POLICY, affinity@TID=CPUS [default: all bad findings that have such a fix]
    #[arg(value_name = "KNOB", value_parser = names::knob(), hide_possible_values = true)]
    pub knobs: Vec<KnobArgument>,
    /// Name the CPUs for real-time work: 3-5,0 or !1-2 [default: the isolated CPUs]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true)]
    pub affinity: Option<Option<String>>,
    /// Name the priority of the program, 1 to 99 [default: 80]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true)]
    pub priority: Option<u32>,
    /// Where the journal is.
    #[command(flatten)]
    pub state: StateFlags,
    /// Run this command with its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, required = true, num_args = 1..)]
    pub command: Vec<OsString>,
}

/// Flags of `tune persist`.
#[derive(Debug, Args)]
pub struct PersistFlags {
    /// Make these knobs again at each boot, by their names without a value [default: all that apply has changed]
    #[arg(value_name = "KNOB", value_parser = names::changed_knob(), hide_possible_values = true)]
    pub knobs: Vec<String>,
    /// Name the CPUs for real-time work, as for apply: what threads and interrupts get at each boot is made for them [default: the isolated CPUs]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true)]
    pub affinity: Option<Option<String>>,
    /// Name the priority of the program, 1 to 99, as for apply [default: 80]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true)]
    pub priority: Option<u32>,
    /// Where the journal is.
    #[command(flatten)]
    pub state: StateFlags,
}

/// Where the journal is.
#[derive(Debug, Args)]
pub struct StateFlags {
    /// Keep the journal in this directory
    #[arg(long, value_name = "DIR", default_value = Journal::FOLDER)]
    pub state: PathBuf,
}

/// Flags of `tune restore`.
#[derive(Debug, Args)]
pub struct RestoreFlags {
    /// Restore these knobs alone, by their names without a value [default: all]
    #[arg(value_name = "KNOB", value_parser = names::changed_knob(), hide_possible_values = true)]
    pub knobs: Vec<String>,
    /// Restore also what another program has changed since
    #[arg(long)]
    pub force: bool,
    /// Print what would be restored, as commands
    #[arg(long)]
    pub dry_run: bool,
    /// Where the journal is.
    #[command(flatten)]
    pub state: StateFlags,
}
