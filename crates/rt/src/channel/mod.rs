//! Messages between two machines, over TCP.
//!
//! A connection with the options that make messages arrive sooner, and a report of those that are
//! in force; small messages can be followed by padding, so that the loss of the last message is
//! repaired by fast retransmission instead of a time-out; each message may have a deadline, and the
//! receiver counts late ones. The framing is documented, and a plain socket can speak it.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::sys::socket;

mod age;
mod counts;
mod frame;
mod inbox;
mod options;
mod receive;
mod send;

pub use age::Age;
pub use counts::{Counts, Monitor};
pub use frame::{FrameError, HEADER, Header, Kind, LARGEST};
pub use inbox::{Frame, Inbox};
pub use options::{Outcome, QuickAck, Report, Setting, SocketOption, SocketOptions};
pub use receive::{Message, Receiver};
pub use send::{Sender, Sent};

use counts::Counters;

/// Frames of padding that may follow a message.
pub const MOST_PADS: u32 = 7;

/// How a channel works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The longest message in bytes, of both directions; 1 to [`LARGEST`].
    pub message_max: u32,
    /// How many frames of padding follow a message, each in a segment of its own; 0 to
    /// [`MOST_PADS`]. Three let the receiver report the loss of the message at once.
    pub pads: u32,
    /// Longer messages are not followed by padding, in bytes.
    pub pad_below: u32,
    /// What a send does when the socket accepts nothing.
    pub when_full: WhenFull,
    /// Which clock tells the age of a message.
    pub clock: Clock,
    /// The options of the socket.
    pub socket: SocketOptions,
}

/// What a send does when the socket accepts nothing, because the network or the receiver is slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It returns EAGAIN at once, and nothing of the message is sent.
    #[default]
    Refuse,
    /// It waits, until the message's deadline at the latest; then it returns ETIME.
    Wait,
}

/// Which clock tells the age of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// Each end its own: an age is counted from the fastest message.
    #[default]
    Own,
    /// CLOCK_REALTIME, which both ends share: they run on one host, or PTP synchronises it.
    Shared,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            message_max: 65_536,
            pads: 0,
            pad_below: 1_024,
            when_full: WhenFull::default(),
            clock: Clock::default(),
            socket: SocketOptions::default(),
        }
    }
}

impl Options {
    fn check(&self) -> io::Result<()> {
        let possible = (1..=LARGEST).contains(&self.message_max) && self.pads <= MOST_PADS;
        if possible { Ok(()) } else { Err(invalid()) }
    }
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// What an error of a channel means, and what to do. Real-time safe.
#[must_use]
pub const fn advice(errno: i32) -> &'static CStr {
    match errno {
        libc::EAGAIN => c"nothing is possible without waiting: try again later",
        libc::ETIME => c"nothing until the given instant: the network or the peer is slow",
        libc::EINTR => c"a signal handler ran: call again",
        libc::EPIPE => c"the peer has closed the connection: connect again",
        libc::EBADMSG => c"the connection was closed within a message: connect again",
        libc::EPROTO => {
            c"the peer sends bytes that are no frame: it must use the channel's framing"
        }
        libc::EMSGSIZE => c"the message is too long: raise message_max, at both ends",
        libc::ENOBUFS => c"the buffer is smaller than the message, which is kept: use a larger one",
        libc::ECONNRESET => c"the peer ended the connection, or its program crashed: connect again",
        libc::ETIMEDOUT => {
            c"the peer does not answer, or did not acknowledge within user_timeout_ms: check the \
              network and the peer"
        }
        libc::ECONNREFUSED => c"no program listens at this address: start the peer first",
        libc::EADDRINUSE => c"another socket listens at this address: choose another port",
        libc::EADDRNOTAVAIL => c"the address does not belong to this machine",
        libc::ENETUNREACH | libc::EHOSTUNREACH => c"there is no route to the address",
        libc::EPROTOTYPE => c"not a stream socket: expected a connected TCP socket",
        libc::ENOTCONN => c"the socket is not connected: connect it first",
        libc::ENOTSOCK | libc::EBADF => c"not an open socket: expected a connected TCP socket",
        libc::ENOMEM => c"no memory for the channel: lower message_max, or check the memory cgroup",
        libc::EINVAL => {
            c"channel options: expected message_max 1 to 16777215, pads 0 to 7, and addresses \
              like 10.0.0.2:7000 or [fe80::1%2]:7000"
        }
        _ => c"the kernel refused the operation on the socket",
    }
}

/// A connection that carries messages in both directions.
#[derive(Debug)]
pub struct Channel {
    sender: Sender,
    receiver: Receiver,
    report: Report,
}

impl Channel {
    /// Connects to a channel that listens, until an instant of CLOCK_MONOTONIC at the latest
    /// (`u64::MAX`: no limit). Not real-time safe: it waits and allocates.
    ///
    /// # Errors
    /// EINVAL for impossible options, ETIMEDOUT at the instant, ECONNREFUSED, ENETUNREACH,
    /// EHOSTUNREACH, ENOMEM.
    pub fn connect(to: &SocketAddr, until_ns: u64, options: &Options) -> io::Result<Self> {
        options.check()?;
        let own = socket::tcp(to)?;
        // Buffers have their full effect only before the connection.
        let _ = options.socket.apply(own.as_fd());
        socket::connect(own.as_fd(), to, until_ns)?;
        Self::over(own, options)
    }

    /// Makes a channel of a connected stream socket, which it owns then. Not real-time safe: it
    /// allocates.
    ///
    /// # Errors
    /// EINVAL for impossible options, ENOTSOCK, EPROTOTYPE for another kind of socket, ENOMEM.
    pub fn over(socket: OwnedFd, options: &Options) -> io::Result<Self> {
        options.check()?;
        if socket::get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TYPE)? != libc::SOCK_STREAM {
            return Err(io::Error::from_raw_os_error(libc::EPROTOTYPE));
        }
        let report = options.socket.apply(socket.as_fd());
        let (socket, counters) = (Arc::new(socket), Arc::new(Counters::default()));
        Ok(Self {
            sender: Sender::new(Arc::clone(&socket), Arc::clone(&counters), options)?,
            receiver: Receiver::new(socket, counters, options)?,
            report,
        })
    }

    /// Which options of the socket are in force, and why others are not. Real-time safe.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Sends a message: see [`Sender::send`]. Real-time safe; one system call while there is room.
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn send(&mut self, message: &[u8], deadline_ns: u64) -> io::Result<Sent> {
        self.sender.send(message, deadline_ns)
    }

    /// Receives a message: see [`Receiver::receive`]. Real-time safe; at most two system calls for
    /// each segment.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    #[inline]
    pub fn receive(&mut self, until_ns: u64) -> io::Result<Message<'_>> {
        self.receiver.receive(until_ns)
    }

    /// Both halves. Real-time safe.
    pub const fn halves(&mut self) -> (&mut Sender, &mut Receiver) {
        (&mut self.sender, &mut self.receiver)
    }

    /// Both halves, for two threads; the connection is closed when both are dropped. Real-time
    /// safe.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// What was counted. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.sender.counts()
    }

    /// Reads the counts while other threads use the halves. Real-time safe.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.sender.monitor()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.sender.as_raw_fd()
    }
}

/// A socket that accepts channels.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    options: Options,
}

impl Listener {
    /// Listens at an address; port 0: any free port. Not real-time safe.
    ///
    /// # Errors
    /// EINVAL for impossible options, EADDRINUSE, EADDRNOTAVAIL, EACCES for a port below 1024.
    pub fn bind(at: &SocketAddr, options: &Options) -> io::Result<Self> {
        options.check()?;
        let own = socket::tcp(at)?;
        // Connections inherit the buffers.
        let _ = options.socket.apply(own.as_fd());
        socket::listen(own.as_fd(), at)?;
        Ok(Self {
            socket: own,
            options: *options,
        })
    }

    /// The address that it listens at. Not real-time safe.
    ///
    /// # Errors
    /// None in practice.
    pub fn address(&self) -> io::Result<SocketAddr> {
        socket::local(self.socket.as_fd())
    }

    /// Waits for a peer, until an instant of CLOCK_MONOTONIC (`u64::MAX`: no limit). Not real-time
    /// safe: it waits and allocates.
    ///
    /// # Errors
    /// ETIMEDOUT at the instant, EINTR, EMFILE, ENOMEM.
    pub fn accept(&self, until_ns: u64) -> io::Result<Channel> {
        accept(self.socket.as_fd(), until_ns, &self.options)
    }
}

/// [`Listener::accept`] with any listening socket. Not real-time safe.
///
/// # Errors
/// As [`Listener::accept`], and EINVAL for a socket that does not listen.
pub fn accept(listener: BorrowedFd<'_>, until_ns: u64, options: &Options) -> io::Result<Channel> {
    options.check()?;
    loop {
        if !socket::wait(listener, libc::POLLIN, until_ns)? {
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        match socket::accept(listener) {
            Ok(connected) => return Channel::over(connected, options),
            // The peer has given up meanwhile, or another thread was faster.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAGAIN | libc::ECONNABORTED)
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl IntoRawFd for Listener {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
