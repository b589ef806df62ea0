//! A whole fit with runs that are made up, on a machine whose settings are files: what is changed,
//! and restored, is real.

use punctual_record::document::Printed;
use punctual_record::fit::Fit;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_load::{LoadClass, LoadSpec};
use punctual_machine::tune::{RestoreRequest, Session, restore, status};
use punctual_record::explanation::{Cause, Explanation, Ranked};
use punctual_record::finding::{Check, Fault, Finding, FindingFix, FindingState};
use punctual_record::tuning::Applied;
use punctual_record::{Document, Interval, Placement, SystemState};
use punctual_rt::sched::Policy;
use punctual_stats::experiment::{KnobConclusion, KnobResult};
use punctual_stats::verdict::{Outcome, Verdict};
use tempfile::TempDir;

use super::*;
use crate::conduct::compose::empty;
use crate::conduct::{Claim, ConditionsPlan, LoadPlan, ProbePlan, TracingPlan};
use crate::probe::kinds::KINDS;
use punctual_machine::tune::TuneError;

const MINUTE: u64 = 60_000_000_000;

/// Both help; the deadline is met with the first alone.
const KNOBS: [FindingId; 2] = [FindingId::Compaction, FindingId::Ksm];

fn plan(folder: &Path) -> FitPlan {
    let qualify = RunPlan {
        verb: "qualify".to_owned(),
        command: Vec::new(),
        probes: ProbePlan {
            kind: KINDS[0],
            gaps: None,
            interval: Interval::Fixed {
                interval_ns: 1_000_000,
            },
            cpus: vec![0],
            policy: Policy::Other,
            loops: None,
            break_ns: None,
        },
        placement: Placement::default(),
        duration_ns: Some(MINUTE),
        load: LoadPlan {
            spec: LoadSpec::None,
            class: LoadClass::Other,
            cpus: Vec::new(),
            least_cpu_ns: 0,
        },
        claim: Claim {
            requirements: Vec::new(),
            confidence: 0.95,
        },
        conditions: ConditionsPlan {
            as_deployed: true,
            lock_memory: false,
            best_effort: false,
            measure_unmet: false,
        },
        tracing: TracingPlan {
            explain: true,
            above_ns: None,
            stack_above_ns: None,
        },
        tune: None,
        check: false,
        samples: false,
        cross_check: false,
        output: None,
    };
    FitPlan {
        qualify,
        qualify_ns: MINUTE,
        deadline_ns: 50_000,
        experiment: Experiment::planned(1, 5, 1, 0.95),
        pilot_ns: MINUTE,
        budget_ns: 120 * MINUTE,
        keeps: true,
        state: folder.join("state"),
    }
}

fn place(folder: &Path, knob: FindingId) -> String {
    folder.join(knob.name()).display().to_string()
}

fn value(folder: &Path, knob: FindingId) -> String {
    let text = fs::read_to_string(place(folder, knob)).expect("a setting");
    text.trim().to_owned()
}

/// Two knobs whose settings are files that hold 1, and one that only a boot parameter turns.
fn machine() -> (TempDir, Check) {
    let folder = TempDir::new().expect("a folder");
    let bad = |id, fix| Finding {
        id,
        state: FindingState::Bad {
            fault: Fault::Above(0),
        },
        readings: Vec::new(),
        fixes: vec![fix],
    };
    let mut findings = vec![bad(
        FindingId::NohzFull,
        FindingFix::Boot {
            parameter: "nohz_full=1".to_owned(),
        },
    )];
    for knob in KNOBS {
        let path = place(folder.path(), knob);
        fs::write(&path, "1\n").expect("a setting");
        let value = "0".to_owned();
        findings.push(bad(knob, FindingFix::Write { path, value }));
    }
    let check = Check {
        version: Check::VERSION,
        hostname: "box".to_owned(),
        kernel: "6.1".to_owned(),
        cpus: vec![1],
        every_cpu: false,
        priority: Check::PRIORITY,
        findings,
    };
    (folder, check)
}

/// What runs would find.
struct MadeUp<'m> {
    plan: &'m FitPlan,
    check: &'m Check,
    folder: &'m Path,
    /// Another program writes this to the first knob's file while it is on.
    meddles: Option<&'static str>,
    /// How an experiment ends.
    ends: ExperimentOutcome,
    /// A signal that comes after the experiment has ended.
    signal: Option<&'m AtomicBool>,
}

impl MadeUp<'_> {
    fn run(&self) -> Run {
        let plan = &self.plan.qualify;
        let system = SystemState::default();
        empty("qualify", Vec::new(), plan.request(), String::new(), system)
    }
}

impl Steps for MadeUp<'_> {
    fn qualify(&self, _: &str, on: &[FindingId], _: &mut dyn Observer) -> Result<Run, FitError> {
        // No names stand for all bad findings.
        let changes = match on.is_empty() {
            true => Vec::new(),
            false => changes_of(self.check, on),
        };
        let journal = Journal::open(&self.plan.state).expect("a journal");
        let mut session = Session::begin(journal, &changes).expect("a session");
        session.switch(0..changes.len(), true).expect("on");
        let passes = value(self.folder, KNOBS[0]) == "0";
        if let (Some(text), false) = (self.meddles, on.is_empty()) {
            fs::write(place(self.folder, KNOBS[0]), text).expect("another program");
        }
        let ended = session.end();
        assert_eq!(
            matches!(ended, Err(TuneError::Conflict { .. })),
            self.meddles.is_some() && !on.is_empty()
        );
        let mut run = self.run();
        run.verdict = Some(Verdict {
            outcome: if passes { Outcome::Pass } else { Outcome::Fail },
            invalid: Vec::new(),
            requirements: Vec::new(),
            lengths: Vec::new(),
            tasks: Vec::new(),
            needed_seconds: None,
            confidence: 0.95,
        });
        let ranked = |cause, total_ns| Ranked {
            cause,
            count: 3,
            total_ns,
            tail_ns: total_ns,
            worst_ns: total_ns / 2,
        };
        // A page fault asks for compaction, ksm and others; the tick for nohz_full.
        let vector = "local timer".to_owned();
        run.explanation = Some(Explanation {
            ranking: vec![
                ranked(Cause::CpuInterrupt { vector }, 9_000),
                ranked(Cause::Fault, 5_000),
                ranked(Cause::Steal, 70),
            ],
            ..Explanation::default()
        });
        Ok(run)
    }

    fn prove(
        &self,
        _: &str,
        knobs: &[FindingId],
        _: u64,
        _: &mut dyn Observer,
    ) -> Result<Run, FitError> {
        assert_eq!(knobs, KNOBS);
        let mut run = self.run();
        let mut experiment = self.plan.experiment.clone();
        let result = |conclusion| KnobResult {
            pairs: 12,
            effects: Vec::new(),
            conclusion,
        };
        experiment.results = vec![
            result(KnobConclusion::Helps),
            result(KnobConclusion::Helps),
            result(KnobConclusion::NoEffectShown),
        ];
        experiment.outcome = self.ends.clone();
        run.experiment = Some(experiment);
        if let Some(signal) = self.signal {
            signal.store(true, Ordering::Relaxed);
        }
        Ok(run)
    }
}

/// Shows nothing.
struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _: Observed<'_>) {}
}

/// A fit with these runs.
fn made(
    folder: &Path,
    check: &Check,
    meddles: Option<&'static str>,
    ends: ExperimentOutcome,
) -> Result<Fit, FitError> {
    made_until(folder, check, meddles, ends, None)
}

/// The same, with a signal after the experiment.
fn made_until(
    folder: &Path,
    check: &Check,
    meddles: Option<&'static str>,
    ends: ExperimentOutcome,
    signal: Option<&AtomicBool>,
) -> Result<Fit, FitError> {
    let plan = plan(folder);
    let output = folder.join("fit");
    let directory = RunDirectory::create(Some(&output), "fit", SystemTime::now()).expect("it");
    let steps = MadeUp {
        plan: &plan,
        check,
        folder,
        meddles,
        ends,
        signal,
    };
    Fitting {
        plan: &plan,
        check,
        directory: &directory,
        progress: &mut Silent,
        is_ended: &|| signal.is_some_and(|it| it.load(Ordering::Relaxed)),
        fit: begun(&plan, check),
    }
    .make(&steps)
}

#[test]
fn one_restore_undoes_all_that_a_fit_keeps() {
    let (folder, check) = machine();
    let folder = folder.path();
    let fit = made(folder, &check, None, ExperimentOutcome::Complete).expect("made");
    let met = FitOutcome::Met {
        knobs: vec![KNOBS[0]],
        untried: Vec::new(),
    };
    assert_eq!(fit.outcome, Some(met));
    // As it was, the experiment, with both; then without one of them.
    let steps = fit.steps.iter().map(|it| it.directory.as_str());
    let steps: Vec<&str> = steps.collect();
    assert_eq!(steps[..3], ["01-qualify", "02-prove", "03-qualify"]);
    assert_eq!(KNOBS.map(|knob| value(folder, knob)), ["0", "1"]);
    assert_eq!(fit.kept.len(), 1);
    let saved = Fit::read(&folder.join("fit")).expect("saved");
    assert_eq!(saved, fit);
    // The boot parameter was not tried, and is named with what its causes cost.
    let boot = FitBoot {
        knob: FindingId::NohzFull,
        parameter: "nohz_full=1".to_owned(),
        total_ns: 9_000,
        worst_ns: 4_500,
    };
    assert_eq!(fit.untried_boot, [boot]);
    let mut journal = Journal::open(&folder.join("state")).expect("a journal");
    assert!(matches!(status(&journal)[..], [(_, Applied::Ours(_))]));
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
    assert_eq!(KNOBS.map(|knob| value(folder, knob)), ["1", "1"]);
    assert!(!Journal::is_in(&folder.join("state")));
}

#[test]
fn a_step_that_could_not_restore_ends_the_fit_and_names_what_is_left() {
    let (folder, check) = machine();
    let folder = folder.path();
    let ended = made(folder, &check, Some("7\n"), ExperimentOutcome::Complete);
    let error = ended.expect_err("it is left changed");
    let FitError::LeftChanged(left) = &error else {
        panic!("{error}");
    };
    assert_eq!(left.len(), 1, "{left:?}");
    let text = error.to_string();
    for says in ["compaction (it was `1`)", "tune restore --force"] {
        assert!(text.contains(says), "{text}");
    }
    // The value of the other program stays; what the user does then restores the original.
    assert_eq!(KNOBS.map(|knob| value(folder, knob)), ["7", "1"]);
    let mut journal = Journal::open(&folder.join("state")).expect("a journal");
    let forced = RestoreRequest {
        force: true,
        ..RestoreRequest::default()
    };
    restore(&mut journal, &forced).expect("restored");
    assert_eq!(KNOBS.map(|knob| value(folder, knob)), ["1", "1"]);
    // The steps so far are saved, without an outcome.
    let fit = Fit::read(&folder.join("fit")).expect("saved");
    assert_eq!((fit.steps.len(), fit.outcome), (2, None));
}

#[test]
fn an_experiment_that_could_not_switch_is_not_taken_for_one_without_effect() {
    let (folder, check) = machine();
    let failed = ExperimentOutcome::Failed {
        error: "the kernel refuses".to_owned(),
    };
    let error = made(folder.path(), &check, None, failed).expect_err("not switched");
    assert!(matches!(error, FitError::NotSwitched(_)), "{error}");
    let (folder, check) = machine();
    let fit = made(folder.path(), &check, None, ExperimentOutcome::NoSpread).expect("it ends");
    assert_eq!(fit.outcome, Some(FitOutcome::TooLittleEvidence));
}

#[test]
fn a_signal_between_two_steps_ends_the_fit_before_the_next() {
    let (folder, check) = machine();
    let folder = folder.path();
    let signal = AtomicBool::new(false);
    let fit = made_until(
        folder,
        &check,
        None,
        ExperimentOutcome::Complete,
        Some(&signal),
    );
    let fit = fit.expect("it ends");
    assert_eq!(fit.outcome, Some(FitOutcome::Stopped));
    let steps = fit.steps.iter().map(|it| it.directory.as_str());
    assert_eq!(steps.collect::<Vec<_>>(), ["01-qualify", "02-prove"]);
    assert_eq!(KNOBS.map(|knob| value(folder, knob)), ["1", "1"]);
    let journal = Journal::open(&folder.join("state")).expect("a journal");
    assert!(status(&journal).is_empty());
    let saved = Fit::read(&folder.join("fit")).expect("saved");
    assert_eq!(saved, fit);
}
