//! How much longer jobs may take until a deadline is no longer guaranteed.
//!
//! The analysis is sustainable: what meets its deadlines meets them too where a job takes less
//! (Baruah, Burns 2006). So bisection finds the limit.

use crate::analysis::meets;
use crate::chain::ChainLimit;
use crate::model::{Fault, MAX_NS, Policy, TaskSet};

/// One whole, in parts per million.
pub const WHOLE_PPM: u64 = 1_000_000;

/// The largest factor that is looked for.
pub const MOST_PPM: u64 = 1_000 * WHOLE_PPM;

/// The largest common factor of all execution times with which all deadlines are met, and the limits of
/// these chains: below [`WHOLE_PPM`] where the set as it is doesn't meet them, 0 where no factor helps,
/// [`MOST_PPM`] where any does. Lock sections and reservations are scaled along, rounded up; what
/// the kernel takes isn't.
///
/// # Errors
/// What is wrong with the set.
pub fn largest_factor_ppm(set: &TaskSet, chains: &[ChainLimit]) -> Result<u64, Vec<Fault>> {
    let faults = set.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(largest(MOST_PPM, |factor| {
        meets(&scaled(set, factor), chains)
    }))
}

/// How much longer jobs of one task may take while all tasks meet their deadlines, and these chains
/// their limits; none where they don't meet them as it is, or there is no such task. A reservation grows with its task. It isn't
/// looked for beyond the longer of period and deadline.
///
/// # Errors
/// What is wrong with the set.
pub fn slack_ns(
    set: &TaskSet,
    task: usize,
    chains: &[ChainLimit],
) -> Result<Option<u64>, Vec<Fault>> {
    let faults = set.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    if !meets(set, chains) {
        return Ok(None);
    }
    let Some(it) = set.tasks.get(task) else {
        return Ok(None);
    };
    Ok(Some(largest(it.period_ns.max(it.deadline_ns), |more| {
        let mut longer = set.clone();
        let it = &mut longer.tasks[task];
        it.execution_ns = it.execution_ns.saturating_add(more);
        if let Policy::Deadline { runtime_ns, .. } = &mut it.policy {
            *runtime_ns = runtime_ns.saturating_add(more);
        }
        meets(&longer, chains)
    })))
}

/// The largest number up to `most` for which this holds, as it holds for all below one that it holds
/// for; 0 where it holds for none.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(most) {
        return most;
    }
    let (mut yes, mut no) = (0, most);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// The set with all execution times times a factor, at least 1 ns.
fn scaled(set: &TaskSet, factor_ppm: u64) -> TaskSet {
    let scale = |ns: &mut u64| {
        let longer = u128::from(*ns) * u128::from(factor_ppm);
        let longer = longer.div_ceil(u128::from(WHOLE_PPM)).max(1);
        *ns = u64::try_from(longer).unwrap_or(u64::MAX).min(MAX_NS + 1);
    };
    let mut set = set.clone();
    for task in &mut set.tasks {
        let plain: u64 =
            task.execution_ns - task.sections.iter().map(|one| one.length_ns).sum::<u64>();
        let mut rest = plain;
        scale(&mut rest);
        // Sections and the rest are rounded up each: together they aren't more than the whole.
        task.execution_ns = if plain > 0 { rest } else { 0 };
        for section in &mut task.sections {
            scale(&mut section.length_ns);
            task.execution_ns = task.execution_ns.saturating_add(section.length_ns);
        }
        if let Policy::Deadline { runtime_ns, .. } = &mut task.policy {
            scale(runtime_ns);
            // Rounding each section up may have gone beyond it by as many ns.
            *runtime_ns = runtime_ns.saturating_add(task.sections.len() as u64);
        }
    }
    set
}
