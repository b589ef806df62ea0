//! The loop that sends: at each instant its messages, whatever became of earlier ones.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_record::path::Transport;
use punctual_rt::clock;
use punctual_rt::periodic::{Intervals, Schedule};
use punctual_rt::ring::Producer;

use super::{Ended, Line, Sent, Shared};
use crate::sys;
use crate::wire::data::{Head, write_message};
use crate::wire::limits;

/// How long one wait for room lasts before the end is checked, in ms.
const ROOM_MS: i32 = 50;
/// A message that waited for room for less, when the run was called off, is none of it.
const BLOCKED_NS: u64 = 1_000_000_000;

/// The sending thread's own.
pub struct Sender {
    line: Line,
    shared: Arc<Shared>,
    sent: Producer<Sent>,
    /// A message; its head is written anew each time.
    message: Box<[u8]>,
    sequence: u64,
    /// By which the kernel's stamps name the next message.
    id: u32,
}

impl Sender {
    /// With all memory that it will use.
    #[must_use]
    pub fn new(line: Line, shared: Arc<Shared>, sent: Producer<Sent>) -> Self {
        // Not zero: a link that compresses would send other lengths.
        let message = (0..line.longest()).map(|at| (at * 197 % 251) as u8);
        Self {
            message: message.collect(),
            line,
            shared,
            sent,
            sequence: 0,
            id: 0,
        }
    }

    /// Sends until the end. Real-time safe: it sleeps, sends, and waits only if the socket is full.
    pub fn run<I: Intervals>(&mut self, mut schedule: Schedule<I>) -> Ended {
        loop {
            let due_ns = schedule.advance();
            if self.is_over(due_ns) {
                return Ended::Completed;
            }
            let wake_ns = due_ns.saturating_sub(self.line.lead_ns());
            while let Err(error) = clock::sleep_until(wake_ns) {
                if error.raw_os_error() != Some(libc::EINTR) {
                    return Ended::Failed(error);
                }
            }
            clock::mark_wake_up();
            for left in (0..self.line.burst).rev() {
                let mut sent = match self.send(due_ns) {
                    Ok(sent) => sent,
                    Err(ended) => {
                        self.break_off(due_ns, left, &mut schedule);
                        return ended;
                    }
                };
                if left == 0 {
                    let passed = schedule.skip_until(self.last_passed_ns(&sent));
                    sent.skipped_after = passed.saturating_mul(self.line.burst.into());
                }
                self.sent.push(sent);
                self.shared.sent.store(sent.sequence, Ordering::Release);
            }
            if self.sequence >= limits::MOST_SEQUENCE - u64::from(self.line.burst) {
                return Ended::Completed;
            }
        }
    }

    /// A message was not sent to its end: it counts as one that was, without a reply, and what was due until now
    /// as skipped after it.
    fn break_off<I: Intervals>(&mut self, due_ns: u64, left: u32, schedule: &mut Schedule<I>) {
        let now_ns = clock::now_ns();
        let planned_ns = self.shared.planned_end_ns();
        // Called off: it had not waited long, and would have been sent.
        if now_ns < planned_ns && now_ns.saturating_sub(due_ns) < BLOCKED_NS {
            return;
        }
        let until_ns = now_ns.min(planned_ns.saturating_sub(1));
        let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
        let (mut due_ns, mut left) = (due_ns, left);
        // What passed in the warm-up does not count, but what is due after it does, with its first message.
        if due_ns < start_ns {
            schedule.skip_until(start_ns.saturating_sub(1));
            due_ns = schedule.advance();
            if due_ns > until_ns {
                return;
            }
            left = self.line.burst - 1;
        }
        let passed = schedule.skip_until(until_ns);
        let passed = passed.saturating_mul(self.line.burst.into());
        self.sent.push(Sent {
            sequence: self.sequence,
            requested_ns: due_ns,
            begin_ns: due_ns,
            end_ns: now_ns,
            skipped_after: passed.saturating_add(left.into()),
            size: self.line.longest() as u32,
            id: self.id,
            blocked: true,
            ..Sent::default()
        });
        self.shared.sent.store(self.sequence, Ordering::Release);
    }

    /// Instants up to this one have passed when a message was sent. Those from the end on are none of
    /// this run. A warm-up passes none of those that count: the first of them is late by itself.
    fn last_passed_ns(&self, sent: &Sent) -> u64 {
        let end_ns = self.shared.end_ns.load(Ordering::Relaxed);
        let start_ns = self.shared.start_ns.load(Ordering::Relaxed);
        let next_ns = if sent.requested_ns < start_ns {
            start_ns.min(end_ns)
        } else {
            end_ns
        };
        sent.end_ns.min(next_ns.saturating_sub(1))
    }

    fn is_over(&self, due_ns: u64) -> bool {
        due_ns >= self.shared.end_ns.load(Ordering::Relaxed)
    }

    /// Sends one message.
    fn send(&mut self, requested_ns: u64) -> Result<Sent, Ended> {
        let sizes = &self.line.sizes;
        let size = sizes[(self.sequence % sizes.len() as u64) as usize];
        self.sequence += 1;
        let head = Head {
            tag: self.line.tag,
            size,
            sequence: self.sequence,
            requested_ns,
        };
        let message = &mut self.message[..size as usize];
        write_message(message, &head);
        let mut sent = Sent {
            sequence: self.sequence,
            requested_ns,
            begin_ns: clock::now_ns(),
            size,
            ..Sent::default()
        };
        match self.line.transport {
            Transport::Tcp => {
                self.id = self.id.wrapping_add(size);
                sent.id = self.id.wrapping_sub(1);
                sent.blocked = self.send_stream(size as usize)?;
            }
            Transport::Udp | Transport::Raw => self.send_datagram(&mut sent)?,
        }
        sent.end_ns = clock::now_ns();
        Ok(sent)
    }

    /// Sends all bytes; whether it had to wait for room.
    fn send_stream(&self, size: usize) -> Result<bool, Ended> {
        let socket = self.line.socket.as_fd();
        let mut rest = &self.message[..size];
        let mut blocked = false;
        while !rest.is_empty() {
            match sys::send(socket, rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        blocked = true;
                        // A message that was begun is sent to its end, unless the run is over.
                        if self.shared.end_ns.load(Ordering::Relaxed) == 0 {
                            return Err(Ended::Completed);
                        }
                        sys::wait_for_room(socket, ROOM_MS).map_err(Ended::Failed)?;
                    }
                    Some(libc::EINTR) => {}
                    Some(libc::EPIPE | libc::ECONNRESET) => return Err(Ended::Closed),
                    _ => return Err(Ended::Failed(error)),
                },
            }
        }
        Ok(blocked)
    }

    /// Sends one datagram; one that the kernel refuses is noted, and is lost.
    fn send_datagram(&mut self, sent: &mut Sent) -> Result<(), Ended> {
        let socket = self.line.socket.as_fd();
        let message = &self.message[..sent.size as usize];
        // The error of an earlier datagram is returned once, in the place of this call.
        let mut retries = 2;
        loop {
            sent.id = self.id;
            let Err(error) = self.line.send(message, sent.requested_ns) else {
                self.id = self.id.wrapping_add(1);
                return Ok(());
            };
            match error.raw_os_error() {
                Some(libc::EAGAIN) => {
                    sent.blocked = true;
                    if self.shared.end_ns.load(Ordering::Relaxed) == 0 {
                        return Err(Ended::Completed);
                    }
                    sys::wait_for_room(socket, ROOM_MS).map_err(Ended::Failed)?;
                }
                Some(libc::EINTR) => {}
                Some(
                    errno @ (libc::ECONNREFUSED
                    | libc::ENOBUFS
                    | libc::ENETUNREACH
                    | libc::EHOSTUNREACH
                    | libc::ENETDOWN
                    | libc::EPERM),
                ) => {
                    retries -= 1;
                    if retries == 0 {
                        sent.refused = errno;
                        return Ok(());
                    }
                }
                _ => return Err(Ended::Failed(error)),
            }
        }
    }
}
