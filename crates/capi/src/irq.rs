//! Interrupts away from CPUs, and back.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use punctual_rt::irq::{self, Interrupts, Outcome, Plan, Skipped};
use punctual_rt::sys::cancel::hold;

use crate::cpus::{NotCpus, numbers};
use crate::errno::{fail, null, number};

/// Called for each interrupt that was left as it is, with its number, or -1 for the default of
/// future interrupts, and the reason. The text is valid during the call, which is made on a
/// real-time thread only if that thread steers or restores. It returns: an exception, longjmp() or
/// pthread_exit() that leaves it ends the program.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub type punctual_irq_skipped =
    Option<unsafe extern "C" fn(irq: c_int, reason: *const c_char, context: *mut c_void)>;

/// Called for each interrupt whose CPUs would be others: its number, or -1 for the default of
/// future interrupts, the CPUs that it has now and those that it would have, as the kernel writes
/// them: lists, of the default masks. The texts are valid during the call, which is made on a
/// real-time thread only if that thread asks for a preview. It returns, as punctual_irq_skipped()
/// does.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub type punctual_irq_change = Option<
    unsafe extern "C" fn(irq: c_int, now: *const c_char, then: *const c_char, context: *mut c_void),
>;

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
/// `cpus` is NULL or has `count` elements.
unsafe fn onto(cpus: *const c_uint, count: usize) -> Result<Vec<usize>, libc::ssize_t> {
    // SAFETY: so many elements, by contract.
    unsafe { numbers(cpus, count) }.map_err(|error| {
        refused(&io::Error::from_raw_os_error(match error {
            NotCpus::TooLarge(_) => libc::EINVAL,
            NotCpus::NoMemory => libc::ENOMEM,
        }))
    })
}

/// The interrupts and the CPUs to steer them to; `None` where the interrupts are an empty array, of
/// which nothing is steered. An empty slice is all interrupts.
///
/// # Safety
/// `irqs` and `cpus` are NULL, or have as many elements as is said for as long as `'a`.
#[expect(clippy::type_complexity, reason = "what two functions begin with")]
unsafe fn named<'a>(
    irqs: *const c_uint,
    irq_count: usize,
    cpus: *const c_uint,
    cpu_count: usize,
) -> Result<Option<(&'a [c_uint], Vec<usize>)>, libc::ssize_t> {
    if !irqs.is_null() && irq_count == 0 {
        return Ok(None);
    }
    // SAFETY: NULL or so many elements, by contract.
    let cpus = unsafe { onto(cpus, cpu_count) }?;
    // SAFETY: NULL or so many elements, by contract.
    Ok(Some((unsafe { list(irqs, irq_count) }, cpus)))
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
            // SAFETY: it may be called with the context, by contract.
            unsafe { tell_skipped(&outcome.skipped, skipped, context) };
            outcome.changed.len() as libc::ssize_t
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &io::Error) -> libc::ssize_t {
    // Of reading a file, which makes room for its text.
    let number = match error.kind() {
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => number(error),
    };
    let words = match number {
        libc::ENOMEM => NO_MEMORY,
        _ => irq::advice(error),
    };
    fail(number, words) as libc::ssize_t
}

const NO_MEMORY: &CStr = c"no memory for the list of interrupts";

/// The number that C programs know an interrupt by.
fn told(irq: Option<u32>) -> c_int {
    irq.and_then(|irq| c_int::try_from(irq).ok()).unwrap_or(-1)
}

/// # Safety
/// `tell` may be called with `context`.
unsafe fn tell_skipped(all: &[Skipped], tell: punctual_irq_skipped, context: *mut c_void) {
    for one in all {
        let reason = CString::new(one.reason.as_bytes()).unwrap_or_default();
        if let Some(tell) = tell {
            // SAFETY: it may be called with the context, by contract.
            unsafe { tell(told(one.irq), reason.as_ptr(), context) };
        }
    }
}

/// # Safety
/// `change` and `skipped` may be called with `context`.
unsafe fn tell_plan(
    plan: io::Result<Plan>,
    change: punctual_irq_change,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return refused(&error),
    };
    let count = plan.changes.len() as libc::ssize_t;
    for one in plan.changes {
        let now = CString::new(one.now).unwrap_or_default();
        let then = CString::new(one.then).unwrap_or_default();
        if let Some(change) = change {
            // SAFETY: it may be called with the context, by contract.
            unsafe { change(told(one.irq), now.as_ptr(), then.as_ptr(), context) };
        }
    }
    // SAFETY: it may be called with the context, by contract.
    unsafe { tell_skipped(&plan.skipped, skipped, context) };
    count
}

/// Makes only the `cpus` serve the interrupts `irqs`, or, where `irqs` is NULL, all interrupts,
/// future ones too. Returns how many were changed; `skipped`, unless NULL, is called for
/// each that could not be; those that the kernel manages are no error. What was before is
/// written to the file `journal`, and to disk, before anything is changed; a journal that
/// exists keeps what it has.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL no CPU, one
/// that is offline or not there, or a file that is no journal; or what prevents the journal from
/// being written; ENOMEM. Then nothing is changed, and no journal is left that wasn't there before.
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
    let _held = hold();
    // SAFETY: NULL or a string, by contract.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    // SAFETY: NULL or so many elements, by contract.
    let (irqs, cpus) = match unsafe { named(irqs, irq_count, cpus, cpu_count) } {
        Ok(Some(named)) => named,
        Ok(None) => return 0,
        Err(failed) => return failed,
    };
    let done = Interrupts::of_this_machine().steer(irqs, &cpus, journal);
    // SAFETY: the caller's promise.
    unsafe { tell(done, skipped, context) }
}

/// The path of a journal, or what the function returns that was given none.
///
/// # Safety
/// `journal` is NULL or a string that outlives the result.
unsafe fn path<'a>(journal: *const c_char) -> Result<&'a Path, libc::ssize_t> {
    if journal.is_null() {
        return Err(null() as libc::ssize_t);
    }
    // SAFETY: not NULL, so a string, by contract.
    let journal = unsafe { CStr::from_ptr(journal) };
    Ok(Path::new(OsStr::from_bytes(journal.to_bytes())))
}

/// Puts back what the file `journal` holds, and removes it when all is back. Returns how many
/// interrupts were changed; without a journal 0. May be called again, and by another process
/// than the one that steered.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL it is no
/// journal; ENOMEM; or what prevents it from being read or removed.
///
/// # Safety
/// `journal` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_irq_restore(
    journal: *const c_char,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    let _held = hold();
    // SAFETY: NULL or a string, by contract.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    let done = Interrupts::of_this_machine().restore(journal);
    // SAFETY: the caller's promise.
    unsafe { tell(done, skipped, context) }
}

/// What punctual_irq_steer() would change, without changing it: `change`, unless NULL, is called
/// for each interrupt whose CPUs would be others, and `skipped`, unless NULL, for each that can't be
/// changed, as far as that is known in advance: before Linux 6.11 the kernel tells which it
/// manages only when they are steered. Returns how many would have other CPUs.
///
/// Not for a real-time thread: it reads files. -1 with errno: EINVAL no CPU, or one that is
/// offline or not there; ENOMEM; or what prevents /proc/irq from being read.
///
/// # Safety
/// The arrays have as many elements as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_irq_preview_steer(
    irqs: *const c_uint,
    irq_count: usize,
    cpus: *const c_uint,
    cpu_count: usize,
    change: punctual_irq_change,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    let _held = hold();
    // SAFETY: NULL or so many elements, by contract.
    let (irqs, cpus) = match unsafe { named(irqs, irq_count, cpus, cpu_count) } {
        Ok(Some(named)) => named,
        Ok(None) => return 0,
        Err(failed) => return failed,
    };
    let plan = Interrupts::of_this_machine().preview_steer(irqs, &cpus);
    // SAFETY: the functions take the context, by contract.
    unsafe { tell_plan(plan, change, skipped, context) }
}

/// What punctual_irq_restore() would put back, without doing it: `change`, unless NULL, is called
/// for each interrupt that has other CPUs than the file `journal` says, and `skipped`, unless NULL,
/// for each that is gone or can't be changed. Returns how many would be put back; without a
/// journal 0.
///
/// Not for a real-time thread: it reads files. -1 with errno: EFAULT `journal` is NULL; EINVAL it
/// is no journal; ENOMEM; or what prevents it from being read.
///
/// # Safety
/// `journal` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_irq_preview(
    journal: *const c_char,
    change: punctual_irq_change,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    let _held = hold();
    // SAFETY: NULL or a string, by contract.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    let plan = Interrupts::of_this_machine().preview(journal);
    // SAFETY: the functions take the context, by contract.
    unsafe { tell_plan(plan, change, skipped, context) }
}
