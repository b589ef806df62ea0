//! What the kernel drops of UDP for want of room. A socket's own count of drops has more: what a filter or a wrong
//! checksum drops is in it too, and that is a loss of the path.

use std::fs;

/// Datagrams for which there was no room so far, in the buffers of sockets and in the memory of UDP, of all sockets
/// of this network namespace; absent where the kernel does not say.
#[must_use]
pub fn no_room() -> Option<u64> {
    let read = |path| fs::read_to_string(path).ok();
    // Without IPv6 there is no file of it.
    let ipv6 = read("/proc/self/net/snmp6").unwrap_or_default();
    counted(&read("/proc/self/net/snmp")?, &ipv6)
}

/// The same from the texts of both files; absent where the first has no such counter.
fn counted(ipv4: &str, ipv6: &str) -> Option<u64> {
    Some(of_ipv4(ipv4)?.saturating_add(of_ipv6(ipv6)))
}

/// A line of names comes before the line of its values. Older kernels do not count want of memory by itself.
fn of_ipv4(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let pairs = || names.split_whitespace().zip(values.split_whitespace());
    let value = |name| pairs().find(|pair| pair.0 == name)?.1.parse::<u64>().ok();
    Some(value("RcvbufErrors")?.saturating_add(value("MemErrors").unwrap_or(0)))
}

/// Each line has a name and its value.
fn of_ipv6(text: &str) -> u64 {
    let value = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let is_meant = matches!(name, "Udp6RcvbufErrors" | "Udp6MemErrors");
        value.trim().parse::<u64>().ok().filter(|_| is_meant)
    };
    let values = text.lines().filter_map(value);
    values.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: &str = "\
Ip: Forwarding DefaultTTL InReceives InHdrErrors
Ip: 1 64 2972407 0
Icmp: InMsgs InErrors InCsumErrors
Icmp: 15 0 0
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 2162 5 805237 809453 804928 0 309 0 7
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 0 0 0 0 11 0 0 0 13
";
    const IPV6: &str = "\
Ip6InReceives                   \t120
Udp6InErrors                    \t50
Udp6RcvbufErrors                \t30
Udp6SndbufErrors                \t4
Udp6InCsumErrors                \t20
Udp6MemErrors                   \t2
UdpLite6RcvbufErrors            \t11
";

    #[test]
    fn what_had_no_room_is_read_of_both_protocols_and_no_checksums() {
        assert_eq!(counted(IPV4, IPV6), Some(804_928 + 7 + 30 + 2));
        assert_eq!(counted(IPV4, ""), Some(804_935));
        let older = "Udp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 1 2 3\n";
        assert_eq!(counted(older, ""), Some(2));
    }

    #[test]
    fn any_text_is_read_without_a_fault() {
        for (ipv4, counts) in [
            ("", None),
            ("Udp:", None),
            ("Udp: RcvbufErrors\nUdp:\n", None),
            ("Udp: RcvbufErrors\nUdp: -1\n", None),
            ("Udp: InErrors InCsumErrors\nUdp: 3 3\n", None),
            ("Udp: RcvbufErrors MemErrors\nUdp: 5 x\n", Some(5)),
            (
                "Udp: RcvbufErrors MemErrors\nUdp: 18446744073709551615 9\n",
                Some(u64::MAX),
            ),
        ] {
            assert_eq!(
                counted(ipv4, "Udp6RcvbufErrors x\n\nUdp6MemErrors\n\u{e9}"),
                counts
            );
        }
    }

    #[test]
    fn the_kernel_counts_it_here() {
        assert!(no_room().is_some());
    }
}
