//! Scheduling policies and CPUs of threads.

use std::ffi::{CStr, c_char, c_int};
use std::io::{self, ErrorKind};
use std::mem::offset_of;

use punctual_rt::advice::{Attempt, cpu_list};
use punctual_rt::affinity;
use punctual_rt::cpulist::{CpuList, CpuListError, text};
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::cancel::hold;

use crate::errno::{fail, null, refused, wrong_size};
use crate::versioned::{self, Versioned};

/// SCHED_OTHER: the time-sharing class; the default of a zeroed struct.
pub const PUNCTUAL_OTHER: c_int = 0;
/// SCHED_FIFO at a priority of 1 to 99.
pub const PUNCTUAL_FIFO: c_int = 1;
/// SCHED_RR at a priority of 1 to 99.
pub const PUNCTUAL_RR: c_int = 2;
/// SCHED_DEADLINE: a runtime within a deadline in each period.
pub const PUNCTUAL_DEADLINE: c_int = 6;

/// The scheduling policy and parameters of a thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_sched {
    /// sizeof(struct punctual_sched), filled in by the caller.
    pub struct_size: usize,
    /// PUNCTUAL_OTHER, _FIFO, _RR or _DEADLINE, which are the kernel's numbers.
    pub policy: c_int,
    /// 1 to 99 with FIFO and RR, 0 with the others.
    pub priority: c_int,
    /// DEADLINE: processor time in each period, ns, at least 1024; 0 with the others.
    pub runtime_ns: u64,
    /// DEADLINE: from the beginning of the period, ns.
    pub deadline_ns: u64,
    /// DEADLINE: ns; 0 means the deadline.
    pub period_ns: u64,
    /// 0.
    pub reserved: [u64; 4],
}

// SAFETY: only integers, the size first.
unsafe impl Versioned for punctual_sched {
    const LEAST: usize = offset_of!(Self, reserved);
}

pub(crate) const ODD: &CStr =
    c"expected a policy that is one of OTHER, FIFO, RR and DEADLINE; OTHER and DEADLINE have \
                     no priority, and FIFO and RR have no times";

/// The policy for C's numbers; parameters of another policy are an error, not ignored.
pub(crate) fn policy(number: c_int, priority: c_int, times: [u64; 3]) -> Option<Policy> {
    // A negative priority is refused like 0, with the text for a priority.
    let level = u32::try_from(priority).unwrap_or(0);
    let timeless = times == [0; 3];
    match number {
        PUNCTUAL_OTHER if priority == 0 && timeless => Some(Policy::Other),
        PUNCTUAL_FIFO if timeless => Some(Policy::Fifo(level)),
        PUNCTUAL_RR if timeless => Some(Policy::RoundRobin(level)),
        PUNCTUAL_DEADLINE if priority == 0 => Some(Policy::Deadline {
            runtime_ns: times[0],
            deadline_ns: times[1],
            period_ns: times[2],
        }),
        _ => None,
    }
}

/// Reads and checks the caller's struct, or fails with `errno` and a text.
///
/// # Safety
/// That of [`versioned::read`], or NULL.
unsafe fn requested(from: *const punctual_sched) -> Result<Policy, c_int> {
    if from.is_null() {
        return Err(null());
    }
    // SAFETY: not NULL, so by contract `struct_size` bytes are readable.
    let read = unsafe { versioned::read(from) }.filter(|read| read.reserved == [0; 4]);
    let Some(read) = read else {
        return Err(wrong_size());
    };
    let times = [read.runtime_ns, read.deadline_ns, read.period_ns];
    policy(read.policy, read.priority, times).ok_or_else(|| fail(libc::EINVAL, ODD))
}

/// The kernel returns EINVAL for a negative number, like for a wrong policy.
fn thread(tid: libc::pid_t) -> io::Result<libc::pid_t> {
    match tid {
        0.. => Ok(tid),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Sets the policy of the thread `tid`; 0 means the caller.
///
/// For setting up: one system call. -1 with errno, and punctual_last_error() says how to fix it:
/// EFAULT `sched` is NULL; EINVAL a number out of range, with DEADLINE runtime > deadline or
/// deadline > period; EPERM no permission, or DEADLINE for a thread that may not use all CPUs;
/// EBUSY DEADLINE is not admitted: too little bandwidth is left; ESRCH no such thread.
///
/// # Safety
/// `sched` is NULL, or `sched->struct_size` bytes can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_sched_set(
    tid: libc::pid_t,
    sched: *const punctual_sched,
) -> c_int {
    // SAFETY: by contract `sched` is NULL or readable for its size.
    let policy = match unsafe { requested(sched) } {
        Ok(policy) => policy,
        Err(failed) => return failed,
    };
    let set = thread(tid).and_then(|tid| sched::set(tid, policy));
    match set {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Policy(policy), &error),
    }
}

/// Returns the policy of the thread `tid`, 0 means the caller. `out->struct_size` is filled in by
/// the caller.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT `out` is NULL;
/// EINVAL its size is too small; ENOTSUP another policy (BATCH, IDLE, an extension); ESRCH no
/// such thread.
///
/// # Safety
/// `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_sched_get(tid: libc::pid_t, out: *mut punctual_sched) -> c_int {
    if out.is_null() {
        return null();
    }
    let policy = match thread(tid).and_then(sched::get) {
        Ok(Some(policy)) => policy,
        Ok(None) => {
            return fail(
                libc::ENOTSUP,
                c"the policy of the thread is not one of OTHER, FIFO, RR and DEADLINE",
            );
        }
        Err(error) => return refused(Attempt::Policy(Policy::Other), &error),
    };
    let (number, [runtime_ns, deadline_ns, period_ns]) = match policy {
        Policy::Other => (PUNCTUAL_OTHER, [0; 3]),
        Policy::Fifo(_) => (PUNCTUAL_FIFO, [0; 3]),
        Policy::RoundRobin(_) => (PUNCTUAL_RR, [0; 3]),
        Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } => (PUNCTUAL_DEADLINE, [runtime_ns, deadline_ns, period_ns]),
    };
    let found = punctual_sched {
        struct_size: 0,
        policy: number,
        priority: policy.priority() as c_int,
        runtime_ns,
        deadline_ns,
        period_ns,
        reserved: [0; 4],
    };
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, found) } {
        0
    } else {
        wrong_size()
    }
}

/// Sets policy and priority (OTHER, FIFO or RR) in the attributes for pthread_create(), and
/// PTHREAD_EXPLICIT_SCHED, without which they have no effect. POSIX attributes don't support
/// DEADLINE: use punctual_thread_create(), or punctual_sched_set() in the thread itself.
///
/// For setting up; no system call. -1 with errno: EFAULT a pointer is NULL; EINVAL a number
/// out of range; ENOTSUP DEADLINE.
///
/// # Safety
/// `attr` is NULL or initialised; `sched` as for punctual_sched_set().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_pthread_attr_sched(
    attr: *mut libc::pthread_attr_t,
    sched: *const punctual_sched,
) -> c_int {
    // SAFETY: by contract `sched` is NULL or readable for its size.
    let policy = match unsafe { requested(sched) } {
        Ok(policy) => policy,
        Err(failed) => return failed,
    };
    if attr.is_null() {
        return null();
    }
    // SAFETY: not NULL, so by contract `attr` is initialised.
    match unsafe { punctual_rt::thread::explicit_sched(attr, policy) } {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Policy(policy), &error),
    }
}

/// The CPUs that a list selects for a thread that may use `own` now.
///
/// # Safety
/// `list` is a string.
pub(crate) unsafe fn chosen(
    list: *const c_char,
    own: &[usize],
) -> Result<Vec<usize>, CpuListError> {
    // SAFETY: by contract `list` is a string.
    let text = unsafe { CStr::from_ptr(list) };
    let text = text.to_str().map_err(|_| CpuListError::Malformed)?;
    let list = text.parse::<CpuList>()?;
    match &list {
        CpuList::Except(_) => list.choose(own),
        // The thread's own CPUs exist; the others may exist.
        CpuList::Only(cpus) if cpus.iter().all(|cpu| own.contains(cpu)) => list.choose(own),
        _ => list.choose(&online()?),
    }
}

/// The CPUs that a process may be allowed to use. The cpuset of its first thread can't be read,
/// so this returns all CPUs that are online.
fn online() -> Result<Vec<usize>, CpuListError> {
    let list = match std::fs::read_to_string("/sys/devices/system/cpu/online") {
        Ok(text) => text.parse::<CpuList>(),
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(CpuListError::NoMemory),
        Err(_) => Ok(CpuList::All),
    };
    match list {
        Ok(CpuList::Only(cpus)) => Ok(cpus),
        Err(CpuListError::NoMemory) => Err(CpuListError::NoMemory),
        _ => affinity::get(0).map_err(|_| CpuListError::NoMemory),
    }
}

/// Sets the CPUs of the thread `tid`, 0 means the caller: "3-5,0", "0-7:2" (every second), "!1-2"
/// (all that it may use now except these), or "all" (that are online).
///
/// For setting up: it allocates. -1 with errno, and punctual_last_error() says how to fix it:
/// EFAULT `cpus` is NULL; EINVAL an invalid list, or a CPU that is offline or that it may not
/// use; ESRCH no such thread; EPERM another user's thread; EBUSY a DEADLINE thread would have too
/// little bandwidth left; ENOMEM.
///
/// # Safety
/// `cpus` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_affinity_set(tid: libc::pid_t, cpus: *const c_char) -> c_int {
    let _held = hold();
    if cpus.is_null() {
        return null();
    }
    let own = match affinity::get(tid) {
        Ok(own) => own,
        Err(error) => return refused(Attempt::Affinity, &error),
    };
    // SAFETY: by contract `cpus` is NULL or a string.
    let chosen = match unsafe { chosen(cpus, &own) } {
        Ok(chosen) => chosen,
        Err(error) => return fail(error.errno(), cpu_list(error)),
    };
    match affinity::set(tid, &chosen) {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Affinity, &error),
    }
}

/// Writes the CPUs that the thread `tid` may use, 0 means the caller, as a list like "0-3,8"
/// into the `size` bytes at `list`. Returns its length.
///
/// For setting up: it allocates. -1 with errno: EFAULT `list` is NULL; ERANGE it doesn't fit,
/// and nothing is written; ESRCH no such thread; ENOMEM.
///
/// # Safety
/// `list` is NULL, or `size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_affinity_get(
    tid: libc::pid_t,
    list: *mut c_char,
    size: usize,
) -> libc::ssize_t {
    if list.is_null() {
        return null() as libc::ssize_t;
    }
    let cpus = match affinity::get(tid) {
        Ok(cpus) => cpus,
        Err(error) => return refused(Attempt::Affinity, &error) as libc::ssize_t,
    };
    let text = match text(&cpus) {
        Ok(text) => text,
        Err(error) => return fail(error.errno(), cpu_list(error)) as libc::ssize_t,
    };
    // SAFETY: by contract `size` bytes at `list` are writable.
    unsafe { write_list(&text, list, size) }
}

/// Writes a list and a terminating 0 into the caller's buffer, and returns its length.
///
/// # Safety
/// `size` bytes at `list` are writable, and don't overlap the text.
pub(crate) unsafe fn write_list(text: &str, list: *mut c_char, size: usize) -> libc::ssize_t {
    if text.len() >= size {
        let words = c"the buffer has no room for the list: give it more bytes";
        return fail(libc::ERANGE, words) as libc::ssize_t;
    }
    // SAFETY: the text and the 0 fit in `size` bytes, and by contract don't overlap.
    unsafe { list.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
    // SAFETY: the length is less than `size`.
    let end = unsafe { list.add(text.len()) };
    // SAFETY: `length` is less than `size`, checked above.
    unsafe { end.write(0) };
    text.len() as libc::ssize_t
}
