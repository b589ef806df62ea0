//! Looks up the threads in a bill soon after the events; of a thread that has ended only what the events
//! say is known, and what its parent is.

use punctual_machine::Root;
use punctual_machine::survey::thread_owner::{
    group_weight, is_ancestor, is_part_of, since_boot_ns, thread_owner,
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
    complete(&Root::live(), all, until_ns, numbers);
}

/// Completes threads that still have their names, those with the largest share first.
pub(super) fn look_up_threads(threads: Vec<&mut Culprit>, until_ns: u64, numbers: &Numbers) {
    let named = threads.into_iter();
    let named = named.filter_map(|thread| Some((thread.name.clone()?, thread)));
    complete(&Root::live(), named.collect(), until_ns, numbers);
}

fn complete(root: &Root, all: Vec<(String, &mut Culprit)>, until_ns: u64, numbers: &Numbers) {
    let until_ns = since_boot_ns(root, until_ns).unwrap_or(u64::MAX);
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
        culprit.here = Some(tid).filter(|tid| *tid != culprit.tid);
        match thread_owner(root, tid) {
            Some(whose)
                if is_same(&task, &whose.name)
                    && !whose.is_later_than(until_ns)
                    && !whose.ended =>
            {
                culprit.pid = Some(whose.pid);
                culprit.start = whose.start;
                culprit.own = is_part_of(root, whose.pid, std::process::id());
                culprit.command = whose.command.or(culprit.command.take());
                culprit.group = whose.group;
            }
            _ => {
                culprit.ended = true;
                look_up_parent(root, culprit, until_ns);
            }
        }
        // The events have the path from the root of all groups, which is another one in a container.
        let group = culprit.group.as_deref().filter(|_| !culprit.ended);
        // Those that share a CPU by weights.
        let group = group.filter(|_| matches!(&*culprit.policy, "SCHED_OTHER" | "SCHED_BATCH"));
        culprit.weight = group.and_then(|group| group_weight(root, group));
    }
}

/// Whether the parent of a thread that has ended lives on and can be moved: threads of the kernel,
/// init, punctual and what it was started from can't.
fn look_up_parent(root: &Root, culprit: &mut Culprit, until_ns: u64) {
    let Some(parent) = culprit.parents.first_mut() else {
        return;
    };
    let tid = parent.tid.filter(|tid| *tid > KTHREADD);
    let whose = tid.and_then(|tid| thread_owner(root, tid)).filter(|whose| {
        is_same(&parent.name, &whose.name)
            && !whose.is_later_than(until_ns)
            && !whose.ended
            && whose.command.as_deref() != Some("")
            && !is_ancestor(root, whose.pid, std::process::id())
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use punctual_record::explanation::Ancestor;

    use super::*;

    /// A thread as `/proc` has it, in group `/app`.
    fn make(
        proc: &Path,
        tid: u32,
        parent: u32,
        (name, state, flags, command): (&str, char, u32, &str),
    ) {
        let folder = proc.join(tid.to_string());
        let zeros = "0 ".repeat(12);
        let stat = format!("{tid} ({name}) {state} {parent} 1 1 0 -1 {flags} {zeros} 77 0 0");
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("status", &*format!("Name:\t{name}\nTgid:\t{tid}\n")),
            ("stat", &stat),
            ("cmdline", command),
            ("cgroup", "0::/app\n"),
        ] {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }

    /// On a machine with thread 4712, which 4711 had started; this program was started from 4700.
    fn completed(
        parent: (u32, &str),
        thread: (&str, char, u32, &str),
        of_parent: (&str, char, u32, &str),
    ) -> Culprit {
        let machine = tempfile::tempdir().unwrap();
        let (proc, group) = (machine.path().join("proc"), "sys/fs/cgroup/app");
        let group = machine.path().join(group);
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("cpu.weight"), "500\n").unwrap();
        make(&proc, 4712, parent.0, thread);
        make(&proc, parent.0, 1, of_parent);
        make(
            &proc,
            std::process::id(),
            4700,
            ("punctual", 'S', 0, "punctual"),
        );
        let mut culprit = Culprit {
            tid: 4712,
            policy: "SCHED_OTHER".to_owned(),
            command: Some("gzip -9 a".to_owned()),
            group: Some("/app".to_owned()),
            parents: vec![Ancestor {
                name: parent.1.to_owned(),
                tid: Some(parent.0),
                start: None,
            }],
            ..Culprit::default()
        };
        let all = vec![("gzip".to_owned(), &mut culprit)];
        complete(
            &Root::recorded(machine.path()),
            all,
            u64::MAX,
            &Numbers::default(),
        );
        culprit
    }

    const SHELL: (&str, char, u32, &str) = ("job.sh", 'S', 0, "/bin/sh\0job.sh\0");

    #[test]
    fn a_thread_that_has_removed_its_command_line_has_not_ended() {
        let found = |state, flags| completed((4711, "job.sh"), ("gzip", state, flags, ""), SHELL);
        let lives = found('S', 0);
        assert_eq!(
            (lives.ended, lives.start, lives.weight),
            (false, Some(77), Some(500))
        );
        assert_eq!(lives.command.as_deref(), Some("gzip -9 a"));
        for (state, flags) in [('Z', 0), ('X', 0), ('R', 4)] {
            // Its group is one that the events named: not one of ours by that path.
            let ended = found(state, flags);
            assert_eq!((ended.ended, ended.start, ended.weight), (true, None, None));
        }
    }

    #[test]
    fn a_parent_is_moved_unless_it_is_the_kernels_or_our_own() {
        let start = |tid, of_parent: (&str, char, u32, &str)| {
            let ended = ("gzip", 'Z', 0, "");
            completed((tid, of_parent.0), ended, of_parent).parents[0].start
        };
        assert_eq!(start(4711, SHELL), Some(77));
        assert_eq!(start(4711, ("job.sh", 'Z', 0, "")), None);
        assert_eq!(start(4711, ("kworker/u8:3", 'I', 0x20_0000, "")), None);
        // The shell that this program was started from, too.
        assert_eq!(start(4700, ("bash", 'S', 0, "bash\0")), None);
    }
}
