//! The sending side: a thread that sends at absolute instants, and one that receives the replies.

pub mod connect;
pub mod join;
mod receive;
mod send;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_record::path::Transport;
use punctual_rt::memory::Disturbances;
use punctual_rt::ring::{Consumer, Producer, try_ring};

use crate::exchange::TcpCounters;
use crate::sys;
use crate::sys::frame::{self, Destination};
use crate::sys::launch::{self, LaunchClock};
use crate::wire::data::WHOLE_REPLY_BYTES;
pub use receive::Receiver;
pub use send::Sender;

/// Events that the rings of a session hold at most, of each kind.
const MOST_EVENTS: u64 = 1 << 16;
/// How long the rings last at the nominal rate.
const RING_NS: u64 = 32_000_000_000;

/// A message that was sent, as the sending thread reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Its number, from 1.
    pub sequence: u64,
    /// The instant at which it was to be sent.
    pub requested_ns: u64,
    /// Before the first call that sends it.
    pub begin_ns: u64,
    /// After the last.
    pub end_ns: u64,
    /// Messages that were skipped after it.
    pub skipped_after: u64,
    /// Its length.
    pub size: u32,
    /// By which the kernel's stamps name it.
    pub id: u32,
    /// The error number with which the kernel refused to send it; 0 for none.
    pub refused: i32,
    /// The socket's buffer was full.
    pub blocked: bool,
}

/// A reply, as the receiving thread reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub sequence: u64,
    /// The instant that it repeats.
    pub requested_ns: u64,
    /// When the thread had it.
    pub woke_ns: u64,
    /// When the kernel had it; 0 if that is not known.
    pub software_ns: u64,
    /// The network card's stamp; 0 for none.
    pub hardware_ns: u64,
    /// Its length.
    pub size: u32,
    /// Its first bytes.
    pub bytes: [u8; WHOLE_REPLY_BYTES],
}

impl Default for Received {
    fn default() -> Self {
        Self {
            sequence: 0,
            requested_ns: 0,
            woke_ns: 0,
            software_ns: 0,
            hardware_ns: 0,
            size: 0,
            bytes: [0; WHOLE_REPLY_BYTES],
        }
    }
}

/// A stamp of sent data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamped {
    /// When, CLOCK_MONOTONIC; of the card, by its own clock.
    pub at_ns: u64,
    /// Of what.
    pub id: u32,
    /// Where it was.
    pub stage: crate::ancillary::SentStage,
    /// The card's own stamp.
    pub is_hardware: bool,
    /// It is no stamp: data whose launch time was `at_ns` was dropped, because that had passed.
    pub missed: bool,
}

/// What was read after a reply was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// The number of the last reply.
    pub sequence: u64,
    /// TCP's counters; absent without TCP.
    pub tcp: Option<TcpCounters>,
    /// Replies that this socket dropped so far, because its buffer was full; of UDP also those with a wrong checksum.
    pub dropped: u32,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub real_offset_ns: i64,
}

/// What both threads and the others share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Messages that are due earlier are a warm-up.
    start_ns: AtomicU64,
    /// No message is sent at this instant or later.
    end_ns: AtomicU64,
    /// The same as it was planned.
    planned_ns: AtomicU64,
    /// The receiving thread ends.
    halt: AtomicBool,
    /// The number of the last message that was sent.
    sent: AtomicU64,
}

impl Shared {
    /// Without an end.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let shared = Self::default();
        shared.end_ns.store(u64::MAX, Ordering::Relaxed);
        shared.planned_ns.store(u64::MAX, Ordering::Relaxed);
        Arc::new(shared)
    }

    /// Sets the instant from which messages count. Before it nothing is counted as skipped, and what is
    /// skipped from it on is counted by messages that count.
    pub fn count_from(&self, start_ns: u64) {
        self.start_ns.store(start_ns, Ordering::Relaxed);
    }

    /// Sets the instant from which nothing is sent, unless the end was called.
    pub fn end_at(&self, end_ns: u64) {
        self.planned_ns.store(end_ns, Ordering::Relaxed);
        let _ = self
            .end_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |current| {
                (current != 0).then_some(end_ns)
            });
    }

    /// The instant of [`Shared::end_at`], whether or not the end was called since.
    #[must_use]
    pub fn planned_end_ns(&self) -> u64 {
        self.planned_ns.load(Ordering::Relaxed)
    }

    /// Sends nothing more.
    pub fn end(&self) {
        self.end_ns.store(0, Ordering::Relaxed);
    }

    /// Ends the receiving thread too.
    pub fn halt(&self) {
        self.halt.store(true, Ordering::Release);
    }

    /// The number of messages that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }
}

/// How a thread ended.
#[derive(Debug)]
pub enum Ended {
    /// As planned.
    Completed,
    /// The other side ended the connection of data.
    Closed,
    /// What came is no reply of this session: nothing after it can be read.
    Garbled,
    /// A call failed.
    Failed(io::Error),
}

/// What a thread reports at its end.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Page faults and preemptions of its loop.
    pub disturbances: Option<Disturbances>,
    /// Processor time of its loop.
    pub cpu_ns: u64,
}

/// The connection of data, and how messages lie on it.
#[derive(Debug, Clone)]
pub struct Line {
    /// The socket, shared by both threads.
    pub socket: Arc<OwnedFd>,
    /// Over what.
    pub transport: Transport,
    /// What messages of the session bear.
    pub tag: u32,
    /// The lengths of messages.
    pub sizes: Vec<u32>,
    /// Messages at each instant.
    pub burst: u32,
    /// Time stamps of sent data are on.
    pub tx_stamps: bool,
    /// Where Ethernet frames go.
    pub to: Option<Destination>,
    /// Messages have launch times; absent where the thread itself sends at the instant.
    pub launch: Option<Launch>,
}

/// Messages are passed to the kernel before their instant, at which a queueing discipline sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// How long before.
    pub lead_ns: u64,
    /// The card sends at the instant: the driver has the message before.
    pub by_card: bool,
}

impl Launch {
    /// By which clock launch times are taken: by that of the card, or of the queueing discipline.
    fn clock(&self) -> LaunchClock {
        match self.by_card {
            false => LaunchClock::Monotonic,
            true => LaunchClock::Tai,
        }
    }
}

impl Line {
    /// Sends a datagram or a frame, at this instant if it has a launch time. Real-time safe; one system
    /// call.
    fn send(&self, message: &[u8], at_ns: u64) -> io::Result<usize> {
        let socket = self.socket.as_fd();
        match (&self.launch, &self.to) {
            (Some(launch), to) => {
                let at_ns = at_ns.saturating_add_signed(launch.clock().offset_ns());
                launch::send_at(socket, to.as_ref(), message, at_ns)
            }
            (None, Some(to)) => frame::send(socket, to, message),
            (None, None) => sys::send(socket, message),
        }
    }

    /// How long before its instant a message is passed to the kernel.
    fn lead_ns(&self) -> u64 {
        self.launch.map_or(0, |launch| launch.lead_ns)
    }

    /// Wakes the thread that receives: it looks whether it is to end. Nothing can be received
    /// afterwards.
    pub fn wake_receiver(&self) {
        // A connection that is gone wakes it as well.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read);
    }

    /// Says to the responder's thread that nothing more comes: it ends at once. UDP and Ethernet say nothing.
    pub fn end_sending(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    fn longest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0) as usize
    }
}

/// The ends of the rings that the threads write.
pub struct Writers {
    /// The sending thread's.
    pub sent: Producer<Sent>,
    /// The receiving thread's.
    pub received: ReplyWriters,
}

/// The rings of the receiving thread.
pub struct ReplyWriters {
    /// Replies.
    pub replies: Producer<Received>,
    /// Stamps of sent messages.
    pub stamps: Producer<Stamped>,
    /// What was read after replies.
    pub readings: Producer<Reading>,
}

/// The ends of the rings that are read.
pub struct Readers {
    /// Messages that were sent.
    pub sent: Consumer<Sent>,
    /// Replies.
    pub replies: Consumer<Received>,
    /// Stamps of sent messages.
    pub stamps: Consumer<Stamped>,
    /// What was read after replies.
    pub readings: Consumer<Reading>,
}

impl Readers {
    /// Messages and replies that found a ring full: nothing is known of them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.refused() + self.replies.refused()
    }

    /// Stamps and readings that found a ring full: explanations lack them.
    #[must_use]
    pub fn unexplained(&self) -> u64 {
        self.stamps.refused() + self.readings.refused()
    }
}

/// The rings of a session with this interval between messages, their memory touched.
///
/// # Errors
/// Memory is short.
pub fn rings(interval_ns: u64, burst: u32) -> io::Result<(Writers, Readers)> {
    let each_ns = (interval_ns / u64::from(burst.max(1))).max(1);
    let capacity = (RING_NS / each_ns).clamp(1 << 12, MOST_EVENTS) as usize;
    let (sent, its_sent) = try_ring(capacity)?;
    let (replies, its_replies) = try_ring(capacity)?;
    let (stamps, its_stamps) = try_ring(capacity * 2)?;
    let (readings, its_readings) = try_ring(capacity)?;
    let writers = Writers {
        sent,
        received: ReplyWriters {
            replies,
            stamps,
            readings,
        },
    };
    let readers = Readers {
        sent: its_sent,
        replies: its_replies,
        stamps: its_stamps,
        readings: its_readings,
    };
    Ok((writers, readers))
}
