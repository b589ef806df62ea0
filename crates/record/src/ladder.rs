//! How much does each step of a real-time program gain on this machine? A periodic thread, measured
//! without and with each step.
//!
//! The rungs are defined here alone: what runs on this machine, what runs in the lab, the text and
//! the example programs follow [`Rung`].

mod judge;
mod read;

use punctual_stats::experiment::{BlockLatencies, KnobConclusion, KnobResult};
use punctual_stats::histogram::HistogramRecord;
use punctual_stats::verdict::Outcome;
use serde::{Deserialize, Serialize};

use crate::experiment::SwitchedSetting;
use crate::run::{Load, Tool};
use crate::tuning::Setting;

/// A rung: everything below it, and one step more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// No step: a loop around a relative sleep, SCHED_OTHER, memory as it comes, on any CPU.
    RelativeSleep,
    /// Sleep until an absolute instant of CLOCK_MONOTONIC.
    AbsoluteSleep,
    /// SCHED_FIFO.
    Priority,
    /// mlockall.
    LockedMemory,
    /// One CPU.
    Affinity,
    /// Movable interrupts and unbound workqueues are moved to other CPUs.
    QuietInterrupts,
}

impl Rung {
    /// All, from the lowest to the highest.
    pub const ALL: [Self; 6] = [
        Self::RelativeSleep,
        Self::AbsoluteSleep,
        Self::Priority,
        Self::LockedMemory,
        Self::Affinity,
        Self::QuietInterrupts,
    ];

    /// As flags and records name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RelativeSleep => "relative-sleep",
            Self::AbsoluteSleep => "absolute-sleep",
            Self::Priority => "priority",
            Self::LockedMemory => "locked-memory",
            Self::Affinity => "affinity",
            Self::QuietInterrupts => "quiet-interrupts",
        }
    }

    /// The rung of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rung| rung.name() == name)
    }

    /// Whether a machine with one CPU lacks it: there is no other CPU to keep anything on.
    #[must_use]
    pub fn needs_several_cpus(self) -> bool {
        self >= Self::Affinity
    }

    /// Whether a thread on this rung has taken the step of `step`.
    #[must_use]
    pub fn has(self, step: Self) -> bool {
        step <= self
    }
}

/// What was measured, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ladder {
    /// Always that of [`crate::Document`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Ladder as crate::Document>::FORMAT)))]
    pub format: String,
    /// As above.
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Ladder as crate::Document>::VERSION)))]
    pub version: u32,
    /// The program that wrote this.
    pub tool: Tool,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The machine's name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// When it was begun, RFC 3339 in UTC.
    pub started: String,
    /// How it is measured.
    pub design: LadderDesign,
    /// The load.
    pub load: String,
    /// Its scheduling class.
    pub load_class: String,
    /// What the load did, once it has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<Load>,
    /// The settings that the highest rung switches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switched: Vec<SwitchedSetting>,
    /// The rungs, from the lowest to the highest.
    pub rungs: Vec<LadderRung>,
    /// The rung that is measured twice in each round; absent where only one rung is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Rung>,
    /// The blocks, in their order in time.
    pub blocks: Vec<LadderBlock>,
    /// What each step does, the control, and all steps together; empty until it is judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<LadderStep>,
    /// From the first block to the last, in ns.
    pub measured_ns: u64,
    /// How it ended; absent until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<LadderOutcome>,
}

/// How a ladder is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderDesign {
    /// The seed of the order of blocks.
    pub seed: u64,
    /// The period of the thread in ns.
    pub interval_ns: u64,
    /// Length of a block in ns, without the time to settle.
    pub block_ns: u64,
    /// Cycles after which a block ends; absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loops: Option<u64>,
    /// The beginning of each block that does not count, in ns.
    pub settle_ns: u64,
    /// Rounds that are planned: in each, every rung has one block, and the control has a second.
    pub rounds: u64,
    /// Bytes that each cycle writes, to memory that it has not used before.
    pub work_bytes: u64,
    /// The deadline in ns: an excess is what response times have above it.
    pub deadline_ns: u64,
    /// If no step had any effect, one is named in at most the complement of such runs.
    pub confidence: f64,
    /// The priority of the rungs that have one.
    pub priority: u32,
    /// The CPU of the rungs that have one.
    pub cpu: usize,
    /// The CPUs that the other rungs may use.
    pub cpus: Vec<usize>,
}

/// A rung, and everything that was measured on it, the control's second blocks not included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderRung {
    /// Which.
    pub rung: Rung,
    /// Whether it is measured; else its step can't be taken here, or it was not asked for.
    pub is_measured: bool,
    /// Why its step can't be taken here: those above it go without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_possible: Option<NotPossible>,
    /// Response times: from the requested instant until the work of the cycle is done.
    pub response: HistogramRecord,
    /// What was counted.
    pub counts: LadderCounts,
}

impl LadderRung {
    /// A rung before its first block.
    #[must_use]
    pub fn new(rung: Rung, is_asked: bool, not_possible: Option<NotPossible>) -> Self {
        Self {
            rung,
            is_measured: is_asked && not_possible.is_none(),
            not_possible,
            response: HistogramRecord::from(&punctual_stats::Histogram::new()),
            counts: LadderCounts::default(),
        }
    }
}

/// Why a step can't be taken here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum NotPossible {
    /// The kernel refuses it.
    Refused {
        /// The kernel's words, and what to do.
        error: String,
    },
    /// The process may use one CPU: there is nothing to choose.
    OneCpu,
    /// No interrupt and no workqueue that can be moved is on the CPU.
    NothingToMove,
    /// A setting can't be switched.
    NotSwitchable {
        /// The setting.
        setting: Setting,
        /// The system's words.
        error: String,
    },
    /// The journal of changed settings can't be used.
    NoJournal {
        /// Why not.
        error: String,
    },
}

/// What was counted beside the response times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderCounts {
    /// Cycles measured.
    pub cycles: u64,
    /// Periods that passed while the thread was late. A relative sleep skips none: its period grows.
    pub skipped: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Pages that the work wrote for the first time.
    pub fresh_pages: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
    /// Cycles that ended on another CPU than the cycle before.
    pub migrations: u64,
    /// From one wake-up to the next, added up, in ns.
    pub periods_ns: u64,
    /// How many periods that is.
    pub periods: u64,
}

impl LadderCounts {
    /// Adds those of another block.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.cycles, other.cycles),
            (&mut self.skipped, other.skipped),
            (&mut self.minor_faults, other.minor_faults),
            (&mut self.major_faults, other.major_faults),
            (&mut self.fresh_pages, other.fresh_pages),
            (&mut self.preemptions, other.preemptions),
            (&mut self.migrations, other.migrations),
            (&mut self.periods_ns, other.periods_ns),
            (&mut self.periods, other.periods),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Page faults of both kinds.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.minor_faults.saturating_add(self.major_faults)
    }

    /// The mean period in ns; absent without two wake-ups that follow each other.
    #[must_use]
    pub fn mean_period_ns(&self) -> Option<u64> {
        self.periods_ns.checked_div(self.periods)
    }
}

/// One block: a thread that was set up for it, and has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderBlock {
    /// When it began, from the first block, in ns.
    pub at_ns: u64,
    /// Its round, from 0.
    pub round: u64,
    /// Its rung.
    pub rung: Rung,
    /// Whether it is the control's second block of the round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_second: bool,
    /// The figures of its response times.
    pub figures: BlockLatencies,
    /// What was counted.
    pub counts: LadderCounts,
    /// What the kernel says of the thread, read while it ran.
    pub in_force: RungInForce,
    /// Why it counts for nothing, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<RungLeftOut>,
}

/// The set-up of a thread as `/proc` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RungInForce {
    /// Its policy: `fifo`, `other`.
    pub policy: String,
    /// Its real-time priority; 0 without a real-time policy.
    pub priority: u32,
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// Locked memory of the process, in KiB.
    pub locked_kib: u64,
}

/// Why a block, and with it the pairs that it is in, counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RungLeftOut {
    /// The thread was not set up as its rung says.
    NotInForce,
    /// The process was stopped and continued meanwhile.
    ProcessStopped,
    /// A signal ended it.
    CutShort,
    /// It has no cycle.
    NoCycles,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// A rung and the one below it.
    Step,
    /// The highest rung and the lowest.
    All,
    /// A rung and itself.
    Control,
}

/// Two rungs, compared round by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderStep {
    /// What is compared.
    pub kind: StepKind,
    /// The lower rung: `off` in the effects.
    pub from: Rung,
    /// The higher rung: `on` in the effects.
    pub to: Rung,
    /// What was found.
    pub result: KnobResult,
}

/// How a ladder ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LadderOutcome {
    /// As planned.
    Complete,
    /// A signal ended it.
    Stopped,
    /// Another program changed a setting that was to be switched.
    Conflict {
        /// Which.
        setting: Setting,
        /// Its value then.
        found: String,
    },
    /// A thread could not be set up, or a setting not be switched: the system's words.
    Failed {
        /// Why not.
        error: String,
    },
}

impl Ladder {
    /// The record of that rung.
    #[must_use]
    pub fn rung(&self, rung: Rung) -> Option<&LadderRung> {
        self.rungs.iter().find(|it| it.rung == rung)
    }

    /// The rungs that are measured, from the lowest to the highest.
    #[must_use]
    pub fn measured(&self) -> Vec<Rung> {
        let measured = self.rungs.iter().filter(|it| it.is_measured);
        measured.map(|it| it.rung).collect()
    }

    /// Whether a thread on `rung` takes `step`: those that can't be taken here are left out on
    /// every rung.
    #[must_use]
    pub fn takes(&self, rung: Rung, step: Rung) -> bool {
        let is_possible = |it: &LadderRung| it.not_possible.is_none();
        rung.has(step) && self.rung(step).is_some_and(is_possible)
    }

    /// Whether the control shows an effect: then no result can be trusted.
    #[must_use]
    pub fn control_fails(&self) -> bool {
        let none = [KnobConclusion::NoEffectShown, KnobConclusion::TooFewPairs];
        let mut controls = self.steps.iter().filter(|it| it.kind == StepKind::Control);
        controls.any(|it| !none.contains(&it.result.conclusion))
    }

    /// Blocks that count for nothing for this reason.
    #[must_use]
    pub fn left_out(&self, why: RungLeftOut) -> usize {
        let blocks = self.blocks.iter();
        blocks.filter(|it| it.left_out == Some(why)).count()
    }

    /// Whether a load failed or stopped working: then nothing says what was measured.
    #[must_use]
    pub fn load_failed(&self) -> bool {
        let is_idle = |load: &Load| load.check.is_some_and(|check| check.is_idle());
        let mut loads = self.loads.iter();
        loads.any(|load| load.failed.is_some() || is_idle(load))
    }

    /// The verdict on it; none until it has ended, or where it could not be made.
    #[must_use]
    pub fn verdict(&self) -> Option<Outcome> {
        let is_invalid = self.control_fails()
            || self.left_out(RungLeftOut::NotInForce) > 0
            || self.load_failed();
        let is_single = self.control.is_none();
        let says_nothing = |it: &LadderStep| it.result.conclusion == KnobConclusion::TooFewPairs;
        match self.outcome.as_ref()? {
            LadderOutcome::Conflict { .. } | LadderOutcome::Failed { .. } => None,
            _ if is_invalid => Some(Outcome::Invalid),
            LadderOutcome::Stopped => Some(Outcome::Inconclusive),
            LadderOutcome::Complete if is_single => {
                let has_cycles = self.rungs.iter().any(|it| it.counts.cycles > 0);
                Some(match has_cycles {
                    true => Outcome::Pass,
                    false => Outcome::Inconclusive,
                })
            }
            LadderOutcome::Complete => {
                let is_short = self.steps.is_empty() || self.steps.iter().any(says_nothing);
                Some(match is_short {
                    true => Outcome::Inconclusive,
                    false => Outcome::Pass,
                })
            }
        }
    }
}
