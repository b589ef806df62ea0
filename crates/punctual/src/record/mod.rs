//! The versioned run directory: written by one half of the tool, read by the other.

pub mod run;
pub mod system;

pub use run::*;
pub use system::SystemState;
