//! What the tasks and chains of a set did in one guest.

use punctual_stats::histogram::{Histogram, HistogramRecord};
use serde::{Deserialize, Serialize};

use super::CellFigures;
use crate::run::Run;
use crate::taskset::analysis::ChainLatency;
use crate::taskset::{TaskFigures, TaskRun};

/// A task of a set that was executed. Times are from the arrival of a job to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabTask {
    /// Its name.
    pub name: String,
    /// A job must end within this time.
    pub deadline_ns: u64,
    /// No job takes longer by the set's analysis; absent where the task has no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Its jobs: `missed` are those that were never started, because their deadline had passed; absent
    /// where none ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<CellFigures>,
    /// The longest time from the arrival of a job to its end, where `figures` are less what its phase allows more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
    /// The 99.9th percentile, where there are jobs enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    /// Jobs that ended after their deadlines.
    pub late: u64,
}

/// A chain of a set that was executed: its reaction or its age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabChain {
    /// The chain's name.
    pub name: String,
    /// Which of the two.
    pub of: ChainTime,
    /// Outputs.
    pub count: u64,
    /// The longest; absent where nothing came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// None is longer by the set's analysis; absent where there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// What the set allows; absent where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
    /// Outputs beyond that.
    pub longer: u64,
}

/// A time of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChainTime {
    /// From an input to the first output that reflects it.
    Reaction,
    /// From the arrival of the job that read an input to the last output made of it.
    Age,
}

impl LabTask {
    /// The tasks of a record; none where no set was executed.
    #[must_use]
    pub fn all(run: &Run) -> Vec<Self> {
        let Some(tasks) = &run.tasks else {
            return Vec::new();
        };
        let each = tasks.set.tasks.iter().zip(&tasks.tasks).enumerate();
        each.map(|(index, (task, figures))| {
            let jobs = Histogram::try_from(&figures.jobs.latency).unwrap_or_default();
            Self {
                name: task.name.clone(),
                deadline_ns: task.deadline_ns,
                bound_ns: tasks.bound_ns(index),
                figures: of_jobs(&jobs, figures),
                longest_ns: figures.longest_ns().filter(|it| Some(*it) > jobs.max()),
                p999_ns: jobs.supported_quantile(0.999),
                late: figures.jobs.late,
            }
        })
        .collect()
    }

    /// The longest time from the arrival of a job to its end, as the analysis bounds it; absent where none ended.
    #[must_use]
    pub fn longest_ns(&self) -> Option<u64> {
        self.longest_ns
            .or(self.figures.map(|figures| figures.max_ns))
    }

    /// Whether a job took longer than its bound.
    #[must_use]
    pub fn is_beyond(&self) -> bool {
        self.bound_ns.is_some() && self.longest_ns() > self.bound_ns
    }
}

fn of_jobs(jobs: &Histogram, figures: &TaskFigures) -> Option<CellFigures> {
    Some(CellFigures {
        samples: jobs.count(),
        missed: figures.jobs.missed,
        min_ns: jobs.min()?,
        mean_ns: jobs.mean()?,
        p50_ns: jobs.quantile(0.5)?,
        p99_ns: jobs.quantile(0.99)?,
        max_ns: jobs.max()?,
    })
}

impl LabChain {
    /// The chains of a record, each with its reaction and then its age.
    #[must_use]
    pub fn all(run: &Run) -> Vec<Self> {
        let Some(tasks) = &run.tasks else {
            return Vec::new();
        };
        let chains = tasks.set.chains.iter().zip(&tasks.chains).enumerate();
        let each = chains.flat_map(|(index, (chain, figures))| {
            let bounds = bounds(tasks, index);
            let of = |of, lengths: &HistogramRecord, bound_ns, limit_ns, longer| Self {
                name: chain.name.clone(),
                of,
                count: lengths.count,
                max_ns: (lengths.count > 0).then_some(lengths.max_ns),
                bound_ns,
                limit_ns,
                longer,
            };
            [
                of(
                    ChainTime::Reaction,
                    &figures.reaction,
                    bounds.map(|(reaction_ns, _)| reaction_ns),
                    chain.reaction_ns,
                    figures.reaction_longer,
                ),
                of(
                    ChainTime::Age,
                    &figures.age,
                    bounds.map(|(_, age_ns)| age_ns),
                    chain.age_ns,
                    figures.age_longer,
                ),
            ]
        });
        each.collect()
    }
}

/// The bounds on reaction and age of a chain.
fn bounds(tasks: &TaskRun, chain: usize) -> Option<(u64, u64)> {
    match tasks.analysis.as_ref()?.chains.get(chain)?.latency {
        ChainLatency::Bounded {
            reaction_ns,
            age_ns,
            ..
        } => Some((reaction_ns, age_ns)),
        _ => None,
    }
}
