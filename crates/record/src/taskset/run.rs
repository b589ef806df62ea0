//! What the tasks of a set did while they ran.

use punctual_stats::histogram::HistogramRecord;
use punctual_stats::lengths::LengthEvidence;
use serde::{Deserialize, Serialize};

use super::analysis::{Response, SetAnalysis};
use super::{ChainSplit, JobBills, TaskSet};
use crate::is_zero;
use crate::run::{Thread, Timeline};

/// A set that was executed. The threads of the run are its tasks, in their order: their latencies
/// are from the release of a job to its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRun {
    /// The set.
    pub set: TaskSet,
    /// The CPU that all tasks were put on, whatever the set's file says; absent where each was on its
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_on_cpu: Option<usize>,
    /// The share of jobs that may miss their deadlines, 0 to 1.
    pub allowed: f64,
    /// The speed of the loop by which tasks execute for a time.
    pub speeds: Vec<CpuSpeed>,
    /// What can be said of the set without executing it; absent where that was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<SetAnalysis>,
    /// What each task did.
    pub tasks: Vec<TaskFigures>,
    /// What came out of each chain.
    pub chains: Vec<ChainFigures>,
}

/// How fast a CPU executes the loop by which tasks execute for a time: the fastest of many trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuSpeed {
    /// The CPU.
    pub cpu: usize,
    /// Turns of the loop,
    pub turns: u64,
    /// and the time that they take.
    pub ns: u64,
    /// How much longer the median trial took, as a share.
    pub spread: f64,
}

/// What a task did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskFigures {
    /// Its jobs: latencies are from the arrival of a job to its end, `late` are those beyond the
    /// deadline, `missed` those that were never started.
    pub jobs: Thread,
    /// The response times over time.
    pub timeline: Timeline,
    /// The longest time from the arrival of a job to its end, of jobs whose phases may take longer than the
    /// deadline: without what `jobs` subtracts. 0 where there was none, or the process was stopped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_ns: u64,
    /// Processor time of its jobs in ns; absent as long as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Who took the time of its late and of its longest jobs; absent where that was not looked for,
    /// or could not be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bills: Option<JobBills>,
    /// Jobs of them that were never started because as many releases were pending as may be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Why it ended before the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<TaskFault>,
}

/// Why a task ended before its set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum TaskFault {
    /// It could not wait for its next job.
    Wait {
        /// The system's words.
        error: String,
    },
    /// It could not release the task that follows it.
    Release {
        /// The system's words.
        error: String,
    },
    /// A step of its work failed.
    Step {
        /// The phase, from 0.
        phase: usize,
        /// The step, from 0, counted through the phase and what is within its locks.
        step: usize,
        /// The system's words.
        error: String,
    },
    /// It did not end in time.
    StillBusy {},
}

/// What came out of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainFigures {
    /// From the moment at which a job read an input to the first output that reflects a later one:
    /// so long an event just after that reading waited.
    pub reaction: HistogramRecord,
    /// Those longer than the limit of the chain.
    pub reaction_longer: u64,
    /// From the arrival of the job that read an input to each output made of it.
    pub age: HistogramRecord,
    /// Those longer than the limit of the chain.
    pub age_longer: u64,
    /// Inputs that were read, and that no output reflects: later ones replaced them.
    pub replaced: u64,
    /// Outputs that were lost on their way to the record.
    pub lost: u64,
    /// Where the time of the reactions went; absent where that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<ChainSplit>,
}

impl TaskFigures {
    /// The longest time from the arrival of a job to its end, as the analysis bounds it; absent where none ended.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        let jobs = &self.jobs.latency;
        (jobs.count > 0).then_some(jobs.max_ns.max(self.longest_ns))
    }
}

impl TaskRun {
    /// How many reactions of a chain were longer than its limit and are not split into its hops.
    #[must_use]
    pub fn longer_unsplit(&self, chain: usize) -> u64 {
        let figures = self.chains.get(chain);
        let Some((figures, split)) = figures.and_then(|it| Some((it, it.split.as_ref()?))) else {
            return 0;
        };
        let longer = figures
            .reaction_longer
            .saturating_sub(split.whole.times.late);
        longer.min(split.unsplit)
    }

    /// The bound on the response times of a task, where it has one.
    #[must_use]
    pub fn bound_ns(&self, task: usize) -> Option<u64> {
        match self.analysis.as_ref()?.tasks.get(task)?.response {
            Response::Bounded { response_ns, .. } => Some(response_ns),
            Response::Unbounded { .. } | Response::BestEffort => None,
        }
    }

    /// The tasks whose longest job took longer than the analysis bounds it: the model lacks
    /// something that happened.
    #[must_use]
    pub fn beyond_bounds(&self) -> Vec<usize> {
        let each = self.tasks.iter().enumerate();
        let beyond = each.filter(|(task, figures)| {
            figures.longest_ns() > self.bound_ns(*task) && self.bound_ns(*task).is_some()
        });
        beyond.map(|(task, _)| task).collect()
    }

    /// What the limits of the chains are called, in the order of [`TaskRun::limited`].
    pub(crate) fn limits(&self) -> Vec<String> {
        let each = self.set.chains.iter().flat_map(|chain| {
            let reaction = chain
                .reaction_ns
                .map(|_| format!("reaction of {}", chain.name));
            let age = chain.age_ns.map(|_| format!("age of {}", chain.name));
            [reaction, age]
        });
        each.flatten().collect()
    }

    /// What is required of the chains, with the names of their limits.
    pub(crate) fn limited<'a>(&self, names: &'a [String]) -> Vec<LengthEvidence<'a>> {
        let chains = self.set.chains.iter().zip(&self.chains);
        let each = chains.flat_map(|(chain, figures)| {
            [
                (
                    chain.reaction_ns,
                    &figures.reaction,
                    figures.reaction_longer,
                ),
                (chain.age_ns, &figures.age, figures.age_longer),
            ]
        });
        let each =
            each.filter_map(|(limit_ns, lengths, longer)| Some((limit_ns?, lengths, longer)));
        let each = each
            .zip(names)
            .map(|((limit_ns, lengths, longer), name)| LengthEvidence {
                name,
                limit_ns,
                count: lengths.count,
                longer,
                max_ns: (lengths.count > 0).then_some(lengths.max_ns),
            });
        each.collect()
    }
}
