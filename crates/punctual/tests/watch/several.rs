//! Watches of several programs, which come and go: each wake-up of watched ones is
//! counted, and none of others.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_record::Run;
use punctual_record::watch::{Following, Subject, WatchedProgram, WatchedThread};

use super::common::needs::Absent;
use super::common::{Place, Running, copy_program};
use super::exact::{counted_but_for_unseen, times};
use super::known::{Known, family, watch};

fn threads(run: &Run) -> &[WatchedThread] {
    &run.watch.as_ref().expect("a watch").threads
}

fn programs(run: &Run) -> (Following, &[WatchedProgram]) {
    match &run.watch.as_ref().expect("a watch").subject {
        Subject::Programs {
            following,
            programs,
            unnamed,
            refused,
            ..
        } => {
            assert_eq!((*unnamed, *refused), (0, 0));
            (*following, programs)
        }
        other => panic!("{other:?}"),
    }
}

/// The cycles of a thread: sleeps, and those whose timer expired before it slept.
fn cycles(thread: &WatchedThread) -> u64 {
    let by_timer: u64 = thread.calls.iter().map(|call| call.by_timer).sum();
    let unslept = thread.by_timer.count.saturating_sub(by_timer);
    times(thread, "clock_nanosleep") + unslept
}

/// The threads of the program with a number.
fn of_program(run: &Run, pid: u32) -> Vec<&WatchedThread> {
    let of_it = |thread: &&WatchedThread| thread.program == Some(pid);
    threads(run).iter().filter(of_it).collect()
}

#[track_caller]
fn one(run: &Run, pid: u32) -> &WatchedThread {
    match of_program(run, pid)[..] {
        [one] => one,
        ref others => panic!("{} threads of {pid}: {:?}", others.len(), threads(run)),
    }
}

fn end(running: Running, place: &Place) -> Run {
    running.signal(libc::SIGINT);
    let ended = running.end();
    assert!(ended.status.success(), "{}", ended.stderr);
    let run = place.run_of();
    assert!(run.threads.iter().all(|thread| thread.lost == 0));
    run
}

pub fn a_tree_is_followed() {
    let place = Place::new();
    let mut known = Known::start(family(), &["150", "90", "60"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "--children", "-q", "--no-explain"]);
    known.go();
    // Again: two more programs.
    known.go();
    let run = end(running, &place);
    let (following, programs) = programs(&run);
    assert_eq!((following, programs.len()), (Following::Children, 5));
    assert_eq!(programs.iter().filter(|program| program.gone).count(), 4);
    let own = one(&run, known.pid);
    counted_but_for_unseen(cycles(own), 300, own);
    for (name, expected) in [("rt-gen-1", 90), ("rt-gen-2", 60)] {
        let named: Vec<_> = threads(&run)
            .iter()
            .filter(|thread| thread.task.name == name)
            .collect();
        assert_eq!(named.len(), 2, "{name}");
        for thread in named {
            assert!(thread.ended && thread.program.is_some());
            counted_but_for_unseen(cycles(thread), expected, thread);
        }
    }
}

pub fn programs_of_a_name_are_followed() {
    let (place, own) = (Place::new(), tempfile::tempdir().expect("a directory"));
    // A name that only this test uses.
    let name = format!("known-{}", std::process::id());
    let program = own.path().join(&name);
    copy_program(family(), &program);
    let mut before = Known::start(&program, &["100"]);
    let mut other = Known::start(family(), &["50"]);
    let running = watch(&place, &["--comm", &name, "-q", "--no-explain"]);
    let mut later = Known::start(&program, &["70"]);
    before.go();
    other.go();
    later.go();
    let run = end(running, &place);
    let (following, programs) = programs(&run);
    let mut numbers: Vec<u32> = programs.iter().map(|program| program.pid).collect();
    numbers.sort_unstable();
    let mut expected = [before.pid, later.pid];
    expected.sort_unstable();
    assert_eq!((following, &*numbers), (Following::Name, &expected[..]));
    for (known, expected) in [(&before, 100), (&later, 70)] {
        let thread = one(&run, known.pid);
        counted_but_for_unseen(cycles(thread), expected, thread);
    }
    assert_eq!(threads(&run).len(), 2);
}

/// A control group, removed when dropped.
struct Own(PathBuf);

impl Own {
    /// In a hierarchy that accepts real-time threads.
    fn make(name: &str) -> Result<Self, Absent> {
        let name = format!("{name}-{}", std::process::id());
        let mounts = [
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/freezer",
            "/tmp/groups",
        ];
        let mut absent = Absent::kernel("control groups, mounted");
        for mount in mounts.map(Path::new) {
            if !mount.join("cgroup.procs").exists() {
                continue;
            }
            let group = mount.join(&name);
            match fs::create_dir(&group) {
                Ok(()) => return Ok(Self(group)),
                Err(error) => absent = Absent::refused(&group.display().to_string(), error),
            }
        }
        Err(absent)
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("root may");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Or why no group is available.
pub fn programs_that_join_and_leave_a_group_are_followed() -> Result<(), Absent> {
    let group = Own::make("punctual-watch")?;
    let inner = Own(group.0.join("inner"));
    fs::create_dir(&inner.0).expect("a group within");
    let place = Place::new();
    let mut stays = Known::start(family(), &["100", "40"]);
    let mut leaves = Known::start(family(), &["70"]);
    let mut joins = Known::start(family(), &["30"]);
    group.take(stays.pid);
    inner.take(leaves.pid);
    // A part of its path.
    let name = group
        .0
        .file_name()
        .and_then(|it| it.to_str())
        .expect("a name");
    let running = watch(&place, &["--cgroup", name, "-q", "--no-explain"]);
    stays.go();
    leaves.go();
    joins.go();
    let above = Own(group.0.parent().expect("a mount").to_owned());
    above.take(leaves.pid);
    std::mem::forget(above);
    group.take(joins.pid);
    // As often as before: the cycles of `leaves` count no more, and those of `joins` do.
    leaves.go();
    joins.go();
    let run = end(running, &place);
    let (following, programs) = programs(&run);
    assert_eq!(following, Following::Cgroup);
    let pids: Vec<u32> = programs.iter().map(|program| program.pid).collect();
    assert_eq!(pids.len(), 4, "{pids:?}");
    for (known, expected) in [(&stays, 100), (&leaves, 70), (&joins, 30)] {
        let thread = one(&run, known.pid);
        counted_but_for_unseen(cycles(thread), expected, thread);
    }
    let child = threads(&run).iter().find(|it| it.task.name == "rt-gen-1");
    let child = child.expect("the child that was made in the group");
    counted_but_for_unseen(cycles(child), 40, child);
    drop((stays, leaves, joins));
    Ok(())
}
