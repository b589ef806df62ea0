//! `PUNCTUAL_STACK_DEBUG`: who allocated, who freed, who wrote to a free stack, who leaked.
//!
//! With any option, threads have no magazines: each allocation and free takes the slow path, with
//! system calls and fills. Not for a program in its real-time section.

#![expect(unsafe_code, reason = "fills and watches free stacks")]

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::class::Class;
use super::error::StackError;
use super::explain;
use super::fault;
use super::names::Names;
use super::options::DebugOptions;
use super::pool::{SHARED, TABLE, base_of};
use super::report::{Line, Turn, line};
use super::table::Slot;
use super::trace::{Event, Traces, print_here};
use super::usage::{fill, first_other, first_other_of};
use super::word::{State, Word};
use crate::sys::map::{self, Access, Errno};

/// The fill pattern of a free stack, as umem fills freed buffers.
pub(super) const FREE_FILL: u64 = 0xdead_beef_dead_beef;
/// The fill pattern of an allocated stack, as umem fills new buffers.
pub(super) const FRESH_FILL: u64 = 0xbadd_cafe_badd_cafe;

/// Maps room for the traces of a new header. Called under the depot's lock, in debug mode,
/// without malloc; when memory is short there are no traces.
pub(super) fn attach(header: &'static Slot) {
    if DebugOptions::in_force().audit > 0
        && header.traces.load(Ordering::Acquire).is_null()
        && let Ok(traces) = Traces::map()
    {
        header.traces.store(traces, Ordering::Release);
    }
}

/// The traces of a stack, if it has any.
pub(super) fn traces(header: &'static Slot) -> Option<&'static Traces> {
    // SAFETY: null or the traces from `attach`, which live for ever.
    unsafe { header.traces.load(Ordering::Acquire).as_ref() }
}

/// Fills a newly mapped stack like any other free one.
pub(super) fn fill_new(base: NonNull<u8>, class: Class) {
    let options = DebugOptions::in_force();
    if options.guards {
        // SAFETY: the stack is mapped writable, and nothing else has its address yet.
        unsafe { fill(base, class.size(), FREE_FILL) };
    }
    if options.noaccess {
        // SAFETY: the pages of a stack that nothing else has the address of yet.
        let _ = unsafe { map::protect(base, class.size(), Access::None) };
    }
}

/// From free to used. Only the caller holds the stack (`Moving`).
pub(super) fn on_alloc(header: &'static Slot, word: Word) -> Result<(), Errno> {
    let options = DebugOptions::in_force();
    let (base, size) = (base_of(word), word.class().size());
    if options.noaccess {
        fault::watch();
        // SAFETY: the stack is in the state `Moving`: only this thread uses its pages.
        unsafe { map::protect(base, size, Access::ReadWrite) }?;
    }
    if options.guards {
        check_one(header, word);
        // SAFETY: the stack is in the state `Moving`, and writable since the call above.
        unsafe { fill(base, size, FRESH_FILL) };
    }
    if let Some(traces) = traces(header) {
        traces.record(Event::Allocated, options.audit);
    }
    Ok(())
}

/// From used to free. Only the caller holds the stack (`Moving`).
pub(super) fn on_free(header: &'static Slot, word: Word) {
    let options = DebugOptions::in_force();
    let (base, size) = (base_of(word), word.class().size());
    if let Some(traces) = traces(header) {
        traces.record(Event::Freed, options.audit);
    }
    if options.guards {
        // SAFETY: the stack is in the state `Moving`: only this thread uses its pages, which are
        // readable.
        let used = size - unsafe { first_other(base, size, FRESH_FILL) };
        header.peak.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the stack is in the state `Moving`: only this thread uses its pages, which are
        // writable.
        unsafe { fill(base, size, FREE_FILL) };
    }
    if options.noaccess {
        fault::watch();
        // If this fails the stack stays accessible, which finds fewer errors but is correct.
        // SAFETY: the stack is in the state `Moving`: only this thread uses its pages.
        let _ = unsafe { map::protect(base, size, Access::None) };
    }
}

/// Checks a stack before it is unmapped. Only the caller holds it.
pub(super) fn before_unmap(header: &'static Slot, word: Word) {
    let options = DebugOptions::in_force();
    // Without access, nothing can have written to it.
    if options.guards && !options.noaccess {
        check_one(header, word);
    }
}

/// Ends the process when a free stack was written to. Only the caller holds the stack, which is
/// readable.
fn check_one(header: &'static Slot, word: Word) {
    let size = word.class().size();
    // SAFETY: the stack is mapped and readable, and only the caller holds it.
    let written = unsafe { first_other(base_of(word), size, FREE_FILL) };
    if written < size {
        fatal(header, word.address(), size, |out| {
            was_written(out, written)
        });
    }
}

fn was_written(out: &mut Line, offset: usize) {
    out.text("written to after it was freed, at offset ");
    out.number(offset);
}

/// Writes to `fd` a line and the traces of each free stack that was written to; returns how many.
pub(super) fn check(fd: c_int) -> Result<usize, StackError> {
    if !DebugOptions::in_force().guards {
        return Err(StackError::GuardsDisabled);
    }
    let _turn = Turn::take();
    let mut names = Names::new();
    let mut count = 0;
    for (header, _) in TABLE.stacks() {
        let shared = SHARED.lock();
        let word = header.word.load();
        let size = word.class().size();
        // The depot's lock keeps it free.
        let written = (word.state() == Some(State::Stored)).then(|| {
            if DebugOptions::in_force().noaccess {
                // Memory that the kernel can't read is without access, and wasn't written to.
                first_other_of(word.address(), size, FREE_FILL)
            } else {
                // SAFETY: a free stack is mapped readable, and the lock keeps it mapped.
                Some(unsafe { first_other(base_of(word), size, FREE_FILL) })
            }
        });
        drop(shared);
        if let Some(written) = written.flatten().filter(|written| *written < size) {
            count += 1;
            said_of(header, word.address(), size, &mut names, fd, |out| {
                was_written(out, written);
            });
        }
    }
    Ok(count)
}

/// Reports a refused free of `named` bytes, in debug mode. A wrong size and a double free abort.
/// A busy stack is no error: programs may wait for it. Real-time safe without debug mode.
#[cold]
pub fn refused(address: usize, named: usize, error: StackError) {
    super::setup::set_up();
    if !DebugOptions::in_force().any() {
        return;
    }
    match (error, TABLE.find(address)) {
        (StackError::WrongClass { is, .. }, Some(header)) => fatal(header, address, is, |out| {
            out.text("freed as one of ");
            out.number(named);
            out.text(" bytes");
        }),
        (StackError::NotInUse(_), Some(header)) => {
            let size = header.word.load().class().size();
            fatal(header, address, size, |out| out.text("freed twice"));
        }
        (StackError::NotAStack(_) | StackError::NoSuchClass(_), _) => {
            explain::wrong_free(address, named, libc::STDERR_FILENO);
        }
        _ => {}
    }
}

fn said_of(
    header: &'static Slot,
    address: usize,
    size: usize,
    names: &mut Names,
    fd: c_int,
    what: impl FnOnce(&mut Line),
) {
    line(fd, |out| {
        out.text("punctual: ");
        explain::head(out, address, size);
        out.text(" was ");
        what(out);
    });
    if let Some(traces) = traces(header) {
        traces.print_both(names, fd);
    }
}

fn fatal(header: &'static Slot, address: usize, size: usize, what: impl FnOnce(&mut Line)) -> ! {
    let fd = libc::STDERR_FILENO;
    let turn = Turn::take();
    let mut names = Names::new();
    said_of(header, address, size, &mut names, fd, what);
    print_here("found", &mut names, fd);
    drop(names);
    // A handler of the program may leave abort() by a jump.
    drop(turn);
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}

/// Writes to `fd` a line for each stack in use, with its trace if there is one.
pub(super) fn leaks(fd: c_int) -> usize {
    leaks_among(fd, |_| true)
}

fn leaks_among(fd: c_int, is_asked: impl Fn(Word) -> bool) -> usize {
    let _turn = Turn::take();
    let mut names = Names::new();
    let mut count = 0;
    for (header, word) in TABLE.stacks() {
        if !matches!(word.state(), Some(State::Used | State::Live)) || !is_asked(word) {
            continue;
        }
        count += 1;
        line(fd, |out| {
            out.text("punctual: ");
            explain::head(out, word.address(), word.class().size());
            out.text(" is in use");
            if word.state() == Some(State::Live) {
                out.text(" as a thread's");
            }
        });
        if let Some(traces) = traces(header) {
            traces.print(Event::Allocated, &mut names, fd);
        }
    }
    count
}

/// Registers the report at exit on standard error: free stacks that were written to, and stacks
/// still in use, as far as the options request it.
pub(super) fn report_at_exit() {
    extern "C" fn at_exit() {
        let _ = check(libc::STDERR_FILENO);
        if DebugOptions::in_force().leaks {
            // In the child of a fork, stacks that were in use belong to the parent.
            leaks_among(libc::STDERR_FILENO, |word| !word.is_cold());
        }
    }
    // SAFETY: the handler is a function that lives as long as the library. Without memory for it
    // only the report is lost.
    unsafe { libc::atexit(at_exit) };
}
