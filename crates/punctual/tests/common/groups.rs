//! Control groups for tests.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::needs::{self, Absent};
use super::{Place, Running, program};

/// Makes a command join a control group before it executes the program.
pub fn join(command: &mut Command, group: &Path) {
    let tasks = group.join("cgroup.procs");
    let tasks = CString::new(tasks.as_os_str().as_bytes()).expect("no NUL");
    let enter = move || {
        // SAFETY: `tasks` is a C string that outlives the call.
        let file = unsafe { libc::open(tasks.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
        // SAFETY: one byte is read of a literal.
        let written = unsafe { libc::write(file, c"0".as_ptr().cast(), 1) };
        if written == 1 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: the closure only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

/// A group of the first version's `cpu` hierarchy; removed when dropped.
pub struct Group(pub PathBuf);

/// Whether groups can have real-time budgets here.
///
/// # Errors
/// What is missing for them.
pub fn real_time_groups() -> Result<(), Absent> {
    needs::root()?;
    let file = "/sys/fs/cgroup/cpu/cpu.rt_runtime_us";
    let found = needs::kernel_file(file);
    found.map_err(|_| Absent::kernel("CONFIG_RT_GROUP_SCHED with control groups of version 1"))
}

impl Group {
    /// A group with limits, given as files and values; the sum of all groups' real-time budgets
    /// must not exceed the global one.
    pub fn with(name: &str, files: &[(&str, &str)]) -> Option<Self> {
        let id = std::process::id();
        let group = Self(format!("/sys/fs/cgroup/cpu/punctual-{name}-{id}").into());
        std::fs::create_dir(&group.0).ok()?;
        for (file, value) in files {
            std::fs::write(group.0.join(file), value).ok()?;
        }
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begin = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begin.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Starts the program as a member of a group.
pub fn in_group(place: &Place, group: &Group, flags: &[&str]) -> Running {
    let mut command = place.command(program());
    command.args(flags);
    join(&mut command, &group.0);
    Running::start(command)
}
