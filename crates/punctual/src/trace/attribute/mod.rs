//! From events to causes. Pure: a window of events in, a bill out.

pub mod event;
