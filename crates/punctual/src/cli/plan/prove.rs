//! The plan of the run in which `prove` switches knobs.

use punctual_stats::format::duration;

use super::super::failure::Failure;
use super::super::flags::{IntervalKind, ProveFlags};
use super::{Defaults, make, refuse_senseless};
use crate::conduct::{self, Claim, RunPlan};
use crate::probe::kinds::KINDS;

/// Length of an experiment without -D, in ns.
pub const PROVE_NS: u64 = 1_200_000_000_000;
/// The shortest block: shorter ones hold too few wake-ups to speak of a tail.
const LEAST_BLOCK_NS: u64 = 1_000_000_000;

/// Where fewer blocks follow the pilot, no test has room.
const SLOTS_AFTER_PILOT: u64 = 4;

const PROVE: Defaults = Defaults {
    verb: "prove",
    duration_ns: Some(PROVE_NS),
    interval: IntervalKind::Primes,
    loaded: true,
    deadline_ns: None,
    checks: false,
};

/// Makes the plan of `prove`.
///
/// # Errors
/// Wrong usage: flags that have no meaning for an experiment, lengths that don't fit.
pub fn of_prove(flags: &ProveFlags) -> Result<RunPlan, Failure> {
    let run = &flags.run;
    let judged = "an experiment judges knobs, not the machine: qualify does that";
    let senseless = [
        (run.loops.is_some(), "-l", "use -D"),
        (
            run.breach.break_value.is_some(),
            "-b",
            "it would end the experiment at its first late wake-up",
        ),
        (run.tuned.is_some(), "--tuned", "name the knobs"),
        (run.live, "--live", "its lines don't say which knob is on"),
        (run.required.miss.is_some(), "--miss", judged),
        (run.required.max.is_some(), "--max", judged),
        (!run.required.percentile.is_empty(), "--percentile", judged),
    ];
    refuse_senseless("prove", &senseless)?;
    if flags.block < LEAST_BLOCK_NS {
        return Err(Failure::usage(
            "--block must be 1 s or longer: a shorter block holds too few wake-ups for its tail",
        ));
    }
    let budget_ns = run.duration.unwrap_or(PROVE_NS);
    let slot_ns = flags.block.saturating_add(flags.settle);
    let least_slots = conduct::pilot_slots(flags.pilot, slot_ns).saturating_add(SLOTS_AFTER_PILOT);
    if slot_ns.saturating_mul(least_slots) > budget_ns {
        return Err(Failure::usage(format!(
            "-D must be longer than --pilot, of at least six blocks, and {SLOTS_AFTER_PILOT} blocks more: \
             {} or more",
            duration(slot_ns.saturating_mul(least_slots)),
        )));
    }
    let mut plan = make(KINDS[0], run, PROVE)?;
    // The experiment ends by itself; this is a little later.
    plan.duration_ns = Some(budget_ns.saturating_add(slot_ns));
    plan.claim = Claim {
        requirements: Vec::new(),
        confidence: run.required.confidence,
    };
    plan.tracing.above_ns = plan.tracing.above_ns.or(run.required.deadline);
    Ok(plan)
}
