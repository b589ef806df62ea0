//! The live view of a set, from the tallies.

use crate::probe::collector::Lane;
use punctual_record::Run;
use punctual_record::explanation::Cause;
use punctual_record::live::{LiveTask, LiveTasks, Note};

/// The state of a set: lanes of wake-ups, then as many of jobs.
pub fn of(run: &Run, lanes: &[Lane], most_by: &[Option<Cause>], elapsed_ns: u64) -> LiveTasks {
    let Some(tasks) = &run.tasks else {
        return LiveTasks::default();
    };
    let (wake_ups, jobs) = lanes.split_at(lanes.len() / 2);
    let each = tasks
        .set
        .tasks
        .iter()
        .zip(wake_ups.iter().zip(jobs))
        .enumerate();
    let each = each.map(|(index, (task, (wake_ups, jobs)))| {
        let responses = jobs.tally.latency();
        let any = |ns: u64| (!responses.is_empty()).then_some(ns);
        LiveTask {
            name: task.name.clone(),
            policy: task.policy,
            cpus: task.cpus.clone(),
            deadline_ns: task.deadline_ns,
            jobs: responses.count(),
            current_ns: any(jobs.tally.last_latency_ns),
            best_ns: responses.min(),
            p999_ns: responses.supported_quantile(0.999),
            worst_ns: responses.max(),
            bound_ns: tasks.bound_ns(index),
            wake_up_ns: wake_ups.tally.latency().max(),
            late: jobs.tally.late,
            skipped: jobs.tally.missed,
            taken_by: most_by.get(index).cloned().flatten(),
        }
    });
    let last = run.events.last().cloned().map(Note::Happened);
    LiveTasks {
        name: tasks.set.name.clone(),
        elapsed_ns,
        total_ns: run.request.duration_ns,
        tasks: each.collect(),
        notes: last.into_iter().collect(),
    }
}
