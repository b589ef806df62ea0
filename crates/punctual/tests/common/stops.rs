//! Stops programs: with freezers and debuggers.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::until;

/// A freezer of control groups: its hierarchy, the file that freezes, the value to write, and
/// the file that reports when everything is frozen.
pub struct Freezer {
    hierarchy: &'static str,
    file: &'static str,
    freeze: &'static str,
    thaw: &'static str,
    says: (&'static str, &'static str),
}

const fn of_version_2(hierarchy: &'static str) -> Freezer {
    Freezer {
        hierarchy,
        file: "cgroup.freeze",
        freeze: "1",
        thaw: "0",
        says: ("cgroup.events", "frozen 1"),
    }
}

/// Where freezers may be mounted.
pub const FREEZERS: [Freezer; 3] = [
    Freezer {
        hierarchy: "/sys/fs/cgroup/freezer",
        file: "freezer.state",
        freeze: "FROZEN",
        thaw: "THAWED",
        says: ("freezer.state", "FROZEN"),
    },
    of_version_2("/sys/fs/cgroup/unified"),
    of_version_2("/sys/fs/cgroup"),
];

impl Freezer {
    /// A group of our own, if the freezer is mounted.
    pub fn group(&self) -> Option<Group<'_>> {
        let path = Path::new(self.hierarchy).join(format!("punctual-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Group(self, path);
        group.1.join(self.file).exists().then_some(group)
    }
}

/// A group of a mounted control group hierarchy; removed when dropped.
pub struct Group<'f>(&'f Freezer, PathBuf);

impl Group<'_> {
    fn put(&self, file: &str, text: &str) {
        fs::write(self.1.join(file), text).expect("a file of the group");
    }

    /// Adds a process.
    pub fn add(&self, pid: u32) {
        self.put("cgroup.procs", &pid.to_string());
    }

    /// Starts freezing.
    pub fn freeze(&self) {
        self.put(self.0.file, self.0.freeze);
    }

    /// Waits until everything is frozen.
    pub fn await_frozen(&self) {
        let (file, text) = self.0.says;
        let says = || fs::read_to_string(self.1.join(file)).is_ok_and(|it| it.contains(text));
        until("the freezer", says);
    }

    /// Thaws the group.
    pub fn thaw(&self) {
        self.put(self.0.file, self.0.thaw);
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        let begin = Instant::now();
        while fs::remove_dir(&self.1).is_err() && begin.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until every thread of a process is stopped. SIGSTOP is pending until a thread of the process
/// takes it, which on a busy machine may be long after it was sent; SIGCONT before that takes it back.
pub fn await_stopped(pid: u32) {
    let is_stopped = |path: PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
        state.is_some_and(|rest| rest.starts_with('T'))
    };
    let tasks = || fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    until("the stop", || {
        tasks().flatten().all(|task| is_stopped(task.path()))
    });
}

/// Stops one thread as a debugger does.
pub fn trace(tid: i32, length: Duration) -> bool {
    // SAFETY: PTRACE_SEIZE takes a thread id and no memory of ours.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0, 0) };
    if seized != 0 {
        return false;
    }
    let mut status = 0;
    // SAFETY: PTRACE_INTERRUPT takes the id of a thread that this one traces, and no memory.
    unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0) };
    // SAFETY: `status` is a valid int that outlives the call.
    unsafe { libc::waitpid(tid, &mut status, libc::__WALL) };
    sleep(length);
    // SAFETY: the thread is stopped and traced by the calling thread.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0, 0) == 0 }
}
