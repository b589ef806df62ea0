//! The sending half of a channel.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::counts::{Counters, Monitor};
use super::frame::{HEADER, Header, Kind};
use super::inbox::present;
use super::{Clock, Counts, Options, WhenFull};
use crate::clock;
use crate::sys::socket;
use crate::sys::time::clock_now;

/// A message up to this size is copied behind its header, which costs less than a list of parts.
const COPIED: usize = 2048;

/// What became of a message that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// The kernel has all of it.
    Whole,
    /// The kernel has its beginning; the channel keeps the rest, and sends it first at the next
    /// call.
    Partly,
}

/// The sending half of a channel.
#[derive(Debug)]
pub struct Sender {
    socket: Arc<OwnedFd>,
    counters: Arc<Counters>,
    /// A frame: the one that is sent, or the rest of one.
    frame: Box<[u8]>,
    rest: Range<usize>,
    limit: usize,
    pads: usize,
    pad_below: usize,
    when_full: WhenFull,
    clock: Clock,
}

impl Sender {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        counters: Arc<Counters>,
        options: &Options,
    ) -> io::Result<Self> {
        let limit = options.message_max as usize;
        Ok(Self {
            socket,
            counters,
            frame: present(HEADER + limit)?,
            rest: 0..0,
            limit,
            pads: options.pads as usize,
            pad_below: options.pad_below as usize,
            when_full: options.when_full,
            clock: options.clock,
        })
    }

    /// Sends a message that may be `deadline_ns` old when it is received; 0: no deadline, and no
    /// stamp. Padding follows, if the options ask for it.
    ///
    /// Real-time safe; one system call while the socket accepts the message, also with padding.
    /// When it does not, either the message is refused at once, or this waits for room, until the
    /// deadline at the latest: see [`WhenFull`].
    ///
    /// # Errors
    /// Nothing of the message was sent: EMSGSIZE too long; EAGAIN refused, ETIME at the deadline,
    /// both counted; EINTR. The connection has ended: EPIPE, ECONNRESET, ETIMEDOUT.
    #[inline]
    pub fn send(&mut self, message: &[u8], deadline_ns: u64) -> io::Result<Sent> {
        let pads = if message.len() <= self.pad_below {
            self.pads
        } else {
            0
        };
        self.send_frame(message, deadline_ns, pads)
    }

    /// Like [`Sender::send`] for a message that is followed by another at once: without padding.
    /// Real-time safe in the same way.
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn send_more(&mut self, message: &[u8], deadline_ns: u64) -> io::Result<Sent> {
        self.send_frame(message, deadline_ns, 0)
    }

    #[inline]
    fn send_frame(&mut self, message: &[u8], deadline_ns: u64, pads: usize) -> io::Result<Sent> {
        if message.len() > self.limit {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        let (kind, stamp_ns, until_ns) = match (deadline_ns, self.clock) {
            (0, _) => (Kind::Message, 0, u64::MAX),
            (_, Clock::Own) => {
                let now = clock::now_ns();
                (Kind::Stamped, now, now.saturating_add(deadline_ns))
            }
            (_, Clock::Shared) => {
                let until = clock::now_ns().saturating_add(deadline_ns);
                let now = clock_now(libc::CLOCK_REALTIME);
                (Kind::StampedRealtime, now, until)
            }
        };
        if !self.rest.is_empty() {
            self.make_way(until_ns)?;
        }
        let header = Header {
            kind,
            length: message.len() as u32,
            deadline_us: u32::try_from(deadline_ns.div_ceil(1000)).unwrap_or(u32::MAX),
            stamp_ns,
        };
        let length = HEADER + message.len();
        let accepted = loop {
            match self.offer(&header.bytes(), message, pads) {
                Ok(count) => break count,
                Err(error) => self.wait_for_room(error, until_ns)?,
            }
        };
        if accepted < length {
            return self.keep_rest(&header.bytes(), message, accepted, until_ns);
        }
        self.counters.sent.add(1);
        Ok(Sent::Whole)
    }

    /// Offers a frame to the kernel: how much of it was accepted. The frame is in `self.frame` if
    /// it was copied.
    #[inline]
    fn offer(&mut self, header: &[u8; HEADER], message: &[u8], pads: usize) -> io::Result<usize> {
        if pads == 0 && message.len() <= COPIED {
            let frame = &mut self.frame[..HEADER + message.len()];
            frame[..HEADER].copy_from_slice(header);
            frame[HEADER..].copy_from_slice(message);
            return socket::send(self.socket.as_fd(), frame, 0);
        }
        let pad = Header::padding().bytes();
        // Each part is a segment of its own: a pad in the segment of the message would be lost
        // with it.
        let flags = if pads == 0 { 0 } else { libc::MSG_EOR };
        let parts = (&header[..], message);
        let (accepted, of_pads) =
            socket::send_parts(self.socket.as_fd(), parts, &pad, pads, flags)?;
        self.counters
            .padding_sent
            .add(of_pads.div_ceil(HEADER) as u64);
        if of_pads % HEADER != 0 {
            self.frame[..HEADER].copy_from_slice(&pad);
            self.rest = of_pads % HEADER..HEADER;
        }
        Ok(accepted)
    }

    /// The kernel has the beginning of a frame, so the rest must follow before anything else.
    #[cold]
    fn keep_rest(
        &mut self,
        header: &[u8; HEADER],
        message: &[u8],
        accepted: usize,
        until_ns: u64,
    ) -> io::Result<Sent> {
        let length = HEADER + message.len();
        self.frame[..HEADER].copy_from_slice(header);
        self.frame[HEADER..length].copy_from_slice(message);
        self.rest = accepted..length;
        let wait = self.when_full == WhenFull::Wait;
        match self.push_rest(if wait { until_ns } else { 0 }) {
            Err(error) if !is_temporary(&error) => Err(error),
            pushed => {
                self.counters.sent.add(1);
                Ok(pushed.map_or(Sent::Partly, |()| Sent::Whole))
            }
        }
    }

    /// Sends the rest of an earlier frame, before a new one begins.
    #[cold]
    fn make_way(&mut self, until_ns: u64) -> io::Result<()> {
        while !self.rest.is_empty() {
            match socket::send(self.socket.as_fd(), &self.frame[self.rest.clone()], 0) {
                Ok(count) => self.rest.start += count,
                Err(error) => self.wait_for_room(error, until_ns)?,
            }
        }
        Ok(())
    }

    /// After the kernel has accepted nothing: waits for room, if that is the policy, or returns why
    /// the message is refused.
    #[cold]
    fn wait_for_room(&self, error: io::Error, until_ns: u64) -> io::Result<()> {
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(self.counters.ended.explained(error));
        }
        if self.when_full == WhenFull::Refuse {
            self.counters.refused.add(1);
            return Err(error);
        }
        if socket::wait(self.socket.as_fd(), libc::POLLOUT, until_ns)? {
            return Ok(());
        }
        self.counters.refused.add(1);
        Err(io::Error::from_raw_os_error(libc::ETIME))
    }

    /// Sends the rest of a message that was sent partly, until an instant of CLOCK_MONOTONIC: 0 does
    /// not wait, `u64::MAX` waits without a limit. Real-time safe; no system call if there is no
    /// rest, else one, and two more for each time that it waits.
    ///
    /// # Errors
    /// ETIME at the instant, EAGAIN if it does not wait; EINTR; EPIPE, ECONNRESET, ETIMEDOUT.
    pub fn flush(&mut self, until_ns: u64) -> io::Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        self.push_rest(until_ns)
    }

    #[cold]
    fn push_rest(&mut self, until_ns: u64) -> io::Result<()> {
        while !self.rest.is_empty() {
            match socket::send(self.socket.as_fd(), &self.frame[self.rest.clone()], 0) {
                Ok(count) => self.rest.start += count,
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && until_ns != 0 => {
                    if !socket::wait(self.socket.as_fd(), libc::POLLOUT, until_ns)? {
                        return Err(io::Error::from_raw_os_error(libc::ETIME));
                    }
                }
                Err(error) => return Err(self.counters.ended.explained(error)),
            }
        }
        Ok(())
    }

    /// Bytes of a message that was sent partly, which [`Sender::flush`] or the next message sends.
    /// Real-time safe.
    #[must_use]
    pub fn rest(&self) -> usize {
        self.rest.len()
    }

    /// States that no message follows: the peer's receive returns EPIPE after the last one.
    /// Real-time safe; one system call.
    ///
    /// # Errors
    /// EAGAIN while the rest of a message is not sent; ENOTCONN.
    pub fn finish(&mut self) -> io::Result<()> {
        if !self.rest.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        socket::finish(self.socket.as_fd())
    }

    /// What was counted. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Reads the counts in another thread. Real-time safe.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor(Arc::clone(&self.counters))
    }
}

/// Whether the connection can still send the rest of a frame.
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ETIME | libc::EINTR | libc::ENOMEM | libc::ENOBUFS)
    )
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
