//! Pure: a record goes in, text comes out.

pub mod compare;
pub mod formats;
