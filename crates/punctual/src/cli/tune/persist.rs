//! `tune persist`: files that make what `apply` has changed again at each boot.

use std::path::Path;
use std::process::ExitCode;

use punctual_machine::Root;
use punctual_machine::tune::{InForce, Journal, LeftOut, in_force, persist};
use punctual_record::fit::Fit;
use punctual_report::persistent::{Persistence, PersistentFile, files};
use punctual_report::tuning;

use super::super::failure::Failure;
use super::super::flags::PersistFlags;
use super::super::out;
use super::named_cpus;

/// Writes the files where the system reads them.
pub(super) fn run(flags: &PersistFlags) -> Result<ExitCode, Failure> {
    let folder = &flags.state.state;
    let style = out::style();
    if !Journal::is_in(folder) {
        out::print(&tuning::persisted(&[], &[], "", &style));
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::open(folder).map_err(Failure::setup)?;
    let InForce { kept, left_out } = in_force(&journal, &flags.knobs);
    let mut knobs: Vec<String> = Vec::new();
    for it in &kept {
        if !knobs.iter().any(|name| name == it.knob.name()) {
            knobs.push(it.knob.name().to_owned());
        }
    }
    for (entry, why) in &left_out {
        let why = match why {
            LeftOut::Changed => "another program changed it since",
            LeftOut::OtherNamespace => {
                "it belongs to another network namespace: set it where that one is made"
            }
            LeftOut::UnknownNamespace => {
                "which network namespace the system begins with can't be read here"
            }
            LeftOut::OfThread => {
                "its thread has another number after a reboot: set it in the program, or in its \
                 unit (CPUSchedulingPolicy=, CPUSchedulingPriority=, CPUAffinity=)"
            }
            LeftOut::OfGroup => {
                "its control group is made anew at each boot: set it in the unit (CPUQuota=, \
                 AllowedCPUs=, CPUWeight=) or container that has it"
            }
            LeftOut::OfInterrupt => {
                "its interrupt may have another number after a reboot: apply irq-affinity, which \
                 looks for the interrupts anew, or set it where its device is added"
            }
            LeftOut::Unreadable(why) => why,
        };
        out::complain(&format!(
            "{}: {} is left out: {why}",
            entry.knob, entry.setting
        ));
    }
    if let Some(absent) = flags.knobs.iter().find(|knob| !knobs.contains(knob)) {
        return Err(
            match left_out.iter().any(|(entry, _)| entry.knob == *absent) {
                true => Failure::setup(format!("{absent} was left out: nothing is installed")),
                false => Failure::usage(format!(
                    "{absent} is not changed by punctual now: punctual tune apply {absent} first"
                )),
            },
        );
    }
    if knobs.is_empty() {
        out::print(&tuning::persisted(&[], &[], "", &style));
        return Ok(ExitCode::SUCCESS);
    }
    let cpus = named_cpus(&Root::live(), flags.affinity.as_ref())?.unwrap_or_default();
    // The unit runs elsewhere: a relative directory means nothing there.
    let state = std::path::absolute(folder).map_err(Failure::setup)?;
    let files = files(&Persistence {
        kept: &kept,
        cpus: &cpus,
        priority: flags.priority,
        program: &program(),
        state: &state,
    });
    let texts = files
        .iter()
        .map(|file| (file.place.to_owned(), file.installed()));
    let texts: Vec<(String, Option<String>)> = texts.collect();
    let written = persist(&mut journal, &texts, &knobs).map_err(Failure::setup)?;
    let place = journal.path().display().to_string();
    out::print(&tuning::persisted(&written, &knobs, &place, &style));
    Ok(ExitCode::SUCCESS)
}

/// Names and texts of the files that make what a fit keeps again.
pub fn to_copy(fit: &Fit, state: &Path) -> Vec<(&'static str, String)> {
    let files = files(&Persistence {
        kept: &fit.changes(),
        cpus: &fit.tuned_for,
        priority: (fit.priority > 0).then_some(fit.priority),
        program: &program(),
        state: &std::path::absolute(state).unwrap_or_else(|_| state.to_owned()),
    });
    let text = |file: PersistentFile| Some((file.name, file.to_copy()?));
    files.into_iter().filter_map(text).collect()
}

/// This program, by its path: a unit has no search path of a shell.
fn program() -> String {
    let path = std::env::current_exe().ok();
    path.map_or_else(|| "punctual".to_owned(), |it| it.display().to_string())
}
