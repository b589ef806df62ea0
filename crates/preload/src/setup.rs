//! One-time setup when the library is loaded.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::sync::Once;

use punctual_rt::stack;
use punctual_rt::sys::map::page_size;
use punctual_rt::sys::task;

use crate::options::{self, Options, Stacks};
use crate::{exec, real, report, threads};

/// Sets up the library; only the first call does the work.
pub(crate) fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(work);
}

fn work() {
    let options = options::read();
    exec::set_up();
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
        if primary && options.report == std::process::id() {
            report_need(options);
        }
        lock(options);
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

/// Says beforehand how much memory is locked.
fn report_need(options: Options) {
    let how = match options.on_fault {
        true => "up to",
        false => "at least",
    };
    report::line(format_args!(
        "process {}: of what is mapped now {how} {} KB are locked, and up to {} KB for each thread that \
         requests no stack size",
        std::process::id(),
        mapped().unwrap_or(0) >> 10,
        options.size >> 10
    ));
}

/// The bytes that are mapped now.
fn mapped() -> Option<usize> {
    let mut text = [0; 64];
    let length = File::open("/proc/self/statm").ok()?.read(&mut text).ok()?;
    let pages = str::from_utf8(&text[..length]).ok()?.split(' ').next()?;
    Some(pages.parse::<usize>().ok()?.saturating_mul(page_size()))
}

fn lock(options: Options) {
    // malloc keeps freed memory, and takes large blocks from the heap like small ones: a separate mapping
    // would cause page faults and be unmapped again.
    // SAFETY: mallopt takes numbers.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) };
    // SAFETY: mallopt takes numbers, and keeps no pointer.
    unsafe { libc::mallopt(libc::M_MMAP_MAX, 0) };
    let on_fault = if options.on_fault {
        libc::MCL_ONFAULT
    } else {
        0
    };
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | on_fault;
    if let Err(error) = task::lock_all_memory(flags) {
        report::end("could not lock memory: ", reason(&error));
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => "not permitted (RLIMIT_MEMLOCK is 0 and CAP_IPC_LOCK is missing)",
        Some(libc::ENOMEM) => {
            "above RLIMIT_MEMLOCK (raise it with ulimit -l), or too little memory is free \
             (--lock=onfault takes only what is used)"
        }
        Some(libc::EAGAIN) => "too little memory is free (--lock=onfault takes only what is used)",
        _ => "the kernel refused",
    }
}
