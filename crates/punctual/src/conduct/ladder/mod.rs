//! A ladder: each rung is a thread of its own set-up that measures one block, and the blocks of all
//! rungs follow each other in an order that is drawn for each round, so that drift meets all of them.

mod block;
mod course;
mod possible;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use punctual_load::{LoadSet, LoadSpec};
use punctual_machine::tune::TuneError;
use punctual_record::ladder::{
    Ladder, LadderBlock, LadderDesign, LadderOutcome, NotPossible, Rung, RungLeftOut,
};
use punctual_record::tuning::Change;
use punctual_record::{Document, RunDirectory, time};
use punctual_rt::clock;
use punctual_stats::Histogram;
use punctual_stats::experiment::BlockLatencies;
use punctual_stats::histogram::HistogramRecord;

use super::error::ConductError;
use super::observer::{Observed, Observer};
use super::run::{LoadPlan, begin_loads, load_record};
use super::signals::Signals;
use course::{Order, cycles_of, loop_of, ordered, setup_of};
use possible::{Possible, Quiet};

/// How often the record is saved meanwhile.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// A ladder to be measured.
#[derive(Debug, Clone)]
pub struct LadderPlan {
    /// How it is measured. Its rounds are those that [`LadderPlan::within_ns`] has time for.
    pub design: LadderDesign,
    /// One rung to be measured by itself; absent for all.
    pub only: Option<Rung>,
    /// Time for all blocks, in ns.
    pub within_ns: u64,
    /// The load.
    pub load: LoadPlan,
    /// What quiets interrupts: the changes, or why there are none.
    pub quiet: Result<Vec<Change>, NotPossible>,
    /// The directory of the journal.
    pub state: std::path::PathBuf,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The machine's name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
}

/// Why a ladder could not be measured.
#[derive(Debug)]
pub enum LadderError {
    /// As of a run.
    Conduct(ConductError),
    /// The only rung that was asked for can't be measured here.
    NotPossible(Rung, NotPossible),
    /// The time has no room for rounds enough.
    TooShort {
        /// Rungs, with the control.
        conditions: usize,
        /// What it takes, in ns.
        needed_ns: u64,
    },
}

impl From<ConductError> for LadderError {
    fn from(error: ConductError) -> Self {
        Self::Conduct(error)
    }
}

impl LadderPlan {
    /// Cycles of a block at most, and bytes that they write.
    #[must_use]
    pub fn size_of_block(&self) -> (u64, u64) {
        let all = cycles_of(&self.design, true);
        (all.most_cycles(), all.most_bytes())
    }
}

/// Measures a ladder in an existing directory, and returns its record, judged and saved.
///
/// # Errors
/// [`LadderError`]: nothing was measured, and nothing is left changed.
pub fn ladder(
    plan: &LadderPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Ladder, LadderError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let possible = possible::find(plan)?;
    let mut climb = Climb::new(plan, possible, directory, progress)?;
    let loads = begin_loads(&plan.load, &signals, |_| ())?;
    climb.save();
    climb.run(loads, &signals);
    if climb.ladder.blocks.is_empty()
        && let Some(ending) = signals.end()
    {
        directory.remove_document::<Ladder>();
        return Err(ConductError::Interrupted(ending).into());
    }
    climb.judge();
    Ok(climb.ladder)
}

/// A ladder under way.
struct Climb<'c> {
    ladder: Ladder,
    order: Order,
    /// The response times of each rung of the record.
    responses: Vec<Histogram>,
    /// The settings of the highest rung.
    quiet: Option<Quiet>,
    directory: &'c RunDirectory,
    progress: &'c mut dyn Observer,
}

impl<'c> Climb<'c> {
    fn new(
        plan: &LadderPlan,
        possible: Possible,
        directory: &'c RunDirectory,
        progress: &'c mut dyn Observer,
    ) -> Result<Self, LadderError> {
        let mut ladder = Ladder {
            format: Ladder::FORMAT.to_owned(),
            version: Ladder::VERSION,
            tool: super::this_tool(),
            command: plan.command.clone(),
            hostname: plan.hostname.clone(),
            kernel: plan.kernel.clone(),
            started: time::rfc3339(SystemTime::now()),
            design: plan.design.clone(),
            load: plan.load.spec.label(),
            load_class: match plan.load.spec {
                LoadSpec::None => String::new(),
                _ => plan.load.class.to_string(),
            },
            loads: Vec::new(),
            switched: possible.switched,
            rungs: possible.rungs,
            control: None,
            blocks: Vec::new(),
            steps: Vec::new(),
            measured_ns: 0,
            outcome: None,
        };
        let order = ordered(&mut ladder, plan.only, plan.within_ns)?;
        let rungs = ladder.rungs.len();
        Ok(Self {
            ladder,
            order,
            responses: vec![Histogram::new(); rungs],
            quiet: possible.quiet,
            directory,
            progress,
        })
    }

    /// Measures all blocks, and restores what was switched.
    fn run(&mut self, mut loads: Option<LoadSet>, signals: &Signals) {
        let start_ns = clock::now_ns();
        let mut outcome = LadderOutcome::Complete;
        let mut saved = Instant::now();
        let order = std::mem::take(&mut self.order);
        for (done, place) in order.iter().copied().enumerate() {
            if signals.end().is_some() {
                outcome = LadderOutcome::Stopped;
                break;
            }
            let begins = Observed::Block(&self.ladder, place.1, done, order.len());
            self.progress.observe(begins);
            // Whether the loads go on working is looked at several times a second.
            let mut goes_on = || {
                if let Some(loads) = &mut loads {
                    loads.look();
                }
                signals.end().is_none()
            };
            if let Err(failed) = self.block(place, start_ns, signals, &mut goes_on) {
                outcome = failed;
                break;
            }
            self.ladder.measured_ns = clock::now_ns().saturating_sub(start_ns);
            if saved.elapsed() >= SAVE_EVERY {
                self.save();
                saved = Instant::now();
            }
        }
        if signals.end().is_some() && outcome == LadderOutcome::Complete {
            outcome = LadderOutcome::Stopped;
        }
        if let Some(quiet) = self.quiet.take()
            && let Err(error) = quiet.end()
        {
            outcome = of_tune(error);
        }
        if let Some(mut loads) = loads {
            loads.look_last();
            self.ladder.loads = loads.stop().into_iter().map(load_record).collect();
        }
        self.ladder.outcome = Some(outcome);
    }

    /// Measures one block, and adds it to the record.
    fn block(
        &mut self,
        (round, rung, is_second): (u64, Rung, bool),
        start_ns: u64,
        signals: &Signals,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), LadderOutcome> {
        let is_quiet = self.ladder.takes(rung, Rung::QuietInterrupts);
        if let Some(quiet) = &mut self.quiet {
            quiet.switch(is_quiet).map_err(of_tune)?;
        }
        let continued = signals.continued();
        continued.store(false, Ordering::Relaxed);
        let setup = setup_of(&self.ladder, rung);
        let at_ns = clock::now_ns().saturating_sub(start_ns);
        let ended = setup.run(loop_of(&self.ladder, rung), goes_on);
        let ended = ended.map_err(|error| LadderOutcome::Failed {
            error: error.to_string(),
        })?;
        let left_out = if !setup.is(&ended.in_force) {
            Some(RungLeftOut::NotInForce)
        } else if continued.load(Ordering::Relaxed) {
            Some(RungLeftOut::ProcessStopped)
        } else if signals.end().is_some() {
            Some(RungLeftOut::CutShort)
        } else if ended.measured.counts.cycles == 0 {
            Some(RungLeftOut::NoCycles)
        } else {
            None
        };
        let mut responses = Histogram::new();
        for response_ns in &ended.measured.responses_ns {
            responses.record(*response_ns);
        }
        let at = self.ladder.rungs.iter().position(|it| it.rung == rung);
        // The sums of a rung are those of as many blocks as the other rungs have.
        if let (Some(at), None, false) = (at, left_out, is_second) {
            self.responses[at].merge(&responses);
            self.ladder.rungs[at].counts.add(&ended.measured.counts);
        }
        self.ladder.blocks.push(LadderBlock {
            at_ns,
            round,
            rung,
            is_second,
            figures: BlockLatencies::of(&responses, self.ladder.design.deadline_ns),
            counts: ended.measured.counts,
            in_force: ended.in_force,
            left_out,
        });
        Ok(())
    }

    fn save(&mut self) {
        let rungs = self.ladder.rungs.iter_mut().zip(&self.responses);
        rungs.for_each(|(rung, responses)| rung.response = HistogramRecord::from(responses));
        // The directory keeps any error.
        let _ = self.directory.save(&self.ladder);
        self.progress
            .observe(Observed::LadderSaved(&self.ladder, self.directory));
    }

    fn judge(&mut self) {
        self.ladder.judge();
        self.save();
    }
}

/// What ended a ladder whose settings could not be switched.
fn of_tune(error: TuneError) -> LadderOutcome {
    match error {
        TuneError::Conflict { setting, now, .. } => LadderOutcome::Conflict {
            setting,
            found: now,
        },
        error => LadderOutcome::Failed {
            error: error.to_string(),
        },
    }
}
