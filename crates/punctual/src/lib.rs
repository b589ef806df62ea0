//! The tool's library: everything but the thin `main`.

pub mod record;
pub mod report;
