//! Who stole the time, for people: bills, stages and rankings as text, what can be done
//! about each cause, two runs by cause, and traces for Perfetto.

mod accused;
mod against;
mod amounts;
mod bound;
mod brief;
mod fix;
mod groups;
mod interrupts;
mod intervals;
pub(crate) mod names;
mod outliers;
mod own_load;
pub mod perfetto;
mod places;
mod text;
pub(crate) mod waits;

pub use against::{Change, Difference, against, against_text};
pub(super) use amounts::amounts;
pub use brief::{Extent, brief, needed};
pub(super) use brief::{part_of, parts_ns};
pub use fix::fix;
pub(super) use fix::undo_of;
pub use intervals::{Interval, around, intervals};
pub use names::name;
pub use outliers::{Listed, outliers};
pub use perfetto::lane_name;
pub use text::{bill_section, bill_text, section};
pub(super) use text::{counts, culprit, known_fixes, not_seen, ranked, stage_figures};
pub(super) use waits::{ShownWait, waits};
