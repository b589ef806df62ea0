//! The threads of a machine, as far as findings and the survey need them.

use std::io;

use punctual_record::finding::{FindingState, Unknown};
use punctual_record::proc_stat::Stat;
use punctual_record::proc_status::value;
use punctual_record::text::shortened;

use crate::root::{Root, decimal};
use crate::survey::Policy;

/// The longest name that is kept; a worker's is longer than the 15 bytes of others.
const NAME_LENGTH: usize = 64;
/// The number of threads that are kept.
pub(crate) const TASKS: usize = 1 << 15;

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) process: u32,
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) is_of_kernel: bool,
    /// 0 for one without a real-time policy.
    pub(crate) priority: u32,
    pub(crate) policy: Policy,
}

/// All threads, and whether these are all: those of the kernel are invisible in another PID
/// namespace, and those of others with `hidepid`.
pub(crate) fn tasks(root: &Root) -> (Vec<Task>, bool) {
    let read = |process, tid| Task::read(root, process, tid);
    let Ok((tasks, is_whole)) = walk(root, read) else {
        return (Vec::new(), false);
    };
    let has_kernels = tasks.iter().any(|task| task.is_of_kernel);
    (tasks, is_whole && has_kernels)
}

/// What `keep` makes of each thread, by process and thread, in their order, and whether all were
/// walked: the walk ends where [`TASKS`] are kept.
///
/// # Errors
/// Those of reading `/proc`.
pub(crate) fn walk<T>(
    root: &Root,
    mut keep: impl FnMut(u32, i32) -> Option<T>,
) -> io::Result<(Vec<T>, bool)> {
    let names = root.names("/proc")?;
    let mut processes: Vec<u32> = names.iter().filter_map(|name| decimal(name)).collect();
    processes.sort_unstable();
    let mut kept = Vec::new();
    for process in processes {
        for thread in root.numbered(&format!("/proc/{process}/task"), "") {
            if kept.len() == TASKS {
                return Ok((kept, false));
            }
            let tid = i32::try_from(thread).ok();
            kept.extend(tid.and_then(|tid| keep(process, tid)));
        }
    }
    Ok((kept, true))
}

impl Task {
    /// A thread; none that has ended.
    pub(crate) fn read(root: &Root, process: u32, tid: i32) -> Option<Self> {
        let line = root
            .text(&format!("/proc/{process}/task/{tid}/stat"))
            .ok()?;
        let stat = Stat::parse(&line)?;
        let number = |field| stat.count(field).and_then(|it| u32::try_from(it).ok());
        Some(Self {
            process,
            tid,
            name: shortened(stat.name, NAME_LENGTH),
            is_of_kernel: stat.is_of_kernel(),
            priority: number(40).unwrap_or(0),
            policy: Policy::from_number(number(41).unwrap_or(0)),
        })
    }

    /// Whether its policy has a fixed real-time priority.
    pub(crate) fn is_fixed_priority(&self) -> bool {
        matches!(self.policy, Policy::Fifo | Policy::RoundRobin)
    }

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
