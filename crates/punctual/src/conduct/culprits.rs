//! Looks up the threads in a bill soon after the events; of a thread that has ended only what the events
//! say is known, and what its parent is.

use punctual_machine::Root;
use punctual_machine::survey::thread_owner::{
    group_weight, is_part_of, since_boot_ns, thread_owner,
};
use punctual_record::explanation::{Bill, BillRow, Cause, Culprit, RowNote};
use punctual_trace::capture::numbers::Numbers;

/// Threads of one bill that are looked up, those with the largest share first. Each costs about
/// 50 µs.
const MOST: usize = 16;
/// The parent of the kernel's threads.
const KTHREADD: u32 = 2;

/// Completes the threads of a bill.
pub(super) fn look_up(bill: &mut Bill, numbers: &Numbers) {
    let until_ns = bill.due_ns.saturating_add(bill.latency_ns);
    look_up_rows(&mut bill.rows, until_ns, numbers);
}

/// Completes the threads of the rows of a bill that ends at an instant.
pub(super) fn look_up_rows(rows: &mut [BillRow], until_ns: u64, numbers: &Numbers) {
    let mut all: Vec<(String, &mut Culprit)> = rows
        .iter_mut()
        .flat_map(
            |BillRow {
                 cause, by, notes, ..
             }| {
                let task = task(cause);
                let noted = notes.iter_mut().filter_map(RowNote::thread_mut);
                by.iter_mut().chain(noted).filter_map(move |one| {
                    let name = one.name.clone().or_else(|| task.map(str::to_owned));
                    Some((name?, one))
                })
            },
        )
        .collect();
    all.sort_by_key(|(_, culprit)| std::cmp::Reverse(culprit.ns));
    complete(all, until_ns, numbers);
}

/// Completes threads that still have their names, those with the largest share first.
pub(super) fn look_up_threads(threads: Vec<&mut Culprit>, until_ns: u64, numbers: &Numbers) {
    let named = threads.into_iter();
    let named = named.filter_map(|thread| Some((thread.name.clone()?, thread)));
    complete(named.collect(), until_ns, numbers);
}

fn complete(all: Vec<(String, &mut Culprit)>, until_ns: u64, numbers: &Numbers) {
    let root = Root::live();
    let until_ns = since_boot_ns(&root, until_ns).unwrap_or(u64::MAX);
    for (index, (task, culprit)) in all.into_iter().enumerate() {
        let parents = culprit.parents.iter_mut().map(|it| &mut it.tid);
        for number in parents.chain([&mut culprit.pid]) {
            *number = number.and_then(|number| numbers.in_proc(number));
        }
        if index >= MOST {
            continue;
        }
        // A thread outside our PID namespace is not visible.
        let Some(tid) = numbers.in_proc(culprit.tid) else {
            continue;
        };
        match thread_owner(&root, tid) {
            Some(whose)
                if is_same(&task, &whose.name)
                    && !whose.is_later_than(until_ns)
                    // It had a command line, and has none as it ends.
                    && (whose.command.is_some() || culprit.command.is_none()) =>
            {
                culprit.pid = Some(whose.pid);
                culprit.here = Some(tid).filter(|tid| *tid != culprit.tid);
                culprit.start = whose.start;
                culprit.own = is_part_of(&root, whose.pid, std::process::id());
                culprit.command = whose.command;
                culprit.group = whose.group;
            }
            _ => {
                culprit.ended = true;
                look_up_parent(&root, culprit, until_ns);
            }
        }
        let group = culprit.group.as_deref();
        // Those that share a CPU by weights.
        let group = group.filter(|_| matches!(&*culprit.policy, "SCHED_OTHER" | "SCHED_BATCH"));
        culprit.weight = group.and_then(|group| group_weight(&root, group));
    }
}

/// Whether the parent of a thread that has ended lives on and can be moved: init, kthreadd and
/// punctual can't.
fn look_up_parent(root: &Root, culprit: &mut Culprit, until_ns: u64) {
    let Some(parent) = culprit.parents.first_mut() else {
        return;
    };
    let tid = parent.tid.filter(|tid| *tid > KTHREADD);
    let whose = tid.and_then(|tid| thread_owner(root, tid)).filter(|whose| {
        is_same(&parent.name, &whose.name)
            && !whose.is_later_than(until_ns)
            && !is_part_of(root, whose.pid, std::process::id())
    });
    parent.start = whose.and_then(|whose| whose.start);
}

/// Whether the thread with this ID still has this name. The kernel appends a worker's current work
/// to its name.
fn is_same(then: &str, now: &str) -> bool {
    then == now || then.starts_with("kworker/") && now.starts_with(then)
}

/// The name of the thread in a cause.
fn task(cause: &Cause) -> Option<&str> {
    match cause {
        Cause::IrqsOff { task, .. }
        | Cause::LateInterrupt { task }
        | Cause::PreemptOff { task, .. }
        | Cause::Thread { task, .. }
        | Cause::FairShare { task }
        | Cause::Throttled { task } => Some(task),
        _ => None,
    }
}
