//! What makes a run invalid apart from its figures.

use std::mem::{Discriminant, discriminant};

use punctual_stats::verdict::InvalidEvidence;
use serde::{Deserialize, Serialize};

use super::condition::{Demand, Standing};
use super::event::{Ending, Event, State};
use super::load::{LoadFailure, WorkCheck};
use super::run::{Load, Run, Thread, ThreadFault};
use super::stops::Stops;
use super::taskset::TaskFault;
use super::unavailable::Unavailable;
use super::watch::{Subject, Watch, WatchedMark};

/// Why a run is not valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum InvalidReason {
    /// A demand was not in force.
    Demand(Demand),
    /// A thread of a watched program ran, lives, and was never woken.
    NeverWoke {
        /// Its name.
        thread: String,
    },
    /// Programs were not followed, and nothing of them was measured.
    ProgramsNotFollowed,
    /// Threads of a watched program were not followed for lack of space: nothing of them was
    /// measured.
    ThreadsNotFollowed {
        /// How many are known.
        beyond: u64,
        /// There were more than these.
        at_least: bool,
        /// For how many there was room.
        room: u64,
    },
    /// It can't be said whether a mark's limit was kept.
    Mark {
        /// The mark's name.
        name: String,
        /// Why.
        fault: MarkFault,
    },
    /// Something happened that ended the conditions.
    Event(Event),
    /// A load did not do its work.
    Load {
        /// The load's name.
        name: String,
        /// What is wrong.
        fault: LoadFault,
    },
    /// A probe thread broke off.
    ProbeFailed {
        /// Its CPU, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu: Option<usize>,
        /// Why.
        fault: ThreadFault,
    },
    /// A task of a set ended before it.
    TaskFailed {
        /// Its name.
        task: String,
        /// Why.
        fault: TaskFault,
    },
    /// Outputs of a chain were lost on their way to the record: they may have been beyond a limit.
    OutputsLost {
        /// The chain's name.
        chain: String,
        /// How many.
        lost: u64,
    },
    /// It was stopped for too much of its time.
    Stopped {
        /// Threads of a watched program, and not the measuring process.
        watched: bool,
        /// The stops together.
        total_ns: u64,
        /// The run with them.
        run_ns: u64,
    },
    /// Too many of its cycles lay within stops, or just after them.
    CyclesStopped {
        /// How many.
        cycles: u64,
        /// Of how many, with these.
        of: u64,
    },
    /// The evidence itself is at fault.
    Evidence {
        /// Which fault.
        fault: InvalidEvidence,
    },
    /// Its record is unfinished: what would have made it invalid may be missing.
    Unfinished,
    /// One of the runs that were merged is invalid.
    OfRun {
        /// Which, counted from 1.
        run: u64,
        /// Why.
        reason: Box<InvalidReason>,
    },
}

impl InvalidReason {
    /// Why, of whichever run.
    fn kind(&self) -> Discriminant<Self> {
        match self {
            Self::OfRun { reason, .. } => reason.kind(),
            _ => discriminant(self),
        }
    }

    /// Whether it is one that sums don't hide: merged runs are judged by the sum.
    fn shows_in_sums(&self) -> bool {
        matches!(self, Self::Demand(_) | Self::Event(_))
    }

    /// The same as one of a run that is merged; `before` are in the sum already.
    fn in_sum(self, before: u64) -> Self {
        match self {
            Self::OfRun { run, reason } => Self::OfRun {
                run: run.saturating_add(before),
                reason,
            },
            _ => Self::OfRun {
                run: before.saturating_add(1),
                reason: Box::new(self),
            },
        }
    }

    /// That a record was cut off, where another one rests on it. While a run goes on, its own record is judged as it
    /// stands.
    pub(crate) fn unfinished(run: &Run) -> Option<Self> {
        let is_cut_off = match run.state {
            State::Unfinished | State::Stopped(Ending::UnfinishedRuns { .. }) => true,
            State::Finished | State::Stopped(_) => false,
        };
        is_cut_off.then_some(Self::Unfinished)
    }

    /// Adds what makes a run invalid to that of those before it, `before` in number: the first of each kind.
    pub(crate) fn add_up(sum: &mut Vec<Self>, run: &Run, before: u64) {
        let found = run.verdict.as_ref().map_or(&[][..], |it| &it.invalid);
        let reasons = all_reasons(run, found)
            .into_iter()
            .chain(Self::unfinished(run));
        for reason in reasons.filter(|it| !it.shows_in_sums()) {
            if sum.iter().all(|known| known.kind() != reason.kind()) {
                sum.push(reason.in_sum(before));
            }
        }
    }

    /// Of what was added up, that which a merged run, with what its verdict found, does not say of itself.
    pub(crate) fn left_of_sum(
        sum: Vec<Self>,
        merged: &Run,
        found: &[InvalidEvidence],
    ) -> Vec<Self> {
        let own = all_reasons(merged, found);
        let is_new = |it: &Self| own.iter().all(|known| known.kind() != it.kind());
        sum.into_iter().filter(is_new).collect()
    }
}

/// What makes a run invalid, with what a verdict on it found in the evidence.
pub(crate) fn all_reasons(run: &Run, found: &[InvalidEvidence]) -> Vec<InvalidReason> {
    let mut reasons = invalid_reasons(run);
    let faults = found.iter().copied();
    reasons.extend(faults.map(|fault| InvalidReason::Evidence { fault }));
    reasons
}

/// Why it can't be said whether a mark's limit was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum MarkFault {
    /// It was not seen.
    NotSeen {
        /// Why.
        why: Unavailable,
    },
    /// Lengths were overwritten before they were read.
    LengthsLost {
        /// Of how many passes.
        passes: u64,
    },
    /// Passes had no end, or were nested too deep, and no other took longer than the limit.
    Unfinished {
        /// How many.
        passes: u64,
    },
    /// Passes were by threads that were not recorded for lack of space.
    NoRoom {
        /// How many.
        passes: u64,
    },
    /// Nothing passed it.
    NeverPassed,
    /// It was passed, and no length was measured.
    NotMeasured,
    /// Threads that were not watched alone passed it.
    Unwatched,
}

/// What is wrong with a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum LoadFault {
    /// It failed.
    Failed {
        /// Why.
        failure: LoadFailure,
    },
    /// It was without work for too long.
    Idle {
        /// What was seen of it.
        check: WorkCheck,
        /// What its work is counted in.
        unit: String,
        /// The record is a merge of several runs, and this was one of them.
        in_one_run: bool,
    },
    /// It did nothing at all.
    DidNothing,
}

/// What makes a run invalid apart from its figures: demands not in force, unless
/// the run was made with `--best-effort`, events that ended the conditions, loads
/// that did not do their work, and probe threads that broke off.
#[must_use]
pub fn invalid_reasons(run: &Run) -> Vec<InvalidReason> {
    let demands = not_in_force(run).filter(|_| !run.request.best_effort);
    let marks = run.watch.iter().flat_map(|watch| &watch.marks);
    let events = run.events.iter().filter(|event| event.invalidates);
    demands
        .cloned()
        .map(InvalidReason::Demand)
        .chain(never_woke(run))
        .chain(not_followed(run))
        .chain(marks.filter_map(mark))
        .chain(events.cloned().map(InvalidReason::Event))
        .chain(run.loads.iter().filter_map(load))
        .chain(run.threads.iter().filter_map(probe))
        .chain(failed_tasks(run))
        .chain(stopped(run))
        .chain(run.merged.iter().flat_map(|it| it.invalid.iter().cloned()))
        .collect()
}

/// What makes the experiment of a run invalid, besides an effect of its control: no block is left out for it.
#[must_use]
pub fn experiment_faults(run: &Run) -> Vec<InvalidReason> {
    let evidence = run.verdict.iter().flat_map(|verdict| &verdict.invalid);
    let lost = evidence.filter(|fault| matches!(fault, InvalidEvidence::Lost { .. }));
    let lost = lost.map(|fault| InvalidReason::Evidence { fault: *fault });
    let loads = run.loads.iter().filter_map(load);
    loads
        .chain(run.threads.iter().filter_map(probe))
        .chain(lost)
        .collect()
}

/// Demands that are not in force.
pub fn not_in_force(run: &Run) -> impl Iterator<Item = &Demand> {
    let demands = run.demands.iter();
    demands.filter(|demand| demand.standing == Standing::NotInForce)
}

/// Threads of a watched program that ran, live, and were never woken: they may wait for the
/// CPU. Those that have ended had no wake-up left to be late; and where not one thread was
/// woken, that is said of all. A language's runtime starts threads that only wait for work.
fn never_woke(run: &Run) -> impl Iterator<Item = InvalidReason> {
    let has_runtime = |watch: &Watch| watch.runtime.is_some();
    let is_exempt = run.watch.as_ref().is_some_and(has_runtime) || limits_only_marks(run);
    let labels = match is_exempt {
        true => Vec::new(),
        false => unwoken(run, false),
    };
    let labels = labels.into_iter();
    labels.map(|thread| InvalidReason::NeverWoke { thread })
}

/// Whether nothing but marks is limited: these are judged by their own counts.
fn limits_only_marks(run: &Run) -> bool {
    run.request.requirements.is_empty() && run.watch.as_ref().is_some_and(Watch::limits)
}

/// Whether a watch measured what was required: a thread was woken, or only marks are limited, which a program that
/// never sleeps passes too. A mark that was not measured is a reason of its own.
#[must_use]
pub fn has_measured(run: &Run) -> bool {
    run.threads.iter().any(|it| it.latency.count > 0) || limits_only_marks(run)
}

/// The labels of a watch's threads that were never woken while others were: of those that have
/// ended, or of those that live.
#[must_use]
pub fn unwoken(run: &Run, ended: bool) -> Vec<String> {
    let woke = |thread: &Thread| thread.latency.count > 0;
    if !run.threads.iter().any(woke) {
        return Vec::new();
    }
    let every = run.watch.as_ref().is_some_and(Watch::follows_every_thread);
    let watched = run.watch.iter().flat_map(|watch| &watch.threads);
    let threads = watched.zip(&run.threads).enumerate();
    threads
        .filter(|(_, (watched, thread))| {
            // One that gave up its real-time priority is followed no longer.
            let followed = every || watched.ended || watched.task.has_real_time_policy();
            watched.ended == ended && followed && !woke(thread) && !watched.slept_but_for_stops
        })
        .map(|(index, _)| run.thread_label(index))
        .collect()
}

/// That threads of a watched program found no room: of their wake-ups nothing is known, and a
/// deadline that the others kept is not one that the program kept.
fn not_followed(run: &Run) -> Option<InvalidReason> {
    // Limits of marks are judged by the marks' own counts.
    let watch = run.watch.as_ref()?;
    if run.request.requirements.is_empty() {
        return None;
    }
    if let Subject::Programs { refused: 1.., .. } = watch.subject {
        return Some(InvalidReason::ProgramsNotFollowed);
    }
    let unknown = watch.unfollowed > 0;
    (watch.beyond > 0 || unknown).then_some(InvalidReason::ThreadsNotFollowed {
        beyond: watch.beyond,
        at_least: unknown,
        room: watch.threads.len() as u64,
    })
}

/// What was not seen of a mark with a limit may have taken longer.
fn mark(mark: &WatchedMark) -> Option<InvalidReason> {
    mark.limit_ns?;
    let fault = mark_fault(mark)?;
    Some(InvalidReason::Mark {
        name: mark.name.clone(),
        fault,
    })
}

fn mark_fault(mark: &WatchedMark) -> Option<MarkFault> {
    if let Some(why) = &mark.refused {
        return Some(MarkFault::NotSeen { why: why.clone() });
    }
    // One that took longer decides, whatever the others took.
    if mark.sum(|thread| thread.longer) > 0 {
        return None;
    }
    let lost = mark.sum(|thread| thread.lost);
    if lost > 0 {
        return Some(MarkFault::LengthsLost { passes: lost });
    }
    if mark.beyond > 0 {
        return Some(MarkFault::NoRoom {
            passes: mark.beyond,
        });
    }
    let unfinished = mark.sum(|thread| thread.unfinished);
    if mark.sum(|thread| thread.lengths.count) > 0 {
        return (unfinished > 0).then_some(MarkFault::Unfinished { passes: unfinished });
    }
    Some(match (mark.unwatched, mark.sum(|thread| thread.count)) {
        (0, 0) => MarkFault::NeverPassed,
        (0, _) => MarkFault::NotMeasured,
        _ => MarkFault::Unwatched,
    })
}

fn load(load: &Load) -> Option<InvalidReason> {
    let fault = load_fault(load)?;
    Some(InvalidReason::Load {
        name: load.name.clone(),
        fault,
    })
}

/// What is wrong with a load, if anything is.
#[must_use]
pub fn load_fault(load: &Load) -> Option<LoadFault> {
    if let Some(failure) = &load.failed {
        return Some(LoadFault::Failed {
            failure: failure.clone(),
        });
    }
    let idle = |check, in_one_run| LoadFault::Idle {
        check,
        unit: load.unit.clone(),
        in_one_run,
    };
    if let Some(check) = load.idle_run {
        return Some(idle(check, true));
    }
    let off = load.check.is_some_and(|check| check.is_off());
    if load.work == 0 && !off {
        return Some(LoadFault::DidNothing);
    }
    let check = load.check.filter(WorkCheck::is_idle)?;
    Some(idle(check, false))
}

/// The tasks that ended before their set.
fn failed_tasks(run: &Run) -> Vec<InvalidReason> {
    let tasks = run
        .tasks
        .iter()
        .flat_map(|it| it.set.tasks.iter().zip(&it.tasks));
    let failed = tasks.filter_map(|(task, figures)| {
        Some(InvalidReason::TaskFailed {
            task: task.name.clone(),
            fault: figures.fault.clone()?,
        })
    });
    let chains = run
        .tasks
        .iter()
        .flat_map(|it| it.set.chains.iter().zip(&it.chains));
    let lost = chains.filter(|(_, figures)| figures.lost > 0);
    let lost = lost.map(|(chain, figures)| InvalidReason::OutputsLost {
        chain: chain.name.clone(),
        lost: figures.lost,
    });
    failed.chain(lost).collect()
}

fn probe(thread: &Thread) -> Option<InvalidReason> {
    let fault = thread.fault.clone()?;
    let cpu = thread.cpu;
    Some(InvalidReason::ProbeFailed { cpu, fault })
}

/// So few cycles are left out by one stop of a short run.
const FEW_CYCLES: u64 = 20;

fn stopped(run: &Run) -> Option<InvalidReason> {
    let stops = run.stops.as_ref()?;
    if stops.are_too_many(run.measured_ns) {
        return Some(InvalidReason::Stopped {
            watched: run.watch.is_some(),
            total_ns: stops.total_ns,
            run_ns: run.measured_ns.max(stops.total_ns),
        });
    }
    // A thread has some time to continue after each: many short ones leave out more than they last.
    let counted = |it: &Thread| it.latency.count.saturating_add(it.missed);
    let of = (run.threads.iter().map(counted)).fold(stops.cycles, u64::saturating_add);
    let share = stops.cycles as f64 / of.max(1) as f64;
    let cycles = stops.cycles;
    (share > Stops::MOST_SHARE && cycles >= FEW_CYCLES)
        .then_some(InvalidReason::CyclesStopped { cycles, of })
}
