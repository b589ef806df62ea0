//! Many machines: runs that are brought together, and what a dataset of runs says.
//!
//! The answers of the dataset's queries come in ([`punctual_record::fleet::Answers`]); text and a page go
//! out.

mod heat;
mod kinds;
mod page;
mod ridges;
pub mod runs;
mod terminal;

pub use page::{PageFacts, page};
pub use terminal::summary;
