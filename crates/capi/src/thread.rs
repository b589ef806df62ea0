//! Threads that are ready when they begin.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::mpsc::{SyncSender, sync_channel};

use punctual_rt::advice::{Attempt, advice, of_list};
use punctual_rt::affinity;
use punctual_rt::stack::Stack;
use punctual_rt::thread::{Builder, create_on};

use crate::advice::{refuse, refused};
use crate::errno::fail;
use crate::sched::{NULL, RESERVED, cpus, online, policy};
use crate::versioned::{self, Versioned};

/// The thread takes signals. Without this flag all are blocked in it, so that handlers run in
/// threads that have no deadline.
pub const PUNCTUAL_THREAD_SIGNALS: u64 = 1;

/// What a new thread is to be. All 0 but for the size is an ordinary thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_thread_attr {
    /// sizeof(struct punctual_thread_attr), filled in by the caller.
    pub struct_size: usize,
    /// Bytes of stack, at most 2 MB, rounded up to a class; 0 means 256 KB.
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

// SAFETY: integers and pointers alone, the size first.
unsafe impl Versioned for punctual_thread_attr {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// A thread of punctual_thread_create().
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_thread {
    thread: libc::pthread_t,
    tid: libc::pid_t,
    stack: Stack,
}

type Main = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What goes to the new thread.
struct Start {
    builder: Builder,
    main: Main,
    argument: *mut c_void,
    tell: SyncSender<Result<libc::pid_t, (c_int, &'static CStr)>>,
}

/// The first function of the thread. The program's runs above a frame without destructors,
/// since pthread_exit() and pthread_cancel() unwind through it.
extern "C-unwind" fn enter(start: *mut c_void) -> *mut c_void {
    match begin(start) {
        // SAFETY: the program says that the function takes the argument.
        Some((main, argument)) => unsafe { main(argument) },
        None => std::ptr::null_mut(),
    }
}

/// Sets the thread up; what it is to call then, if nothing was refused.
fn begin(start: *mut c_void) -> Option<(Main, *mut c_void)> {
    // SAFETY: the creator handed this box over to this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let setup = start.builder.apply();
    let told = match setup.refused.first() {
        None => Ok(setup.tid),
        Some(refusal) => Err((refusal.errno(), refusal.advice())),
    };
    let goes_on = told.is_ok();
    start.tell.send(told).ok()?;
    goes_on.then_some((start.main, start.argument))
}

/// What the caller wants, or the number and the words of what is wrong with it.
///
/// # Safety
/// As for punctual_thread_create().
unsafe fn wanted(attr: *const punctual_thread_attr) -> Result<Builder, c_int> {
    let builder = Builder::new();
    if attr.is_null() {
        return Ok(builder.block_signals(true));
    }
    // SAFETY: the caller's promise.
    let read = unsafe { versioned::read(attr) };
    let Some(attr) = read.filter(|attr| attr.reserved == [0; 8]) else {
        return Err(refuse(libc::EINVAL, RESERVED));
    };
    if attr.flags & !PUNCTUAL_THREAD_SIGNALS != 0 {
        return Err(refuse(libc::EINVAL, advice(Attempt::Thread, libc::EINVAL)));
    }
    let times = [attr.runtime_ns, attr.deadline_ns, attr.period_ns];
    let Some(policy) = policy(attr.policy, attr.priority, times) else {
        return Err(refuse(
            libc::EINVAL,
            c"the policy is one of OTHER, FIFO, RR and DEADLINE; OTHER and DEADLINE have no \
              priority, and FIFO and RR have no times",
        ));
    };
    let mut builder = builder
        .policy(policy)
        .block_signals(attr.flags & PUNCTUAL_THREAD_SIGNALS == 0);
    if attr.stack_size != 0 {
        builder = builder.stack_size(attr.stack_size);
    }
    if !attr.name.is_null() {
        // SAFETY: the caller's promise: a string.
        let name = unsafe { CStr::from_ptr(attr.name) };
        builder = builder.name(&name.to_string_lossy());
    }
    if !attr.cpus.is_null() {
        // SAFETY: the caller's promise: a string, not empty or its NUL.
        let except = unsafe { attr.cpus.read() } == b'!' as c_char;
        let allowed = if except {
            affinity::of(0).unwrap_or_default()
        } else {
            online()
        };
        // SAFETY: as above.
        let chosen = unsafe { cpus(attr.cpus, &allowed) };
        let chosen = chosen.map_err(|error| refuse(libc::EINVAL, of_list(error)))?;
        builder = builder.cpus(&chosen);
    }
    Ok(builder)
}

/// Starts a thread that calls `body(argument)` on a prefaulted guarded stack of stack_alloc(),
/// with the name, CPUs, policy and priority of `attr` in force; `attr` NULL means the
/// defaults. The creator waits until the thread has set itself up: `body` runs with all that
/// was asked for, or not at all. The policy is always explicit: a thread never inherits a
/// real-time priority. The thread must be joined, by punctual_thread_join(); it may call
/// pthread_exit() and be cancelled.
///
/// Not for a real-time thread: it allocates. -1 with errno, and punctual_last_error() says
/// what to mend: EFAULT `out` or `body` is NULL; EINVAL a wrong attr, policy, priority or CPU
/// list, DEADLINE with runtime > deadline or deadline > period; EPERM no right to the policy,
/// or DEADLINE with some of the CPUs alone; EBUSY DEADLINE is not admitted; ENOMEM no stack;
/// EAGAIN a limit of locked memory or of threads.
///
/// # Safety
/// `attr` is NULL, or `attr->struct_size` bytes can be read, its strings among them; `body`
/// may be called with `argument` on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_create(
    out: *mut *mut punctual_thread,
    attr: *const punctual_thread_attr,
    body: Option<extern "C" fn(*mut c_void) -> *mut c_void>,
    argument: *mut c_void,
) -> c_int {
    let Some(main) = body.filter(|_| !out.is_null()) else {
        return refuse(libc::EFAULT, NULL);
    };
    // SAFETY: the caller's promise.
    let builder = match unsafe { wanted(attr) } {
        Ok(builder) => builder,
        Err(failed) => return failed,
    };
    let stack = match Stack::new(builder.stack_bytes()) {
        Ok(stack) => stack,
        Err(error) => {
            return refuse(error.errno(), advice(Attempt::Stack, error.errno()));
        }
    };
    let (tell, told) = sync_channel(1);
    // The two types differ in what may pass through the call, not in how it is made.
    // SAFETY: a pointer to a C function as C calls it, with the unwinding of C++ allowed.
    let main = unsafe { std::mem::transmute::<extern "C" fn(_) -> _, Main>(main) };
    let start = Box::into_raw(Box::new(Start {
        builder,
        main,
        argument,
        tell,
    }));
    let entry: extern "C-unwind" fn(*mut c_void) -> *mut c_void = enter;
    // SAFETY: the caller of the entry is the C library, which unwinding may reach.
    let entry = unsafe {
        std::mem::transmute::<
            extern "C-unwind" fn(*mut c_void) -> *mut c_void,
            extern "C" fn(*mut c_void) -> *mut c_void,
        >(entry)
    };
    // SAFETY: the entry takes the box back; the stack is kept until the join.
    let thread = match unsafe { create_on(&stack, entry, start.cast()) } {
        Ok(thread) => thread,
        Err(error) => {
            // SAFETY: no thread was made, so the box is still ours.
            drop(unsafe { Box::from_raw(start) });
            return refused(Attempt::Thread, &error);
        }
    };
    let ended = (libc::EAGAIN, advice(Attempt::Thread, libc::EAGAIN));
    let outcome = told.recv().unwrap_or(Err(ended));
    let made = punctual_thread {
        thread,
        tid: *outcome.as_ref().unwrap_or(&0),
        stack,
    };
    match outcome {
        Ok(_) => {
            // SAFETY: not NULL, so the caller's place.
            unsafe { out.write(Box::into_raw(Box::new(made))) };
            0
        }
        Err((number, words)) => {
            // SAFETY: the thread was made above, is about to end, and is joined here alone.
            let _ = unsafe { punctual_rt::sys::task::join(made.thread) };
            made.stack.mark_idle();
            drop(made);
            refuse(number, words)
        }
    }
}

/// Waits for the thread to end, puts what its function returned (or PTHREAD_CANCELED) into
/// `result` unless that is NULL, and takes its stack back.
///
/// Not for a real-time thread: it waits. -1 with errno: EFAULT `thread` is NULL; EDEADLK the
/// thread is the caller.
///
/// # Safety
/// `thread` comes from punctual_thread_create() and is joined once; `result` is NULL or the
/// caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_join(
    thread: *mut punctual_thread,
    result: *mut *mut c_void,
) -> c_int {
    if thread.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let handle = unsafe { (*thread).thread };
    // SAFETY: as above.
    let returned = match unsafe { punctual_rt::sys::task::join(handle) } {
        Ok(returned) => returned,
        Err(error) => return refused(Attempt::Thread, &error),
    };
    if !result.is_null() {
        // SAFETY: not NULL, so the caller's place.
        unsafe { result.write(returned) };
    }
    // SAFETY: made by punctual_thread_create and given up here.
    let thread = unsafe { Box::from_raw(thread) };
    thread.stack.mark_idle();
    0
}

/// The thread's id, as the kernel and punctual_sched_get() know it.
///
/// A real-time thread may call it. -1 with EFAULT: `thread` is NULL.
///
/// # Safety
/// `thread` is NULL or was not joined yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_tid(thread: *const punctual_thread) -> libc::pid_t {
    if thread.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe { (*thread).tid }
}

/// The thread as POSIX functions know it, e.g. for pthread_kill() and pthread_cancel(); not
/// for pthread_join() and pthread_detach().
///
/// A real-time thread may call it.
///
/// # Safety
/// `thread` was not joined yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_thread_pthread(
    thread: *const punctual_thread,
) -> libc::pthread_t {
    // SAFETY: the caller's promise.
    unsafe { (*thread).thread }
}
