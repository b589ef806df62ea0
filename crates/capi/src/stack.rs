//! Allocation of stacks, and related functions.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

use punctual_rt::stack::{self, Class, SIZES, StackError, Stats};

use crate::errno::{answer, count, fail, no_stack, null, set, wrong_size};
use crate::versioned::{self, Versioned};

fn exact(size: usize) -> Result<Class, StackError> {
    Class::exact(size).ok_or(StackError::NoSuchClass(size))
}

/// Allocates a stack of exactly `size` bytes, which is one of punctual_stack_sizes(). Returns its
/// lowest address; a page without access lies below it and above it, and all its pages are in
/// memory. To start a thread on it, use pthread_attr_setstack() and pthread_create().
///
/// A real-time thread may call it while a stack of that size is free, see
/// punctual_stack_reserve(): no system call (except for a contended lock, which has priority
/// inheritance) and no page fault. Otherwise it maps memory and waits for other threads that do.
///
/// NULL with errno: EINVAL a size that is not one of the classes (punctual_stack_class() returns
/// the one that fits); ENOMEM memory, address space or vm.max_map_count exhausted, even after the
/// free stacks of other sizes that weren't reserved were unmapped; EAGAIN the limit of locked
/// memory reached.
///
/// A fork() makes memory copy-on-write. The library copies its stacks in the parent before fork()
/// returns there (0.3 ms for a megabyte), so that no thread faults on their pages afterwards; a
/// thread that runs meanwhile may fault, and so does every thread on the heap. A real-time
/// program starts others by posix_spawn(), which copies nothing.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_alloc(size: usize) -> *mut c_void {
    match exact(size).and_then(stack::alloc) {
        Ok(base) => base.as_ptr().cast(),
        Err(error) => {
            no_stack(error);
            null_mut()
        }
    }
}

/// Frees a stack of punctual_stack_alloc() of the same size; (NULL, 0) is allowed and does
/// nothing. No thread may run on it any more.
///
/// A real-time thread may call it: no system call, except for a contended lock.
///
/// -1 with errno, and nothing changed: EINVAL not a stack, another size, a stack that is already
/// free, (NULL, not 0); EBUSY the stack that the caller runs on, or one marked by
/// punctual_stack_set_live(). With PUNCTUAL_STACK_DEBUG each except EBUSY is reported on standard
/// error, and another size and a double free abort.
///
/// # Safety
/// If the free is valid, nothing uses the stack any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_free(stack: *mut c_void, size: usize) -> c_int {
    if stack.is_null() {
        return match size {
            0 => 0,
            _ => no_free(0, size, StackError::NotAStack(0)),
        };
    }
    match exact(size) {
        // SAFETY: both functions have the same contract.
        Ok(class) => answer(unsafe { stack::free(stack as usize, class) }),
        Err(error) => no_free(stack as usize, size, error),
    }
}

/// An invalid free that is detected without the allocator.
#[cold]
fn no_free(address: usize, size: usize, error: StackError) -> c_int {
    stack::refusal::refused(address, size, error);
    no_stack(error)
}

/// The sizes of stacks, ascending, terminated by 0. The array belongs to the caller, who may pass
/// it to free().
///
/// Not for a real-time thread: it calls malloc(). NULL with ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_sizes() -> *mut c_uint {
    // SAFETY: calloc has no precondition.
    let array = unsafe { libc::calloc(SIZES.len() + 1, size_of::<c_uint>()) }.cast::<c_uint>();
    if array.is_null() {
        set(libc::ENOMEM, c"no memory for the list of sizes");
        return array;
    }
    for (index, &size) in SIZES.iter().enumerate() {
        // SAFETY: the array has room for one more than there are sizes.
        let place = unsafe { array.add(index) };
        // SAFETY: the element lies in calloc's array, aligned for the type. 2 MB fits in 32 bits.
        unsafe { place.write(size as c_uint) };
    }
    array
}

/// The smallest stack size with at least `size` bytes: 32768 to 2097152.
///
/// A real-time thread may call it: it is arithmetic. 0 with EINVAL above the largest.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_class(size: usize) -> usize {
    stack::class_of(size).unwrap_or_else(|| {
        no_stack(StackError::NoSuchClass(size));
        0
    })
}

/// Maps stacks of exactly `size` bytes until `count` of them are free, so that as many
/// punctual_stack_alloc(), by any threads, need nothing from the kernel. They are kept when
/// memory runs short for other sizes, until a punctual_stack_trim().
///
/// Not for a real-time thread: it maps memory and reads files. -1 with errno: EINVAL, ENOMEM,
/// EAGAIN as punctual_stack_alloc(); ENOMEM also if the mapping would trigger the OOM killer of
/// the memory cgroup (memory.max), as far as that can be known in advance. The stacks mapped so
/// far stay free.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_reserve(size: usize, count: usize) -> c_int {
    answer(exact(size).and_then(|class| stack::reserve(class, count)))
}

/// Returns free stacks of `size` bytes, or of each size if `size` is 0, to the kernel until
/// `keep` are left. Returns how many were unmapped.
///
/// Not for a real-time thread: it unmaps memory. -1 with errno: EINVAL no such size; ENOMEM
/// vm.max_map_count doesn't allow splitting the mapping.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_trim(size: usize, keep: usize) -> libc::ssize_t {
    if size != 0 {
        return count(exact(size).and_then(|class| stack::trim(class, keep)));
    }
    count(Class::all().try_fold(0, |sum, class| Ok(sum + stack::trim(class, keep)?)))
}

/// Declares whether a thread runs on the stack from now on: `live` is 1 before pthread_create(), and
/// 0 after pthread_join(). A live stack can't be freed.
///
/// A real-time thread may call it: one compare-and-swap. -1 with EINVAL: not a stack in use,
/// `live` is another number, or the stack is already marked so.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_set_live(stack: *const c_void, live: c_int) -> c_int {
    match live {
        0 | 1 if stack::set_live(stack as usize, live == 1) => 0,
        0 | 1 => fail(
            libc::EINVAL,
            c"not a stack in use, or it already has this mark",
        ),
        _ => fail(libc::EINVAL, c"live: expected 0 or 1"),
    }
}

/// The stacks of one size. Exact while no other thread allocates or frees.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_stack_stats {
    /// sizeof(struct punctual_stack_stats), filled in by the caller.
    pub struct_size: usize,
    /// Bytes of one stack, without guards.
    pub size: usize,
    /// Stacks in use.
    pub used: usize,
    /// Of these, the ones marked by punctual_stack_set_live().
    pub live: usize,
    /// Free stacks that threads keep for themselves.
    pub kept: usize,
    /// Free stacks in the depot.
    pub stored: usize,
    /// Stacks mapped since the start: each costs kernel time.
    pub made: u64,
    /// Stacks returned to the kernel since the start.
    pub unmapped: u64,
    /// Allocations since the start that took a stack from another thread's cache.
    pub stolen: u64,
    /// 0.
    pub reserved: [u64; 7],
}

// SAFETY: only integers, the size first.
unsafe impl Versioned for punctual_stack_stats {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// Fills `out` with the state of the stacks of `size` bytes. `out->struct_size` is the size of
/// the struct that the caller knows. Fields beyond it are not written, fields that the library
/// doesn't know stay unchanged, and `struct_size` becomes the size of the part that was filled.
///
/// A real-time thread may call it with care: no lock, no system call, but a walk over all stacks.
/// -1 with errno: EFAULT `out` is NULL; EINVAL no such size, or an invalid `struct_size`.
///
/// # Safety
/// `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_stats(
    size: usize,
    out: *mut punctual_stack_stats,
) -> c_int {
    if out.is_null() {
        return null();
    }
    let now = match exact(size) {
        Ok(class) => Stats::of(class),
        Err(error) => return no_stack(error),
    };
    let found = punctual_stack_stats {
        struct_size: 0,
        size: now.size,
        used: now.used,
        live: now.live,
        kept: now.kept,
        stored: now.stored,
        made: now.made,
        unmapped: now.unmapped,
        stolen: now.stolen,
        reserved: [0; 7],
    };
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, found) } {
        0
    } else {
        wrong_size()
    }
}

/// Writes a line to the descriptor `fd` for each stack in use, with the call stack of its
/// allocation if PUNCTUAL_STACK_DEBUG=audit keeps it. Returns how many there are.
///
/// Not for a real-time thread: it writes to a file. -1 with EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_debug_leaks(fd: c_int) -> c_int {
    if !is_writable(fd) {
        return not_writable();
    }
    c_int::try_from(stack::debug_leaks(fd)).unwrap_or(c_int::MAX)
}

fn is_writable(fd: c_int) -> bool {
    // SAFETY: F_GETFL reads flags of the descriptor, if there is one.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

fn not_writable() -> c_int {
    fail(libc::EBADF, c"the file descriptor is not open for writing")
}

/// Writes to the descriptor `fd`, for each free stack that was written to since it was freed, a
/// line and the call stacks of its allocation and its free, whether or not it is used again.
/// Returns how many there are. The same is done on standard error when the process exits.
///
/// Not for a real-time thread: it reads all free stacks and writes to a file. -1 with errno:
/// EBADF; ENOTSUP without PUNCTUAL_STACK_DEBUG=guards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_debug_check(fd: c_int) -> c_int {
    if !is_writable(fd) {
        return not_writable();
    }
    match stack::debug_check(fd) {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(error) => no_stack(error),
    }
}

/// Writes to the descriptor `fd` everything known of the stack that contains or guards `address`:
/// its state, the threads that run on it (those that block at the moment, and the caller), how
/// much of it was used, whether it was written to while it was free, and the allocation and free
/// traces, if PUNCTUAL_STACK_DEBUG=audit keeps them. Returns 1; 0 if it is no stack of this
/// library, after a line that describes the address.
///
/// Not for a real-time thread: it reads files and writes to one. A handler of SIGSEGV may call
/// it. -1 with EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_stack_debug_report(address: *const c_void, fd: c_int) -> c_int {
    if !is_writable(fd) {
        return not_writable();
    }
    c_int::from(stack::debug_report(address as usize, fd))
}

/// The largest number of bytes that any stack of `size` bytes was seen to use, for choosing
/// sizes: stacks in use now and, with PUNCTUAL_STACK_DEBUG=guards, those that were freed since
/// the start. 0 if there is none.
///
/// Not for a real-time thread: it reads all stacks of the size. -1 with EINVAL: no such size.
///
/// # Safety
/// No stack of the size is freed during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_stack_high_water_of_class(size: usize) -> libc::ssize_t {
    // SAFETY: by contract no stack of the class is freed meanwhile.
    count(exact(size).map(|class| unsafe { stack::high_water_of_class(class) }))
}
