//! Metrics of routes, and entries of the neighbour table: by netlink, as `ip` does. A route is read,
//! one metric of it is replaced, and everything else is written as it was.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use punctual_record::tuning::{Change, Knob, Neighbour, Route, RouteMetric, Setting};

use crate::netlink::{
    ACK, DUMP, REPLACE, Request, attribute, attributes, number, open, put, request,
};

/// From `linux/rtnetlink.h` and `linux/neighbour.h`.
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const CREATE: u16 = 0x400;
const ROUTE_HEADER: usize = 12;
const FIB_MATCH: u32 = 0x2000;
const UNICAST: u8 = 1;
/// Of a route's flags, those that are an administrator's.
const ONLINK: u32 = 4;
const ROUTER_ADVERTISEMENT: u8 = 9;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;
const RTAX_LOCK: u16 = 1;

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const LINK_HEADER: usize = 16;
const IFLA_ADDRESS: u16 = 1;

const NEIGHBOUR_HEADER: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States in which an entry has an address that the kernel looks after.
const RESOLVED: u16 = 0x02 | 0x04 | 0x08 | 0x10;
const STALE: u16 = 0x04;
const PERMANENT: u16 = 0x80;

const ABSENT: &str = "absent";
const LOCK: &str = "lock";
const DYNAMIC: &str = "dynamic";

/// The number by which the kernel knows a metric.
fn kind_of(metric: RouteMetric) -> u16 {
    match metric {
        RouteMetric::InitCwnd => 11,
        RouteMetric::RtoMin => 13,
        RouteMetric::QuickAck => 15,
    }
}

/// The network namespace of this thread.
pub(super) fn namespace() -> io::Result<u64> {
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// What is in another namespace can't be read from here.
pub(super) fn check_namespace(of: u64) -> io::Result<()> {
    match namespace()? == of {
        true => Ok(()),
        false => Err(io::Error::other(
            "it is in another network namespace: run this there, as with `ip netns exec`",
        )),
    }
}

/// Whether no process and no name is left of a namespace.
pub(super) fn has_vanished(of: u64) -> bool {
    let is_it = |path: std::path::PathBuf| std::fs::metadata(path).is_ok_and(|it| it.ino() == of);
    let mut names = std::fs::read_dir("/run/netns").into_iter().flatten();
    let mut processes = std::fs::read_dir("/proc").into_iter().flatten();
    !names.any(|it| it.is_ok_and(|it| is_it(it.path())))
        && !processes.any(|it| it.is_ok_and(|it| is_it(it.path().join("ns/net"))))
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(sixteen).into())
}

fn family(address: IpAddr) -> u8 {
    let number = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    number as u8
}

/// A route as the kernel sends it: `struct rtmsg` and attributes.
struct Message(Vec<u8>);

impl Message {
    fn attributes(&self) -> Vec<(u16, &[u8])> {
        attributes(self.0.get(ROUTE_HEADER..).unwrap_or_default())
    }

    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        attribute(self.0.get(ROUTE_HEADER..)?, kind)
    }

    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn word(&self, kind: u16) -> Option<u32> {
        number(self.attribute(kind)?, 0)
    }

    /// What it is known by.
    fn route(&self, namespace: u64) -> Route {
        let any = match i32::from(self.byte(0)) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let destination = self.attribute(RTA_DST).and_then(address_of).unwrap_or(any);
        Route {
            namespace,
            destination: format!("{destination}/{}", self.byte(1)),
            table: self.word(RTA_TABLE).unwrap_or_else(|| self.byte(4).into()),
            tos: self.byte(3),
            priority: self.word(RTA_PRIORITY).unwrap_or(0),
        }
    }

    fn metrics(&self) -> Vec<(u16, &[u8])> {
        attributes(self.attribute(RTA_METRICS).unwrap_or_default())
    }

    /// The value of a metric.
    fn metric(&self, metric: RouteMetric) -> String {
        let kind = kind_of(metric);
        let metrics = self.attribute(RTA_METRICS).unwrap_or_default();
        let of = |wanted: u16| number(attribute(metrics, wanted)?, 0);
        let is_locked = of(RTAX_LOCK).is_some_and(|it| it & (1 << kind) != 0);
        match (of(kind), is_locked) {
            (None | Some(0), _) => ABSENT.to_owned(),
            (Some(value), true) => format!("{value} {LOCK}"),
            (Some(value), false) => value.to_string(),
        }
    }

    /// The same route with this value of a metric.
    fn with(&self, metric: RouteMetric, value: u32, is_locked: bool) -> Vec<u8> {
        let kind = kind_of(metric);
        let mut metrics = Vec::new();
        let mut locks = 0;
        for (found, bytes) in self.metrics() {
            match found {
                RTAX_LOCK => locks = number(bytes, 0).unwrap_or(0) & !(1 << kind),
                _ if found == kind => {}
                _ => put(&mut metrics, found, bytes),
            }
        }
        if value > 0 {
            put(&mut metrics, kind, &value.to_ne_bytes());
            locks |= u32::from(is_locked) << kind;
        }
        if locks > 0 {
            put(&mut metrics, RTAX_LOCK, &locks.to_ne_bytes());
        }
        let mut made = self.0.get(..ROUTE_HEADER).unwrap_or_default().to_vec();
        if let Some(flags) = number(&made, 8) {
            made[8..12].copy_from_slice(&(flags & ONLINK).to_ne_bytes());
        }
        for (found, bytes) in self.attributes() {
            if !matches!(found, RTA_METRICS | RTA_CACHEINFO) {
                put(&mut made, found, bytes);
            }
        }
        if !metrics.is_empty() {
            put(&mut made, RTA_METRICS, &metrics);
        }
        made
    }
}

/// The route in its table; none if it is not there.
fn find(socket: &OwnedFd, route: &Route) -> io::Result<Option<Message>> {
    let address = route.destination.split('/').next().unwrap_or_default();
    let address: IpAddr = address.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    let mut body = vec![0; ROUTE_HEADER];
    body[0] = family(address);
    let question = Request {
        kind: GET_ROUTE,
        answer: NEW_ROUTE,
        flags: DUMP,
        body: &body,
    };
    let mut found = None;
    request(socket, &question, |body| {
        let message = Message(body.to_vec());
        if found.is_none() && message.route(route.namespace) == *route {
            found = Some(message);
        }
        false
    })?;
    Ok(found)
}

fn no_route() -> io::Error {
    io::Error::other("there is no such route")
}

pub(super) fn read_metric(route: &Route, metric: RouteMetric) -> io::Result<String> {
    check_namespace(route.namespace)?;
    let found = find(&open(None)?, route)?.ok_or_else(no_route)?;
    Ok(found.metric(metric))
}

pub(super) fn write_metric(route: &Route, metric: RouteMetric, value: &str) -> io::Result<()> {
    check_namespace(route.namespace)?;
    let mut words = value.split_whitespace();
    let value = match words.next() {
        Some(ABSENT) => 0,
        Some(word) => word.parse().map_err(|_| io::ErrorKind::InvalidInput)?,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let is_locked = words.next() == Some(LOCK);
    let socket = open(None)?;
    let body = find(&socket, route)?
        .ok_or_else(no_route)?
        .with(metric, value, is_locked);
    let change = Request {
        kind: NEW_ROUTE,
        answer: NEW_ROUTE,
        flags: ACK | REPLACE,
        body: &body,
    };
    request(&socket, &change, |_| false)
}

pub(super) fn is_route_gone(route: &Route) -> bool {
    match check_namespace(route.namespace) {
        Ok(()) => {
            let found = open(None).and_then(|socket| find(&socket, route));
            matches!(found, Ok(None))
        }
        Err(_) => has_vanished(route.namespace),
    }
}

/// The route that messages to an address take.
fn route_to(socket: &OwnedFd, address: IpAddr) -> io::Result<Message> {
    let mut body = vec![0; ROUTE_HEADER];
    body[0] = family(address);
    let bytes = bytes_of(address);
    body[1] = (bytes.len() * 8) as u8;
    body[8..12].copy_from_slice(&FIB_MATCH.to_ne_bytes());
    put(&mut body, RTA_DST, &bytes);
    let question = Request {
        kind: GET_ROUTE,
        answer: NEW_ROUTE,
        flags: 0,
        body: &body,
    };
    let mut found = None;
    request(socket, &question, |body| {
        found = Some(Message(body.to_vec()));
        true
    })?;
    found.ok_or_else(no_route)
}

/// What gives the route to an address this value of a metric: `name` is that of the knob.
///
/// # Errors
/// There is no route, or it is none whose metrics can be changed and restored.
pub fn route_change(
    name: &str,
    address: IpAddr,
    metric: RouteMetric,
    value: u32,
) -> io::Result<Change> {
    let namespace = namespace()?;
    let found = route_to(&open(None)?, address)?;
    let refused = |why: &str| Err(io::Error::other(why.to_owned()));
    if found.byte(7) != UNICAST {
        return refused("it is an address of this machine, or of no single one: it has no route");
    }
    if found.attribute(RTA_MULTIPATH).is_some() || found.attribute(RTA_NH_ID).is_some() {
        return refused("its route has several next hops, or an object as its next hop");
    }
    if found.byte(5) == ROUTER_ADVERTISEMENT {
        return refused("its route comes from a router and expires: add one for this address");
    }
    let locked = match metric {
        RouteMetric::RtoMin => " lock",
        RouteMetric::InitCwnd | RouteMetric::QuickAck => "",
    };
    let route = found.route(namespace);
    Ok(Change {
        knob: Knob::File(name.to_owned()),
        setting: Setting::RouteMetric { route, metric },
        value: format!("{value}{locked}"),
    })
}

/// An entry of the neighbour table.
struct Entry {
    state: u16,
    /// The link-layer address.
    link: Option<Vec<u8>>,
}

/// A socket by which devices are asked for.
fn any_socket() -> io::Result<OwnedFd> {
    let family = rustix::net::AddressFamily::INET;
    let kind = rustix::net::SocketType::DGRAM;
    Ok(rustix::net::socket(family, kind, None)?)
}

/// The link-layer address of a device, as `/sys` writes it.
pub(super) fn link_address(device: u32) -> io::Result<Option<String>> {
    let mut body = vec![0; LINK_HEADER];
    body[4..8].copy_from_slice(&device.to_ne_bytes());
    let question = Request {
        kind: GET_LINK,
        answer: NEW_LINK,
        flags: 0,
        body: &body,
    };
    let mut found = None;
    request(&open(None)?, &question, |body| {
        let address = attribute(body.get(LINK_HEADER..).unwrap_or_default(), IFLA_ADDRESS);
        found = address.map(hexadecimal);
        true
    })?;
    Ok(found)
}

/// The number of a device.
pub(super) fn index_of(device: &str) -> io::Result<u32> {
    let index = rustix::net::netdevice::name_to_index(&any_socket()?, device)?;
    Ok(index)
}

fn name_of(device: u32) -> io::Result<String> {
    let name = rustix::net::netdevice::index_to_name(&any_socket()?, device)?;
    Ok(name)
}

/// The device by which messages to an address leave: its number and its name.
pub(crate) fn device_to(socket: &OwnedFd, address: IpAddr) -> io::Result<(u32, String)> {
    let found = route_to(socket, address)?;
    let index = found.word(RTA_OIF).ok_or_else(no_route)?;
    Ok((index, name_of(index)?))
}

/// The device by which messages to an address leave.
///
/// # Errors
/// There is no route.
pub fn device_to_address(address: IpAddr) -> io::Result<String> {
    Ok(device_to(&open(None)?, address)?.1)
}

fn neighbour_body(address: IpAddr, device: u32, state: u16) -> Vec<u8> {
    let mut body = vec![0; NEIGHBOUR_HEADER];
    body[0] = family(address);
    body[4..8].copy_from_slice(&device.to_ne_bytes());
    body[8..10].copy_from_slice(&state.to_ne_bytes());
    body
}

fn entry_of(socket: &OwnedFd, device: u32, address: IpAddr) -> io::Result<Option<Entry>> {
    let wanted = bytes_of(address);
    let body = neighbour_body(address, 0, 0);
    let question = Request {
        kind: GET_NEIGHBOUR,
        answer: NEW_NEIGHBOUR,
        flags: DUMP,
        body: &body,
    };
    let mut found = None;
    request(socket, &question, |body| {
        let of = |kind: u16| attribute(body.get(NEIGHBOUR_HEADER..)?, kind);
        if number(body, 4) == Some(device) && of(NDA_DST) == Some(&wanted[..]) {
            let state = number(body, 8).unwrap_or(0) & 0xffff;
            found = Some(Entry {
                state: state as u16,
                link: of(NDA_LLADDR).map(<[u8]>::to_vec),
            });
        }
        false
    })?;
    Ok(found)
}

fn address_in(neighbour: &Neighbour) -> io::Result<IpAddr> {
    let address = neighbour.address.parse();
    Ok(address.map_err(|_| io::ErrorKind::InvalidData)?)
}

fn hexadecimal(link: &[u8]) -> String {
    let bytes: Vec<String> = link.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

pub(super) fn read_neighbour(neighbour: &Neighbour) -> io::Result<String> {
    check_namespace(neighbour.namespace)?;
    let device = index_of(&neighbour.device)?;
    let entry = entry_of(&open(None)?, device, address_in(neighbour)?)?;
    Ok(match entry {
        Some(Entry {
            state,
            link: Some(link),
        }) if state & PERMANENT != 0 => format!("permanent {}", hexadecimal(&link)),
        _ => DYNAMIC.to_owned(),
    })
}

pub(super) fn write_neighbour(neighbour: &Neighbour, value: &str) -> io::Result<()> {
    check_namespace(neighbour.namespace)?;
    let (device, address) = (index_of(&neighbour.device)?, address_in(neighbour)?);
    let socket = open(None)?;
    let (state, link) = match value.strip_prefix("permanent ") {
        Some(text) => {
            let bytes = text.split(':').map(|it| u8::from_str_radix(it, 16));
            let bytes: Result<Vec<u8>, _> = bytes.collect();
            (PERMANENT, bytes.map_err(|_| io::ErrorKind::InvalidInput)?)
        }
        None if value == DYNAMIC => match entry_of(&socket, device, address)? {
            // The kernel asks again before it relies on it.
            Some(Entry {
                state,
                link: Some(link),
            }) if state & PERMANENT != 0 => (STALE, link),
            _ => return Ok(()),
        },
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut body = neighbour_body(address, device, state);
    put(&mut body, NDA_DST, &bytes_of(address));
    put(&mut body, NDA_LLADDR, &link);
    let change = Request {
        kind: NEW_NEIGHBOUR,
        answer: NEW_NEIGHBOUR,
        flags: ACK | REPLACE | CREATE,
        body: &body,
    };
    request(&socket, &change, |_| false)
}

pub(super) fn is_device_gone(namespace: u64, device: &str) -> bool {
    match check_namespace(namespace) {
        Ok(()) => index_of(device).is_err(),
        Err(_) => has_vanished(namespace),
    }
}

/// What makes the entry permanent of the neighbour that messages to an address are sent to: the
/// machine itself, or a router. `name` is that of the knob, `link` the link-layer address, if it is not
/// the one that the table has.
///
/// # Errors
/// There is no route, or no entry that could be kept.
pub fn neighbour_change(name: &str, address: IpAddr, link: Option<&str>) -> io::Result<Change> {
    let namespace = namespace()?;
    let socket = open(None)?;
    let found = route_to(&socket, address)?;
    let refused = |why: String| Err(io::Error::other(why));
    let Some(index) = found.word(RTA_OIF).filter(|_| found.byte(7) == UNICAST) else {
        return refused(
            "it has no single next hop, or it is an address of this machine".to_owned(),
        );
    };
    if found.attribute(RTA_VIA).is_some() {
        return refused("its router has an address of another family".to_owned());
    }
    let router = found.attribute(RTA_GATEWAY).and_then(address_of);
    let neighbour = router.unwrap_or(address);
    let device = name_of(index)?;
    let kept = |entry: Entry| {
        let is_resolved = entry.state & (RESOLVED | PERMANENT) != 0;
        entry.link.filter(|it| is_resolved && !it.is_empty())
    };
    let found = match link {
        Some(link) => Some(link.to_owned()),
        None => {
            let entry = entry_of(&socket, index, neighbour)?;
            entry.and_then(kept).map(|it| hexadecimal(&it))
        }
    };
    let link = match found {
        Some(link) => link,
        None => {
            return refused(format!(
                "{neighbour} has no entry on {device}: send it a message first, as with ping"
            ));
        }
    };
    Ok(Change {
        knob: Knob::File(name.to_owned()),
        setting: Setting::Neighbour {
            neighbour: Neighbour {
                namespace,
                device: device.clone(),
                address: neighbour.to_string(),
            },
        },
        value: format!("permanent {link}"),
    })
}
