//! The functions that replace the C library's.
//!
//! Their signatures and results are those of the C library. None has anything to drop while it
//! waits or while the program's code runs, because both may be unwound.

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{NonNull, null_mut};

use libc::{clockid_t, pthread_attr_t, pthread_t, timespec};
use punctual_rt::stack::{self, Class};
use punctual_rt::sys::map::page_size;

use crate::options::{self, LARGEST, Stacks};
use crate::report::{COUNTS, count};
use crate::threads::{self, Record};
use crate::{real, setup};

/// The C library's thrd_start_t.
type C11Start = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

const THRD_SUCCESS: c_int = 0;
const THRD_ERROR: c_int = 2;
const THRD_NOMEM: c_int = 3;

unsafe extern "C" {
    fn pthread_attr_getdetachstate(attributes: *const pthread_attr_t, state: *mut c_int) -> c_int;
}

/// The start routine of a thread on a stack of the pool.
unsafe extern "C-unwind" fn enter_pooled(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    // SAFETY: the record was filled before the thread was created, and lives until it is joined.
    let start = unsafe { (*record).start };
    // SAFETY: the record was filled before the thread was created, and lives until it is joined.
    let argument = unsafe { (*record).argument };
    threads::enter(record);
    // So that an overflow of the thread's stack is reported on another stack.
    stack::watching::watch();
    // SAFETY: the program's start routine, with the argument that it passed.
    unsafe { start(argument) }
}

/// The start routine of a thread on its own stack.
unsafe extern "C-unwind" fn enter_wrapped(record: *mut c_void) -> *mut c_void {
    let record = record.cast::<Record>();
    // SAFETY: the record was filled before the thread was created, and belongs to this thread
    // now.
    let start = unsafe { (*record).start };
    // SAFETY: the record was filled before the thread was created, and belongs to this thread
    // now.
    let argument = unsafe { (*record).argument };
    if let Some(record) = NonNull::new(record) {
        threads::drop_record(record);
    }
    make_present();
    // SAFETY: the program's start routine, with the argument that it passed.
    unsafe { start(argument) }
}

/// Prefaults the calling thread's stack, up to the configured size, except for its lowest page.
fn make_present() {
    let size = options::in_force().size;
    let done = stack::bounds().and_then(|bounds| {
        let here = &raw const size as usize;
        let room = here.saturating_sub(bounds.low);
        // The prefault itself may be using the lowest page.
        stack::prefault(size.min(room.max(1)))
    });
    match done {
        Ok(_) => count(&COUNTS.wrapped),
        Err(_) => count(&COUNTS.not_prefaulted),
    }
}

/// The program's requests for the stack of a new thread.
struct Requested {
    /// The program provides a stack.
    brings_stack: bool,
    size: usize,
    detached: bool,
}

/// # Safety
/// `attributes` is NULL or initialised.
unsafe fn requested(attributes: *const pthread_attr_t) -> Requested {
    let mut requested = Requested {
        brings_stack: false,
        size: options::in_force().size,
        detached: false,
    };
    if attributes.is_null() {
        return requested;
    }
    let (mut place, mut size) = (null_mut(), 0);
    // SAFETY: by contract the attributes are initialised; the places are live.
    if unsafe { libc::pthread_attr_getstack(attributes, &mut place, &mut size) } == 0 {
        // Without a stack set, glibc computes the lowest address from a top of 0.
        requested.brings_stack = place as usize != 0_usize.wrapping_sub(size);
    }
    // SAFETY: by contract the attributes are initialised; the place is live.
    if unsafe { libc::pthread_attr_getstacksize(attributes, &mut size) } == 0 {
        requested.size = size;
    }
    let mut detach = 0;
    // SAFETY: by contract the attributes are initialised; the place is live.
    unsafe { pthread_attr_getdetachstate(attributes, &mut detach) };
    requested.detached = detach == libc::PTHREAD_CREATE_DETACHED;
    requested
}

/// Starts a thread, for [`pthread_create`].
///
/// # Safety
/// That of pthread_create.
unsafe fn create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
) -> c_int {
    setup::set_up();
    let stacks = options::in_force().stacks;
    if stacks == Stacks::None {
        // SAFETY: by contract the arguments are valid for pthread_create.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    // SAFETY: by contract the attributes are NULL or initialised.
    let requested = unsafe { requested(attributes) };
    if requested.brings_stack {
        count(&COUNTS.own);
        // SAFETY: by contract the arguments are valid for pthread_create.
        return unsafe { real::pthread_create(thread, attributes, start, argument) };
    }
    match Class::fitting(requested.size) {
        Some(class) if stacks == Stacks::Pool && requested.size <= LARGEST => {
            // SAFETY: by contract the arguments are valid for pthread_create.
            unsafe {
                create_pooled(
                    thread,
                    attributes,
                    start,
                    argument,
                    class,
                    requested.detached,
                )
            }
        }
        // SAFETY: by contract the arguments are valid for pthread_create.
        _ => unsafe { create_wrapped(thread, attributes, start, argument) },
    }
}

/// # Safety
/// That of pthread_create.
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
    // SAFETY: by contract the arguments are valid for pthread_create; the new thread takes the
    // record.
    let error =
        unsafe { real::pthread_create(thread, attributes, enter_wrapped, record.as_ptr().cast()) };
    if error != 0 {
        threads::drop_record(record);
    }
    error
}

/// # Safety
/// That of pthread_create.
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
        // SAFETY: by contract the arguments are valid for pthread_create; nothing else has the
        // stack.
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
/// That of pthread_create; nothing else uses the stack.
unsafe fn create_on(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    base: NonNull<u8>,
    class: Class,
    record: NonNull<Record>,
) -> Result<pthread_t, c_int> {
    let mut own = MaybeUninit::<pthread_attr_t>::uninit();
    if attributes.is_null() {
        // From the default attributes, because the program may have changed them.
        // SAFETY: the place is live.
        let error = unsafe { real::pthread_getattr_default_np(own.as_mut_ptr()) };
        if error != 0 {
            return Err(error);
        }
    } else {
        // A copy that shares the original's extension (CPUs, signal mask): the functions called
        // on it below write only to the struct itself, and it is never destroyed.
        // SAFETY: by contract initialised, and plain C data.
        own.write(unsafe { attributes.read() });
    }
    // SAFETY: filled by one of the two branches above.
    let own = unsafe { own.assume_init_mut() };
    // SAFETY: the attributes are initialised; the stack is a mapping of this size.
    unsafe { libc::pthread_attr_setstack(own, base.as_ptr().cast(), class.size()) };
    // SAFETY: the attributes are initialised.
    unsafe { libc::pthread_attr_setdetachstate(own, libc::PTHREAD_CREATE_JOINABLE) };
    // SAFETY: by contract the start routine may run; the record lives until the thread is joined.
    let error = unsafe { real::pthread_create(thread, own, enter_pooled, record.as_ptr().cast()) };
    if attributes.is_null() {
        // SAFETY: in this branch the attributes are not a copy, and they are destroyed once.
        unsafe { libc::pthread_attr_destroy(own) };
    }
    if error == 0 {
        // SAFETY: pthread_create succeeded, so it wrote the handle there.
        Ok(unsafe { *thread })
    } else {
        Err(error)
    }
}

/// Joins with `join`, which may be cancelled, and frees the stack when the thread has ended.
fn join_by(thread: pthread_t, join: impl FnOnce() -> c_int + Copy) -> c_int {
    if options::in_force().stacks != Stacks::Pool {
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
/// That of the C library's pthread_create.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: real::Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_create.
    unsafe { create(thread, attributes, start, argument) }
}

/// Waits for a thread.
///
/// # Safety
/// That of the C library's pthread_join.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_join.
    join_by(thread, || unsafe { real::pthread_join(thread, value) })
}

/// Takes the value of a thread that has ended.
///
/// # Safety
/// That of the C library's pthread_tryjoin_np.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_tryjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_tryjoin_np.
    join_by(thread, || unsafe {
        real::pthread_tryjoin_np(thread, value)
    })
}

/// Waits for a thread until a time on CLOCK_REALTIME.
///
/// # Safety
/// That of the C library's pthread_timedjoin_np.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_timedjoin_np.
    join_by(thread, || unsafe {
        real::pthread_timedjoin_np(thread, value, until)
    })
}

/// Waits for a thread until a time on a clock.
///
/// # Safety
/// That of the C library's pthread_clockjoin_np.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_clockjoin_np.
    join_by(thread, || unsafe {
        real::pthread_clockjoin_np(thread, value, clock, until)
    })
}

/// Detaches a thread.
///
/// # Safety
/// That of the C library's pthread_detach.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_detach(thread: pthread_t) -> c_int {
    if options::in_force().stacks == Stacks::Pool {
        match threads::detach(thread) {
            Some(true) => return 0,
            Some(false) => return libc::EINVAL,
            None => {}
        }
    }
    // SAFETY: by contract the thread may be detached.
    unsafe { real::pthread_detach(thread) }
}

/// The attributes of a running thread; for a stack of the pool with its guard, which glibc
/// doesn't know.
///
/// # Safety
/// That of the C library's pthread_getattr_np.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut pthread_attr_t,
) -> c_int {
    // SAFETY: by contract the arguments are valid for pthread_getattr_np.
    let error = unsafe { real::pthread_getattr_np(thread, attributes) };
    if error != 0 || options::in_force().stacks != Stacks::Pool {
        return error;
    }
    if let Some(detached) = threads::detached(thread) {
        // SAFETY: the call above succeeded, so it filled the attributes.
        unsafe { libc::pthread_attr_setguardsize(attributes, page_size()) };
        if detached {
            // SAFETY: the call above succeeded, so it filled the attributes.
            unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
        }
    }
    0
}

/// A POSIX start routine that runs a C11 one.
unsafe extern "C-unwind" fn enter_c11(argument: *mut c_void) -> *mut c_void {
    let record = argument.cast::<Record>();
    // SAFETY: `thrd_create` filled the record, and passed it to this thread.
    let start = unsafe { (*record).start };
    // SAFETY: `thrd_create` filled the record, and passed it to this thread.
    let argument = unsafe { (*record).argument };
    if let Some(record) = NonNull::new(record) {
        threads::drop_record(record);
    }
    // SAFETY: `thrd_create` stored a function of this type.
    let start: C11Start = unsafe { transmute(start) };
    // SAFETY: the program's start routine, with the argument that it passed.
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

/// Starts a thread (C11).
///
/// # Safety
/// That of the C library's thrd_create.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    start: C11Start,
    argument: *mut c_void,
) -> c_int {
    setup::set_up();
    // SAFETY: a function pointer, which only `enter_c11` calls, with its real type.
    let start: real::Start = unsafe { transmute(start) };
    let Some(record) = threads::new_record(Record::new(start, argument, None, false)) else {
        return THRD_NOMEM;
    };
    // SAFETY: by contract the arguments are valid; the new thread takes the record.
    let error = unsafe { create(thread, std::ptr::null(), enter_c11, record.as_ptr().cast()) };
    if error != 0 {
        threads::drop_record(record);
    }
    c11(error)
}

/// Waits for a thread (C11).
///
/// # Safety
/// That of the C library's thrd_join.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_join(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut value = null_mut();
    // SAFETY: by contract the thread may be joined; the place is live.
    let error = unsafe { pthread_join(thread, &mut value) };
    if error == 0 && !result.is_null() {
        // SAFETY: by contract the caller's pointer is writable if it isn't NULL.
        unsafe { *result = value as isize as c_int };
    }
    c11(error)
}

/// Detaches a thread (C11).
///
/// # Safety
/// That of the C library's thrd_detach.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_detach(thread: pthread_t) -> c_int {
    // SAFETY: by contract the thread may be detached.
    c11(unsafe { pthread_detach(thread) })
}
