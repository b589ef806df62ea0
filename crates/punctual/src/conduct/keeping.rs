//! The record of a run under way: what happens is noted in it, and it is saved every few seconds.

use std::time::Duration;

use punctual_rt::clock;

use super::error::ConductError;
use super::progress::Progress;
use crate::system::monitor::Monitor;
use crate::system::stolen;
use punctual_record::{
    Event, Happening, RecordError, Run, RunDirectory, Unsaved, UnsavedPart, UnsavedReason,
};

/// Saves a record of which nothing is measured yet.
///
/// # Errors
/// It can't be kept.
pub(super) fn save(directory: &RunDirectory, run: &Run) -> Result<(), ConductError> {
    directory
        .save(run)
        .map_err(|error| ConductError::Record(error.to_string()))
}

/// A record, and where it is kept.
pub(super) struct Keeping<'a> {
    /// As it stands.
    pub run: Run,
    /// Where it is kept.
    pub directory: &'a RunDirectory,
    /// From when time counts, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// What sees the conditions change.
    monitor: Monitor,
    save_failed: bool,
}

impl<'a> Keeping<'a> {
    pub fn new(run: Run, directory: &'a RunDirectory, monitor: Monitor, start_ns: u64) -> Self {
        Self {
            run,
            directory,
            start_ns,
            monitor,
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
    pub fn event(&mut self, what: Happening) {
        let at_ns = self.elapsed_ns();
        self.run.events.push(Event::new(at_ns, what));
    }

    /// Notes what changed of the conditions.
    pub fn look_at_conditions(&mut self) {
        let elapsed_ns = self.elapsed_ns();
        self.monitor.poll_into(elapsed_ns, &mut self.run.events);
    }

    /// What the conditions came to in the end.
    pub fn conclude_conditions(&mut self) {
        self.look_at_conditions();
        if let Some(stolen) = self.monitor.stolen() {
            let virtualisation = &mut self.run.system.virtualisation;
            virtualisation.stolen_ns = Some(stolen.total_ns);
            virtualisation.stolen_share = Some(stolen.share);
            virtualisation.stolen_grain_ns = Some(stolen::tick_ns());
        }
    }

    /// Notes where a real-time thread was throttled: to be called every
    /// [`Keeping::throttling_every`], and while the probes still live.
    pub fn look_at_throttling(&mut self) {
        let events = self.monitor.poll_throttling(self.elapsed_ns());
        self.run.events.extend(events);
    }

    /// How often somebody must look whether a thread was throttled.
    pub fn throttling_every(&self) -> Duration {
        self.monitor.throttling_every()
    }

    /// Saves what there is so far, the record first: a disk that is full for a while does not
    /// end the run, but stands in the record.
    pub fn save_under_way(
        &mut self,
        beside: impl FnOnce(&RunDirectory) -> Result<(), RecordError>,
        progress: &mut dyn Progress,
    ) {
        let saved = self.directory.save(&self.run);
        match saved.and_then(|()| beside(self.directory)) {
            Ok(()) => {
                self.save_failed = false;
                progress.saved(&self.run, self.directory);
            }
            Err(error) => {
                if !self.save_failed {
                    self.event(Happening::SaveFailed(Unsaved::from(&error)));
                }
                self.save_failed = true;
            }
        }
    }

    /// Saves it for the last time, and gives it away. The record comes first, and has the space
    /// of what can be drawn from it again.
    pub fn save_last(
        mut self,
        beside: impl FnOnce(&RunDirectory) -> Result<(), RecordError>,
        progress: &mut dyn Progress,
    ) -> Run {
        let directory = self.directory;
        if let Err(error) = directory.save(&self.run)
            && error.is_full()
        {
            directory.release();
            progress.make_room(directory);
            self.save_what_fits();
        }
        directory.release();
        // This too.
        let _ = beside(directory);
        progress.saved(&self.run, directory);
        let unsaved = directory.unsaved();
        if !unsaved.is_empty() {
            unsaved
                .into_iter()
                .for_each(|unsaved| self.event(Happening::SaveFailed(unsaved)));
            // Of a record that lacks a part, all of it has no room now either.
            directory.amend(&self.run);
        }
        self.run
    }

    /// The record where there is no room for all of it: the verdict, the histograms and the
    /// conditions are worth more than what explains single wake-ups. What comes of it is noted
    /// in the directory.
    fn save_what_fits(&self) {
        if self.directory.save(&self.run).is_ok() || self.run.explanation.is_none() {
            return;
        }
        let mut run = self.run.clone();
        run.explanation = None;
        if self.directory.save(&run).is_ok() {
            self.directory
                .note_unsaved(UnsavedPart::Explanation, UnsavedReason::NoSpace);
        }
    }
}
