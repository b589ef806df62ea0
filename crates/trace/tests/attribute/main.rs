//! From events to bills: windows with a known answer, and what must hold of any window.

mod build;
mod causes;
mod data;
mod gaps;
mod groups;
mod host;
mod hostile;
mod jobs;
mod messages;
mod origins;
mod places;
mod platform;
mod properties;
mod receptions;
mod recorded;
mod recordings;
mod senders;
mod stages;
mod stops;
mod threads;
mod waits;
