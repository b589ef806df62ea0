//! Latency statistics that say how far they can be trusted.
//!
//! Pure: no I/O, no clock, no `unsafe`. Every time is in nanoseconds.
#![forbid(unsafe_code)]
