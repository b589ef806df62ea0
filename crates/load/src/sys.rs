//! The raw system calls of the load room. Everything unsafe that more than
//! one generator needs is here, behind functions that are safe to call.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The exit status of a child that panicked, the one Rust programs use.
pub const PANICKED: i32 = 101;

/// The largest CPU number that an affinity mask can hold here.
const MAX_CPUS: usize = libc::CPU_SETSIZE as usize;

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its process id.
    pub pid: i32,
    /// The raw status that `waitpid` gave.
    pub status: i32,
}

impl Ended {
    /// Whether it left with status 0.
    pub fn success(self) -> bool {
        libc::WIFEXITED(self.status) && libc::WEXITSTATUS(self.status) == 0
    }

    /// The end in words: `exit status 1`, `signal 9 (SIGKILL: out of memory?)`.
    pub fn describe(self) -> String {
        if libc::WIFSIGNALED(self.status) {
            let signal = libc::WTERMSIG(self.status);
            return match signal {
                libc::SIGKILL => "killed by SIGKILL (out of memory, or somebody's kill -9)".into(),
                libc::SIGABRT => "it aborted (out of memory? is ulimit -v too low?)".into(),
                _ => format!("killed by signal {signal}"),
            };
        }
        match libc::WEXITSTATUS(self.status) {
            PANICKED => "it panicked".into(),
            code => format!("exit status {code}"),
        }
    }
}

/// The result of a call that gives a negative number when it fails.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Forks; the child runs `body` and ends with the status that it returns.
///
/// To be called while the process has one thread: a lock that another thread
/// held at that instant would stay locked in the child for ever.
pub fn fork_child(body: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: fork takes no pointer and the child gets its own copy of the
    // memory; that other threads are absent is the caller's promise above, and
    // breaking it can dead-lock but not corrupt.
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
/// `parent` is the parent's process id, read before the fork: if it is gone
/// already, the signal would never come, so this process ends itself.
pub fn die_with(parent: i32) {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and no pointer.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    if std::os::unix::process::parent_id() as i32 != parent {
        exit_now(1);
    }
}

/// Makes this process the one that orphaned descendants are handed to.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes an integer and no pointer.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) }).map(drop)
}

/// Gives this thread a name for `ps`, `top` and traces (15 bytes are kept).
pub fn set_name(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: the pointer is to a NUL-terminated string that outlives the
    // call; the kernel reads at most 16 bytes of it and stops at the NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Sets the timer slack of this thread.
pub fn set_timer_slack(slack: Duration) {
    // SAFETY: PR_SET_TIMERSLACK takes an integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.as_nanos() as libc::c_ulong) };
}

/// Makes this process the leader of a process group of its own.
pub fn new_process_group() -> io::Result<()> {
    // SAFETY: setpgid takes two integers; 0, 0 is the calling process.
    check(unsafe { libc::setpgid(0, 0) }).map(drop)
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
    // SAFETY: setpriority takes three integers; 0 is the calling process.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
}

fn empty_cpu_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

/// Lets this thread run on these CPUs, or on all that its cpuset allows.
pub fn set_affinity(cpus: Option<&[usize]>) -> io::Result<()> {
    let mut set = empty_cpu_set();
    let mut add = |cpu: usize| {
        // SAFETY: cpu is below CPU_SETSIZE, checked by both callers below.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    };
    match cpus {
        None => (0..MAX_CPUS).for_each(&mut add),
        Some(cpus) if cpus.iter().any(|&cpu| cpu >= MAX_CPUS) => {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Some(cpus) => cpus.iter().copied().for_each(&mut add),
    }
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the pointer is to a live set of exactly `size` bytes.
    check(unsafe { libc::sched_setaffinity(0, size, &set) }).map(drop)
}

/// The CPUs that this thread may run on, ascending.
pub fn affinity() -> io::Result<Vec<usize>> {
    let mut set = empty_cpu_set();
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the pointer is to a live set of exactly `size` bytes.
    check(unsafe { libc::sched_getaffinity(0, size, &mut set) })?;
    // SAFETY: cpu is below CPU_SETSIZE, so CPU_ISSET reads within the set.
    let on = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..MAX_CPUS).filter(on).collect())
}

/// Raises the soft limit of open files to the hard one.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that the kernel fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the pointer is to a live rlimit that is only read.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// Keeps this process and its children from leaving a core file behind.
pub fn leave_no_core() {
    let limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that is only read.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &limit) };
}

/// Whether this process may still map so many bytes. Where that is limited
/// (`ulimit -v`), a thread that gets no memory ends the process instead of
/// failing, so it is asked before.
pub fn has_room(bytes: usize) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that the kernel fills.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return true;
    }
    // Else the C library takes 64 MiB of addresses for each thread that allocates.
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
    let room = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if room == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the mapping was just made, has this length, and nobody else knows of it.
    unsafe { libc::munmap(room, bytes) };
    true
}

/// Sends a signal to a process, or (negative) to a process group.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Waits for a child: `pid` as in waitpid. `Ok(None)` when there are children
/// and none has ended (only without `block`); ECHILD when there are none.
pub fn wait(pid: i32, block: bool) -> io::Result<Option<Ended>> {
    let flags = if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: the pointer is to a live integer that the kernel fills.
        match check(unsafe { libc::waitpid(pid, &mut status, flags) }) {
            Ok(0) => return Ok(None),
            Ok(pid) => return Ok(Some(Ended { pid, status })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A descriptor that the kernel gave just now, or the error.
pub fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    check(fd)?;
    // SAFETY: the caller got this descriptor from the kernel just now, it is
    // valid (checked above), and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Anonymous memory behind a descriptor, closed on exec.
pub fn memfd(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the pointer is to a NUL-terminated string outliving the call.
    owned(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })
}

/// Makes descriptor number `to` mean what `from` means (also over exec).
pub fn redirect(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes two integers; `to` is 0, 1 or 2 at every call here,
    // which no owner in Rust ever closes.
    check(unsafe { libc::dup2(from.as_raw_fd(), to) }).map(drop)
}

/// Blocks these signals and gives a descriptor that reads them instead.
pub fn signals(wanted: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(wanted);
    mask_signals(libc::SIG_BLOCK, &set)?;
    // SAFETY: the pointer is to a live, initialised set that is only read.
    owned(unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })
}

/// No signal blocked.
pub fn unmask_signals() -> io::Result<()> {
    mask_signals(libc::SIG_SETMASK, &signal_set(&[]))
}

/// The next signal that a descriptor of [`signals`] has, if there is one.
pub fn read_signal(fd: BorrowedFd<'_>) -> Option<i32> {
    // SAFETY: signalfd_siginfo is plain integers, for which zero is valid.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the pointer is to a live structure of exactly `size` bytes, into
    // which the kernel writes whole entries.
    let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size) };
    (read == size as isize).then_some(info.ssi_signo as i32)
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigset_t is an array of integers, for which zero is valid.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set that the call initialises.
    unsafe { libc::sigemptyset(&mut set) };
    for &signal in signals {
        // SAFETY: the set was initialised above; a bad number gives EINVAL.
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

/// Waits until one of the descriptors is readable or hung up; which are.
pub fn poll<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timeout.map_or(-1, |t| t.as_millis().min(i32::MAX as u128) as i32);
    // SAFETY: the pointer is to N live entries, and N is what is passed.
    match check(unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, timeout) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(error) => Err(error),
        Ok(_) => Ok(polled.map(|entry| entry.revents != 0)),
    }
}

/// Sleeps while `word` holds `expected`, over process borders; may wake early.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word is live and aligned for the length of the call, the
    // time-out too; FUTEX_WAIT reads both and writes neither.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &timeout,
        )
    };
}

/// Wakes all that sleep on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE uses the address as a key and touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Processor time of all children that this process has waited for.
pub fn reaped_milliseconds() -> u64 {
    // SAFETY: rusage is plain integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that the kernel fills.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let milliseconds = |time: libc::timeval| time.tv_sec as u64 * 1000 + time.tv_usec as u64 / 1000;
    milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime)
}

/// Processor time of all threads that a process has and had, in nanoseconds; none of its
/// children's.
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

/// Drops what the page cache has of a file.
pub fn drop_cached(fd: BorrowedFd<'_>) -> io::Result<()> {
    let advice = libc::POSIX_FADV_DONTNEED;
    // SAFETY: posix_fadvise takes integers.
    match unsafe { libc::posix_fadvise(fd.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// This process no longer notices the signal, nor do the children that it forks.
pub fn ignore_signal(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN is no function of ours that could be called.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sleeps until a signal comes.
pub fn pause() {
    // SAFETY: pause takes nothing.
    unsafe { libc::pause() };
}

/// Page faults of this thread that needed no reading from a disk.
pub fn faults() -> u64 {
    // SAFETY: rusage is plain integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that the kernel fills.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_minflt as u64
}

/// An entry that watches a descriptor for input.
pub fn watched(fd: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Looks once at all descriptors; how many are ready.
pub fn poll_many(polled: &mut [libc::pollfd]) -> io::Result<u64> {
    // SAFETY: the pointer is to as many live entries as are passed.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    check(ready).map(|ready| ready as u64)
}
