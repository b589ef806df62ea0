//! The plan of a set's execution, checked and complete.

use super::tasks::ExecError;
use crate::conduct::error::ConductError;
use crate::conduct::plan::TracingPlan;
use crate::conduct::run::{ConditionsPlan, LoadPlan};
use punctual_record::taskset::analysis::SetAnalysis;
use punctual_record::taskset::{Step, Task, TaskPolicy, TaskSet};
use punctual_record::{Interval, Request, RunSource};

/// A set that can be executed.
#[derive(Debug, Clone)]
pub struct ExecPlan {
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The set.
    pub set: TaskSet,
    /// The CPU that all tasks were put on, whatever the file says.
    pub all_on_cpu: Option<usize>,
    /// What can be said of it without executing it.
    pub analysis: Option<SetAnalysis>,
    /// How long it is executed, in ns; absent: until Ctrl-C.
    pub duration_ns: Option<u64>,
    /// The share of jobs that may miss their deadlines.
    pub allowed: f64,
    /// The confidence of the verdict.
    pub confidence: f64,
    /// The load beside it.
    pub load: LoadPlan,
    /// The conditions.
    pub conditions: ConditionsPlan,
    /// What is explained.
    pub tracing: TracingPlan,
    /// The CPU for everything but the tasks, if there is one.
    pub housekeeping: Option<usize>,
    /// The CPUs of tasks that may use all.
    pub all_cpus: Vec<usize>,
}

impl ExecPlan {
    /// The CPUs on which a task may run.
    #[must_use]
    pub fn cpus_of(&self, task: usize) -> &[usize] {
        match self.set.tasks.get(task) {
            Some(task) if !task.cpus.is_empty() => &task.cpus,
            _ => &self.all_cpus,
        }
    }

    /// The CPUs of all tasks.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        let tasks = 0..self.set.tasks.len();
        let mut cpus: Vec<usize> = tasks.flat_map(|task| self.cpus_of(task)).copied().collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The highest real-time priority of a task; 0 where there is none.
    #[must_use]
    pub fn priority(&self) -> u32 {
        let each = self.set.tasks.iter().map(|task| match task.policy {
            TaskPolicy::Fifo { priority } | TaskPolicy::Rr { priority } => u32::from(priority),
            TaskPolicy::Deadline { .. } | TaskPolicy::Other { .. } => 0,
        });
        each.max().unwrap_or(0)
    }

    /// The task with the longest run of those that RLIMIT_RTTIME would end, if a job of it reaches a limit.
    #[must_use]
    pub fn beyond(&self, limit_us: u64, hard_us: u64) -> Option<ConductError> {
        let limited =
            self.set.tasks.iter().filter(|task| {
                matches!(task.policy, TaskPolicy::Fifo { .. } | TaskPolicy::Rr { .. })
            });
        let each = limited.map(|task| (longest_run_ns(task).div_ceil(1000), task));
        let (needs_us, task) = each.max_by_key(|(needs_us, _)| *needs_us)?;
        (needs_us >= limit_us).then(|| {
            ConductError::Exec(ExecError::TimeLimit {
                task: task.name.clone(),
                needs_us,
                hard_us,
            })
        })
    }

    /// The request, as the record keeps it.
    #[must_use]
    pub fn request(&self) -> Request {
        let periods = (0..self.set.tasks.len()).filter_map(|task| self.set.period_ns(task));
        let priority = self.priority();
        Request {
            source: RunSource::Tasks {
                of: self.set.name.clone(),
            },
            interval: Interval::Fixed {
                interval_ns: periods.min().unwrap_or(0),
            },
            cpus: self.cpus(),
            policy: if priority > 0 { "fifo" } else { "other" }.to_owned(),
            priority,
            duration_ns: self.duration_ns,
            loops: None,
            break_ns: None,
            load: self.load.spec.label(),
            load_class: self.load.class.to_string(),
            requirements: Vec::new(),
            confidence: self.confidence,
            as_deployed: self.conditions.as_deployed,
            best_effort: self.conditions.best_effort,
        }
    }
}

/// How long a job executes without sleeping, as far as its set says it.
fn longest_run_ns(task: &Task) -> u64 {
    fn add(steps: &[Step], run_ns: &mut u64, longest_ns: &mut u64) {
        for step in steps {
            match step {
                Step::Run { ns } => *run_ns = run_ns.saturating_add(*ns),
                Step::Sleep { ns } if *ns > 0 => *run_ns = 0,
                Step::Lock { work, .. } => add(work, run_ns, longest_ns),
                _ => {}
            }
            *longest_ns = (*longest_ns).max(*run_ns);
        }
    }
    let mut longest_ns = 0;
    for phase in &task.phases {
        add(&phase.work, &mut 0, &mut longest_ns);
    }
    longest_ns
}
