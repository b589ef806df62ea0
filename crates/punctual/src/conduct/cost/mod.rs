//! What does real time cost a command? Its runs in pairs, without and with each treatment and with
//! nothing that differs, in an order drawn at random.

mod beside;
mod error;
pub mod lab;
mod machine;
mod one_run;
pub mod runner;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use punctual_machine::tune::{Journal, Session, setting_of_file};
use punctual_record::cost::{
    Cost, CostMachine, CostOutcome, CostPart, CostProbe, CostRun, CostTreatment, CostWork,
};
use punctual_record::tuning::{Change, Knob};
use punctual_record::{Document, RunDirectory, time};
use punctual_rt::sched::Policy;
use punctual_stats::experiment::pair_order;

use self::beside::{Beside, RtLoad};
use self::one_run::{Ran, Running};
use self::runner::{RunAnswer, RunJob};
use super::observer::{Observed, Observer};
use super::signals::Signals;

pub use error::CostError;
pub use machine::this_machine;

/// The file of the kernel's preemption model.
pub const PREEMPT_FILE: &str = "/sys/kernel/debug/sched/preempt";
/// The record is saved at most so often before the end.
const SAVED_EVERY: Duration = Duration::from_secs(5);

/// What is to be found out.
#[derive(Debug)]
pub struct CostPlan {
    /// The command line of punctual.
    pub command: Vec<String>,
    /// What is run, and how often.
    pub work: CostWork,
    /// The command with its arguments, as it was given.
    pub program: Vec<OsString>,
    /// What is changed for one run of each pair.
    pub treatments: Vec<CostTreatment>,
    /// The probe; none where nothing is to be known of latencies.
    pub probe: Option<CostProbe>,
    /// CPUs that the command may use.
    pub cpus: Vec<usize>,
    /// Gets what the command prints.
    pub output: Option<File>,
    /// The directory of the journal.
    pub state: PathBuf,
}

/// Which half of runs is made where a reboot lies between them.
#[derive(Debug)]
pub enum Half {
    /// Those before it.
    First,
    /// Those after it: the record of those before.
    Second(Box<Cost>),
}

/// Makes all runs, and returns the record, judged and saved.
///
/// # Errors
/// A run that failed: the record so far is saved. Nothing is left changed, or the error says what.
pub fn cost(
    plan: &CostPlan,
    half: Option<Half>,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Cost, CostError> {
    let signals = Signals::listen().map_err(CostError::Signals)?;
    let machine = this_machine();
    let number = match &half {
        Some(Half::Second(_)) => 1,
        _ => 0,
    };
    let is_first_half = matches!(half, Some(Half::First));
    let is_second_half = number == 1;
    let record = match half {
        Some(Half::Second(mut record)) => {
            record.machines.push(machine);
            record.outcome = CostOutcome::UnderWay;
            *record
        }
        _ => begun(plan, machine),
    };
    let mut making = Making {
        plan,
        directory,
        progress,
        switching: Switching::begin(plan)?,
        ends: &|| signals.end().is_some(),
        continued: signals.continued(),
        begun: Instant::now(),
        saved: Instant::now(),
        machine: number,
        record,
    };
    let made = making.all();
    let restored = making.switching.end();
    let is_whole = matches!(made, Ok(true));
    making.record.outcome = match (&made, is_first_half) {
        (Ok(true), true) => CostOutcome::FirstHalf,
        (Ok(true), false) => CostOutcome::Complete,
        (Ok(false), _) => CostOutcome::Stopped,
        (Err(error), _) => CostOutcome::Failed {
            error: error.to_string(),
        },
    };
    if !(is_first_half && is_whole) {
        making.record.judge();
    }
    // What was made before the reboot stays as it is until the rest is whole: then it can be resumed.
    let saved = match is_second_half && !is_whole {
        true => Ok(()),
        false => making.save(),
    };
    made?;
    restored?;
    saved?;
    Ok(making.record)
}

/// The record before the first run.
fn begun(plan: &CostPlan, machine: CostMachine) -> Cost {
    Cost {
        format: Cost::FORMAT.to_owned(),
        version: Cost::VERSION,
        tool: super::this_tool(),
        command: plan.command.clone(),
        started: time::rfc3339(SystemTime::now()),
        plan: plan.work.clone(),
        treatments: plan.treatments.clone(),
        machines: vec![machine],
        no_instructions: None,
        probe: plan.probe,
        runs: Vec::new(),
        results: None,
        outcome: CostOutcome::UnderWay,
    }
}

/// A run to come.
#[derive(Debug, Clone, Copy)]
struct Next {
    treatment: Option<usize>,
    pair: u64,
    with: bool,
}

/// All runs that count, in an order drawn at random: of each round one pair of every treatment and
/// one in which nothing differs.
fn order(treatments: usize, pairs: u64, seed: u64) -> Vec<Next> {
    let rounds = usize::try_from(pairs).unwrap_or(usize::MAX);
    let mut counted = vec![0_u64; treatments + 1];
    let plans = pair_order(treatments + 1, rounds, seed).into_iter();
    plans
        .flat_map(|plan| {
            let pair = counted[plan.knob];
            counted[plan.knob] += 1;
            [plan.on_first, !plan.on_first].map(|with| Next {
                treatment: (plan.knob < treatments).then_some(plan.knob),
                pair,
                with,
            })
        })
        .collect()
}

struct Making<'m> {
    plan: &'m CostPlan,
    directory: &'m RunDirectory,
    progress: &'m mut dyn Observer,
    switching: Switching,
    ends: &'m dyn Fn() -> bool,
    /// Set when punctual goes on after a stop.
    continued: Arc<AtomicBool>,
    begun: Instant,
    saved: Instant,
    machine: usize,
    record: Cost,
}

impl Making<'_> {
    /// Makes all runs; false if a signal ended them.
    fn all(&mut self) -> Result<bool, CostError> {
        let work = &self.plan.work;
        let running = Running {
            program: &self.plan.program,
            prepare: work.prepare.as_deref(),
            output: self.plan.output.as_ref().and_then(|it| it.try_clone().ok()),
            limit: Duration::from_nanos(work.limit_ns),
            ends: self.ends,
        };
        // Across a reboot each machine makes the series in which nothing differs.
        let treatments = match self.record.is_across_reboot() {
            true => 0,
            false => self.plan.treatments.len(),
        };
        let nexts = order(treatments, work.pairs, work.seed ^ self.machine as u64);
        // After those without a treatment, a run with each finds out what is refused.
        let trials = (0..treatments).filter(|_| work.warm_ups > 0).map(Some);
        let plain = (0..work.warm_ups).map(|_| None);
        let warm_ups: Vec<Next> = plain
            .chain(trials)
            .map(|treatment| Next {
                treatment,
                pair: 0,
                with: true,
            })
            .collect();
        let all = (warm_ups.len() + nexts.len()) as u64;
        let mut done = 0;
        for warm_up in warm_ups {
            if self.one(&running, warm_up)?.is_none() {
                return Ok(false);
            }
            done += 1;
            self.progress.observe(Observed::Ran(done, all, None));
        }
        let counted = Instant::now();
        for (at, next) in nexts.iter().enumerate() {
            let Some(run) = self.one(&running, *next)? else {
                return Ok(false);
            };
            self.record.runs.push(run);
            done += 1;
            let left = nexts.len() - at - 1;
            let each = counted.elapsed().div_f64((at + 1) as f64);
            let left = Some(each.mul_f64(left as f64));
            self.progress.observe(Observed::Ran(done, all, left));
            if self.machine == 0 && self.saved.elapsed() > SAVED_EVERY {
                self.saved = Instant::now();
                self.save()?;
            }
        }
        Ok(true)
    }

    /// Makes a run, and again one during which punctual was stopped: its probe, and what it starts
    /// and ends, was stopped with it.
    fn one(&mut self, running: &Running<'_>, next: Next) -> Result<Option<CostRun>, CostError> {
        loop {
            self.continued.store(false, Ordering::Relaxed);
            let run = self.once(running, next)?;
            if run.is_none() || !self.continued.load(Ordering::Relaxed) {
                return Ok(run);
            }
        }
    }

    fn once(&mut self, running: &Running<'_>, next: Next) -> Result<Option<CostRun>, CostError> {
        if (self.ends)() || !running.prepare()? {
            return Ok(None);
        }
        let treatment = next.treatment.filter(|_| next.with);
        let parts = treatment.map_or(&[][..], |at| &self.plan.treatments[at].parts);
        self.switching.set(treatment)?;
        let job = self.job(parts);
        let load = parts.iter().find_map(|part| match part {
            CostPart::RtLoad {
                utilisation,
                cpus,
                priority,
                period_ns,
            } => Some(RtLoad::begin(cpus, *priority, *period_ns, *utilisation)),
            _ => None,
        });
        let load = load.transpose()?;
        let mut probe = self.probe(next)?;
        let at_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ran = running.run(&job, &mut || {
            if let Some(probe) = &mut probe {
                probe.collect();
            }
        });
        let load = load.map(RtLoad::end).transpose()?;
        let answer = match ran? {
            Ran::Stopped => return Ok(None),
            Ran::Answer(answer) => answer,
        };
        let (started_ns, usage, status, left) = self.ended(running, answer)?;
        let wake_ups = probe.map(|probe| probe.end(started_ns, usage.elapsed_ns));
        Ok(Some(CostRun {
            treatment: next.treatment,
            pair: next.pair,
            with: next.with,
            machine: self.machine,
            at_ns,
            usage,
            status,
            left,
            load,
            wake_ups,
        }))
    }

    fn job(&self, parts: &[CostPart]) -> RunJob {
        let mut job = RunJob::default();
        for part in parts {
            match part {
                CostPart::Priority { priority } => job.priority = Some(*priority),
                CostPart::Locked {} => job.locked = true,
                CostPart::Isolate { cpus } => {
                    let left = self.plan.cpus.iter().filter(|cpu| !cpus.contains(cpu));
                    job.cpus = left.copied().collect();
                }
                CostPart::RtLoad { .. }
                | CostPart::Preempt { .. }
                | CostPart::Reboot {}
                | CostPart::Kernel { .. } => {}
            }
        }
        job
    }

    /// The probe of a run. Where the treatment is the command's own priority, it waits as the
    /// command would: without a priority, and just above the command, which would delay it else.
    fn probe(&self, next: Next) -> Result<Option<Beside>, CostError> {
        let Some(probe) = &self.plan.probe else {
            return Ok(None);
        };
        let treatment = next.treatment.map(|at| &self.plan.treatments[at]);
        let priority = treatment.into_iter().flat_map(|it| &it.parts);
        let mut priority = priority.filter_map(|part| match part {
            CostPart::Priority { priority } => Some(*priority),
            _ => None,
        });
        let policy = match (priority.next(), next.with) {
            (None, _) => Policy::Fifo(probe.priority),
            (Some(_), false) => Policy::Other,
            (Some(priority), true) => Policy::Fifo((priority + 1).min(99)),
        };
        let seed = self.plan.work.seed ^ next.pair;
        Beside::begin(probe.cpu, policy, probe.interval_ns, seed).map(Some)
    }

    fn ended(
        &mut self,
        running: &Running<'_>,
        answer: RunAnswer,
    ) -> Result<(u64, punctual_stats::cost::Usage, i32, usize), CostError> {
        match answer {
            RunAnswer::Refused { line, status } => Err(CostError::Refused { line, status }),
            RunAnswer::Ended {
                signal: Some(signal),
                ..
            } => Err(CostError::Signal {
                program: running.name(),
                signal,
            }),
            RunAnswer::Ended {
                started_ns,
                usage,
                status,
                left,
                no_instructions,
                ..
            } => {
                let status = status.unwrap_or(0);
                if status != 0 && !self.plan.work.accepts_failure {
                    return Err(CostError::Status {
                        program: running.name(),
                        status,
                        is_kept: self.plan.output.is_some(),
                    });
                }
                self.record.no_instructions = no_instructions;
                Ok((started_ns, usage, status, left))
            }
        }
    }

    fn save(&mut self) -> Result<(), CostError> {
        save(&self.record, self.directory)
    }
}

/// Saves a record.
///
/// # Errors
/// Why not.
pub fn save(record: &Cost, directory: &RunDirectory) -> Result<(), CostError> {
    directory
        .save(record)
        .map_err(|error| CostError::Unsaved(error.to_string()))
}

/// Settings of the machine that treatments switch, through the journal.
#[derive(Default)]
struct Switching {
    session: Option<Session>,
    /// The change of each treatment, by its place in the session.
    changes: Vec<Option<usize>>,
}

impl Switching {
    fn begin(plan: &CostPlan) -> Result<Self, CostError> {
        let mut changes = Vec::new();
        let mut places = Vec::new();
        for treatment in &plan.treatments {
            let mode = treatment.parts.iter().find_map(|part| match part {
                CostPart::Preempt { mode, .. } => Some(mode),
                _ => None,
            });
            places.push(mode.map(|_| changes.len()));
            if let Some(mode) = mode {
                let (setting, value) = setting_of_file(PREEMPT_FILE, mode);
                changes.push(Change {
                    knob: Knob::File(PREEMPT_FILE.to_owned()),
                    setting,
                    value,
                });
            }
        }
        if changes.is_empty() {
            return Ok(Self::default());
        }
        let journal = Journal::open(&plan.state).map_err(CostError::Switch)?;
        let session = Session::begin(journal, &changes).map_err(CostError::Switch)?;
        Ok(Self {
            session: Some(session),
            changes: places,
        })
    }

    /// Leaves on what the treatment has, and nothing else.
    fn set(&mut self, treatment: Option<usize>) -> Result<(), CostError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let wanted = treatment.and_then(|at| self.changes[at]);
        let others = self.changes.iter().flatten().copied();
        let others: Vec<usize> = others.filter(|change| Some(*change) != wanted).collect();
        session.switch(others, false).map_err(CostError::Switch)?;
        session.switch(wanted, true).map_err(CostError::Switch)
    }

    fn end(&mut self) -> Result<(), CostError> {
        match self.session.take() {
            Some(session) => session.end().map_err(CostError::Switch),
            None => Ok(()),
        }
    }
}

/// The preemption model of this kernel.
///
/// # Errors
/// It can't be read, in one line.
pub fn preempt_mode() -> Result<String, String> {
    let (setting, _) = setting_of_file(PREEMPT_FILE, "");
    punctual_machine::tune::read(&setting).map_err(|error| {
        let hint = match Path::new("/sys/kernel/debug/sched").exists() {
            true => "",
            false => " (is debugfs mounted, and does the kernel have PREEMPT_DYNAMIC?)",
        };
        format!("{PREEMPT_FILE}: {error}{hint}")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_round_has_a_pair_of_each_treatment_and_one_in_which_nothing_differs() {
        let nexts = order(2, 12, 7);
        assert_eq!(nexts.len(), 12 * 3 * 2);
        let mut first_with = 0;
        for round in nexts.chunks(6) {
            let mut seen = BTreeMap::new();
            for two in round.chunks(2) {
                assert_eq!(
                    (two[0].treatment, two[0].pair),
                    (two[1].treatment, two[1].pair)
                );
                assert_ne!(two[0].with, two[1].with);
                first_with += u32::from(two[0].with);
                seen.insert(two[0].treatment, two[0].pair);
            }
            let keys: Vec<Option<usize>> = seen.keys().copied().collect();
            assert_eq!(keys, [None, Some(0), Some(1)]);
        }
        // Which comes first is drawn: of 36 coins some fall on each side.
        assert!((6..30).contains(&first_with), "{first_with}");
    }

    #[test]
    fn this_machine_does_not_differ_from_itself() {
        let mut machine = this_machine();
        assert!(machine.differences(&machine).is_empty());
        assert!(!machine.kernel.is_empty() && !machine.cpus.is_empty());
        let before = machine.clone();
        machine.boot_id = "another".to_owned();
        assert!(before.differences(&machine).is_empty());
        machine.settings.insert("/x".to_owned(), "1".to_owned());
        let differs = before.differences(&machine);
        assert_eq!(differs.len(), 1);
        assert_eq!(differs[0].name, "/x");
    }
}
