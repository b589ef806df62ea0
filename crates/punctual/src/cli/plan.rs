//! From flags to the plan of a run: defaults of the verb, CPUs of this machine.

pub mod fit;
mod gaps;
pub mod ladder;
pub mod path;
mod prove;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_rt::periodic::Primes;
use punctual_stats::format::duration;
use punctual_stats::miss::most_per_hour;
use punctual_stats::requirement::Requirement;

use super::failure::Failure;
use super::flags::{
    IntervalKind, MeasureFlags, PolicyName, Probe, QualifyFlags, RequirementFlags, RunFlags,
};
use super::tuned;
use crate::conduct::{Claim, ConditionsPlan, LoadPlan, ProbePlan, RunPlan, TracingPlan};
use crate::probe::kinds::{KINDS, Kind};
pub use prove::{PROVE_NS, of_prove, of_prove_path};
use punctual_lab::job::JOB_FILE;
use punctual_load::{LEAST_CPU_NS, LoadSpec};
use punctual_machine::Root;
use punctual_machine::survey;
use punctual_machine::survey::cpus::{self, Choice, Place, Topology};
use punctual_record::{Interval, Placement};

/// The defaults of a verb.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// The verb.
    pub verb: &'static str,
    /// Length of a run in ns.
    pub duration_ns: Option<u64>,
    /// Kind of interval.
    pub interval: IntervalKind,
    /// Whether the standard load runs.
    pub loaded: bool,
    /// The deadline in ns.
    pub deadline_ns: Option<u64>,
    /// Whether the machine is checked first.
    pub checks: bool,
}

/// `qualify` without flags.
pub const QUALIFY: Defaults = Defaults {
    verb: "qualify",
    duration_ns: Some(60_000_000_000),
    interval: IntervalKind::Primes,
    loaded: true,
    deadline_ns: Some(100_000),
    checks: true,
};

/// `measure` without flags.
pub const MEASURE: Defaults = Defaults {
    verb: "measure",
    duration_ns: None,
    interval: IntervalKind::Fixed,
    loaded: false,
    deadline_ns: None,
    checks: false,
};

const INTERVAL_NS: u64 = 1_000_000;
const PRIORITY: u32 = 80;
const MISS: f64 = 1e-4;

/// Makes the plan of `qualify`.
///
/// # Errors
/// As [`make`].
pub fn of_qualify(flags: &QualifyFlags) -> Result<RunPlan, Failure> {
    refuse_idle_state(&flags.run)?;
    make(flags.source, &flags.run, QUALIFY)
}

/// Refuses the first flag that was given and has no meaning for a verb: whether it was given, the
/// flag, and why it has none.
fn refuse_senseless(verb: &str, flags: &[(bool, &str, &str)]) -> Result<(), Failure> {
    match flags.iter().find(|(given, _, _)| *given) {
        Some((_, flag, why)) => Err(Failure::usage(format!(
            "{flag} has no meaning for {verb}: {why}"
        ))),
        None => Ok(()),
    }
}

/// Refuses a confidence at which no number of blocks shows an effect, not even one of one knob and its control.
///
/// # Errors
/// Wrong usage.
pub fn refuse_surest(confidence: f64) -> Result<(), Failure> {
    match punctual_stats::experiment::least_seeds(2, confidence) {
        Some(_) => Ok(()),
        None => Err(Failure::usage(format!(
            "--confidence {confidence}: no number of blocks shows an effect that surely: expected 0.9996 at most"
        ))),
    }
}

/// Without `--tuned` a run has no journal.
fn refuse_idle_state(flags: &RunFlags) -> Result<(), Failure> {
    if flags.state.is_some() && flags.tuned.is_none() {
        return Err(Failure::usage(
            "--state needs --tuned: nothing else is changed",
        ));
    }
    Ok(())
}

/// Makes the plan of `measure`.
///
/// # Errors
/// As [`make`].
pub fn of_measure(flags: &MeasureFlags) -> Result<RunPlan, Failure> {
    refuse_idle_state(&flags.run)?;
    match (flags.probe, flags.gaps.first_given()) {
        // The verb has found these already.
        (Probe::Path(transport), _) => Err(Failure::usage(format!(
            "measure {}: expected HOST, the machine on which `punctual respond` runs",
            transport.name()
        ))),
        (Probe::Gaps(subject), _) => gaps::make_gaps(subject, &flags.run, &flags.gaps),
        (Probe::Wait(kind), None) => Ok(RunPlan {
            cross_check: flags.gaps.cross_check,
            ..make(kind, &flags.run, MEASURE)?
        }),
        (Probe::Wait(kind), Some(flag)) => Err(Failure::usage(format!(
            "{flag}: only measure {}hardware has it, not {}",
            if flag == "--method" {
                ""
            } else {
                "noise and measure "
            },
            kind.name
        ))),
    }
}

/// Makes the plan.
///
/// # Errors
/// Wrong usage: flags that contradict each other, CPUs that cannot be probed.
pub fn make(kind: Kind, flags: &RunFlags, defaults: Defaults) -> Result<RunPlan, Failure> {
    if flags.policy == PolicyName::Other && flags.priority.is_some() {
        return Err(Failure::usage(PolicyName::NO_PRIORITY));
    }
    if flags.seed.is_some()
        && flags.interval_kind().unwrap_or(defaults.interval) == IntervalKind::Fixed
    {
        return Err(Failure::usage(
            "--seed needs --interval primes: fixed intervals are not drawn",
        ));
    }
    if flags.interval.is_some() && flags.interval_word.is_some() && flags.interval_kind().is_none()
    {
        return Err(Failure::usage(
            "-i and --interval both set the interval: give one of them",
        ));
    }
    if flags.nanosleep && kind.name != KINDS[0].name {
        return Err(Failure::usage(format!(
            "-n is the source nanosleep, but {} was given: give one of them",
            kind.name
        )));
    }
    let root = Root::live();
    let place = Place::read(&root);
    let topology = survey::topology(&root);
    let choice = choose_cpus(flags, &topology, &place)?;
    let load_cpus = cpus::for_load(&topology, &place);
    let threads = flags.threads.flatten().unwrap_or(choice.probed.len());
    let duration_ns = match (flags.duration, flags.loops, flags.breach.break_value) {
        (Some(duration_ns), _, _) => Some(duration_ns),
        (None, None, None) => defaults.duration_ns,
        // Loops and the break value end a run by themselves.
        _ => None,
    };
    let interval = interval(flags, defaults);
    if duration_ns.is_some_and(|duration_ns| duration_ns <= interval.nominal_ns()) {
        return Err(Failure::usage(format!(
            "-D must be longer than the interval of {}: otherwise no wake-up is measured",
            duration(interval.nominal_ns())
        )));
    }
    let load = flags.load.clone().unwrap_or(if defaults.loaded {
        LoadSpec::Standard
    } else {
        LoadSpec::None
    });
    let is_guest = Path::new(JOB_FILE).exists();
    let probes = ProbePlan {
        kind,
        gaps: None,
        interval,
        cpus: choice
            .probed
            .iter()
            .copied()
            .cycle()
            .take(threads)
            .collect(),
        policy: flags.policy.at(flags.priority.unwrap_or(PRIORITY)),
        loops: flags.loops,
        break_ns: flags.breach.break_value,
    };
    let tune = tuned::plan(flags, &probes)?;
    Ok(RunPlan {
        verb: defaults.verb.to_owned(),
        command: command(),
        probes,
        placement: Placement {
            chosen: choice.chosen,
            inherited: place.inherited,
            reachable: place.reachable,
            partition: place.partition,
            housekeeping: choice.housekeeping,
            load: match load {
                LoadSpec::None => Vec::new(),
                _ => load_cpus.clone(),
            },
        },
        duration_ns,
        load: LoadPlan {
            spec: load,
            class: flags.load_class,
            cpus: load_cpus,
            least_cpu_ns: least_cpu_ns(flags)?,
        },
        claim: claim(&flags.required, defaults.deadline_ns)?,
        conditions: ConditionsPlan {
            as_deployed: flags.as_deployed,
            lock_memory: true,
            best_effort: flags.best_effort,
            // A guest of the laboratory has a place in a table: INVALID says more there than nothing.
            measure_unmet: flags.best_effort || is_guest,
        },
        tracing: TracingPlan {
            explain: !flags.no_explain,
            above_ns: flags.explain_above,
            stack_above_ns: flags.stack_above,
        },
        tune,
        // A guest of the laboratory is as the laboratory made it.
        check: defaults.checks && !is_guest,
        samples: flags.samples,
        cross_check: false,
        output: flags.output.clone(),
    })
}

/// The command line as it was given.
fn command() -> Vec<String> {
    let words = std::env::args_os();
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn choose_cpus(flags: &RunFlags, topology: &Topology, place: &Place) -> Result<Choice, Failure> {
    let Some(list) = flags.affinity.as_ref().and_then(Option::as_ref) else {
        return Ok(cpus::default_probed(topology, place));
    };
    cpus::parse(list)
        .and_then(|list| cpus::select(&list, topology, place))
        .map_err(|error| Failure::usage(format!("invalid value '{list}' for --affinity: {error}")))
}

/// The CPU time per second that a command must use as a load.
fn least_cpu_ns(flags: &RunFlags) -> Result<u64, Failure> {
    let Some(least_ns) = flags.load_work else {
        return Ok(LEAST_CPU_NS);
    };
    match flags.load {
        Some(LoadSpec::Command(_)) => Ok(least_ns),
        _ => Err(Failure::usage(
            "--load-work needs a command as --load: the loads of punctual count their own work",
        )),
    }
}

fn interval(flags: &RunFlags, defaults: Defaults) -> Interval {
    let interval_ns = flags.interval_ns().unwrap_or(INTERVAL_NS);
    match flags.interval_kind().unwrap_or(defaults.interval) {
        IntervalKind::Fixed => Interval::Fixed { interval_ns },
        IntervalKind::Primes => {
            let seed = flags.seed.unwrap_or_else(seed_from_clock);
            let table_ns = Primes::new(interval_ns, seed).table_ns().to_vec();
            Interval::Primes {
                interval_ns,
                seed,
                table_ns,
            }
        }
    }
}

/// A seed where none was given.
pub fn seed_from_clock() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Short enough to type.
    u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff_ffff)
}

/// The requirements. A probability of a miss without a deadline is for the default deadline;
/// `usual_ns` is the deadline if no flag sets a requirement.
///
/// # Errors
/// More episodes are allowed than a machine has that is always late.
pub fn claim(flags: &RequirementFlags, usual_ns: Option<u64>) -> Result<Claim, Failure> {
    let others = flags.max.is_some() || !flags.percentile.is_empty();
    let usual_ns = usual_ns.filter(|_| !others);
    let usual_ns = usual_ns.or(flags.miss.or(flags.episodes).and(QUALIFY.deadline_ns));
    let deadline = flags.deadline.or(usual_ns);
    if let Some((per_hour, limit_ns)) = flags.episodes.zip(deadline)
        && per_hour > most_per_hour(limit_ns)
    {
        return Err(Failure::usage(format!(
            "--episodes {per_hour}/h: with this deadline a machine that is always late may have no more than {}/h: \
             allow fewer, or use --miss",
            most_per_hour(limit_ns).floor()
        )));
    }
    let deadline = deadline.map(|deadline_ns| match flags.episodes {
        Some(per_hour) => Requirement::Episodes {
            deadline_ns,
            per_hour,
        },
        None => Requirement::MissProbability {
            deadline_ns,
            allowed: flags.miss.unwrap_or(MISS),
        },
    });
    let max = flags.max.map(|limit_ns| Requirement::Max { limit_ns });
    let percentiles = flags.percentile.iter().copied();
    Ok(Claim {
        requirements: deadline.into_iter().chain(max).chain(percentiles).collect(),
        confidence: flags.confidence,
    })
}
