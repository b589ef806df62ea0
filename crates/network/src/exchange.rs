//! One exchange of a message and its reply: its stages on both machines, as plain data.
//!
//! Instants of the sender are ns of its CLOCK_MONOTONIC; the kernel's stamps are CLOCK_REALTIME and
//! are converted with the offset read in the same exchange. Instants of the responder are ns of its
//! own CLOCK_MONOTONIC: only differences between them mean anything, unless the clocks are known to
//! be synchronised. An instant that was not seen is `None`.

/// The stages of one message, from its requested instant to its reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The number of the message, counted from 1. A period that was skipped has none.
    pub sequence: u64,
    /// Length of the message, and of its reply, in bytes.
    pub size: u32,
    /// The instant at which it was to be sent.
    pub requested_ns: u64,
    /// What happened to the message on the sender.
    pub sent: SentStages,
    /// The reply on the sender; absent if the message was lost.
    pub reply: Option<Reply>,
    /// What happened on the responder; absent if the message was lost.
    pub peer: Option<PeerStages>,
    /// What TCP counted on the sender since the exchange that was read before; absent without TCP.
    pub tcp: Option<TcpChange>,
    /// The same on the responder, between receiving the message before and this one.
    pub peer_tcp: Option<TcpChange>,
    /// By how much CLOCK_REALTIME was set since the exchange before, as far as it shows: the
    /// kernel's stamps of this exchange may be wrong by as much.
    pub clock_step_ns: i64,
    /// Messages that were sent before this one and had no reply yet when this one was sent.
    pub outstanding: u32,
}

impl Exchange {
    /// From the requested instant to the reply in user space; absent if the message was lost.
    #[must_use]
    pub fn latency_ns(&self) -> Option<u64> {
        let reply = self.reply?;
        Some(reply.woke_ns.saturating_sub(self.requested_ns))
    }
}

/// What happened to a message on the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentStages {
    /// Before the first call that sends it; the sender was late by this minus the requested instant.
    pub call_begin_ns: u64,
    /// After the last call that sends it.
    pub call_end_ns: u64,
    /// The socket's buffer was full at the first call: the message waited for room.
    pub blocked: bool,
    /// It entered the packet scheduler (`TX_SCHED`); retransmissions count.
    pub scheduled: Transmissions,
    /// It was passed to the driver (`TX_SOFTWARE`); retransmissions count.
    pub software: Transmissions,
    /// The network card sent it (`TX_HARDWARE`), in ns of the card's own clock.
    pub hardware_ns: Option<u64>,
    /// TCP on the responder has acknowledged all of it (`TX_ACK`).
    pub acknowledged_ns: Option<u64>,
}

/// The first and the last of the transmissions of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transmissions {
    /// The first; meaningless if `count` is 0.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
    /// How many were seen. A message of several segments has one for each of them, of which the
    /// kernel stamps the last.
    pub count: u32,
}

impl Transmissions {
    /// Adds one.
    pub fn add(&mut self, at_ns: u64) {
        if self.count == 0 || at_ns < self.first_ns {
            self.first_ns = at_ns;
        }
        self.last_ns = self.last_ns.max(at_ns);
        self.count = self.count.saturating_add(1);
    }

    /// The first, if any was seen.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        (self.count > 0).then_some(self.first_ns)
    }

    /// The last, if any was seen.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        (self.count > 0).then_some(self.last_ns)
    }
}

/// The reply on the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    /// The kernel received the last part of it from the driver (`RX_SOFTWARE`).
    pub rx_software_ns: Option<u64>,
    /// The network card received it (`RX_HARDWARE`), in ns of the card's own clock.
    pub rx_hardware_ns: Option<u64>,
    /// The receiving thread had it in user space.
    pub woke_ns: u64,
}

/// What happened on the responder, in ns of its own CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerStages {
    /// Its kernel received the last part of the message from the driver.
    pub rx_software_ns: Option<u64>,
    /// Its thread had the message in user space.
    pub woke_ns: u64,
    /// Before the call that sends the reply.
    pub send_begin_ns: u64,
    /// The reply entered its packet scheduler. Known from the reply to the next message; none if
    /// that did not come.
    pub scheduled: Transmissions,
    /// The reply was passed to its driver. Known as `scheduled`.
    pub software: Transmissions,
}

/// What `TCP_INFO` says of a connection, as far as it serves to explain a late message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Retransmitted segments (`tcpi_total_retrans`).
    pub retransmits: u32,
    /// Time-outs of the retransmission timer (`tcpi_total_rto`, since Linux 6.7).
    pub timeouts: Option<u16>,
    /// Recoveries after such a time-out (`tcpi_total_rto_recoveries`, since Linux 6.7).
    pub timeout_recoveries: Option<u16>,
    /// Time spent in such recoveries, ms (`tcpi_total_rto_time`, since Linux 6.7).
    pub timeout_ms: Option<u32>,
    /// Time with data in flight or waiting, µs (`tcpi_busy_time`).
    pub busy_us: u64,
    /// Time limited by the receiver's window, µs (`tcpi_rwnd_limited`), in steps of a tick.
    pub rwnd_limited_us: u64,
    /// Time limited by the send buffer, µs (`tcpi_sndbuf_limited`), in steps of a tick.
    pub sndbuf_limited_us: u64,
    /// Segments that the other side reported as received twice (`tcpi_dsack_dups`).
    pub duplicates: u32,
    /// Reordering events (`tcpi_reord_seen`).
    pub reordered: u32,
    /// The state now.
    pub state: TcpState,
}

/// The state of a connection at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Congestion: 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss (`tcpi_ca_state`).
    pub congestion: u8,
    /// Retransmissions without an answer so far (`tcpi_retransmits`).
    pub unanswered: u8,
    /// Exponent of the timer's back-off (`tcpi_backoff`).
    pub backoff: u8,
    /// Probes of a closed window without an answer (`tcpi_probes`).
    pub probes: u8,
    /// Retransmission time-out, µs (`tcpi_rto`).
    pub rto_us: u32,
    /// Smoothed round-trip time, µs (`tcpi_rtt`).
    pub rtt_us: u32,
    /// Segments sent and not acknowledged (`tcpi_unacked`).
    pub unacknowledged: u32,
    /// Of these, segments deemed lost (`tcpi_lost`).
    pub lost: u32,
    /// Congestion window, segments (`tcpi_snd_cwnd`).
    pub window: u32,
    /// Bytes in the socket that were not sent yet (`tcpi_notsent_bytes`).
    pub unsent_bytes: u32,
    /// Maximum segment size, bytes (`tcpi_snd_mss`).
    pub segment_bytes: u32,
    /// The receiver's window, bytes (`tcpi_snd_wnd`, since Linux 5.4).
    pub peer_window_bytes: Option<u32>,
}

/// What TCP counted between two readings, and the state at the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpChange {
    /// Retransmitted segments.
    pub retransmits: u32,
    /// Time-outs of the retransmission timer; absent before Linux 6.7.
    pub timeouts: Option<u16>,
    /// Recoveries after such a time-out; absent before Linux 6.7.
    pub timeout_recoveries: Option<u16>,
    /// Time spent in such recoveries, ms; absent before Linux 6.7.
    pub timeout_ms: Option<u32>,
    /// Time with data in flight or waiting, µs.
    pub busy_us: u64,
    /// Time limited by the receiver's window, µs.
    pub rwnd_limited_us: u64,
    /// Time limited by the send buffer, µs.
    pub sndbuf_limited_us: u64,
    /// Segments that the other side reported as received twice.
    pub duplicates: u32,
    /// Reordering events.
    pub reordered: u32,
    /// The state at the second reading.
    pub state: TcpState,
}

impl TcpCounters {
    /// What was counted since an earlier reading. The counters wrap around, as the kernel's do.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> TcpChange {
        let short = |now: Option<u16>, then: Option<u16>| Some(now?.wrapping_sub(then?));
        TcpChange {
            retransmits: self.retransmits.wrapping_sub(earlier.retransmits),
            timeouts: short(self.timeouts, earlier.timeouts),
            timeout_recoveries: short(self.timeout_recoveries, earlier.timeout_recoveries),
            timeout_ms: self
                .timeout_ms
                .zip(earlier.timeout_ms)
                .map(|(now, then)| now.wrapping_sub(then)),
            // Sums of intervals that the kernel closes late: a later reading may be lower.
            busy_us: self.busy_us.saturating_sub(earlier.busy_us),
            rwnd_limited_us: self.rwnd_limited_us.saturating_sub(earlier.rwnd_limited_us),
            sndbuf_limited_us: self
                .sndbuf_limited_us
                .saturating_sub(earlier.sndbuf_limited_us),
            duplicates: self.duplicates.wrapping_sub(earlier.duplicates),
            reordered: self.reordered.wrapping_sub(earlier.reordered),
            state: self.state,
        }
    }

    /// Reads the bytes that the kernel returned for `TCP_INFO`; older kernels return fewer.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let u8_at = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let word = |at: usize| u32_at(at).unwrap_or(0);
        let long = |at: usize| u64_at(at).unwrap_or(0);
        Self {
            retransmits: word(offset::TOTAL_RETRANS),
            timeouts: u16_at(offset::TOTAL_RTO),
            timeout_recoveries: u16_at(offset::TOTAL_RTO_RECOVERIES),
            timeout_ms: u32_at(offset::TOTAL_RTO_TIME),
            busy_us: long(offset::BUSY_TIME),
            rwnd_limited_us: long(offset::RWND_LIMITED),
            sndbuf_limited_us: long(offset::SNDBUF_LIMITED),
            duplicates: word(offset::DSACK_DUPS),
            reordered: word(offset::REORD_SEEN),
            state: TcpState {
                congestion: u8_at(offset::CA_STATE),
                unanswered: u8_at(offset::RETRANSMITS),
                probes: u8_at(offset::PROBES),
                backoff: u8_at(offset::BACKOFF),
                rto_us: word(offset::RTO),
                segment_bytes: word(offset::SND_MSS),
                unacknowledged: word(offset::UNACKED),
                lost: word(offset::LOST),
                rtt_us: word(offset::RTT),
                window: word(offset::SND_CWND),
                unsent_bytes: word(offset::NOTSENT_BYTES),
                peer_window_bytes: u32_at(offset::SND_WND),
            },
        }
    }
}

/// Where the fields are in `struct tcp_info` of linux/tcp.h, which only grows at its end.
mod offset {
    pub const CA_STATE: usize = 1;
    pub const RETRANSMITS: usize = 2;
    pub const PROBES: usize = 3;
    pub const BACKOFF: usize = 4;
    pub const RTO: usize = 8;
    pub const SND_MSS: usize = 16;
    pub const UNACKED: usize = 24;
    pub const LOST: usize = 32;
    pub const RTT: usize = 68;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const NOTSENT_BYTES: usize = 144;
    pub const BUSY_TIME: usize = 168;
    pub const RWND_LIMITED: usize = 176;
    pub const SNDBUF_LIMITED: usize = 184;
    pub const DSACK_DUPS: usize = 216;
    pub const REORD_SEEN: usize = 220;
    pub const SND_WND: usize = 228;
    pub const TOTAL_RTO: usize = 240;
    pub const TOTAL_RTO_RECOVERIES: usize = 242;
    pub const TOTAL_RTO_TIME: usize = 244;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_transmission_are_kept_in_any_order() {
        let mut seen = Transmissions::default();
        assert_eq!((seen.first(), seen.last()), (None, None));
        for at_ns in [50, 30, 90] {
            seen.add(at_ns);
        }
        assert_eq!((seen.first(), seen.last()), (Some(30), Some(90)));
        assert_eq!(seen.count, 3);
    }

    #[test]
    fn a_short_tcp_info_has_no_newer_counters() {
        let mut bytes = [0u8; 248];
        bytes[100..104].copy_from_slice(&7u32.to_ne_bytes());
        bytes[240..242].copy_from_slice(&3u16.to_ne_bytes());
        bytes[244..248].copy_from_slice(&412u32.to_ne_bytes());
        let whole = TcpCounters::parse(&bytes);
        assert_eq!(whole.retransmits, 7);
        assert_eq!((whole.timeouts, whole.timeout_ms), (Some(3), Some(412)));
        let old = TcpCounters::parse(&bytes[..232]);
        assert_eq!(old.retransmits, 7);
        assert_eq!((old.timeouts, old.timeout_ms), (None, None));
        assert_eq!(whole.since(&old).timeouts, None);
        assert_eq!(TcpCounters::parse(&[]), TcpCounters::default());
    }

    #[test]
    fn counters_that_wrap_around_are_subtracted_as_the_kernel_counts() {
        let earlier = TcpCounters {
            retransmits: u32::MAX,
            timeouts: Some(u16::MAX),
            busy_us: 10,
            ..TcpCounters::default()
        };
        let later = TcpCounters {
            retransmits: 1,
            timeouts: Some(0),
            busy_us: 8,
            ..TcpCounters::default()
        };
        let change = later.since(&earlier);
        assert_eq!((change.retransmits, change.timeouts), (2, Some(1)));
        assert_eq!(change.busy_us, 0);
    }
}
