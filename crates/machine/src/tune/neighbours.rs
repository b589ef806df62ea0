//! Entries of the neighbour table, by netlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use punctual_record::tuning::{Change, Knob, Neighbour, Setting};

use super::network::{
    bytes_of, check_namespace, family, hexadecimal, index_of, name_of, namespace,
};
use super::routes::{NextHop, next_hop};
use crate::netlink::{ACK, DUMP, REPLACE, Request, attribute, number, open, put, request};

/// From `linux/rtnetlink.h` and `linux/neighbour.h`.
const NEW_NEIGHBOUR: u16 = 28;
const GET_NEIGHBOUR: u16 = 30;
const CREATE: u16 = 0x400;
const NEIGHBOUR_HEADER: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States in which an entry has an address that the kernel looks after.
const RESOLVED: u16 = 0x02 | 0x04 | 0x08 | 0x10;
const STALE: u16 = 0x04;
const PERMANENT: u16 = 0x80;

const DYNAMIC: &str = "dynamic";

/// An entry of the neighbour table.
struct Entry {
    state: u16,
    /// The link-layer address.
    link: Option<Vec<u8>>,
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

/// What makes the entry permanent of the neighbour that messages to an address are sent to: the
/// machine itself, or a router. `name` is that of the knob, `link` the link-layer address, if it is not
/// the one that the table has.
///
/// # Errors
/// There is no route, or no entry that could be kept.
pub fn neighbour_change(name: &str, address: IpAddr, link: Option<&str>) -> io::Result<Change> {
    let namespace = namespace()?;
    let socket = open(None)?;
    let NextHop {
        device: index,
        router,
    } = next_hop(&socket, address)?;
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
    let Some(link) = found else {
        return Err(io::Error::other(format!(
            "{neighbour} has no entry on {device}: send it a message first, as with ping"
        )));
    };
    Ok(Change {
        knob: Knob::File(name.to_owned()),
        setting: Setting::Neighbour {
            neighbour: Neighbour {
                namespace,
                device,
                address: neighbour.to_string(),
            },
        },
        value: format!("permanent {link}"),
    })
}
