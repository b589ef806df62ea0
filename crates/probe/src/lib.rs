//! The measuring half: probe threads, their wait sources, and the collector.
//!
//! Data flows one way: probe thread → ring → collector. The probe thread does
//! nothing but wait, read the clock and push; everything else happens in the
//! collector, at ordinary priority.

pub mod collector;
pub mod condvar;
pub mod cycle;
pub mod futex;
pub mod gaps;
pub mod kinds;
pub mod nanosleep;
pub mod nanosleep_relative;
pub mod rseq;
pub mod rung;
pub mod scripted;
pub mod source;
pub mod stops;
pub mod tally;
pub mod thread;
pub mod timeline;
pub mod timer_signal;
pub mod timerfd;
