//! Who is told what happens while something is measured.

use std::time::Duration;

use punctual_lab::CellResult;
use punctual_machine::tune::TuneError;
use punctual_record::experiment::Experiment;
use punctual_record::fit::{Fit, FitStep};
use punctual_record::lab::NoResult;
use punctual_record::ladder::{Ladder, Rung};
use punctual_record::live::{LiveTasks, LiveView, LiveWatch, Step};
use punctual_record::tuning::Change;
use punctual_record::{Run, RunDirectory, Unsaved};
use punctual_trace::attribute::event::Window;

use super::fit::FitNext;
use super::fleet::{Counts, FleetRun, NoRun, SlurmError};
use super::lab::{Cell, Forecast};

/// What happens.
#[derive(Clone, Copy)]
pub enum Observed<'a> {
    /// The current step before or after the measurement.
    Step(&'a Step),
    /// The state of the run, several times a second.
    Tick(&'a LiveView),
    /// The state of a watch, several times a second.
    Watched(&'a LiveWatch),
    /// The state of a set of tasks, several times a second.
    Tasks(&'a LiveTasks),
    /// The run is an experiment: its knobs are switched.
    Experiment(&'a Experiment),
    /// The record was saved: every 5 s, and once at the end.
    Saved(&'a Run, &'a RunDirectory),
    /// The content of the recorder when a latency above the break value ended the run.
    Breached(&'a Window, &'a Run, &'a RunDirectory),
    /// The disk is full, and the record needs room: remove what can be made again.
    MakeRoom(&'a RunDirectory),
    /// A setting is left as it is: the kernel refuses the change.
    NotChanged(&'a Change, &'a TuneError),
    /// Settings that were changed for the run could not all be restored.
    NotRestored(&'a TuneError),
    /// Of a fit: a step begins, which is a run.
    FitBegins(&'a FitNext),
    /// A step has ended.
    FitDone(&'a FitStep),
    /// The fit was saved: its page can be made.
    FitSaved(&'a Fit, &'a RunDirectory),
    /// Of a ladder: a block begins, after this many of all.
    Block(&'a Ladder, Rung, usize, usize),
    /// The ladder was saved: its page can be made.
    LadderSaved(&'a Ladder, &'a RunDirectory),
    /// Of a cost: a run has ended, the how manieth of all, and what is known of the time that the rest takes.
    Ran(u64, u64, Option<Duration>),
    /// Of a lab: its progress, each second, and whenever a cell starts or is done.
    Cells(&'a Forecast),
    /// A cell is done and saved.
    CellDone(&'a Cell<'a>, &'a Result<CellResult, NoResult>, &'a Forecast),
    /// Of a fleet: the job was submitted, with so many runs.
    Submitted(u64, usize),
    /// A run is there.
    RunDone(&'a FleetRun, &'a Counts),
    /// Nothing new.
    Runs(&'a Counts),
    /// The controller had forgotten that so many runs were released: they are released again.
    Released(usize),
    /// The controller does not answer, with what `squeue` says.
    ControllerSilent(&'a str),
    /// A run died, and is started again: its node, and the repetition.
    Restarted(&'a str, u32, NoRun),
    /// The job was cancelled, or could not be.
    Cancelled(u64, Result<(), &'a SlurmError>),
}

/// Is told what happens: shows it, writes it beside the record, or checks it.
pub trait Observer {
    /// Whether the next [`Observed::Tick`] is shown: making a view costs more than all other work between two of
    /// them.
    fn looks(&self) -> bool {
        true
    }

    /// Something happens.
    fn observe(&mut self, event: Observed<'_>);

    /// The record has new figures, every 5 s and at the end, and may be written in other forms; what
    /// could not be written is an event of the run.
    fn publish(&mut self, run: &Run) -> Option<Unsaved> {
        let _ = run;
        None
    }
}
