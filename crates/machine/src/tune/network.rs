//! What settings of the network have in common: namespaces, addresses, devices.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use crate::netlink::{Request, attribute, open, request};

/// From `linux/rtnetlink.h` and `linux/if_link.h`.
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const LINK_HEADER: usize = 16;
const IFLA_ADDRESS: u16 = 1;

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

pub(super) fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

pub(super) fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(Ipv6Addr::from(sixteen).into())
}

pub(super) fn family(address: IpAddr) -> u8 {
    let number = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    number as u8
}

pub(super) fn hexadecimal(link: &[u8]) -> String {
    let bytes: Vec<String> = link.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
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

pub(super) fn name_of(device: u32) -> io::Result<String> {
    let name = rustix::net::netdevice::index_to_name(&any_socket()?, device)?;
    Ok(name)
}

pub(super) fn is_device_gone(namespace: u64, device: &str) -> bool {
    match check_namespace(namespace) {
        Ok(()) => index_of(device).is_err(),
        Err(_) => has_vanished(namespace),
    }
}
