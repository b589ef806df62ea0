//! Tasks that may delay a probe: with a real-time priority equal to its own or higher.

use super::cpus::parse_kernel;
use super::thread::{Policy, scheduling_policy};
use crate::root::{Reader, decimal};
use punctual_record::UnreadReason;
use punctual_record::proc_stat::Stat;
use punctual_record::system::TaskAbove;

/// The number of tasks that are listed; all are counted.
const LISTED: usize = 64;

/// The number of tasks that are examined in detail.
const LOOKED_AT: usize = 4096;

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
    let mut found = Vec::new();
    let own = if reader.root.is_live() {
        std::process::id()
    } else {
        0
    };
    let processes = match reader.root.names("/proc") {
        Ok(names) => names,
        Err(error) => {
            reader.note_error("/proc", &error);
            return Competitors::default();
        }
    };
    for process in processes.iter().filter_map(|name| decimal::<u32>(name)) {
        if process == own {
            continue;
        }
        for thread in reader.root.numbered(&format!("/proc/{process}/task"), "") {
            if found.len() >= LOOKED_AT {
                let limit = LOOKED_AT as u64;
                reader.note("/proc", UnreadReason::TooManyTasks { limit });
                return sorted(found);
            }
            if let Some(task) = competitor(reader, process, thread, probed, priority) {
                found.push(task);
            }
        }
    }
    sorted(found)
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
    reader: &Reader<'_>,
    process: u32,
    thread: usize,
    probed: &[usize],
    priority: u32,
) -> Option<TaskAbove> {
    let tid = i32::try_from(thread).ok()?;
    // A system call is far cheaper than a file of /proc, and nearly all tasks
    // are ordinary ones.
    if reader.root.is_live() && !scheduling_policy(tid)?.is_real_time() {
        return None;
    }
    let directory = format!("/proc/{process}/task/{thread}");
    let mut task = parse_stat(&reader.root.text(&format!("{directory}/stat")).ok()?)?;
    let deadline = task.policy == Policy::Deadline.name();
    if !deadline && task.priority < priority {
        return None;
    }
    let status = reader.root.text(&format!("{directory}/status")).ok()?;
    let allowed = parse_kernel(punctual_record::proc_status::value(
        &status,
        "Cpus_allowed_list",
    )?)
    .ok()?;
    task.tid = tid;
    task.cpus = probed
        .iter()
        .copied()
        .filter(|cpu| allowed.contains(cpu))
        .collect();
    (!task.cpus.is_empty()).then_some(task)
}

/// A line of `/proc/PID/task/TID/stat`, if it is a real-time task's.
fn parse_stat(line: &str) -> Option<TaskAbove> {
    let stat = Stat::parse(line)?;
    let policy = Policy::from_number(u32::try_from(stat.count(41)?).ok()?);
    policy.is_real_time().then(|| TaskAbove {
        tid: 0,
        name: stat.name.to_owned(),
        policy: policy.name().to_owned(),
        priority: stat
            .count(40)
            .and_then(|priority| u32::try_from(priority).ok())
            .unwrap_or(0),
        kernel: stat.is_of_kernel(),
        cpus: Vec::new(),
    })
}
