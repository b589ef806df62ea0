//! The C library's functions that ours replace, looked up at their first use.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, pthread_attr_t, pthread_t, timespec};

/// A start routine. It may be unwound by pthread_exit or cancellation.
pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

fn next(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        crate::report::end(
            "the C library lacks a function: ",
            name.to_str().unwrap_or("?"),
        );
    }
    place.store(found, Ordering::Relaxed);
    found
}

macro_rules! real {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*)) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// That of the C library's function of this name.
        pub(crate) unsafe fn $name($($argument: $kind),*) -> c_int {
            static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes()
            ) {
                Ok(name) => name,
                Err(_) => c"",
            };
            let found = next(&PLACE, NAME);
            type Found = unsafe extern "C-unwind" fn($($kind),*) -> c_int;
            // SAFETY: the C library's function of this name has this type.
            let found = unsafe { transmute::<*mut c_void, Found>(found) };
            // SAFETY: by contract the arguments are valid for this function.
            unsafe { found($($argument),*) }
        }
    };
}

real! {
    /// Starts a thread.
    pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        start: Start,
        argument: *mut c_void
    )
}
real! {
    /// Waits for a thread.
    pthread_join(thread: pthread_t, value: *mut *mut c_void)
}
real! {
    /// Takes the value of a thread that has ended.
    pthread_tryjoin_np(thread: pthread_t, value: *mut *mut c_void)
}
real! {
    /// Waits for a thread until a time on CLOCK_REALTIME.
    pthread_timedjoin_np(thread: pthread_t, value: *mut *mut c_void, until: *const timespec)
}
real! {
    /// Waits for a thread until a time on a clock.
    pthread_clockjoin_np(
        thread: pthread_t,
        value: *mut *mut c_void,
        clock: clockid_t,
        until: *const timespec
    )
}
real! {
    /// Detaches a thread.
    pthread_detach(thread: pthread_t)
}
real! {
    /// The attributes of a running thread.
    pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t)
}
real! {
    /// The default attributes of threads.
    pthread_getattr_default_np(attributes: *mut pthread_attr_t)
}
real! {
    /// Sets the default attributes of threads.
    pthread_setattr_default_np(attributes: *const pthread_attr_t)
}
