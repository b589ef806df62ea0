//! Where a run, while it goes, says how it stands.

use punctual_record::live::{LiveView, LiveWatch};
use punctual_record::{Run, RunDirectory};
use punctual_trace::attribute::event::Window;

/// Told of a run while it goes.
pub trait Progress {
    /// Whether the next [`Progress::tick`] would be looked at: to make one takes more
    /// than all else that is done between two of them.
    fn looks(&self) -> bool {
        true
    }
    /// How the run stands, several times a second.
    fn tick(&mut self, view: &LiveView);
    /// The same of a watch.
    fn watched(&mut self, view: &LiveWatch) {
        let _ = view;
    }
    /// What was just saved: every 5 s, and once at the end.
    fn saved(&mut self, run: &Run, directory: &RunDirectory);
    /// Everything that was still recorded when a wake-up above the break value ended the run.
    fn breached(&mut self, ring: &Window, run: &Run, directory: &RunDirectory) {
        let _ = (ring, run, directory);
    }
    /// The disk is full, and the record wants room: what can be made again is removed.
    fn make_room(&mut self, directory: &RunDirectory) {
        let _ = directory;
    }
    /// What is being done before and after the measurement, in a few words.
    fn stage(&mut self, words: &str);
}
