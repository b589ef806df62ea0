//! The pitfalls of measuring latency that other tools have, one by one:
//!
//! 1. a stall that hides, or counts as a thousand samples;
//! 2. a histogram that overflows;
//! 3. a tripped limit, or a thread that never ran, that reads as a pass;
//! 4. a maximum without its sample size;
//! 5. a tool that tunes the machine it measures, and doesn't say so;
//! 6. no priority by default, threads staggered and each below the other;
//! 7. no load, or only one kind of load;
//! 8. populations mixed, percentiles averaged;
//! 9. the tool's own threads on the measured CPU, siblings and throttling unsaid;
//! 10. windows that are never complete, and the unstated cost of the observer.

mod conditions;
mod figures;

use crate::common::{Ended, Place};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn measure(place: &Place, flags: &[&str]) -> Ended {
    place.run(&[&["measure"], flags].concat())
}
