//! The functions that programs call instead of the C library's.
//!
//! Their signatures and results are those of the C library. None has anything to drop while
//! it waits or while the program's code runs: both may be unwound.

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{NonNull, null_mut};

use libc::{clockid_t, pthread_attr_t, pthread_t, timespec};
use punctual_rt::stack::{self, Class};
use punctual_rt::sys::map::page_size;

use crate::report::{COUNTS, count};
use crate::threads::{self, Record};
use crate::wishes::{self, LARGEST, Stacks};
use crate::{real, setup};

/// The C library's thrd_start_t.
type C11Start = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;
const THRD_NOMEM: c_int = 3;

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// What a thread runs first, on a stack of the pool.
unsafe extern "C-unwind" fn enter_pooled(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    // SAFETY: the record was filled before the thread was made, and lives until it is joined.
    let start = unsafe { (*record).start };
    // SAFETY: as above.
    let argument = unsafe { (*record).argument };
    threads::enter(record);
    // An overflow of the thread's own stack is explained on another one.
    stack::watching::watch();
    // SAFETY: what the program asked to be run.
    unsafe { start(argument) }
}

/// What a thread runs first, on its own stack.
unsafe extern "C-unwind" fn enter_wrapped(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    // SAFETY: the record was filled before the thread was made, and is this thread's now.
    let start = unsafe { (*record).start };
    // SAFETY: as above.
    let argument = unsafe { (*record).argument };
    if let Some(record) = NonNull::new(record) {
        threads::drop_record(record);
    }
    make_present();
    // SAFETY: what the program asked to be run.
    unsafe { start(argument) }
}

/// As much of the calling thread's own stack as it may have, but for its lowest page.
fn make_present() {
    let size = wishes::in_force().size;
    let done = stack::bounds().and_then(|bounds| {
        let here = &raw const size as usize;
        let room = here.saturating_sub(bounds.low);
        // In the wrapped thread's last page the prefault itself may be.
        stack::prefault(size.min(room.max(1)))
    });
    match done {
        Ok(_) => count(&COUNTS.wrapped),
        Err(_) => count(&COUNTS.not_present),
    }
}

/// What a program says about the stack of a new thread.
struct Wanted {
    /// It has one of its own.
    brings_stack: bool,
    size: usize,
    detached: bool,
}

/// # Safety
/// `attributes` is NULL or initialised.
unsafe fn wanted(attributes: *const pthread_attr_t) -> Wanted {
    let mut wanted = Wanted {
        brings_stack: false,
        size: wishes::in_force().size,
        detached: false,
    };
    if attributes.is_null() {
        return wanted;
    }
    let (mut place, mut size) = (null_mut(), 0);
    // SAFETY: initialised, and the places are live.
    if unsafe { libc::pthread_attr_getstack(attributes, &mut place, &mut size) } == 0 {
        // Without a stack set, glibc computes the lowest address from a top of 0.
        wanted.brings_stack = place as usize != 0_usize.wrapping_sub(size);
    }
    // SAFETY: as above.
    if unsafe { libc::pthread_attr_getstacksize(attributes, &mut size) } == 0 {
        wanted.size = size;
    }
    let mut detach = 0;
    // SAFETY: as above.
    unsafe { pthread_attr_getdetachstate(attributes, &mut detach) };
    wanted.detached = detach == libc::PTHREAD_CREATE_DETACHED;
    wanted
}

/// Starts a thread as [`pthread_create`] does.
///
/// # Safety
/// As pthread_create.
unsafe fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
) -> c_int {
    setup::set_up();
    let stacks = wishes::in_force().stacks;
    if stacks == Stacks::None {
        // SAFETY: the caller's promise.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    // SAFETY: the caller's promise.
    let wanted = unsafe { wanted(attributes) };
    if wanted.brings_stack {
        count(&COUNTS.own);
        // SAFETY: the caller's promise.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    match Class::fitting(wanted.size) {
        Some(class) if stacks == Stacks::Pool && wanted.size <= LARGEST => {
            // SAFETY: the caller's promise.
            unsafe { create_pooled(thread, attributes, start, argument, class, wanted.detached) }
        }
        // SAFETY: the caller's promise.
        _ => unsafe { create_wrapped(thread, attributes, start, argument) },
    }
}

/// # Safety
/// As pthread_create.
unsafe fn create_wrapped(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
) -> c_int {
    let Some(record) = threads::new_record(Record::new(start, argument, None, false)) else {
        count(&COUNTS.refused);
        return libc::EAGAIN;
    };
    // SAFETY: the caller's promise; the new thread takes the record.
    let error =
        unsafe { real::pthread_create(thread, attributes, enter_wrapped, record.as_ptr().cast()) };
    if error != 0 {
        threads::drop_record(record);
    }
    error
}

/// # Safety
/// As pthread_create.
unsafe fn create_pooled(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
    class: Class,
    detached: bool,
) -> c_int {
    threads::reap();
    let Ok(base) = stack::alloc(class) else {
        count(&COUNTS.refused);
        return libc::EAGAIN;
    };
    let low = base.as_ptr() as usize;
    stack::set_live(low, true);
    let filled = Record::new(start, argument, Some((low, class)), detached);
    let Some(record) = threads::new_record(filled) else {
        threads::free_stack(low, class);
        count(&COUNTS.refused);
        return libc::EAGAIN;
    };
    let started = threads::start(record, || {
        // SAFETY: the caller's promise, and the stack is this thread's alone.
        unsafe { create_on(thread, attributes, base, class, record) }
    });
    match started {
        Ok(()) => {
            count(&COUNTS.pooled);
            0
        }
        Err(error) => {
            threads::drop_record(record);
            threads::free_stack(low, class);
            error
        }
    }
}

/// # Safety
/// As pthread_create; the stack is nobody else's.
unsafe fn create_on(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    base: NonNull<u8>,
    class: Class,
    record: NonNull<Record>,
) -> Result<pthread_t, c_int> {
    let mut own = MaybeUninit::<pthread_attr_t>::uninit();
    if attributes.is_null() {
        // Not the plain initial ones: a program may have set the default.
        // SAFETY: the place is live.
        let error = unsafe { real::pthread_getattr_default_np(own.as_mut_ptr()) };
        if error != 0 {
            return Err(error);
        }
    } else {
        // A copy that shares the original's extension (CPUs, signal mask): the functions
        // called on it below write to the struct itself alone, and it is never destroyed.
        // SAFETY: initialised by the caller, and plain C data.
        own.write(unsafe { attributes.read() });
    }
    // SAFETY: filled above.
    let own = unsafe { own.assume_init_mut() };
    // SAFETY: initialised; the stack is a mapping of this size.
    unsafe { libc::pthread_attr_setstack(own, base.as_ptr().cast(), class.size()) };
    // SAFETY: initialised.
    unsafe { libc::pthread_attr_setdetachstate(own, libc::PTHREAD_CREATE_JOINABLE) };
    // SAFETY: the caller's promise; the record lives until the thread is joined.
    let error = unsafe { real::pthread_create(thread, own, enter_pooled, record.as_ptr().cast()) };
    if attributes.is_null() {
        // SAFETY: this one is our own whole, and destroyed once.
        unsafe { libc::pthread_attr_destroy(own) };
    }
    if error == 0 {
        // SAFETY: the C library has written the handle there.
        Ok(unsafe { *thread })
    } else {
        Err(error)
    }
}

/// Joins by `join`, which may be cancelled, and takes the stack back when the thread is gone.
fn join_by(thread: pthread_t, join: impl FnOnce() -> c_int + Copy) -> c_int {
    if wishes::in_force().stacks != Stacks::Pool {
        return join();
    }
    if threads::detached(thread) == Some(true) {
        return libc::EINVAL;
    }
    let error = join();
    if error == 0 {
        threads::joined(thread);
    }
    error
}

/// Starts a thread.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { create(thread, attributes, start, argument) }
}

/// Waits for a thread.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    join_by(thread, || unsafe { real::pthread_join(thread, value) })
}

/// Takes the value of a thread that has ended.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_tryjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    join_by(thread, || unsafe {
        real::pthread_tryjoin_np(thread, value)
    })
}

/// Waits for a thread until a time on CLOCK_REALTIME.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    join_by(thread, || unsafe {
        real::pthread_timedjoin_np(thread, value, until)
    })
}

/// Waits for a thread until a time on a clock.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise.
    join_by(thread, || unsafe {
        real::pthread_clockjoin_np(thread, value, clock, until)
    })
}

/// Gives a thread's value up.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_detach(thread: pthread_t) -> c_int {
    if wishes::in_force().stacks == Stacks::Pool {
        match threads::detach(thread) {
            Some(true) => return 0,
            Some(false) => return libc::EINVAL,
            None => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real::pthread_detach(thread) }
}

/// The attributes of a running thread; those of ours have a guard, whatever glibc says.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut pthread_attr_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let error = unsafe { real::pthread_getattr_np(thread, attributes) };
    if error != 0 || wishes::in_force().stacks != Stacks::Pool {
        return error;
    }
    if let Some(detached) = threads::detached(thread) {
        // SAFETY: filled by the call above.
        unsafe { libc::pthread_attr_setguardsize(attributes, page_size()) };
        if detached {
            // SAFETY: as above.
            unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
        }
    }
    0
}

/// Runs a function of the C11 type as one of the POSIX type does.
unsafe extern "C-unwind" fn enter_c11(argument: *mut c_void) -> *mut c_void {
    let record = argument.cast::<Record>();
    // SAFETY: `thrd_create` filled the record, and gave it to this thread.
    let start = unsafe { (*record).start };
    // SAFETY: as above.
    let argument = unsafe { (*record).argument };
    if let Some(record) = NonNull::new(record) {
        threads::drop_record(record);
    }
    // SAFETY: `thrd_create` stored a function of this type.
    let start: C11Start = unsafe { transmute(start) };
    // SAFETY: what the program asked to be run.
    let result = unsafe { start(argument) };
    result as isize as *mut c_void
}

fn c11(error: c_int) -> c_int {
    match error {
        0 => THRD_SUCCESS,
        libc::ENOMEM => THRD_NOMEM,
        _ => THRD_ERROR,
    }
}

/// Starts a thread, in C11's words.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    start: C11Start,
    argument: *mut c_void,
) -> c_int {
    setup::set_up();
    // SAFETY: a function pointer, called as what it is by `enter_c11` alone.
    let start: real::Start = unsafe { transmute(start) };
    let Some(record) = threads::new_record(Record::new(start, argument, None, false)) else {
        return THRD_NOMEM;
    };
    // SAFETY: the caller's promise; the new thread takes the record.
    let error = unsafe { create(thread, std::ptr::null(), enter_c11, record.as_ptr().cast()) };
    if error != 0 {
        threads::drop_record(record);
    }
    c11(error)
}

/// Waits for a thread, in C11's words.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut value = null_mut();
    // SAFETY: the caller's promise, and the place is live.
    let error = unsafe { pthread_join(thread, &mut value) };
    if error == 0 && !result.is_null() {
        // SAFETY: the caller's place.
        unsafe { *result = value as isize as c_int };
    }
    c11(error)
}

/// Gives a thread's result up, in C11's words.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_detach(thread: pthread_t) -> c_int {
    // SAFETY: the caller's promise.
    c11(unsafe { pthread_detach(thread) })
}
