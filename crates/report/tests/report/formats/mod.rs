//! Foreign formats, and the schema of ours.

mod farms;
mod formats_compare;
mod formats_peers;
mod formats_read;
mod formats_write;
mod fuzz;
mod imports;
mod merge_watched;
mod metrics_peers;
mod outcomes;
pub mod schema;
mod schema_lab;
