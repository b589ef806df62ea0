//! What the kernel's audit records: asked for by netlink, as `auditctl -s` and `auditctl -l` do.

use std::io;

use rustix::net::netlink::AUDIT;

use crate::netlink::{self, Request, number};
use crate::root::{Root, decimal};

/// The question that a snapshot keeps the answer to.
pub(crate) const QUESTION: &str = "netlink AUDIT_GET, AUDIT_LIST_RULES";

/// From `linux/audit.h`.
const AUDIT_GET: u16 = 1000;
const AUDIT_LIST_RULES: u16 = 1013;
/// A rule for the end of a system call, wherever it was added.
const AUDIT_FILTER_EXIT: u32 = 4;
const AUDIT_FILTER_PREPEND: u32 = 0x10;
const AUDIT_NEVER: u32 = 0;

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
    let socket = netlink::open(Some(AUDIT))?;
    let of = |kind| Request {
        kind,
        answer: kind,
        flags: 0,
        body: &[],
    };
    let mut audit = Audit::default();
    netlink::request(&socket, &of(AUDIT_GET), |message| {
        audit.is_enabled = number(message, 4) != Some(0);
        true
    })?;
    netlink::request(&socket, &of(AUDIT_LIST_RULES), |rule| {
        audit.rules += 1;
        let filter = number(rule, 0).map(|it| it & !AUDIT_FILTER_PREPEND);
        let records = number(rule, 4).is_some_and(|action| action != AUDIT_NEVER);
        audit.calls += u32::from(filter == Some(AUDIT_FILTER_EXIT) && records);
        false
    })?;
    Ok(audit)
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

    /// Root of a machine may ask; in a container and without the right it is refused, at once.
    #[test]
    fn the_live_machine_answers_or_refuses() {
        match Audit::of(&Root::live()) {
            Ok(audit) => assert!(audit.calls <= audit.rules, "{audit:?}"),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
