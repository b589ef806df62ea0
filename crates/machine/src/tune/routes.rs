//! Metrics of routes: by netlink, as `ip` does. A route is read, one metric of it is replaced, and
//! everything else is written as it was.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use punctual_record::tuning::{Change, Knob, Route, RouteMetric, Setting};

use super::network::{
    address_of, bytes_of, check_namespace, family, has_vanished, name_of, namespace,
};
use crate::netlink::{
    ACK, DUMP, REPLACE, Request, attribute, attributes, number, open, put, request,
};

/// From `linux/rtnetlink.h`.
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
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

const ABSENT: &str = "absent";
const LOCK: &str = "lock";

/// The number by which the kernel knows a metric.
fn kind_of(metric: RouteMetric) -> u16 {
    match metric {
        RouteMetric::InitCwnd => 11,
        RouteMetric::RtoMin => 13,
        RouteMetric::QuickAck => 15,
    }
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

/// Where messages go first.
pub(super) struct NextHop {
    /// The number of the device.
    pub(super) device: u32,
    /// The router, if there is one.
    pub(super) router: Option<IpAddr>,
}

/// The next hop of the route to an address.
///
/// # Errors
/// There is no route, or it has no single next hop of the address's family.
pub(super) fn next_hop(socket: &OwnedFd, address: IpAddr) -> io::Result<NextHop> {
    let found = route_to(socket, address)?;
    let Some(device) = found.word(RTA_OIF).filter(|_| found.byte(7) == UNICAST) else {
        return Err(io::Error::other(
            "it has no single next hop, or it is an address of this machine",
        ));
    };
    if found.attribute(RTA_VIA).is_some() {
        return Err(io::Error::other(
            "its router has an address of another family",
        ));
    }
    let router = found.attribute(RTA_GATEWAY).and_then(address_of);
    Ok(NextHop { device, router })
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
