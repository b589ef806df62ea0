//! What the two sides agree on, and what they say of themselves.

use std::fmt;

use punctual_record::Scheduling;
use punctual_record::path::{ClockState, Lateness, PeerConditions, ResponderReport, Transport};

use super::bytes::{Reader, Writer};
use super::proof::SessionId;
use super::{WireError, limits};

/// A session that the sender asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Over what.
    pub transport: Transport,
    /// The lengths of messages.
    pub sizes: Vec<u32>,
    /// Messages at each instant.
    pub burst: u32,
    /// The nominal interval between instants, in ns.
    pub interval_ns: u64,
    /// How long it lasts, in ns; absent for no limit.
    pub duration_ns: Option<u64>,
    /// The kernel's time stamps are wanted.
    pub stamps: bool,
    /// The sender's port of UDP; 0 with another transport.
    pub port: u16,
    /// The sender's Ethernet address; zero with another transport.
    pub ethernet: [u8; 6],
}

/// A session that the responder agrees to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its name.
    pub session: SessionId,
    /// What its messages bear.
    pub tag: u32,
    /// The responder's port of UDP; 0 with another transport.
    pub port: u16,
    /// The responder's Ethernet address; zero with another transport.
    pub ethernet: [u8; 6],
}

/// The responder is ready: its thread waits for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its name.
    pub hostname: String,
    /// Its kernel.
    pub kernel: String,
    /// The conditions of its thread.
    pub conditions: PeerConditions,
    /// Its clock.
    pub clock: ClockState,
    /// Its CLOCK_REALTIME minus its CLOCK_MONOTONIC, in ns.
    pub real_offset_ns: i64,
    /// At the end it says what delayed its thread.
    pub explains: bool,
}

/// Why the responder refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It speaks another version of the protocol.
    Protocol {
        /// Which.
        spoken: u16,
    },
    /// The sender does not know the token.
    Token,
    /// It measures already.
    Busy,
    /// What is asked for is beyond its limits.
    Limit {
        /// What.
        what: Limit,
        /// The most, or the least, that it permits.
        bound: u64,
    },
    /// It can't do what is asked for.
    Unable {
        /// Why, in its own words.
        why: String,
    },
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The length of messages, in bytes: at most.
    MostBytes,
    /// The same: at least.
    LeastBytes,
    /// Different lengths in a pattern.
    Sizes,
    /// Messages at each instant.
    Burst,
    /// The interval, in ns: at least.
    Interval,
    /// The length of a session, in ns.
    Duration,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol { spoken } => write!(
                f,
                "it speaks version {spoken} of the protocol, and this is version {}: use the same \
                 punctual on both machines",
                super::PROTOCOL
            ),
            Self::Token => f.write_str(
                "it has another token: give the one that it prints or reads, with --token-file or \
                 PUNCTUAL_TOKEN",
            ),
            Self::Busy => f.write_str(
                "it serves another session: one at a time, because two would delay each other",
            ),
            Self::Limit { what, bound } => match what {
                Limit::MostBytes => write!(f, "messages of more than {bound} bytes"),
                Limit::LeastBytes => write!(f, "messages of less than {bound} bytes"),
                Limit::Sizes => write!(f, "more than {bound} different lengths"),
                Limit::Burst => write!(f, "bursts of more than {bound} messages"),
                Limit::Interval => write!(f, "intervals below {bound} ns"),
                Limit::Duration => write!(f, "sessions longer than {} s", bound / 1_000_000_000),
            },
            Self::Unable { why } => f.write_str(why),
        }
    }
}

impl Request {
    /// Checks what is asked for; `most_bytes` is the responder's own limit.
    ///
    /// # Errors
    /// What is beyond the limits.
    pub fn check(&self, most_bytes: u32, most_duration_ns: u64) -> Result<(), Refusal> {
        let limit = |what, bound: u64| Err(Refusal::Limit { what, bound });
        let most = match self.transport {
            Transport::Tcp => limits::MOST_MESSAGE_BYTES,
            Transport::Udp => limits::MOST_DATAGRAM_BYTES,
            Transport::Raw => limits::MOST_ETHERNET_BYTES,
        };
        let most = most.min(most_bytes);
        if self.sizes.is_empty() || self.sizes.len() > limits::MOST_SIZES {
            return limit(Limit::Sizes, limits::MOST_SIZES as u64);
        }
        if self.sizes.iter().any(|size| *size > most) {
            return limit(Limit::MostBytes, most.into());
        }
        if self
            .sizes
            .iter()
            .any(|size| *size < limits::LEAST_MESSAGE_BYTES)
        {
            return limit(Limit::LeastBytes, limits::LEAST_MESSAGE_BYTES.into());
        }
        if self.burst == 0 || self.burst > limits::MOST_BURST {
            return limit(Limit::Burst, limits::MOST_BURST.into());
        }
        if self.interval_ns < limits::LEAST_INTERVAL_NS {
            return limit(Limit::Interval, limits::LEAST_INTERVAL_NS);
        }
        if self.duration_ns.is_some_and(|it| it > most_duration_ns) {
            return limit(Limit::Duration, most_duration_ns);
        }
        Ok(())
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.u8(self.transport as u8).u32(self.burst);
        to.u64(self.interval_ns);
        to.optional(self.duration_ns, Writer::u64);
        to.flag(self.stamps).u16(self.port).bytes(&self.ethernet);
        let sizes = &self.sizes[..self.sizes.len().min(limits::MOST_SIZES)];
        to.u8(sizes.len() as u8);
        for size in sizes {
            to.u32(*size);
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let transport = match from.u8()? {
            0 => Transport::Tcp,
            1 => Transport::Udp,
            2 => Transport::Raw,
            value => {
                return Err(WireError::Unknown {
                    value: value.into(),
                });
            }
        };
        let burst = from.u32()?;
        let interval_ns = from.u64()?;
        let duration_ns = from.optional(Reader::u64)?;
        let (stamps, port, ethernet) = (from.flag()?, from.u16()?, from.array()?);
        let count = usize::from(from.u8()?);
        if count > limits::MOST_SIZES {
            return Err(WireError::Unknown {
                value: count as u64,
            });
        }
        let sizes = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
        Ok(Self {
            transport,
            sizes,
            burst,
            interval_ns,
            duration_ns,
            stamps,
            port,
            ethernet,
        })
    }
}

impl Accepted {
    pub(super) fn write(&self, to: &mut Writer) {
        to.bytes(&self.session).u32(self.tag).u16(self.port);
        to.bytes(&self.ethernet);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            session: from.array()?,
            tag: from.u32()?,
            port: from.u16()?,
            ethernet: from.array()?,
        })
    }
}

impl Ready {
    pub(super) fn write(&self, to: &mut Writer) {
        to.text(&self.hostname).text(&self.kernel);
        write_conditions(to, &self.conditions);
        write_clock(to, &self.clock);
        to.u64(self.real_offset_ns.cast_unsigned());
        to.flag(self.explains);
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            hostname: from.text()?,
            kernel: from.text()?,
            conditions: read_conditions(from)?,
            clock: read_clock(from)?,
            real_offset_ns: from.u64()?.cast_signed(),
            explains: from.flag()?,
        })
    }
}

impl Refusal {
    pub(super) fn write(&self, to: &mut Writer) {
        match self {
            Self::Protocol { spoken } => to.u8(0).u16(*spoken),
            Self::Token => to.u8(1),
            Self::Busy => to.u8(2),
            Self::Limit { what, bound } => to.u8(3).u8(*what as u8).u64(*bound),
            Self::Unable { why } => to.u8(4).text(why),
        };
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            0 => Self::Protocol {
                spoken: from.u16()?,
            },
            1 => Self::Token,
            2 => Self::Busy,
            3 => Self::Limit {
                what: match from.u8()? {
                    0 => Limit::MostBytes,
                    1 => Limit::LeastBytes,
                    2 => Limit::Sizes,
                    3 => Limit::Burst,
                    4 => Limit::Interval,
                    5 => Limit::Duration,
                    value => {
                        return Err(WireError::Unknown {
                            value: value.into(),
                        });
                    }
                },
                bound: from.u64()?,
            },
            4 => Self::Unable { why: from.text()? },
            value => {
                return Err(WireError::Unknown {
                    value: value.into(),
                });
            }
        })
    }
}

pub(super) fn write_report(to: &mut Writer, report: &ResponderReport) {
    to.u64(report.received).u64(report.replied);
    to.u64(report.blocked).u64(report.foreign);
    to.optional(report.wake_up.as_ref(), write_lateness);
    write_lateness(to, &report.turnaround);
    write_conditions(to, &report.conditions);
    to.u64(report.faults).u64(report.preemptions);
}

pub(super) fn read_report(from: &mut Reader<'_>) -> Result<ResponderReport, WireError> {
    Ok(ResponderReport {
        received: from.u64()?,
        replied: from.u64()?,
        blocked: from.u64()?,
        foreign: from.u64()?,
        wake_up: from.optional(read_lateness)?,
        turnaround: read_lateness(from)?,
        conditions: read_conditions(from)?,
        faults: from.u64()?,
        preemptions: from.u64()?,
    })
}

fn write_lateness<'w>(to: &'w mut Writer, of: &Lateness) -> &'w mut Writer {
    to.u64(of.count).u64(of.p50_ns).u64(of.p99_ns);
    to.u64(of.p999_ns).u64(of.max_ns)
}

fn read_lateness(from: &mut Reader<'_>) -> Result<Lateness, WireError> {
    Ok(Lateness {
        count: from.u64()?,
        p50_ns: from.u64()?,
        p99_ns: from.u64()?,
        p999_ns: from.u64()?,
        max_ns: from.u64()?,
    })
}

fn write_clock(to: &mut Writer, clock: &ClockState) {
    to.flag(clock.synchronised).u64(clock.max_error_ns);
    to.u64(clock.estimated_error_ns);
    to.optional(clock.by.as_deref(), Writer::text);
}

fn read_clock(from: &mut Reader<'_>) -> Result<ClockState, WireError> {
    Ok(ClockState {
        synchronised: from.flag()?,
        max_error_ns: from.u64()?,
        estimated_error_ns: from.u64()?,
        by: from.optional(Reader::text)?,
    })
}

fn write_conditions(to: &mut Writer, of: &PeerConditions) {
    let errno = |to: &mut Writer, value: Option<i32>| {
        to.optional(value, |to, value| to.u32(value.cast_unsigned()));
    };
    to.optional(of.requested, write_scheduling);
    to.optional(of.scheduling, write_scheduling);
    errno(to, of.priority_refused);
    to.optional(of.cpu, Writer::u32).flag(of.locked_memory);
    errno(to, of.memory_refused);
    errno(to, of.cpu_dma_latency_us);
    to.flag(of.rx_stamps).flag(of.tx_stamps);
}

fn read_conditions(from: &mut Reader<'_>) -> Result<PeerConditions, WireError> {
    fn signed(from: &mut Reader<'_>) -> Result<i32, WireError> {
        from.u32().map(u32::cast_signed)
    }
    Ok(PeerConditions {
        requested: from.optional(read_scheduling)?,
        scheduling: from.optional(read_scheduling)?,
        priority_refused: from.optional(signed)?,
        cpu: from.optional(Reader::u32)?,
        locked_memory: from.flag()?,
        memory_refused: from.optional(signed)?,
        cpu_dma_latency_us: from.optional(signed)?,
        rx_stamps: from.flag()?,
        tx_stamps: from.flag()?,
    })
}

fn write_scheduling(to: &mut Writer, of: Scheduling) -> &mut Writer {
    match of {
        Scheduling::Other => to.u8(0),
        Scheduling::Fifo { priority } => to.u8(1).u32(priority),
        Scheduling::Rr { priority } => to.u8(2).u32(priority),
        Scheduling::Batch => to.u8(3),
        Scheduling::Idle => to.u8(4),
        Scheduling::Deadline => to.u8(5),
        Scheduling::Ext => to.u8(6),
        Scheduling::Unknown { number } => to.u8(7).u32(number),
    }
}

fn read_scheduling(from: &mut Reader<'_>) -> Result<Scheduling, WireError> {
    Ok(match from.u8()? {
        0 => Scheduling::Other,
        1 => Scheduling::Fifo {
            priority: from.u32()?,
        },
        2 => Scheduling::Rr {
            priority: from.u32()?,
        },
        3 => Scheduling::Batch,
        4 => Scheduling::Idle,
        5 => Scheduling::Deadline,
        6 => Scheduling::Ext,
        7 => Scheduling::Unknown {
            number: from.u32()?,
        },
        value => {
            return Err(WireError::Unknown {
                value: value.into(),
            });
        }
    })
}
