//! The thread that switches knobs at the slots' beginnings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_machine::tune::{Session, TuneError};
use punctual_record::experiment::{
    ExcessLimit, Experiment, ExperimentBlock, ExperimentOutcome, LeftOut, Phase,
};
use punctual_rt::clock;
use punctual_stats::Histogram;

use super::Around;
use super::course::{Course, Slot, Step};
use super::grid::Grid;

/// How long it sleeps at most before it looks whether it must end.
const NAP: Duration = Duration::from_millis(100);

/// The quantile of the pilot above which latencies are an excess, without a deadline.
const EXCESS_FROM: f64 = 0.99;

/// What the switching thread and the run share.
#[derive(Debug)]
pub struct Shared {
    /// The experiment so far.
    pub experiment: Mutex<Experiment>,
    /// The samples by slot.
    pub grid: Grid,
    /// Nothing is left to be done.
    pub is_over: AtomicBool,
}

impl Shared {
    /// Locks the experiment.
    pub fn experiment(&self) -> MutexGuard<'_, Experiment> {
        self.experiment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Switches knobs.
pub struct Switcher {
    shared: Arc<Shared>,
    course: Course,
    /// Absent after its end.
    session: Option<Session>,
    /// What begins anew with each block.
    around: Option<Box<dyn Around>>,
    /// The changes of each knob, by their place in the session's plan.
    changes: Vec<Vec<usize>>,
    /// The knobs that are on.
    on: Vec<usize>,
    start_ns: u64,
    /// Slots begun.
    begun: u64,
}

impl Switcher {
    /// Begins with the slot at `start_ns`.
    #[must_use]
    pub fn new(
        shared: Arc<Shared>,
        course: Course,
        session: Session,
        changes: Vec<Vec<usize>>,
        start_ns: u64,
    ) -> Self {
        Self {
            shared,
            course,
            session: Some(session),
            around: None,
            changes,
            on: Vec::new(),
            start_ns,
            begun: 0,
        }
    }

    /// Sets what begins anew with each block.
    pub fn begin_anew(&mut self, around: Box<dyn Around>) {
        self.around = Some(around);
    }

    /// Sleeps until the next slot or for a while, and switches if it has come. The last round
    /// restores everything.
    pub fn round(&mut self, last: bool) {
        if last || self.shared.is_over.load(Ordering::Acquire) {
            self.end(ExperimentOutcome::Stopped);
            if !last {
                std::thread::sleep(NAP);
            }
            return;
        }
        let slot_ns = self.shared.experiment().slot_ns();
        let due_ns = self.start_ns + self.begun * slot_ns;
        let now_ns = clock::now_ns();
        if now_ns < due_ns {
            std::thread::sleep(NAP.min(Duration::from_nanos(due_ns - now_ns)));
            return;
        }
        // A slot that passed while this thread had no CPU was measured with the knobs as they were.
        let passed = (now_ns - due_ns) / slot_ns;
        self.begun += passed;
        self.begin_slot(self.start_ns + self.begun * slot_ns);
        self.begun += 1;
    }

    fn begin_slot(&mut self, due_ns: u64) {
        let step = {
            let mut experiment = self.shared.experiment();
            if self.course.has_ended_pilot() && experiment.limit.is_none() {
                experiment.limit = Some(limit_of_pilot(&experiment, &self.shared.grid));
            }
            // The slot before the last is complete.
            fill(
                &mut experiment,
                &self.shared.grid,
                self.begun.saturating_sub(1),
            );
            self.course.next(&mut experiment, self.begun as usize)
        };
        match step {
            Step::Over(outcome) => self.end(outcome),
            Step::Slot(slot) => {
                if let Err(outcome) = self.switch_over(&slot.on, due_ns) {
                    self.end(outcome);
                    return;
                }
                let ended_ns = clock::now_ns();
                let mut experiment = self.shared.experiment();
                let block = begun(slot, self.begun, due_ns, ended_ns, &experiment);
                experiment.blocks.push(block);
            }
        }
    }

    /// Switches between the end of what the block before measured and the beginning of the next.
    fn switch_over(&mut self, on: &[usize], due_ns: u64) -> Result<(), ExperimentOutcome> {
        let failed = |error| ExperimentOutcome::Failed { error };
        if let Some(around) = &mut self.around {
            around.before().map_err(failed)?;
        }
        self.switch(on).map_err(outcome_of)?;
        if let Some(around) = &mut self.around {
            let experiment = self.shared.experiment();
            let (settle_ns, slot_ns) = (experiment.settle_ns, experiment.slot_ns());
            drop(experiment);
            let after = around.after(due_ns + settle_ns, due_ns + slot_ns);
            after.map_err(failed)?;
        }
        Ok(())
    }

    /// Makes exactly these knobs be on.
    fn switch(&mut self, on: &[usize]) -> Result<(), TuneError> {
        // With others on, as in a screening, the control would undo the knob whose settings it
        // shares: it writes nothing then.
        let control = self.changes.len().saturating_sub(1);
        let alone: Vec<usize>;
        let on = if on.len() > 1 {
            alone = on.iter().copied().filter(|it| *it != control).collect();
            &alone
        } else {
            on
        };
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let changes = &self.changes;
        let of = |knobs: Vec<usize>| -> Vec<usize> {
            knobs
                .iter()
                .flat_map(|knob| changes[*knob].clone())
                .collect()
        };
        let leaving: Vec<usize> = self
            .on
            .iter()
            .copied()
            .filter(|it| !on.contains(it))
            .collect();
        let coming: Vec<usize> = on
            .iter()
            .copied()
            .filter(|it| !self.on.contains(it))
            .collect();
        session.switch(of(leaving), false)?;
        session.switch(of(coming), true)?;
        on.clone_into(&mut self.on);
        Ok(())
    }

    /// Restores everything, once.
    fn end(&mut self, outcome: ExperimentOutcome) {
        let Some(session) = self.session.take() else {
            return;
        };
        // What is outstanding of the last block comes before the settings change.
        let measured = match self.around.take() {
            Some(mut around) => around.before(),
            None => Ok(()),
        };
        let outcome = match (measured, outcome) {
            (Err(error), ExperimentOutcome::Complete) => ExperimentOutcome::Failed { error },
            (_, outcome) => outcome,
        };
        let restored = session.end();
        let mut experiment = self.shared.experiment();
        experiment.outcome = match restored {
            Ok(()) => outcome,
            Err(error) => outcome_of(error),
        };
        self.shared.is_over.store(true, Ordering::Release);
    }
}

/// Puts the figures of all slots before `before` into their blocks, as soon as there is a limit.
pub fn fill(experiment: &mut Experiment, grid: &Grid, before: u64) {
    let Some(ExcessLimit { ns: limit_ns, .. }) = experiment.limit else {
        return;
    };
    let slot_ns = experiment.slot_ns();
    for block in &mut experiment.blocks {
        let slot = block.at_ns / slot_ns;
        if slot >= before {
            continue;
        }
        // A bill may come a little later than its sample.
        block.costs = grid.costs(slot);
        if block.figures.is_none() {
            let figures = grid.figures(slot, limit_ns);
            // Messages that were all lost are late.
            let all = figures.late_of_all().map_or(figures.count, |(_, all)| all);
            if all == 0 && block.left_out.is_none() {
                block.left_out = Some(LeftOut::NoWakeUps);
            }
            block.figures = Some(figures);
        }
    }
}

/// The limit of the excess without a deadline: a quantile of the pilot.
pub fn limit_of_pilot(experiment: &Experiment, grid: &Grid) -> ExcessLimit {
    let slot_ns = experiment.slot_ns();
    let pilot = experiment.blocks.iter();
    let pilot = pilot.filter(|block| block.phase == Phase::Pilot);
    let latencies: Vec<Histogram> = pilot
        .map(|block| grid.latencies(block.at_ns / slot_ns))
        .collect();
    let latencies = Histogram::merged(&latencies);
    ExcessLimit {
        ns: latencies.quantile(EXCESS_FROM).unwrap_or(0),
        is_deadline: false,
    }
}

fn begun(
    slot: Slot,
    index: u64,
    due_ns: u64,
    ended_ns: u64,
    experiment: &Experiment,
) -> ExperimentBlock {
    let switching_ns = ended_ns.saturating_sub(due_ns);
    let is_slow = switching_ns > experiment.settle_ns;
    ExperimentBlock {
        at_ns: index * experiment.slot_ns(),
        phase: slot.phase,
        on: slot.on,
        pair: slot.pair,
        knob: slot.knob,
        switching_ns,
        figures: None,
        left_out: is_slow.then_some(LeftOut::SlowSwitching),
        costs: Vec::new(),
    }
}

fn outcome_of(error: TuneError) -> ExperimentOutcome {
    match error {
        TuneError::Conflict { setting, now, .. } => ExperimentOutcome::Conflict {
            setting,
            found: now,
        },
        error => ExperimentOutcome::Failed {
            error: error.to_string(),
        },
    }
}
