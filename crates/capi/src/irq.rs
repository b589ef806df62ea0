//! Interrupts away from CPUs, and back.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use punctual_rt::irq::{self, Interrupts, Outcome};

use crate::errno::{fail, null, number};

/// Called for each interrupt that was left as it is, with its number, or -1 for the default of
/// future interrupts, and the reason. The text is valid during the call, which is made on a
/// real-time thread only if that thread steers or restores.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub type punctual_irq_skipped =
    Option<unsafe extern "C" fn(irq: c_int, reason: *const c_char, context: *mut c_void)>;

/// # Safety
/// `place` is NULL, which means none, or the first of `count`.
unsafe fn list<'a>(place: *const c_uint, count: usize) -> &'a [c_uint] {
    if place.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(place, count) }
}

/// # Safety
/// `skipped` may be called with `context`.
unsafe fn tell(
    outcome: io::Result<Outcome>,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    match outcome {
        Ok(outcome) => {
            for one in &outcome.skipped {
                let number = one.irq.and_then(|irq| c_int::try_from(irq).ok());
                let reason = CString::new(one.reason.as_str()).unwrap_or_default();
                if let Some(skipped) = skipped {
                    // SAFETY: the caller's promise.
                    unsafe { skipped(number.unwrap_or(-1), reason.as_ptr(), context) };
                }
            }
            outcome.changed.len() as libc::ssize_t
        }
        Err(error) => fail(number(&error), irq::advice(&error)) as libc::ssize_t,
    }
}

/// Makes only the `cpus` serve the interrupts `irqs`, or, where `irqs` is NULL, all interrupts,
/// future ones too. Returns how many were changed; `skipped`, unless NULL, is called for
/// each that could not be; those that the kernel manages are no error. What was before is
/// written to the file `journal`, and to disk, before anything is changed; a journal that
/// exists keeps what it has.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL no CPU, one
/// that is offline or not there, or a file that is no journal; or what prevents the journal from
/// being written. Then nothing is changed, and no journal is left that wasn't there before.
///
/// # Safety
/// The arrays have as many elements as is said, and `journal` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_irq_steer(
    irqs: *const c_uint,
    irq_count: usize,
    cpus: *const c_uint,
    cpu_count: usize,
    journal: *const c_char,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    if journal.is_null() {
        return null() as libc::ssize_t;
    }
    if !irqs.is_null() && irq_count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let journal = unsafe { CStr::from_ptr(journal) };
    // SAFETY: the caller's promise.
    let cpus = unsafe { list(cpus, cpu_count) };
    let cpus: Vec<usize> = cpus.iter().map(|&cpu| cpu as usize).collect();
    // SAFETY: the caller's promise.
    let irqs = unsafe { list(irqs, irq_count) };
    let journal = Path::new(OsStr::from_bytes(journal.to_bytes()));
    let done = Interrupts::of_this_machine().steer(irqs, &cpus, journal);
    // SAFETY: the caller's promise.
    unsafe { tell(done, skipped, context) }
}

/// Puts back what the file `journal` holds, and removes it when all is back. Returns how many
/// interrupts were changed; without a journal 0. May be called again, and by another process
/// than the one that steered.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL it is no
/// journal; or what prevents it from being read or removed.
///
/// # Safety
/// `journal` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_irq_restore(
    journal: *const c_char,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    if journal.is_null() {
        return null() as libc::ssize_t;
    }
    // SAFETY: the caller's promise.
    let journal = unsafe { CStr::from_ptr(journal) };
    let journal = Path::new(OsStr::from_bytes(journal.to_bytes()));
    let done = Interrupts::of_this_machine().restore(journal);
    // SAFETY: the caller's promise.
    unsafe { tell(done, skipped, context) }
}
