//! The record of a run in progress: events are added to it, and it is saved every few seconds.

use std::time::Duration;

use punctual_rt::clock;

use super::error::ConductError;
use super::observer::{Observed, Observer};
use crate::system::monitor::Monitor;
use punctual_machine::survey::stolen;
use punctual_record::{
    Event, Happening, RecordError, Run, RunDirectory, Unsaved, UnsavedPart, UnsavedReason,
};

/// Saves a record before anything is measured.
///
/// # Errors
/// It cannot be saved.
pub(super) fn save(directory: &RunDirectory, run: &Run) -> Result<(), ConductError> {
    directory.save(run).map_err(ConductError::Record)
}

/// A record, and where it is saved.
pub(super) struct Keeping<'a> {
    /// The record so far.
    pub run: Run,
    /// Where it is saved.
    pub directory: &'a RunDirectory,
    /// The start of the measurement, CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Detects changes of the conditions.
    monitor: Monitor,
    /// Conditions change by themselves: settings are switched.
    pub switches_settings: bool,
    save_failed: bool,
}

impl<'a> Keeping<'a> {
    pub fn new(run: Run, directory: &'a RunDirectory, monitor: Monitor, start_ns: u64) -> Self {
        Self {
            run,
            directory,
            start_ns,
            monitor,
            switches_settings: false,
            save_failed: false,
        }
    }

    pub fn elapsed_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.start_ns)
    }

    /// The time until a run of that length should end.
    pub fn left(&self, duration_ns: Option<u64>) -> Duration {
        let end_ns = duration_ns.map(|length_ns| self.start_ns.saturating_add(length_ns));
        let left_ns = end_ns.map_or(u64::MAX, |end_ns| end_ns.saturating_sub(clock::now_ns()));
        Duration::from_nanos(left_ns)
    }

    /// Adds an event that a reader must know and that does not make the run invalid.
    pub fn event(&mut self, what: Happening) {
        let at_ns = self.elapsed_ns();
        self.run.events.push(Event::new(at_ns, what));
    }

    /// Adds the conditions that changed.
    pub fn check_conditions(&mut self) {
        if self.switches_settings {
            return;
        }
        let elapsed_ns = self.elapsed_ns();
        self.monitor.poll_into(elapsed_ns, &mut self.run.events);
    }

    /// Adds the final conditions.
    pub fn conclude_conditions(&mut self) {
        self.check_conditions();
        if let Some(stolen) = self.monitor.stolen() {
            let virtualisation = &mut self.run.system.virtualisation;
            virtualisation.stolen_ns = Some(stolen.total_ns);
            virtualisation.stolen_share = Some(stolen.share);
            virtualisation.stolen_grain_ns = Some(stolen::tick_ns());
        }
    }

    /// Adds where a real-time thread was throttled. Must be called every
    /// [`Keeping::throttling_check_interval`], while the probes are alive.
    pub fn check_throttling(&mut self) {
        let events = self.monitor.poll_throttling(self.elapsed_ns());
        self.run.events.extend(events);
    }

    /// How often [`Keeping::check_throttling`] must be called.
    pub fn throttling_check_interval(&self) -> Duration {
        self.monitor.throttling_check_interval()
    }

    /// Saves everything so far, the record first. A full disk does not end the run, but is noted in
    /// the record.
    pub fn save_under_way(
        &mut self,
        beside: impl FnOnce(&RunDirectory) -> Result<(), RecordError>,
        progress: &mut dyn Observer,
    ) {
        let saved = self.directory.save(&self.run);
        match saved.and_then(|()| beside(self.directory)) {
            Ok(()) => {
                self.save_failed = false;
                progress.observe(Observed::Saved(&self.run, self.directory));
            }
            Err(error) => {
                if !self.save_failed {
                    self.event(Happening::SaveFailed(Unsaved::from(&error)));
                }
                self.save_failed = true;
            }
        }
    }

    /// Saves it for the last time, and returns it. The record is saved first; files that can be made
    /// again from it are removed if it needs their space.
    pub fn save_last(
        mut self,
        beside: impl FnOnce(&RunDirectory) -> Result<(), RecordError>,
        progress: &mut dyn Observer,
    ) -> Run {
        let directory = self.directory;
        if let Err(error) = directory.save(&self.run)
            && error.is_full()
        {
            directory.release();
            progress.observe(Observed::MakeRoom(directory));
            self.save_what_fits();
        }
        directory.release();
        // This too.
        let _ = beside(directory);
        progress.observe(Observed::Saved(&self.run, directory));
        let unsaved = directory.unsaved();
        if !unsaved.is_empty() {
            unsaved
                .into_iter()
                .for_each(|unsaved| self.event(Happening::SaveFailed(unsaved)));
            // If the record was saved without a part, there is no room for the whole now either.
            directory.amend(&self.run);
        }
        self.run
    }

    /// The record if there is no room for all of it: the verdict, the histograms and the conditions
    /// are worth more than the explanations of single wake-ups. The directory keeps any error.
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
