//! The budget of a chain of tasks: what its hops took in an execution of the set, beside its limit.

use punctual_stats::histogram::DecodeError;

use super::judge::judged;
use super::known::{Known, Measured};
use super::{Budget, BudgetDemand};
use crate::Run;
use crate::taskset::{ChainHop, TaskRun};

/// Judges a chain of the set that a run executed: its hops and, as the whole path, its reactions;
/// `name` names a hop. `None` where the chain has no limit for its reaction, or was not split.
///
/// # Errors
/// [`DecodeError`]; a run that was read by [`crate::Document::read`] has no such fault.
pub fn of_chain(
    run: &Run,
    tasks: &TaskRun,
    chain: usize,
    name: impl Fn(ChainHop) -> String,
) -> Result<Option<Budget>, DecodeError> {
    let deadline_ns = tasks.set.chains.get(chain).and_then(|it| it.reaction_ns);
    let split = tasks.chains.get(chain).and_then(|it| it.split.as_ref());
    let (Some(deadline_ns), Some(split)) = (deadline_ns, split) else {
        return Ok(None);
    };
    if split.whole.times.latency.count == 0 {
        return Ok(None);
    }
    let hops = ChainHop::of(&tasks.set, chain);
    let mut known = Vec::with_capacity(hops.len());
    for (hop, it) in hops.into_iter().zip(&split.hops) {
        let measured = Measured::times(run, &it.times, &it.timeline)?;
        known.push(Known::measured(name(hop), measured));
    }
    // They are all of one run: it is said once why that is not valid.
    for hop in &mut known {
        hop.invalid.clear();
    }
    let whole = Measured::chain(run, &tasks.chains[chain], split)?;
    let demand = BudgetDemand {
        deadline_ns,
        allowed: tasks.allowed,
        confidence: run.request.confidence,
    };
    Ok(Some(judged(&demand, &known, Some(&whole))))
}
