//! The tool, everything but the thin `main`.

pub mod cli;
pub mod conduct;
pub mod launch;
pub use punctual_probe as probe;
pub mod system;
