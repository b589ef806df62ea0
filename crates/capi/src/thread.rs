//! Threads that are completely set up before they start.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;

use punctual_rt::advice::{Attempt, cpu_list};
use punctual_rt::affinity;
use punctual_rt::sys::cancel::hold;
use punctual_rt::thread::{Builder, Joinable, Main, SpawnError, Start, reap};

use crate::clock::{MALFORMED, nanoseconds};
use crate::errno::{fail, no_stack, no_thread, null, number, refused, wrong_size};
use crate::reserve::Since;
use crate::sched::{ODD, chosen, policy};
use crate::versioned::{self, Versioned};

/// The thread takes the signals that its creator takes. Without this flag they are blocked in it
/// from its first instruction, so that handlers run in threads that have no deadline. Signals
/// that an instruction causes are never blocked: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
/// SIGSYS, SIGABRT.
pub const PUNCTUAL_THREAD_SIGNALS: u64 = 1;

/// The settings of a new thread. All 0 except the size means an ordinary thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_thread_attr {
    /// sizeof(struct punctual_thread_attr), filled in by the caller.
    pub struct_size: usize,
    /// Bytes of stack, at most 2 MB, rounded up to a class; 0 means 256 KB, or more where the
    /// program's thread-local storage, which lies on it, leaves less than 192 KB of that.
    pub stack_size: usize,
    /// The kernel keeps 15 bytes of it; NULL: its creator's name.
    pub name: *const c_char,
    /// The CPUs it may use, as for punctual_affinity_set(); NULL: its creator's.
    pub cpus: *const c_char,
    /// PUNCTUAL_OTHER, _FIFO, _RR or _DEADLINE.
    pub policy: c_int,
    /// 1 to 99 with FIFO and RR, 0 with the others.
    pub priority: c_int,
    /// DEADLINE: ns, as in struct punctual_sched.
    pub runtime_ns: u64,
    /// DEADLINE: ns.
    pub deadline_ns: u64,
    /// DEADLINE: ns; 0 means the deadline.
    pub period_ns: u64,
    /// PUNCTUAL_THREAD_SIGNALS or 0.
    pub flags: u64,
    /// 0.
    pub reserved: [u64; 8],
}

// SAFETY: only integers and pointers, the size first.
unsafe impl Versioned for punctual_thread_attr {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// A thread of punctual_thread_create().
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_thread {
    /// The pointer of a program is to a boxed [`Joinable`].
    _opaque: [u8; 0],
}

/// The start routine of the thread. It has no destructors while the program's function runs,
/// because pthread_exit() and pthread_cancel() unwind through it.
extern "C-unwind" fn enter(start: *mut c_void) -> *mut c_void {
    // SAFETY: the start that the thread was created with, which exists until it was joined.
    let start = unsafe { &*start.cast_const().cast::<Start>() };
    match start.wait() {
        // SAFETY: the program guarantees that the function takes the argument.
        Some((main, argument)) => unsafe { main(argument) },
        None => std::ptr::null_mut(),
    }
}

/// The requested settings, or -1 after setting the error for an invalid one.
///
/// # Safety
/// That of punctual_thread_create().
unsafe fn requested(attr: *const punctual_thread_attr) -> Result<Builder, c_int> {
    let builder = Builder::new();
    if attr.is_null() {
        return Ok(builder.block_signals(true));
    }
    // SAFETY: not NULL, so by contract `struct_size` bytes are readable.
    let read = unsafe { versioned::read(attr) };
    let Some(attr) = read.filter(|attr| attr.reserved == [0; 8]) else {
        return Err(wrong_size());
    };
    if attr.flags & !PUNCTUAL_THREAD_SIGNALS != 0 {
        return Err(fail(
            libc::EINVAL,
            c"unknown flag: expected PUNCTUAL_THREAD_SIGNALS or 0",
        ));
    }
    let times = [attr.runtime_ns, attr.deadline_ns, attr.period_ns];
    let Some(policy) = policy(attr.policy, attr.priority, times) else {
        return Err(fail(libc::EINVAL, ODD));
    };
    let mut builder = builder
        .policy(policy)
        .block_signals(attr.flags & PUNCTUAL_THREAD_SIGNALS == 0);
    if attr.stack_size != 0 {
        builder = builder.stack_size(attr.stack_size);
    }
    if !attr.name.is_null() {
        // SAFETY: not NULL, so by contract a string.
        let name = unsafe { CStr::from_ptr(attr.name) };
        builder = builder.name_bytes(name.to_bytes());
    }
    if !attr.cpus.is_null() {
        let own = affinity::get(0).map_err(|error| refused(Attempt::Affinity, &error))?;
        // SAFETY: not NULL, so by contract a string.
        let chosen = unsafe { chosen(attr.cpus, &own) };
        let chosen = chosen.map_err(|error| fail(error.errno(), cpu_list(error)))?;
        builder = builder.cpus_vec(chosen);
    }
    Ok(builder)
}

/// Starts a thread that calls `body(argument)` on a prefaulted guarded stack of
/// punctual_stack_alloc(), with the name, CPUs, policy and priority of `attr` in force; `attr`
/// NULL means the defaults. `body` runs with all requested settings, or not at all. The creator
/// sets the CPUs and the priority of the thread before it runs, so no thread of lower priority
/// can delay its start, and the creator doesn't wait for it. The policy is always explicit: a
/// thread never inherits a real-time priority. The thread must be joined, by
/// punctual_thread_join(), or detached, by punctual_thread_detach(); it may call pthread_exit()
/// and be cancelled.
///
/// Not for a real-time thread: it allocates. -1 with errno, and punctual_last_error() says how to
/// fix it: EFAULT `out` or `body` is NULL; EINVAL an invalid attr, policy, priority or CPU list,
/// DEADLINE with runtime > deadline or deadline > period, or a stack_size too small for the
/// thread-local storage; EPERM no permission for the policy, or DEADLINE with only some of the
/// CPUs; EBUSY DEADLINE is not admitted; ENOMEM no memory; EAGAIN a limit of locked memory or of
/// threads.
///
/// # Safety
/// `attr` is NULL, or `attr->struct_size` bytes and its strings are readable; `body` may be
/// called with `argument` on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_create(
    out: *mut *mut punctual_thread,
    attr: *const punctual_thread_attr,
    body: Option<extern "C" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
) -> c_int {
    let _held = hold();
    let Some(main) = body.filter(|_| !out.is_null()) else {
        return null();
    };
    let since = Since::now();
    // SAFETY: by contract `attr` is NULL, or readable with its strings.
    let builder = match unsafe { requested(attr) } {
        Ok(builder) => builder,
        Err(failed) => return failed,
    };
    reap();
    let stack = match builder.stack() {
        Ok(stack) => stack,
        Err(error) => return no_stack(error),
    };
    // The two types have the same calling convention, and differ only in what may unwind.
    // SAFETY: a pointer to a C function with its C signature; C++ exceptions may unwind through it.
    let main = unsafe { std::mem::transmute::<extern "C" fn(_) -> _, Main>(main) };
    let start = Start::new(builder.thread_name(), main, argument);
    let unstarted = Joinable::unstarted(stack, start);
    if since.is_short() {
        return fail(libc::ENOMEM, c"no memory for the thread");
    }
    let entry: extern "C-unwind" fn(*mut c_void) -> *mut c_void = enter;
    // SAFETY: the C library calls the entry, and unwinding may reach it.
    let entry = unsafe {
        std::mem::transmute::<
            extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            extern "C" fn(*mut c_void) -> *mut c_void,
        >(entry)
    };
    // SAFETY: the entry first passes the gate; only the functions below join or detach the
    // thread.
    let made = match unsafe { unstarted.launch(&builder, entry) } {
        Ok(made) => made,
        Err(SpawnError::Stack(error)) => return no_stack(error),
        Err(SpawnError::Thread(error)) => return no_thread(&error),
        Err(SpawnError::Refused(all)) => {
            // Never empty; the others may be consequences of the first.
            return match all.first() {
                Some(one) => fail(one.errno(), one.advice()),
                None => -1,
            };
        }
    };
    // SAFETY: not NULL, so writable by contract.
    unsafe { out.write(made.as_ptr().cast()) };
    0
}

/// Waits for the thread to end, stores the return value of its function (or PTHREAD_CANCELED) in
/// `result` unless that is NULL, and frees its stack.
///
/// Not for a real-time thread: it waits. -1 with errno: EFAULT `thread` is NULL; EDEADLK the
/// thread is the caller; ESRCH in a child of fork(), where its parent's threads don't exist: it
/// can only be detached there.
///
/// # Safety
/// `thread` comes from punctual_thread_create() and is joined once; `result` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_join(
    thread: *mut punctual_thread,
    result: *mut *mut c_void,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `thread` is NULL, or from punctual_thread_create() and not joined yet.
    let Some(joinable) = (unsafe { thread.cast::<Joinable>().as_ref() }) else {
        return null();
    };
    // SAFETY: after an `Ok`, `finish` frees it, and it isn't joined again.
    match unsafe { joinable.join() } {
        // SAFETY: joined just now; by contract `result` is NULL or writable.
        Ok(returned) => unsafe { finish(thread, returned, result) },
        Err(error) => not_joined(&error),
    }
}

/// Completes a successful join: stores the thread's return value, and frees its data.
///
/// # Safety
/// `thread` was joined and is not used any more; `result` is NULL or writable.
unsafe fn finish(
    thread: *mut punctual_thread,
    returned: *mut c_void,
    result: *mut *mut c_void,
) -> c_int {
    if !result.is_null() {
        // SAFETY: not NULL, so writable by contract.
        unsafe { result.write(returned) };
    }
    // SAFETY: punctual_thread_create() boxed it, and no join has freed it before.
    drop(unsafe { Box::from_raw(thread.cast::<Joinable>()) });
    0
}

/// The thread's id, as in the kernel and punctual_sched_get().
///
/// A real-time thread may call it: one load. -1 with EFAULT: `thread` is NULL.
///
/// # Safety
/// `thread` is NULL or was not joined yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_tid(thread: *const punctual_thread) -> libc::pid_t {
    if thread.is_null() {
        return null();
    }
    // SAFETY: not NULL, so by contract a thread that was not joined.
    unsafe { &*thread.cast::<Joinable>() }.tid()
}

/// The thread's POSIX handle, for pthread_kill(), pthread_cancel() and others; not for
/// pthread_join() and pthread_detach().
///
/// A real-time thread may call it: one load. 0 with EFAULT: `thread` is NULL.
///
/// # Safety
/// `thread` is NULL or was not joined yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_pthread(
    thread: *const punctual_thread,
) -> libc::pthread_t {
    if thread.is_null() {
        null();
        return 0;
    }
    // SAFETY: not NULL, so by contract a thread that was not joined.
    unsafe { &*thread.cast::<Joinable>() }.thread()
}

/// Joins the thread like punctual_thread_join() if it has ended, without waiting.
///
/// Not for a real-time thread: it frees memory, and makes system calls. -1 with errno, and the
/// thread must still be joined or detached: EBUSY it has not ended; EFAULT `thread` is NULL;
/// ESRCH as punctual_thread_join().
///
/// # Safety
/// As punctual_thread_join().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_tryjoin(
    thread: *mut punctual_thread,
    result: *mut *mut c_void,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `thread` is NULL, or from punctual_thread_create() and not joined yet.
    let Some(joinable) = (unsafe { thread.cast::<Joinable>().as_ref() }) else {
        return null();
    };
    // SAFETY: after an `Ok`, `finish` frees it, and it isn't joined again.
    match unsafe { joinable.try_join() } {
        // SAFETY: joined just now; by contract `result` is NULL or writable.
        Ok(returned) => unsafe { finish(thread, returned, result) },
        Err(error) => not_joined(&error),
    }
}

/// Joins the thread like punctual_thread_join(), but waits until the instant `at` of
/// CLOCK_MONOTONIC at most.
///
/// Not for a real-time thread: it waits. -1 with errno, and the thread must still be joined or
/// detached: ETIMEDOUT it has not ended by then; EFAULT `thread` or `at` is NULL; EINVAL `at` is
/// negative, malformed or beyond 584 years; EDEADLK the thread is the caller; ESRCH as
/// punctual_thread_join().
///
/// # Safety
/// As punctual_thread_join(); `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_timedjoin(
    thread: *mut punctual_thread,
    result: *mut *mut c_void,
    at: *const libc::timespec,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract `thread` is NULL, or from punctual_thread_create() and not joined yet.
    let joinable = unsafe { thread.cast::<Joinable>().as_ref() };
    // SAFETY: by contract `at` is NULL or readable.
    let (Some(joinable), Some(at)) = (joinable, unsafe { at.as_ref() }) else {
        return null();
    };
    let Some(at_ns) = nanoseconds(at) else {
        return fail(libc::EINVAL, MALFORMED);
    };
    // SAFETY: after an `Ok`, `finish` frees it, and it isn't joined again.
    match unsafe { joinable.join_until(at_ns) } {
        // SAFETY: joined just now; by contract `result` is NULL or writable.
        Ok(returned) => unsafe { finish(thread, returned, result) },
        Err(error) => not_joined(&error),
    }
}

#[cold]
fn not_joined(error: &std::io::Error) -> c_int {
    match number(error) {
        libc::EBUSY | libc::ETIMEDOUT => fail(
            number(error),
            c"the thread has not ended: join it later, or detach it",
        ),
        libc::ESRCH => fail(
            libc::ESRCH,
            c"the thread belongs to the process that forked this one: join it there, detach it here",
        ),
        _ => refused(Attempt::Thread, error),
    }
}

/// Lets the thread run without being joined. `thread` must not be used any more, and the return
/// value of its function is lost. Its stack is freed by the first punctual_thread_create() after
/// its end. A thread may detach itself once it has the pointer: it may run before
/// punctual_thread_create() has written the pointer to `out`, so the creator passes it to the
/// thread and doesn't use it any more. Don't detach it with pthread_detach().
///
/// A real-time thread may call it: one compare-and-swap, repeated while other threads detach. -1
/// with EFAULT: `thread` is NULL.
///
/// # Safety
/// `thread` is NULL, or comes from punctual_thread_create() and was neither joined nor detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_detach(thread: *mut punctual_thread) -> c_int {
    if thread.is_null() {
        return null();
    }
    // SAFETY: not NULL, so by contract boxed by punctual_thread_create(), neither joined nor
    // detached.
    unsafe { Box::from_raw(thread.cast::<Joinable>()) }.detach();
    0
}

/// Applies `attr` to the calling thread, for example the primary thread: its signals, name, CPUs and
/// policy, as punctual_thread_create() does for a new one; `attr` NULL means the defaults.
/// `stack_size` has no effect, since the thread has its stack. A refused setting doesn't prevent
/// the others, and settings that were applied stay.
///
/// Not for a real-time thread: it allocates. -1 with errno of the first refusal: EINVAL an
/// invalid attr, policy, priority or CPU list; EPERM no permission for the policy, or DEADLINE
/// with only some of the CPUs; EBUSY DEADLINE is not admitted.
///
/// # Safety
/// `attr` is NULL, or `attr->struct_size` bytes and its strings are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_apply(attr: *const punctual_thread_attr) -> c_int {
    let _held = hold();
    // SAFETY: by contract `attr` is NULL, or readable with its strings.
    let builder = match unsafe { requested(attr) } {
        Ok(builder) => builder,
        Err(failed) => return failed,
    };
    match builder.apply().refused.first() {
        Some(first) => fail(first.errno(), first.advice()),
        None => 0,
    }
}
