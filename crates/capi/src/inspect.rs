//! Looking at stacks.

use std::ffi::{c_int, c_void};

use punctual_rt::stack::{self, Bounds, Class, Part, StackError};

use crate::errno::{answer, count, no_stack, null};

/// The addresses of a stack, guards not counted.
#[repr(C)]
pub struct punctual_stack_bounds {
    /// The lowest address.
    pub low: *mut c_void,
    /// The first address above it.
    pub high: *mut c_void,
}

impl From<Bounds> for punctual_stack_bounds {
    fn from(bounds: Bounds) -> Self {
        Self {
            low: bounds.low as *mut c_void,
            high: bounds.high as *mut c_void,
        }
    }
}

/// Writes through a C out-pointer.
///
/// # Safety
/// `out` is NULL or a place of type `T` that is the caller's.
unsafe fn put<T>(out: *mut T, value: Result<T, StackError>) -> c_int {
    if out.is_null() {
        return null();
    }
    // SAFETY: not NULL, so the caller's place.
    answer(value.map(|value| unsafe { out.write(value) }))
}

/// Where the stack of the thread `tid` of this process lies; 0 means the one that the caller
/// runs on, which is a coroutine's where one runs. The primary thread's goes down to its limit
/// (RLIMIT_STACK), present or not.
///
/// For the caller itself a real-time thread may call it after punctual_stack_setbounds(), on a stack of
/// punctual_stack_alloc(), or on its own after a first time (which may read files) if it has used
/// punctual_stack_alloc() or punctual_stack_free(). Elsewhere, and for others, it may not: it reads /proc.
///
/// -1 with errno: EFAULT `out` is NULL; ESRCH no such thread; EAGAIN the thread is running
/// and did not block within some 20 ms; EACCES or EPERM /proc is closed to us.
///
/// # Safety
/// `out` is NULL or the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_bounds(
    tid: libc::pid_t,
    out: *mut punctual_stack_bounds,
) -> c_int {
    let found = if tid == 0 {
        stack::bounds()
    } else {
        stack::bounds_of(tid)
    };
    // SAFETY: the caller's promise.
    unsafe { put(out, found.map(punctual_stack_bounds::from)) }
}

/// Says where the stack lies that the caller runs on from now on. A program that switches stacks
/// calls it after each switch; punctual_stack_bounds(0, ...) and punctual_stack_contains() use it for as long as
/// the stack pointer is within, and know the stacks of punctual_stack_alloc() without it. Solaris' function of
/// this name, but for the type: stack_t is not C11's.
///
/// A real-time thread may call it: no lock, no system call. -1 with errno: EFAULT `given` is
/// NULL; EINVAL `low` or `high` is not aligned to a word, or they are less than a page apart;
/// ENOMEM the program uses up pthread_key_create().
///
/// # Safety
/// `given` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_setbounds(given: *const punctual_stack_bounds) -> c_int {
    // SAFETY: the caller's promise.
    let Some(given) = (unsafe { given.as_ref() }) else {
        return null();
    };
    answer(stack::set_bounds(Bounds {
        low: given.low as usize,
        high: given.high as usize,
    }))
}

/// 1 if the byte at `address` is part of the stack that the caller runs on, else 0.
///
/// A real-time thread may call it where it may call punctual_stack_bounds(0, ...), and it costs the same. It
/// never fails: where the bounds can't be told, nothing is within.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_contains(address: *const c_void) -> c_int {
    c_int::from(stack::contains(address as usize))
}

/// The bytes without access below a stack of `size` bytes, and as many above it: one page. A
/// function with a frame that is larger than that can reach over the guard, unless it is compiled with
/// -fstack-clash-protection, which touches each page of the frame.
///
/// A real-time thread may call it: it is arithmetic. 0 with EINVAL: no such size.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_guard_size(size: usize) -> usize {
    match Class::exact(size) {
        Some(class) => class.guard_size(),
        None => {
            no_stack(StackError::NoSuchClass(size));
            0
        }
    }
}

/// Which part of a stack an address is in.
#[repr(C)]
pub struct punctual_stack_place {
    /// The stack.
    pub bounds: punctual_stack_bounds,
    /// -1 the guard below (an overflow), 0 the stack, 1 the guard above.
    pub part: c_int,
    /// 1 if it is in use.
    pub in_use: c_int,
}

/// Finds the stack of this library that `address` is in, or that it guards: returns 1 and
/// fills `out`, or returns 0.
///
/// A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
/// over all stacks. -1 with EFAULT: `out` is NULL.
///
/// # Safety
/// `out` is NULL or the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_locate(
    address: *const c_void,
    out: *mut punctual_stack_place,
) -> c_int {
    let Some(place) = stack::locate(address as usize) else {
        return if out.is_null() { null() } else { 0 };
    };
    let part = match place.part {
        Part::LowerGuard => -1,
        Part::Stack => 0,
        Part::UpperGuard => 1,
    };
    let found = punctual_stack_place {
        bounds: place.bounds.into(),
        part,
        in_use: c_int::from(place.in_use),
    };
    // SAFETY: the caller's promise.
    match unsafe { put(out, Ok(found)) } {
        0 => 1,
        failed => failed,
    }
}

/// How much of a range is in memory.
#[repr(C)]
pub struct punctual_stack_residency {
    /// Pages of the range.
    pub pages: usize,
    /// Those in memory now.
    pub resident: usize,
}

/// How many pages of the `size` bytes at `low`, the start of a page, are in memory.
///
/// Not for a real-time thread: it waits for threads that map memory. -1 with errno: EFAULT `out`
/// is NULL; EINVAL `low` is not the start of a page; ENOMEM part of it is not mapped (the
/// primary stack below what it has grown to).
///
/// # Safety
/// `out` is NULL or the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_residency(
    low: *const c_void,
    size: usize,
    out: *mut punctual_stack_residency,
) -> c_int {
    let low = low as usize;
    let found = stack::residency(Bounds {
        low,
        high: low.saturating_add(size),
    });
    let found = found.map(|found| punctual_stack_residency {
        pages: found.pages,
        resident: found.resident,
    });
    // SAFETY: the caller's promise.
    unsafe { put(out, found) }
}

/// Makes the calling thread's stack present, from where it stands `bytes` down; 0 means all
/// of it, for the primary thread to its limit. Returns the bytes that are present now: fewer
/// where a page without access, the program's own guard, lies in between.
///
/// For threads that were not given a stack of this library. Not for a real-time thread in
/// its real-time section: call it before. -1 with errno: ENOMEM; EAGAIN a limit doesn't allow it.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_prefault(bytes: usize) -> libc::ssize_t {
    count(stack::prefault(bytes))
}

/// The most bytes of the stack at `stack` that were ever in use, from its top down to the
/// lowest word that was written with anything but 0: since it was made, over all its users;
/// with PUNCTUAL_STACK_DEBUG=guards since it was allocated.
///
/// Not for a real-time thread: it reads up to the whole stack. -1 with EINVAL: not a stack in
/// use.
///
/// # Safety
/// The stack is not freed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_high_water(stack: *const c_void) -> libc::ssize_t {
    // SAFETY: the caller's promise.
    count(unsafe { stack::high_water(stack as usize) })
}
