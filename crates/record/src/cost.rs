//! What does real time cost a command? Its runs in pairs, without and with a treatment and with
//! nothing that differs, and what follows.

use std::collections::BTreeMap;

use punctual_stats::Histogram;
use punctual_stats::cost::{BreakEven, CostEffect, TailQuantile, Usage};
use punctual_stats::histogram::HistogramRecord;
use punctual_stats::verdict::Outcome;
use serde::{Deserialize, Serialize};

use crate::run::Tool;

mod judge;
mod read;

/// The runs of a command, and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Always that of [`crate::Document`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Cost as crate::Document>::FORMAT)))]
    pub format: String,
    /// As above.
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Cost as crate::Document>::VERSION)))]
    pub version: u32,
    /// The program that wrote this.
    pub tool: Tool,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// When it was begun, RFC 3339 in UTC.
    pub started: String,
    /// What was run, and how often.
    pub plan: CostWork,
    /// What was changed for one run of a pair, in the order of [`CostRun::treatment`].
    pub treatments: Vec<CostTreatment>,
    /// The machines that runs were made on: one; before and after a reboot two.
    pub machines: Vec<CostMachine>,
    /// Why instructions were not counted: the system's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_instructions: Option<String>,
    /// The probe beside the command; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<CostProbe>,
    /// All runs that count, in their order.
    pub runs: Vec<CostRun>,
    /// What follows from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<CostResults>,
    /// How it ended.
    pub outcome: CostOutcome,
}

/// What is run, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostWork {
    /// The command with its arguments.
    pub program: Vec<String>,
    /// The directory that it starts in.
    pub directory: String,
    /// What a shell does before each run; not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<String>,
    /// Pairs of each treatment, and of the series in which nothing differs.
    pub pairs: u64,
    /// Runs before the first pair that do not count.
    pub warm_ups: u64,
    /// Time after which a run is ended, in ns.
    pub limit_ns: u64,
    /// The order of the runs follows from it.
    pub seed: u64,
    /// How sure a cost must be.
    pub confidence: f64,
    /// The quantile that the break-even is about.
    pub quantile: f64,
    /// Whether an exit status other than 0 is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepts_failure: bool,
}

/// What is changed for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTreatment {
    /// Its parts, which hold together.
    pub parts: Vec<CostPart>,
}

/// A part of a treatment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CostPart {
    /// A periodic load of real-time priority beside the command.
    RtLoad {
        /// Its part of the time of each of its CPUs.
        utilisation: f64,
        /// Its CPUs: a thread on each.
        cpus: Vec<usize>,
        /// Its priority, SCHED_FIFO.
        priority: u32,
        /// Its period in ns.
        period_ns: u64,
    },
    /// The command has this priority, SCHED_FIFO.
    Priority {
        /// The priority.
        priority: u32,
    },
    /// The command has its memory locked.
    Locked {},
    /// The command does without these CPUs.
    Isolate {
        /// The CPUs.
        cpus: Vec<usize>,
    },
    /// Another preemption model of the kernel.
    Preempt {
        /// The model.
        mode: String,
        /// The model before.
        before: String,
    },
    /// What differs between the machines before and after a reboot.
    Reboot {},
    /// Another kernel, in virtual time.
    Kernel {
        /// The kernel without the treatment.
        without: String,
        /// The kernel with it.
        with: String,
    },
}

/// A machine as it was: enough to see whether two differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostMachine {
    /// Its name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`.
    pub build: String,
    /// The kernel's command line.
    pub command_line: String,
    /// The ID of the boot.
    pub boot_id: String,
    /// CPUs that are online.
    pub cpus: Vec<usize>,
    /// Settings that bear on cost and latency, by their files.
    pub settings: BTreeMap<String, String>,
}

/// Something that differs between two machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDifference {
    /// Its name.
    pub name: String,
    /// Before; absent where it did not exist.
    pub before: Option<String>,
    /// After.
    pub after: Option<String>,
}

impl CostMachine {
    /// What differs; the boot by itself does not count.
    #[must_use]
    pub fn differences(&self, after: &Self) -> Vec<MachineDifference> {
        let mut all = Vec::new();
        let mut compare = |name: &str, before: Option<&str>, after: Option<&str>| {
            if before != after {
                all.push(MachineDifference {
                    name: name.to_owned(),
                    before: before.map(str::to_owned),
                    after: after.map(str::to_owned),
                });
            }
        };
        let cpus = [self, after].map(|it| crate::cpu_list(&it.cpus));
        compare("hostname", Some(&self.hostname), Some(&after.hostname));
        compare("kernel", Some(&self.kernel), Some(&after.kernel));
        compare("build", Some(&self.build), Some(&after.build));
        let lines = [self, after].map(|it| it.command_line.as_str());
        compare("command line", Some(lines[0]), Some(lines[1]));
        compare("CPUs", Some(&cpus[0]), Some(&cpus[1]));
        let names = self.settings.keys().chain(after.settings.keys());
        let names: std::collections::BTreeSet<&String> = names.collect();
        for name in names {
            let of = |it: &'_ Self| it.settings.get(name).cloned();
            compare(name, of(self).as_deref(), of(after).as_deref());
        }
        all
    }
}

/// The probe beside the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostProbe {
    /// Its CPU.
    pub cpu: usize,
    /// Its priority, SCHED_FIFO; beside a command without a priority that gets one, see
    /// [`CostPart::Priority`], it is scheduled as the command is.
    pub priority: u32,
    /// Its interval in ns.
    pub interval_ns: u64,
}

/// A run of the command that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostRun {
    /// The place of the treatment that its pair tests; absent in pairs in which nothing differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treatment: Option<usize>,
    /// Its pair, counted for its treatment and its machine.
    pub pair: u64,
    /// Whether it was the one with the treatment; where nothing differs, the one that was drawn.
    pub with: bool,
    /// The place of its machine.
    #[serde(default, skip_serializing_if = "is_first")]
    pub machine: usize,
    /// When it was started, from the beginning, in ns.
    pub at_ns: u64,
    /// What it used.
    pub usage: Usage,
    /// Its exit status.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status: i32,
    /// Processes that it left running; they were ended.
    #[serde(default, skip_serializing_if = "is_first")]
    pub left: usize,
    /// The part of its CPUs that the real-time load used, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Wake-ups of the probe meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_ups: Option<CostWakeUps>,
}

fn is_first(number: &usize) -> bool {
    *number == 0
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// Wake-ups beside a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostWakeUps {
    /// Their latencies.
    pub latency: HistogramRecord,
    /// Periods that passed while the probe was late.
    #[serde(default)]
    pub skipped: u64,
    /// Wake-ups that were lost.
    #[serde(default)]
    pub lost: u64,
}

impl CostWakeUps {
    /// Those of a histogram.
    #[must_use]
    pub fn of(latency: &Histogram, skipped: u64, lost: u64) -> Self {
        Self {
            latency: HistogramRecord::from(latency),
            skipped,
            lost,
        }
    }
}

/// What follows from the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostResults {
    /// Of the pairs in which nothing differs: the resolution. After a reboot, of the two series the
    /// one that differs more.
    pub identical: Vec<CostEffect>,
    /// Their pairs.
    pub identical_pairs: usize,
    /// Of each treatment.
    pub treatments: Vec<TreatmentResult>,
}

/// What follows of a treatment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreatmentResult {
    /// Pairs of runs; across a reboot, those on the machine that has fewer.
    pub pairs: usize,
    /// One for each measure that all of its runs have.
    pub effects: Vec<CostEffect>,
    /// The tails beside it.
    pub tails: Tails,
    /// Where predictability pays off, by each price; empty where the tails are not known.
    pub break_even: Vec<BreakEven>,
}

/// The tails of both configurations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Tails {
    /// Known.
    Known {
        /// Without the treatment.
        without: TailQuantile,
        /// With it.
        with: TailQuantile,
        /// Wake-ups without and with it.
        wake_ups: (u64, u64),
        /// Skipped periods without and with it.
        skipped: (u64, u64),
    },
    /// There was no probe.
    NoProbe,
    /// Too few wake-ups for the quantile.
    TooFew {
        /// Those of the configuration that has fewer.
        wake_ups: u64,
        /// As many are needed.
        needed: u64,
    },
    /// Wake-ups were lost.
    Lost {
        /// As many.
        lost: u64,
    },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CostOutcome {
    /// It has not.
    UnderWay,
    /// As planned.
    Complete,
    /// The runs before a reboot are made; those after it are not.
    FirstHalf,
    /// A signal ended it. Everything was restored.
    Stopped,
    /// A run of the command failed, or what it needs.
    Failed {
        /// What, in one line.
        error: String,
    },
}

impl Cost {
    /// The load may use so much more or less than requested, as a part of that.
    pub const LOAD_TOLERANCE: f64 = 0.1;

    /// The runs of a load that was not in force, and the part of its CPUs that was requested and the
    /// farthest from that.
    #[must_use]
    pub fn load_not_in_force(&self) -> Option<(usize, f64, f64)> {
        let mut wrong = Vec::new();
        for run in &self.runs {
            let treatment = run.treatment.and_then(|at| self.treatments.get(at));
            let parts = treatment.into_iter().flat_map(|it| &it.parts);
            let mut asked = parts.filter_map(|part| match part {
                CostPart::RtLoad { utilisation, .. } => Some(*utilisation),
                _ => None,
            });
            let (Some(asked), true) = (asked.next(), run.with) else {
                continue;
            };
            let got = run.load.unwrap_or(0.0);
            if (got / asked - 1.0).abs() > Self::LOAD_TOLERANCE {
                wrong.push((asked, got));
            }
        }
        let distance = |it: &&(f64, f64)| (it.1 / it.0 - 1.0).abs();
        let (asked, got) = *wrong
            .iter()
            .max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some((wrong.len(), asked, got))
    }

    /// Whether a treatment has fewer pairs than any cost could be named with.
    #[must_use]
    pub fn has_too_few_pairs(&self) -> bool {
        let least =
            punctual_stats::cost::least_pairs(self.treatments.len().max(1), self.plan.confidence);
        let Some(results) = &self.results else {
            return true;
        };
        let pairs = results.treatments.iter().map(|it| it.pairs);
        pairs
            .chain([results.identical_pairs])
            .any(|pairs| least.is_none_or(|least| pairs < least))
    }

    /// The exit status as a verdict: PASS where it says what it was made for, whatever that is.
    #[must_use]
    pub fn verdict(&self) -> Option<Outcome> {
        match &self.outcome {
            CostOutcome::UnderWay | CostOutcome::Failed { .. } => None,
            CostOutcome::FirstHalf => Some(Outcome::Pass),
            _ if self.load_not_in_force().is_some() => Some(Outcome::Invalid),
            CostOutcome::Stopped => Some(Outcome::Inconclusive),
            CostOutcome::Complete if self.has_too_few_pairs() => Some(Outcome::Inconclusive),
            CostOutcome::Complete => Some(Outcome::Pass),
        }
    }
}
