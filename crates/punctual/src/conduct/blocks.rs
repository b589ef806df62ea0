//! Splits a measurement into blocks of time, by comparing the figures now with the figures before:
//! the collector keeps nothing more for it.

use punctual_stats::histogram::Histogram;

use crate::probe::collector::{Collector, Lane};
use crate::probe::tally::Tally;
use punctual_record::{Blocking, Blocks};

/// Length of a block at the start of a run.
const FIRST_NS: u64 = 250_000_000;

/// The blocks of a run under way.
pub struct Stretches {
    blocking: Blocking,
    seen: Histogram,
    /// Of each thread, if they are kept separately.
    seen_by_thread: Vec<Histogram>,
    /// When the current block ends, counted from the start of the run.
    until_ns: u64,
}

impl Stretches {
    pub fn new() -> Self {
        Self {
            blocking: Blocking::new(FIRST_NS),
            seen: Histogram::new(),
            seen_by_thread: Vec::new(),
            until_ns: FIRST_NS,
        }
    }

    /// Ends the current block if it is time. Blocks end when this is called, so their lengths are
    /// equal to a few ms.
    pub fn look(&mut self, collector: &Collector, elapsed_ns: u64) {
        self.look_at_lanes(&collector.lanes, elapsed_ns);
    }

    /// The same for some of the lanes.
    pub fn look_at_lanes(&mut self, lanes: &[Lane], elapsed_ns: u64) {
        if elapsed_ns < self.until_ns {
            return;
        }
        if lanes.len() > Blocks::MOST_THREADS {
            self.look_at(lanes.iter().map(|lane| &lane.tally), elapsed_ns);
            return;
        }
        let of = |tally: &Tally| Histogram::merged(tally.parts());
        let threads: Vec<Histogram> = lanes.iter().map(|lane| of(&lane.tally)).collect();
        let seen = &mut self.seen_by_thread;
        seen.resize_with(threads.len(), Histogram::new);
        let added = |(now, seen): (&Histogram, &Histogram)| now.without(seen);
        let new: Vec<Histogram> = threads.iter().zip(&*seen).map(added).collect();
        *seen = threads;
        self.end(&Histogram::merged(&new), &new, elapsed_ns);
    }

    /// The same for tallies without a collector.
    pub fn look_at<'t>(&mut self, tallies: impl Iterator<Item = &'t Tally>, elapsed_ns: u64) {
        self.look_with(
            || Histogram::merged(tallies.flat_map(Tally::parts)),
            elapsed_ns,
        );
    }

    /// The same for a histogram of everything so far.
    pub fn look_with(&mut self, now: impl FnOnce() -> Histogram, elapsed_ns: u64) {
        if elapsed_ns < self.until_ns {
            return;
        }
        let now = now();
        let new = now.without(&self.seen);
        self.seen = now;
        self.end(&new, &[], elapsed_ns);
    }

    fn end(&mut self, new: &Histogram, threads: &[Histogram], elapsed_ns: u64) {
        let width_ns = self.blocking.width_ns();
        self.blocking.add_with(new, threads, width_ns / FIRST_NS);
        let width_ns = self.blocking.width_ns();
        self.until_ns = (elapsed_ns / width_ns + 1) * width_ns;
    }

    pub fn blocks(&self) -> Option<Blocks> {
        self.blocking.blocks()
    }
}
