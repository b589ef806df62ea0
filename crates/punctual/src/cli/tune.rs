//! `tune`: changes settings with a journal, and restores them.

mod keep;
pub mod persist;
mod wrap;

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use punctual_machine::tune::boot::{self, BootLoader, BootPlan};
use punctual_machine::tune::{
    Journal, RestoreRequest, TuneError, apply, apply_accepted, changes_of, is_of,
    partition_changes, restore, status,
};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::finding::{Check, Finding, FindingFix, FindingId, FindingState};
use punctual_record::tuning::{Applied, BootParameter, Change, Entry, Knob, Restored};
use punctual_report::{findings, tuning};
use rustix::process::geteuid;

use super::check::requested_cpus;
use super::failure::{Failure, SETUP};
use super::flags::{KnobArgument, KnobFlags, RestoreFlags, StateFlags, TuneAction, TuneFlags};
use super::{knobs, out, proposals};

/// Exit status: not everything could be restored.
const LEFT: u8 = 1;

/// Plans, changes, shows or restores.
///
/// # Errors
/// One line that says what was changed, if anything.
pub fn run(flags: &TuneFlags) -> Result<ExitCode, Failure> {
    match &flags.action {
        TuneAction::Plan(flags) => plan(flags),
        TuneAction::Apply(flags) if flags.boot => apply_boot(&flags.knobs),
        TuneAction::Apply(flags) if flags.keep => keep::run(&flags.knobs),
        TuneAction::Apply(flags) => apply_all(&flags.knobs),
        TuneAction::Run(flags) => wrap::run(flags),
        TuneAction::Persist(flags) => persist::run(flags),
        TuneAction::Status(flags) => show(flags),
        TuneAction::Restore(flags) => restore_all(flags),
    }
}

/// What `check` finds for the CPUs and the priority that the flags name.
fn found(affinity: Option<&Option<String>>, priority: Option<u32>) -> Result<Check, Failure> {
    let root = Root::live();
    let request = CheckRequest {
        cpus: named_cpus(&root, affinity)?,
        priority: priority.unwrap_or(Check::PRIORITY),
        ..CheckRequest::default()
    };
    Ok(check(&root, &request))
}

/// What `check` finds for threads with this priority, 0 for none, on these CPUs.
pub(super) fn found_for(cpus: &[usize], priority: u32) -> Check {
    let root = Root::live();
    let request = CheckRequest::of_probes(&root, cpus, priority);
    check(&root, &request)
}

/// The changes of `--partition`.
fn partition(found: &Check, flags: &KnobFlags) -> Result<Vec<Change>, Failure> {
    if flags.partition {
        partition_changes(&found.cpus).map_err(Failure::setup)
    } else {
        Ok(Vec::new())
    }
}

fn plan(flags: &KnobFlags) -> Result<ExitCode, Failure> {
    if let Some(run) = &flags.from {
        return proposals::plan(flags, run);
    }
    let settings = knobs::settings(&flags.knobs)?;
    let named = knobs::findings(&flags.knobs);
    let style = out::style();
    if !settings.is_empty() && named.is_empty() {
        out::print(&tuning::plan(&settings, &style));
        return Ok(ExitCode::SUCCESS);
    }
    let found = found(flags.affinity.as_ref(), flags.priority)?;
    let mut changes = changes_of(&found, &named);
    changes.extend(partition(&found, flags)?);
    changes.extend(settings);
    let parameters = boot::parameters_of(&found, &named);
    for knob in &named {
        let is_planned = changes
            .iter()
            .any(|change| change.knob == Knob::Finding(*knob))
            || parameters.iter().any(|it| it.knob == *knob);
        if !is_planned {
            check_nothing_to_do(&found, *knob)?;
        }
    }
    if !changes.is_empty() || parameters.is_empty() {
        out::print(&tuning::plan(&changes, &style));
    }
    let planned = planned_boot(&parameters, &flags.state.state);
    let (wanted, result) = match &planned {
        Ok(plan) if plan.parameters.is_empty() => (&parameters, Ok([].as_slice())),
        Ok(plan) => (&plan.parameters, Ok(plan.changes.as_slice())),
        Err(why) => (&parameters, Err(why.as_str())),
    };
    out::print(&tuning::boot_plan(wanted, result, &style));
    Ok(ExitCode::SUCCESS)
}

/// How boot parameters would be configured, or why they can't be.
fn planned_boot(parameters: &[BootParameter], state: &Path) -> Result<BootPlan, String> {
    let root = Root::live();
    let Some(loader) = BootLoader::find(&root) else {
        return Err(tuning::no_boot_loader(parameters));
    };
    let plan = loader.plan(&root, parameters, &Journal::entries_in(state));
    plan.map_err(|error| error.to_string())
}

fn apply_boot(flags: &KnobFlags) -> Result<ExitCode, Failure> {
    knobs::refuse_settings(&flags.knobs, "--boot")?;
    let named = knobs::findings(&flags.knobs);
    let found = found(flags.affinity.as_ref(), flags.priority)?;
    let parameters = boot::parameters_of(&found, &named);
    for knob in &named {
        if !parameters.iter().any(|it| it.knob == *knob) {
            check_nothing_to_do(&found, *knob)?;
            let is_ok = |it: &Finding| it.state == FindingState::Ok;
            if !found.finding(*knob).is_some_and(is_ok) {
                let message = format!("{knob} has no boot parameter: leave --boot out");
                return Err(Failure::usage(message));
            }
        }
    }
    let folder = &flags.state.state;
    let style = out::style();
    if parameters.is_empty() {
        out::print(&tuning::configured(&[], &[], "", &style));
        return Ok(ExitCode::SUCCESS);
    }
    let root = Root::live();
    let Some(loader) = BootLoader::find(&root) else {
        return Err(Failure::setup(tuning::no_boot_loader(&parameters)));
    };
    let mut journal = Journal::open(folder).map_err(Failure::setup)?;
    let plan = loader.plan(&root, &parameters, journal.entries());
    let plan = plan.map_err(Failure::setup)?;
    boot::apply(&mut journal, &plan).map_err(Failure::setup)?;
    let place = journal.path().display().to_string();
    out::print(&tuning::configured(
        &plan.parameters,
        &plan.changes,
        &place,
        &style,
    ));
    Ok(ExitCode::SUCCESS)
}

/// The changes of one knob; an error if it can't be changed on a running machine.
pub(super) fn changes_for(found: &Check, knob: FindingId) -> Result<Vec<Change>, Failure> {
    let changes = changes_of(found, &[knob]);
    check_named(found, &changes, &[knob])?;
    Ok(changes)
}

/// The CPUs of `-a`, if it names some: not every CPU.
pub(super) fn named_cpus(
    root: &Root,
    list: Option<&Option<String>>,
) -> Result<Option<Vec<usize>>, Failure> {
    let cpus = requested_cpus(root, list)?;
    let online = super::check::online(root);
    match &cpus {
        Some(cpus) if online.iter().all(|cpu| cpus.contains(cpu)) => Err(Failure::usage(
            "-a names every CPU: leave one for everything else, or name none",
        )),
        _ => Ok(cpus),
    }
}

/// A knob that was named and has nothing to change: fine if it is ok, an error else.
fn check_nothing_to_do(found: &Check, knob: FindingId) -> Result<(), Failure> {
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
            let is_boot = |fix: &FindingFix| matches!(fix, FindingFix::Boot { .. });
            let how = if finding.fixes.iter().any(is_boot) {
                " (punctual tune apply --boot)"
            } else {
                ""
            };
            Err(Failure::usage(format!(
                "{knob} can't be changed on a running machine: {instead}{how}"
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

/// Refuses a named knob that has nothing among the changes because it can't be changed at run time.
pub(super) fn check_named(
    found: &Check,
    changes: &[Change],
    knobs: &[FindingId],
) -> Result<(), Failure> {
    for knob in knobs {
        if !changes
            .iter()
            .any(|change| change.knob == Knob::Finding(*knob))
        {
            check_nothing_to_do(found, *knob)?;
        }
    }
    Ok(())
}

fn apply_all(flags: &KnobFlags) -> Result<ExitCode, Failure> {
    if let Some(run) = &flags.from {
        return proposals::apply(flags, run);
    }
    let settings = knobs::settings(&flags.knobs)?;
    let mut named = knobs::findings(&flags.knobs);
    if !settings.is_empty() && named.is_empty() && !flags.partition {
        return make(flags, &settings).map(ExitCode::from);
    }
    let found = found(flags.affinity.as_ref(), flags.priority)?;
    let partition = partition(&found, flags)?;
    let mut changes = match named.is_empty() && !settings.is_empty() {
        true => Vec::new(),
        false => changes_of(&found, &named),
    };
    changes.extend(settings);
    named.retain(|knob| partition.is_empty() || *knob != FindingId::IsolatedCpus);
    check_named(&found, &changes, &named)?;
    changes.extend(partition);
    make(flags, &changes).map(ExitCode::from)
}

/// That a setting was not changed, and why.
pub(super) fn left_as_it_is(change: &Change, error: &TuneError) -> String {
    let why = match error {
        TuneError::Refused { value, source, .. } => {
            format!(
                "the kernel refuses `{}`: {source}",
                change.setting.shown(value)
            )
        }
        other => other.to_string(),
    };
    let Change { knob, setting, .. } = change;
    format!("{knob}: {setting} is left as it is, {why}")
}

/// What a change lacks that was refused.
fn what_is_needed(error: &TuneError) -> &'static str {
    let (TuneError::Unreadable { source, .. } | TuneError::Refused { source, .. }) = error else {
        return "";
    };
    match source.kind() {
        ErrorKind::PermissionDenied if !geteuid().is_root() => ": run it as root",
        ErrorKind::ReadOnlyFilesystem => {
            ": /proc/sys and /sys are for reading only here, as in a container: change them on its host"
        }
        ErrorKind::PermissionDenied => ": the kernel is locked down, or a right is absent here",
        _ => "",
    }
}

/// Makes changes, and prints which. What the kernel refuses is an error if it was named.
pub(super) fn make(flags: &KnobFlags, changes: &[Change]) -> Result<u8, Failure> {
    let mut journal = Journal::open(&flags.state.state).map_err(Failure::setup)?;
    // Of a finding each change that is possible is made: after one interrupt that stays come others.
    let is_of_settings = !flags.knobs.is_empty() && flags.knobs.iter().all(is_of_one_setting);
    let is_exact = flags.partition || is_of_settings;
    for (entry, applied) in status(&journal) {
        if let Applied::Changed(now) = applied
            && changes.iter().any(|it| it.setting == entry.setting)
        {
            let Entry {
                setting, original, ..
            } = entry;
            out::complain(&format!(
                "{setting} is {}, which somebody else has set since: restore will bring back {}, as it was before \
                 punctual changed it first",
                setting.shown(&now),
                setting.shown(original)
            ));
        }
    }
    let is_named = is_exact || flags.from.is_some() || !flags.knobs.is_empty();
    let made = match is_exact {
        true => apply(&mut journal, changes).map(|changed| (changed, Vec::new())),
        false => apply_accepted(&mut journal, changes),
    };
    let (changed, refused) = made.map_err(Failure::setup)?;
    for (change, error) in &refused {
        out::complain(&left_as_it_is(change, error));
    }
    // What was made before and is in force is no failure of this one.
    let is_new = changed.is_empty() && !journal.entries().iter().any(|it| journal.is_current(it));
    if let Some((_, error)) = refused.first().filter(|_| is_new) {
        return Err(Failure::setup(format!(
            "nothing was changed{}",
            what_is_needed(error)
        )));
    }
    let place = journal.path().display().to_string();
    out::print(&tuning::changed(&changed, &place, &out::style()));
    // What was asked for by name is not all in force.
    Ok(match is_named && !refused.is_empty() {
        true => SETUP,
        false => 0,
    })
}

/// Whether a knob names one setting, and not all that fixes a finding.
fn is_of_one_setting(knob: &KnobArgument) -> bool {
    !matches!(knob, KnobArgument::Finding(_))
}

fn show(flags: &StateFlags) -> Result<ExitCode, Failure> {
    if !Journal::is_in(&flags.state) {
        out::print(&tuning::status(&[], &out::style()));
        return Ok(ExitCode::SUCCESS);
    }
    let journal = Journal::look(&flags.state).map_err(Failure::setup)?;
    out::print(&tuning::status(&status(&journal), &out::style()));
    Ok(ExitCode::SUCCESS)
}

fn restore_all(flags: &RestoreFlags) -> Result<ExitCode, Failure> {
    let named: Vec<String> = flags.knobs.iter().map(|it| knobs::real_path(it)).collect();
    let results = match Journal::is_in(&flags.state.state) {
        false => Vec::new(),
        true => {
            let journal = match flags.dry_run {
                true => Journal::look(&flags.state.state),
                false => Journal::open(&flags.state.state),
            };
            let request = RestoreRequest {
                knobs: &named,
                force: flags.force,
                dry_run: flags.dry_run,
            };
            restore(&mut journal.map_err(Failure::setup)?, &request).map_err(Failure::setup)?
        }
    };
    for knob in &named {
        if !results.iter().any(|(entry, _)| is_of(entry, knob)) {
            out::complain(&format!(
                "{knob}: no change of it is in the journal ('punctual tune status' lists them)"
            ));
        }
    }
    out::print(&tuning::restored(&results, flags.dry_run, &out::style()));
    let is_done = |(_, result): &(_, Restored)| result.is_done();
    // What advice has undone may be a choice: some of it was never made. All of it not is another name.
    let is_of_none = results.is_empty() && !named.is_empty();
    Ok(match results.iter().all(is_done) && !is_of_none {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}

/// Says on standard error that a killed punctual left settings changed.
pub fn complain_of_left_over(folder: &Path) {
    let left = Journal::left_over(folder);
    if let Some(line) = tuning::left_over(&left) {
        out::complain(&line);
    }
}
