//! A chain, split into its hops: where the time of its reactions went.

use serde::{Deserialize, Serialize};

use super::TaskSet;
use crate::run::{Thread, Timeline};

/// Tasks of a chain that is split; a longer one is not.
pub const SPLIT: usize = 12;

/// The reactions of a chain, and the hops that they are made of: for each output that reflects a
/// new input, the times of the hops add up to the reaction exactly. All of them are counted at the
/// instant at which the reaction began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainSplit {
    /// The reactions that were split.
    pub whole: Times,
    /// The hops, in order: see [`ChainHop::of`].
    pub hops: Vec<Times>,
    /// Reactions of which the way is not known: a task read less often than outputs are kept, or nothing came out
    /// until the end.
    #[serde(default)]
    pub unsplit: u64,
}

/// Times that were measured one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Times {
    /// Every time, as the latencies of a thread.
    pub times: Thread,
    /// The times over time.
    pub timeline: Timeline,
}

/// A hop of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "hop", rename_all = "kebab-case")]
pub enum ChainHop {
    /// From a reading of the input to the next one.
    Input {
        /// The task that reads.
        task: usize,
    },
    /// From an output to the beginning of the next job of the task that samples it.
    Sampling {
        /// The task that samples.
        task: usize,
    },
    /// From the beginning of a job to its end; where the task before releases it, from the end of
    /// that one's job.
    Task {
        /// The task.
        task: usize,
        /// Whether the task before releases it.
        released: bool,
    },
}

impl ChainHop {
    /// The hops of a chain. None where it is not split.
    #[must_use]
    pub fn of(set: &TaskSet, chain: usize) -> Vec<Self> {
        let Some(chain) = set.chains.get(chain) else {
            return Vec::new();
        };
        if chain.tasks.len() > SPLIT {
            return Vec::new();
        }
        let mut hops = Vec::new();
        for (at, &task) in chain.tasks.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| chain.tasks.get(at));
            let released = before.is_some_and(|before| set.is_released_by(task, *before));
            match before {
                None => hops.push(Self::Input { task }),
                Some(_) if !released => hops.push(Self::Sampling { task }),
                Some(_) => {}
            }
            hops.push(Self::Task { task, released });
        }
        hops
    }

    /// The task that it belongs to.
    #[must_use]
    pub fn task(self) -> usize {
        match self {
            Self::Input { task } | Self::Sampling { task } | Self::Task { task, .. } => task,
        }
    }
}
