//! Thread attributes in the kernel: identity, scheduling, CPUs, memory, usage.

use std::io;

use super::{check, check_returned, tsan};

/// The kernel's `struct sched_attr` in its first published size (48 bytes).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedAttr {
    /// Size of this struct.
    pub size: u32,
    /// SCHED_*.
    pub policy: u32,
    /// SCHED_FLAG_*.
    pub flags: u64,
    /// Nice value under SCHED_OTHER and SCHED_BATCH.
    pub nice: i32,
    /// Priority under SCHED_FIFO and SCHED_RR.
    pub priority: u32,
    /// SCHED_DEADLINE, ns.
    pub runtime: u64,
    /// SCHED_DEADLINE, ns.
    pub deadline: u64,
    /// SCHED_DEADLINE, ns.
    pub period: u64,
}

/// Thread id of the calling thread. Real-time safe; one system call.
#[must_use]
pub fn current_tid() -> libc::pid_t {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::gettid() }
}

/// Sets the scheduling policy and parameters of a thread (0: the caller). One system call.
///
/// # Errors
/// EPERM without permission (CAP_SYS_NICE, RLIMIT_RTPRIO, a real-time group without runtime),
/// EINVAL for parameters out of range, EBUSY when SCHED_DEADLINE's admission test refuses, ESRCH
/// for a dead thread.
pub fn set_scheduling(tid: libc::pid_t, attr: &SchedAttr) -> io::Result<()> {
    // SAFETY: the kernel reads `size` bytes of a live struct, and size is set to its own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            tid,
            std::ptr::from_ref(attr),
            0 as libc::c_uint,
        )
    };
    check(result as libc::c_int).map(drop)
}

/// Returns the scheduling policy and parameters of a thread (0: the caller). One system call.
///
/// # Errors
/// ESRCH for a dead thread.
pub fn scheduling(tid: libc::pid_t) -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes into a live struct of that size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            tid,
            std::ptr::from_mut(&mut attr),
            size,
            0 as libc::c_uint,
        )
    };
    check(result as libc::c_int)?;
    Ok(attr)
}

/// Words of a CPU mask for 8,192 CPUs, the kernel's maximum.
pub const CPU_MASK_WORDS: usize = 128;

/// A CPU mask in the kernel's format.
pub type CpuMask = [u64; CPU_MASK_WORDS];

/// Sets the CPUs of a thread (0: the caller). One system call.
///
/// # Errors
/// EINVAL when the thread may use no CPU of the mask, ESRCH for a dead thread.
pub fn set_affinity(tid: libc::pid_t, mask: &CpuMask) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of_val(mask)` bytes of a live array.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid,
            size_of_val(mask),
            mask.as_ptr(),
        )
    };
    check(result as libc::c_int).map(drop)
}

/// Returns the CPUs of a thread (0: the caller). One system call.
///
/// # Errors
/// ESRCH for a dead thread.
pub fn affinity(tid: libc::pid_t) -> io::Result<CpuMask> {
    let mut mask = [0u64; CPU_MASK_WORDS];
    // SAFETY: the kernel writes at most `size_of_val(&mask)` bytes into a live array.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            tid,
            size_of_val(&mask),
            mask.as_mut_ptr(),
        )
    };
    check(result as libc::c_int)?;
    Ok(mask)
}

/// Number of the CPU that the caller runs on. Real-time safe.
#[must_use]
pub fn current_cpu() -> usize {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

/// Locks memory; `flags` are MCL_*. Not real-time safe: faults in everything.
///
/// # Errors
/// EPERM without CAP_IPC_LOCK and with a limit of 0, ENOMEM above RLIMIT_MEMLOCK.
pub fn lock_all_memory(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// Undoes [`lock_all_memory`]. Not real-time safe.
///
/// # Errors
/// None in practice.
pub fn unlock_all_memory() -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::munlockall() }).map(drop)
}

/// Resources used by the calling thread. Real-time safe; one system call.
///
/// # Errors
/// None in practice.
pub fn thread_usage() -> io::Result<libc::rusage> {
    usage(libc::RUSAGE_THREAD)
}

/// Resources used by the process. One system call.
///
/// # Errors
/// None in practice.
pub fn process_usage() -> io::Result<libc::rusage> {
    usage(libc::RUSAGE_SELF)
}

fn usage(who: libc::c_int) -> io::Result<libc::rusage> {
    // SAFETY: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is live and writable.
    check(unsafe { libc::getrusage(who, &mut usage) })?;
    Ok(usage)
}

/// RLIMIT_RTTIME in µs, soft and hard; `None` is unlimited. One system call.
///
/// # Errors
/// None in practice.
pub fn rt_time_limit() -> io::Result<(Option<u64>, Option<u64>)> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is live and writable, and the kernel writes one rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit) })?;
    let bound = |value: libc::rlim_t| (value != libc::RLIM_INFINITY).then_some(value);
    Ok((bound(limit.rlim_cur), bound(limit.rlim_max)))
}

/// Sets RLIMIT_RTTIME in µs, soft and hard; `None` is unlimited. One system call.
///
/// # Errors
/// EPERM above the hard limit without CAP_SYS_RESOURCE, EINVAL when the soft limit is above the
/// hard limit.
pub fn set_rt_time_limit(soft_us: Option<u64>, hard_us: Option<u64>) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft_us.unwrap_or(libc::RLIM_INFINITY),
        rlim_max: hard_us.unwrap_or(libc::RLIM_INFINITY),
    };
    // SAFETY: the kernel reads one live rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &limit) }).map(drop)
}

/// The part of a thread's name that the kernel keeps: 15 bytes and a 0.
#[must_use]
pub fn kept_name(name: &[u8]) -> [u8; 16] {
    let mut kept = [0; 16];
    for (to, from) in kept.iter_mut().take(15).zip(name) {
        *to = *from;
    }
    kept
}

/// Names the calling thread; the kernel keeps 15 bytes.
///
/// # Errors
/// None in practice: longer names are cut.
pub fn name_current_thread(name: &str) -> io::Result<()> {
    give_name(&kept_name(name.as_bytes()))
}

/// Names the calling thread, up to the first byte that is 0. One system call.
///
/// # Errors
/// None in practice.
pub fn give_name(name: &[u8; 16]) -> io::Result<()> {
    // SAFETY: the kernel reads up to a 0 or the 16th byte, and the array outlives the call.
    check(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }).map(drop)
}

/// Sets the nice value of the calling thread, −20 to 19 (on Linux it is per thread, not per
/// process).
///
/// # Errors
/// EACCES when it is lowered without permission.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes no pointers; 0 is the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, nice) }).map(drop)
}

/// Sets the timer slack of the calling thread; 1 ns is the minimum. SCHED_FIFO, RR and DEADLINE
/// have none, whatever is set here.
///
/// # Errors
/// None in practice.
pub fn set_timer_slack(ns: u64) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns as libc::c_ulong) }).map(drop)
}

/// The name of a scheduling policy number in this project.
#[must_use]
pub fn policy_name(policy: u32) -> &'static str {
    match policy as libc::c_int {
        libc::SCHED_OTHER => "other",
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_DEADLINE => "deadline",
        _ => "unknown",
    }
}

/// Sets the policy of a thread to SCHED_OTHER. Real-time safe; one system call.
///
/// # Errors
/// EPERM, ESRCH.
pub fn make_other(tid: libc::pid_t) -> io::Result<()> {
    // The older call keeps the nice value, which `sched_getattr` doesn't return for a real-time
    // thread.
    let priority: libc::c_int = 0;
    // SAFETY: the kernel reads the one number of a live `struct sched_param`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            tid,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The kernel's thread id of a thread of this process. No system call.
///
/// # Safety
/// The thread was not yet joined.
#[must_use]
pub unsafe fn tid_of(thread: libc::pthread_t) -> libc::pid_t {
    let mut clock = 0;
    // The thread needn't have run: the C library knows its id from the creation, and the id of its CPU
    // clock contains it: ~tid << 3, and 3 bits of kind (include/linux/posix-timers.h).
    // SAFETY: by contract the thread was not yet joined; the pointer is to a live local.
    unsafe { libc::pthread_getcpuclockid(thread, &mut clock) };
    !(clock >> 3)
}

/// Joins a thread made with `pthread_create` and returns what its function returned.
///
/// # Safety
/// This process created `thread` joinable, and joins it once.
///
/// # Errors
/// EDEADLK when a thread joins itself.
pub unsafe fn join(thread: libc::pthread_t) -> io::Result<*mut libc::c_void> {
    let mut result = std::ptr::null_mut();
    // SAFETY: by contract joinable and joined once; the result is written to a live local.
    check_returned(unsafe { libc::pthread_join(thread, &mut result) })?;
    Ok(result)
}

/// Like [`join`], without waiting.
///
/// # Safety
/// Those of [`join`].
///
/// # Errors
/// EBUSY when the thread has not ended.
pub unsafe fn try_join(thread: libc::pthread_t) -> io::Result<*mut libc::c_void> {
    let mut result = std::ptr::null_mut();
    // SAFETY: by contract joinable and joined once; the result is written to a live local.
    check_returned(unsafe { libc::pthread_tryjoin_np(thread, &mut result) })?;
    Ok(result)
}

unsafe extern "C" {
    /// Since glibc 2.31; the libc crate doesn't declare it.
    fn pthread_clockjoin_np(
        thread: libc::pthread_t,
        result: *mut *mut libc::c_void,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> libc::c_int;
}

/// Like [`join`], but waits until an instant of CLOCK_MONOTONIC at most, in ns.
///
/// # Safety
/// Those of [`join`].
///
/// # Errors
/// ETIMEDOUT when the thread has not ended by then; EDEADLK when a thread joins itself.
pub unsafe fn join_until(thread: libc::pthread_t, at_ns: u64) -> io::Result<*mut libc::c_void> {
    if tsan::watches() {
        // SAFETY: by contract joinable and joined once.
        return unsafe { join_by_looking(thread, at_ns) };
    }
    let until = super::time::timespec(at_ns);
    let mut result = std::ptr::null_mut();
    // SAFETY: by contract joinable and joined once; the result and the time are live locals.
    let joined =
        unsafe { pthread_clockjoin_np(thread, &mut result, libc::CLOCK_MONOTONIC, &until) };
    check_returned(joined)?;
    Ok(result)
}

/// Implements [`join_until`] by polling with calls that ThreadSanitizer knows: gcc 12 and clang
/// 14 don't know `pthread_clockjoin_np`, so they don't see the join, and end the program at the
/// next thread with the same id.
///
/// # Safety
/// Those of [`join`].
#[cold]
unsafe fn join_by_looking(thread: libc::pthread_t, at_ns: u64) -> io::Result<*mut libc::c_void> {
    // SAFETY: takes nothing.
    if thread == unsafe { libc::pthread_self() } {
        return Err(io::Error::from_raw_os_error(libc::EDEADLK));
    }
    loop {
        // SAFETY: by contract joinable and joined once.
        let tried = unsafe { try_join(thread) };
        if !matches!(&tried, Err(error) if error.raw_os_error() == Some(libc::EBUSY)) {
            return tried;
        }
        if super::time::monotonic_now() >= at_ns {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
