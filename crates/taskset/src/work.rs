//! The times of a phase's work.

use punctual_record::taskset::analysis::UntimedStep;
use punctual_record::taskset::{Phase, Step, Task, TaskPolicy, TaskSet, Timer, Wake};
use punctual_sched::model::MAX_NS;

/// What one job of a phase does, as far as the file says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobWork {
    /// How long it executes; a lower bound where something is untimed.
    pub execution_ns: u64,
    /// The first step whose time the file doesn't say.
    pub untimed: Option<UntimedStep>,
    pub sleeps: u32,
    pub slept_ns: u64,
    pub yields: bool,
    /// The outermost lock sections.
    pub sections: Vec<Held>,
}

/// A lock section that lies in no other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// The locks: the outer one first.
    pub locks: Vec<usize>,
    pub execution_ns: u64,
    pub untimed: Option<UntimedStep>,
    pub sleeps: bool,
}

impl JobWork {
    pub fn of(phase: &Phase) -> Self {
        let mut work = JobWork::default();
        work.add(&phase.work, &mut None);
        work
    }

    fn add(&mut self, steps: &[Step], held: &mut Option<Held>) {
        for step in steps {
            let untimed = match step {
                Step::Run { ns } => {
                    self.execution_ns = self.execution_ns.saturating_add(*ns);
                    if let Some(held) = held {
                        held.execution_ns = held.execution_ns.saturating_add(*ns);
                    }
                    None
                }
                Step::Sleep { ns } => {
                    self.sleeps = self.sleeps.saturating_add(1);
                    self.slept_ns = self.slept_ns.saturating_add(*ns);
                    if let Some(held) = held {
                        held.sleeps = true;
                    }
                    None
                }
                Step::Lock { lock, work } => {
                    if let Some(outer) = held {
                        outer.locks.push(*lock);
                        self.add(work, held);
                    } else {
                        let mut own = Some(Held {
                            locks: vec![*lock],
                            ..Held::default()
                        });
                        self.add(work, &mut own);
                        self.sections.extend(own);
                    }
                    None
                }
                Step::Yield => {
                    self.yields = true;
                    Some(UntimedStep::Yield)
                }
                Step::Instructions { .. } => Some(UntimedStep::Instructions),
                Step::Memory { .. } => Some(UntimedStep::Memory),
                Step::Calls { .. } => Some(UntimedStep::Calls),
                Step::Library { .. } => Some(UntimedStep::Library),
                Step::Command { .. } => Some(UntimedStep::Command),
            };
            self.untimed = self.untimed.or(untimed);
            if let Some(held) = held {
                held.untimed = held.untimed.or(untimed);
            }
        }
    }
}

/// The share of its CPU that a real-time task surely takes in the long run, in parts of 2^40, rounded
/// down; none of others. One that drifts takes less where it is delayed, and never more than there is.
pub(crate) fn share(set: &TaskSet, index: usize) -> u64 {
    let task = &set.tasks[index];
    if matches!(task.policy, TaskPolicy::Other { .. }) || set.drifts(index) {
        return 0;
    }
    taken(set, index, WHOLE)
}

/// The share of a CPU that a task's jobs take in the long run, in parts per million; at most, of one that drifts.
pub(crate) fn share_ppm(set: &TaskSet, index: usize) -> u64 {
    taken(set, index, 1_000_000)
}

/// What jobs need, of a whole; of a reservation no more than it leaves them.
fn taken(set: &TaskSet, index: usize, whole: u64) -> u64 {
    let (executed, passed) = executed(set, index);
    let share = ratio(executed, passed, whole);
    match set.tasks[index].policy {
        TaskPolicy::Deadline {
            runtime_ns,
            period_ns,
            ..
        } => share.min(ratio(runtime_ns.into(), period_ns.into(), whole)),
        _ => share,
    }
}

/// How long a task executes while its phases pass once, and how long that takes at least.
fn executed(set: &TaskSet, index: usize) -> (u128, u128) {
    let task = &set.tasks[index];
    let of_timer = set.timer_of(index);
    let (mut executed, mut passed) = (0u128, 0u128);
    for phase in &task.phases {
        let jobs = u128::from(phase.jobs);
        let distance_ns = match (task.wake, of_timer) {
            (Wake::Timer { .. }, _) => distance_ns(task, phase),
            // Jobs that others release come as theirs do.
            (Wake::After { .. }, Some((first, times))) => {
                mean_distance_ns(first).saturating_mul(times)
            }
            (Wake::After { .. }, None) => 1,
        };
        executed = executed.saturating_add(jobs.saturating_mul(execution_ns(task, phase).into()));
        passed = passed.saturating_add(jobs.saturating_mul(distance_ns.max(1).into()));
    }
    (executed, passed)
}

fn execution_ns(task: &Task, phase: &Phase) -> u64 {
    let of_work = || JobWork::of(phase).execution_ns;
    task.execution_ns.unwrap_or_else(of_work)
}

/// From the arrival of a job to the next one, of a task with a timer: at least, where the timer is relative. That one
/// begins when the job has ended.
pub(crate) fn distance_ns(task: &Task, phase: &Phase) -> u64 {
    let Wake::Timer {
        timer, period_ns, ..
    } = task.wake
    else {
        return 1;
    };
    let period_ns = phase.period_ns.unwrap_or(period_ns);
    if timer != Timer::Relative {
        return period_ns;
    }
    let job_ns = execution_ns(task, phase).saturating_add(JobWork::of(phase).slept_ns);
    period_ns.saturating_add(job_ns)
}

/// The mean of it over all phases.
fn mean_distance_ns(task: &Task) -> u64 {
    let (mut jobs, mut passed) = (0u128, 0u128);
    for phase in &task.phases {
        let each = u128::from(phase.jobs);
        jobs = jobs.saturating_add(each);
        passed = passed.saturating_add(each.saturating_mul(distance_ns(task, phase).into()));
    }
    let mean = passed.checked_div(jobs);
    mean.and_then(|it| u64::try_from(it).ok()).unwrap_or(1)
}

/// How often a job of a task sleeps at most.
pub(crate) fn sleeps(task: &Task) -> u32 {
    let phases = task.phases.iter();
    phases
        .map(|phase| JobWork::of(phase).sleeps)
        .max()
        .unwrap_or(0)
}

/// Jobs of a task with a timer that are executed within a time are no more than arrive in a time that is so much longer,
/// whatever delays them: one may be under way, and of the others those are skipped whose deadlines have passed.
pub(crate) fn bunched_ns(task: &Task, period_ns: u64) -> u64 {
    let phases = 0..task.phases.len();
    let more_ns = phases.map(|phase| task.more_ns(phase)).max().unwrap_or(0);
    let allowed_ns = task.deadline_ns.saturating_add(more_ns);
    allowed_ns.saturating_add(period_ns).min(MAX_NS)
}

/// Whether its jobs sleep, or are not all alike.
pub(crate) fn varies(task: &Task) -> bool {
    let first = task.phases.first();
    let times = |phase: &Phase| {
        let of_work = JobWork::of(phase).execution_ns;
        (phase.period_ns, task.execution_ns.unwrap_or(of_work))
    };
    let unlike = |phase: &Phase| first.is_some_and(|first| times(first) != times(phase));
    sleeps(task) > 0 || task.phases.iter().any(unlike)
}

/// One whole CPU, as [`share`] counts.
pub(crate) const WHOLE: u64 = 1 << 40;

fn ratio(part: u128, whole: u128, unit: u64) -> u64 {
    // Jobs and times have limits: neither nears 2^88.
    let scaled = part.saturating_mul(unit.into()) / whole.max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
