//! `fit`: find what delays, change it, prove that it helped, keep the smallest set.

use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use punctual_machine::tune::{Journal, apply, changes_of};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::experiment::ExcessLimit;
use punctual_record::finding::{Check, FindingId, StateKind};
use punctual_record::fit::{FIT_FILE, FIT_VERSION, Fit, FitOutcome, FitStep, FitWork, KeptSetting};
use punctual_record::remedy::BillsAsk;
use punctual_record::tuning::{Change, Knob};
use punctual_record::{Run, RunDirectory, State, time};
use punctual_report::fit as words;

use super::failure::{Failure, SETUP};
use super::flags::FitFlags;
use super::measuring::{make_directory, settled};
use super::plan::fit::{self as plans, FitPlans};
use super::screen::Screen;
use super::{out, prove};
use crate::conduct::fit::{FitCourse, FitLengths, FitNext};
use crate::conduct::{self, TunePlan};

/// What a step takes beside its measurement: loads that start and end, the analysis.
const AROUND_NS: u64 = 20_000_000_000;
/// The page of a fit in its directory.
const PAGE: &str = "fit.html";

/// A fit under way.
struct Fitting<'f> {
    flags: &'f FitFlags,
    plans: FitPlans,
    directory: RunDirectory,
    fit: Fit,
    /// The machine before anything was changed.
    check: Check,
}

/// Makes all steps, and shows what they found.
///
/// # Errors
/// Wrong usage, or a step that could not be made; then everything is restored.
pub fn run(flags: &FitFlags) -> Result<ExitCode, Failure> {
    let plans = plans::of_fit(flags)?;
    let root = Root::live();
    let probes = &plans.qualify.probes;
    let request = CheckRequest::of_probes(&root, &probes.cpus, probes.policy.priority());
    let check = check(&root, &request);
    let directory = make_directory(flags.run.output.as_deref(), "fit")?;
    let fit = Fit {
        version: FIT_VERSION,
        tool: conduct::this_tool(),
        command: plans.qualify.command.clone(),
        hostname: check.hostname.clone(),
        kernel: check.kernel.clone(),
        started: time::rfc3339(SystemTime::now()),
        deadline_ns: plans.deadline_ns,
        load: plans.qualify.load.spec.label(),
        cpus: probes.cpus.clone(),
        tuned_for: check.cpus.clone(),
        priority: probes.policy.priority(),
        budget_ns: flags.budget,
        steps: Vec::new(),
        obstacles: Vec::new(),
        kept: Vec::new(),
        outcome: None,
    };
    let mut fitting = Fitting {
        flags,
        plans,
        directory,
        fit,
        check,
    };
    let outcome = fitting.until_over();
    if fitting.fit.steps.is_empty() {
        fitting.directory.discard_if_empty();
    }
    let outcome = outcome?;
    if let (FitOutcome::Met { knobs, .. }, false) = (&outcome, flags.no_keep) {
        fitting.keep(knobs)?;
    }
    fitting.fit.outcome = Some(outcome);
    fitting.save();
    fitting.show()
}

impl Fitting<'_> {
    fn until_over(&mut self) -> Result<FitOutcome, Failure> {
        let lengths = FitLengths {
            budget_ns: self.flags.budget,
            qualify_ns: self.plans.qualify_ns.saturating_add(AROUND_NS),
            least_prove_ns: self.plans.least_prove_ns,
        };
        let begun = Instant::now();
        let elapsed =
            |begun: Instant| u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (mut course, mut next) = FitCourse::begin(lengths);
        loop {
            let step = Instant::now();
            let name = format!("{:02}", self.fit.steps.len() + 1);
            let (directory, run, what) = match &next {
                FitNext::Over(outcome) => return Ok(outcome.clone()),
                FitNext::Qualify(on) => {
                    self.say(&words::qualifying(on));
                    let directory = format!("{name}-qualify");
                    let run = self.qualify(&directory, on)?;
                    let ask = BillsAsk::of(&run, Some(&self.check)).unwrap_or_default();
                    self.fit.obstacles = Fit::obstacles_of(&ask);
                    let asked = self.turnable(&ask);
                    let what = FitWork::qualified(&run, on.clone(), asked);
                    (directory, run, what)
                }
                FitNext::Prove(knobs, within_ns) => {
                    self.say(&words::proving(knobs, *within_ns));
                    let directory = format!("{name}-prove");
                    let run = self.prove(&directory, knobs, *within_ns)?;
                    let what = FitWork::proven(&run, knobs);
                    (directory, run, what)
                }
            };
            let is_stopped = matches!(run.state, State::Stopped(_));
            next = course.next(&what, elapsed(begun));
            let done = FitStep {
                directory,
                what,
                length_ns: elapsed(step),
            };
            self.say(&words::done(&done));
            self.fit.steps.push(done);
            self.save();
            if is_stopped {
                return Ok(FitOutcome::Stopped);
            }
        }
    }

    /// The knobs that bills ask for, and that are bad and can be turned on the running machine.
    fn turnable(&self, ask: &BillsAsk) -> Vec<FindingId> {
        let is_turnable = |knob: &FindingId| {
            let finding = self.check.finding(*knob);
            let is_bad = finding.is_some_and(|it| it.state.kind() == StateKind::Bad);
            is_bad && !changes_of(&self.check, &[*knob]).is_empty()
        };
        ask.knobs().into_iter().filter(is_turnable).collect()
    }

    fn qualify(&self, name: &str, on: &[FindingId]) -> Result<Run, Failure> {
        let mut plan = self.plans.qualify.clone();
        plan.output = Some(self.directory.path().join(name));
        if !on.is_empty() {
            plan.tune = Some(TunePlan {
                changes: changes_of(&self.check, on),
                is_named: true,
                state: self.flags.run.state().to_owned(),
            });
        }
        let directory = make_directory(plan.output.as_deref(), &plan.verb)?;
        let mut screen = Screen::of_run(&self.flags.run);
        let outcome = conduct::run(&plan, &directory, &mut screen);
        let run = settled(outcome, &mut screen, &directory)?;
        if screen.has_left_changed {
            return Err(Failure::setup(
                "a step could not restore every setting: punctual tune status shows them",
            ));
        }
        Ok(run)
    }

    fn prove(&self, name: &str, knobs: &[FindingId], within_ns: u64) -> Result<Run, Failure> {
        let mut plan = self.plans.qualify.clone();
        plan.verb = "prove".to_owned();
        plan.check = false;
        plan.output = Some(self.directory.path().join(name));
        plan.claim.requirements.clear();
        let mut experiment = self.plans.experiment.clone();
        experiment.budget_ns = within_ns.saturating_sub(AROUND_NS);
        experiment.limit = Some(ExcessLimit {
            ns: self.fit.deadline_ns,
            is_deadline: true,
        });
        plan.duration_ns = Some(experiment.budget_ns.saturating_add(experiment.slot_ns()));
        plan.tracing.above_ns = plan.tracing.above_ns.or(Some(self.fit.deadline_ns));
        let chosen = prove::of_findings(&self.check, knobs)?;
        let trial = prove::Trial {
            plan: &plan,
            state: self.flags.run.state(),
            pilot_ns: self.plans.pilot_ns,
            is_screened: knobs.len() > prove::SCREENED_FROM,
            experiment,
        };
        let mut screen = Screen::of_run(&self.flags.run);
        let (run, _) = prove::make(trial, chosen, &mut screen)?;
        Ok(run)
    }

    /// Makes the changes that stay, and writes what makes them again after a reboot.
    fn keep(&mut self, knobs: &[FindingId]) -> Result<(), Failure> {
        let changes = changes_of(&self.check, knobs);
        let mut journal = Journal::open(self.flags.run.state()).map_err(Failure::setup)?;
        apply(&mut journal, &changes).map_err(Failure::setup)?;
        self.fit.kept = changes.into_iter().filter_map(kept).collect();
        for (name, text) in words::persistent(&self.fit, self.flags.run.state()) {
            // The directory keeps any error.
            let _ = self.directory.save_file(name, text.as_bytes());
        }
        Ok(())
    }

    fn save(&self) {
        let text = serde_json::to_string_pretty(&self.fit).unwrap_or_default();
        let _ = self.directory.save_file(FIT_FILE, text.as_bytes());
        let _ = self
            .directory
            .save_file(PAGE, words::page(&self.fit).as_bytes());
    }

    /// One line of progress.
    fn say(&self, line: &str) {
        if !self.flags.run.quiet && !self.flags.run.json {
            out::print(&format!("{line}\n"));
        }
    }

    fn show(&self) -> Result<ExitCode, Failure> {
        let flags = &self.flags.run;
        if flags.json {
            let text = serde_json::to_string_pretty(&self.fit).map_err(Failure::setup)?;
            out::print(&format!("{text}\n"));
        } else if flags.quiet {
            out::print(&(words::sentence(&self.fit) + "\n"));
        } else {
            let page = self.directory.path().join(PAGE);
            let style = out::style().with_report(page.display().to_string());
            out::print(&words::summary(&self.fit, &style));
        }
        let unsaved = self.directory.unsaved();
        for it in &unsaved {
            out::complain(&punctual_report::facts::unsaved(it));
        }
        Ok(match &self.fit.outcome {
            Some(outcome) if unsaved.is_empty() => ExitCode::from(outcome.verdict().exit_code()),
            _ => ExitCode::from(SETUP),
        })
    }
}

/// A change as the record keeps it: all of a fit are those of findings.
fn kept(change: Change) -> Option<KeptSetting> {
    match change.knob {
        Knob::Finding(knob) => Some(KeptSetting {
            knob,
            setting: change.setting,
            value: change.value,
        }),
        Knob::File(_) | Knob::Control => None,
    }
}
