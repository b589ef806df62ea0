//! Tasks that may delay a probe: with a real-time priority equal to its own or higher.

use super::thread::{Policy, scheduling_policy};
use crate::root::{Reader, Root};
use crate::tasks::{TASKS, Task, walk};
use punctual_record::UnreadReason;
use punctual_record::system::TaskAbove;

/// The number of tasks that are listed; all are counted.
const LISTED: usize = 64;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Competitors {
    /// The first of them, other programs' tasks before kernel threads.
    pub listed: Vec<TaskAbove>,
    /// The number of all.
    pub count: u64,
    /// The number of kernel threads among them.
    pub kernel_count: u64,
}

/// Finds tasks with at least `priority` that may run on one of `probed`. A task
/// of the same priority does not preempt a probe, but if it already runs it is
/// not preempted either. Our own threads don't count.
///
/// The stop-class threads `migration/N` show as `fifo` 99: they precede every
/// priority that can be requested, and run only for moments.
pub(super) fn above(reader: &mut Reader<'_>, probed: &[usize], priority: u32) -> Competitors {
    let root = reader.root;
    let own = root.is_live().then(std::process::id);
    let competing = |process, tid| {
        if own == Some(process) {
            return None;
        }
        competitor(root, process, tid, probed, priority)
    };
    match walk(root, competing) {
        Ok((found, is_whole)) => {
            if !is_whole {
                let limit = TASKS as u64;
                reader.note("/proc", UnreadReason::TooManyTasks { limit });
            }
            sorted(found)
        }
        Err(error) => {
            reader.note_error("/proc", &error);
            Competitors::default()
        }
    }
}

fn sorted(mut found: Vec<TaskAbove>) -> Competitors {
    found.sort_by(|a, b| {
        (a.kernel, std::cmp::Reverse(a.priority), a.tid).cmp(&(
            b.kernel,
            std::cmp::Reverse(b.priority),
            b.tid,
        ))
    });
    let count = found.len() as u64;
    let kernel_count = found.iter().filter(|task| task.kernel).count() as u64;
    found.truncate(LISTED);
    Competitors {
        listed: found,
        count,
        kernel_count,
    }
}

/// The task, if it may delay a probe. A task that ended meanwhile may not.
fn competitor(
    root: &Root,
    process: u32,
    tid: i32,
    probed: &[usize],
    priority: u32,
) -> Option<TaskAbove> {
    // A system call is far cheaper than a file of /proc, and nearly all tasks
    // are ordinary ones.
    if root.is_live() && !scheduling_policy(tid)?.is_real_time() {
        return None;
    }
    let task = Task::read(root, process, tid)?;
    let precedes = task.policy == Policy::Deadline || task.priority >= priority;
    if !task.policy.is_real_time() || !precedes {
        return None;
    }
    let allowed = task.allowed(root).ok()??;
    let mut cpus = probed.to_vec();
    cpus.retain(|cpu| allowed.contains(cpu));
    (!cpus.is_empty()).then(|| TaskAbove {
        tid,
        name: task.name,
        policy: task.policy.name().to_owned(),
        priority: task.priority,
        kernel: task.is_of_kernel,
        cpus,
    })
}
