//! The system calls of the loads, behind safe functions. rustix makes most of them; `unsafe` are those
//! that it lacks, and those for which it makes another system call than the load must exercise.

#![expect(
    unsafe_code,
    reason = "system calls that rustix lacks, or makes as other calls"
)]

use std::ffi::CString;
use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use rustix::thread::{CpuSet, futex};
use rustix::time::ClockId;

/// The exit status of a child that panicked, the one Rust programs use.
pub const PANICKED: i32 = 101;

/// How a child process ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Its process id.
    pub pid: i32,
    /// Its status from `waitpid`.
    status: WaitStatus,
}

impl Ended {
    /// Whether it exited with status 0.
    pub fn success(self) -> bool {
        self.status.exit_status() == Some(0)
    }
}

/// The end as text: `exit status 1`, `killed by signal 11`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status.terminating_signal() {
            Some(libc::SIGKILL) => f.write_str("killed by SIGKILL (out of memory, or kill -9)"),
            Some(libc::SIGABRT) => f.write_str("it aborted (out of memory? is ulimit -v too low?)"),
            Some(signal) => write!(f, "killed by signal {signal}"),
            None => match self.status.exit_status().unwrap_or(0) {
                PANICKED => f.write_str("it panicked"),
                code => write!(f, "exit status {code}"),
            },
        }
    }
}

/// The result of a call that returns a negative number on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Forks; the child runs `body` and ends with the status that it returns.
///
/// Must be called while the process has one thread: a lock that another thread holds would stay
/// locked in the child for ever.
pub fn fork_child(body: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: fork takes no pointer, and the child has its own copy of the memory. Beside other
    // threads the child could wait for ever for their locks, and still not corrupt memory.
    let pid = check(unsafe { libc::fork() })?;
    if pid != 0 {
        return Ok(pid);
    }
    let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
    exit_now(status)
}

/// Ends this process at once: no exit handlers, no flushed buffers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return; nothing is unwound.
    unsafe { libc::_exit(status) }
}

/// Makes the kernel kill this process when the thread that forked it ends.
/// `parent` is the parent's process ID, read before the fork: if the parent has already ended, the
/// signal would never come, so this process ends itself.
pub fn die_with(parent: i32) {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if std::os::unix::process::parent_id() as i32 != parent {
        exit_now(1);
    }
}

/// Makes this process the new parent of its orphaned descendants.
pub fn become_subreaper() -> io::Result<()> {
    // Any process ID enables it.
    Ok(rustix::process::set_child_subreaper(Some(Pid::INIT))?)
}

/// Gives this thread a name for `ps`, `top` and traces (15 bytes are kept).
pub fn set_name(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    let _ = rustix::thread::set_name(&name);
}

/// Sets the timer slack of this thread.
pub fn set_timer_slack(slack: Duration) {
    let nanoseconds = NonZeroU64::new(slack.as_nanos() as u64);
    let _ = rustix::thread::set_current_timer_slack(nanoseconds);
}

/// Makes this process the leader of a process group of its own.
pub fn new_process_group() -> io::Result<()> {
    Ok(rustix::process::setpgid(None, None)?)
}

/// Sets the scheduling policy (at real-time priority 0) of this process.
pub fn set_policy(policy: i32) -> io::Result<()> {
    // SAFETY: sched_param is plain integers, for which all zeroes is valid.
    let parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live sched_param that is only read.
    check(unsafe { libc::sched_setscheduler(0, policy, &parameter) }).map(drop)
}

/// The scheduling policy of this process, without the reset-on-fork flag.
pub fn policy() -> io::Result<i32> {
    // SAFETY: sched_getscheduler takes an integer; 0 is the calling thread.
    let policy = check(unsafe { libc::sched_getscheduler(0) })?;
    Ok(policy & !libc::SCHED_RESET_ON_FORK)
}

/// Sets the nice value of this process.
pub fn set_nice(nice: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// Lets this thread run on these CPUs, or on all that its cpuset allows.
pub fn set_affinity(cpus: Option<&[usize]>) -> io::Result<()> {
    let mut set = CpuSet::new();
    match cpus {
        None => (0..CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu)),
        Some(cpus) if cpus.iter().any(|&cpu| cpu >= CpuSet::MAX_CPU) => {
            return Err(rustix::io::Errno::INVAL.into());
        }
        Some(cpus) => cpus.iter().for_each(|&cpu| set.set(cpu)),
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The CPUs that this thread may run on, ascending.
pub fn affinity() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let on = |cpu: &usize| set.is_set(*cpu);
    Ok((0..CpuSet::MAX_CPU).filter(on).collect())
}

/// Raises the soft limit of open files to the hard one.
pub fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Disables core files for this process and its children.
pub fn leave_no_core() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = rustix::process::setrlimit(Resource::Core, none);
}

/// Whether this process may still map this many bytes. Under a limit (`ulimit -v`), a thread without
/// memory ends the process instead of failing, so this is checked before.
pub fn has_room(bytes: usize) -> bool {
    if rustix::process::getrlimit(Resource::As).current.is_none() {
        return true;
    }
    // Otherwise the C library maps 64 MiB of addresses for each thread that allocates.
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let anywhere = std::ptr::null_mut();
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
    let room = unsafe { rustix::mm::mmap_anonymous(anywhere, bytes, ProtFlags::empty(), flags) };
    let Ok(room) = room else {
        return false;
    };
    // SAFETY: the mapping was just made, has this length, and nobody else knows of it.
    let _ = unsafe { rustix::mm::munmap(room, bytes) };
    true
}

/// Kills a process with SIGKILL.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Waits for a child, or for any child. `Ok(None)` if there are children and none has ended (only
/// without `block`); ECHILD if there are none.
pub fn wait(child: Option<i32>, block: bool) -> io::Result<Option<Ended>> {
    let options = if block {
        WaitOptions::empty()
    } else {
        WaitOptions::NOHANG
    };
    let ended = rustix::io::retry_on_intr(|| match child.and_then(Pid::from_raw) {
        Some(child) => rustix::process::waitpid(Some(child), options),
        // Its waitpid without an ID waits only for children in our process group.
        None => rustix::process::wait(options),
    })?;
    Ok(ended.map(|(pid, status)| Ended {
        pid: pid.as_raw_nonzero().get(),
        status,
    }))
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    nanoseconds(rustix::time::clock_gettime(ClockId::Monotonic))
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A time as the kernel takes it.
pub fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Redirects all three standard descriptors to `from`.
pub fn redirect_all(from: BorrowedFd<'_>) -> io::Result<()> {
    rustix::stdio::dup2_stdin(from)?;
    rustix::stdio::dup2_stdout(from)?;
    redirect_errors(from)
}

/// Redirects standard error to `to`.
pub fn redirect_errors(to: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(to)?)
}

/// Blocks these signals and returns a descriptor that reads them instead.
pub fn signals(wanted: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(wanted);
    mask_signals(libc::SIG_BLOCK, &set)?;
    // SAFETY: the pointer is to a live, initialised set that is only read.
    let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd)?;
    // SAFETY: signalfd has just made this descriptor, checked above, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Unblocks all signals.
pub fn unmask_signals() -> io::Result<()> {
    mask_signals(libc::SIG_SETMASK, &signal_set(&[]))
}

/// The next signal from a descriptor of [`signals`], if there is one.
pub fn read_signal(fd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = [0; size_of::<libc::signalfd_siginfo>()];
    // The kernel writes whole entries, which begin with the number.
    let read = rustix::io::read(fd, &mut info).ok()?;
    let number = info.first_chunk().filter(|_| read == info.len())?;
    Some(i32::from_ne_bytes(*number))
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is an array of integers, for which zero is valid.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set that the call initialises.
    unsafe { libc::sigemptyset(&mut set) };
    for &signal in signals {
        // SAFETY: the set was initialised by sigemptyset; a bad number gives EINVAL.
        unsafe { libc::sigaddset(&mut set, signal) };
    }
    set
}

fn mask_signals(how: i32, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised and only read; no old mask is wanted.
    match unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Ignores the signal in this process and the children that it forks.
pub fn ignore_signal(signal: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN is no function of ours that could be called.
    match unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until one of the descriptors is readable or hung up; returns which are.
pub fn poll<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timeout.map(timespec);
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Err(rustix::io::Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polled.map(|entry| !entry.revents().is_empty())),
    }
}

/// An entry that watches a descriptor for input.
pub fn watched(fd: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Polls all descriptors once; returns how many are ready. With poll(2): that is the load, and rustix
/// uses ppoll(2).
pub fn poll_many(polled: &mut [libc::pollfd]) -> io::Result<u64> {
    // SAFETY: the pointer is to as many live entries as are passed.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    check(ready).map(|ready| ready as u64)
}

/// Waits until some descriptors of an epoll are ready; returns what was registered with them. With
/// epoll_wait(2): that is the load, and rustix uses epoll_pwait(2).
pub fn epoll_wait(epoll: &impl AsFd, events: &mut [libc::epoll_event]) -> io::Result<usize> {
    let epoll = epoll.as_fd().as_raw_fd();
    let most = events.len().min(i32::MAX as usize) as libc::c_int;
    // SAFETY: the pointer is to at least `most` live entries, which the kernel fills.
    match check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), most, -1) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        ready => ready.map(|ready| ready as usize),
    }
}

/// Sleeps while `word` holds `expected`, over process borders; may wake early.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = timespec(timeout);
    let _ = futex::wait(word, futex::Flags::empty(), expected, Some(&timeout));
}

/// Wakes all tasks that sleep on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

fn resources(of: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that the kernel fills.
    unsafe { libc::getrusage(of, &mut usage) };
    usage
}

/// Processor time of all children that this process has waited for.
pub fn reaped_milliseconds() -> u64 {
    let usage = resources(libc::RUSAGE_CHILDREN);
    let milliseconds = |time: libc::timeval| time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000;
    milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime)
}

/// Minor page faults of this thread.
pub fn faults() -> u64 {
    resources(libc::RUSAGE_THREAD).ru_minflt as u64
}

/// Processor time of all current and former threads of a process, in nanoseconds, without its
/// children.
pub fn processor_time(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a live integer that the call fills.
    if unsafe { libc::clock_getcpuclockid(pid, &mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec that the kernel fills; of a process that has
    // ended the call fails.
    check(unsafe { libc::clock_gettime(clock, &mut time) }).ok()?;
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_in_a_group_of_its_own_is_waited_for_too() {
        let mut command = Command::new("/bin/sh");
        let child = command.args(["-c", "exit 7"]).process_group(0).spawn();
        let child = child.expect("a child").id() as i32;
        // No other test here has children.
        let ended = wait(None, true).expect("a child").expect("its end");
        assert_eq!((ended.pid, ended.success()), (child, false));
        assert_eq!(ended.to_string(), "exit status 7");
        assert!(wait(None, false).is_err(), "no child is left");
        let mut command = Command::new("/bin/sh");
        let child = command.args(["-c", "kill -KILL $$"]).spawn();
        let child = child.expect("a child").id() as i32;
        let ended = wait(Some(child), true).expect("a child").expect("its end");
        assert!(ended.to_string().contains("SIGKILL"), "{ended}");
    }
}
