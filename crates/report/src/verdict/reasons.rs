//! Why a run is not valid, in words.

use punctual_record::{IDLE_SHARE, InvalidReason, LoadFault, MarkFault, Stops, WorkCheck};
use punctual_stats::verdict::InvalidEvidence;

use crate::{facts, words};

/// One reason.
#[must_use]
pub fn reason(reason: &InvalidReason) -> String {
    match reason {
        InvalidReason::Demand(demand) => format!(
            "{}: requested {}, found {}",
            demand.name(),
            facts::requested(demand),
            facts::found(demand)
        ),
        InvalidReason::NeverWoke { thread } => format!("the thread {thread} never woke up"),
        InvalidReason::ProgramsNotFollowed => {
            "programs were not followed, and nothing of them was measured".to_owned()
        }
        InvalidReason::ThreadsNotFollowed {
            beyond,
            at_least,
            room,
        } => {
            let (threads, them) = match (beyond, at_least) {
                (1, false) => ("1 thread was".to_owned(), "it"),
                (_, false) => (format!("{beyond} threads were"), "them"),
                (_, true) => (format!("more than {beyond} threads were"), "them"),
            };
            format!(
                "{threads} not followed, and nothing of {them} was measured: there was room for \
                 {room}"
            )
        }
        InvalidReason::Mark { name, fault } => mark(name, fault),
        InvalidReason::Event(event) => facts::event(event, "the tool"),
        InvalidReason::Load { name, fault } => format!("the load {name} {}", load(fault)),
        InvalidReason::ProbeFailed { cpu, fault } => facts::failed_thread(*cpu, fault),
        InvalidReason::TaskFailed { task, fault } => crate::exec::failed(task, fault),
        InvalidReason::OutputsLost { chain, lost } => format!(
            "{} of the chain {} were lost on their way to the record: the machine was too busy to \
             take them",
            words::plural(*lost, "output", "outputs"),
            words::clean(chain)
        ),
        InvalidReason::Stopped {
            watched,
            total_ns,
            run_ns,
        } => {
            let who = if *watched {
                "threads of the watched program were"
            } else {
                "the measuring process was"
            };
            format!(
                "{who} stopped for {:.2} s, {:.1} % of the run, where {:.0} % are allowed",
                *total_ns as f64 / 1e9,
                *total_ns as f64 / (*run_ns).max(1) as f64 * 100.0,
                Stops::MOST_SHARE * 100.0
            )
        }
        InvalidReason::CyclesStopped { cycles, of } => format!(
            "{} of {} cycles lay within stops, or just after them, where {:.0} % are allowed",
            words::count(*cycles),
            words::count(*of),
            Stops::MOST_SHARE * 100.0
        ),
        InvalidReason::Evidence { fault } => evidence(*fault),
        InvalidReason::Unfinished => {
            "it was cut off, and its last checks are missing: leave its record out".to_owned()
        }
        InvalidReason::OfRun { run, reason } => format!("run {run}: {}", self::reason(reason)),
    }
}

fn evidence(fault: InvalidEvidence) -> String {
    match fault {
        InvalidEvidence::NoWakeUp => "no wake-up was measured".to_owned(),
        InvalidEvidence::NeverWoke { cpu: Some(cpu) } => {
            format!("the thread on CPU {cpu} never woke up")
        }
        InvalidEvidence::NeverWoke { cpu: None } => "a thread never woke up".to_owned(),
        InvalidEvidence::NothingWatched => "nothing was watched".to_owned(),
        InvalidEvidence::Lost { samples: 1 } => "1 sample was lost".to_owned(),
        InvalidEvidence::Lost { samples } => {
            format!("{} samples were lost", words::count(samples))
        }
    }
}

fn mark(name: &str, fault: &MarkFault) -> String {
    match fault {
        MarkFault::NotSeen { why } => {
            format!(
                "{name} has a limit and was not seen: {}",
                facts::unavailable(why)
            )
        }
        MarkFault::LengthsLost { passes } => format!(
            "the lengths of {} passes of {name} were lost",
            words::count(*passes)
        ),
        MarkFault::Unfinished { passes } => format!(
            "{} passes of {name} were not measured to their end, which may have taken longer than \
             its limit",
            words::count(*passes)
        ),
        MarkFault::NoRoom { passes } => format!(
            "{} passes of {name} were by threads that were not recorded for lack of space",
            words::count(*passes)
        ),
        MarkFault::NeverPassed => format!("{name} has a limit and was never passed"),
        MarkFault::NotMeasured => {
            format!("{name} has a limit, and no length of it was measured")
        }
        MarkFault::Unwatched => format!(
            "{name} has a limit, and only threads of ordinary priority passed it (--all \
             watches them too)"
        ),
    }
}

fn load(fault: &LoadFault) -> String {
    match fault {
        LoadFault::Failed { failure } => format!("failed: {}", facts::load_failure(failure)),
        LoadFault::DidNothing => "did nothing".to_owned(),
        LoadFault::Idle {
            check,
            unit,
            in_one_run: false,
        } => without_work(check, unit),
        LoadFault::Idle { check, unit, .. } => format!("failed: {}", in_one_run(check, unit)),
    }
}

/// That one of the runs of a merge had a load without work.
pub(crate) fn in_one_run(check: &WorkCheck, unit: &str) -> String {
    format!("in one of the runs it {}", without_work(check, unit))
}

/// That a load was without work for too long.
fn without_work(check: &WorkCheck, unit: &str) -> String {
    let why = match check.least_cpu_ns {
        None => format!("the number of its {unit} did not grow, or processes of it were stopped"),
        Some(least_ns) => format!(
            "its processes used less than {} ms of CPU time per second, or some were stopped; \
             --load-work sets that least, and 0 turns the check off",
            least_ns as f64 / 1e6
        ),
    };
    format!(
        "did no work in {:.1} of {:.1} s, where {:.0} % of the time is allowed ({why})",
        check.idle_ns as f64 / 1e9,
        check.looked_ns as f64 / 1e9,
        IDLE_SHARE * 100.0
    )
}
