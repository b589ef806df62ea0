//! The messages to the user, on standard error, one line each.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_rt::stack::{Class, Stats};

/// The number of threads, by what was done with their stacks.
pub(crate) static COUNTS: Counts = Counts::new();

pub(crate) struct Counts {
    /// On a stack of the pool.
    pub(crate) pooled: AtomicU64,
    /// On its own stack, prefaulted.
    pub(crate) wrapped: AtomicU64,
    /// On a stack that the program provides, left unchanged.
    pub(crate) own: AtomicU64,
    /// On its own stack, which could not be prefaulted.
    pub(crate) not_prefaulted: AtomicU64,
    /// Not started, because no stack could be allocated.
    pub(crate) refused: AtomicU64,
}

impl Counts {
    const fn new() -> Self {
        Self {
            pooled: AtomicU64::new(0),
            wrapped: AtomicU64::new(0),
            own: AtomicU64::new(0),
            not_prefaulted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

/// Adds one.
pub(crate) fn count(what: &AtomicU64) {
    what.fetch_add(1, Ordering::Relaxed);
}

/// A line buffer without allocation; a line that is too long is cut.
struct Line {
    bytes: [u8; 400],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            // Leaves room for the end of the line.
            if self.length + 1 < self.bytes.len() {
                self.bytes[self.length] = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Writes one line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; 400],
        length: 0,
    };
    let _ = write!(line, "punctual run: {text}");
    line.bytes[line.length] = b'\n';
    // SAFETY: the slice has that many live bytes.
    unsafe {
        libc::write(
            libc::STDERR_FILENO,
            line.bytes.as_ptr().cast(),
            line.length + 1,
        )
    };
}

/// Ends the process before the program begins: a requested option is not available.
pub(crate) fn end(reason: &str, word: &str) -> ! {
    line(format_args!("{reason}{word}"));
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(1) }
}

/// Whether a thread was started, or should have been.
pub(crate) fn any() -> bool {
    let counts = [
        &COUNTS.pooled,
        &COUNTS.wrapped,
        &COUNTS.own,
        &COUNTS.not_prefaulted,
        &COUNTS.refused,
    ];
    counts
        .iter()
        .any(|count| count.load(Ordering::Relaxed) != 0)
}

/// Reports what was done in this process.
pub(crate) fn summary() {
    let made: u64 = Class::all().map(|class| Stats::of(class).made).sum();
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    line(format_args!(
        "process {}: threads on stacks of the pool {} ({made} stacks created), on their own \
         stacks {} prefaulted and {} not prefaulted, on stacks of the program {}, refused {}",
        std::process::id(),
        read(&COUNTS.pooled),
        read(&COUNTS.wrapped),
        read(&COUNTS.not_prefaulted),
        read(&COUNTS.own),
        read(&COUNTS.refused),
    ));
}
