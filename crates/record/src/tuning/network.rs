//! Settings of the network: metrics of a route, entries of the neighbour table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A route by what the kernel knows it by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Route {
    /// The network namespace, by the number of its inode.
    pub namespace: u64,
    /// Where it leads: an address and the length of its prefix.
    pub destination: String,
    /// The table that it is in.
    pub table: u32,
    /// Its type of service.
    pub tos: u8,
    /// Its priority; `ip` calls it its metric.
    pub priority: u32,
}

/// A metric of a route: what TCP does on connections that use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RouteMetric {
    /// The shortest time after which a segment without an acknowledgement is sent again, in ms. It
    /// counts if it is locked.
    RtoMin,
    /// The segments that are sent before the first acknowledgement, and after a pause.
    InitCwnd,
    /// Whether each segment is acknowledged at once.
    QuickAck,
}

impl RouteMetric {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RtoMin, Self::InitCwnd, Self::QuickAck];

    /// As `ip route` writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RtoMin => "rto_min",
            Self::InitCwnd => "initcwnd",
            Self::QuickAck => "quickack",
        }
    }
}

/// An entry of the neighbour table: the link-layer address of another machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// The network namespace, by the number of its inode.
    pub namespace: u64,
    /// The device.
    pub device: String,
    /// The neighbour's address.
    pub address: String,
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NetworkDevice {
    /// The network namespace, by the number of its inode.
    pub namespace: u64,
    /// Its name.
    pub name: String,
}

/// Where the packets of a network device are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NapiMode {
    /// In softirqs, as by default.
    Softirq,
    /// In threads of the kernel, with this priority of `SCHED_FIFO`, or without one.
    Threads(Option<u32>),
}

impl NapiMode {
    /// The word for softirqs.
    pub const SOFTIRQ: &str = "softirq";
    /// The word for threads.
    pub const THREADS: &str = "threads";

    /// What a user writes: `softirq`, `threads`, `threads:70`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == Self::SOFTIRQ => Some(Self::Softirq),
            None if text == Self::THREADS => Some(Self::Threads(None)),
            Some((Self::THREADS, priority)) => {
                let priority = priority.parse().ok()?;
                let is_priority = (1..=99).contains(&priority);
                is_priority.then_some(Self::Threads(Some(priority)))
            }
            _ => None,
        }
    }

    /// The value of the setting.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            Self::Softirq => Self::SOFTIRQ.to_owned(),
            Self::Threads(None) => Self::THREADS.to_owned(),
            Self::Threads(Some(priority)) => format!("{} fifo:{priority}", Self::THREADS),
        }
    }
}

/// Whether a text is a link-layer address: pairs of hexadecimal digits with colons between them.
#[must_use]
pub fn is_link_address(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.chars().all(|it| it.is_ascii_hexdigit());
    text.len() <= LONGEST_LINK && text.contains(':') && text.split(':').all(is_byte)
}

/// The longest that the kernel keeps: 32 bytes.
const LONGEST_LINK: usize = 32 * 3 - 1;

impl fmt::Display for NetworkDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}", self.destination)?;
        match self.table {
            254 => Ok(()),
            table => write!(f, " table {table}"),
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbour {} on {}", self.address, self.device)
    }
}
