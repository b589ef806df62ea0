//! The numbers of a device's queues, by which its threads are told from those of a device of the same
//! name in another network namespace: the family `netdev` of generic netlink, from Linux 6.8.

use std::collections::BTreeSet;
use std::io;

use rustix::net::netlink::GENERIC;

use crate::netlink::{DUMP, Request, attribute, number, open, put, request};

/// From `linux/genetlink.h` and `linux/netdev.h`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_NAPI: u8 = 11;
const NAPI_DEVICE: u16 = 1;
const NAPI_ID: u16 = 2;
const GENERIC_HEADER: usize = 4;

fn body(command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    put(&mut body, kind, value);
    body
}

fn found(body: &[u8], kind: u16) -> Option<&[u8]> {
    attribute(body.get(GENERIC_HEADER..)?, kind)
}

/// The queues of a device of this network namespace. None, if the kernel does not tell: before Linux
/// 6.8, or of a device that is down.
pub(super) fn queues(device: u32) -> io::Result<Option<BTreeSet<u32>>> {
    let socket = open(Some(GENERIC))?;
    let question = body(GET_FAMILY, FAMILY_NAME, b"netdev\0");
    let mut family = None;
    let asked = request(
        &socket,
        &Request {
            kind: CONTROL,
            answer: CONTROL,
            flags: 0,
            body: &question,
        },
        |body| {
            let id = found(body, FAMILY_ID).and_then(|it| it.try_into().ok());
            family = id.map(u16::from_ne_bytes);
            true
        },
    );
    match asked {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        asked => asked?,
    }
    let Some(family) = family else {
        return Ok(None);
    };
    let question = body(GET_NAPI, NAPI_DEVICE, &device.to_ne_bytes());
    let mut all = BTreeSet::new();
    let asked = request(
        &socket,
        &Request {
            kind: family,
            answer: family,
            flags: DUMP,
            body: &question,
        },
        |body| {
            let word = |kind| number(found(body, kind)?, 0);
            if word(NAPI_DEVICE) == Some(device) {
                all.extend(word(NAPI_ID));
            }
            false
        },
    );
    match asked {
        // The family is there from Linux 6.3, the question from 6.8.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        asked => asked?,
    }
    Ok((!all.is_empty()).then_some(all))
}
