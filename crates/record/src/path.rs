//! The path between two machines: over what messages went, what became of them, and what is known of
//! the machine at the other end.

pub mod bill;
pub mod fix;

use crate::is_zero;
use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Broken, at_most, ensure};
use super::condition::Scheduling;
use bill::MessageBills;

/// A run that measured the path to another machine. Its one entry in `threads` has the latencies of
/// the messages: the arrival of the reply in user space minus the instant at which the message was to
/// be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathRun {
    /// Over what.
    pub transport: Transport,
    /// The machine at the other end.
    pub peer: Peer,
    /// The lengths of messages in bytes, one after the other; a reply is as long as its message.
    pub sizes: Vec<u32>,
    /// Messages at each instant.
    pub burst: u32,
    /// A message without a reply after this time is lost, in ns.
    pub timeout_ns: u64,
    /// Messages had launch times; absent where the thread itself sent at the instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchTimes>,
    /// What became of the messages.
    pub counts: PathCounts,
    /// Which time stamps of the kernel were in force.
    pub stamps: Stamps,
    /// This machine's clock at the start.
    pub clock: ClockState,
    /// How late messages were sent; absent until there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_lateness: Option<Lateness>,
    /// What the responder reported at the end; absent where it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder: Option<ResponderReport>,
    /// Latencies in one direction; absent where the clocks are not known to be synchronised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// What delayed the late messages; absent where none was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bills: Option<MessageBills>,
}

/// Over what messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One TCP connection.
    Tcp,
    /// Datagrams of UDP.
    Udp,
    /// Ethernet frames, without IP.
    Raw,
}

impl Transport {
    /// Its name, as the command line takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Raw => "raw",
        }
    }
}

/// The machine at the other end, as it describes itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peer {
    /// Its address and port, as this machine reached it.
    pub address: String,
    /// Its name.
    pub hostname: String,
    /// The version of its punctual.
    pub version: String,
    /// Its kernel.
    pub kernel: String,
    /// The conditions of its thread before the measurement.
    pub conditions: PeerConditions,
    /// Its clock.
    pub clock: ClockState,
}

/// The conditions of the responder's thread, read back from its kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeerConditions {
    /// What it requested.
    pub requested: Option<Scheduling>,
    /// What was read back; absent where that failed.
    pub scheduling: Option<Scheduling>,
    /// The error number with which its kernel refused the priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_refused: Option<i32>,
    /// The CPU that it is bound to, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Whether all its memory is locked.
    pub locked_memory: bool,
    /// The error number with which its kernel refused that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_refused: Option<i32>,
    /// The bound on idle wake-up time that it holds, in us; absent where it holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_dma_latency_us: Option<i32>,
    /// Its kernel stamps received messages.
    pub rx_stamps: bool,
    /// Its kernel stamps sent replies.
    pub tx_stamps: bool,
}

impl PeerConditions {
    /// Whether its thread has the real-time priority that it requested.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        let real_time = |it: &Scheduling| {
            matches!(
                it,
                Scheduling::Fifo { .. } | Scheduling::Rr { .. } | Scheduling::Deadline
            )
        };
        self.scheduling == self.requested && self.scheduling.as_ref().is_some_and(real_time)
    }
}

/// Messages are passed to the kernel before their instant, and a queueing discipline or the card sends
/// them at it (`SO_TXTIME`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaunchTimes {
    /// How long before, in ns.
    pub lead_ns: u64,
    /// By this interface.
    pub interface: String,
    /// The queueing discipline.
    pub discipline: String,
    /// The card sends at the instant: the driver has messages before.
    pub by_card: bool,
    /// What became of them.
    #[serde(flatten)]
    pub counts: LaunchCounts,
}

/// What became of launch times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaunchCounts {
    /// Messages of which the driver's time stamp is known.
    pub seen: u64,
    /// Of these, messages that the driver had before their launch time: nothing held them.
    pub early: u64,
    /// The longest time before, in ns.
    pub earliest_ns: u64,
    /// Messages that were dropped on this machine because their launch time had passed; they are lost.
    pub missed: u64,
}

/// What became of the messages: every period is in exactly one of `replies`, `lost`,
/// `dropped_here` and `skipped`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathCounts {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages whose reply came in time: the samples.
    pub replies: u64,
    /// Messages that were never sent, because the sender was late by a period or more, or waited for room.
    pub skipped: u64,
    /// Messages that found the socket's buffer full and waited for room; they are late, not lost.
    pub blocked: u64,
    /// Messages without a reply within the time-out.
    pub lost: u64,
    /// Messages whose reply came, and found the buffer of the sender's socket full: they are neither lost on the
    /// path nor samples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_here: u64,
    /// Of those that are lost, messages whose reply came after the time-out.
    pub after_timeout: u64,
    /// Of these, messages that the kernel refused to send: no route, a link that is down.
    pub refused: u64,
    /// Replies that came twice.
    pub duplicates: u64,
    /// Replies that came after that of a later message.
    pub reordered: u64,
    /// Data that is no reply of this session.
    pub foreign: u64,
}

impl PathCounts {
    /// Whether messages were sent, and none had a reply.
    #[must_use]
    pub fn are_swallowed(&self) -> bool {
        self.replies == 0 && self.lost > self.refused
    }
}

/// Which time stamps of the kernel were in force on the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stamps {
    /// Of received replies.
    pub rx_software: bool,
    /// Of sent messages.
    pub tx_software: bool,
    /// The network card stamps messages and replies.
    pub hardware: bool,
}

/// A machine's wall clock: whether something disciplines it, and how wrong it may be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockState {
    /// The kernel says that it is synchronised (`STA_UNSYNC` is clear).
    pub synchronised: bool,
    /// The most that it is wrong by, as the kernel states it (`maxerror`).
    pub max_error_ns: u64,
    /// How wrong it is, as estimated (`esterror`).
    pub estimated_error_ns: u64,
    /// The program that disciplines it: `chronyd`, `ptp4l`, `phc2sys`, `ntpd`, `systemd-timesyncd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ClockState {
    /// Whether it serves to measure one direction.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.synchronised && self.by.is_some()
    }
}

/// A distribution in a few figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lateness {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The highest.
    pub max_ns: u64,
}

/// What the responder reported at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponderReport {
    /// Messages that it received.
    pub received: u64,
    /// Replies that it sent.
    pub replied: u64,
    /// Replies that found its socket's buffer full.
    pub blocked: u64,
    /// Data that was no message of the session.
    pub foreign: u64,
    /// From the reception in its kernel to its thread in user space; absent without time stamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_up: Option<Lateness>,
    /// From there to the call that sends the reply.
    pub turnaround: Lateness,
    /// The conditions of its thread at the end.
    pub conditions: PeerConditions,
    /// Page faults of its thread.
    pub faults: u64,
    /// Involuntary context switches of its thread.
    pub preemptions: u64,
}

/// Latencies in one direction, between the kernels' software time stamps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OneWay {
    /// To the responder: from the driver here to the driver there.
    pub there: Lateness,
    /// Back.
    pub back: Lateness,
    /// By how much these may be wrong: the errors of both clocks together.
    pub error_ns: u64,
}

/// What the record of a path promises beyond its types.
pub(crate) fn check(path: &PathRun) -> Result<(), Broken> {
    at_most(path.sizes.len(), Bounds::SHORT_LIST, "path.sizes")?;
    let counts = &path.counts;
    ensure(
        counts.after_timeout.saturating_add(counts.refused) <= counts.lost,
        "path.counts.lost",
        "less than the messages that were refused or answered too late",
    )?;
    for (place, text) in [
        ("path.peer.address", &path.peer.address),
        ("path.peer.hostname", &path.peer.hostname),
        ("path.peer.version", &path.peer.version),
        ("path.peer.kernel", &path.peer.kernel),
    ]
    .into_iter()
    .chain(path.launch.iter().flat_map(|launch| {
        [
            ("path.launch.interface", &launch.interface),
            ("path.launch.discipline", &launch.discipline),
        ]
    })) {
        ensure(text.len() <= 1024, place, "longer than 1024 bytes")?;
    }
    let bills = path.bills.as_ref();
    bills.map_or(Ok(()), |bills| bills.check("path.bills"))
}
