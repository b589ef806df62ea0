//! What the kernel's audit records: asked for by netlink, as `auditctl -s` and `auditctl -l` do.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::root::{Root, decimal};

/// The question that a snapshot keeps the answer to.
pub(crate) const QUESTION: &str = "netlink AUDIT_GET, AUDIT_LIST_RULES";

/// From `linux/audit.h` and `linux/netlink.h`.
const AUDIT_GET: u16 = 1000;
const AUDIT_LIST_RULES: u16 = 1013;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const HEADER: usize = 16;
/// A rule for the end of a system call, wherever it was added.
const AUDIT_FILTER_EXIT: u32 = 4;
const AUDIT_FILTER_PREPEND: u32 = 0x10;
const AUDIT_NEVER: u32 = 0;

/// The kernel answers from a thread of its own.
const PATIENCE: Duration = Duration::from_secs(1);
/// The messages that are read.
const MESSAGES: usize = 1 << 14;

/// What is audited.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Whether it is enabled at all.
    pub(crate) is_enabled: bool,
    /// The rules.
    pub(crate) rules: u32,
    /// Those that are looked at in each system call.
    pub(crate) calls: u32,
}

impl Audit {
    /// Asks the live machine, or takes what a snapshot has.
    ///
    /// # Errors
    /// Without the right to (`CAP_AUDIT_CONTROL`), in a container, and without such a kernel.
    pub(crate) fn of(root: &Root) -> io::Result<Self> {
        let text = root.answer(QUESTION, || ask().map(Self::to_text))?;
        Self::parse(&text).ok_or_else(|| io::Error::from_raw_os_error(libc::EBADMSG))
    }

    pub(crate) fn to_text(self) -> String {
        let enabled = u8::from(self.is_enabled);
        let Self { rules, calls, .. } = self;
        format!("enabled {enabled} rules {rules} calls {calls}")
    }

    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["enabled", enabled, "rules", rules, "calls", calls] = words[..] else {
            return None;
        };
        Some(Self {
            is_enabled: decimal::<u32>(enabled)? != 0,
            rules: decimal(rules)?,
            calls: decimal(calls)?,
        })
    }
}

fn ask() -> io::Result<Audit> {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::RAW;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(netlink::AUDIT))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut audit = Audit::default();
    request(&socket, AUDIT_GET, |message| {
        audit.is_enabled = number(message, 4) != Some(0);
        true
    })?;
    request(&socket, AUDIT_LIST_RULES, |rule| {
        audit.rules += 1;
        let filter = number(rule, 0).map(|it| it & !AUDIT_FILTER_PREPEND);
        let records = number(rule, 4).is_some_and(|action| action != AUDIT_NEVER);
        audit.calls += u32::from(filter == Some(AUDIT_FILTER_EXIT) && records);
        false
    })?;
    Ok(audit)
}

/// Asks for messages of one kind; each is passed on until one is the last.
fn request(socket: &OwnedFd, kind: u16, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut message = Vec::with_capacity(HEADER);
    message.extend((HEADER as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &message, SendFlags::empty(), &kernel)?;
    let mut buffer = vec![0_u8; 1 << 16];
    for _ in 0..MESSAGES {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        for (found, body) in messages(&buffer[..length.min(buffer.len())]) {
            match found {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => match number(body, 0).map(u32::cast_signed) {
                    // An acknowledgement.
                    Some(0) | None => {}
                    Some(error) => return Err(io::Error::from_raw_os_error(error.wrapping_neg())),
                },
                _ if found == kind && take(body) => return Ok(()),
                _ => {}
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBADMSG))
}

/// The kinds and bodies of the messages in a packet; what is cut off is left out.
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

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_back_or_refused() {
        let audit = Audit {
            is_enabled: true,
            rules: 7,
            calls: 3,
        };
        assert_eq!(Audit::parse(&audit.to_text()), Some(audit));
        for garbage in [
            "",
            "enabled",
            "enabled 1 rules x of system calls 0",
            "rules 1",
        ] {
            assert_eq!(Audit::parse(garbage), None, "{garbage}");
        }
    }

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

    /// Root of a machine may ask; in a container and without the right it is refused, at once.
    #[test]
    fn the_live_machine_answers_or_refuses() {
        match Audit::of(&Root::live()) {
            Ok(audit) => assert!(audit.calls <= audit.rules, "{audit:?}"),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
