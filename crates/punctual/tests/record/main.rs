//! Records and foreign formats: written, read, merged, compared, damaged.

#[path = "../common/bills.rs"]
mod bills;
mod directory;
mod explained;
mod formats_compare;
mod formats_peers;
mod formats_read;
mod formats_write;
mod fuzz;
mod imports;
#[path = "../common/labs.rs"]
mod labs;
mod limits;
mod merge;
mod merge_watched;
mod metrics_peers;
mod read;
mod samples;
mod schema;
mod schema_lab;
mod support;
mod watched;
#[path = "../common/watches.rs"]
mod watches;
