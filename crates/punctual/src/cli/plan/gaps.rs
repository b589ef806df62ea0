//! The plan of a run that looks for gaps.

use punctual_rt::sched::Policy;
use punctual_stats::format::duration;
use punctual_stats::requirement::Requirement;

use super::super::failure::Failure;
use super::super::flags::{GapFlags, RunFlags};
use super::{MEASURE, make};
use crate::conduct::RunPlan;
use crate::probe::gaps::step_ns;
use crate::probe::kinds::KINDS;
use punctual_record::{Gaps, Interval, Method, Subject};
use punctual_trace::tracers;

/// The shortest gap that is looked for by itself: what is shorter is the loop's own.
const LEAST_GAP_NS: u64 = 1_000;
/// The kernel's osnoise tracer is told in these what a gap is.
const OSNOISE_UNIT_NS: u64 = 1_000;
/// Steps of the loop that make a gap.
const STEPS: u64 = 20;
/// What hwlatdetect calls a latency.
const HARDWARE_GAP_NS: u64 = 10_000;
/// Short, so that nobody waits long for a CPU that is polled at a real-time priority, and
/// what the kernel keeps for others (50 ms in a second) is never taken.
const PERIOD_NS: u64 = 100_000_000;

/// What counts as a gap to us and to osnoise alike.
///
/// # Errors
/// It was asked for, and osnoise can't be told it.
fn comparable(above_ns: u64, asked: bool) -> Result<u64, Failure> {
    let whole_ns = above_ns.next_multiple_of(OSNOISE_UNIT_NS);
    if asked && whole_ns != above_ns {
        return Err(Failure::usage(format!(
            "--gap {} can't be compared: the kernel's osnoise takes whole microseconds; give \
             --gap {}",
            duration(above_ns),
            duration(whole_ns)
        )));
    }
    Ok(whole_ns)
}

/// Makes the plan.
///
/// # Errors
/// Wrong usage: what has no meaning for gaps.
pub fn make_gaps(subject: Subject, flags: &RunFlags, gaps: &GapFlags) -> Result<RunPlan, Failure> {
    let name = subject.name();
    let senseless = [
        (flags.interval.is_some(), "-i", "--period says how often"),
        (
            flags.interval_word.is_some(),
            "--interval",
            "--period says how often",
        ),
        (flags.loops.is_some(), "-l", "-D says how long"),
        (
            flags.required.miss.is_some(),
            "--miss",
            "the number of gaps depends on --gap, so no share of them is a probability; --max \
             is a limit for all",
        ),
        (
            !flags.required.percentile.is_empty(),
            "--percentile",
            "the number of gaps depends on --gap; --max is a limit for all",
        ),
        (
            subject == Subject::Hardware && flags.breach.break_value.is_some(),
            "-b",
            "what is the hardware's is known a while after a gap; --max judges them at the end",
        ),
    ];
    if let Some((_, flag, why)) = senseless.into_iter().find(|(given, _, _)| *given) {
        return Err(Failure::usage(format!(
            "{flag} has no meaning for measure {name}: {why}"
        )));
    }
    let mut plan = make(KINDS[0], flags, MEASURE)?;
    let mut cpus = plan.probes.cpus.clone();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < plan.probes.cpus.len() {
        return Err(Failure::usage(format!(
            "-t {}: two threads that poll one CPU find each other; measure {name} takes one for \
             each CPU",
            plan.probes.cpus.len()
        )));
    }
    let method = method(subject, gaps)?;
    let hwlat = method == Method::Hwlat;
    if subject == Subject::Hardware && gaps.cross_check {
        return Err(Failure::usage(
            "--cross-check goes with wake-ups and noise: the kernel's hwlat tracer is what \
             measure hardware uses where there is one",
        ));
    }
    let period_ns = gaps
        .period
        .unwrap_or_else(|| PERIOD_NS.max(gaps.runtime.unwrap_or(0)));
    let share_ns = match plan.probes.policy {
        // The kernel's tracer has interrupts off meanwhile.
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
            "--gap {} is no longer than the loop's own step of {step_ns} ns: every reading of \
             the clock would be a gap",
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
            "the limit of {} lies below what counts as a gap, {}: give a lower --gap",
            duration(limit.limit_ns()),
            duration(above_ns)
        )));
    }
    plan.cross_check = gaps.cross_check;
    // All of them are to be explained.
    plan.tracing.above_ns = plan.tracing.above_ns.or(Some(above_ns));
    if hwlat {
        // Our threads but read what the tracer says, and there are no events to explain by.
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
        // With interrupts off the kernel does nothing of its own.
        sifted: hwlat,
        threads: Vec::new(),
    });
    Ok(plan)
}

/// How gaps are found: by the kernel's tracer where the hardware's are asked for and it has one.
fn method(subject: Subject, gaps: &GapFlags) -> Result<Method, Failure> {
    let wanted = gaps.method.map(Method::from);
    match (subject, wanted) {
        (Subject::Noise, None) | (Subject::Hardware, Some(Method::Polling)) => Ok(Method::Polling),
        (Subject::Noise, Some(_)) => Err(Failure::usage(
            "--method goes with measure hardware: measure noise always polls",
        )),
        (Subject::Hardware, _) => match tracers::offers("hwlat") {
            Ok(_) => Ok(Method::Hwlat),
            Err(_) if wanted.is_none() => Ok(Method::Polling),
            Err(missing) => Err(Failure::setup(format!(
                "--method hwlat: {missing}, or use --method polling"
            ))),
        },
    }
}
