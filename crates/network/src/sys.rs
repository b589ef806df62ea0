//! Calls on sockets with the kernel's time stamps, which `rustix` does not have.
#![expect(unsafe_code, reason = "raw system calls")]

pub mod frame;
pub mod launch;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use punctual_rt::sys::time::clock_now;

use crate::ancillary::{Ancillary, CONTROL_BYTES};

/// Stamps of received data, software.
const RX_SOFTWARE: u32 = 1 << 3;
const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const TX_SCHED: u32 = 1 << 8;
const TX_ACK: u32 = 1 << 9;
const OPT_TSONLY: u32 = 1 << 11;
/// Those of the card, of sent and of received data, by its own clock; beside the kernel's of sent data,
/// which a card's would replace otherwise (`OPT_TX_SWHW`).
const HARDWARE: u32 = 1 | 1 << 2 | 1 << 6 | 1 << 14;

/// Bytes of `TCP_INFO` that are read; newer kernels have more.
pub const TCP_INFO_BYTES: usize = 256;
/// Messages of the error queue that one call takes.
const BATCH: usize = 32;

/// Memory that the kernel writes control messages into: aligned as they are.
type Control = [u64; CONTROL_BYTES / 8];

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    }
}

fn check_length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sets an option that is a number.
///
/// # Errors
/// The kernel's.
pub fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: u32) -> io::Result<()> {
    set_option_to(socket, level, name, &value)
}

/// Sets an option that is a number or a structure of the kernel's.
fn set_option_to<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` lives during the call, and `length` is its size; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length,
        )
    };
    check(result).map(drop)
}

/// What a socket may hold that nobody takes: at 1,000 small messages a second, those of a minute. It costs
/// memory only while nobody takes them.
const RECEIVE_ROOM: u32 = 64 << 20;
/// `SO_MEMINFO` (Linux 4.12), how many words it has, and which of them counts what was dropped:
/// include/uapi/linux/sock_diag.h.
const SO_MEMINFO: i32 = 55;
const MEMINFO_WORDS: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Makes room for what comes while the thread that takes it is late: as much as `RECEIVE_ROOM`, or as
/// `net.core.rmem_max` allows a user without CAP_NET_ADMIN.
pub fn make_room(socket: BorrowedFd<'_>) {
    let set = |name| set_option(socket, libc::SOL_SOCKET, name, RECEIVE_ROOM);
    if set(libc::SO_RCVBUFFORCE).is_err() {
        // What is dropped for want of it is counted.
        let _ = set(libc::SO_RCVBUF);
    }
}

/// How much a socket dropped, because its buffer was full or, with UDP, the checksum wrong; 0 where the kernel does not
/// say. Real-time safe; one system call.
#[must_use]
pub fn dropped(socket: BorrowedFd<'_>) -> u32 {
    let mut words = [0_u32; MEMINFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` has `length` bytes, which the kernel writes at most; both live during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match result {
        0 => words[MEMINFO_DROPS],
        _ => 0,
    }
}

/// Turns on the kernel's time stamps of received and sent data; `acks`: also of TCP's
/// acknowledgements; `hardware`: also the card's, which come where it was told to make them. Returns
/// which are on: received, sent.
pub fn enable_stamps(socket: BorrowedFd<'_>, acks: bool, hardware: bool) -> (bool, bool) {
    let acks = if acks { TX_ACK } else { 0 };
    let receive = SOFTWARE | RX_SOFTWARE;
    let all = receive | TX_SOFTWARE | TX_SCHED | OPT_ID | OPT_TSONLY | acks;
    let set = |flags| set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags).is_ok();
    if hardware && set(all | HARDWARE) || set(all) {
        return (true, true);
    }
    (set(receive), false)
}

/// Receives, with the control messages that come along. Real-time safe; one system call.
///
/// # Errors
/// The kernel's; EAGAIN after the socket's time-out.
pub fn receive(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
    flags: i32,
) -> io::Result<(usize, Ancillary)> {
    let mut control: Control = [0; CONTROL_BYTES / 8];
    let mut part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let mut header = header(&mut part, &mut control);
    // SAFETY: the header's pointers lead to `part`, which spans `into`, and to `control`; all live
    // during the call and are not used otherwise meanwhile.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let count = check_length(result)?;
    let length = header.msg_controllen.min(CONTROL_BYTES);
    Ok((count, Ancillary::parse(&bytes_of(&control)[..length])))
}

/// The header of a message in one part of memory, with control messages.
fn header<C>(part: &mut libc::iovec, control: &mut C) -> libc::msghdr {
    // SAFETY: all-zero bytes are a valid `msghdr`: no name, no parts.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = std::ptr::from_mut(control).cast();
    header.msg_controllen = size_of::<C>() as _;
    header
}

/// The bytes of control messages.
fn bytes_of(control: &Control) -> &[u8] {
    // SAFETY: the array's memory is initialised, lives as long as the borrow, and every byte of it is
    // a valid `u8`.
    unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), CONTROL_BYTES) }
}

/// Sends. Real-time safe; one system call.
///
/// # Errors
/// The kernel's; EAGAIN if the socket's buffer is full.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes live during the call, and their length is given.
    let result = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    check_length(result)
}

/// How long to wait where `poll` can't: see [`wait_for_room`].
const NO_POLL_NS: u64 = 200_000;

/// Waits until there is room to send, or for some ms. Real-time safe; one or two system calls.
///
/// `poll` returns at once while the socket's error queue has a time stamp, which another thread takes
/// out: a loop around it would keep the CPU from that thread.
///
/// # Errors
/// The kernel's.
pub fn wait_for_room(socket: BorrowedFd<'_>, ms: i32) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `poll` is one entry, and lives during the call.
    let ready = check(unsafe { libc::poll(&raw mut poll, 1, ms) })?;
    if ready > 0 && poll.revents & libc::POLLOUT == 0 {
        // A signal may end it early: the caller tries again in any case.
        let _ = punctual_rt::sys::time::sleep_for(NO_POLL_NS);
    }
    Ok(())
}

/// Reads `TCP_INFO`, and returns how many bytes of it the kernel has. Real-time safe; one system call.
///
/// # Errors
/// The kernel's.
pub fn tcp_info(socket: BorrowedFd<'_>, into: &mut [u8; TCP_INFO_BYTES]) -> io::Result<usize> {
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: `into` has `length` bytes, which the kernel writes at most; both live during the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            into.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok((length as usize).min(TCP_INFO_BYTES))
}

/// Takes time stamps of sent data from a socket's error queue, many in one call.
pub struct ErrorQueue {
    /// Boxed, so that the headers' pointers stay right; made anew before each call.
    controls: Box<[Control; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
    bytes: Box<[u8; BATCH]>,
}

// SAFETY: its pointers lead into its own boxes, which move with it.
unsafe impl Send for ErrorQueue {}

impl Default for ErrorQueue {
    fn default() -> Self {
        // SAFETY: all-zero bytes are a valid `iovec`: no memory.
        let part: libc::iovec = unsafe { std::mem::zeroed() };
        // SAFETY: all-zero bytes are a valid `mmsghdr`: no name, no parts.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            controls: Box::new([[0; CONTROL_BYTES / 8]; BATCH]),
            parts: Box::new([part; BATCH]),
            headers: Box::new([header; BATCH]),
            bytes: Box::new([0; BATCH]),
        }
    }
}

impl ErrorQueue {
    /// Takes what is there, without waiting. Real-time safe; one system call, and one more for each
    /// `BATCH` stamps.
    pub fn drain(&mut self, socket: BorrowedFd<'_>, mut take: impl FnMut(Ancillary)) {
        loop {
            for index in 0..BATCH {
                self.parts[index] = libc::iovec {
                    iov_base: (&raw mut self.bytes[index]).cast(),
                    iov_len: 1,
                };
                let part = &mut self.parts[index];
                self.headers[index].msg_hdr = header(part, &mut self.controls[index]);
                self.headers[index].msg_len = 0;
            }
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: there are `BATCH` headers, whose pointers lead into the boxes of `self`; the
            // kernel writes there during the call alone.
            let result = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    BATCH as libc::c_uint,
                    flags as _,
                    std::ptr::null_mut(),
                )
            };
            let Ok(count) = usize::try_from(result) else {
                return;
            };
            for index in 0..count.min(BATCH) {
                let length = self.headers[index].msg_hdr.msg_controllen;
                let control = bytes_of(&self.controls[index]);
                take(Ancillary::parse(&control[..length.min(CONTROL_BYTES)]));
            }
            if count < BATCH {
                return;
            }
        }
    }
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC now, in ns. Real-time safe: no system call where the clock is
/// read in user space.
#[must_use]
pub fn real_offset_ns() -> i64 {
    offset_ns(libc::CLOCK_REALTIME)
}

/// A clock minus CLOCK_MONOTONIC now, in ns.
fn offset_ns(clock: libc::clockid_t) -> i64 {
    let before_ns = clock_now(libc::CLOCK_MONOTONIC);
    let its_ns = clock_now(clock);
    let after_ns = clock_now(libc::CLOCK_MONOTONIC);
    let between_ns = before_ns + after_ns.saturating_sub(before_ns) / 2;
    its_ns.wrapping_sub(between_ns).cast_signed()
}

/// Ends a connection whose other side has been silent for 40 s: its machine is gone.
///
/// # Errors
/// The kernel's.
pub fn keep_alive(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 10)?;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5)?;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 6)
}

/// What the kernel says of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    /// Something disciplines it.
    pub synchronised: bool,
    /// The most that it is wrong by, in us.
    pub max_us: u64,
    /// How wrong it is, as estimated, in us.
    pub estimated_us: u64,
}

/// Reads the state of the wall clock; changes nothing.
///
/// # Errors
/// The kernel's.
pub fn clock_error() -> io::Result<ClockError> {
    const STA_UNSYNC: i32 = 0x40;
    // SAFETY: all-zero bytes are a valid `timex`, one that asks for no change.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` lives during the call, which writes it.
    check(unsafe { libc::adjtimex(&raw mut state) })?;
    Ok(ClockError {
        synchronised: state.status & STA_UNSYNC == 0,
        max_us: u64::try_from(state.maxerror).unwrap_or(u64::MAX),
        estimated_us: u64::try_from(state.esterror).unwrap_or(u64::MAX),
    })
}
