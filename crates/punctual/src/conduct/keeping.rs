//! The record of a run under way: what happens is noted in it, and it is saved every few seconds.

use std::time::Duration;

use punctual_rt::clock;

use super::observer::Observer;
use crate::record::{Event, RecordError, Run, RunDirectory};

/// A record, and where it is kept.
pub(super) struct Keeping<'a> {
    /// As it stands.
    pub run: Run,
    /// Where it is kept.
    pub directory: &'a RunDirectory,
    /// From when time counts, CLOCK_MONOTONIC.
    pub start_ns: u64,
    save_failed: bool,
}

impl<'a> Keeping<'a> {
    pub fn new(run: Run, directory: &'a RunDirectory, start_ns: u64) -> Self {
        Self {
            run,
            directory,
            start_ns,
            save_failed: false,
        }
    }

    pub fn elapsed_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.start_ns)
    }

    /// Time until a run of that length should be over.
    pub fn left(&self, duration_ns: Option<u64>) -> Duration {
        let end_ns = duration_ns.map(|length_ns| self.start_ns.saturating_add(length_ns));
        let left_ns = end_ns.map_or(u64::MAX, |end_ns| end_ns.saturating_sub(clock::now_ns()));
        Duration::from_nanos(left_ns)
    }

    /// Notes what a reader must know, and what does not invalidate the run by itself.
    pub fn event(&mut self, kind: &str, text: String) {
        let at_ns = self.elapsed_ns();
        self.run.events.push(Event {
            at_ns,
            kind: kind.to_owned(),
            text,
            invalidates: false,
        });
    }

    /// Saves what there is so far, once `beside` is: a disk that is full for a while does not
    /// end the run, but stands in the record.
    pub fn save_under_way(&mut self, beside: Result<(), RecordError>, observer: &mut dyn Observer) {
        match self.save(beside) {
            Ok(()) => {
                self.save_failed = false;
                observer.saved(&self.run, self.directory);
            }
            Err(error) => {
                if !self.save_failed {
                    self.event("save-failed", error.to_string());
                }
                self.save_failed = true;
            }
        }
    }

    /// Saves it for the last time, and gives it away.
    pub fn save_last(
        mut self,
        beside: Result<(), RecordError>,
        observer: &mut dyn Observer,
    ) -> Run {
        if let Err(error) = self.save(beside) {
            self.event("save-failed", error.to_string());
        }
        observer.saved(&self.run, self.directory);
        self.run
    }

    /// Both are tried, and the first that failed is told.
    fn save(&self, beside: Result<(), RecordError>) -> Result<(), RecordError> {
        let saved = self.directory.save(&self.run);
        beside.and(saved)
    }
}
