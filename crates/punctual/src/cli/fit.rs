//! `fit`: find what delays, change it, prove that it helped, keep the smallest set.

use std::process::ExitCode;

use punctual_record::{Run, Unsaved};
use punctual_report::fit as words;

use super::failure::Failure;
use super::flags::{FitFlags, RunFlags};
use super::measuring::{end, failed, make_directory, save_page};
use super::plan::fit as plans;
use super::screen::Screen;
use super::{out, tune};
use crate::conduct::fit::{FitError, FitNext, fit};
use crate::conduct::{ConductError, Observed, Observer};

/// Makes all steps, and shows what they found.
///
/// # Errors
/// Wrong usage, or a step that could not be made; then everything is restored.
pub fn run(flags: &FitFlags) -> Result<ExitCode, Failure> {
    let plan = plans::of_fit(flags)?;
    let probes = &plan.qualify.probes;
    let check = tune::found_for(&probes.cpus, probes.policy.priority());
    let directory = make_directory(flags.run.output.as_deref(), "fit")?;
    let mut screen = FitScreen {
        flags: &flags.run,
        screen: Screen::of_run(&flags.run),
    };
    let made = fit(&plan, &check, &directory, &mut screen);
    screen.screen.clear();
    directory.discard_if_empty();
    let made = made.map_err(of_fit)?;
    for (name, text) in tune::persist::to_copy(&made, flags.run.state()) {
        // The directory keeps any error.
        let _ = directory.save_file(name, text.as_bytes());
    }
    Ok(end(&made, (flags.run.json, flags.run.quiet), &directory))
}

fn of_fit(error: FitError) -> Failure {
    match error {
        FitError::Run(ConductError::Tune(error)) => Failure::setup(error),
        FitError::Run(error) => failed(error),
        error => Failure::setup(error),
    }
}

/// The display of a fit: a line before and after each step, and that of its run between them.
struct FitScreen<'f> {
    flags: &'f RunFlags,
    screen: Screen,
}

impl FitScreen<'_> {
    fn say(&self, line: &str) {
        if !self.flags.quiet && !self.flags.json {
            out::print(&format!("{line}\n"));
        }
    }
}

impl Observer for FitScreen<'_> {
    fn looks(&self) -> bool {
        self.screen.looks()
    }

    fn observe(&mut self, event: Observed<'_>) {
        match event {
            Observed::FitBegins(next) => {
                match next {
                    FitNext::Qualify(on) => self.say(&words::qualifying(on)),
                    FitNext::Prove(knobs, within_ns) => {
                        self.say(&words::proving(knobs, *within_ns));
                    }
                    FitNext::Over(_) => {}
                }
                self.screen = Screen::of_run(self.flags);
            }
            Observed::FitDone(step) => {
                self.screen.clear();
                self.say(&words::done(step));
            }
            Observed::FitSaved(fit, directory) => {
                // The directory keeps any error.
                let _ = save_page(fit, directory);
            }
            of_run => self.screen.observe(of_run),
        }
    }

    fn publish(&mut self, run: &Run) -> Option<Unsaved> {
        self.screen.publish(run)
    }
}
