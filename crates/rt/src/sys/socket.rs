//! TCP sockets: set-up, options, and the calls that send and receive.
//!
//! The calls of the data path are made without the C library's wrappers, which are cancellation
//! points.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::check;
use super::time::{monotonic_now, timespec};

/// `TCP_RTO_MIN_US` of linux/tcp.h, since Linux 6.15.
pub const TCP_RTO_MIN_US: libc::c_int = 45;
/// `TCP_DELACK_MAX_US` of linux/tcp.h, since Linux 6.15.
pub const TCP_DELACK_MAX_US: libc::c_int = 46;
/// Parts that [`send_parts`] sends at most.
pub const PARTS: usize = 8;

/// A new TCP socket for addresses of this family; it does not block. Not real-time safe.
///
/// # Errors
/// EAFNOSUPPORT, EMFILE, ENOBUFS.
pub fn tcp(family: &SocketAddr) -> io::Result<OwnedFd> {
    let domain = match family {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers, and touches no memory of ours.
    let fd = check(unsafe { libc::socket(domain, kind, 0) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Duplicates a descriptor; the new one is closed by exec. Not real-time safe.
///
/// # Errors
/// EBADF, EMFILE.
pub fn duplicate(number: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers, and touches no memory of ours; a closed descriptor is an error.
    let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An address as the kernel reads it.
struct Address {
    bytes: [u8; size_of::<libc::sockaddr_in6>()],
    length: libc::socklen_t,
}

fn address(at: &SocketAddr) -> Address {
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
    let (family, length) = match at {
        SocketAddr::V4(at) => {
            bytes[4..8].copy_from_slice(&at.ip().octets());
            (libc::AF_INET, size_of::<libc::sockaddr_in>())
        }
        SocketAddr::V6(at) => {
            bytes[4..8].copy_from_slice(&at.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&at.ip().octets());
            bytes[24..28].copy_from_slice(&at.scope_id().to_ne_bytes());
            (libc::AF_INET6, size_of::<libc::sockaddr_in6>())
        }
    };
    let family = family as libc::sa_family_t;
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    Address {
        bytes,
        length: length as libc::socklen_t,
    }
}

/// Binds and listens. Not real-time safe.
///
/// # Errors
/// EADDRINUSE, EADDRNOTAVAIL, EACCES.
pub fn listen(socket: BorrowedFd<'_>, at: &SocketAddr) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let at = address(at);
    // SAFETY: the kernel reads `length` bytes of a live array that has at least as many.
    check(unsafe { libc::bind(socket.as_raw_fd(), at.bytes.as_ptr().cast(), at.length) })?;
    // SAFETY: takes numbers, and touches no memory of ours.
    check(unsafe { libc::listen(socket.as_raw_fd(), 8) }).map(drop)
}

/// The address that a socket is bound to. Not real-time safe.
///
/// # Errors
/// EBADF, ENOTSOCK, EAFNOSUPPORT for a socket of another family.
pub fn local(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut bytes = [0_u8; 128];
    let mut length = bytes.len() as libc::socklen_t;
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes into a live array of that size.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), place, &mut length) })?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let mut of_six = [0_u8; 16];
    of_six.copy_from_slice(&bytes[8..24]);
    let ip = match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7])),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(of_six)),
        _ => return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
    };
    Ok(SocketAddr::new(ip, port))
}

/// Takes a connection from a listening socket that does not block; it blocks. Not real-time safe.
///
/// # Errors
/// EAGAIN when there is none; EMFILE, ECONNABORTED.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let none = ptr::null_mut();
    let flags = libc::SOCK_CLOEXEC;
    // SAFETY: no address is requested, so the kernel writes to no memory of ours.
    let fd = unsafe { libc::accept4(listener.as_raw_fd(), none, ptr::null_mut(), flags) };
    let fd = check(fd)?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects a socket that does not block, until an instant of CLOCK_MONOTONIC at the latest
/// (`u64::MAX`: no limit); afterwards it blocks. Not real-time safe.
///
/// # Errors
/// ETIMEDOUT at the instant; ECONNREFUSED, ENETUNREACH, EHOSTUNREACH.
pub fn connect(socket: BorrowedFd<'_>, to: &SocketAddr, until_ns: u64) -> io::Result<()> {
    let to = address(to);
    // SAFETY: the kernel reads `length` bytes of a live array that has at least as many.
    let begun = unsafe { libc::connect(socket.as_raw_fd(), to.bytes.as_ptr().cast(), to.length) };
    if let Err(error) = check(begun) {
        if !matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR)) {
            return Err(error);
        }
        loop {
            match wait(socket, libc::POLLOUT, until_ns) {
                Ok(true) => break,
                Ok(false) => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
        let errno = get(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
    }
    // SAFETY: takes numbers, and touches no memory of ours.
    let flags = check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) })?;
    let flags = flags & !libc::O_NONBLOCK;
    // SAFETY: takes numbers, and touches no memory of ours.
    check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// Sets an option that is a number. Real-time safe; one system call.
///
/// # Errors
/// ENOPROTOOPT when the kernel lacks it, EPERM, EINVAL.
pub fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    let place = ptr::from_ref(&value).cast();
    // SAFETY: the kernel reads `length` bytes of a live number of that size.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, place, length) }).map(drop)
}

/// Reads an option that is a number. Real-time safe; one system call.
///
/// # Errors
/// ENOPROTOOPT when the kernel lacks it; EINVAL when it is not a number.
pub fn get(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of_val(&value) as libc::socklen_t;
    let place = ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into a live number of that size.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &mut length) })?;
    if length as usize == size_of_val(&value) {
        Ok(value)
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}

/// Waits for an event of a socket until an instant of CLOCK_MONOTONIC (`u64::MAX`: no limit);
/// `false` at the instant. Real-time safe; one system call.
///
/// # Errors
/// EINTR when a signal handler ran.
pub fn wait(socket: BorrowedFd<'_>, event: libc::c_short, until_ns: u64) -> io::Result<bool> {
    let mut polled = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: event,
        revents: 0,
    };
    let left = match until_ns {
        u64::MAX => None,
        at => Some(timespec(at.saturating_sub(monotonic_now()))),
    };
    let left = left.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: one live struct is polled, the time is NULL or live, and no signal mask is given.
    let count = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            ptr::from_mut(&mut polled),
            1_usize,
            left,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    check(count as libc::c_int).map(|count| count > 0)
}

/// Receives as much as there is and fits; 0: the peer has closed the connection, or there was no
/// room. Real-time safe; one system call.
///
/// # Errors
/// EAGAIN when there is nothing and `flags` contains MSG_DONTWAIT; EINTR; ECONNRESET, ETIMEDOUT.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, room: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `room.len()` bytes into a live slice; no address is
    // requested.
    let count = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket.as_raw_fd(),
            room.as_mut_ptr(),
            room.len(),
            flags,
            ptr::null_mut::<libc::sockaddr>(),
            ptr::null_mut::<libc::socklen_t>(),
        )
    };
    counted(count)
}

/// Sends what the socket accepts at once; returns how many bytes. Real-time safe; one system call.
///
/// # Errors
/// EAGAIN when it accepts nothing; EPIPE, ECONNRESET, ETIMEDOUT.
#[inline]
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the kernel reads `bytes.len()` bytes of a live slice; no address is given.
    let count = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            ptr::null::<libc::sockaddr>(),
            0_usize,
        )
    };
    counted(count)
}

/// Sends a head with a body, then `pads` times another part, each as a segment of its own with
/// `MSG_EOR`. Returns how many bytes of head and body were accepted, and how many of the pads; a
/// part follows only when all before it were accepted in full. Real-time safe; one system call.
///
/// # Errors
/// As [`send`], when nothing was accepted.
pub fn send_parts(
    socket: BorrowedFd<'_>,
    (head, body): (&[u8], &[u8]),
    pad: &[u8],
    pads: usize,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let vector = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut pieces = [vector(head), vector(body), vector(pad)];
    let [message, _, padding] = pieces.each_mut().map(ptr::from_mut);
    let count = 1 + pads.min(PARTS - 1);
    let mut parts: [MaybeUninit<libc::mmsghdr>; PARTS] = [const { MaybeUninit::uninit() }; PARTS];
    for (number, part) in parts.iter_mut().enumerate().take(count) {
        // SAFETY: all-zero bytes are a valid mmsghdr: null pointers and lengths of 0.
        let mut empty: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        (empty.msg_hdr.msg_iov, empty.msg_hdr.msg_iovlen) = match number {
            0 => (message, 2),
            _ => (padding, 1),
        };
        part.write(empty);
    }
    // SAFETY: the first `count` headers were written above; they lead to `pieces` and through it
    // to slices, all of which outlive the call; the kernel writes only the lengths in the headers.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmmsg,
            socket.as_raw_fd(),
            parts.as_mut_ptr(),
            count,
            flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    let sent = counted(sent)?.min(count);
    let length = |number: usize| {
        // SAFETY: the kernel sent `sent` parts, all of which were written above.
        let part = unsafe { parts[number].assume_init_ref() };
        part.msg_len as usize
    };
    let of_pads = (1..sent).map(length).sum();
    Ok((if sent == 0 { 0 } else { length(0) }, of_pads))
}

/// States that nothing more will be sent. Real-time safe; one system call.
///
/// # Errors
/// ENOTCONN.
pub fn finish(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers, and touches no memory of ours.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) }).map(drop)
}

/// A count of bytes or parts, or the error.
#[inline]
fn counted(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn an_address_survives_the_way_to_the_kernel_and_back() {
        for text in ["127.0.0.1:0", "[::1]:0"] {
            let at: SocketAddr = text.parse().unwrap();
            let Ok(socket) = tcp(&at) else { continue };
            match listen(socket.as_fd(), &at) {
                // No IPv6 here.
                Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => continue,
                listening => listening.unwrap(),
            }
            let bound = local(socket.as_fd()).unwrap();
            assert_eq!(bound.ip(), at.ip());
            assert_ne!(bound.port(), 0);
            let client = tcp(&bound).unwrap();
            connect(client.as_fd(), &bound, u64::MAX).unwrap();
            let server = accept(socket.as_fd()).unwrap();
            assert_eq!(local(server.as_fd()).unwrap(), bound);
        }
    }

    #[test]
    fn a_refused_connection_and_a_missing_option_are_errors() {
        let at: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let socket = tcp(&at).unwrap();
        let refused = connect(socket.as_fd(), &at, u64::MAX).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        let missing = get(socket.as_fd(), libc::IPPROTO_TCP, 9999).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOPROTOOPT));
    }
}
