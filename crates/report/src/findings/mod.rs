//! The words of findings: what each is about, why it matters, and what it found.

mod document;
mod evidence;
mod fix;
mod item;
mod junit;
pub(crate) mod of_run;
mod page;
mod sentence;
mod terminal;
mod text;

pub use document::document;
pub(crate) use fix::{chrt, quoted, taskset, write};
pub use fix::{command, undo};
pub use junit::junit;
pub use page::page;
pub(crate) use page::table;
pub use sentence::sentence;
pub(crate) use terminal::push_toned;
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

/// What a state means for the findings that have it.
fn state_meaning(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Bad => "What should be changed",
        StateKind::Unknown => "What could not be found out, and why",
        StateKind::Information => "What is good or bad depending on what is not known here",
        StateKind::Ok => "What was read, and fits",
        StateKind::NotApplicable => {
            "What has no meaning on this kernel, this hardware or for this request"
        }
    }
}
