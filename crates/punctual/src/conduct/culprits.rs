//! Whose the threads in a bill are, read soon after: those that have ended are known by what the
//! events say.

use crate::record::explanation::{Bill, BillRow, Cause, Culprit};
use crate::system::Root;
use crate::system::whose::whose;
use crate::trace::capture::numbers::Numbers;

/// Threads of one bill that are looked up: the dearest. Each takes some 50 µs.
const MOST: usize = 16;

/// Completes the threads of a bill.
pub(super) fn look_up(bill: &mut Bill, numbers: &Numbers) {
    let mut all: Vec<(String, &mut Culprit)> = bill
        .rows
        .iter_mut()
        .flat_map(|BillRow { cause, by, .. }| {
            let task = task(cause);
            by.iter_mut().filter_map(move |one| {
                let name = one.name.clone().or_else(|| task.map(str::to_owned));
                Some((name?, one))
            })
        })
        .collect();
    all.sort_by_key(|(_, culprit)| std::cmp::Reverse(culprit.ns));
    complete(all, numbers);
}

/// Completes threads that have their names, the dearest first.
pub(super) fn look_up_threads(threads: Vec<&mut Culprit>, numbers: &Numbers) {
    let named = threads.into_iter();
    let named = named.filter_map(|thread| Some((thread.name.clone()?, thread)));
    complete(named.collect(), numbers);
}

fn complete(all: Vec<(String, &mut Culprit)>, numbers: &Numbers) {
    let root = Root::live();
    for (task, culprit) in all.into_iter().take(MOST) {
        // One outside of our PID namespace can't be seen.
        let Some(tid) = numbers.in_proc(culprit.tid) else {
            continue;
        };
        match whose(&root, tid) {
            Some(whose) if is_same(&task, &whose.name) => {
                culprit.pid = Some(whose.pid);
                culprit.command = whose.command;
                culprit.group = whose.group;
            }
            _ => culprit.ended = true,
        }
    }
}

/// Whether a thread that was called so still is the one of that number. The kernel appends to the
/// name of a worker what it works at.
fn is_same(then: &str, now: &str) -> bool {
    then == now || then.starts_with("kworker/") && now.starts_with(then)
}

/// The name of the thread that a cause is about.
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
