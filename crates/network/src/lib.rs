//! Measures the path between two machines: messages that are sent at absolute instants, whatever
//! became of earlier ones, and the stages of each on its way there and back.
//!
//! One thread sends message *i* at its instant, another receives the replies: no late message delays
//! the instant of another. Nothing in either loop allocates or locks; the calls that read the
//! kernel's time stamps and TCP's counters come after a reply was taken.

pub mod ancillary;
pub mod bill;
pub mod exchange;
pub mod framed;
pub mod numeric;
pub mod responder;
pub mod room;
pub mod sender;
pub mod sys;
pub mod wire;

pub use exchange::{
    Exchange, PeerStages, Reply, SentStages, TcpChange, TcpCounters, Transmissions,
};
