//! An experiment that accompanies a run: switches settings slot by slot, and says what each slot
//! measured.

mod course;
mod grid;
mod switcher;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual_machine::tune::Session;
use punctual_record::Run;
use punctual_record::experiment::{Experiment, ExperimentOutcome, LeftOut};
use punctual_record::explanation::Bill;

use self::course::Course;
pub(super) use self::course::least_ns;
pub use self::course::{Design, pilot_slots};
use self::grid::{Grid, Samples};
use self::switcher::{Shared, Switcher, fill, limit_of_pilot};
use super::housekeeper::Housekeeper;
use super::run::{BillSink, Companion};
use crate::probe::collector::SampleSink;
use crate::probe::cycle::Sample;

/// A block is whole if at most this much of its end was not measured, in ns.
const TOLERANCE_NS: u64 = 10_000_000;

/// What measures may have to begin anew with each block.
pub trait Around: Send {
    /// Settings are about to be switched.
    ///
    /// # Errors
    /// The measurement can't go on: why not.
    fn before(&mut self) -> Result<(), String>;

    /// Settings were switched; the block begins and ends at these instants.
    ///
    /// # Errors
    /// The measurement can't go on: why not.
    fn after(&mut self, from_ns: u64, to_ns: u64) -> Result<(), String>;
}

/// An experiment with a session that holds its settings.
pub struct Experimenting {
    shared: Arc<Shared>,
    /// What the switching thread begins with.
    waiting: Option<(Course, Session, Vec<Vec<usize>>)>,
    around: Option<Box<dyn Around>>,
    thread: Option<Housekeeper>,
}

impl Experimenting {
    /// Prepares an experiment with wake-ups at this interval. `changes` has the changes of each knob
    /// by their place in the session's plan.
    #[must_use]
    pub fn new(
        experiment: Experiment,
        design: Design,
        session: Session,
        changes: Vec<Vec<usize>>,
        interval_ns: u64,
    ) -> Self {
        Self::made(
            experiment,
            design,
            session,
            changes,
            Samples::WakeUps { interval_ns },
        )
    }

    /// The same of messages to another machine, of which some have no reply.
    #[must_use]
    pub fn of_messages(
        experiment: Experiment,
        design: Design,
        session: Session,
        changes: Vec<Vec<usize>>,
    ) -> Self {
        Self::made(experiment, design, session, changes, Samples::Messages)
    }

    fn made(
        experiment: Experiment,
        design: Design,
        session: Session,
        changes: Vec<Vec<usize>>,
        samples: Samples,
    ) -> Self {
        let course = Course::new(design, &experiment);
        let grid = Grid::new(experiment.slot_ns(), experiment.settle_ns, samples);
        let shared = Arc::new(Shared {
            experiment: Mutex::new(experiment),
            grid,
            is_over: AtomicBool::new(false),
        });
        Self {
            shared,
            waiting: Some((course, session, changes)),
            around: None,
            thread: None,
        }
    }

    /// The time after each switch that is not measured.
    #[must_use]
    pub fn settle_ns(&self) -> u64 {
        self.shared.experiment().settle_ns
    }

    /// Sets what begins anew with each block. To be called before it begins.
    pub fn begin_anew(&mut self, around: Box<dyn Around>) {
        self.around = Some(around);
    }
}

struct GridSink(Arc<Shared>);

impl SampleSink for GridSink {
    fn take(&mut self, _cpu: usize, _tid: i32, samples: &[Sample]) {
        self.0.grid.add(samples);
    }
}

impl Companion for Experimenting {
    fn samples(&self) -> Box<dyn SampleSink> {
        Box::new(GridSink(Arc::clone(&self.shared)))
    }

    fn bills(&self) -> BillSink {
        let shared = Arc::clone(&self.shared);
        Box::new(move |bill: &Bill| shared.grid.add_bill(bill))
    }

    fn begin(&mut self, start_ns: u64, housekeeping: Option<usize>) {
        let Some((course, session, changes)) = self.waiting.take() else {
            return;
        };
        self.shared.grid.begin(start_ns);
        let shared = Arc::clone(&self.shared);
        let mut switcher = Switcher::new(shared, course, session, changes, start_ns);
        if let Some(around) = self.around.take() {
            switcher.begin_anew(around);
        }
        let round = move |last| switcher.round(last);
        match Housekeeper::begin("experiment", 512 << 10, housekeeping, round) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                self.shared.experiment().outcome = ExperimentOutcome::Failed {
                    error: error.to_string(),
                };
                self.shared.is_over.store(true, Ordering::Release);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    fn end(&mut self) {
        if let Some(mut thread) = self.thread.take() {
            thread.end();
        }
        // Of a run that ended before it began: the session restores when it is dropped.
        self.waiting = None;
        self.around = None;
    }

    fn put_into(&self, run: &mut Run) {
        let mut experiment = self.shared.experiment();
        let slot_ns = experiment.slot_ns();
        // Until then the switching thread fills each block when the second after it begins.
        if self.thread.is_none() {
            if experiment.limit.is_none() {
                experiment.limit = Some(limit_of_pilot(&experiment, &self.shared.grid));
            }
            fill(&mut experiment, &self.shared.grid, u64::MAX);
            // Messages end an interval before their block: what is complete has all of them.
            let is_whole = experiment.outcome == ExperimentOutcome::Complete
                && self.shared.grid.is_of_messages();
            for block in &mut experiment.blocks {
                let end_ns = block.at_ns + slot_ns;
                if !is_whole && end_ns > run.measured_ns.saturating_add(TOLERANCE_NS) {
                    block.left_out = Some(LeftOut::CutShort);
                }
            }
        }
        leave_out_stopped(&mut experiment, run);
        // Judging all pairs takes long: until the end the record has the blocks alone, which say
        // the same to a reader of the record of a run that was killed.
        if self.thread.is_none() {
            experiment.judge();
        }
        run.experiment = Some(experiment.clone());
    }
}

/// Leaves blocks out in which the measuring process was stopped.
fn leave_out_stopped(experiment: &mut Experiment, run: &Run) {
    let stops = run.stops.iter().flat_map(|stops| &stops.list);
    let mut stops: Vec<(u64, u64)> = stops
        .map(|stop| (stop.at_ns, stop.at_ns + stop.length_ns))
        .collect();
    // Of more than are listed nobody knows when they were.
    let listed = stops.len() as u64;
    if let Some(last) = stops.last_mut()
        && run.stops.as_ref().is_some_and(|it| it.count > listed)
    {
        last.1 = u64::MAX;
    }
    let slot_ns = experiment.slot_ns();
    for block in &mut experiment.blocks {
        let (from, to) = (block.at_ns, block.at_ns + slot_ns);
        if stops.iter().any(|stop| stop.0 < to && from < stop.1) {
            block.left_out = Some(LeftOut::ProcessStopped);
        }
    }
}

#[cfg(test)]
#[path = "kills_tests.rs"]
mod kills;
