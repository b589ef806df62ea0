//! The plan of the run in which `prove` switches knobs.

use punctual_stats::format::duration;

use super::super::failure::Failure;
use super::super::flags::{IntervalKind, ProveFlags, RunFlags};
use super::{Defaults, make, path, refuse_senseless};
use crate::conduct::path::PathPlan;
use crate::conduct::{self, Claim, RunPlan};
use crate::probe::kinds::KINDS;
use punctual_record::path::Transport;
use punctual_stats::experiment::Measure;

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

/// The shortest block of messages: it must hold some of the late ones.
const LEAST_PATH_BLOCK_NS: u64 = 100_000_000;

/// Makes the plan of `prove`.
///
/// # Errors
/// Wrong usage: flags that have no meaning for an experiment, lengths that don't fit.
pub fn of_prove(flags: &ProveFlags) -> Result<RunPlan, Failure> {
    if let Some(flag) = flags.path_flags.first_given() {
        return Err(Failure::usage(format!("{flag} needs --path")));
    }
    refuse_measure(flags, &Measure::ALL, "")?;
    let run = &flags.run;
    let length_ns = length(flags, LEAST_BLOCK_NS)?;
    let mut plan = make(KINDS[0], run, PROVE)?;
    plan.duration_ns = Some(length_ns);
    plan.claim = no_claim(run);
    plan.tracing.above_ns = plan.tracing.above_ns.or(run.required.deadline);
    Ok(plan)
}

/// Makes the plan of `prove --path`.
///
/// # Errors
/// As [`of_prove`], and as those of other measurements of a path.
pub fn of_prove_path(host: &str, flags: &ProveFlags) -> Result<PathPlan, Failure> {
    refuse_measure(flags, &Measure::PATH, " with --path")?;
    let run = &flags.run;
    let length_ns = length(flags, LEAST_PATH_BLOCK_NS)?;
    let transport = flags.over.map_or(Transport::Tcp, Transport::from);
    let mut plan = path::plan(
        "prove --path",
        transport,
        host,
        &flags.path_flags,
        run,
        PROVE,
    )?;
    plan.duration_ns = Some(length_ns);
    plan.claim = no_claim(run);
    Ok(plan)
}

/// An experiment judges knobs alone.
fn no_claim(run: &RunFlags) -> Claim {
    Claim {
        requirements: Vec::new(),
        confidence: run.required.confidence,
    }
}

fn refuse_measure(flags: &ProveFlags, known: &[Measure], of: &str) -> Result<(), Failure> {
    if flags.effect.is_none() || known.contains(&flags.on) {
        return Ok(());
    }
    let names: Vec<&str> = known.iter().map(|it| it.name()).collect();
    Err(Failure::usage(format!(
        "--on {}: not measured{of}: expected {}",
        flags.on.name(),
        names.join(", ")
    )))
}

/// The length of the measurement, which is a little longer than the experiment.
fn length(flags: &ProveFlags, least_block_ns: u64) -> Result<u64, Failure> {
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
        (run.required.episodes.is_some(), "--episodes", judged),
        (run.required.max.is_some(), "--max", judged),
        (!run.required.percentile.is_empty(), "--percentile", judged),
    ];
    refuse_senseless("prove", &senseless)?;
    if flags.block < least_block_ns {
        return Err(Failure::usage(format!(
            "--block must be {} or longer: a shorter block holds too few {} for its tail",
            duration(least_block_ns),
            match flags.path {
                Some(_) => "messages",
                None => "wake-ups",
            }
        )));
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
    // The experiment ends by itself; this is a little later.
    Ok(budget_ns.saturating_add(slot_ns))
}
