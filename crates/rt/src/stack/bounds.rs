//! Where stacks lie: the one that the caller stands on, and those of other threads.

use std::ffi::c_void;
use std::fs;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::cache;
use super::error::StackError;
use super::inspect::locate;
use super::word::Word;
use crate::sys::cancel;
use crate::sys::map::page_size;
use crate::sys::maps::around;

/// The addresses of one stack, guards not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest address that may be used.
    pub low: usize,
    /// The first address above the stack.
    pub high: usize,
}

impl Bounds {
    /// Those of the stack of a header's word.
    pub(super) fn of(word: Word) -> Self {
        let low = word.address();
        Self {
            low,
            high: low + word.class().size(),
        }
    }

    /// Whether the byte at `address` is part of the stack.
    ///
    /// A real-time thread may call it: it is a comparison.
    pub fn contains(self, address: usize) -> bool {
        address >= self.low && address < self.high
    }

    /// The size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a stack is never empty")]
    pub fn len(self) -> usize {
        self.high - self.low
    }
}

/// Where the stack that the caller stands on lies; that of the primary thread down to its limit
/// (`RLIMIT_STACK`), present or not.
///
/// What counts is the stack pointer, for a coroutine stands on another stack than its thread.
/// That is, in this order: what [`set_bounds`] said, the thread's own stack, one of this
/// allocator, or else the mapping.
///
/// A real-time thread may call it after [`set_bounds`], on a stack of this allocator (some 4 ns
/// for each stack), and on its own after a first call while it was not yet one: that may
/// allocate and read files, and for a thread that has used [`super::alloc`], [`super::free`]
/// or a [`super::Stack`] the answer is kept. Elsewhere it reads `/proc`.
///
/// # Errors
/// [`StackError::System`] when the C library can't say, [`StackError::NotMapped`] when the
/// mapping can't be found.
pub fn bounds() -> Result<Bounds, StackError> {
    let here = stack_pointer();
    if let Some(given) = given()
        && given.contains(here)
    {
        return Ok(given);
    }
    let cache = cache::current();
    if let Some((low, high)) = cache.map(|cache| cache.bounds.get())
        && (Bounds { low, high }).contains(here)
    {
        return Ok(Bounds { low, high });
    }
    if let Some(place) = locate(here) {
        return Ok(place.bounds);
    }
    let own = bounds_from_c_library()?;
    if !own.contains(here) {
        let found = around(here).ok_or(StackError::NotMapped(here))?;
        return Ok(Bounds {
            low: found.low,
            high: found.high,
        });
    }
    if let Some(cache) = cache {
        cache.bounds.set((own.low, own.high));
    }
    Ok(own)
}

/// The keys of what [`set_bounds`] keeps: the values are the addresses themselves, so that
/// nothing is allocated for them.
static KEYS: [AtomicU32; 2] = [const { AtomicU32::new(NO_KEY) }; 2];
const NO_KEY: u32 = u32::MAX;

/// Makes the keys, once.
pub(super) fn set_up() {
    for place in &KEYS {
        let mut key = 0;
        if place.load(Ordering::Relaxed) == NO_KEY
            // SAFETY: the key is written before the call returns; values need no destructor.
            && unsafe { libc::pthread_key_create(&mut key, None) } == 0
        {
            place.store(key, Ordering::Release);
        }
    }
}

/// What [`set_bounds`] said on this thread.
fn given() -> Option<Bounds> {
    let [low, high] = [&KEYS[0], &KEYS[1]].map(|place| {
        let key = place.load(Ordering::Acquire);
        if key == NO_KEY {
            return 0;
        }
        // SAFETY: the key exists for the life of the process.
        unsafe { libc::pthread_getspecific(key) as usize }
    });
    (high != 0).then_some(Bounds { low, high })
}

/// Says where the stack lies that the calling thread stands on from now on, as a program that
/// switches stacks (coroutines, user-level threads) knows it: [`bounds`] and [`contains`] believe it for
/// as long as the stack pointer is within. As `stack_setbounds` of Solaris.
///
/// A real-time thread may call it: no lock, no system call.
///
/// # Errors
/// [`StackError::WrongBounds`]; [`StackError::NoMemory`] where the C library has no
/// thread-specific data left for it.
pub fn set_bounds(bounds: Bounds) -> Result<(), StackError> {
    const WORD: usize = size_of::<usize>();
    super::init();
    let Bounds { low, high } = bounds;
    if low % WORD != 0 || high % WORD != 0 || high.saturating_sub(low) < page_size() {
        return Err(StackError::WrongBounds);
    }
    for (place, value) in KEYS.iter().zip([low, high]) {
        let key = place.load(Ordering::Acquire);
        // SAFETY: a key that doesn't exist is an error; the value is a number to us.
        if unsafe { libc::pthread_setspecific(key, value as *const c_void) } != 0 {
            return Err(StackError::NoMemory(libc::ENOMEM));
        }
    }
    Ok(())
}

/// An address in the caller's frame.
#[inline(never)]
pub(super) fn stack_pointer() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize
}

fn bounds_from_c_library() -> Result<Bounds, StackError> {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: pthread_self has no precondition.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread is the running one, and the attribute is filled on success.
    let got = unsafe { libc::pthread_getattr_np(this, attr.as_mut_ptr()) };
    if got != 0 {
        return Err(StackError::System(got));
    }
    let mut low = null_mut();
    let mut len = 0;
    // SAFETY: the attribute was filled above.
    unsafe { libc::pthread_attr_getstack(attr.as_ptr(), &mut low, &mut len) };
    // SAFETY: the attribute was filled above and is not used any more.
    unsafe { libc::pthread_attr_destroy(attr.as_mut_ptr()) };
    Ok(Bounds {
        low: low as usize,
        high: low as usize + len,
    })
}

/// Whether the byte at `address` is part of the calling thread's stack.
///
/// A real-time thread may call it where it may call [`bounds`].
pub fn contains(address: usize) -> bool {
    bounds().is_ok_and(|bounds| bounds.contains(address))
}

/// Where the stack of the thread `tid` of this process lies.
///
/// For another thread than the caller it is the stack of this allocator, or else the
/// mapping, that its stack pointer is in. Not for a real-time thread: it reads `/proc`.
///
/// # Errors
/// [`StackError::NoSuchThread`]; [`StackError::Running`] when the thread didn't block within
/// some 20 ms of looking, for the kernel tells the stack pointer of a blocked thread alone;
/// [`StackError::System`] when `/proc` can't be read (ptrace may be restricted).
pub fn bounds_of(tid: libc::pid_t) -> Result<Bounds, StackError> {
    // SAFETY: gettid has no precondition.
    if tid == unsafe { libc::gettid() } {
        return bounds();
    }
    let system = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => StackError::NoSuchThread(tid),
        other => StackError::System(other.unwrap_or(libc::EIO)),
    };
    if tid <= 0 {
        return Err(StackError::NoSuchThread(tid));
    }
    let _held = cancel::hold();
    for _ in 0..20 {
        let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).map_err(system)?;
        if let Some(pointer) = stack_pointer_in(&text) {
            if let Some(place) = locate(pointer) {
                return Ok(place.bounds);
            }
            let mapping = around(pointer).ok_or(StackError::NotMapped(pointer))?;
            let bounds = Bounds {
                low: mapping.low,
                high: mapping.high,
            };
            return Ok(if is_primary(tid) {
                to_limit(bounds)
            } else {
                bounds
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(StackError::Running(tid))
}

pub(super) fn is_primary(tid: libc::pid_t) -> bool {
    // SAFETY: getpid has no precondition.
    tid == unsafe { libc::getpid() }
}

/// The primary stack's mapping, extended down to where it may grow.
fn to_limit(mapped: Bounds) -> Bounds {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit fills the struct it is given.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return mapped;
    }
    let lowest = mapped.high.saturating_sub(limit.rlim_cur as usize) & !(page_size() - 1);
    Bounds {
        low: mapped.low.min(lowest),
        high: mapped.high,
    }
}

/// The stack pointer in a line of `/proc/.../syscall`: the last but one of its words.
pub(super) fn stack_pointer_in(line: &str) -> Option<usize> {
    let word = line.split_ascii_whitespace().rev().nth(1)?;
    usize::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_pointer_is_the_last_word_but_one() {
        let blocked = "0 0x3 0x7ff8d144d000 0x20000 0x7ff8 0xff 0x0 0x7ffe356fd2c8 0x7ff8d15c52ad";
        assert_eq!(stack_pointer_in(blocked), Some(0x7ffe_356f_d2c8));
        assert_eq!(
            stack_pointer_in("-1 0x7ffe356fd2c8 0x7ff8d15c52ad"),
            Some(0x7ffe_356f_d2c8)
        );
        assert_eq!(stack_pointer_in("running\n"), None);
        assert_eq!(stack_pointer_in(""), None);
    }
}
