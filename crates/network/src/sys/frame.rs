//! Sockets for Ethernet frames, which `rustix` does not have.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, set_option_to};

/// The type of the frames: IEEE 802 reserves it for local experiments, no protocol in use has it.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes of an Ethernet address.
const ADDRESS_BYTES: usize = 6;

/// An Ethernet address.
pub type Address = [u8; ADDRESS_BYTES];

/// An Ethernet interface of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its own address.
    pub address: Address,
    /// The most bytes that it takes in one frame.
    pub most_bytes: u32,
}

/// Where frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// By the interface with this number.
    pub interface: u32,
    /// To this address.
    pub address: Address,
}

impl Destination {
    pub(super) fn to_kernel(self) -> libc::sockaddr_ll {
        let mut to = link_layer(self.interface);
        to.sll_halen = ADDRESS_BYTES as u8;
        to.sll_addr[..ADDRESS_BYTES].copy_from_slice(&self.address);
        to
    }
}

fn link_layer(interface: u32) -> libc::sockaddr_ll {
    // SAFETY: all-zero bytes are a valid `sockaddr_ll`: no interface, no address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETHER_TYPE.to_be();
    address.sll_ifindex = interface.cast_signed();
    address
}

/// The Ethernet interface that has this address.
///
/// # Errors
/// There is none, or the kernel's.
pub fn interface_with(ip: IpAddr) -> io::Result<Interface> {
    let ip = ip.to_canonical();
    let all = all_addresses()?;
    let of_ip = all.iter().find(|(_, found)| *found == Found::Ip(ip));
    let of_ip = of_ip.map(|(name, _)| name.clone());
    let ethernet = all.iter().find_map(|(name, found)| match found {
        Found::Ethernet(index, address) if Some(name) == of_ip.as_ref() => Some((*index, *address)),
        _ => None,
    });
    let (Some(name), Some((index, address))) = (of_ip, ethernet) else {
        return Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("{ip}: no Ethernet interface of this machine has this address"),
        ));
    };
    let most_bytes = most_bytes_of(&name)?;
    Ok(Interface {
        name,
        index,
        address,
        most_bytes,
    })
}

/// What an interface has.
#[derive(PartialEq)]
enum Found {
    Ip(IpAddr),
    Ethernet(u32, Address),
}

/// Of all interfaces, with their names.
fn all_addresses() -> io::Result<Vec<(String, Found)>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` lives during the call, which writes it.
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut all = Vec::new();
    let mut at = list;
    // SAFETY: `at` is null or an entry of the list, which lives until it is freed below.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        // SAFETY: the address of an entry is null, or has the type that its family says.
        let Some(found) = (unsafe { found_at(entry.ifa_addr) }) else {
            continue;
        };
        // SAFETY: the name of an entry is a C string that lives as long as the list.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        all.push((name.to_string_lossy().into_owned(), found));
    }
    // SAFETY: the list is the kernel's answer above, freed once; nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(all)
}

/// Reads an address.
///
/// # Safety
/// It is null, or points to an address of the type that its family says.
unsafe fn found_at(address: *const libc::sockaddr) -> Option<Found> {
    // SAFETY: the address is null, or lives while the list does, and has a family.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: by its family the address is a whole `sockaddr_in`; it may lie anywhere.
            let ip = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let bytes = ip.sin_addr.s_addr.to_ne_bytes();
            Some(Found::Ip(IpAddr::from(bytes)))
        }
        libc::AF_INET6 => {
            // SAFETY: by its family the address is a whole `sockaddr_in6`; it may lie anywhere.
            let ip = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Found::Ip(IpAddr::from(ip.sin6_addr.s6_addr)))
        }
        libc::AF_PACKET => {
            // SAFETY: by its family the address is a whole `sockaddr_ll`; it may lie anywhere.
            let link = unsafe { address.cast::<libc::sockaddr_ll>().read_unaligned() };
            let is_ethernet = link.sll_hatype == libc::ARPHRD_ETHER
                && usize::from(link.sll_halen) == ADDRESS_BYTES;
            let address = *link.sll_addr.first_chunk()?;
            is_ethernet.then(|| Found::Ethernet(link.sll_ifindex.cast_unsigned(), address))
        }
        _ => None,
    }
}

/// The most bytes in a frame of this interface, without the frame's head.
fn most_bytes_of(name: &str) -> io::Result<u32> {
    let socket = new_socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    // SAFETY: all-zero bytes are a valid `ifreq`: no name.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, byte) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    // SAFETY: `request` lives during the call, which writes the union's member for SIOCGIFMTU.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) })?;
    // SAFETY: the call has written this member.
    let most = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(most.max(0).cast_unsigned())
}

fn new_socket(family: i32, kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: `socket` takes integers and no pointer.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket that sends frames and receives none yet.
///
/// # Errors
/// The kernel's: it needs `CAP_NET_RAW`.
pub fn open() -> io::Result<OwnedFd> {
    // The kernel writes the head of each frame: data begins behind it.
    new_socket(libc::AF_PACKET, libc::SOCK_DGRAM).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "Ethernet frames need the capability CAP_NET_RAW: run it as root",
        ),
        _ => error,
    })
}

/// From now on it receives the frames of [`ETHER_TYPE`] that come in by this interface from this
/// address, and no others.
///
/// # Errors
/// The kernel's.
pub fn receive_from(
    socket: BorrowedFd<'_>,
    interface: &Interface,
    from: Address,
) -> io::Result<()> {
    // Before it is bound: no frame of another passes.
    filter(socket, from)?;
    let own = link_layer(interface.index);
    // SAFETY: `own` lives during the call, and its size is given.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const own).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// Lets frames of one sender pass.
fn filter(socket: BorrowedFd<'_>, from: Address) -> io::Result<()> {
    // Classic BPF's SKF_LL_OFF: offsets from here on count from the frame's head.
    const HEAD: u32 = (-0x20_0000_i32).cast_unsigned();
    let [a, b, c, d, e, f] = from;
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    let mut program = [
        instruction(load | libc::BPF_W, 0, HEAD.wrapping_add(6)),
        instruction(equal, 3, u32::from_be_bytes([a, b, c, d])),
        instruction(load | libc::BPF_H, 0, HEAD.wrapping_add(10)),
        instruction(equal, 1, u16::from_be_bytes([e, f]).into()),
        instruction(end, 0, u32::MAX),
        instruction(end, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // It leads to instructions that live during the call; the kernel checks and copies them.
    let filter = libc::SO_ATTACH_FILTER;
    set_option_to(socket, libc::SOL_SOCKET, filter, &program)
}

/// Sends a frame. Real-time safe; one system call.
///
/// # Errors
/// The kernel's; EAGAIN if the socket's buffer is full.
pub fn send(socket: BorrowedFd<'_>, to: &Destination, bytes: &[u8]) -> io::Result<usize> {
    let to = to.to_kernel();
    // SAFETY: the bytes and `to` live during the call, and their lengths are given.
    let result = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            (&raw const to).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    super::check_length(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_no_ethernet() {
        let error = interface_with("127.0.0.1".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "127.0.0.1: no Ethernet interface of this machine has this address"
        );
        let mapped = interface_with("::ffff:127.0.0.1".parse().unwrap()).unwrap_err();
        assert_eq!(mapped.to_string(), error.to_string());
    }

    #[test]
    fn an_interface_without_a_name_has_no_length() {
        assert!(most_bytes_of("").is_err());
        assert!(most_bytes_of(&"x".repeat(100)).is_err());
        assert!(most_bytes_of("lo").is_ok());
    }
}
