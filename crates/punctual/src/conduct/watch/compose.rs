//! The record and the live view of a watch, out of what is known of its threads.

use punctual_stats::histogram::HistogramRecord;

use super::WatchPlan;
use super::followed::Followed;
use crate::probe::tally::Tally;
use crate::probe::timeline;
use crate::record::watch::{Jobs, Subject, Watch, WatchedCall, WatchedTask, WatchedThread};
use crate::record::{
    Demand, Faults, Interval, Request, Run, Standing, SystemState, Thread,
};
use crate::report::live::{LiveRow, LiveWatch};
use crate::system::Policy;
use crate::system::demands::{rt_throttling, stated_of_machine};
use crate::trace::watch::{Call, Other, calls};

/// A record of a watch that has not seen anything yet.
pub fn begun(plan: &WatchPlan, cpus: &[usize], started: String, system: SystemState) -> Run {
    let request = Request {
        source: format!("watch of {}", plan.program.name),
        // Each thread has its own: none of these is asked of any.
        interval: Interval::Fixed { interval_ns: 0 },
        cpus: cpus.to_vec(),
        policy: "other".to_owned(),
        priority: 0,
        duration_ns: plan.duration_ns,
        loops: None,
        break_ns: None,
        load: "none".to_owned(),
        load_class: "other".to_owned(),
        requirements: plan.requirements.clone(),
        confidence: plan.confidence,
        as_deployed: true,
        best_effort: false,
    };
    let mut run = super::super::compose::empty("watch", plan.command.clone(), request, started, system);
    fill_watch(&mut run, plan, &[], 0, false);
    run
}

/// Puts the figures as they stand into the record.
pub fn fill(run: &mut Run, start_ns: u64, elapsed_ns: u64, threads: &[Followed]) {
    run.start_ns = Some(start_ns);
    run.threads = threads.iter().map(|it| thread(start_ns, it)).collect();
    run.measured_ns = elapsed_ns;
    run.timeline = timeline::merged(threads.iter().map(|it| it.tally.rows()), elapsed_ns);
    if let Ok(usage) = punctual_rt::sys::task::process_usage() {
        run.own_cost.peak_resident_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    }
    let used = punctual_rt::sys::time::clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
    run.own_cost.collector_cpu_ns = used;
}

fn thread(start_ns: u64, followed: &Followed) -> Thread {
    let sleeper = &followed.sleeper;
    let cpu = sleeper.cpu.unwrap_or(0) as usize;
    let tid = i32::try_from(sleeper.task.tid).unwrap_or(0);
    let thread = super::super::compose::thread_of(start_ns, &followed.tally, cpu, tid);
    Thread {
        lost: followed.lost(),
        faults: Some(Faults {
            minor: sleeper.minor_faults,
            major: sleeper.major_faults,
        }),
        preemptions: Some(sleeper.preempted),
        ..thread
    }
}

/// Puts in what has no place elsewhere.
pub fn fill_watch(run: &mut Run, plan: &WatchPlan, threads: &[Followed], beyond: usize, ended: bool) {
    run.watch = Some(Watch {
        subject: Subject::Program {
            pid: plan.program.pid,
            name: plan.program.name.clone(),
            command: plan.program.command.clone(),
            all_threads: plan.every,
            ended,
        },
        threads: threads.iter().map(watched).collect(),
        beyond: beyond as u64,
        worst: Vec::new(),
        cost: None,
    });
}

fn watched(followed: &Followed) -> WatchedThread {
    let sleeper = &followed.sleeper;
    let jobs = Jobs {
        count: sleeper.jobs,
        late: sleeper.late_jobs,
        worst_ns: sleeper.worst_job_ns,
        postponed: sleeper.postponed,
    };
    let mut calls: Vec<WatchedCall> = followed.calls.iter().map(call).collect();
    calls.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(a.name.cmp(&b.name)));
    calls.truncate(Watch::CALLS);
    WatchedThread {
        task: task(&sleeper.task),
        ended: sleeper.ended,
        period_ns: followed.period_ns(),
        by_timer: HistogramRecord::from(&followed.by_timer),
        by_others: HistogramRecord::from(&followed.by_others),
        overruns: followed.overruns,
        worst_overrun_ns: followed.worst_overrun_ns,
        switches: sleeper.switches,
        migrations: sleeper.migrations,
        jobs: (jobs != Jobs::default()).then_some(jobs),
        calls,
        calls_beyond: sleeper.beyond,
    }
}

/// A task in the record's words.
pub fn task(other: &Other) -> WatchedTask {
    let policy = Policy::from_number(other.policy);
    let priority = match policy {
        Policy::Fifo | Policy::RoundRobin => u32::try_from(99 - other.priority).unwrap_or(0).min(99),
        _ => 0,
    };
    WatchedTask {
        tid: other.tid,
        name: other.name.clone(),
        policy: policy.name().to_owned(),
        priority,
    }
}

fn call(call: &Call) -> WatchedCall {
    WatchedCall {
        name: calls::name(call.call),
        count: call.count,
        total_ns: call.total_ns,
        worst_ns: call.worst_ns,
        by_timer: call.by_timer,
        inversions: call.inversions,
        other: call.other.as_ref().map(task),
        held: call.held,
    }
}

/// What was asked of the watch, and what a reader must know of the machine.
pub fn demands(plan: &WatchPlan, run: &Run) -> Vec<Demand> {
    let which = if plan.every { "threads" } else { "real-time threads" };
    let woke = run.threads.iter().filter(|thread| thread.latency.count > 0).count();
    let in_force = woke > 0;
    let mut demands = vec![Demand {
        name: "watched".to_owned(),
        asked: format!("wake-ups of the {which} of {} ({})", plan.program.name, plan.program.pid),
        found: match (run.threads.len(), woke) {
            (0, _) => "no such thread ran".to_owned(),
            (seen, 0) => format!("{seen} such threads ran, and none of them was woken"),
            (_, woke) => format!("{woke} threads were woken"),
        },
        standing: if in_force { Standing::InForce } else { Standing::NotInForce },
        mend: (!in_force).then(|| {
            if plan.every {
                "watch longer".to_owned()
            } else {
                "`--all` watches threads of ordinary priority too; `chrt -f -p 50 TID` makes one a \
                 real-time thread"
                    .to_owned()
            }
        }),
    }];
    demands.extend(rt_throttling(&run.system, false));
    demands.extend(stated_of_machine(&run.system));
    demands
}

/// The watch as it stands, for the screen.
pub fn view(plan: &WatchPlan, threads: &[Followed], elapsed_ns: u64, run: &Run) -> LiveWatch {
    let mut notes = Vec::new();
    if threads.is_empty() {
        notes.push(if plan.every {
            "no thread has run yet".to_owned()
        } else {
            "no real-time thread has run yet (--all watches all)".to_owned()
        });
    }
    notes.extend(run.events.iter().rev().take(1).map(|event| event.text.clone()));
    LiveWatch {
        title: format!("watch {} ({})", plan.program.name, plan.program.pid),
        elapsed_ns,
        total_ns: plan.duration_ns,
        deadline_ns: plan.deadline_ns(),
        rows_are: "thread".to_owned(),
        rows: threads.iter().map(row).collect(),
        notes,
    }
}

fn row(followed: &Followed) -> LiveRow {
    let (sleeper, tally): (_, &Tally) = (&followed.sleeper, &followed.tally);
    let latency = tally.latency();
    // Ten samples beyond a percentile are the least that support it.
    let supported = latency.count() >= 10_000;
    let worst = followed
        .calls
        .iter()
        .filter(|call| call.by_timer < call.count)
        .max_by_key(|call| call.worst_ns);
    LiveRow {
        label: format!("{}/{}", sleeper.task.name, sleeper.task.tid),
        count: latency.count(),
        period_ns: followed.period_ns(),
        avg_ns: latency.mean().unwrap_or(0.0),
        p999_ns: latency.quantile(0.999).filter(|_| supported),
        max_ns: latency.max().unwrap_or(0),
        late: tally.late,
        missed: tally.missed + sleeper.late_jobs,
        preempted: sleeper.preempted,
        faults: sleeper.minor_faults + sleeper.major_faults,
        migrations: sleeper.migrations,
        words: worst.map_or_else(String::new, |call| {
            let times = call.count;
            let worst = punctual_stats::format::duration(call.worst_ns);
            format!("{times} × {}, {worst}", calls::name(call.call))
        }),
    }
}
