//! `tune`: changes settings with a journal, and restores them.

use std::path::Path;
use std::process::ExitCode;

use punctual_machine::tune::{Journal, RestoreRequest, apply, changes_of, restore, status};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::finding::{Check, FindingId, FindingState};
use punctual_record::tuning::{Change, Knob, Restored};
use punctual_report::{findings, tuning};

use super::check::requested_cpus;
use super::failure::Failure;
use super::flags::{KnobFlags, RestoreFlags, StateFlags, TuneAction, TuneFlags};
use super::out;
use super::proposals;

/// Exit status: not everything could be restored.
const LEFT: u8 = 1;

/// Plans, changes, shows or restores.
///
/// # Errors
/// One line that says what was changed, if anything.
pub fn run(flags: &TuneFlags) -> Result<ExitCode, Failure> {
    match &flags.action {
        TuneAction::Plan(flags) => {
            if let Some(run) = &flags.from {
                return proposals::plan(flags, run);
            }
            out::print(&tuning::plan(&planned(flags)?, &out::style()));
            Ok(ExitCode::SUCCESS)
        }
        TuneAction::Apply(flags) => apply_all(flags),
        TuneAction::Status(flags) => show(flags),
        TuneAction::Restore(flags) => restore_all(flags),
    }
}

/// The changes that the flags ask for.
fn planned(flags: &KnobFlags) -> Result<Vec<Change>, Failure> {
    let root = Root::live();
    let request = CheckRequest {
        cpus: named_cpus(&root, flags)?,
        priority: flags.priority.unwrap_or(KnobFlags::PRIORITY),
        ..CheckRequest::default()
    };
    let found = check(&root, &request);
    let changes = changes_of(&found, &flags.knobs);
    for knob in &flags.knobs {
        if !changes
            .iter()
            .any(|change| change.knob == Knob::Finding(*knob))
        {
            check_nothing_to_do(&found, *knob)?;
        }
    }
    Ok(changes)
}

/// The changes of one knob; an error if it can't be changed on a running machine.
pub(super) fn changes_for(found: &Check, knob: FindingId) -> Result<Vec<Change>, Failure> {
    let changes = changes_of(found, &[knob]);
    if changes.is_empty() {
        check_nothing_to_do(found, knob)?;
    }
    Ok(changes)
}

/// The CPUs of `-a`, if it names some: not every CPU.
pub(super) fn named_cpus(root: &Root, flags: &KnobFlags) -> Result<Option<Vec<usize>>, Failure> {
    let cpus = requested_cpus(root, flags.affinity.as_ref())?;
    let online = super::check::online(root);
    match &cpus {
        Some(cpus) if online.iter().all(|cpu| cpus.contains(cpu)) => Err(Failure::usage(
            "-a names every CPU: leave one for everything else, or name none",
        )),
        _ => Ok(cpus),
    }
}

/// A knob that was named and has nothing to change: fine if it is ok, an error else.
pub(super) fn check_nothing_to_do(found: &Check, knob: FindingId) -> Result<(), Failure> {
    let Some(finding) = found.finding(knob) else {
        return Ok(());
    };
    match finding.state {
        FindingState::Ok => Ok(()),
        FindingState::Bad { .. } | FindingState::Information { .. } => {
            let fixes = finding.fixes.iter();
            let fixes: Vec<String> = fixes.map(|fix| findings::command(finding, fix)).collect();
            let instead = if fixes.is_empty() {
                format!("see punctual check --explain {knob}")
            } else {
                fixes.join("; or ")
            };
            Err(Failure::usage(format!(
                "{knob} can't be changed on a running machine: {instead}"
            )))
        }
        FindingState::Unknown { .. } | FindingState::NotApplicable { .. } => {
            Err(Failure::usage(format!(
                "{knob}: {}: {}",
                findings::state_word(finding.state.kind()),
                findings::sentence(finding)
            )))
        }
    }
}

fn apply_all(flags: &KnobFlags) -> Result<ExitCode, Failure> {
    match &flags.from {
        Some(run) => proposals::apply(flags, run),
        None => make(flags, &planned(flags)?),
    }
}

/// Makes changes, and prints which.
pub(super) fn make(flags: &KnobFlags, changes: &[Change]) -> Result<ExitCode, Failure> {
    let mut journal = Journal::open(&flags.state.state).map_err(Failure::setup)?;
    let changed = apply(&mut journal, changes).map_err(Failure::setup)?;
    let place = journal.path().display().to_string();
    out::print(&tuning::changed(&changed, &place, &out::style()));
    Ok(ExitCode::SUCCESS)
}

fn show(flags: &StateFlags) -> Result<ExitCode, Failure> {
    if !Journal::is_in(&flags.state) {
        out::print(&tuning::status(&[], &out::style()));
        return Ok(ExitCode::SUCCESS);
    }
    let journal = Journal::open(&flags.state).map_err(Failure::setup)?;
    out::print(&tuning::status(&status(&journal), &out::style()));
    Ok(ExitCode::SUCCESS)
}

fn restore_all(flags: &RestoreFlags) -> Result<ExitCode, Failure> {
    if !Journal::is_in(&flags.state.state) {
        out::print(&tuning::restored(&[], flags.dry_run, &out::style()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut journal = Journal::open(&flags.state.state).map_err(Failure::setup)?;
    let request = RestoreRequest {
        knobs: &flags.knobs,
        force: flags.force,
        dry_run: flags.dry_run,
    };
    let results = restore(&mut journal, &request).map_err(Failure::setup)?;
    out::print(&tuning::restored(&results, flags.dry_run, &out::style()));
    let is_done = |(_, result): &(_, Restored)| result.is_done();
    Ok(if results.iter().all(is_done) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(LEFT)
    })
}

/// Says on standard error that a killed punctual left settings changed.
pub fn complain_of_left_over() {
    let left = Journal::left_over(Path::new(Journal::FOLDER));
    if let Some(line) = tuning::left_over(&left) {
        out::complain(&line);
    }
}
