//! What a channel has counted; any thread may read it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Counts of a channel since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were sent: the kernel has them, or has their beginning and gets the rest.
    pub sent: u64,
    /// Messages of which nothing was sent, because the socket accepted none before the deadline,
    /// or at once.
    pub refused: u64,
    /// Frames of padding that were sent.
    pub padding_sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Of these: older than their deadline.
    pub late: u64,
    /// Of these: with a deadline, but without a stamp, so that nobody can know.
    pub not_judged: u64,
    /// The age of the oldest message, in ns.
    pub oldest_ns: u64,
    /// Frames of padding that were received and discarded.
    pub padding_received: u64,
}

/// Reads the counts of a channel, in any thread.
#[derive(Debug, Clone)]
pub struct Monitor(pub(super) Arc<Counters>);

impl Monitor {
    /// What was counted so far. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.read()
    }
}

/// One thread counts, others may read.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Only the thread that owns this half of the channel adds, so no atomic addition is needed.
    #[inline]
    pub(super) fn add(&self, count: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(sum, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn raise_to(&self, value: u64) {
        if value > self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: Counter,
    pub(super) refused: Counter,
    pub(super) padding_sent: Counter,
    pub(super) ended: Ended,
    /// The halves of a channel are used by two threads.
    pub(super) receiving: Receiving,
}

#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Receiving {
    pub(super) received: Counter,
    pub(super) late: Counter,
    pub(super) not_judged: Counter,
    pub(super) oldest_ns: Counter,
    pub(super) padding: Counter,
}

/// Why the connection has ended: the kernel says it once, to one of the halves; later calls get EPIPE
/// or the end of the data.
#[derive(Debug, Default)]
pub(super) struct Ended(AtomicI32);

impl Ended {
    /// The error to return: the one that ended the connection, if this one only follows from it.
    #[cold]
    pub(super) fn explained(&self, error: io::Error) -> io::Error {
        match error.raw_os_error() {
            Some(libc::EPIPE) => match self.0.load(Ordering::Relaxed) {
                0 => error,
                first => io::Error::from_raw_os_error(first),
            },
            Some(
                errno @ (libc::ECONNRESET
                | libc::ETIMEDOUT
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ECONNABORTED),
            ) => {
                self.0.store(errno, Ordering::Relaxed);
                error
            }
            _ => error,
        }
    }
}

impl Counters {
    pub(super) fn read(&self) -> Counts {
        Counts {
            sent: self.sent.get(),
            refused: self.refused.get(),
            padding_sent: self.padding_sent.get(),
            received: self.receiving.received.get(),
            late: self.receiving.late.get(),
            not_judged: self.receiving.not_judged.get(),
            oldest_ns: self.receiving.oldest_ns.get(),
            padding_received: self.receiving.padding.get(),
        }
    }
}
