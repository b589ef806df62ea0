//! Who allocated a stack, and who freed it.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

use super::error::StackError;
use super::names::Names;
use super::options::MAX_FRAMES;
use super::report::line;
use super::table::map_zeroed;
use crate::sys::map::{errno, set_errno};

/// The last allocation and the last free of one stack, in debug mode.
///
/// Written by the thread that holds the stack in the state `Moving`; read for reports, where
/// a trace that changes meanwhile is at worst a wrong line in the report of an error.
#[derive(Debug)]
pub struct Traces {
    allocated: UnsafeCell<Trace>,
    freed: UnsafeCell<Trace>,
}

/// Frames of this library that stand between the recording and the caller, at most. They are left
/// out when a trace is printed.
const INNER: usize = 16;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Trace {
    thread: libc::pid_t,
    /// How many frames of the caller's are wanted.
    limit: u16,
    len: u16,
    frames: [*mut c_void; MAX_FRAMES + INNER],
}

/// What a trace is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Allocated,
    Freed,
}

impl Traces {
    pub(super) const ALLOCATED_AT: usize = offset_of!(Self, allocated);
    pub(super) const FREED_AT: usize = offset_of!(Self, freed);

    /// Room for the traces of one stack, for ever.
    pub(super) fn map() -> Result<*mut Self, StackError> {
        // All-zero is a value of Traces: no thread, no frames.
        Ok(map_zeroed(size_of::<Self>())?.as_ptr().cast())
    }

    fn of(&self, event: Event) -> *mut Trace {
        match event {
            Event::Allocated => self.allocated.get(),
            Event::Freed => self.freed.get(),
        }
    }

    /// Keeps the caller's call stack, at most `frames` deep.
    pub(super) fn record(&self, event: Event, frames: u8) {
        let trace = Trace::here(usize::from(frames));
        if event == Event::Allocated {
            // That was another life of the stack.
            // SAFETY: as below; all-zero is a trace of nobody.
            unsafe { self.freed.get().write_bytes(0, 1) };
        }
        // SAFETY: the caller alone holds the stack these traces belong to.
        unsafe { self.of(event).write(trace) };
    }

    /// Writes the trace of one event to a descriptor.
    pub(super) fn print(&self, event: Event, names: &mut Names, fd: c_int) {
        // SAFETY: traces hold plain numbers, so that even one that is being written can be
        // copied; see above.
        let trace = unsafe { self.of(event).read_volatile() };
        if trace.thread != 0 {
            let what = if event == Event::Allocated {
                "allocated"
            } else {
                "freed"
            };
            trace.print(what, names, fd);
        }
    }

    /// Writes both.
    pub(super) fn print_both(&self, names: &mut Names, fd: c_int) {
        self.print(Event::Allocated, names, fd);
        self.print(Event::Freed, names, fd);
    }
}

/// Writes the caller's own call stack to a descriptor.
pub(super) fn print_here(what: &str, names: &mut Names, fd: c_int) {
    Trace::here(MAX_FRAMES).print(what, names, fd);
}

/// Writes the call stack below the instruction at `code`, where a signal interrupted it, to a
/// descriptor; without `unwind` that instruction alone.
pub(super) fn print_interrupted(
    what: &str,
    code: usize,
    unwind: bool,
    names: &mut Names,
    fd: c_int,
) {
    let mut trace = Trace::here(if unwind { MAX_FRAMES } else { 0 });
    let frames = trace.frames;
    let filled = &frames[..usize::from(trace.len)];
    let from = filled.iter().position(|frame| *frame as usize == code);
    let known = from.map_or(&[][..], |from| &filled[from..]);
    trace.frames[0] = code as *mut c_void;
    trace.frames[..known.len()].copy_from_slice(known);
    trace.len = known.len().max(1) as u16;
    trace.limit = MAX_FRAMES as u16;
    trace.head(what, fd);
    names.print(trace.filled(), true, MAX_FRAMES, fd);
}

impl Trace {
    pub(super) const THREAD_AT: usize = offset_of!(Self, thread);
    pub(super) const LIMIT_AT: usize = offset_of!(Self, limit);
    pub(super) const LEN_AT: usize = offset_of!(Self, len);
    pub(super) const FRAMES_AT: usize = offset_of!(Self, frames);

    fn here(limit: usize) -> Self {
        let mut frames = [null_mut(); MAX_FRAMES + INNER];
        let limit = limit.min(MAX_FRAMES);
        let most = if limit == 0 { 0 } else { limit + INNER };
        // errno is the user's, and the unwinder may change it.
        let kept = errno();
        #[cfg(target_env = "gnu")]
        // SAFETY: there is room for `most` frames.
        let len = unsafe { libc::backtrace(frames.as_mut_ptr(), most as c_int) };
        #[cfg(not(target_env = "gnu"))]
        let len = { (&mut frames, 0).1 };
        set_errno(kept);
        // SAFETY: gettid has no precondition.
        let thread = unsafe { libc::gettid() };
        Self {
            thread,
            limit: limit as u16,
            len: usize::try_from(len).unwrap_or(0).min(most) as u16,
            frames,
        }
    }

    fn filled(&self) -> &[*mut c_void] {
        let len = usize::from(self.len).min(self.frames.len());
        &self.frames[..len]
    }

    fn head(&self, what: &str, fd: c_int) {
        line(fd, |out| {
            out.text("  ");
            out.text(what);
            out.text(" by thread ");
            out.number(usize::try_from(self.thread).unwrap_or(0));
            out.text(if self.len > 0 { " at" } else { "" });
        });
    }

    fn print(&self, what: &str, names: &mut Names, fd: c_int) {
        self.head(what, fd);
        names.print(self.filled(), false, usize::from(self.limit), fd);
    }
}
