//! What runs and watches have in common while they measure: one loop that keeps the record, checks
//! the conditions and waits for the end, and one way to end.

use std::time::{Duration, Instant};

use super::breach::Breach;
use super::compose;
use super::keeping::Keeping;
use super::observer::{Observed, Observer};
use super::signals::Signals;
use punctual_record::event::Gone;
use punctual_record::live::Step;
use punctual_record::{Ending, Happening, RecordError, Run, RunDirectory, State};
use punctual_trace::attribute::event::Window;

/// The interval between two reports of progress.
const TICK: Duration = Duration::from_millis(250);
/// The interval between two checks of the conditions.
const CONDITIONS_EVERY: Duration = Duration::from_secs(1);
/// The interval between two saves.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// What is measured: our own threads, or those of a program.
pub(super) trait Measured {
    /// The last step, for the display.
    const ENDING: Step;
    /// The shortest sleep, when the end is near.
    const LEAST_NAP: Duration;
    /// Whether SIGINT is the regular end of a measurement without a length.
    const INTERRUPT_FINISHES: bool;

    /// How long the loop sleeps between two rounds, at most [`TICK`].
    fn nap(&self) -> Duration;

    /// Sleeps.
    fn sleep(&self, length: Duration) {
        std::thread::sleep(length);
    }

    /// Takes new samples, at the beginning of each round.
    fn collect(&mut self, elapsed_ns: u64) {
        let _ = elapsed_ns;
    }

    /// Whether a latency above the break value was seen; this ends it.
    fn has_breach(&self) -> bool {
        false
    }

    /// Whether the measurement is complete.
    fn is_complete(&self, elapsed_ns: u64) -> bool;

    /// A signal, or a latency above the break value, ends it: begins nothing more.
    fn call_off(&mut self) {}

    /// Whether what had begun when it was called off has its outcome, or is not waited for any longer.
    fn has_settled(&self) -> bool {
        true
    }

    /// Adds events, in each round.
    fn note(&mut self, kept: &mut Keeping<'_>) {
        let _ = kept;
    }

    /// Reads counters, each [`TICK`].
    fn count(&mut self, elapsed_ns: u64) {
        let _ = elapsed_ns;
    }

    /// Reports its state.
    fn show(&self, run: &Run, elapsed_ns: u64, progress: &mut dyn Observer);

    /// Why there is nothing left to measure, if there is a reason.
    fn has_vanished(&self) -> Option<Gone> {
        None
    }

    /// Puts the figures so far into the record.
    fn compose(&mut self, run: &mut Run, elapsed_ns: u64);

    /// Saves the files beside the record.
    ///
    /// # Errors
    /// The disk's error.
    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError>;

    /// Takes the last samples, and ends the helpers.
    fn finish(&mut self, kept: &mut Keeping<'_>);

    /// Adds what is known only at the end to the record; returns how it ended.
    fn conclude(&mut self, kept: &mut Keeping<'_>, state: State) -> State;

    /// The content of the recorder around the latency above the break value.
    fn ring(&self, run: &Run) -> Option<Window>;
}

/// A run or a watch in progress.
pub(super) struct UnderWay<'a> {
    /// The record.
    kept: Keeping<'a>,
    /// Receives its progress.
    progress: &'a mut dyn Observer,
    /// The signals that may end it.
    signals: Signals,
    /// How it ends, once a signal came, or a latency above the break value was seen.
    ending: Option<State>,
    /// What is kept of such a latency, from when it was seen: what is under way may take until the end.
    breach: Option<Breach>,
}

impl<'a> UnderWay<'a> {
    /// At its beginning.
    pub fn new(kept: Keeping<'a>, progress: &'a mut dyn Observer, signals: Signals) -> Self {
        Self {
            kept,
            progress,
            signals,
            ending: None,
            breach: None,
        }
    }

    /// Measures until the end, and returns the record, judged and saved.
    pub fn until_judged(mut self, mut measured: impl Measured) -> Run {
        let state = self.until_over(&mut measured);
        self.close(measured, state)
    }

    /// Waits for the end, and keeps the record meanwhile.
    fn until_over<M: Measured>(&mut self, measured: &mut M) -> State {
        let begin = Instant::now();
        let (mut next_tick, mut next_conditions, mut next_save) =
            (begin, begin + CONDITIONS_EVERY, begin + SAVE_EVERY);
        loop {
            measured.collect(self.kept.elapsed_ns());
            if let Some(state) = self.end(measured) {
                return state;
            }
            measured.note(&mut self.kept);
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.tick(measured);
                if let Some(gone) = measured.has_vanished() {
                    self.kept.event(Happening::ProgramEnded { gone });
                    return State::Finished;
                }
            }
            if now >= next_conditions {
                next_conditions = now + CONDITIONS_EVERY;
                self.kept.check_conditions();
            }
            if now >= next_save {
                next_save = now + SAVE_EVERY;
                let elapsed_ns = self.kept.elapsed_ns();
                measured.compose(&mut self.kept.run, elapsed_ns);
                self.publish();
                let beside = |directory: &RunDirectory| measured.save_beside(directory);
                self.kept.save_under_way(beside, self.progress);
            }
            let left = self.kept.left(self.kept.run.request.duration_ns);
            measured.sleep(measured.nap().min(left.max(M::LEAST_NAP)));
        }
    }

    fn publish(&mut self) {
        if let Some(unsaved) = self.progress.publish(&self.kept.run) {
            self.kept.event(Happening::SaveFailed(unsaved));
        }
    }

    /// How it ended, if it has.
    fn end<M: Measured>(&mut self, measured: &mut M) -> Option<State> {
        if self.ending.is_none() && measured.has_breach() {
            let break_ns = self.kept.run.request.break_ns;
            self.breach = Some(Breach::freeze(break_ns, &mut self.kept));
            measured.call_off();
            self.ending = Some(State::Finished);
        }
        let signal = match (&self.ending, self.signals.end()) {
            (Some(_), _) => return self.ending.filter(|_| measured.has_settled()),
            (None, Some(signal)) => signal,
            (None, None) => {
                let is_complete = measured.is_complete(self.kept.elapsed_ns());
                return is_complete.then_some(State::Finished);
            }
        };
        let endless = self.kept.run.request.duration_ns.is_none();
        let state = if signal == Ending::Interrupt && M::INTERRUPT_FINISHES && endless {
            State::Finished
        } else {
            self.kept.event(Happening::Signal { signal });
            State::Stopped(signal)
        };
        measured.call_off();
        self.ending = Some(state);
        measured.has_settled().then_some(state)
    }

    fn tick(&mut self, measured: &mut impl Measured) {
        let elapsed_ns = self.kept.elapsed_ns();
        measured.count(elapsed_ns);
        if self.progress.looks() {
            measured.show(&self.kept.run, elapsed_ns, self.progress);
        }
    }

    /// Ends everything, judges, and saves.
    fn close<M: Measured>(mut self, mut measured: M, state: State) -> Run {
        let kept = &mut self.kept;
        let ended_itself = state == State::Finished;
        let break_ns = kept.run.request.break_ns.filter(|_| ended_itself);
        let seen = self.breach.take();
        let breach = seen.unwrap_or_else(|| Breach::freeze(break_ns, kept));
        self.progress.observe(Observed::Step(&M::ENDING));
        measured.finish(kept);
        kept.conclude_conditions();
        let elapsed_ns = kept.elapsed_ns();
        measured.compose(&mut kept.run, elapsed_ns);
        kept.run.state = measured.conclude(kept, state);
        self.progress.observe(Observed::Step(&Step::Analyse));
        compose::judge(&mut kept.run);
        let breach = breach.keep(kept, |run| measured.ring(run));
        if let Some(ring) = &breach.ring {
            self.progress
                .observe(Observed::Breached(ring, &kept.run, kept.directory));
        }
        self.publish();
        let beside = |directory: &RunDirectory| {
            let windows = measured.save_beside(directory);
            windows.and(breach.save(directory))
        };
        self.kept.save_last(beside, self.progress)
    }
}
