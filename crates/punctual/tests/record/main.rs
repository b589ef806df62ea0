//! Records and foreign formats: written, read, merged, compared, damaged.

mod directory;
mod formats_compare;
mod formats_peers;
mod formats_read;
mod formats_write;
mod fuzz;
mod merge;
mod read;
mod samples;
mod schema;
mod support;
