//! Find, change, prove, keep: what was tried so that a machine meets a deadline, with the evidence
//! of each step.

use punctual_stats::experiment::KnobConclusion;
use punctual_stats::verdict::Outcome;
use serde::{Deserialize, Serialize};

use crate::event::Happening;
use crate::explanation::Cause;
use crate::finding::FindingId;
use crate::invalid::InvalidReason;
use crate::judgement::Judgement;
use crate::remedy::{BillsAsk, Obstacle};
use crate::run::{Run, Tool};
use crate::tuning::{Change, Setting};

mod read;

/// What was tried, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fit {
    /// Always that of [`crate::Document`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Fit as crate::Document>::FORMAT)))]
    pub format: String,
    /// As above.
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Fit as crate::Document>::VERSION)))]
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
    /// The deadline in ns.
    pub deadline_ns: u64,
    /// The load.
    pub load: String,
    /// The CPUs that are probed.
    pub cpus: Vec<usize>,
    /// The CPUs for real-time work that settings are made for: not all of the machine.
    pub tuned_for: Vec<usize>,
    /// The priority of the probes; 0 without a real-time policy.
    pub priority: u32,
    /// Time for everything, in ns.
    pub budget_ns: u64,
    /// The steps.
    pub steps: Vec<FitStep>,
    /// What no setting helps against, by the bills of the last qualification, the dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<FitObstacle>,
    /// Boot parameters that bear on the causes of the last qualification's bills and can't be
    /// changed on the running machine: they were not tried. The dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untried_boot: Vec<FitBoot>,
    /// What was changed and stays so; empty unless the deadline is met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptSetting>,
    /// How it ended; absent until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FitOutcome>,
}

/// A step: a run of its own, in a directory of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitStep {
    /// The directory, within that of the fit.
    pub directory: String,
    /// What was done.
    #[serde(flatten)]
    pub what: FitWork,
    /// How long it took, in ns.
    pub length_ns: u64,
}

/// What a step did, and what it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum FitWork {
    /// Does the machine meet the deadline with these knobs on?
    Qualify {
        /// The knobs that were on.
        on: Vec<FindingId>,
        /// The verdict.
        outcome: Outcome,
        /// Wake-ups.
        samples: u64,
        /// Those later than the deadline.
        late: u64,
        /// The highest latency in ns.
        max_ns: u64,
        /// The lowest latency in ns.
        #[serde(default)]
        min_ns: u64,
        /// The knobs that its bills ask for and that can be turned here, the dearest cause first.
        asked: Vec<FindingId>,
        /// Those of them that remove what makes the run INVALID; none where something else does.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        makes_valid: Vec<FindingId>,
    },
    /// Which of these knobs helps?
    Prove {
        /// What was found out about each.
        knobs: Vec<ProvenKnob>,
        /// Whether the control showed no effect.
        is_valid: bool,
        /// Whether too few pairs of blocks count to say anything.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_short: bool,
        /// Time that it would have taken; absent where it had enough.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needed_ns: Option<u64>,
    },
}

/// What was found out about a knob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProvenKnob {
    /// The knob.
    pub knob: FindingId,
    /// What follows.
    pub conclusion: KnobConclusion,
    /// The largest named change of a measure, on by off; absent where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitObstacle {
    /// Which kind.
    pub obstacle: Obstacle,
    /// The causes, the dearest first.
    pub causes: Vec<Cause>,
    /// Their time in ns.
    pub total_ns: u64,
    /// The most that one of them took of one wake-up, in ns.
    pub worst_ns: u64,
}

/// A boot parameter that may help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FitBoot {
    /// Its knob.
    pub knob: FindingId,
    /// As it stands on the command line.
    pub parameter: String,
    /// The time of the causes that it bears on, in ns.
    pub total_ns: u64,
    /// The most that one of them took of one wake-up, in ns.
    pub worst_ns: u64,
}

/// A setting that stays changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptSetting {
    /// Its knob.
    pub knob: FindingId,
    /// What is changed.
    pub setting: Setting,
    /// Its value.
    pub value: String,
}

impl Fit {
    /// What stays changed, as `tune` changes it.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let change = |kept: &KeptSetting| Change {
            knob: kept.knob.into(),
            setting: kept.setting.clone(),
            value: kept.value.clone(),
        };
        self.kept.iter().map(change).collect()
    }
}

/// How a fit ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FitOutcome {
    /// The deadline is met without any change.
    MetAlready,
    /// The deadline is met with these knobs, and with none of them left out that could be tried.
    Met {
        /// The knobs.
        knobs: Vec<FindingId>,
        /// Those of them that could not be tried without, because the budget was used up.
        untried: Vec<FindingId>,
    },
    /// The bills ask for no knob that can be turned on the running machine.
    NothingToTurn,
    /// Not one wake-up met the deadline, and no knob that the bills ask for makes all of them faster.
    OutOfReach {
        /// The lowest latency in ns.
        min_ns: u64,
    },
    /// Conditions hold with these knobs alone, and the deadline is not met with them. What else helps
    /// can be tried once they are kept.
    FirstKeep {
        /// The knobs.
        knobs: Vec<FindingId>,
    },
    /// No knob was shown to help.
    NothingHelps,
    /// Knobs help, but not enough.
    NotEnough {
        /// The knobs that help.
        knobs: Vec<FindingId>,
    },
    /// The budget has no room for what is needed.
    BudgetTooSmall {
        /// For all of it, in ns.
        needed_ns: u64,
    },
    /// A qualification, or the experiment, has too little evidence.
    TooLittleEvidence,
    /// A qualification is not valid, or the control of the experiment shows an effect.
    Invalid,
    /// A signal ended it. Everything was restored.
    Stopped,
}

impl FitOutcome {
    /// The verdict on the machine as it is left.
    #[must_use]
    pub fn verdict(&self) -> Outcome {
        match self {
            Self::MetAlready | Self::Met { .. } => Outcome::Pass,
            Self::NothingToTurn
            | Self::OutOfReach { .. }
            | Self::FirstKeep { .. }
            | Self::NothingHelps
            | Self::NotEnough { .. } => Outcome::Fail,
            Self::BudgetTooSmall { .. } | Self::TooLittleEvidence | Self::Stopped => {
                Outcome::Inconclusive
            }
            Self::Invalid => Outcome::Invalid,
        }
    }
}

impl Fit {
    /// The obstacles that the bills of a run name.
    #[must_use]
    pub fn obstacles_of(ask: &BillsAsk) -> Vec<FitObstacle> {
        let obstacle = |(obstacle, cost): &(Obstacle, crate::remedy::CauseCost)| FitObstacle {
            obstacle: *obstacle,
            causes: cost.causes.iter().take(Self::CAUSES).cloned().collect(),
            total_ns: cost.total_ns,
            worst_ns: cost.worst_ns,
        };
        ask.obstacles.iter().map(obstacle).collect()
    }

    /// Causes that are kept of an obstacle.
    const CAUSES: usize = 8;
}

fn is_throttling(reason: &InvalidReason) -> bool {
    let InvalidReason::Event(event) = reason else {
        return false;
    };
    matches!(event.what, Happening::Throttled { .. })
}

impl FitWork {
    /// Knobs that keep the kernel from throttling real-time threads.
    const LIFT_THROTTLING: [FindingId; 2] = [FindingId::RtThrottling, FindingId::FairServer];

    /// The result of a qualification.
    #[must_use]
    pub fn qualified(run: &Run, on: Vec<FindingId>, asked: Vec<FindingId>) -> Self {
        let threads = || run.threads.iter();
        let verdict = run.verdict.as_ref();
        let measured = threads().filter(|thread| thread.latency.count > 0);
        let lowest = measured.map(|thread| thread.latency.min_ns).min();
        let reasons = Judgement::from_run(run).map_or(Vec::new(), |it| it.reasons);
        let is_throttled = !reasons.is_empty() && reasons.iter().all(is_throttling);
        let lifts = |knob: &FindingId| is_throttled && Self::LIFT_THROTTLING.contains(knob);
        Self::Qualify {
            makes_valid: asked.iter().copied().filter(lifts).collect(),
            min_ns: lowest.unwrap_or(0),
            on,
            outcome: verdict.map_or(Outcome::Invalid, |verdict| verdict.outcome),
            samples: threads().map(|thread| thread.latency.count).sum(),
            late: threads().map(|thread| thread.late).sum(),
            max_ns: threads()
                .map(|thread| thread.latency.max_ns)
                .max()
                .unwrap_or(0),
            asked,
        }
    }

    /// The result of an experiment with these knobs, the control last.
    #[must_use]
    pub fn proven(run: &Run, knobs: &[FindingId]) -> Self {
        use crate::experiment::ExperimentOutcome;
        let experiment = run.experiment.as_ref();
        let proven = |(at, knob): (usize, &FindingId)| {
            let result = experiment.and_then(|it| it.results.get(at));
            let confidence = experiment.map_or(1.0, |it| it.confidence);
            let named = result.into_iter().flat_map(|it| &it.effects);
            let ratios = named
                .filter(|it| it.is_named(confidence))
                .map(|it| it.ratio);
            ProvenKnob {
                knob: *knob,
                conclusion: result.map_or(KnobConclusion::TooFewPairs, |it| it.conclusion),
                ratio: ratios.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs())),
            }
        };
        Self::Prove {
            knobs: knobs.iter().enumerate().map(proven).collect(),
            is_valid: experiment.is_some_and(|it| !it.control_fails())
                && crate::experiment_faults(run).is_empty(),
            is_short: experiment.is_some_and(|it| {
                let has_pilot = it.outcome != ExperimentOutcome::NoSpread;
                !has_pilot || it.has_too_few_pairs()
            }),
            needed_ns: experiment.and_then(|it| match it.outcome {
                ExperimentOutcome::BudgetTooSmall { needed_ns } => needed_ns.or(Some(u64::MAX)),
                _ => None,
            }),
        }
    }
}
