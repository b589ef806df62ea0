//! The threads of a machine, as far as findings need them.

use punctual_record::finding::{FindingState, Unknown};
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status::value;
use punctual_record::text::shortened;

use crate::root::{Root, decimal};

/// The longest name that is kept; a worker's is longer than the 15 bytes of others.
const NAME_LENGTH: usize = 64;
/// The number of threads that are read.
const TASKS: usize = 1 << 15;

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) process: u32,
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) is_of_kernel: bool,
    /// 0 for one without a real-time policy.
    pub(crate) priority: u32,
    /// The number of its policy: `SCHED_FIFO` is 1.
    pub(crate) policy: u32,
}

/// The threads, in order of process and thread, and whether these are all: those of the kernel
/// are invisible in another PID namespace, and those of others with `hidepid`.
pub(crate) fn tasks(root: &Root) -> (Vec<Task>, bool) {
    let mut tasks: Vec<Task> = Vec::new();
    for process in root.numbered("/proc", "") {
        for thread in root.numbered(&format!("/proc/{process}/task"), "") {
            if tasks.len() == TASKS {
                return (tasks, false);
            }
            tasks.extend(read(root, process, thread));
        }
    }
    let has_kernels = tasks.iter().any(|task| task.is_of_kernel);
    (tasks, has_kernels)
}

fn read(root: &Root, process: usize, thread: usize) -> Option<Task> {
    let line = root
        .text(&format!("/proc/{process}/task/{thread}/stat"))
        .ok()?;
    let stat = Stat::parse(&line)?;
    Some(Task {
        process: u32::try_from(process).ok()?,
        tid: i32::try_from(thread).ok()?,
        name: shortened(stat.name, NAME_LENGTH),
        is_of_kernel: stat.is_of_kernel(),
        priority: stat
            .count(40)
            .and_then(|it| it.try_into().ok())
            .unwrap_or(0),
        policy: stat
            .count(41)
            .and_then(|it| it.try_into().ok())
            .unwrap_or(0),
    })
}

impl Task {
    /// The CPUs that it may run on, from its status; none for a thread that has ended.
    ///
    /// # Errors
    /// Unknown where the status can't be read.
    pub(crate) fn allowed(&self, root: &Root) -> Result<Option<Vec<usize>>, FindingState> {
        let folder = format!("/proc/{}/task/{}", self.process, self.tid);
        let path = format!("{folder}/status");
        let Ok(status) = root.text(&path) else {
            return if root.exists(&folder) {
                Err(FindingState::Unknown {
                    why: Unknown::Unreadable(path),
                })
            } else {
                Ok(None)
            };
        };
        let list = value(&status, "Cpus_allowed_list");
        let cpus = list.and_then(|list| punctual_rt::cpulist::numbers(list).ok());
        match cpus {
            Some(cpus) => Ok(Some(cpus)),
            None => Err(FindingState::Unknown {
                why: Unknown::NotUnderstood(path),
            }),
        }
    }

    /// The number at the end of a kernel thread's name: `ksoftirqd/3`.
    pub(crate) fn number(&self, stem: &str) -> Option<usize> {
        decimal(self.name.strip_prefix(stem)?)
    }
}
