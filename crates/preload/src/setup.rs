//! Making everything ready, once, when the library is loaded.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Once;

use punctual_rt::sys::task;
use punctual_rt::{memory, stack};

use crate::wishes::{self, Stacks, Wishes};
use crate::{real, report, threads};

/// Makes everything ready; the first call works.
pub(crate) fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(work);
}

fn work() {
    let wishes = wishes::read();
    if wishes.stacks == Stacks::Pool {
        // First: fork handlers run in the reverse order, so ours takes its lock before the
        // allocator's, as everybody does.
        stack::init();
    }
    threads::set_up();
    if wishes.stacks == Stacks::Pool && stack::DebugOptions::in_force().any() {
        // After the allocator's own report was registered, and so called before it.
        // SAFETY: the function lives as long as the library, which is never unloaded. Without
        // memory for it, stacks of detached threads are reported as in use.
        unsafe { libc::atexit(threads::reap_at_exit) };
    }
    if wishes.stacks == Stacks::Pool || wishes.lock {
        // A thread without wishes would get 8 MB, all of it locked; and a wish can be told
        // from none afterwards.
        set_default_size(wishes.size);
    }
    let primary = std::process::id() as libc::pid_t == task::current_tid();
    if wishes.stacks != Stacks::None && primary {
        make_primary_present(wishes);
    }
    if wishes.lock {
        lock();
    }
}

fn set_default_size(size: usize) {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the memory is live and writable.
    if unsafe { real::pthread_getattr_default_np(attributes.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: filled by the call above.
    let mut attributes = unsafe { attributes.assume_init() };
    // SAFETY: initialised.
    unsafe { libc::pthread_attr_setstacksize(&mut attributes, size) };
    // SAFETY: initialised. A size that the C library finds too small is left as it was.
    unsafe { real::pthread_setattr_default_np(&attributes) };
    // SAFETY: initialised, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
}

/// As much of the primary thread's stack as a thread gets.
fn make_primary_present(wishes: Wishes) {
    let room = stack::bounds().map_or(0, |bounds| bounds.len());
    // The kernel keeps a gap below the lowest page that a stack may have.
    let bytes = wishes.size.min(room / 2);
    if bytes > 0 && stack::prefault(bytes).is_err() {
        report::count(&report::COUNTS.not_present);
    }
}

fn lock() {
    // What is freed stays ours, and large blocks come from the heap as small ones do: each
    // would be a mapping of its own, that takes faults and is given back.
    // SAFETY: mallopt takes numbers.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, -1) };
    // SAFETY: mallopt takes numbers.
    unsafe { libc::mallopt(libc::M_MMAP_MAX, 0) };
    if let Err(error) = memory::lock_all() {
        report::end("the memory can't be locked: ", reason(&error));
    }
}

fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => "not permitted (RLIMIT_MEMLOCK is 0 and CAP_IPC_LOCK is missing)",
        Some(libc::ENOMEM) => "it is above RLIMIT_MEMLOCK, or there is too little of it",
        Some(libc::EAGAIN) => "there is too little of it",
        _ => "the kernel refuses",
    }
}
