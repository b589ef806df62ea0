//! The receiving half of a channel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::age::{Age, Fastest};
use super::counts::Counters;
use super::frame::{FrameError, Header, Kind};
use super::inbox::{Frame, Inbox};
use super::{Clock, Counts, Options, QuickAck};
use crate::clock;
use crate::sys::socket;
use crate::sys::time::clock_now;

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its bytes, in the memory of the channel.
    pub payload: &'a [u8],
    /// How old it may be, in ns; 0: no deadline.
    pub deadline_ns: u64,
    /// How old it is.
    pub age: Age,
}

impl Message<'_> {
    /// Whether it is known to be older than its deadline. Real-time safe.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.deadline_ns != 0 && self.age.ns() > self.deadline_ns
    }
}

/// The receiving half of a channel.
#[derive(Debug)]
pub struct Receiver {
    socket: Arc<OwnedFd>,
    counters: Arc<Counters>,
    inbox: Inbox,
    fastest: Fastest,
    quick_ack: bool,
    clock: Clock,
}

impl Receiver {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        counters: Arc<Counters>,
        options: &Options,
    ) -> io::Result<Self> {
        Ok(Self {
            socket,
            counters,
            inbox: Inbox::new(options.message_max)?,
            fastest: Fastest::new(),
            quick_ack: options.socket.quick_ack == QuickAck::Always,
            clock: options.clock,
        })
    }

    /// Receives a message into the memory of the channel, until an instant of CLOCK_MONOTONIC: 0 does
    /// not wait, `u64::MAX` waits without a limit.
    ///
    /// Real-time safe; no system call if the message was received with an earlier one, one without
    /// waiting or without a limit, two (ppoll, recvfrom) for a wait until an instant. Padding that
    /// arrives alone needs as many calls as a message. With [`QuickAck::Always`] each recvfrom is
    /// followed by a setsockopt.
    ///
    /// # Errors
    /// EAGAIN no message yet, ETIME none until the instant, EINTR; EPIPE the peer has closed the
    /// connection after a message, EBADMSG within one; EPROTO the peer does not speak this framing,
    /// EMSGSIZE its message is longer than the options allow: the connection is of no more use;
    /// ECONNRESET, ETIMEDOUT.
    #[inline]
    pub fn receive(&mut self, until_ns: u64) -> io::Result<Message<'_>> {
        let frame = self.next_message(until_ns)?;
        let (deadline_ns, age) = self.accept(&frame.header);
        Ok(Message {
            payload: self.inbox.payload(&frame),
            deadline_ns,
            age,
        })
    }

    /// Receives a message into `buffer`, whose beginning is the message's payload then. Real-time
    /// safe like [`Receiver::receive`].
    ///
    /// # Errors
    /// As [`Receiver::receive`], and ENOBUFS: the buffer is too small; the message is not lost, and
    /// the next call returns it.
    pub fn receive_into<'a>(
        &mut self,
        buffer: &'a mut [u8],
        until_ns: u64,
    ) -> io::Result<Message<'a>> {
        let frame = self.next_message(until_ns)?;
        let payload = self.inbox.payload(&frame);
        let Some(filled) = buffer.get_mut(..payload.len()) else {
            self.inbox.put_back(&frame);
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        };
        filled.copy_from_slice(payload);
        let (deadline_ns, age) = self.accept(&frame.header);
        Ok(Message {
            payload: filled,
            deadline_ns,
            age,
        })
    }

    #[inline]
    fn next_message(&mut self, until_ns: u64) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            match until_ns {
                0 => {
                    self.fill(libc::MSG_DONTWAIT)?;
                    // One call at most, whatever the peer sends.
                    let frame = self.buffered()?;
                    return frame.ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN));
                }
                u64::MAX => match self.fill(0) {
                    // The descriptor does not block.
                    Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                        socket::wait(self.socket.as_fd(), libc::POLLIN, u64::MAX)?;
                    }
                    done => done?,
                },
                // The instant ends it also if the peer sends nothing but padding.
                at => {
                    if !socket::wait(self.socket.as_fd(), libc::POLLIN, at)? {
                        return Err(io::Error::from_raw_os_error(libc::ETIME));
                    }
                    match self.fill(libc::MSG_DONTWAIT) {
                        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                        done => done?,
                    }
                    if clock::now_ns() >= at {
                        let frame = self.buffered()?;
                        return frame.ok_or_else(|| io::Error::from_raw_os_error(libc::ETIME));
                    }
                }
            }
        }
    }

    /// The next message among the received bytes; padding before it is discarded.
    #[inline]
    fn buffered(&mut self) -> io::Result<Option<Frame>> {
        loop {
            match self.inbox.next_frame() {
                Ok(Some(frame)) if frame.header.kind == Kind::Padding => {
                    self.counters.receiving.padding.add(1);
                }
                Ok(frame) => return Ok(frame),
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Receives more bytes.
    #[inline]
    fn fill(&mut self, flags: libc::c_int) -> io::Result<()> {
        let count = match socket::receive(self.socket.as_fd(), self.inbox.room(), flags) {
            Ok(0) => return Err(self.closed()),
            Ok(count) => count,
            Err(error) => return Err(self.counters.ended.explained(error)),
        };
        self.inbox.filled(count);
        if self.quick_ack {
            // It was possible when the channel was opened.
            let _ = socket::set(
                self.socket.as_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_QUICKACK,
                1,
            );
        }
        Ok(())
    }

    #[cold]
    fn closed(&self) -> io::Error {
        let ended = io::Error::from_raw_os_error(libc::EPIPE);
        match self.counters.ended.explained(ended) {
            error if error.raw_os_error() != Some(libc::EPIPE) => error,
            _ if self.inbox.is_within_a_frame() => io::Error::from_raw_os_error(libc::EBADMSG),
            ended => ended,
        }
    }

    /// Counts a message: its deadline and its age.
    #[inline]
    fn accept(&mut self, header: &Header) -> (u64, Age) {
        let counters = &self.counters.receiving;
        counters.received.add(1);
        let deadline_ns = u64::from(header.deadline_us) * 1000;
        if header.kind == Kind::Message {
            counters.not_judged.add(u64::from(deadline_ns != 0));
            return (deadline_ns, Age::Unknown);
        }
        let age = if header.kind == Kind::StampedRealtime && self.clock == Clock::Shared {
            Age::Exactly(clock_now(libc::CLOCK_REALTIME).saturating_sub(header.stamp_ns))
        } else {
            let now = clock::now_ns();
            Age::AtLeast(self.fastest.beyond(header.kind, header.stamp_ns, now))
        };
        counters.oldest_ns.raise_to(age.ns());
        let late = deadline_ns != 0 && age.ns() > deadline_ns;
        counters.late.add(u64::from(late));
        (deadline_ns, age)
    }

    /// What was counted. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }
}

#[cold]
fn unreadable(error: FrameError) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
