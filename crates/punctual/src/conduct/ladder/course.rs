//! The course of a ladder: which thread runs in which block, and how the blocks follow each other.

use punctual_record::ladder::{Ladder, LadderDesign, Rung};
use punctual_stats::experiment::{LEAST_PAIRS, round_order};

use super::LadderError;
use super::block::RungSetup;
use crate::probe::rung::RungLoop;

/// The order of all blocks: round, rung, and whether it is the second of the control.
pub type Order = Vec<(u64, Rung, bool)>;

/// The set-up of a thread on a rung.
pub fn setup_of(ladder: &Ladder, rung: Rung) -> RungSetup {
    let design = &ladder.design;
    let priority = ladder.takes(rung, Rung::Priority);
    RungSetup {
        priority: priority.then_some(design.priority),
        is_locked: ladder.takes(rung, Rung::LockedMemory),
        cpus: match ladder.takes(rung, Rung::Affinity) {
            true => vec![design.cpu],
            false => design.cpus.clone(),
        },
    }
}

/// What a thread on a rung does.
pub fn loop_of(ladder: &Ladder, rung: Rung) -> RungLoop {
    let is_absolute = ladder.takes(rung, Rung::AbsoluteSleep);
    cycles_of(&ladder.design, is_absolute)
}

/// The same, without a ladder.
pub fn cycles_of(design: &LadderDesign, is_absolute: bool) -> RungLoop {
    RungLoop {
        is_absolute,
        interval_ns: design.interval_ns,
        work_bytes: usize::try_from(design.work_bytes).unwrap_or(usize::MAX),
        settle_ns: design.settle_ns,
        block_ns: design.block_ns,
        loops: design.loops.unwrap_or(u64::MAX),
    }
}

/// Chooses the control and the number of rounds that the time has room for, and draws the order
/// of all blocks.
///
/// # Errors
/// [`LadderError::TooShort`]
pub fn ordered(
    ladder: &mut Ladder,
    only: Option<Rung>,
    within_ns: u64,
) -> Result<Order, LadderError> {
    let measured = ladder.measured();
    if let Some(only) = only {
        ladder.design.rounds = 1;
        return Ok(vec![(0, only, false)]);
    }
    // The highest rung is the quietest: its control shows the smallest effect.
    ladder.control = measured.last().copied();
    let mut conditions: Vec<(Rung, bool)> = measured.iter().map(|rung| (*rung, false)).collect();
    conditions.extend(ladder.control.map(|rung| (rung, true)));
    let design = &ladder.design;
    let slot_ns = design.settle_ns.saturating_add(design.block_ns).max(1);
    let round_ns = slot_ns.saturating_mul(conditions.len() as u64);
    let rounds = within_ns / round_ns;
    if rounds < LEAST_PAIRS as u64 {
        return Err(LadderError::TooShort {
            conditions: conditions.len(),
            needed_ns: round_ns.saturating_mul(LEAST_PAIRS as u64),
        });
    }
    let drawn = round_order(
        conditions.len(),
        usize::try_from(rounds).unwrap_or(usize::MAX),
        design.seed,
    );
    ladder.design.rounds = rounds;
    let rounds = drawn.into_iter().zip(0..);
    let order = rounds.flat_map(|(round, at)| {
        let conditions = &conditions;
        round.into_iter().map(move |it| {
            let (rung, is_second) = conditions[it];
            (at, rung, is_second)
        })
    });
    Ok(order.collect())
}

#[cfg(test)]
#[path = "course_tests.rs"]
mod tests;
