//! The loop that replies: takes a message, sends it back with its stages, then reads what explains
//! the reply before.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_record::path::Transport;
use punctual_rt::clock;
use punctual_rt::ring::Producer;
use punctual_stats::histogram::Histogram;

use super::lateness::Lateness;
use crate::ancillary::{Ancillary, SentStage};
use crate::bill::LATE_NS;
use crate::exchange::{TcpChange, TcpCounters, Transmissions};
use crate::sys::frame::{self, Destination};
use crate::sys::{self, ErrorQueue, TCP_INFO_BYTES};
use crate::wire::data::{Earlier, Head, REPLY_BYTES, Stages, read_message, write_reply};

/// The least room for what is received in one call.
const BUFFER_BYTES: usize = 64 << 10;
/// While messages come without a pause, counters and stamps are read at most this often.
const READ_EVERY_NS: u64 = 1_000_000;
/// How long one wait for room lasts before the end is checked, in ms.
const ROOM_MS: i32 = 50;

/// The connection of data.
pub struct Line {
    /// Its socket.
    pub socket: Arc<OwnedFd>,
    /// Over what.
    pub transport: Transport,
    /// What messages of the session bear.
    pub tag: u32,
    /// The longest message.
    pub longest: usize,
    /// Time stamps of sent data are on.
    pub tx_stamps: bool,
    /// Where Ethernet frames go.
    pub to: Option<Destination>,
}

impl Line {
    /// Sends a datagram or a frame. Real-time safe; one system call.
    fn send(&self, reply: &[u8]) -> io::Result<usize> {
        match &self.to {
            Some(to) => frame::send(self.socket.as_fd(), to, reply),
            None => sys::send(self.socket.as_fd(), reply),
        }
    }
}

/// How the loop ended.
#[derive(Debug)]
pub enum Ended {
    /// It was halted.
    Halted,
    /// The sender ended the connection of data.
    Closed,
    /// What came is no message of this session: nothing after it can be read.
    Garbled,
    /// A call failed.
    Failed(io::Error),
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages.
    pub received: u64,
    /// Replies.
    pub replied: u64,
    /// Replies that found the socket's buffer full.
    pub blocked: u64,
    /// Data that is no message of the session.
    pub foreign: u64,
}

/// A message that came late to the kernel, or waited for the replying thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delay {
    /// Its number.
    pub sequence: u64,
    /// When the kernel had it, CLOCK_MONOTONIC.
    pub received_ns: u64,
    /// By so much that was later than usual.
    pub late_ns: u64,
    /// When the thread had it.
    pub woke_ns: u64,
    /// The thread took later data in the same call: the time stamp is that of the last.
    pub read_with_later: bool,
}

/// A reply that was sent.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    sequence: u64,
    id: u32,
    begin_ns: u64,
    software: Transmissions,
    scheduled: Transmissions,
    tcp: Option<TcpChange>,
}

/// The replying thread's own.
pub struct Replier {
    /// The connection of data.
    pub line: Line,
    halt: Arc<AtomicBool>,
    buffer: Box<[u8]>,
    filled: usize,
    queue: ErrorQueue,
    info: [u8; TCP_INFO_BYTES],
    real_offset_ns: i64,
    read_ns: u64,
    counters: Option<TcpCounters>,
    /// By which the kernel's stamps name the next reply.
    id: u32,
    /// The last reply before the last reading, and the last reply.
    before: Past,
    last: Past,
    /// What became of an earlier reply, which the next one says.
    known: Option<Past>,
    /// What was counted.
    pub counts: Counts,
    /// From the kernel's reception of a message to this thread.
    pub wake_up: Histogram,
    /// From there to the call that sends the reply.
    pub turnaround: Histogram,
    /// Takes the messages that came late or waited; absent where they are not explained.
    delays: Option<Producer<Delay>>,
    lateness: Lateness,
}

impl Replier {
    /// With all memory that it will use.
    #[must_use]
    pub fn new(line: Line, halt: Arc<AtomicBool>) -> Self {
        let bytes = BUFFER_BYTES.max(line.longest * 2);
        let mut buffer = vec![0u8; bytes].into_boxed_slice();
        // Touched, so that no page of it is absent.
        buffer.iter_mut().step_by(1024).for_each(|byte| *byte = 1);
        Self {
            line,
            halt,
            buffer,
            filled: 0,
            queue: ErrorQueue::default(),
            info: [0; TCP_INFO_BYTES],
            real_offset_ns: sys::real_offset_ns(),
            read_ns: 0,
            counters: None,
            id: 0,
            before: Past::default(),
            last: Past::default(),
            known: None,
            counts: Counts::default(),
            wake_up: Histogram::allocated(),
            turnaround: Histogram::allocated(),
            delays: None,
            lateness: Lateness::default(),
        }
    }

    /// Reports messages that came late or waited for the thread.
    #[must_use]
    pub fn with_delays(self, delays: Option<Producer<Delay>>) -> Self {
        Self { delays, ..self }
    }

    /// Replies until it is halted; the socket has a time-out, so that this is noticed. Real-time
    /// safe: what else it calls comes after the replies were sent.
    pub fn run(&mut self) -> Ended {
        self.read_counters();
        while !self.halt.load(Ordering::Acquire) {
            let room = &mut self.buffer[self.filled..];
            let received = sys::receive(self.line.socket.as_fd(), room, 0);
            let (count, ancillary) = match received {
                Ok(received) => received,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => continue,
                    Some(libc::ECONNRESET) => return Ended::Closed,
                    Some(_) if self.line.transport != Transport::Tcp => continue,
                    _ => return Ended::Failed(error),
                },
            };
            let woke_ns = clock::now_ns();
            clock::mark_wake_up();
            let ended = match self.line.transport {
                Transport::Tcp if count == 0 => Some(Ended::Closed),
                Transport::Tcp => {
                    self.filled += count;
                    self.take_stream(woke_ns, &ancillary)
                }
                Transport::Udp | Transport::Raw => self.take_datagram(count, woke_ns, &ancillary),
            };
            if let Some(ended) = ended {
                return ended;
            }
            if woke_ns.saturating_sub(self.read_ns) >= READ_EVERY_NS / 4 {
                self.read_ns = woke_ns;
                self.read_counters();
            }
        }
        Ended::Halted
    }

    fn take_stream(&mut self, woke_ns: u64, ancillary: &Ancillary) -> Option<Ended> {
        let mut at = 0;
        while self.filled - at >= REPLY_BYTES {
            let Some(head) = read_message(&self.buffer[at..self.filled], self.line.tag) else {
                self.counts.foreign += 1;
                return Some(Ended::Garbled);
            };
            let size = head.size as usize;
            if size > self.line.longest {
                self.counts.foreign += 1;
                return Some(Ended::Garbled);
            }
            if self.filled - at < size {
                break;
            }
            let replied = self.reply(at, &head, woke_ns, ancillary);
            if replied.is_some() {
                return replied;
            }
            at += size;
        }
        if at > 0 {
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
        }
        None
    }

    fn take_datagram(
        &mut self,
        count: usize,
        woke_ns: u64,
        ancillary: &Ancillary,
    ) -> Option<Ended> {
        let head = read_message(&self.buffer[..count], self.line.tag);
        match head.filter(|head| head.size as usize == count) {
            Some(head) => self.reply(0, &head, woke_ns, ancillary),
            None => {
                self.counts.foreign += 1;
                None
            }
        }
    }

    /// Sends the message at `at` back.
    fn reply(
        &mut self,
        at: usize,
        head: &Head,
        woke_ns: u64,
        ancillary: &Ancillary,
    ) -> Option<Ended> {
        self.counts.received += 1;
        let size = head.size as usize;
        let received_ns = ancillary.software_ns;
        let received_ns = received_ns.map(|ns| ns.saturating_add_signed(-self.real_offset_ns));
        let received_before = received_ns.map(|ns| woke_ns.saturating_sub(ns));
        let begin_ns = clock::now_ns();
        let short = |ns: u64| ns.min(u64::from(u32::MAX - 1)) as u32;
        let stages = Stages {
            woke_ns,
            received_before_ns: received_before.map(short),
            sent_after_ns: short(begin_ns.saturating_sub(woke_ns)),
            earlier: self
                .known
                .take()
                .and_then(|past| earlier(&past, head.sequence)),
        };
        write_reply(&mut self.buffer[at..at + size], head, &stages);
        let sent = match self.line.transport {
            Transport::Tcp => self.send_stream(at, size),
            Transport::Udp | Transport::Raw => self.send_datagram(at, size),
        };
        match sent {
            Ok(true) => {}
            Ok(false) => return None,
            Err(ended) => return Some(ended),
        }
        self.counts.replied += 1;
        let id = match self.line.transport {
            Transport::Tcp => self.id.wrapping_add(head.size),
            Transport::Udp | Transport::Raw => self.id.wrapping_add(1),
        };
        self.id = id;
        self.last = Past {
            sequence: head.sequence,
            id: id.wrapping_sub(1),
            begin_ns,
            ..Past::default()
        };
        if let Some(before) = received_before {
            self.wake_up.record(before);
            if let Some(delays) = &mut self.delays {
                let received_ns = woke_ns.saturating_sub(before);
                let late_ns = self.lateness.of(head.requested_ns, received_ns);
                if before.max(late_ns) > LATE_NS {
                    delays.push(Delay {
                        sequence: head.sequence,
                        received_ns,
                        late_ns,
                        woke_ns,
                        read_with_later: at + size < self.filled,
                    });
                }
            }
        }
        self.turnaround.record(begin_ns.saturating_sub(woke_ns));
        None
    }

    fn send_stream(&mut self, at: usize, size: usize) -> Result<bool, Ended> {
        let socket = self.line.socket.as_fd();
        let mut rest = &self.buffer[at..at + size];
        let mut blocked = false;
        while !rest.is_empty() {
            match sys::send(socket, rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        blocked = true;
                        if self.halt.load(Ordering::Acquire) {
                            return Err(Ended::Halted);
                        }
                        sys::wait_for_room(socket, ROOM_MS).map_err(Ended::Failed)?;
                    }
                    Some(libc::EINTR) => {}
                    Some(libc::EPIPE | libc::ECONNRESET) => return Err(Ended::Closed),
                    _ => return Err(Ended::Failed(error)),
                },
            }
        }
        self.counts.blocked += u64::from(blocked);
        Ok(true)
    }

    /// A datagram that the kernel does not take is lost, as one on the way is.
    fn send_datagram(&mut self, at: usize, size: usize) -> Result<bool, Ended> {
        let socket = self.line.socket.as_fd();
        let reply = &self.buffer[at..at + size];
        // The error of an earlier datagram is returned once, in the place of this call.
        for _ in 0..2 {
            match self.line.send(reply) {
                Ok(_) => return Ok(true),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    self.counts.blocked += 1;
                    sys::wait_for_room(socket, ROOM_MS).map_err(Ended::Failed)?;
                }
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Reads counters and stamps: what belongs to the last reply before the reading before is now
    /// complete.
    fn read_counters(&mut self) {
        self.real_offset_ns = sys::real_offset_ns();
        if self.line.tx_stamps {
            let (before, last) = (&mut self.before, &mut self.last);
            let offset_ns = self.real_offset_ns;
            self.queue.drain(self.line.socket.as_fd(), |ancillary| {
                let (Some(sent), Some(real_ns)) = (ancillary.sent, ancillary.software_ns) else {
                    return;
                };
                let past = match sent.id {
                    id if id == last.id => &mut *last,
                    id if id == before.id => &mut *before,
                    _ => return,
                };
                let at_ns = real_ns.saturating_add_signed(-offset_ns);
                match sent.stage {
                    SentStage::Software => past.software.add(at_ns),
                    SentStage::Scheduled => past.scheduled.add(at_ns),
                    SentStage::Acknowledged => {}
                }
            });
        }
        if self.line.transport == Transport::Tcp {
            let length = sys::tcp_info(self.line.socket.as_fd(), &mut self.info).unwrap_or(0);
            let now = TcpCounters::parse(&self.info[..length]);
            self.before.tcp = self.counters.map(|before| now.since(&before));
            self.counters = Some(now);
        }
        if self.before.sequence > 0 {
            self.known = Some(self.before);
        }
        self.before = self.last;
    }
}

/// What a reply says of an earlier one.
fn earlier(past: &Past, sequence: u64) -> Option<Earlier> {
    let before = u16::try_from(sequence.checked_sub(past.sequence)?).ok()?;
    let since = |ns: Option<u64>| Some(ns?.saturating_sub(past.begin_ns));
    let short = |ns: u64| ns.min(u64::from(u32::MAX - 1)) as u32;
    Some(Earlier {
        before,
        first_software_ns: since(past.software.first()).map(short),
        last_software_us: since(past.software.last()).map(|ns| short(ns / 1000)),
        last_scheduled_us: since(past.scheduled.last()).map(|ns| short(ns / 1000)),
        count: past.software.count.min(255) as u8,
        tcp: past.tcp,
    })
}
