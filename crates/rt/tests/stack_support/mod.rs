//! Shared functions of the tests of stacks.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(unsafe_code, reason = "getrusage, and pages that are touched")]

use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Page faults of the calling thread so far.
pub fn faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct it is given.
    let asked = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(asked, 0);
    // SAFETY: all-zero bytes are a valid rusage, and the call filled it.
    let usage = unsafe { usage.assume_init() };
    usage.ru_minflt + usage.ru_majflt
}

/// How a child process ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// Runs `body` in a child process; its result is the exit status, a panic is status 101.
///
/// The child has a copy of only the calling thread, so the body must avoid locks that other tests
/// of the program may hold: no printing, and as little malloc as possible.
pub fn in_child(body: impl FnOnce() -> i32) -> End {
    // SAFETY: the child runs the body and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: _exit has no precondition.
        unsafe { libc::_exit(result.unwrap_or(101)) };
    }
    let mut status = 0;
    // SAFETY: the child was created above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Exit(libc::WEXITSTATUS(status))
    }
}

/// Makes every system call except `read`, `write`, `_exit` and `sigreturn` kill the calling
/// thread.
pub fn forbid_system_calls() {
    // PR_SET_SECCOMP in strict mode.
    // SAFETY: the call restricts this thread and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, 1_u64, 0_u64, 0_u64, 0_u64) };
    assert_eq!(done, 0);
}

/// The raw `_exit` of the calling thread, allowed under [`forbid_system_calls`].
pub fn exit_thread(status: i32) -> ! {
    // SAFETY: SYS_exit ends the calling thread.
    unsafe { libc::syscall(libc::SYS_exit, status) };
    unreachable!()
}

/// Runs `body` on a new thread on `stack` and returns its result.
pub fn run_on(
    stack: &punctual_rt::stack::Stack,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> usize {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attribute is filled by this call.
    assert_eq!(unsafe { libc::pthread_attr_init(attr.as_mut_ptr()) }, 0);
    let base = stack.base().as_ptr().cast();
    // SAFETY: the stack outlives the thread, which is joined below.
    let set = unsafe { libc::pthread_attr_setstack(attr.as_mut_ptr(), base, stack.len()) };
    assert_eq!(set, 0);
    let mut thread = 0;
    // SAFETY: the attribute is initialised, and the caller's body fits its argument.
    let made = unsafe { libc::pthread_create(&mut thread, attr.as_ptr(), body, argument) };
    assert_eq!(made, 0);
    let mut found = std::ptr::null_mut();
    // SAFETY: the thread was created above and is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &mut found) }, 0);
    found as usize
}
