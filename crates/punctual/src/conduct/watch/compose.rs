//! The record and the live view of a watch, from its threads.

use punctual_stats::histogram::HistogramRecord;

use super::Breached;
use super::followed::Followed;
use crate::conduct::compose::thread_of;
use crate::probe::tally::Tally;
use crate::system::demands::{rt_throttling, stated_of_machine};
use punctual_machine::survey::Policy;
use punctual_record::invalid::unwoken;
use punctual_record::live::{LiveRow, Notable};
use punctual_record::watch::{Breach, Jobs, Watch, WatchedCall, WatchedTask, WatchedThread};
use punctual_record::{Demand, Happening, Run, Thread};
use punctual_trace::calls;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::{Call, Other};

/// The wake-ups of a thread.
pub fn thread(start_ns: u64, followed: &Followed, numbers: &Numbers) -> Thread {
    let sleeper = &followed.sleeper;
    let cpu = followed.cpu() as usize;
    let tid = i32::try_from(numbers.visible_number(sleeper.task.tid)).unwrap_or(0);
    let thread = thread_of(start_ns, &followed.tally, cpu, tid);
    Thread {
        lost: followed.lost(),
        faults: Some(followed.faults()),
        preemptions: Some(followed.preempted()),
        ..thread
    }
}

/// What else was counted of a thread, and of those that ended whose row it continues.
pub fn watched(followed: &Followed, program: Option<u32>, numbers: &Numbers) -> WatchedThread {
    let own = alone(followed, program, numbers);
    match &followed.before {
        Some(before) => before.watched.followed_by(&own),
        None => own,
    }
}

fn alone(followed: &Followed, program: Option<u32>, numbers: &Numbers) -> WatchedThread {
    let sleeper = &followed.sleeper;
    let jobs = Jobs {
        count: sleeper.jobs,
        late: sleeper.late_jobs,
        worst_ns: sleeper.worst_job_ns,
        postponed: sleeper.postponed,
        throttled: sleeper.throttles,
        throttled_ns: sleeper.throttled_ns,
        worst_throttled_ns: sleeper.worst_throttle_ns,
    };
    let (budgets, budgets_beyond) = followed.budgets.to_record();
    let mut calls: Vec<WatchedCall> = followed.calls.iter().map(|it| call(it, numbers)).collect();
    calls.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.name.cmp(&b.name)));
    calls.truncate(Watch::CALLS);
    WatchedThread {
        task: task(&sleeper.task, numbers),
        program,
        ended: sleeper.has_ended(),
        period_ns: followed.period_ns(),
        timing: followed.timing(),
        skips: followed.skips.clone(),
        skipped_itself: followed.skipped_itself,
        by_timer: HistogramRecord::from(&followed.by_timer),
        by_others: HistogramRecord::from(&followed.by_others),
        overruns: followed.overruns,
        worst_overrun_ns: followed.worst_overrun_ns,
        switches: sleeper.switches,
        migrations: sleeper.migrations,
        jobs: (jobs != Jobs::default()).then_some(jobs),
        budgets,
        budgets_beyond,
        calls,
        calls_beyond: sleeper.no_room,
        others: 0,
        unseen: sleeper.unseen.saturating_add(followed.perhaps_late),
        unseen_most_ns: followed.unseen_most_ns(),
        slept_but_for_stops: followed.slept_but_for_stops(),
    }
}

/// A task for the record.
pub fn task(other: &Other, numbers: &Numbers) -> WatchedTask {
    let policy = Policy::from_number(other.policy);
    let priority = match policy {
        Policy::Fifo | Policy::RoundRobin => {
            u32::try_from(99 - other.priority).unwrap_or(0).min(99)
        }
        _ => 0,
    };
    WatchedTask {
        tid: numbers.visible_number(other.tid),
        name: other.name.clone(),
        policy: policy.name().to_owned(),
        priority,
    }
}

fn call(call: &Call, numbers: &Numbers) -> WatchedCall {
    WatchedCall {
        name: calls::name(call.call),
        count: call.count,
        total_ns: call.total_ns,
        worst_ns: call.worst_ns,
        by_timer: call.by_timer,
        inversions: call.inversions,
        other: call.other.as_ref().map(|other| task(other, numbers)),
        held: call.held,
    }
}

/// The requested conditions of the watch, and those of the machine that a reader must know.
pub fn demands(asked: Demand, run: &Run) -> Vec<Demand> {
    let mut demands = vec![asked];
    demands.extend(rt_throttling(&run.system, false));
    demands.extend(stated_of_machine(&run.system));
    demands
}

/// The wake-up that ended the watch.
pub fn breach(late: &Breached, numbers: &Numbers) -> Breach {
    Breach {
        task: task(&late.task, numbers),
        cpu: late.cpu,
        latency_ns: late.latency_ns(),
        at_ns: late.woken_ns,
    }
}

/// The wake-up that ended the watch, as an event.
pub fn breached(run: &Run) -> Option<Happening> {
    let breach = run.watch.as_ref()?.breach.as_ref()?;
    Some(Happening::Breach {
        task: breach.task.name.clone(),
        tid: breach.task.tid,
        cpu: breach.cpu,
        latency_ns: breach.latency_ns,
        limit_ns: run.request.break_ns?,
    })
}

/// The most threads that an event names.
const NAMED: usize = 8;

/// The event for threads that ended before a wake-up, if others were measured.
pub fn never_woken(run: &Run) -> Option<Happening> {
    let mut threads = unwoken(run, true);
    let count = threads.len() as u64;
    threads.truncate(NAMED);
    (count > 0).then_some(Happening::NeverWoke { count, threads })
}

/// The current state of a thread, for the display.
pub fn row(followed: &Followed, numbers: &Numbers) -> LiveRow {
    let (sleeper, tally): (_, &Tally) = (&followed.sleeper, &followed.tally);
    let latency = tally.latency();
    let worst = followed
        .calls
        .iter()
        .filter(|call| call.by_timer < call.count)
        .max_by_key(|call| call.worst_ns);
    LiveRow {
        label: format!(
            "{}/{}",
            sleeper.task.name,
            numbers.visible_number(sleeper.task.tid)
        ),
        count: latency.count(),
        period_ns: followed.period_ns(),
        avg_ns: latency.mean().unwrap_or(0.0),
        p999_ns: latency.supported_quantile(0.999),
        max_ns: latency.max().unwrap_or(0),
        late: tally.late,
        missed: tally.missed + sleeper.late_jobs,
        preempted: followed.preempted(),
        faults: followed.faults().minor + followed.faults().major,
        migrations: sleeper.migrations,
        notable: worst.map(|call| Notable::Sleep {
            call: calls::name(call.call),
            count: call.count,
            worst_ns: call.worst_ns,
        }),
    }
}
