//! Moves interrupts away from CPUs, and restores them.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use punctual_rt::irq::{self, Interrupts, Outcome, Plan, Skipped};
use punctual_rt::sys::cancel::hold;

use crate::cpus::{NotCpus, numbers};
use crate::errno::{fail, null, number};

/// Called for each interrupt that was left unchanged, with its number, or -1 for the default of
/// new interrupts, and the reason. The text is valid during the call, which is made on a
/// real-time thread only if that thread steers or restores. It must return: an exception,
/// longjmp() or pthread_exit() out of it ends the program.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub type punctual_irq_skipped =
    Option<unsafe extern "C" fn(irq: c_int, reason: *const c_char, context: *mut c_void)>;

/// Called for each interrupt whose CPUs would change: its number, or -1 for the default of new
/// interrupts, the current CPUs and the new ones, as the kernel formats them: lists, and masks
/// for the default. The texts are valid during the call, which is made on a real-time thread only
/// if that thread requests a preview. It must return, like punctual_irq_skipped().
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub type punctual_irq_change = Option<
    unsafe extern "C" fn(irq: c_int, now: *const c_char, then: *const c_char, context: *mut c_void),
>;

/// # Safety
/// `place` is NULL, which means no elements, or the first of `count`.
unsafe fn list<'a>(place: *const c_uint, count: usize) -> &'a [c_uint] {
    if place.is_null() {
        return &[];
    }
    // SAFETY: not NULL, so by contract the first of `count` elements.
    unsafe { std::slice::from_raw_parts(place, count) }
}

/// # Safety
/// `cpus` is NULL or has `count` elements.
unsafe fn onto(cpus: *const c_uint, count: usize) -> Result<Vec<usize>, libc::ssize_t> {
    // SAFETY: by contract `cpus` is NULL or has `count` elements.
    unsafe { numbers(cpus, count) }.map_err(|error| {
        refused(&io::Error::from_raw_os_error(match error {
            NotCpus::TooLarge(_) => libc::EINVAL,
            NotCpus::NoMemory => libc::ENOMEM,
        }))
    })
}

/// The interrupts and the CPUs to steer them to; `None` if the interrupts are an empty array, so
/// nothing is steered. An empty slice means all interrupts.
///
/// # Safety
/// `irqs` and `cpus` are NULL, or have the given numbers of elements for as long as `'a`.
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
    // SAFETY: by contract `cpus` is NULL or has `cpu_count` elements.
    let cpus = unsafe { onto(cpus, cpu_count) }?;
    // SAFETY: by contract `irqs` is NULL or has `irq_count` elements.
    Ok(Some((unsafe { list(irqs, irq_count) }, cpus)))
}

/// # Safety
/// `skipped` may be called with `context`.
unsafe fn report_outcome(
    outcome: io::Result<Outcome>,
    skipped: punctual_irq_skipped,
    context: *mut c_void,
) -> libc::ssize_t {
    match outcome {
        Ok(outcome) => {
            // SAFETY: by contract `skipped` may be called with the context.
            unsafe { report_skipped(&outcome.skipped, skipped, context) };
            outcome.changed.len() as libc::ssize_t
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &io::Error) -> libc::ssize_t {
    // Reading a file allocates room for its text.
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

/// The number of an interrupt for C programs.
fn c_number(irq: Option<u32>) -> c_int {
    irq.and_then(|irq| c_int::try_from(irq).ok()).unwrap_or(-1)
}

/// # Safety
/// `skipped` may be called with `context`.
unsafe fn report_skipped(all: &[Skipped], skipped: punctual_irq_skipped, context: *mut c_void) {
    for one in all {
        let reason = CString::new(one.reason.as_bytes()).unwrap_or_default();
        if let Some(skipped) = skipped {
            // SAFETY: by contract `skipped` may be called with the context.
            unsafe { skipped(c_number(one.irq), reason.as_ptr(), context) };
        }
    }
}

/// # Safety
/// `change` and `skipped` may be called with `context`.
unsafe fn report_plan(
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
            // SAFETY: by contract `change` may be called with the context.
            unsafe { change(c_number(one.irq), now.as_ptr(), then.as_ptr(), context) };
        }
    }
    // SAFETY: by contract `skipped` may be called with the context.
    unsafe { report_skipped(&plan.skipped, skipped, context) };
    count
}

/// Restricts the interrupts `irqs`, or all interrupts, including new ones, if `irqs` is NULL, to
/// the CPUs `cpus`. Returns how many were changed; `skipped`, unless NULL, is called for each
/// that could not be changed; those that the kernel manages are no error. The old values are
/// written to the file `journal`, and to disk, before anything is changed; a journal that exists
/// keeps its values.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is
/// NULL; EINVAL no CPU, one that is offline or doesn't exist, or a file that is no journal; or
/// the error of writing the journal; ENOMEM. Then nothing is changed, and no new journal is left
/// behind.
///
/// # Safety
/// The arrays have the given numbers of elements, and `journal` is a string.
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
    // SAFETY: by contract `journal` is NULL or a string.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    // SAFETY: by contract the arrays are NULL or have the given numbers of elements.
    let (irqs, cpus) = match unsafe { named(irqs, irq_count, cpus, cpu_count) } {
        Ok(Some(named)) => named,
        Ok(None) => return 0,
        Err(failed) => return failed,
    };
    let done = Interrupts::of_this_machine().steer(irqs, &cpus, journal);
    // SAFETY: by contract `skipped` may be called with `context`.
    unsafe { report_outcome(done, skipped, context) }
}

/// The path of a journal, or the error result for NULL.
///
/// # Safety
/// `journal` is NULL or a string that outlives the result.
unsafe fn path<'a>(journal: *const c_char) -> Result<&'a Path, libc::ssize_t> {
    if journal.is_null() {
        return Err(null() as libc::ssize_t);
    }
    // SAFETY: not NULL, so a string by contract.
    let journal = unsafe { CStr::from_ptr(journal) };
    Ok(Path::new(OsStr::from_bytes(journal.to_bytes())))
}

/// Restores the values in the file `journal`, and removes it when all are restored. Returns how
/// many interrupts were changed: none without a journal. It may be called again, also by another
/// process than the one that steered.
///
/// Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is
/// NULL; EINVAL it is no journal; ENOMEM; or the error of reading or removing it.
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
    // SAFETY: by contract `journal` is NULL or a string.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    let done = Interrupts::of_this_machine().restore(journal);
    // SAFETY: by contract `skipped` may be called with `context`.
    unsafe { report_outcome(done, skipped, context) }
}

/// What punctual_irq_steer() would change, without changing it: `change`, unless NULL, is called
/// for each interrupt whose CPUs would change, and `skipped`, unless NULL, for each that can't be
/// changed, as far as that is known in advance: before Linux 6.11 only steering shows which
/// interrupts the kernel manages. Returns how many would change.
///
/// Not for a real-time thread: it reads files. -1 with errno: EINVAL no CPU, or one that is
/// offline or doesn't exist; ENOMEM; or the error of reading /proc/irq.
///
/// # Safety
/// The arrays have the given numbers of elements.
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
    // SAFETY: by contract the arrays are NULL or have the given numbers of elements.
    let (irqs, cpus) = match unsafe { named(irqs, irq_count, cpus, cpu_count) } {
        Ok(Some(named)) => named,
        Ok(None) => return 0,
        Err(failed) => return failed,
    };
    let plan = Interrupts::of_this_machine().preview_steer(irqs, &cpus);
    // SAFETY: by contract the functions may be called with the context.
    unsafe { report_plan(plan, change, skipped, context) }
}

/// What punctual_irq_restore() would restore, without doing it: `change`, unless NULL, is called
/// for each interrupt whose CPUs differ from those in the file `journal`, and `skipped`, unless
/// NULL, for each that no longer exists or can't be changed. Returns how many would be restored:
/// none without a journal.
///
/// Not for a real-time thread: it reads files. -1 with errno: EFAULT `journal` is NULL; EINVAL it
/// is no journal; ENOMEM; or the error of reading it.
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
    // SAFETY: by contract `journal` is NULL or a string.
    let journal = match unsafe { path(journal) } {
        Ok(journal) => journal,
        Err(failed) => return failed,
    };
    let plan = Interrupts::of_this_machine().preview(journal);
    // SAFETY: by contract the functions may be called with the context.
    unsafe { report_plan(plan, change, skipped, context) }
}
