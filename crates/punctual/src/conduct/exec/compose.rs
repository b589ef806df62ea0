//! The record of a set's execution, from the figures of its tasks.

use super::tasks::fault_of;
use crate::conduct::compose::{leave_out_stopped_seconds, put_memory, thread_of};
use crate::probe::collector::Lane;
use crate::probe::tally::Tally;
use crate::probe::timeline;
use punctual_exec::{Ended, Outcome, Unended};
use punctual_record::taskset::{ChainFigures, Task, TaskFault, TaskFigures, Timer, Wake};
use punctual_record::{Event, Faults, Happening, Run, Thread};

/// A copy of the figures of one task.
pub struct TaskCopy {
    cpu: Option<usize>,
    tid: i32,
    lost: [u64; 2],
    longest_ns: u64,
    wake_ups: Tally,
    jobs: Tally,
}

/// Copies the figures of the tasks: lanes of wake-ups, then as many of jobs. `cpus` are those that
/// tasks are bound to, `longest` the longest times of jobs whose phases may take longer than the deadline.
pub fn copy(lanes: &[Lane], cpus: &[Option<usize>], longest: Vec<u64>) -> Vec<TaskCopy> {
    let (wake_ups, jobs) = lanes.split_at(lanes.len() / 2);
    let each = wake_ups.iter().zip(jobs).zip(cpus).zip(longest);
    each.map(|(((wake_ups, jobs), cpu), longest_ns)| TaskCopy {
        cpu: *cpu,
        longest_ns,
        tid: wake_ups.tid,
        lost: [wake_ups.lost(), jobs.lost()],
        wake_ups: wake_ups.tally.clone(),
        jobs: jobs.tally.clone(),
    })
    .collect()
}

/// Puts the figures so far into the record.
pub fn fill(run: &mut Run, start_ns: u64, copies: &[TaskCopy], chains: Vec<ChainFigures>) {
    run.start_ns = Some(start_ns);
    let thread = |copy: &TaskCopy, tally: &Tally, lost| Thread {
        lost,
        cpu: copy.cpu,
        ..thread_of(start_ns, tally, 0, copy.tid)
    };
    run.threads = copies
        .iter()
        .map(|copy| thread(copy, &copy.wake_ups, copy.lost[0]))
        .collect();
    let measured = run.threads.iter().map(|thread| thread.measured_ns);
    run.measured_ns = measured.max().unwrap_or(0);
    let rows = copies.iter().map(|copy| copy.wake_ups.rows());
    run.timeline = timeline::merged(rows, run.measured_ns);
    // Whether such a job was stopped is not known: the collector leaves those out.
    let was_stopped = run.stops.is_some();
    if let Some(tasks) = &mut run.tasks {
        let before = std::mem::take(&mut tasks.tasks);
        let mut before = before.into_iter();
        tasks.tasks = copies
            .iter()
            .map(|copy| {
                let before = before.next();
                TaskFigures {
                    jobs: thread(copy, &copy.jobs, copy.lost[1]),
                    timeline: timeline::merged([copy.jobs.rows()], run.measured_ns),
                    longest_ns: if was_stopped { 0 } else { copy.longest_ns },
                    cpu_ns: before.as_ref().and_then(|before| before.cpu_ns),
                    bills: None,
                    dropped: before.as_ref().map_or(0, |before| before.dropped),
                    fault: before.and_then(|before| before.fault),
                }
            })
            .collect();
        tasks.chains = chains;
    }
    leave_out_stopped_seconds(run);
    put_memory(run);
}

/// How many jobs that a timer releases after one that has not ended had their deadlines by now, and arrived before the
/// end. Of phases that differ, and of a timer that counts from the end of each job, that isn't known.
pub fn missed_after(task: &Task, job: Unended, now_ns: u64, end_ns: u64) -> u64 {
    match (task.wake, &task.phases[..]) {
        (
            Wake::Timer {
                timer: Timer::Absolute | Timer::Timerfd | Timer::Signal,
                period_ns,
                ..
            },
            [phase],
        ) => {
            let period_ns = phase.period_ns.unwrap_or(period_ns);
            let allowed_ns = job.due_ns.saturating_sub(job.arrival_ns);
            let before_ns = end_ns.min(now_ns.saturating_sub(allowed_ns));
            let since_ns = before_ns.saturating_sub(job.arrival_ns.saturating_add(1));
            since_ns / period_ns.max(1)
        }
        _ => 0,
    }
}

/// Adds the outcome of each task to the record.
pub fn finish(run: &mut Run, outcomes: Vec<Option<Outcome>>) {
    let Some(tasks) = &mut run.tasks else {
        return;
    };
    let mut events = Vec::new();
    let names = tasks.set.tasks.iter().map(|task| &task.name);
    let each = run.threads.iter_mut().zip(&mut tasks.tasks).zip(outcomes);
    for (((thread, figures), outcome), name) in each.zip(names) {
        let Some(outcome) = outcome else {
            figures.fault = Some(TaskFault::StillBusy {});
            continue;
        };
        thread.faults = outcome.disturbances.map(|disturbances| Faults {
            minor: disturbances.minor_faults,
            major: disturbances.major_faults,
        });
        thread.preemptions = outcome.disturbances.map(|it| it.preemptions);
        run.own_cost.probes_cpu_ns += outcome.cpu_ns;
        figures.cpu_ns = Some(outcome.cpu_ns);
        figures.dropped = outcome.dropped;
        if outcome.dropped > 0 {
            let happening = Happening::JobsDropped {
                task: name.clone(),
                jobs: outcome.dropped,
                pending: outcome.most_pending,
            };
            events.push(Event::new(run.measured_ns, happening));
        }
        if let Ended::Failed(fault) = outcome.ended {
            figures.fault = Some(fault_of(fault));
        }
    }
    run.events.extend(events);
}

#[cfg(test)]
mod tests {
    use punctual_record::taskset::{Phase, TaskPolicy};

    use super::*;

    #[test]
    fn jobs_after_one_that_did_not_end_are_missed_up_to_the_end() {
        let phase = Phase {
            jobs: 1,
            period_ns: None,
            deadline_ns: None,
            work: Vec::new(),
        };
        let mut task = Task {
            name: "t".to_owned(),
            policy: TaskPolicy::Other { nice: 0 },
            cpus: Vec::new(),
            wake: Wake::Timer {
                timer: Timer::Absolute,
                period_ns: 10,
                offset_ns: 0,
            },
            deadline_ns: 5,
            jitter_ns: 0,
            execution_ns: None,
            phases: vec![phase],
        };
        let job = Unended {
            arrival_ns: 100,
            due_ns: 105,
        };
        // Those of 110 and 120; that of 130 is at the end, or has its deadline only now.
        assert_eq!(missed_after(&task, job, 1_000, 130), 2);
        assert_eq!(missed_after(&task, job, 135, 1_000), 2);
        assert_eq!(missed_after(&task, job, 136, 1_000), 3);
        assert_eq!(missed_after(&task, job, 106, 101), 0);
        task.wake = Wake::Timer {
            timer: Timer::Relative,
            period_ns: 10,
            offset_ns: 0,
        };
        assert_eq!(missed_after(&task, job, 1_000, 130), 0);
    }
}
