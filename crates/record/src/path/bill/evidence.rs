//! What shows the cause of a row in a message's bill.

use serde::{Deserialize, Serialize};

/// What shows a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MessageEvidence {
    /// Segments that TCP sent again meanwhile (`tcpi_total_retrans`).
    Retransmits {
        /// How many.
        count: u32,
    },
    /// Time-outs of the retransmission timer meanwhile (`tcpi_total_rto`).
    Timeouts {
        /// How many.
        count: u32,
    },
    /// The kernel does not count time-outs (before Linux 6.7): how the loss was found is known by its
    /// time alone.
    TimeoutsNotCounted,
    /// The retransmission time-out of the connection.
    RetransmissionTimeout {
        /// How long, in µs.
        us: u32,
    },
    /// Times that the last part of the message was passed to the driver.
    Transmissions {
        /// How many.
        count: u32,
    },
    /// Its first transmission reached the packet scheduler of this machine and never its driver: the
    /// queue dropped it.
    DroppedInQueue,
    /// Time for which the receiver's window was closed (`tcpi_rwnd_limited`).
    WindowLimited {
        /// How long, in µs.
        us: u64,
    },
    /// Time for which the send buffer was full (`tcpi_sndbuf_limited`).
    BufferLimited {
        /// How long, in µs.
        us: u64,
    },
    /// The socket's buffer was full at the call.
    Blocked,
    /// The data left so long after the call had returned.
    AfterCall {
        /// How long, in ns.
        ns: u64,
    },
    /// The call itself took so long.
    InCall {
        /// How long, in ns.
        ns: u64,
    },
    /// Messages without a reply when this one was sent.
    Outstanding {
        /// How many.
        count: u32,
    },
    /// The acknowledgement of the whole message came so long after its first transmission.
    AcknowledgedAfter {
        /// How long, in ns.
        ns: u64,
    },
    /// Nothing was sent for so long before.
    IdleBefore {
        /// How long, in ns.
        ns: u64,
    },
    /// Segments of the message, and the congestion window then or after.
    Segments {
        /// Of the message.
        count: u32,
        /// The window.
        window: u32,
    },
    /// The loss was of data sent before this message, or of another part of it.
    EarlierData,
    /// The thread took several messages in one call: only the last of them has a time stamp.
    ReadTogether,
    /// The shortest time on the way so far, in ns.
    UsualWay {
        /// How long, in ns.
        ns: u64,
    },
    /// By so much CLOCK_REALTIME was set, in ns: the kernel's time stamps may be wrong by as much.
    ClockStep {
        /// By how much, in ns.
        ns: i64,
    },
    /// The other machine's stages are longer than the time between sending and receiving.
    Contradiction {
        /// By how much, in ns.
        ns: u64,
    },
    /// A time stamp of the network card.
    HardwareStamps,
    /// The kernel's events were recorded.
    Events,
    /// Those of the responder's machine were.
    PeerEvents,
}
