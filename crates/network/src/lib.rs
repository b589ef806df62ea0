//! Measures the path between two machines.

pub mod exchange;

pub use exchange::{
    Exchange, PeerStages, Reply, SentStages, TcpChange, TcpCounters, Transmissions,
};
