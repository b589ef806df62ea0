//! Netlink: questions to the kernel, and what its answers hold. What is cut off is left out.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto,
    socket_with,
};

/// From `linux/netlink.h`.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const HEADER: usize = 16;
/// An answer says that the request was carried out.
pub(crate) const ACK: u16 = 4;
/// All objects of a kind.
pub(crate) const DUMP: u16 = 0x300;
/// An object that exists is replaced.
pub(crate) const REPLACE: u16 = 0x100;
/// The kind of an attribute, without its flags.
const ATTRIBUTE: u16 = 0x3fff;

/// The kernel answers from a thread of its own.
const PATIENCE: Duration = Duration::from_secs(1);
/// The messages that are read.
const MESSAGES: usize = 1 << 14;

/// A question.
pub(crate) struct Request<'b> {
    /// Its kind.
    pub(crate) kind: u16,
    /// The kind of its answers.
    pub(crate) answer: u16,
    /// What is asked: [`ACK`], [`DUMP`], [`REPLACE`].
    pub(crate) flags: u16,
    /// Its body.
    pub(crate) body: &'b [u8],
}

/// Opens a socket; without a protocol that of routes, addresses and neighbours.
///
/// # Errors
/// In a sandbox.
pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::RAW;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(socket)
}

/// Asks; the body of each answer is passed on until one is the last.
///
/// # Errors
/// The kernel's.
pub(crate) fn request(
    socket: &OwnedFd,
    request: &Request<'_>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let length = HEADER + request.body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(request.kind.to_ne_bytes());
    message.extend((request.flags | NLM_F_REQUEST).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(request.body);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &message, SendFlags::empty(), &kernel)?;
    let mut buffer = vec![0_u8; 1 << 16];
    for _ in 0..MESSAGES {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        for (found, body) in messages(&buffer[..length.min(buffer.len())]) {
            match found {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => match number(body, 0).map(u32::cast_signed) {
                    Some(0) if request.flags & ACK != 0 => return Ok(()),
                    Some(0) | None => {}
                    Some(error) => return Err(io::Error::from_raw_os_error(error.wrapping_neg())),
                },
                _ if found == request.answer && take(body) => return Ok(()),
                _ => {}
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBADMSG))
}

/// The kinds and bodies of the messages in a packet.
fn messages(packet: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    let mut rest = packet;
    while let Some(length) = number(rest, 0).and_then(|it| usize::try_from(it).ok()) {
        let Some(message) = rest.get(..length).filter(|it| it.len() >= HEADER) else {
            break;
        };
        found.push((
            u16::from_ne_bytes([message[4], message[5]]),
            &message[HEADER..],
        ));
        let aligned = length.next_multiple_of(4);
        rest = rest.get(aligned..).unwrap_or_default();
    }
    found
}

/// The kinds and values of attributes.
pub(crate) fn attributes(bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(value) = rest.get(4..length) else {
            break;
        };
        found.push((u16::from_ne_bytes([c, d]) & ATTRIBUTE, value));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The value of an attribute.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut all = attributes(bytes).into_iter();
    all.find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

/// Appends an attribute. What is longer than an attribute can be is left out.
pub(crate) fn put(into: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let Ok(length) = u16::try_from(value.len() + 4) else {
        return;
    };
    into.extend(length.to_ne_bytes());
    into.extend(kind.to_ne_bytes());
    into.extend(value);
    into.resize(into.len().next_multiple_of(4), 0);
}

/// The number at a place.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_packet_are_bounded_by_it() {
        let mut packet = Vec::new();
        for (length, kind) in [(18_u32, 7_u16), (16, 8)] {
            packet.extend(length.to_ne_bytes());
            packet.extend(kind.to_ne_bytes());
            packet.extend([0; 10]);
            packet.extend(vec![5; length.next_multiple_of(4) as usize - HEADER]);
        }
        assert_eq!(messages(&packet), [(7, &[5, 5][..]), (8, &[][..])]);
        for cut in 0..packet.len() {
            let found = messages(&packet[..cut]).len();
            assert_eq!(found, usize::from(cut >= 18), "{cut}");
        }
        for length in [0_u32, 1, 15, u32::MAX] {
            packet[..4].copy_from_slice(&length.to_ne_bytes());
            assert!(messages(&packet).is_empty(), "{length}");
        }
    }

    #[test]
    fn attributes_are_read_back_and_bounded() {
        let mut bytes = Vec::new();
        put(&mut bytes, 7, &[1, 2, 3, 4]);
        put(&mut bytes, 0x8008, &[5, 6]);
        put(&mut bytes, 9, &[]);
        let all = [(7, &[1, 2, 3, 4][..]), (8, &[5, 6]), (9, &[])];
        assert_eq!(attributes(&bytes), all);
        for cut in 0..bytes.len() {
            let found = attributes(&bytes[..cut]);
            assert_eq!(found, all[..found.len()], "{cut}");
        }
        for length in [0_u16, 1, 3, u16::MAX] {
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert!(attributes(&bytes).is_empty(), "{length}");
        }
    }
}
