//! The flags as plain data: parsed, not yet acted on. Help, man page and shell
//! completions come out of them.

mod breach;
mod budget;
mod check;
mod cost;
mod exec;
mod explain;
mod fit;
mod gaps;
mod interference;
mod knob;
mod ladder;
pub mod names;
mod path;
mod prove;
mod requirement;
mod tune;
mod values;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use punctual_rt::sched::Policy;

use super::fleet::{FLEET_EXAMPLES, FleetFlags};
use super::lab::{LAB_EXAMPLES, LabFlags};
use super::units;
use crate::launch::{Lock, Stacks};
use crate::probe::kinds::Kind;
pub use breach::BreachFlags;
use budget::BUDGET_EXAMPLES;
pub use budget::BudgetFlags;
use check::CHECK_EXAMPLES;
pub use check::CheckFlags;
use cost::COST_EXAMPLES;
pub use cost::CostFlags;
use exec::EXEC_EXAMPLES;
pub use exec::{ExecFlags, Overheads};
use explain::EXPLAIN_EXAMPLES;
pub use explain::ExplainFlags;
use fit::FIT_EXAMPLES;
pub use fit::FitFlags;
pub use gaps::{GapFlags, Probe};
use interference::INTERFERENCE_EXAMPLES;
pub use interference::InterferenceFlags;
pub use knob::KnobArgument;
use ladder::LADDER_EXAMPLES;
pub use ladder::LadderFlags;
use path::RESPOND_EXAMPLES;
pub use path::{PathFlags, RespondFlags, TransportName};
use prove::PROVE_EXAMPLES;
pub use prove::ProveFlags;
use punctual_load::{LoadClass, LoadSpec};
use punctual_machine::tune::Journal;
use punctual_record::finding::FindingId;
use punctual_report::formats::Format;
pub use requirement::RequirementFlags;
use tune::TUNE_EXAMPLES;
pub use tune::{
    KnobFlags, PersistFlags, RestoreFlags, StateFlags, TuneAction, TuneFlags, TuneRunFlags,
};
use values::{cpu_list, distance, loops, priority, seed, stack_debug, stack_size, threads};
use watch::WATCH_EXAMPLES;
pub use watch::WatchFlags;

/// Is this machine on time, and how sure are we?
#[derive(Debug, Parser)]
#[command(
    name = "punctual",
    version,
    about,
    after_help = "Exit status: 0 PASS or done, 1 setup or internal error, 2 FAIL, 3 INCONCLUSIVE, \
                  4 INVALID, 64 wrong usage.",
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Does this machine meet this deadline, under load, and how sure are we?
    #[command(after_help = QUALIFY_EXAMPLES)]
    Qualify(QualifyFlags),
    /// Measure one wake-up source, the noise of a CPU, or the hardware
    #[command(after_help = MEASURE_EXAMPLES)]
    Measure(MeasureFlags),
    /// What makes this machine unfit for real time, why, and what fixes it?
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckFlags),
    /// Change settings of this machine with a journal, and restore them
    #[command(after_help = TUNE_EXAMPLES)]
    Tune(TuneFlags),
    /// Which knob helped, by how much, and how sure are we?
    #[command(after_help = PROVE_EXAMPLES)]
    Prove(ProveFlags),
    /// Find, change, prove, keep: the smallest set of changes that meets the deadline
    #[command(after_help = FIT_EXAMPLES)]
    Fit(FitFlags),
    /// Run the standard loads alone
    #[command(after_help = LOAD_EXAMPLES)]
    Load(LoadFlags),
    /// Run an unchanged program with prefaulted stacks, locked memory, a priority and CPUs
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunProgramFlags),
    /// Who stole the time? Bills of late wake-ups, ranked causes, what to do
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainFlags),
    /// How do the real-time threads of a running program perform, and what delays them?
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(WatchFlags),
    /// The same questions on a real kernel in virtual time: the same figures on any host
    #[command(after_help = LAB_EXAMPLES)]
    Lab(LabFlags),
    /// How much does each step gain here: absolute sleep, priority, locked memory, affinity, quiet interrupts?
    #[command(after_help = LADDER_EXAMPLES)]
    Ladder(LadderFlags),
    /// What does real time cost this command, and where does predictability pay off?
    #[command(after_help = COST_EXAMPLES)]
    Cost(CostFlags),
    /// Which operations of a real-time thread wait while other threads of its program map memory?
    #[command(after_help = INTERFERENCE_EXAMPLES)]
    Interference(InterferenceFlags),
    /// Do these hops meet one deadline together, however they depend on each other?
    #[command(after_help = BUDGET_EXAMPLES)]
    Budget(BudgetFlags),
    /// Which of many machines are on time? Run on all of them, and query all their runs
    #[command(after_help = FLEET_EXAMPLES)]
    Fleet(FleetFlags),
    /// Answer `measure tcp`, `measure udp` and `qualify --path` of another machine
    #[command(after_help = RESPOND_EXAMPLES)]
    Respond(RespondFlags),
    /// Do these tasks meet their deadlines together?
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecFlags),
    /// Show what was recorded
    Report(ReportFlags),
    /// Compare two runs, several on each side, or the CPUs of one; also runs of other tools
    Compare(CompareFlags),
    /// Merge runs of the same kind
    Merge(MergeFlags),
    /// Export a run in another format
    Export(ExportFlags),
    /// Print shell completions
    Completions(CompletionsFlags),
    /// Print this help, or that of a verb
    Help(HelpFlags),
    /// Print the man page
    #[command(hide = true)]
    Man,
}

const QUALIFY_EXAMPLES: &str = "\
Examples:
  punctual qualify                          60 s, 100 us, standard load, all CPUs
  punctual qualify --deadline 50us -D 1h -a 2,3
  punctual qualify --miss 0 --load 'make -j8'
  punctual qualify --percentile 99.99=50us --max 200us
  punctual qualify --path 10.0.0.2 --deadline 1ms    on 10.0.0.2: punctual respond 10.0.0.2";

const MEASURE_EXAMPLES: &str = "\
Examples:
  punctual measure -p 80 -i 1000 -l 10000   as cyclictest does, for 10,000 cycles
  punctual measure timerfd -D 5m --live     cyclictest's lines meanwhile
  punctual measure -b 200                   until a latency above 200 us, or Ctrl-C
  punctual measure noise -a 2 -D 60         what takes CPU 2 from a thread that never waits
  punctual measure hardware -D 1h --max 50  gaps in which the kernel did nothing
  punctual measure udp 10.0.0.2 -i 500      on 10.0.0.2: punctual respond 10.0.0.2";

const LOAD_EXAMPLES: &str = "\
Examples:
  punctual load -D 30                       standard load for 30 s
  punctual load fork,net:pairs=4 -D 10
  punctual load hackbench -- -g 10 -l 1000  as hackbench itself: its arguments, its one line";

const RUN_EXAMPLES: &str = "\
Examples:
  punctual run ./controller                 its threads on prefaulted, guarded stacks
  punctual run --lock -p 80 --cpus 2,3 -- ./controller --rate 1000
  punctual run --stack none -p 10 ./static  scheduled alone, as chrt does
  punctual run --stack-debug ./controller   who writes to the stack of a thread that has ended?

Programs that it starts run in the same way. The exit status is the program's;
126 if it cannot be executed as requested, 127 if it does not exist.";

/// Flags of `qualify`.
#[derive(Debug, Args)]
pub struct QualifyFlags {
    /// Measure this wait source: nanosleep, nanosleep-relative, timerfd, timer-signal, condvar, futex
    #[arg(long, value_name = "PROBE", default_value = "nanosleep", value_parser = names::source(), hide_possible_values = true)]
    pub source: Kind,
    /// Measure the path to this machine instead, on which punctual respond runs: HOST or HOST:PORT
    #[arg(long, value_name = "HOST", conflicts_with = "source", help_heading = PATH)]
    pub path: Option<String>,
    /// Send the messages of --path over this [default: tcp]
    #[arg(long, value_name = "TRANSPORT", requires = "path", help_heading = PATH)]
    pub over: Option<TransportName>,
    /// What goes to the other machine, and how.
    #[command(flatten)]
    pub path_flags: PathFlags,
    /// What is measured, and how.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Flags of `measure`.
#[derive(Debug, Args)]
pub struct MeasureFlags {
    /// Measure this: a wait source (nanosleep, nanosleep-relative, timerfd, timer-signal, condvar, futex), gaps in a thread that polls the clock (noise, hardware), or the path to another machine (tcp, udp)
    #[arg(value_name = "PROBE", default_value = "nanosleep", value_parser = names::probe(), hide_possible_values = true)]
    pub probe: Probe,
    /// Measure the path to this machine, on which punctual respond runs: HOST or HOST:PORT; for tcp, udp and raw
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// What goes to the other machine, and how.
    #[command(flatten)]
    pub path: PathFlags,
    /// How gaps are found.
    #[command(flatten)]
    pub gaps: GapFlags,
    /// What is measured, and how.
    #[command(flatten)]
    pub run: RunFlags,
}

/// Flags of every measuring verb. A flag without a default here has one for each verb.
#[derive(Debug, Args)]
pub struct RunFlags {
    /// Set the real-time priority of the probe threads, 1 to 99 [default: 80; none with --policy other]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true, help_heading = PROBE)]
    pub priority: Option<u32>,
    /// Set the scheduling policy of the probe threads
    #[arg(long, value_name = "POLICY", default_value = "fifo", help_heading = PROBE)]
    pub policy: PolicyName,
    /// Set the interval between wake-ups, in us or with a unit: 1000, 250us, 1ms [default: 1000]
    #[arg(short, value_name = "US", value_parser = units::interval, allow_hyphen_values = true, help_heading = PROBE)]
    pub interval: Option<u64>,
    /// Keep every interval the same, or draw each from 24 primes around -i; a time sets the interval, as -i does [default: primes for qualify, fixed for measure]
    #[arg(long = "interval", value_name = "KIND", value_parser = names::interval(), allow_hyphen_values = true, help_heading = PROBE)]
    pub interval_word: Option<IntervalWord>,
    /// Set the seed of the draw of intervals, a whole number [default: from the clock; the record states it]
    #[arg(long, value_name = "N", value_parser = seed, allow_hyphen_values = true, help_heading = PROBE)]
    pub seed: Option<u64>,
    /// Probe these CPUs: 3-5,0 or !1-2 [default: the isolated CPUs, else all allowed; with 4 or more, one is left for other work]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true, help_heading = PROBE)]
    pub affinity: Option<Option<String>>,
    /// Start this number of probe threads [default: one for each CPU]
    #[arg(short, long, value_name = "N", value_parser = threads, allow_negative_numbers = true, help_heading = PROBE)]
    pub threads: Option<Option<usize>>,
    /// Measure for this time, in s or with a unit: 60, 5m, 1h, 1d [default: 60 for qualify; until Ctrl-C for measure]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true, help_heading = PROBE)]
    pub duration: Option<u64>,
    /// Measure this number of cycles in each thread [default: no limit]
    #[arg(short, long, value_name = "N", value_parser = loops, allow_hyphen_values = true, help_heading = PROBE)]
    pub loops: Option<u64>,

    /// What ends the run early.
    #[command(flatten)]
    pub breach: BreachFlags,

    /// What is required.
    #[command(flatten)]
    pub required: RequirementFlags,

    /// Run this load: standard, kernel-paths, none, a list of loads, or a command [default: standard for qualify, none for measure]
    #[arg(long, value_name = "LOAD", value_parser = names::load(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load: Option<LoadSpec>,
    /// Set the scheduling class of the load: other, batch or idle
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = names::load_class(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load_class: LoadClass,
    /// Set the least CPU time per second of a command given to --load that counts as work, in us or with a unit; 0 turns the check off [default: 1000]
    #[arg(long, value_name = "US", value_parser = units::least_cpu, allow_hyphen_values = true, help_heading = CONDITIONS)]
    pub load_work: Option<u64>,
    /// Leave the machine as it is: do not set cpu_dma_latency
    #[arg(long, help_heading = CONDITIONS)]
    pub as_deployed: bool,
    /// Change settings for the run, and restore them after it: all bad findings of check with a fix at run time, or these knobs [default without KNOBS: all]
    #[arg(long, value_name = "KNOBS", num_args = 0.., require_equals = true, value_delimiter = ',', value_parser = names::finding(), hide_possible_values = true, conflicts_with = "as_deployed", help_heading = CONDITIONS)]
    pub tuned: Option<Vec<FindingId>>,
    /// Keep the journal of changed settings in this directory [default: /var/lib/punctual]
    #[arg(long, value_name = "DIR", help_heading = CONDITIONS)]
    pub state: Option<PathBuf>,
    /// Measure and judge even if a requested condition is not in force; the verdict says so [default: refuse]
    #[arg(long, help_heading = CONDITIONS)]
    pub best_effort: bool,

    /// Write the run into this directory [default: punctual-VERB-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Print the summary of the run as JSON
    #[arg(long, conflicts_with_all = ["live", "quiet"], help_heading = OUTPUT)]
    pub json: bool,
    /// Print cyclictest's lines during the run
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub live: bool,
    /// Print times in cyclictest's lines in ns [default: us]
    #[arg(short = 'N', long = "nsecs", help_heading = OUTPUT)]
    pub nanoseconds: bool,
    /// Print nothing but the verdict
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print progress on standard error, and the whole summary at the end
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,
    /// Write every sample as well (Parquet files in the run directory)
    #[arg(long, help_heading = OUTPUT)]
    pub samples: bool,

    /// Explain wake-ups later than this, in us or with a unit; the worst are explained anyway [default: the deadline]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, conflicts_with = "no_explain", help_heading = EXPLAIN)]
    pub explain_above: Option<u64>,
    /// Interrupt the task that delays a thread by more than this and record its stack, in us or
    /// with a unit; such wake-ups take 5 to 30 us longer [default: record the stack only when the
    /// task leaves the CPU]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, conflicts_with = "no_explain", help_heading = EXPLAIN)]
    pub stack_above: Option<u64>,
    /// Don't trace the kernel: late wake-ups are not explained, late messages by time stamps alone
    #[arg(long, help_heading = EXPLAIN)]
    pub no_explain: bool,

    /// Accepted: memory is always locked
    #[arg(short = 'm', long = "mlockall", hide = true)]
    pub lock: bool,
    /// Accepted: one thread for each CPU is the default
    #[arg(short = 'S', long = "smp", hide = true)]
    pub every_cpu: bool,
    /// Accepted: standard output is never buffered
    #[arg(short = 'u', long = "unbuffered", hide = true)]
    pub unbuffered: bool,
    /// Accepted with the source nanosleep, the default
    #[arg(short = 'n', long = "nanosleep", hide = true)]
    pub nanosleep: bool,
    /// Accepted with 0: every thread has the same interval
    #[arg(short = 'd', long = "distance", value_name = "US", value_parser = distance, allow_hyphen_values = true, hide = true)]
    pub distance: Option<u64>,
}

impl RunFlags {
    /// The directory of the journal.
    #[must_use]
    pub fn state(&self) -> &Path {
        self.state.as_deref().unwrap_or(Path::new(Journal::FOLDER))
    }

    /// The nominal interval in ns, if one was given.
    #[must_use]
    pub fn interval_ns(&self) -> Option<u64> {
        let long = match self.interval_word {
            Some(IntervalWord::Every(ns)) => Some(ns),
            _ => None,
        };
        self.interval.or(long)
    }

    /// The kind of interval, if one was given.
    #[must_use]
    pub fn interval_kind(&self) -> Option<IntervalKind> {
        match self.interval_word {
            Some(IntervalWord::Kind(kind)) => Some(kind),
            _ => None,
        }
    }
}

const PROBE: &str = "Probe";
const PATH: &str = "Path to another machine";
const STOP: &str = "Stop at a late wake-up";
const REQUIRE: &str = "Requirement";
const CONDITIONS: &str = "Conditions";
const OUTPUT: &str = "Output";
const EXPLAIN: &str = "Explanation";

/// Scheduling policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// SCHED_FIFO
    Fifo,
    /// SCHED_RR
    Rr,
    /// SCHED_OTHER
    Other,
}

impl PolicyName {
    /// Why a priority is refused with `other`.
    pub const NO_PRIORITY: &str =
        "--priority needs --policy fifo or rr: SCHED_OTHER has no real-time priority";

    /// The policy at a priority.
    #[must_use]
    pub fn at(self, priority: u32) -> Policy {
        match self {
            Self::Fifo => Policy::Fifo(priority),
            Self::Rr => Policy::RoundRobin(priority),
            Self::Other => Policy::Other,
        }
    }
}

/// Kinds of interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IntervalKind {
    /// Every interval the same
    Fixed,
    /// Drawn from 24 primes around the nominal interval
    Primes,
}

/// The value of `--interval`: a kind, or a time as in cyclictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalWord {
    /// The kind of interval.
    Kind(IntervalKind),
    /// The nominal interval in ns.
    Every(u64),
}

/// Flags of `load`.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// Run this load: standard, kernel-paths, a list of loads with parameters (name:key=value), or a command
    #[arg(value_name = "LOAD", default_value = "standard", value_parser = names::load(), hide_possible_values = true)]
    pub load: LoadSpec,
    /// Run it for this time, in s or with a unit: 60, 5m, 1h [default: until Ctrl-C, or until a finite load is done]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// Let the load use these CPUs: 3-5,0 or !1-2 [default: the affinity at start, without isolated CPUs]
    #[arg(short, long, value_name = "CPUS", value_parser = cpu_list, allow_hyphen_values = true)]
    pub affinity: Option<String>,
    /// Set its scheduling class: other, batch or idle
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = names::load_class(), hide_possible_values = true)]
    pub load_class: LoadClass,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Pass these arguments to hackbench; they are those of rt-tests' hackbench
    #[arg(last = true, value_name = "HACKBENCH-ARGS")]
    pub classic: Vec<String>,
}

/// Flags of `run`.
#[derive(Debug, Args)]
pub struct RunProgramFlags {
    /// Choose the stacks of the program's threads
    #[arg(long, value_name = "KIND", default_value = "pool")]
    pub stack: Stacks,
    /// Set the stack size of threads that do not set one, in bytes or with K or M, 32K to 2M
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = stack_size, allow_negative_numbers = true)]
    pub stack_size: usize,
    /// Find wrong uses of the threads' stacks; threads start more slowly: audit=N (frames), guards, noaccess, leaks [default without WORDS: audit=15,guards,noaccess,leaks]
    #[arg(long, value_name = "WORDS", num_args = 0..=1, require_equals = true, default_missing_value = "audit=15,guards,noaccess,leaks", value_parser = stack_debug)]
    pub stack_debug: Option<String>,
    /// Lock the program's present and future memory [default without KIND: all]
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub lock: Option<Lock>,
    /// Let the program use these CPUs: 3-5,0 or !1-2 [default: those of punctual]
    #[arg(
        short = 'a',
        long = "cpus",
        visible_alias = "affinity",
        value_name = "CPUS",
        allow_hyphen_values = true
    )]
    pub cpus: Option<String>,
    /// Set the real-time priority, 1 to 99 [default: the policy of punctual]
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_negative_numbers = true)]
    pub priority: Option<u32>,
    /// Set the scheduling policy: fifo or rr at that priority, other without one [default: fifo with -p]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<PolicyName>,
    /// Print on standard error, at the end of each process, how many threads had which kind of stack
    #[arg(short, long)]
    pub verbose: bool,
    /// Run this program with its arguments
    #[arg(value_name = "PROGRAM", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Flags of `report`.
#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Show this: a run directory, a run.json, the directory of a lab, a fit or a ladder, or the output of cyclictest, jitterdebugger or rtla timerlat
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Write the HTML page to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the pictures as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write gnuplot's script and data into this directory
    #[arg(long, value_name = "DIR")]
    pub gnuplot: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Print the whole summary
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
#[command(
    override_usage = "punctual compare [FLAGS] A B\n       punctual compare [FLAGS] A1 A2 ... -- B1 B2 ...\n       punctual compare [FLAGS] RUN"
)]
pub struct CompareFlags {
    /// Compare these runs: run directories, or the output of cyclictest, jitterdebugger or rtla
    /// timerlat. Two runs without `--` are A and B; for one run, its CPUs are compared
    #[arg(value_name = "A")]
    pub first: Vec<PathBuf>,
    /// Compare them with these runs, after `--`
    #[arg(value_name = "B", last = true)]
    pub second: Vec<PathBuf>,
    /// Set the confidence of the conclusion and the intervals [default: the lowest confidence of the runs]
    #[arg(long, value_name = "LEVEL", value_parser = units::confidence, allow_hyphen_values = true)]
    pub confidence: Option<f64>,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `merge`.
#[derive(Debug, Args)]
pub struct MergeFlags {
    /// Merge these runs
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    pub runs: Vec<PathBuf>,
    /// Write the merged run into this directory [default: punctual-merge-TIME here]
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Merge runs even if they differ in kernel, machine, load or requirement
    #[arg(long)]
    pub force: bool,
    /// Print nothing but the verdict
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print the whole summary
    #[arg(short, long)]
    pub verbose: bool,
}

/// Flags of `export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// Export this: a run directory or a file that `report` reads
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Write this format: cyclictest, rt-tests-json, jitterdebugger, junit, ktap, lava, openmetrics, prometheus or csv
    #[arg(long, value_name = "FORMAT", value_parser = names::format(), hide_possible_values = true)]
    pub format: Format,
    /// Write this file [default: standard output]
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Flags of `help`.
#[derive(Debug, Args)]
pub struct HelpFlags {
    /// Print the help of this verb, or of a verb's verb: lab run
    #[arg(value_name = "VERB", value_parser = names::text(verbs), hide_possible_values = true)]
    pub verbs: Vec<String>,
}

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsFlags {
    /// Print the completions for this shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The names of the verbs, for the shells to complete.
fn verbs() -> Vec<&'static str> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let cli = Cli::command();
        let listed = cli.get_subcommands().filter(|verb| !verb.is_hide_set());
        listed.map(|verb| verb.get_name().to_owned()).collect()
    });
    NAMES.iter().map(String::as_str).collect()
}
