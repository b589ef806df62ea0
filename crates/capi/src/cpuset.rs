//! Processor sets.

use std::ffi::{CStr, c_char, c_int, c_uint};

use punctual_rt::cpuset::{Cpuset, CpusetError, Cpusets};
use punctual_rt::sys::cancel::hold;

use crate::cpus::{NotCpus, numbers};
use crate::errno::{fail, null};
use crate::sched::write_list;

#[cold]
fn refused(error: CpusetError) -> c_int {
    fail(error.errno(), error.advice())
}

/// Returns 0 or -1, and writes the reason of an error into the caller's buffer.
///
/// # Safety
/// `reason` is NULL or has `room` bytes.
unsafe fn answer(done: Result<(), CpusetError>, reason: *mut c_char, room: usize) -> c_int {
    let text = done.as_ref().err().map(ToString::to_string);
    if !reason.is_null() && room > 0 {
        let text = text.unwrap_or_default();
        let length = text.len().min(room - 1);
        // SAFETY: `length` is less than `room`, and the text has at least `length` bytes.
        unsafe { reason.copy_from_nonoverlapping(text.as_ptr().cast(), length) };
        // SAFETY: `length` is less than `room`, so the 0 at the end has a place.
        let end = unsafe { reason.add(length) };
        // SAFETY: by contract `reason` has `room` bytes, and `room` is not 0.
        unsafe { end.write(0) };
    }
    done.map_or_else(refused, |()| 0)
}

/// # Safety
/// `name` is NULL or a string.
unsafe fn sets<'a>(name: *const c_char) -> Result<(Cpusets, &'a str), CpusetError> {
    if name.is_null() {
        return Err(CpusetError::InvalidArgument);
    }
    // SAFETY: by contract `name` is NULL or a string.
    let name = unsafe { CStr::from_ptr(name) }.to_str();
    let name = name.map_err(|_| CpusetError::InvalidArgument)?;
    Cpusets::of_this_machine().map(|sets| (sets, name))
}

/// # Safety
/// `name` is NULL or a string.
unsafe fn found(name: *const c_char) -> Result<Cpuset, CpusetError> {
    // SAFETY: by contract `name` is NULL or a string.
    let (sets, name) = unsafe { sets(name) }?;
    sets.find(name)
}

/// Creates a processor set with this name: `count` CPUs reserved for it, an isolated partition if
/// cgroup v2 has the cpuset controller, with v1 an exclusive set without load balancing. Its
/// state is read back; if it can't be isolated, it is removed again. If `reason` is not NULL, the
/// text of an error is written there, at most `room` bytes including the 0 at the end.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: ENOTSUP no cpuset
/// controller; EBUSY the kernel doesn't isolate it, for the given reason: for example, another
/// set has one of the CPUs; EEXIST the name is taken; EINVAL no name, or one with a slash, no
/// CPU, or one that is offline or doesn't exist; EACCES no permission; ENAMETOOLONG; ENOMEM.
///
/// # Safety
/// `name` is a string, `cpus` has `count` elements, and `reason` is NULL or has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_cpuset_create(
    name: *const c_char,
    cpus: *const c_uint,
    count: usize,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `name` is a string.
    let cpus = unsafe { numbers(cpus, count) };
    // SAFETY: by contract `cpus` has `count` elements.
    let sets = unsafe { sets(name) };
    let done = sets.and_then(|(sets, name)| match cpus {
        Ok(cpus) => sets.create(name, &cpus).map(drop),
        Err(NotCpus::TooLarge(cpu)) => Err(CpusetError::NoSuchCpu(cpu)),
        Err(NotCpus::NoMemory) => Err(CpusetError::no_memory()),
    });
    // SAFETY: by contract `reason` is NULL or has `room` bytes.
    unsafe { answer(done, reason, room) }
}

/// 0 if the set with this name is isolated now: another set may invalidate it later.
///
/// Not for a real-time thread: it reads files. -1 with errno, and the reason, as
/// punctual_cpuset_create(); ENOENT no such set.
///
/// # Safety
/// As punctual_cpuset_create().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_cpuset_state(
    name: *const c_char,
    reason: *mut c_char,
    room: usize,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `name` is NULL or a string.
    let set = unsafe { found(name) };
    // SAFETY: by contract `reason` is NULL or has `room` bytes.
    unsafe { answer(set.and_then(|set| set.state()), reason, room) }
}

/// Moves a process into the set with this name; 0 is the caller's.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: ENOENT no such set;
/// ESRCH no such process; ENOTSUP, EINVAL, EACCES as punctual_cpuset_create().
///
/// # Safety
/// `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_cpuset_move_process(
    name: *const c_char,
    process: libc::pid_t,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `name` is NULL or a string.
    let set = unsafe { found(name) };
    let done = set.and_then(|set| set.move_process(process));
    done.map_or_else(refused, |()| 0)
}

/// Moves the tasks of the set with this name away and removes it, even if another program created
/// it; 0 also if it no longer exists.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EBUSY tasks can't be
/// moved; ENOTSUP, EINVAL, EACCES as punctual_cpuset_create().
///
/// # Safety
/// `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_cpuset_remove(name: *const c_char) -> c_int {
    let _held = hold();
    // SAFETY: by contract `name` is NULL or a string.
    let done = match unsafe { found(name) } {
        Err(CpusetError::System(_, error)) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(())
        }
        other => other.and_then(|set| set.remove()),
    };
    done.map_or_else(refused, |()| 0)
}

/// Writes the CPUs of the tasks in the set with this name, as a list like "0-3,8", into the
/// `size` bytes at `list`. Returns its length.
///
/// Not for a real-time thread: it reads files. -1 with errno: EFAULT `list` is NULL; ERANGE it
/// doesn't fit, and nothing is written; ENOENT no such set; ENOTSUP, EINVAL as
/// punctual_cpuset_create().
///
/// # Safety
/// `name` is NULL or a string; `list` is NULL, or `size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_cpuset_cpus(
    name: *const c_char,
    list: *mut c_char,
    size: usize,
) -> libc::ssize_t {
    let _held = hold();
    if list.is_null() {
        return null() as libc::ssize_t;
    }
    // SAFETY: by contract `name` is NULL or a string.
    let cpus = match unsafe { found(name) }.and_then(|set| set.cpus()) {
        Ok(cpus) => cpus,
        Err(error) => return refused(error) as libc::ssize_t,
    };
    // SAFETY: by contract `size` bytes at `list` are writable.
    unsafe { write_list(&cpus, list, size) }
}
