//! The words for what a record holds as data: conditions, events, ends.
//!
//! Nothing reads them back: a record, and what follows from it, is the same whatever they are.

mod condition;
mod event;
mod fix;
mod unavailable;

pub use condition::{fix_of, found, requested, scheduling};
pub use event::{ending, event, stop_cause};
pub use fix::fix;
pub use unavailable::unavailable;
