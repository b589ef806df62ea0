//! The words for what a record holds as data: conditions, events, ends.
//!
//! Nothing reads them back: a record, and what follows from it, is the same whatever they are.

mod condition;
mod difference;
mod drawn;
mod event;
mod fault;
mod fix;
mod killed;
mod named;
mod not_seen;
mod note;
mod requirement;
mod stage;
mod unavailable;

pub use condition::{fix_of, found, requested, scheduling};
pub use difference::{aspect, difference, differences, merge_error, value};
pub use drawn::{mark_label, span_label};
pub use event::{ending, event, stop_cause};
pub use fault::{failed_thread, load_failure, missing_samples, thread_fault, unread, unsaved};
pub use fix::fix;
pub use killed::killed;
pub use named::{call, hypervisor, source};
pub(crate) use not_seen::NEEDS_CPU;
pub use not_seen::{no_kernel_names, not_seen};
pub use note::notes;
pub use requirement::{length_limit, requirement};
pub use stage::stage;
pub use unavailable::unavailable;
