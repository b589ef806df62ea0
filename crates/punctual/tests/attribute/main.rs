//! From events to bills: windows with a known answer, and what must hold of any window.

mod build;
mod causes;
mod data;
mod gaps;
mod hostile;
mod platform;
mod properties;
mod recorded;
mod stages;
mod stops;
mod threads;
