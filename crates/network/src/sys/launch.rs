//! Launch times: the kernel takes data before the instant at which it is to be sent (`SO_TXTIME`).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::frame::Destination;
use super::{check_length, header, set_option_to};

const SO_TXTIME: i32 = 61;
const SCM_TXTIME: i32 = SO_TXTIME;
/// Data that was dropped for its launch time comes back in the error queue.
const REPORT_ERRORS: u32 = 1 << 1;

/// By which clock a queueing discipline takes launch times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchClock {
    /// CLOCK_MONOTONIC, as `fq`.
    Monotonic,
    /// CLOCK_TAI, as `etf`.
    Tai,
}

impl LaunchClock {
    fn id(self) -> i32 {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Tai => libc::CLOCK_TAI,
        }
    }

    /// This clock minus CLOCK_MONOTONIC now, in ns. Real-time safe: no system call where the clocks are
    /// read in user space.
    #[must_use]
    pub fn offset_ns(self) -> i64 {
        match self {
            Self::Monotonic => 0,
            Self::Tai => super::offset_ns(libc::CLOCK_TAI),
        }
    }
}

/// `struct sock_txtime` of linux/net_tstamp.h.
#[repr(C)]
struct SockTxtime {
    clock: i32,
    flags: u32,
}

/// Lets a socket take launch times by this clock.
///
/// # Errors
/// The kernel's: EPERM without CAP_NET_ADMIN for other clocks than CLOCK_MONOTONIC.
pub fn enable(socket: BorrowedFd<'_>, clock: LaunchClock) -> io::Result<()> {
    let wanted = SockTxtime {
        clock: clock.id(),
        flags: REPORT_ERRORS,
    };
    set_option_to(socket, libc::SOL_SOCKET, SO_TXTIME, &wanted)
}

/// A control message with a launch time, as the kernel reads it.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    at_ns: u64,
}

/// Sends a datagram or a frame at an instant of the socket's launch clock. Real-time safe; one system
/// call.
///
/// # Errors
/// The kernel's; EAGAIN if the socket's buffer is full.
pub fn send_at(
    socket: BorrowedFd<'_>,
    to: Option<&Destination>,
    bytes: &[u8],
    at_ns: u64,
) -> io::Result<usize> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all-zero bytes are valid for integers alone.
    let mut control: Control = unsafe { zeroed() };
    control.head.cmsg_len = size_of::<Control>() as _;
    control.head.cmsg_level = libc::SOL_SOCKET;
    control.head.cmsg_type = SCM_TXTIME;
    control.at_ns = at_ns;
    let mut header = header(&mut part, &mut control);
    let mut name = to.map(|to| to.to_kernel());
    if let Some(name) = &mut name {
        header.msg_name = std::ptr::from_mut(name).cast();
        header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header leads to `part`, which spans `bytes` that the kernel only reads, to `control`
    // and to `name`; all live during the call, and their sizes are given.
    let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    check_length(result)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use punctual_rt::sys::time::clock_now;

    use super::*;

    #[test]
    fn a_datagram_with_a_launch_time_is_sent_with_its_bytes() {
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        here.connect(there.local_addr().unwrap()).unwrap();
        // A socket that was not told of launch times refuses them.
        let refused = send_at(here.as_fd(), None, b"early", 1).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        enable(here.as_fd(), LaunchClock::Monotonic).unwrap();
        let at_ns = clock_now(libc::CLOCK_MONOTONIC) + 1_000;
        assert_eq!(send_at(here.as_fd(), None, b"at once", at_ns).unwrap(), 7);
        let mut bytes = [0; 16];
        let count = there.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"at once");
    }

    #[test]
    fn atomic_time_is_ahead_by_as_much_as_the_clocks_say() {
        assert_eq!(LaunchClock::Monotonic.offset_ns(), 0);
        let offset_ns = LaunchClock::Tai.offset_ns();
        let now_ns = clock_now(libc::CLOCK_MONOTONIC).saturating_add_signed(offset_ns);
        let tai_ns = clock_now(libc::CLOCK_TAI);
        assert!(tai_ns.abs_diff(now_ns) < 1_000_000_000, "{tai_ns} {now_ns}");
    }
}
