//! Addresses as users write them, with the zone of a link-local one: `fe80::2%eth0`.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

/// Reads `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]` and `[ADDRESS]:PORT`; nothing where it is no address but
/// perhaps a name.
///
/// # Errors
/// This machine has no network device of the zone's name.
pub fn parse(text: &str, port: u16) -> io::Result<Option<SocketAddr>> {
    if let Ok(at) = text.parse() {
        return Ok(Some(at));
    }
    let (host, port) = match text
        .strip_prefix('[')
        .and_then(|rest| rest.rsplit_once(']'))
    {
        Some((host, "")) => (host, port),
        Some((host, rest)) => match rest.strip_prefix(':').map(str::parse) {
            Some(Ok(port)) => (host, port),
            _ => return Ok(None),
        },
        None => (text, port),
    };
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Some(SocketAddr::new(ip, port)));
    }
    // The kernel takes `eth0:80` for eth0; whoever writes it means a port.
    let Some((host, zone)) = host.split_once('%').filter(|it| !it.1.contains(':')) else {
        return Ok(None);
    };
    let Ok(ip) = host.parse::<Ipv6Addr>() else {
        return Ok(None);
    };
    let scope = match zone.parse() {
        Ok(number) => number,
        Err(_) => {
            let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            name_to_index(any, zone)?
        }
    };
    Ok(Some(SocketAddrV6::new(ip, port, 0, scope).into()))
}

/// The same address with another port.
#[must_use]
pub fn at_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_each_form() {
        let read = |text| parse(text, 9).ok().flatten().map(|at| at.to_string());
        for (text, expected) in [
            ("10.0.0.2", Some("10.0.0.2:9")),
            ("10.0.0.2:80", Some("10.0.0.2:80")),
            ("fd00::2", Some("[fd00::2]:9")),
            ("[fd00::2]", Some("[fd00::2]:9")),
            ("[fd00::2]:80", Some("[fd00::2]:80")),
            ("fe80::2%1", Some("[fe80::2%1]:9")),
            ("fe80::2%lo", Some("[fe80::2%1]:9")),
            ("[fe80::2%lo]:80", Some("[fe80::2%1]:80")),
            ("[fe80::2%lo]", Some("[fe80::2%1]:9")),
            ("host", None),
            ("fe80::2%lo:80", None),
            ("host%lo", None),
            ("10.0.0.2%lo", None),
            ("[fd00::2]80", None),
            ("[fd00::2]:x", None),
            ("[fd00::2", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
        assert!(parse("fe80::2%no-such-device", 9).is_err());
    }

    #[test]
    fn another_port_leaves_the_zone() {
        let at = parse("fe80::2%1", 9).unwrap().unwrap();
        assert_eq!(at_port(at, 10).to_string(), "[fe80::2%1]:10");
    }
}
