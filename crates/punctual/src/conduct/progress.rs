//! Where a run reports its progress.

use punctual_machine::tune::TuneError;
use punctual_record::experiment::Experiment;
use punctual_record::live::{LiveTasks, LiveView, LiveWatch, Step};
use punctual_record::tuning::Change;
use punctual_record::{Run, RunDirectory, Unsaved};
use punctual_trace::attribute::event::Window;

/// Receives the progress of a run.
pub trait Progress {
    /// Whether the next [`Progress::tick`] is shown: making a view costs more than all other work
    /// between two of them.
    fn looks(&self) -> bool {
        true
    }
    /// The state of the run, several times a second.
    fn tick(&mut self, view: &LiveView);
    /// The state of a watch, several times a second.
    fn watched(&mut self, view: &LiveWatch) {
        let _ = view;
    }
    /// The state of a set of tasks, several times a second.
    fn tasks(&mut self, view: &LiveTasks) {
        let _ = view;
    }
    /// The run is an experiment: its knobs are switched.
    fn experiment(&mut self, experiment: &Experiment) {
        let _ = experiment;
    }
    /// The record was saved: every 5 s, and once at the end.
    fn saved(&mut self, run: &Run, directory: &RunDirectory);
    /// The record has new figures, every 5 s and at the end, and may be written in other forms; what
    /// could not be written is an event of the run.
    fn publish(&mut self, run: &Run) -> Option<Unsaved> {
        let _ = run;
        None
    }
    /// The content of the recorder when a latency above the break value ended the run.
    fn breached(&mut self, ring: &Window, run: &Run, directory: &RunDirectory) {
        let _ = (ring, run, directory);
    }
    /// The disk is full, and the record needs room: remove what can be made again.
    fn make_room(&mut self, directory: &RunDirectory) {
        let _ = directory;
    }
    /// A setting is left as it is: the kernel refuses the change.
    fn not_changed(&mut self, change: &Change, error: &TuneError);
    /// Settings that were changed for the run could not all be restored.
    fn not_restored(&mut self, error: &TuneError);
    /// The current step before or after the measurement.
    fn step(&mut self, step: &Step);
}
