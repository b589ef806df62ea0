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
