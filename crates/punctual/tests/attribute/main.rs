//! From events to bills: windows with a known answer, and what must hold of any window.

mod build;
mod causes;
mod platform;
mod properties;
mod stages;
