//! The loop that receives: takes each reply, then reads what explains it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_record::path::Transport;
use punctual_rt::clock;

use super::{Ended, Line, Reading, Received, ReplyWriters, Shared, Stamped};
use crate::ancillary::Ancillary;
use crate::exchange::TcpCounters;
use crate::sys::{self, ErrorQueue, TCP_INFO_BYTES};
use crate::wire::data::{Head, WHOLE_REPLY_BYTES, read_reply_head};

/// The least room for what is received in one call.
const BUFFER_BYTES: usize = 64 << 10;
/// While replies are outstanding, counters and stamps are read at most this often.
const READ_EVERY_NS: u64 = 1_000_000;

/// The receiving thread's own.
pub struct Receiver {
    line: Line,
    shared: Arc<Shared>,
    rings: ReplyWriters,
    buffer: Box<[u8]>,
    filled: usize,
    queue: ErrorQueue,
    info: [u8; TCP_INFO_BYTES],
    real_offset_ns: i64,
    read_ns: u64,
}

impl Receiver {
    /// With all memory that it will use.
    #[must_use]
    pub fn new(line: Line, shared: Arc<Shared>, rings: ReplyWriters) -> Self {
        let bytes = BUFFER_BYTES.max(line.longest() * 2);
        let mut buffer = vec![0u8; bytes].into_boxed_slice();
        // Touched, so that no page of it is absent.
        buffer.iter_mut().step_by(1024).for_each(|byte| *byte = 1);
        Self {
            line,
            shared,
            rings,
            buffer,
            filled: 0,
            queue: ErrorQueue::default(),
            info: [0; TCP_INFO_BYTES],
            real_offset_ns: sys::real_offset_ns(),
            read_ns: 0,
        }
    }

    /// Receives until it is halted. The socket has a time-out, so that this is noticed. Real-time
    /// safe: it waits for replies; what else it calls comes after a reply was taken.
    pub fn run(&mut self) -> Ended {
        self.read_counters(0);
        while !self.shared.halt.load(Ordering::Acquire) {
            let (count, ancillary) = {
                let room = &mut self.buffer[self.filled..];
                match sys::receive(self.line.socket.as_fd(), room, 0) {
                    Ok(received) => received,
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EAGAIN | libc::EINTR) => {
                            self.read_stamps();
                            continue;
                        }
                        Some(libc::ECONNRESET) => return Ended::Closed,
                        // Of an earlier datagram.
                        Some(
                            libc::ECONNREFUSED
                            | libc::EHOSTUNREACH
                            | libc::ENETUNREACH
                            | libc::ENETDOWN,
                        ) if self.line.transport != Transport::Tcp => {
                            continue;
                        }
                        _ => return Ended::Failed(error),
                    },
                }
            };
            // It was woken to end.
            if count == 0 && self.shared.halt.load(Ordering::Acquire) {
                break;
            }
            let woke_ns = clock::now_ns();
            clock::mark_wake_up();
            let last = match self.line.transport {
                Transport::Tcp if count == 0 => return Ended::Closed,
                Transport::Tcp => {
                    self.filled += count;
                    match self.take_stream(woke_ns, &ancillary) {
                        Some(last) => last,
                        None => return Ended::Garbled,
                    }
                }
                Transport::Udp | Transport::Raw => self.take_datagram(count, woke_ns, &ancillary),
            };
            if last > 0 && self.has_time(last, woke_ns) {
                self.read_ns = woke_ns;
                self.read_counters(last);
            }
        }
        Ended::Completed
    }

    /// Whether no reply is waited for right now, or the last reading is long ago.
    fn has_time(&self, last: u64, woke_ns: u64) -> bool {
        last >= self.shared.sent.load(Ordering::Acquire)
            || woke_ns.saturating_sub(self.read_ns) >= READ_EVERY_NS
    }

    /// Takes the replies that are complete; the number of the last, 0 for none. `None`: the stream
    /// has something else.
    fn take_stream(&mut self, woke_ns: u64, ancillary: &Ancillary) -> Option<u64> {
        let (mut at, mut last) = (0, 0);
        while let Some(bytes) = self.buffer[at..self.filled].get(..WHOLE_HEAD) {
            let head = read_reply_head(bytes, self.line.tag)?;
            let size = head.size as usize;
            if size > self.line.longest() {
                return None;
            }
            if self.filled - at < size {
                break;
            }
            self.push(at, size, &head, woke_ns, ancillary);
            last = head.sequence;
            at += size;
        }
        if at > 0 {
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
        }
        Some(last)
    }

    /// Takes one datagram; its number, 0 if it is no reply.
    fn take_datagram(&mut self, count: usize, woke_ns: u64, ancillary: &Ancillary) -> u64 {
        let head = read_reply_head(&self.buffer[..count], self.line.tag);
        match head.filter(|head| head.size as usize == count) {
            Some(head) => {
                self.push(0, count, &head, woke_ns, ancillary);
                head.sequence
            }
            None => {
                // Number 0 is that of no message.
                self.rings.replies.push(Received {
                    woke_ns,
                    ..Received::default()
                });
                0
            }
        }
    }

    fn push(&mut self, at: usize, size: usize, head: &Head, woke_ns: u64, ancillary: &Ancillary) {
        let mut received = Received {
            sequence: head.sequence,
            requested_ns: head.requested_ns,
            woke_ns,
            software_ns: self.monotonic(ancillary.software_ns.unwrap_or(0)),
            hardware_ns: ancillary.hardware_ns.unwrap_or(0),
            size: head.size,
            bytes: [0; WHOLE_REPLY_BYTES],
        };
        let kept = size.min(WHOLE_REPLY_BYTES);
        received.bytes[..kept].copy_from_slice(&self.buffer[at..at + kept]);
        self.rings.replies.push(received);
    }

    fn monotonic(&self, real_ns: u64) -> u64 {
        match real_ns {
            0 => 0,
            _ => real_ns.saturating_add_signed(-self.real_offset_ns),
        }
    }

    fn read_counters(&mut self, last: u64) {
        self.real_offset_ns = sys::real_offset_ns();
        self.read_stamps();
        let tcp = (self.line.transport == Transport::Tcp).then(|| {
            let length = sys::tcp_info(self.line.socket.as_fd(), &mut self.info).unwrap_or(0);
            TcpCounters::parse(&self.info[..length])
        });
        let dropped = match self.line.transport {
            Transport::Tcp => 0,
            Transport::Udp | Transport::Raw => sys::dropped(self.line.socket.as_fd()),
        };
        self.rings.readings.push(Reading {
            sequence: last,
            tcp,
            dropped,
            real_offset_ns: self.real_offset_ns,
        });
    }

    fn read_stamps(&mut self) {
        if !self.line.tx_stamps {
            return;
        }
        let (stamps, offset_ns) = (&mut self.rings.stamps, self.real_offset_ns);
        let launch = self.line.launch;
        self.queue.drain(self.line.socket.as_fd(), |ancillary| {
            if let (Some(missed_ns), Some(launch)) = (ancillary.missed_ns, launch) {
                stamps.push(Stamped {
                    at_ns: missed_ns.saturating_add_signed(-launch.clock().offset_ns()),
                    missed: true,
                    ..Stamped::default()
                });
            }
            let Some(sent) = ancillary.sent else {
                return;
            };
            let stamped = Stamped {
                at_ns: 0,
                id: sent.id,
                stage: sent.stage,
                ..Stamped::default()
            };
            if let Some(real_ns) = ancillary.software_ns {
                stamps.push(Stamped {
                    at_ns: real_ns.saturating_add_signed(-offset_ns),
                    ..stamped
                });
            }
            if let Some(at_ns) = ancillary.hardware_ns {
                stamps.push(Stamped {
                    at_ns,
                    is_hardware: true,
                    ..stamped
                });
            }
        });
    }
}

/// As many bytes as the smallest reply has.
const WHOLE_HEAD: usize = crate::wire::data::REPLY_BYTES;
