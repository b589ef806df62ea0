//! Queueing disciplines of interfaces, as far as they send at launch times (`SO_TXTIME`).

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::netlink::{DUMP, Request, attribute, number, open, request};
use crate::tune::device_to;

/// From `linux/rtnetlink.h` and `linux/pkt_sched.h`.
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
const HEADER: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ETF_PARMS: u16 = 1;
const ETF_OFFLOAD: u32 = 2;
/// What holds no packet itself, but has a discipline for each queue.
const PARENTS: [&str; 3] = ["mq", "mqprio", "taprio"];

/// How an interface sends at launch times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launching {
    /// The interface.
    pub interface: String,
    /// Which of its queueing disciplines takes launch times.
    pub by: LaunchedBy,
}

/// What sends at the launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchedBy {
    /// `fq`, by CLOCK_MONOTONIC.
    Fq,
    /// `etf` with `offload`, by CLOCK_TAI: the card sends at that time.
    EtfCard,
}

/// Why an interface does not.
#[derive(Debug)]
pub enum NoLaunching {
    /// The kernel does not say.
    Unknown(io::Error),
    /// None of its disciplines takes launch times.
    Other {
        /// The interface.
        interface: String,
        /// Its disciplines.
        kinds: Vec<String>,
    },
    /// `etf` without `offload`: it sends before the launch time, by its `delta`.
    Ahead {
        /// The interface.
        interface: String,
    },
}

impl std::fmt::Display for NoLaunching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(error) => {
                write!(f, "the kernel does not say how messages leave: {error}")
            }
            Self::Other { interface, kinds } => write!(
                f,
                "{interface} has the queueing discipline {}, which knows no launch times: \
                 `tc qdisc replace dev {interface} root fq`",
                kinds.join(", ")
            ),
            Self::Ahead { interface } => write!(
                f,
                "{interface} has the queueing discipline etf without offload, which sends before the \
                 launch time, by its delta: use etf with offload, or fq"
            ),
        }
    }
}

impl std::error::Error for NoLaunching {}

/// How messages to an address are sent at launch times.
///
/// # Errors
/// They are not.
pub fn launching_to(address: IpAddr) -> Result<Launching, NoLaunching> {
    let socket = open(None).map_err(NoLaunching::Unknown)?;
    let (index, interface) = device_to(&socket, address).map_err(NoLaunching::Unknown)?;
    let all = disciplines(&socket, index).map_err(NoLaunching::Unknown)?;
    judge(interface, &all)
}

/// A queueing discipline, as a message of the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Discipline {
    kind: String,
    /// The flags of `etf`.
    etf_flags: u32,
}

fn judge(interface: String, all: &[Discipline]) -> Result<Launching, NoLaunching> {
    let etf = all.iter().find(|it| it.kind == "etf");
    let by = match etf {
        Some(etf) if etf.etf_flags & ETF_OFFLOAD != 0 => LaunchedBy::EtfCard,
        Some(_) => return Err(NoLaunching::Ahead { interface }),
        None if all.iter().any(|it| it.kind == "fq") => LaunchedBy::Fq,
        None => {
            let mut kinds: Vec<String> = all.iter().map(|it| it.kind.clone()).collect();
            kinds.retain(|kind| !PARENTS.contains(&&kind[..]));
            kinds.sort();
            kinds.dedup();
            kinds.truncate(4);
            if kinds.is_empty() {
                kinds.push("noqueue".to_owned());
            }
            return Err(NoLaunching::Other { interface, kinds });
        }
    };
    Ok(Launching { interface, by })
}

/// The disciplines of an interface.
fn disciplines(socket: &OwnedFd, interface: u32) -> io::Result<Vec<Discipline>> {
    let mut body = vec![0; HEADER];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let question = Request {
        kind: GET_QDISC,
        answer: NEW_QDISC,
        flags: DUMP,
        body: &body,
    };
    let mut found = Vec::new();
    // Kernels before 4.20 answer for all interfaces.
    request(socket, &question, |body| {
        found.extend(discipline(body, interface));
        false
    })?;
    Ok(found)
}

fn discipline(body: &[u8], interface: u32) -> Option<Discipline> {
    if number(body, 4)? != interface {
        return None;
    }
    let all = body.get(HEADER..)?;
    let kind = attribute(all, TCA_KIND)?;
    let name = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    let options = attribute(all, TCA_OPTIONS).filter(|_| name == b"etf");
    let etf = options.and_then(|it| attribute(it, TCA_ETF_PARMS));
    Some(Discipline {
        kind: String::from_utf8_lossy(name).into_owned(),
        etf_flags: etf.and_then(|it| number(it, 8)).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::put;

    fn message(interface: u32, kind: &str, options: &[u8]) -> Vec<u8> {
        let mut body = vec![0; HEADER];
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        put(&mut body, TCA_KIND, &[kind.as_bytes(), &[0]].concat());
        put(&mut body, TCA_OPTIONS, options);
        body
    }

    fn etf(flags: u32) -> Vec<u8> {
        let mut parameters = vec![0; 8];
        parameters.extend(flags.to_ne_bytes());
        let mut options = Vec::new();
        put(&mut options, TCA_ETF_PARMS, &parameters);
        message(7, "etf", &options)
    }

    fn judged(bodies: &[Vec<u8>]) -> Result<LaunchedBy, String> {
        let all: Vec<_> = bodies.iter().filter_map(|it| discipline(it, 7)).collect();
        let found = judge("eth0".to_owned(), &all);
        found.map(|it| it.by).map_err(|error| error.to_string())
    }

    #[test]
    fn fq_and_etf_by_the_card_send_at_launch_times_and_nothing_else_does() {
        let mq = message(7, "mq", &[]);
        let fq = message(7, "fq", &[]);
        assert_eq!(judged(&[mq.clone(), fq.clone(), fq]), Ok(LaunchedBy::Fq));
        assert_eq!(judged(&[mq.clone(), etf(2)]), Ok(LaunchedBy::EtfCard));
        let refused = judged(&[etf(1)]).unwrap_err();
        assert!(refused.starts_with("eth0 has the queueing discipline etf without offload"));
        let other = [mq, message(7, "pfifo_fast", &[]), message(8, "fq", &[])];
        assert_eq!(
            judged(&other).unwrap_err(),
            "eth0 has the queueing discipline pfifo_fast, which knows no launch times: `tc qdisc \
             replace dev eth0 root fq`"
        );
        assert!(judged(&[]).unwrap_err().contains("discipline noqueue,"));
    }

    #[test]
    fn what_is_cut_off_is_no_discipline_of_this_interface() {
        let whole = etf(2);
        for cut in 0..whole.len() {
            let found = discipline(&whole[..cut], 7);
            assert!(found.is_none_or(|it| it.etf_flags == 0), "{cut}");
        }
        assert_eq!(discipline(&whole, 8), None);
    }

    #[test]
    fn the_loopback_interface_has_no_queue() {
        let refused = launching_to(IpAddr::from([127, 0, 0, 1])).unwrap_err();
        let shown = refused.to_string();
        assert!(
            shown.starts_with("lo has the queueing discipline "),
            "{shown}"
        );
    }
}
