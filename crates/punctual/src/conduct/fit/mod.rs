//! Find, change, prove, keep.

mod course;

pub use course::{FitCourse, FitLengths, FitNext};
