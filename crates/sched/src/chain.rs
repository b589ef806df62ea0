//! Chains of tasks, from a sensor to an actuator: how old data gets.
//!
//! A task reads its input when a job begins, and writes its output when it ends; the newest value
//! wins. A hop is *triggered* where the end of the task before releases it
//! ([`after`](crate::Task::after)), and otherwise *sampled*: it reads what there is, at its own
//! period. Arrivals of the first task of each group of triggered hops must be periodic, not only
//! sporadic: `period_ns` is their exact distance. CPUs need no common phase.
//!
//! For groups with period `T` and worst response `R` of their last task (where only every `n`-th job
//! releases the next task's, the others lead nowhere: the longest period is the group's):
//!
//! - Reaction: from an event to the end of the first job of the last task that reflects it: the sum
//!   of `T + R` (Davare et al. 2007, "Period optimization for hard real-time distributed automotive
//!   systems").
//! - Age: from the arrival of the job that read the input to the end of the last job that uses it:
//!   the sum of `T + R`, without the last `T` (Dürr et al. 2019, "End-to-end timing analysis of
//!   sporadic cause-effect chains in distributed systems"). Where the writer is of higher rank than
//!   the reader on the same CPU and doesn't suspend itself, no job of it is pending when the reader
//!   begins: its `R` counts as its jitter alone.
//! - Age until replaced: until the last task writes the next value: one `T` more.

use crate::analysis::Analysis;
use crate::bound::Unbounded;
use crate::model::{Rank, TaskSet};

/// How long a chain takes, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// From an event at the input to the first output that reflects it.
    pub reaction_ns: u64,
    /// From the arrival of the job that read the input to the last output made of it.
    pub age_ns: u64,
    /// The same, to the moment at which the next output replaces it.
    pub age_until_replaced_ns: u64,
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// The chain has no tasks.
    Empty,
    /// There is no task with this index.
    Unknown(usize),
    /// This task has no bound.
    Unbounded(usize, Unbounded),
    /// This task is released by another one than that before it in the chain.
    ReleasedElsewhere(usize),
    /// The sum is longer than 2^64 ns.
    TooLong,
}

/// How long a chain may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLimit {
    /// Its tasks, in order.
    pub tasks: Vec<usize>,
    /// The most of [`Latency::reaction_ns`].
    pub reaction_ns: Option<u64>,
    /// The most of [`Latency::age_ns`].
    pub age_ns: Option<u64>,
}

impl ChainLimit {
    /// Whether its bound is known, and within both.
    #[must_use]
    pub fn is_met(&self, set: &TaskSet, analysis: &Analysis) -> bool {
        let within = |ns: u64, limit: Option<u64>| limit.is_none_or(|limit| ns <= limit);
        latency(set, analysis, &self.tasks).is_ok_and(|bound| {
            within(bound.reaction_ns, self.reaction_ns) && within(bound.age_ns, self.age_ns)
        })
    }
}

/// Bounds a chain of tasks, given by their indices in the set, in order. The first one samples the
/// input.
///
/// # Errors
/// Why the chain has no bound.
pub fn latency(set: &TaskSet, analysis: &Analysis, chain: &[usize]) -> Result<Latency, Broken> {
    let (mut reaction, mut age) = (0u64, 0u64);
    let last = *chain.last().ok_or(Broken::Empty)?;
    let mut previous = None;
    for (at, &index) in chain.iter().enumerate() {
        let task = set.tasks.get(index).ok_or(Broken::Unknown(index))?;
        let outcome = analysis.tasks.get(index).ok_or(Broken::Unknown(index))?;
        let bound = outcome
            .as_ref()
            .map_err(|why| Broken::Unbounded(index, *why))?;
        if task.after.is_some() && (at == 0 || task.after != previous) {
            return Err(Broken::ReleasedElsewhere(index));
        }
        previous = Some(index);
        let next = chain.get(at + 1);
        if next.is_some_and(|next| set.tasks.get(*next).is_some_and(|t| t.after == Some(index))) {
            // Its response is part of the next one's, which counts from the same arrival.
            continue;
        }
        let add = |a: u64, b: u64| a.checked_add(b).ok_or(Broken::TooLong);
        let response = bound.response_ns;
        reaction = add(reaction, add(task.period_ns, response)?)?;
        let of_age = match next.and_then(|next| set.tasks.get(*next)) {
            None => response,
            Some(reader) => {
                let fixed = matches!(task.rank(), Rank::Fixed(_));
                let above = fixed && task.cpu == reader.cpu && task.rank() > reader.rank();
                let waits = task.suspension.count > 0;
                let late = if above && !waits {
                    bound.jitter_ns
                } else {
                    response
                };
                add(task.period_ns, late)?
            }
        };
        age = add(age, of_age)?;
    }
    let until = age
        .checked_add(set.tasks[last].period_ns)
        .ok_or(Broken::TooLong)?;
    Ok(Latency {
        reaction_ns: reaction,
        age_ns: age,
        age_until_replaced_ns: until,
    })
}
