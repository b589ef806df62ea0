//! Channels: opening one, its options, and what became of them. Messages: `message`.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::ptr::null_mut;

use punctual_rt::channel::{
    self, Channel, Clock, Listener, Monitor, Options, Outcome, QuickAck, Receiver, Report, Sender,
    SocketOptions, WhenFull,
};
use punctual_rt::sys::cancel::hold;
use punctual_rt::sys::socket;

use crate::errno::{fail, null, number, set, wrong_size};
use crate::reserve::Since;
use crate::versioned::{self, Versioned};

/// A connection that carries messages in both directions; opaque. One thread at a time may send,
/// and one at a time may receive.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_channel {
    pub(crate) sender: UnsafeCell<Sender>,
    pub(crate) receiver: UnsafeCell<Receiver>,
    pub(crate) monitor: Monitor,
    report: Report,
    fd: RawFd,
}

/// A send returns EAGAIN at once if the socket accepts nothing.
pub const PUNCTUAL_CHANNEL_REFUSE: c_uint = 0;
/// A send waits for room, until the message's deadline at the latest.
pub const PUNCTUAL_CHANNEL_WAIT: c_uint = 1;
/// Each end has a clock of its own: ages are counted from the fastest message.
pub const PUNCTUAL_CHANNEL_OWN_CLOCK: c_uint = 0;
/// CLOCK_REALTIME is the same at both ends.
pub const PUNCTUAL_CHANNEL_SHARED_CLOCK: c_uint = 1;

/// How a channel works. punctual_channel_defaults() fills it; 0 leaves the kernel's setting.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_channel_options {
    /// Set it to sizeof(struct punctual_channel_options).
    pub struct_size: usize,
    /// The longest message in bytes, at most 16777215; 0 is 65536.
    pub message_max: u32,
    /// Frames of padding behind a message, 0 to 7.
    pub pads: u32,
    /// Longer messages have no padding, in bytes.
    pub pad_below: u32,
    /// PUNCTUAL_CHANNEL_REFUSE or PUNCTUAL_CHANNEL_WAIT.
    pub when_full: u32,
    /// PUNCTUAL_CHANNEL_OWN_CLOCK or PUNCTUAL_CHANNEL_SHARED_CLOCK.
    pub clock: u32,
    /// TCP_NODELAY: 1 disables Nagle's algorithm.
    pub no_delay: u32,
    /// TCP_QUICKACK: 1 at the beginning, 2 after each receive.
    pub quick_ack: u32,
    /// TCP_RTO_MIN_US: the shortest retransmission time-out, in us.
    pub rto_min_us: u32,
    /// TCP_DELACK_MAX_US: the longest delay of an acknowledgement, in us.
    pub delayed_ack_max_us: u32,
    /// TCP_USER_TIMEOUT: how long sent data may stay without acknowledgement, in ms.
    pub user_timeout_ms: u32,
    /// SO_SNDBUF, in bytes.
    pub send_buffer: u32,
    /// SO_RCVBUF, in bytes.
    pub receive_buffer: u32,
    /// SO_PRIORITY; above 6 needs CAP_NET_ADMIN.
    pub priority: u32,
    /// SO_BUSY_POLL, in us; needs CAP_NET_ADMIN.
    pub busy_poll_us: u32,
    /// SO_PREFER_BUSY_POLL: 1; needs CAP_NET_ADMIN.
    pub prefer_busy_poll: u32,
    /// Must be 0.
    pub reserved: u32,
}

// SAFETY: repr(C), the size first, and every field an integer.
unsafe impl Versioned for punctual_channel_options {
    const LEAST: usize = size_of::<usize>();
}

/// An option was not requested.
pub const PUNCTUAL_CHANNEL_NOT_REQUESTED: c_int = 0;
/// The requested value is in force: it was read back.
pub const PUNCTUAL_CHANNEL_IN_FORCE: c_int = 1;
/// Another value is in force.
pub const PUNCTUAL_CHANNEL_DIFFERS: c_int = 2;
/// The kernel refused it; `error` says why.
pub const PUNCTUAL_CHANNEL_REFUSED: c_int = 3;
/// This kernel does not have the option.
pub const PUNCTUAL_CHANNEL_TOO_OLD: c_int = 4;

/// What became of an option of the socket.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_channel_setting {
    /// Set it to sizeof(struct punctual_channel_setting).
    pub struct_size: usize,
    /// The kernel's name, "TCP_NODELAY" for one; static.
    pub name: *const c_char,
    /// What to do if the request is not in force, else ""; static.
    pub advice: *const c_char,
    /// The requested value; 0: none.
    pub requested: u32,
    /// The value in force; 0 if it can't be read.
    pub actual: u32,
    /// PUNCTUAL_CHANNEL_IN_FORCE or another of these.
    pub outcome: c_int,
    /// The errno with PUNCTUAL_CHANNEL_REFUSED, else 0.
    pub error: c_int,
}

// SAFETY: repr(C), the size first, and every field an integer or a raw pointer, for which any bytes
// are valid.
unsafe impl Versioned for punctual_channel_setting {
    const LEAST: usize = size_of::<usize>();
}

impl punctual_channel_options {
    fn of(options: &Options) -> Self {
        let socket = &options.socket;
        Self {
            struct_size: 0,
            message_max: options.message_max,
            pads: options.pads,
            pad_below: options.pad_below,
            when_full: match options.when_full {
                WhenFull::Refuse => PUNCTUAL_CHANNEL_REFUSE,
                WhenFull::Wait => PUNCTUAL_CHANNEL_WAIT,
            },
            clock: match options.clock {
                Clock::Own => PUNCTUAL_CHANNEL_OWN_CLOCK,
                Clock::Shared => PUNCTUAL_CHANNEL_SHARED_CLOCK,
            },
            no_delay: u32::from(socket.no_delay),
            quick_ack: match socket.quick_ack {
                QuickAck::Off => 0,
                QuickAck::Once => 1,
                QuickAck::Always => 2,
            },
            rto_min_us: socket.rto_min_us,
            delayed_ack_max_us: socket.delayed_ack_max_us,
            user_timeout_ms: socket.user_timeout_ms,
            send_buffer: socket.send_buffer,
            receive_buffer: socket.receive_buffer,
            priority: socket.priority,
            busy_poll_us: socket.busy_poll_us,
            prefer_busy_poll: u32::from(socket.prefer_busy_poll),
            reserved: 0,
        }
    }

    fn options(&self) -> Option<Options> {
        let flag = |value: u32| (value <= 1).then_some(value == 1);
        let options = Options {
            message_max: match self.message_max {
                0 => Options::default().message_max,
                bytes => bytes,
            },
            pads: self.pads,
            pad_below: self.pad_below,
            when_full: match flag(self.when_full)? {
                false => WhenFull::Refuse,
                true => WhenFull::Wait,
            },
            clock: match flag(self.clock)? {
                false => Clock::Own,
                true => Clock::Shared,
            },
            socket: SocketOptions {
                no_delay: flag(self.no_delay)?,
                quick_ack: match self.quick_ack {
                    0 => QuickAck::Off,
                    1 => QuickAck::Once,
                    2 => QuickAck::Always,
                    _ => return None,
                },
                rto_min_us: self.rto_min_us,
                delayed_ack_max_us: self.delayed_ack_max_us,
                user_timeout_ms: self.user_timeout_ms,
                send_buffer: self.send_buffer,
                receive_buffer: self.receive_buffer,
                priority: self.priority,
                busy_poll_us: self.busy_poll_us,
                prefer_busy_poll: flag(self.prefer_busy_poll)?,
            },
        };
        (self.reserved == 0).then_some(options)
    }
}

/// The caller's options; -1 with EINVAL was set if there are none.
///
/// # Safety
/// `options` is NULL, or `options->struct_size` bytes are readable.
unsafe fn read(options: *const punctual_channel_options) -> Result<Options, c_int> {
    if options.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: not NULL, so by contract `struct_size` bytes are readable.
    let read = unsafe { versioned::read(options) }.ok_or_else(wrong_size)?;
    read.options().ok_or_else(|| {
        fail(
            libc::EINVAL,
            c"channel options: expected when_full, clock, no_delay and prefer_busy_poll 0 or 1, \
              quick_ack 0 to 2, reserved 0",
        )
    })
}

/// -1 with `errno` and its explanation.
#[cold]
pub(crate) fn failed(error: &io::Error) -> c_int {
    let number = number(error);
    fail(number, channel::advice(number))
}

/// An address like "10.0.0.2:7000"; -1 with errno was set if it is none.
///
/// # Safety
/// `text` is NULL or a string.
unsafe fn address(text: *const c_char) -> Result<SocketAddr, c_int> {
    if text.is_null() {
        return Err(null());
    }
    // SAFETY: not NULL, so a string by contract.
    let text = unsafe { CStr::from_ptr(text) };
    let parsed = text.to_str().ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        fail(
            libc::EINVAL,
            c"the address: expected one like 10.0.0.2:7000 or [fe80::1%2]:7000, names are not \
              resolved",
        )
    })
}

/// A channel for C, or NULL with errno.
fn made(since: &Since, made: io::Result<Channel>) -> *mut punctual_channel {
    let made = made.map(|channel| {
        let (monitor, report, fd) = (channel.monitor(), *channel.report(), channel.as_raw_fd());
        let (sender, receiver) = channel.split();
        Box::new(punctual_channel {
            sender: UnsafeCell::new(sender),
            receiver: UnsafeCell::new(receiver),
            monitor,
            report,
            fd,
        })
    });
    match made {
        Ok(made) if !since.is_short() => return Box::into_raw(made),
        Ok(_) => set(libc::ENOMEM, channel::advice(libc::ENOMEM)),
        Err(error) => {
            failed(&error);
        }
    }
    null_mut()
}

/// Fills the options that a channel has if it gets none: those that make messages arrive sooner.
/// Set `out->struct_size` first.
///
/// A real-time thread may call it: no system call. -1 with errno: EFAULT NULL; EINVAL
/// `struct_size`.
///
/// # Safety
/// `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_defaults(out: *mut punctual_channel_options) -> c_int {
    if out.is_null() {
        return null();
    }
    let defaults = punctual_channel_options::of(&Options::default());
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, defaults) } {
        0
    } else {
        wrong_size()
    }
}

/// Listens at a numeric address, such as "10.0.0.2:7000" or "[::1]:7000"; port 0 is any free one,
/// which getsockname() returns. Connections inherit the buffers of `options` (NULL: the kernel's).
/// Returns the descriptor of the socket, for punctual_channel_accept() and close().
///
/// Not for a real-time thread: it allocates in the kernel. -1 with errno, and
/// punctual_last_error(): EFAULT `address` is NULL; EINVAL the address or the options; EADDRINUSE;
/// EADDRNOTAVAIL; EACCES a port below 1024.
///
/// # Safety
/// `address` is NULL or a string; `options` as for punctual_channel_accept().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_listen(
    address: *const c_char,
    options: *const punctual_channel_options,
) -> c_int {
    let _held = hold();
    // SAFETY: by contract NULL or readable.
    let options = match unsafe { read(options) } {
        Ok(options) => options,
        Err(failed) => return failed,
    };
    // SAFETY: by contract NULL or a string.
    let at = match unsafe { self::address(address) } {
        Ok(at) => at,
        Err(failed) => return failed,
    };
    let listening = Listener::bind(&at, &options);
    listening.map_or_else(|error| failed(&error), IntoRawFd::into_raw_fd)
}

/// Waits until a peer connects, until an instant of CLOCK_MONOTONIC in ns (UINT64_MAX: no limit).
/// `options` NULL: the defaults. The memory of the channel is prefaulted.
///
/// Not for a real-time thread: it waits and allocates. NULL with errno, and punctual_last_error():
/// EINVAL the options, or a socket that does not listen; ETIMEDOUT at the instant; EINTR; EBADF;
/// ENOMEM.
///
/// # Safety
/// `options` is NULL, or `options->struct_size` bytes are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_accept(
    listener: c_int,
    until_ns: u64,
    options: *const punctual_channel_options,
) -> *mut punctual_channel {
    let _held = hold();
    let since = Since::now();
    // SAFETY: by contract NULL or readable.
    let Ok(options) = (unsafe { read(options) }) else {
        return null_mut();
    };
    if listener < 0 {
        set(libc::EBADF, channel::advice(libc::EBADF));
        return null_mut();
    }
    // SAFETY: the program keeps its descriptor open during the call; a closed one is an error.
    let listener = unsafe { BorrowedFd::borrow_raw(listener) };
    made(&since, channel::accept(listener, until_ns, &options))
}

/// Connects to a channel that listens at a numeric address, until an instant of CLOCK_MONOTONIC in
/// ns (UINT64_MAX: no limit). `options` NULL: the defaults. The memory of the channel is prefaulted.
///
/// Not for a real-time thread: it waits and allocates. NULL with errno, and punctual_last_error():
/// EFAULT `address` is NULL; EINVAL the address or the options; ETIMEDOUT at the instant;
/// ECONNREFUSED; ENETUNREACH; EHOSTUNREACH; ENOMEM.
///
/// # Safety
/// `address` is NULL or a string; `options` as for punctual_channel_accept().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_connect(
    address: *const c_char,
    until_ns: u64,
    options: *const punctual_channel_options,
) -> *mut punctual_channel {
    let _held = hold();
    let since = Since::now();
    // SAFETY: by contract NULL or a string.
    let Ok(to) = (unsafe { self::address(address) }) else {
        return null_mut();
    };
    // SAFETY: by contract NULL or readable.
    let Ok(options) = (unsafe { read(options) }) else {
        return null_mut();
    };
    made(&since, Channel::connect(&to, until_ns, &options))
}

/// Makes a channel of a connected stream socket. The descriptor is duplicated: close yours.
/// `options` NULL: the defaults. The memory of the channel is prefaulted.
///
/// Not for a real-time thread: it allocates. NULL with errno, and punctual_last_error(): EINVAL
/// the options; EBADF, ENOTSOCK, EPROTOTYPE no stream socket; EMFILE; ENOMEM.
///
/// # Safety
/// As for punctual_channel_accept().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_open(
    fd: c_int,
    options: *const punctual_channel_options,
) -> *mut punctual_channel {
    let _held = hold();
    let since = Since::now();
    // SAFETY: by contract NULL or readable.
    let Ok(options) = (unsafe { read(options) }) else {
        return null_mut();
    };
    let own = socket::duplicate(fd);
    made(&since, own.and_then(|own| Channel::over(own, &options)))
}

/// Closes the connection and frees its memory; NULL is allowed. Messages that the peer has not
/// acknowledged may be lost if messages or padding of the peer are unread: to avoid that, call
/// punctual_channel_finish(), and receive until EPIPE.
///
/// Not for a real-time thread: it frees memory, and makes system calls. It never fails.
///
/// # Safety
/// `channel` is NULL, or was returned by one of these functions and no thread uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_close(channel: *mut punctual_channel) {
    let _held = hold();
    if !channel.is_null() {
        // SAFETY: not NULL, so by contract it comes from Box::into_raw, and is freed once.
        drop(unsafe { Box::from_raw(channel) });
    }
}

/// The descriptor of the connection, for poll() and getpeername(); it stays the channel's.
///
/// A real-time thread may call it: one load. -1 with EFAULT: NULL.
///
/// # Safety
/// `channel` is NULL or is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_fd(channel: *const punctual_channel) -> c_int {
    // SAFETY: by contract NULL or open.
    unsafe { channel.as_ref() }.map_or_else(null, |channel| channel.fd)
}

/// What became of option number `index` of the socket, from 0: returns 1 and fills `out`, or
/// returns 0 after the last. Set `out->struct_size` first.
///
/// A real-time thread may call it: a few loads. -1 with errno: EFAULT NULL; EINVAL `struct_size`.
///
/// # Safety
/// `channel` is NULL or is open; `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_setting(
    channel: *const punctual_channel,
    index: usize,
    out: *mut punctual_channel_setting,
) -> c_int {
    // SAFETY: by contract NULL or open.
    let Some(channel) = (unsafe { channel.as_ref() }).filter(|_| !out.is_null()) else {
        return null();
    };
    let Some(setting) = channel.report.settings().get(index) else {
        return 0;
    };
    let found = punctual_channel_setting {
        struct_size: 0,
        name: setting.option.name().as_ptr(),
        advice: setting.advice().as_ptr(),
        requested: setting.requested,
        actual: setting.actual.unwrap_or(0),
        outcome: match setting.outcome {
            Outcome::NotRequested => PUNCTUAL_CHANNEL_NOT_REQUESTED,
            Outcome::InForce => PUNCTUAL_CHANNEL_IN_FORCE,
            Outcome::Differs => PUNCTUAL_CHANNEL_DIFFERS,
            Outcome::Refused(_) => PUNCTUAL_CHANNEL_REFUSED,
            Outcome::TooOld => PUNCTUAL_CHANNEL_TOO_OLD,
        },
        error: match setting.outcome {
            Outcome::Refused(errno) => errno,
            _ => 0,
        },
    };
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, found) } {
        1
    } else {
        wrong_size()
    }
}
