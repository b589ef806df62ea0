//! The plan of a run that measures gaps.

use punctual_rt::sched::Policy;
use punctual_stats::format::duration;
use punctual_stats::requirement::Requirement;

use super::super::failure::Failure;
use super::super::flags::{GapFlags, RunFlags};
use super::{MEASURE, make, refuse_senseless};
use crate::conduct::RunPlan;
use crate::probe::gaps::step_ns;
use crate::probe::kinds::KINDS;
use punctual_record::{Gaps, Interval, Method, Subject};
use punctual_trace::tracers;

/// The shortest default threshold of a gap: a shorter delay is the loop's own.
const LEAST_GAP_NS: u64 = 1_000;
/// The unit of osnoise's threshold.
const OSNOISE_UNIT_NS: u64 = 1_000;
/// The default threshold in steps of the loop.
const STEPS: u64 = 20;
/// The default threshold of hwlatdetect.
const HARDWARE_GAP_NS: u64 = 10_000;
/// Short, so that no task waits long for a CPU that is polled at a real-time priority, and that
/// the polling stays below the kernel's limit (950 ms per second).
const PERIOD_NS: u64 = 100_000_000;

/// A threshold that osnoise can use as well.
///
/// # Errors
/// The requested threshold is not possible for osnoise.
fn comparable(above_ns: u64, asked: bool) -> Result<u64, Failure> {
    let whole_ns = above_ns.next_multiple_of(OSNOISE_UNIT_NS);
    if asked && whole_ns != above_ns {
        return Err(Failure::usage(format!(
            "--gap {} is not possible with --cross-check: the kernel's osnoise tracer needs whole \
             microseconds; give --gap {}",
            duration(above_ns),
            duration(whole_ns)
        )));
    }
    Ok(whole_ns)
}

/// Makes the plan.
///
/// # Errors
/// Wrong usage: a flag that has no meaning for gaps.
pub fn make_gaps(subject: Subject, flags: &RunFlags, gaps: &GapFlags) -> Result<RunPlan, Failure> {
    let name = subject.name();
    let senseless = [
        (flags.interval.is_some(), "-i", "use --period"),
        (flags.interval_word.is_some(), "--interval", "use --period"),
        (flags.loops.is_some(), "-l", "use -D"),
        (
            flags.required.miss.is_some(),
            "--miss",
            "the number of gaps depends on --gap, so a share of gaps is not a probability; use --max, \
             a limit for all gaps",
        ),
        (
            flags.required.episodes.is_some(),
            "--episodes",
            "use --max, a limit for all gaps",
        ),
        (
            !flags.required.percentile.is_empty(),
            "--percentile",
            "the number of gaps depends on --gap; use --max, a limit for all gaps",
        ),
        (
            subject == Subject::Hardware && flags.breach.break_value.is_some(),
            "-b",
            "whether a gap is the hardware's is only known later; use --max, which judges all gaps at the end",
        ),
    ];
    refuse_senseless(&format!("measure {name}"), &senseless)?;
    let mut plan = make(KINDS[0], flags, MEASURE)?;
    let mut cpus = plan.probes.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < plan.probes.cpus.len() {
        return Err(Failure::usage(format!(
            "-t {}: two threads that poll one CPU would measure each other; measure {name} uses one \
             for each CPU: leave it out",
            plan.probes.cpus.len()
        )));
    }
    let method = method(subject, gaps)?;
    let hwlat = method == Method::Hwlat;
    if subject == Subject::Hardware && gaps.cross_check {
        return Err(Failure::usage(
            "--cross-check is for wake-ups and noise: measure hardware itself uses the kernel's hwlat \
             tracer if there is one",
        ));
    }
    let period_ns = gaps
        .period
        .unwrap_or_else(|| PERIOD_NS.max(gaps.runtime.unwrap_or(0)));
    let share_ns = match plan.probes.policy {
        // The kernel's tracer disables interrupts meanwhile.
        _ if hwlat => period_ns / 2,
        Policy::Other => period_ns,
        _ => period_ns / 10 * 9,
    };
    let runtime_ns = gaps.runtime.unwrap_or(share_ns);
    if runtime_ns > period_ns {
        return Err(Failure::usage(format!(
            "--runtime {} is longer than the period of {}",
            duration(runtime_ns),
            duration(period_ns)
        )));
    }
    let step_ns = step_ns();
    let above_ns = gaps.gap.unwrap_or(match subject {
        Subject::Noise => (STEPS * step_ns).next_multiple_of(100).max(LEAST_GAP_NS),
        Subject::Hardware => HARDWARE_GAP_NS,
    });
    let above_ns = if gaps.cross_check {
        comparable(above_ns, gaps.gap.is_some())?
    } else {
        above_ns
    };
    if !hwlat && above_ns <= 2 * step_ns {
        return Err(Failure::usage(format!(
            "--gap {} is not longer than the loop's own step of {step_ns} ns: every reading of \
             the clock would be a gap; give more",
            duration(above_ns)
        )));
    }
    // The deadline is a limit for all gaps.
    for requirement in &mut plan.claim.requirements {
        if let Requirement::MissProbability { allowed, .. } = requirement {
            *allowed = 0.0;
        }
    }
    if let Some(limit) = plan
        .claim
        .requirements
        .iter()
        .find(|r| r.limit_ns() < above_ns)
    {
        return Err(Failure::usage(format!(
            "the limit of {} is below the threshold of a gap, {}: give a lower --gap",
            duration(limit.limit_ns()),
            duration(above_ns)
        )));
    }
    plan.cross_check = gaps.cross_check;
    // All gaps are explained.
    plan.tracing.above_ns = plan.tracing.above_ns.or(Some(above_ns));
    if hwlat {
        // The threads only read the tracer's output, and there are no events to explain with.
        plan.probes.policy = Policy::Other;
        plan.tracing.explain = false;
    }
    plan.probes.interval = Interval::Fixed {
        interval_ns: period_ns,
    };
    plan.probes.gaps = Some(Gaps {
        subject,
        method,
        above_ns,
        step_ns: if hwlat { 0 } else { step_ns },
        runtime_ns,
        period_ns,
        // With interrupts disabled, the kernel itself does nothing.
        sifted: hwlat,
        threads: Vec::new(),
    });
    Ok(plan)
}

/// How gaps are found: the hardware's by the kernel's hwlat tracer, if there is one.
fn method(subject: Subject, gaps: &GapFlags) -> Result<Method, Failure> {
    let wanted = gaps.method.map(Method::from);
    match (subject, wanted) {
        (Subject::Noise, None) | (Subject::Hardware, Some(Method::Polling)) => Ok(Method::Polling),
        (Subject::Noise, Some(_)) => Err(Failure::usage(
            "--method: only measure hardware has it, measure noise always polls",
        )),
        (Subject::Hardware, _) => match tracers::tracefs_offering("hwlat") {
            Ok(_) => Ok(Method::Hwlat),
            Err(_) if wanted.is_none() => Ok(Method::Polling),
            Err(missing) => Err(Failure::setup(format!(
                "--method hwlat: {missing}, or use --method polling"
            ))),
        },
    }
}
