//! Changes a machine's settings and restores them, whatever happens in between.
//!
//! The original of every setting is on disk before anything changes ([`Journal`]); there is no
//! daemon, and nothing is restored behind anybody's back. A restore writes back only what is still
//! ours: what others changed since is reported.

mod apply;
pub mod boot;
mod boot_error;
mod boot_file;
mod error;
mod journal;
mod napi;
mod neighbours;
mod network;
mod ordinary;
mod partition;
mod persist;
mod restore;
mod routes;
mod session;
mod setting;
mod states;

pub use apply::{Made, apply, apply_accepted, apply_together, changes_of};
pub use boot_error::BootError;
pub use error::TuneError;
pub use journal::Journal;
pub use napi::napi_change;
pub use neighbours::neighbour_change;
pub use ordinary::time_of_ordinary_threads;
pub use partition::partition_changes;
pub use persist::{InForce, LeftOut, in_force, persist};
pub use restore::{RestoreRequest, is_of, restore, status};
pub(crate) use routes::device_to;
pub use routes::{device_to_address, route_change};
pub use session::Session;
pub use setting::{
    check_writable, find_thread, is_gone, is_same, read, setting_of_file, setting_of_named_file,
    write,
};
