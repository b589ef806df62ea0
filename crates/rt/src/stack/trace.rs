//! Who allocated a stack, and who freed it.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use super::error::StackError;
use super::options::MAX_FRAMES;
use super::report::line;
use super::table::map_zeroed;
use crate::sys::map::errno;

/// The last allocation and the last free of one stack, in debug mode.
///
/// Written by the thread that holds the stack in the state `Moving`; read for reports, where
/// a trace that changes meanwhile is at worst a wrong line in the report of an error.
#[derive(Debug)]
pub struct Traces {
    allocated: UnsafeCell<Trace>,
    freed: UnsafeCell<Trace>,
}

#[derive(Clone, Copy, Debug)]
struct Trace {
    thread: libc::pid_t,
    len: usize,
    frames: [*mut c_void; MAX_FRAMES],
}

/// What a trace is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Allocated,
    Freed,
}

impl Traces {
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
        // SAFETY: the caller alone holds the stack these traces belong to.
        unsafe { self.of(event).write(trace) };
    }

    /// Writes the trace of one event to a descriptor.
    pub(super) fn print(&self, event: Event, fd: c_int) {
        // SAFETY: traces hold plain numbers, so that even one that is being written can be
        // copied; see above.
        let trace = unsafe { self.of(event).read_volatile() };
        if trace.thread != 0 {
            let what = if event == Event::Allocated {
                "allocated"
            } else {
                "freed"
            };
            trace.print(what, fd);
        }
    }
}

/// Writes the caller's own call stack to a descriptor.
pub(super) fn print_here(what: &str, fd: c_int) {
    Trace::here(MAX_FRAMES).print(what, fd);
}

impl Trace {
    fn here(limit: usize) -> Self {
        let mut frames = [null_mut(); MAX_FRAMES];
        let limit = limit.min(MAX_FRAMES);
        // errno is the user's, and the unwinder may change it.
        let kept = errno();
        #[cfg(target_env = "gnu")]
        // SAFETY: there is room for `limit` frames.
        let len = unsafe { libc::backtrace(frames.as_mut_ptr(), limit as c_int) };
        #[cfg(not(target_env = "gnu"))]
        let len = { (&mut frames, 0).1 };
        // SAFETY: __errno_location has no precondition.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the place is the thread's own.
        unsafe { *place = kept };
        // SAFETY: gettid has no precondition.
        let thread = unsafe { libc::gettid() };
        Self {
            thread,
            len: usize::try_from(len).unwrap_or(0).min(limit),
            frames,
        }
    }

    fn print(&self, what: &str, fd: c_int) {
        line(fd, |out| {
            out.text("  ");
            out.text(what);
            out.text(" by thread ");
            out.number(usize::try_from(self.thread).unwrap_or(0));
            out.text(if self.len > 0 { " at" } else { "" });
        });
        #[cfg(target_env = "gnu")]
        // SAFETY: `len` of the frames are filled; addresses are only looked up.
        unsafe {
            libc::backtrace_symbols_fd(self.frames.as_ptr(), self.len as c_int, fd);
        };
    }
}
