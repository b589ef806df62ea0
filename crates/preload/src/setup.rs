//! One-time setup when the library is loaded.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Once;

use punctual_rt::sys::task;
use punctual_rt::{memory, stack};

use crate::options::{self, Options, Stacks};
use crate::{real, report, threads};

/// Sets up the library; only the first call does the work.
pub(crate) fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(work);
}

fn work() {
    let options = options::read();
    if options.stacks == Stacks::Pool {
        // First: fork handlers run in reverse order, so ours takes its lock before the
        // allocator's, the order that all code uses.
        stack::init();
    }
    threads::set_up();
    if options.stacks == Stacks::Pool && stack::DebugOptions::in_force().any() {
        // After the allocator's report at exit was registered, so that it runs before that report.
        // SAFETY: the function lives as long as the library, which is never unloaded. Without memory for
        // the registration, stacks of detached threads are reported as in use.
        unsafe { libc::atexit(threads::reap_at_exit) };
    }
    if options.stacks == Stacks::Pool || options.lock {
        // A thread without attributes would get 8 MB, all of it locked; and in pthread_create an
        // explicit size can't be distinguished from the default.
        set_default_size(options.size);
    }
    let primary = std::process::id() as libc::pid_t == task::current_tid();
    if options.stacks != Stacks::None && primary {
        make_primary_present(options);
    }
    if options.lock {
        lock();
    }
}

fn set_default_size(size: usize) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are a live, writable local.
    if unsafe { real::pthread_getattr_default_np(attributes.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call above.
    let mut attributes = unsafe { attributes.assume_init() };
    // SAFETY: the attributes are initialised.
    unsafe { libc::pthread_attr_setstacksize(&mut attributes, size) };
    // SAFETY: the attributes are initialised. A size below the C library's minimum changes
    // nothing.
    unsafe { real::pthread_setattr_default_np(&attributes) };
    // SAFETY: initialised, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
}

/// Prefaults the primary thread's stack, up to the size of a thread's.
fn make_primary_present(options: Options) {
    let room = stack::bounds().map_or(0, |bounds| bounds.len());
    // The kernel keeps a gap below the lowest page of the stack.
    let bytes = options.size.min(room / 2);
    if bytes > 0 && stack::prefault(bytes).is_err() {
        report::count(&report::COUNTS.not_prefaulted);
    }
}

fn lock() {
    // malloc keeps freed memory, and takes large blocks from the heap like small ones: a separate mapping
    // would cause page faults and be unmapped again.
    // SAFETY: mallopt takes numbers.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) };
    // SAFETY: mallopt takes numbers, and keeps no pointer.
    unsafe { libc::mallopt(libc::M_MMAP_MAX, 0) };
    if let Err(error) = memory::lock_all() {
        report::end("could not lock memory: ", reason(&error));
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => "not permitted (RLIMIT_MEMLOCK is 0 and CAP_IPC_LOCK is missing)",
        Some(libc::ENOMEM) => {
            "above RLIMIT_MEMLOCK (raise it with ulimit -l), or too little memory is free"
        }
        Some(libc::EAGAIN) => "too little memory is free",
        _ => "the kernel refused",
    }
}
