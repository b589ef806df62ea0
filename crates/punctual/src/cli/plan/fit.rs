//! The plan of `fit`.

use punctual_record::experiment::Experiment;
use punctual_stats::requirement::Requirement;

use super::super::failure::Failure;
use super::super::flags::FitFlags;
use super::{Defaults, QUALIFY, make, refuse_senseless, refuse_surest, seed_from_clock};
use crate::conduct::fit::FitPlan;
use crate::probe::kinds::KINDS;

/// Length of a pilot, in ns.
const PILOT_NS: u64 = 120_000_000_000;
/// A block and its time to settle, in ns.
const BLOCK_NS: u64 = 5_000_000_000;
const SETTLE_NS: u64 = 500_000_000;

const FIT: Defaults = Defaults {
    // Every step is a qualification or an experiment.
    verb: "qualify",
    ..QUALIFY
};

/// Makes the plan of `fit`.
///
/// # Errors
/// Wrong usage: flags that have no meaning for a fit.
pub fn of_fit(flags: &FitFlags) -> Result<FitPlan, Failure> {
    let run = &flags.run;
    let traced = "without bills nothing says what to change";
    let judged = "a fit needs a deadline: --deadline and --miss";
    let senseless = [
        (
            run.loops.is_some(),
            "-l",
            "-D sets the length of each qualification",
        ),
        (
            run.breach.break_value.is_some(),
            "-b",
            "it would end a step at its first late wake-up",
        ),
        (run.tuned.is_some(), "--tuned", "fit chooses the knobs"),
        (run.live, "--live", "a fit takes many runs"),
        (run.no_explain, "--no-explain", traced),
        (
            run.required.episodes.is_some(),
            "--episodes",
            "a fit reduces the share of misses: --miss",
        ),
        (run.required.max.is_some(), "--max", judged),
        (!run.required.percentile.is_empty(), "--percentile", judged),
        (run.samples, "--samples", "a fit takes many runs"),
    ];
    refuse_senseless("fit", &senseless)?;
    let mut qualify = make(KINDS[0], run, FIT)?;
    // What is proven must hold when punctual does not run.
    qualify.conditions.as_deployed = true;
    let deadline_ns = qualify
        .claim
        .requirements
        .iter()
        .find_map(|requirement| match requirement {
            Requirement::MissProbability { deadline_ns, .. } => Some(*deadline_ns),
            _ => None,
        })
        .ok_or_else(|| Failure::usage("fit needs --deadline"))?;
    let qualify_ns = qualify.duration_ns.unwrap_or(0);
    refuse_surest(run.required.confidence)?;
    let seed = run.seed.unwrap_or_else(seed_from_clock);
    let experiment = Experiment::planned(seed, BLOCK_NS, SETTLE_NS, run.required.confidence);
    let plan = FitPlan {
        qualify,
        qualify_ns,
        deadline_ns,
        experiment,
        pilot_ns: PILOT_NS,
        budget_ns: flags.budget,
        keeps: !flags.no_keep,
        state: run.state().to_owned(),
    };
    let least_ns = plan.lengths().least_budget_ns();
    if plan.budget_ns < least_ns {
        return Err(Failure::usage(format!(
            "--budget must be {}m or longer: a qualification (-D), an experiment with one knob, and \
             two qualifications after it",
            least_ns.div_ceil(60_000_000_000)
        )));
    }
    Ok(plan)
}
