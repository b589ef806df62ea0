//! What is known of a hop, and how often it exceeds a time.

use punctual_stats::budget::Exceedance;
use punctual_stats::evidence::{RunEvidence, Skipped};
use punctual_stats::histogram::{DecodeError, Histogram};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::judge as judge_run;

use super::{Hop, HopOrigin, HopTimes, PartOfRun};
use crate::evidence::Evidence;
use crate::invalid::InvalidReason;
use crate::judgement::Judgement;
use crate::run::{Run, Thread, Timeline};
use crate::taskset::{ChainFigures, ChainSplit};

/// A hop, with what is known of it.
pub(super) struct Known<'h> {
    pub name: String,
    pub origin: HopOrigin,
    /// As it was seen.
    pub seen: Exceedance,
    pub measured: Option<Measured<'h>>,
    /// It always takes this time.
    pub constant_ns: Option<u64>,
    /// Its part of the deadline, where that was decided beforehand.
    pub within_ns: Option<u64>,
    pub invalid: Vec<InvalidReason>,
}

/// Times that a run measured.
pub(super) struct Measured<'h> {
    pub run: &'h Run,
    evidence: Evidence,
    of: Of<'h>,
    unsplit: Option<Unsplit>,
}

/// Reactions of a chain that were not split: the longest may be among them.
struct Unsplit {
    all: Histogram,
    split: Histogram,
}

impl Unsplit {
    fn count(&self) -> u64 {
        self.all.count().saturating_sub(self.split.count())
    }

    fn longer(&self, than_ns: u64) -> u64 {
        let split = self.split.count_above(than_ns);
        let longer = self.all.count_above(than_ns).saturating_sub(split);
        longer.min(self.count())
    }
}

enum Of<'h> {
    /// The latencies of all threads, or of those on one CPU.
    Threads(Option<usize>),
    /// Times that were measured one after the other.
    Times {
        times: &'h Thread,
        timeline: &'h Timeline,
        deadline_ns: Option<u64>,
        period_ns: Option<u64>,
    },
}

impl<'h> Known<'h> {
    pub fn of(hop: &'h Hop) -> Result<Self, DecodeError> {
        let known = match &hop.times {
            HopTimes::Constant(ns) => Self {
                constant_ns: Some(*ns),
                ..Self::given(hop, HopOrigin::Constant, Exceedance::constant(*ns))
            },
            HopTimes::Known(times) => Self::given(hop, HopOrigin::Known, times.clone()),
            HopTimes::Run { run, of } => Self::measured(hop.name.clone(), Measured::of(run, *of)?),
        };
        Ok(Self {
            within_ns: hop.within_ns,
            ..known
        })
    }

    /// A hop of which nothing but its measured times is known.
    pub fn measured(name: String, measured: Measured<'h>) -> Self {
        let (cycles, seen) = measured.seen();
        let invalid = measured.judged(&[], 0.5).reasons;
        Self {
            name,
            origin: HopOrigin::Run { cycles },
            seen: seen.unwrap_or_else(|| Exceedance::constant(u64::MAX)),
            measured: Some(measured),
            constant_ns: None,
            within_ns: None,
            invalid,
        }
    }

    fn given(hop: &Hop, origin: HopOrigin, seen: Exceedance) -> Self {
        Self {
            name: hop.name.clone(),
            origin,
            seen,
            measured: None,
            constant_ns: None,
            within_ns: None,
            invalid: Vec::new(),
        }
    }
}

impl<'h> Measured<'h> {
    /// A part of a run. One that is not there is a run without samples.
    pub fn of(run: &'h Run, part: PartOfRun) -> Result<Self, DecodeError> {
        let tasks = run.tasks.as_ref();
        let found = match part {
            PartOfRun::Threads { cpu } => {
                return Ok(Self {
                    run,
                    evidence: Evidence::decode(run)?,
                    of: Of::Threads(cpu),
                    unsplit: None,
                });
            }
            PartOfRun::Task { task } => tasks.and_then(|tasks| {
                let figures = tasks.tasks.get(task)?;
                let deadline_ns = tasks.set.tasks.get(task).map(|task| task.deadline_ns);
                let period_ns = tasks.set.period_ns(task);
                Some((&figures.jobs, &figures.timeline, deadline_ns, period_ns))
            }),
            PartOfRun::Chain { chain } => {
                let figures = tasks.and_then(|tasks| tasks.chains.get(chain));
                if let Some((chain, split)) = figures.and_then(|it| Some((it, it.split.as_ref()?)))
                {
                    return Self::chain(run, chain, split);
                }
                None
            }
        };
        match found {
            Some((times, timeline, deadline_ns, period_ns)) => Ok(Self {
                of: Of::Times {
                    times,
                    timeline,
                    deadline_ns,
                    period_ns,
                },
                ..Self::times(run, times, timeline)?
            }),
            None => Ok(Self {
                run,
                evidence: Evidence::decode(run)?,
                of: Of::Threads(Some(usize::MAX)),
                unsplit: None,
            }),
        }
    }

    /// The reactions of a chain.
    pub fn chain(
        run: &'h Run,
        chain: &ChainFigures,
        split: &'h ChainSplit,
    ) -> Result<Self, DecodeError> {
        let whole = &split.whole;
        Ok(Self {
            unsplit: Some(Unsplit {
                all: Histogram::try_from(&chain.reaction)?,
                split: Histogram::try_from(&whole.times.latency)?,
            }),
            ..Self::times(run, &whole.times, &whole.timeline)?
        })
    }

    /// Reactions that were longer than a time and that nothing else is known of.
    pub fn unsplit_longer(&self, than_ns: u64) -> u64 {
        self.unsplit.as_ref().map_or(0, |it| it.longer(than_ns))
    }

    /// Times that a run measured one after the other.
    pub fn times(
        run: &'h Run,
        times: &'h Thread,
        timeline: &'h Timeline,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            run,
            evidence: Evidence::of_times(times)?,
            of: Of::Times {
                times,
                timeline,
                deadline_ns: None,
                period_ns: None,
            },
            unsplit: None,
        })
    }

    pub fn view(&self) -> RunEvidence<'_> {
        let (evidence, run) = (&self.evidence, self.run);
        match self.of {
            Of::Threads(None) => evidence.view(run),
            Of::Threads(Some(cpu)) => {
                let mut view = evidence.view(run);
                let is_its = |of: Option<u32>| of.is_some_and(|of| of as usize == cpu);
                view.threads.retain(|thread| is_its(thread.cpu));
                // What was counted of all threads together does not tell of these.
                view.rows = None;
                view.halves = None;
                view.deadline_ns = None;
                view
            }
            Of::Times {
                times,
                timeline,
                deadline_ns,
                period_ns,
            } => evidence.times(times, timeline, deadline_ns, period_ns, run.measured_ns),
        }
    }

    pub fn timeline(&self) -> &'h Timeline {
        match self.of {
            Of::Threads(_) => &self.run.timeline,
            Of::Times { timeline, .. } => timeline,
        }
    }

    /// Whether the timeline has the time of each cycle, but of skipped ones.
    pub fn has_all_times(&self) -> bool {
        let view = self.view();
        let unsplit = self.unsplit.as_ref().map_or(0, Unsplit::count);
        view.lost() == 0 && view.unseen() == 0 && unsplit == 0
    }

    /// Whether a skipped cycle may have taken longer than the samples near it: a lost message, a job that was dropped.
    pub fn has_open_skips(&self) -> bool {
        let view = self.view();
        view.threads
            .iter()
            .any(|thread| thread.skipped != Skipped::ByWakeUps)
    }

    /// What is required of the times, judged at a confidence; with why the run is not valid.
    pub fn judged(&self, requirements: &[Requirement], confidence: f64) -> Judgement {
        let verdict = judge_run(requirements, &self.view(), confidence);
        let mut judgement = Judgement::with_verdict(self.run, verdict);
        let unfinished = InvalidReason::unfinished(self.run);
        judgement.reasons.extend(unfinished);
        judgement
    }

    /// How often the times exceed each limit, in ns: at least, and at most, each with this doubt.
    pub fn bounds(&self, limits: &[u64], doubt: f64) -> Vec<(f64, f64)> {
        let requirement = |limit_ns: &u64| Requirement::MissProbability {
            deadline_ns: *limit_ns,
            allowed: 0.5,
        };
        let requirements: Vec<Requirement> = limits.iter().map(requirement).collect();
        let view = self.view();
        let verdict = judge_run(&requirements, &view, 1.0 - doubt);
        let bounds = verdict.requirements.iter().map(|it| &it.bound);
        let each = bounds.zip(limits);
        each.map(|(bound, limit_ns)| {
            self.with_unknown(&view, (bound.lower, bound.upper), *limit_ns)
        })
        .collect()
    }

    /// Bounds on how often a time was longer, with the cycles of which that isn't known.
    pub fn with_unknown(
        &self,
        view: &RunEvidence<'_>,
        (lower, upper): (f64, f64),
        than_ns: u64,
    ) -> (f64, f64) {
        let known = view.cycles() as f64;
        let unsplit = self.unsplit.as_ref().map_or(0, Unsplit::count) as f64;
        let cycles = (known + unsplit).max(1.0);
        // What was unseen is among the cycles, and in the upper bound.
        let unknown = self.unsplit_longer(than_ns) as f64;
        let upper = (upper * known + unknown) / cycles;
        (lower * known / cycles, upper.min(1.0))
    }

    /// How many cycles there were, and how often they took longer than a time: as the verdict counts,
    /// skipped periods with them.
    pub fn seen(&self) -> (u64, Option<Exceedance>) {
        let view = self.view();
        let all = Histogram::merged(view.threads.iter().map(|thread| thread.histogram));
        // Of these nothing is known: longer than any time.
        let lost = view.lost();
        let unsplit = self.unsplit.as_ref().map_or(0, Unsplit::count);
        let cycles = view.cycles().saturating_add(lost).saturating_add(unsplit);
        let mut points: Vec<(u64, f64)> = Vec::new();
        for bucket in all.buckets() {
            let at_ns = bucket.high_ns.min(all.max().unwrap_or(u64::MAX));
            let (late, missed) = (view.late(at_ns).1, view.missed_late(at_ns).1);
            let unseen = view.unseen().saturating_add(self.unsplit_longer(at_ns));
            let unknown = lost.saturating_add(unseen);
            let longer = late.saturating_add(missed).saturating_add(unknown);
            let share = 1.0 - longer as f64 / cycles as f64;
            if share > points.last().map_or(0.0, |(_, before)| *before) {
                points.push((at_ns, share.min(1.0)));
            }
        }
        (cycles, Exceedance::of_points(&points).ok())
    }
}
