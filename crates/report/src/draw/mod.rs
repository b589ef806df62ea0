//! Shared drawing pieces: an SVG writer, scales, ticks, text and colours.
//!
//! Small on purpose: three log-scaled pictures need no plotting library, and
//! hand-placed labels read better than generated ones.

pub mod axis;
pub mod palette;
pub mod scale;
pub mod svg;
pub mod text;

pub use axis::Frame;
pub use scale::{Linear, Log, Tail};
pub use svg::Svg;
