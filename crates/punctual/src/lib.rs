//! The tool, everything but the thin `main`.

pub mod cli;
pub mod conduct;
pub mod launch;
pub mod probe;
pub mod system;
