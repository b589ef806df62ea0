//! The words of findings: what each is about, why it matters, and what it found.

mod document;
mod fix;
mod junit;
mod page;
mod sentence;
mod terminal;
mod text;

pub use document::document;
pub(crate) use fix::{chrt, quoted, taskset, write};
pub use fix::{command, undo};
pub use junit::junit;
pub use page::page;
pub use sentence::sentence;
pub use terminal::{differences, explain, summary};
pub use text::{FindingText, group_title, text};

use punctual_record::finding::StateKind;

/// The word for a state.
#[must_use]
pub fn state_word(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Bad => "bad",
        StateKind::Unknown => "unknown",
        StateKind::Information => "information",
        StateKind::Ok => "ok",
        StateKind::NotApplicable => "not applicable",
    }
}
