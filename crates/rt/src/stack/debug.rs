//! `PUNCTUAL_STACK_DEBUG`: who allocated, who freed, who wrote to a free stack, who leaked.
//!
//! With any of it on, threads have no magazines: each allocation and free takes the slow
//! path, system calls and fills included. Nothing of this is for a program that is on duty.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::class::Class;
use super::error::StackError;
use super::options::DebugOptions;
use super::pool::{TABLE, base_of};
use super::report::line;
use super::table::Slot;
use super::trace::{Event, Traces, print_here};
use super::usage::{fill, first_other};
use super::word::{State, Word};
use crate::sys::map::{self, Access, Errno};

/// What a free stack is filled with, as umem fills freed buffers.
pub(super) const FREE_FILL: u64 = 0xdead_beef_dead_beef;
/// What a stack that was handed out is filled with, as umem fills new buffers.
pub(super) const FRESH_FILL: u64 = 0xbadd_cafe_badd_cafe;

/// Gives a new header room for its traces. Called under the depot's lock, in debug mode
/// with malloc-free mappings; without memory for them there are no traces.
pub(super) fn attach(header: &'static Slot) {
    if DebugOptions::in_force().audit > 0
        && header.traces.load(Ordering::Acquire).is_null()
        && let Ok(traces) = Traces::map()
    {
        header.traces.store(traces, Ordering::Release);
    }
}

fn traces(header: &'static Slot) -> Option<&'static Traces> {
    // SAFETY: null or what `attach` put there, which lives for ever.
    unsafe { header.traces.load(Ordering::Acquire).as_ref() }
}

/// Makes a stack that was just mapped look like any other free one.
pub(super) fn fill_new(base: NonNull<u8>, class: Class) {
    let options = DebugOptions::in_force();
    if options.guards {
        // SAFETY: the stack is mapped writable and nobody else knows it.
        unsafe { fill(base, class.size(), FREE_FILL) };
    }
    if options.noaccess {
        // SAFETY: as above.
        let _ = unsafe { map::protect(base, class.size(), Access::None) };
    }
}

/// From free to used. The caller alone holds the stack (`Moving`).
pub(super) fn wake(header: &'static Slot, word: Word) -> Result<(), Errno> {
    let options = DebugOptions::in_force();
    let (base, size) = (base_of(word), word.class().size());
    if options.noaccess {
        // SAFETY: the stack is ours alone.
        unsafe { map::protect(base, size, Access::ReadWrite) }?;
    }
    if options.guards {
        // SAFETY: the stack is ours alone, mapped and readable.
        let written = unsafe { first_other(base, size, FREE_FILL) };
        if written < size {
            fatal(header, word.address(), size, |out| {
                out.text("written to after it was freed, at offset ");
                out.number(written);
            });
        }
        // SAFETY: the stack is ours alone and writable.
        unsafe { fill(base, size, FRESH_FILL) };
    }
    if let Some(traces) = traces(header) {
        traces.record(Event::Allocated, options.audit);
    }
    Ok(())
}

/// From used to free. The caller alone holds the stack (`Moving`).
pub(super) fn rest(header: &'static Slot, word: Word) {
    let options = DebugOptions::in_force();
    let (base, size) = (base_of(word), word.class().size());
    if let Some(traces) = traces(header) {
        traces.record(Event::Freed, options.audit);
    }
    if options.guards {
        // SAFETY: the stack is ours alone, mapped and readable.
        let used = size - unsafe { first_other(base, size, FRESH_FILL) };
        header.peak.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the stack is ours alone and writable.
        unsafe { fill(base, size, FREE_FILL) };
    }
    if options.noaccess {
        // A failure leaves the stack accessible: less watched, not less correct.
        // SAFETY: the stack is ours alone.
        let _ = unsafe { map::protect(base, size, Access::None) };
    }
}

/// Reports a wrong free and aborts, where debugging was asked for; a busy stack is an answer
/// that programs may wait for, not an error of theirs.
pub(super) fn refused(header: &'static Slot, error: StackError) {
    let word = header.word.load();
    match error {
        StackError::WrongClass { is, named } => fatal(header, word.address(), is, |out| {
            out.text("freed as one of ");
            out.number(named);
            out.text(" bytes");
        }),
        StackError::NotInUse(address) => {
            fatal(header, address, word.class().size(), |out| {
                out.text("freed twice")
            });
        }
        _ => {}
    }
}

fn fatal(
    header: &'static Slot,
    address: usize,
    size: usize,
    what: impl FnOnce(&mut super::report::Line),
) -> ! {
    let fd = libc::STDERR_FILENO;
    line(fd, |out| {
        out.text("punctual: the stack at ");
        out.address(address);
        out.text(" of ");
        out.number(size);
        out.text(" bytes was ");
        what(out);
    });
    if let Some(traces) = traces(header) {
        traces.print(Event::Allocated, fd);
        traces.print(Event::Freed, fd);
    }
    print_here("found", fd);
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}

/// Writes a line for each stack in use to `fd`, with its trace if there is one.
pub(super) fn leaks(fd: c_int) -> usize {
    let mut count = 0;
    for (header, word) in TABLE.stacks() {
        if !matches!(word.state(), Some(State::Used | State::Live)) {
            continue;
        }
        count += 1;
        line(fd, |out| {
            out.text("punctual: the stack at ");
            out.address(word.address());
            out.text(" of ");
            out.number(word.class().size());
            out.text(" bytes is in use");
        });
        if let Some(traces) = traces(header) {
            traces.print(Event::Allocated, fd);
        }
    }
    count
}

/// Has what is in use at exit reported on standard error.
pub(super) fn report_leaks_at_exit() {
    extern "C" fn at_exit() {
        leaks(libc::STDERR_FILENO);
    }
    // SAFETY: the handler is a function that lives as long as the library. Without memory
    // for it the report is all that is missing.
    unsafe { libc::atexit(at_exit) };
}
