//! The tool's library: everything but the thin `main`.

pub mod cli;
pub mod conduct;
pub mod files;
pub mod lab;
pub mod launch;
pub mod load;
pub mod probe;
pub mod record;
pub mod report;
pub mod system;
pub mod trace;
