//! Shared functions of the tests of stacks.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(unsafe_code, reason = "getrusage, and pages that are touched")]

use std::ffi::c_void;
use std::fs;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use punctual_rt::stack::{self, Class, Stack};
use punctual_rt::sys::task;

/// The turn of a test, among all tests of its program: it ends when the value is dropped. A test
/// that failed takes no turn away from the others.
///
/// The allocator is one for the process. It has no free stack at the beginning of a turn, so that
/// what a test counts does not depend on the tests before it.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let turn = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for class in Class::all() {
        stack::trim(class, 0).unwrap();
    }
    turn
}

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

/// Runs `prepare` on a new thread, and then `body`, which may make no system call.
pub fn confined<T>(
    prepare: impl FnOnce() -> T + Send + 'static,
    body: impl FnOnce(&mut T) + Send + 'static,
) {
    let done = Arc::new(AtomicBool::new(false));
    let (tell, told) = mpsc::channel();
    let is_done = Arc::clone(&done);
    // It ends by the raw system call or is killed, so it can't be joined.
    thread::spawn(move || {
        let mut prepared = prepare();
        tell.send(task::current_tid()).unwrap();
        forbid_system_calls();
        body(&mut prepared);
        is_done.store(true, Ordering::Release);
        exit_thread(0)
    });
    let itself = format!("/proc/self/task/{}", told.recv().unwrap());
    while !done.load(Ordering::Acquire) {
        let lives = fs::exists(&itself).unwrap();
        // It may have ended well since.
        assert!(
            lives || done.load(Ordering::Acquire),
            "the thread was killed at a system call"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Makes every system call except `read`, `write`, `_exit` and `sigreturn` kill the calling
/// thread.
fn forbid_system_calls() {
    // PR_SET_SECCOMP in strict mode.
    // SAFETY: the call restricts this thread and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, 1_u64, 0_u64, 0_u64, 0_u64) };
    assert_eq!(done, 0);
}

/// The raw `_exit` of the calling thread, allowed under [`forbid_system_calls`].
fn exit_thread(status: i32) -> ! {
    // SAFETY: SYS_exit ends the calling thread.
    unsafe { libc::syscall(libc::SYS_exit, status) };
    unreachable!()
}

/// Runs `body` on a new thread on `stack` and returns its result.
pub fn run_on(
    stack: &Stack,
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
