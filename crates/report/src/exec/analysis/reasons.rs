//! Why a task has no bound, and what to do.

use punctual_record::taskset::TaskPolicy;
use punctual_record::taskset::analysis::{NoBound, SetAnalysis, TaskAnalysis, UntimedStep};

use super::name;
use crate::words;

pub(super) fn reason(of: &SetAnalysis, task: &TaskAnalysis, why: NoBound) -> String {
    let lock = |lock: usize| of.locks.get(lock).map_or("", String::as_str);
    match why {
        NoBound::SeveralCpus => match task.policy {
            TaskPolicy::Deadline { .. } => {
                "it shares some CPUs with others and is released by a task, or its CPUs differ from \
                 theirs: give all SCHED_DEADLINE tasks the same CPUs and periods"
                    .to_owned()
            }
            _ => "it may run on several CPUs: bind it to one (cpu = 1)".to_owned(),
        },
        NoBound::Untimed { step } => format!(
            "the set does not say how long its {} take: say how long a job takes at most (wcet = \"2ms\")",
            untimed(step)
        ),
        NoBound::After { task } => {
            format!("{}, which releases it, has no bound", name(of, task))
        }
        NoBound::Interferer { task } => format!(
            "{} may take its CPU, and has no bound or may run elsewhere too: give that one a bound, or \
             a lower priority, or another CPU",
            name(of, task)
        ),
        NoBound::LockUser { lock: held, task } => format!(
            "it may wait for lock {} while {} holds it, for an unknown time: bind that one to the same \
             CPU, and say how long its jobs take (wcet)",
            lock(held),
            name(of, task)
        ),
        NoBound::NestedLocks { lock: held, task } => format!(
            "{} takes another lock while it holds {}: give both a ceiling (protocol = \"protect\"), or \
             take one after the other",
            name(of, task),
            lock(held)
        ),
        NoBound::SleepsInLock { lock: held, task } => format!(
            "{} sleeps while it holds lock {}: sleep before or after",
            name(of, task),
            lock(held)
        ),
        NoBound::YieldsReservation => {
            "yield ends the runtime of its reservation in the middle of a job: yield at its end only"
                .to_owned()
        }
        NoBound::Overload => {
            "it and the tasks above it need more than the CPU has: shorten jobs, lengthen periods, or \
             move a task to another CPU"
                .to_owned()
        }
        NoBound::PlainLock { lock: held } => format!(
            "a task below may hold lock {}, which has no protocol, while others run: use protocol = \
             \"inherit\"",
            lock(held)
        ),
        NoBound::LockAcrossCpus { lock: held } => format!(
            "lock {} has users on several CPUs, for which there is no model: bind them to one CPU",
            lock(held)
        ),
        NoBound::LockWithDeadlineTask { lock: held } => format!(
            "lock {} has a SCHED_DEADLINE user beside others: waiting for it, the kernel gives it a \
             new deadline: use fixed priorities",
            lock(held)
        ),
        NoBound::Throttled { needed_ns } => {
            let runtime = match task.policy {
                TaskPolicy::Deadline { runtime_ns, .. } => words::duration(runtime_ns),
                _ => String::new(),
            };
            format!(
                "a job needs {} with all that is charged to it, and the runtime of its reservation is \
                 {runtime}: give it more",
                words::duration(needed_ns)
            )
        }
        NoBound::FasterThanReservation => {
            "its jobs may arrive more often than the period of its reservation: give that a shorter \
             period"
                .to_owned()
        }
        NoBound::SleepsInReservation => {
            "it sleeps within a job and loses its deadline: sleep between jobs only".to_owned()
        }
        NoBound::Demand {
            interval_ns,
            demand_ns,
        } => format!(
            "the SCHED_DEADLINE tasks need {} in an interval of {}: shorten jobs, or lengthen \
             deadlines and periods",
            words::duration(demand_ns),
            words::duration(interval_ns)
        ),
        NoBound::FairServer => {
            "real-time tasks may leave ordinary ones less of a CPU than the fair server keeps for them, \
             and there is no model of that server beside SCHED_DEADLINE tasks which share CPUs: shorten \
             jobs, give each task without a bound one, or switch the server off"
                .to_owned()
        }
        NoBound::OrdinaryTasks { task } => format!(
            "as {} has no bound, real-time tasks may leave ordinary ones too little of the CPU, and \
             then the kernel stops real-time tasks for them: give that one a bound, or another CPU",
            name(of, task)
        ),
        NoBound::ReleasesSkipped { pending } => format!(
            "only {pending} of its releases may be pending, and more may come before a job ends: those \
             beyond are skipped: shorten jobs, lengthen periods, or release it by a futex (by = \"futex\")"
        ),
        NoBound::GlobalUndecided => {
            "it is not proved that SCHED_DEADLINE tasks which share several CPUs meet their deadlines, \
             nor that they can't: give them one CPU each (an exclusive cpuset), or more room"
                .to_owned()
        }
        NoBound::TooLong => "its bound is longer than 36 years".to_owned(),
        NoBound::TooManySteps => {
            "the analysis takes too long: use periods with a small common multiple, or fewer tasks"
                .to_owned()
        }
    }
}

fn untimed(step: UntimedStep) -> &'static str {
    match step {
        UntimedStep::Library => "calls of a library",
        UntimedStep::Command => "commands",
        UntimedStep::Instructions => "instructions",
        UntimedStep::Memory => "accesses to memory",
        UntimedStep::Calls => "system calls",
        UntimedStep::Yield => "yields",
    }
}
