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

impl Trace {
    pub(super) const THREAD_AT: usize = offset_of!(Self, thread);
    pub(super) const LIMIT_AT: usize = offset_of!(Self, limit);
    pub(super) const LEN_AT: usize = offset_of!(Self, len);
    pub(super) const FRAMES_AT: usize = offset_of!(Self, frames);

    /// Of nobody.
    pub(super) const fn empty() -> Self {
        Self {
            thread: 0,
            limit: 0,
            len: 0,
            frames: [null_mut(); MAX_FRAMES + INNER],
        }
    }

    fn here(limit: usize) -> Self {
        let mut trace = Self::empty();
        trace.fill(limit);
        trace
    }

    /// Makes it the caller's, where it is: a handler has little room.
    fn fill(&mut self, limit: usize) {
        let limit = limit.min(MAX_FRAMES);
        let most = if limit == 0 { 0 } else { limit + INNER };
        // errno is the user's, and the unwinder may change it.
        let kept = errno();
        #[cfg(target_env = "gnu")]
        // SAFETY: there is room for `most` frames.
        let len = unsafe { libc::backtrace(self.frames.as_mut_ptr(), most as c_int) };
        #[cfg(not(target_env = "gnu"))]
        let len = 0;
        set_errno(kept);
        // SAFETY: gettid has no precondition.
        self.thread = unsafe { libc::gettid() };
        self.limit = limit as u16;
        self.len = usize::try_from(len).unwrap_or(0).min(most) as u16;
    }

    /// Makes it that of what a signal interrupted at `code`, in the signal's handler; without
    /// `unwind` it is that instruction alone.
    pub(super) fn fill_interrupted(&mut self, code: usize, unwind: bool) {
        self.fill(if unwind { MAX_FRAMES } else { 0 });
        let len = usize::from(self.len);
        let from = self.filled().iter().position(|it| *it as usize == code);
        // What is above is the handler.
        self.frames.copy_within(from.unwrap_or(len)..len, 0);
        self.frames[0] = code as *mut c_void;
        self.len = from.map_or(1, |from| len - from) as u16;
    }

    /// Writes it to a descriptor, as what [`Trace::fill_interrupted`] made it.
    pub(super) fn print_interrupted(&self, what: &str, names: &mut Names, fd: c_int) {
        self.head(what, fd);
        names.print(self.filled(), true, MAX_FRAMES, fd);
    }

    /// Writes the callers of what [`Trace::print_interrupted`] wrote.
    pub(super) fn print_callers(&self, names: &mut Names, fd: c_int) {
        if let Some((_, callers)) = self.filled().split_first() {
            names.print(callers, false, MAX_FRAMES, fd);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
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
