//! `PUNCTUAL_STACK_DEBUG`: who allocated, who freed, who wrote to a free stack, who leaked.
//!
//! With any of it on, threads have no magazines: each allocation and free takes the slow
//! path, system calls and fills included. Nothing of this is for a program that is on duty.

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

/// What a free stack is filled with, as umem fills freed buffers.
pub(super) const FREE_FILL: u64 = 0xdead_beef_dead_beef;
/// What a stack that was allocated is filled with, as umem fills new buffers.
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

/// The traces of a stack, if it has some.
pub(super) fn traces(header: &'static Slot) -> Option<&'static Traces> {
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
        fault::watch();
        // SAFETY: the stack is ours alone.
        unsafe { map::protect(base, size, Access::ReadWrite) }?;
    }
    if options.guards {
        check_one(header, word);
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
        fault::watch();
        // A failure leaves the stack accessible: less watched, not less correct.
        // SAFETY: the stack is ours alone.
        let _ = unsafe { map::protect(base, size, Access::None) };
    }
}

/// Before a stack goes back to the kernel. The caller alone holds it.
pub(super) fn leave(header: &'static Slot, word: Word) {
    let options = DebugOptions::in_force();
    // Nobody could write to what is out of reach.
    if options.guards && !options.noaccess {
        check_one(header, word);
    }
}

/// Ends the process where a free stack was written to. The caller alone holds it, readable.
fn check_one(header: &'static Slot, word: Word) {
    let size = word.class().size();
    // SAFETY: mapped and readable, and nobody else's: as the caller has it.
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

/// Writes a line and the traces of each free stack that was written to, to `fd`; how many.
pub(super) fn check(fd: c_int) -> Result<usize, StackError> {
    if !DebugOptions::in_force().guards {
        return Err(StackError::NotWatched);
    }
    let _turn = Turn::take();
    let mut names = Names::new();
    let mut count = 0;
    for (header, _) in TABLE.stacks() {
        let shared = SHARED.lock();
        let word = header.word.load();
        let size = word.class().size();
        // Under the lock it stays free.
        let written = (word.state() == Some(State::Stored)).then(|| {
            if DebugOptions::in_force().noaccess {
                // What the kernel can't read is out of reach, and wasn't written to.
                first_other_of(word.address(), size, FREE_FILL)
            } else {
                // SAFETY: a free stack is mapped readable, and the lock keeps it from being unmapped.
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

/// Reports a free as `named` bytes that was refused, where debugging was asked for; one with another
/// size and a second one abort. A busy stack is an answer that programs may wait for, not an error
/// of theirs. Real-time safe where debugging was not asked for.
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
    // A handler of the program's may leave abort() by a jump.
    drop(turn);
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}

/// Writes a line for each stack in use to `fd`, with its trace if there is one.
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

/// Has what was written to while it was free, and what is still in use, reported on standard
/// error at exit, as far as that was asked for.
pub(super) fn report_at_exit() {
    extern "C" fn at_exit() {
        let _ = check(libc::STDERR_FILENO);
        if DebugOptions::in_force().leaks {
            // In the child of a fork, those that its parent had in use are the parent's.
            leaks_among(libc::STDERR_FILENO, |word| !word.is_cold());
        }
    }
    // SAFETY: the handler is a function that lives as long as the library. Without memory
    // for it the report is all that is missing.
    unsafe { libc::atexit(at_exit) };
}
