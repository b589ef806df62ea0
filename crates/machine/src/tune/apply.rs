//! Changes settings.

use punctual_record::finding::{Check, FindingFix, FindingId, StateKind};

use punctual_record::tuning::{Change, Setting};

use super::journal::this_process;
use super::setting::{find_thread, is_gone, is_same, read, replace, setting_of_file};
use super::{Journal, TuneError};

/// The changes that fix the bad findings of a check at run time; of these findings alone, if
/// some are named. Threads that ended meanwhile are left out.
#[must_use]
pub fn changes_of(check: &Check, only: &[FindingId]) -> Vec<Change> {
    let is_wanted = |id: FindingId| only.contains(&id);
    let mut changes = Vec::new();
    for finding in &check.findings {
        let by_itself = only.is_empty() && finding.state.kind() == StateKind::Bad;
        if !by_itself && !is_wanted(finding.id) {
            continue;
        }
        for fix in &finding.fixes {
            if let Some((setting, value)) = of_fix(fix) {
                changes.push(Change {
                    knob: finding.id.into(),
                    setting,
                    value,
                });
            }
        }
    }
    changes
}

/// The setting and the value of a fix that can be made at run time.
fn of_fix(fix: &FindingFix) -> Option<(Setting, String)> {
    match fix {
        FindingFix::Write { path, value } => Some(setting_of_file(path, value)),
        FindingFix::Scheduling {
            tid,
            policy,
            priority,
            ..
        } => {
            let number = match policy.as_str() {
                "fifo" => libc::SCHED_FIFO,
                "rr" => libc::SCHED_RR,
                "batch" => libc::SCHED_BATCH,
                "idle" => libc::SCHED_IDLE,
                _ => libc::SCHED_OTHER,
            };
            let thread = find_thread(*tid).ok()?;
            Some((
                Setting::Scheduling { thread },
                format!("{number} {priority} 0"),
            ))
        }
        FindingFix::Affinity { tid, cpus, .. } => {
            let thread = find_thread(*tid).ok()?;
            Some((
                Setting::Affinity { thread },
                punctual_record::cpu_list(cpus),
            ))
        }
        FindingFix::Boot { .. }
        | FindingFix::Unboot { .. }
        | FindingFix::HoldDmaLatency { .. }
        | FindingFix::ByHand => None,
    }
}

/// Makes changes: reads every original, writes them all to the journal, and then changes the
/// settings, in order. A setting that has its value already is left alone. Returns those that
/// were changed.
///
/// # Errors
/// [`TuneError`]: a setting that can't be read or a journal that can't be written changes
/// nothing; a value that the kernel refuses ends the changes there.
pub fn apply<'c>(
    journal: &mut Journal,
    changes: &'c [Change],
) -> Result<Vec<&'c Change>, TuneError> {
    let (changed, mut refused) = make(journal, changes, true)?;
    match refused.pop() {
        Some((_, error)) => Err(error),
        None => Ok(changed),
    }
}

/// [`apply`] of changes that belong together: until all of them are made they are those of this process,
/// so that the next punctual says what a killed one left.
///
/// # Errors
/// As [`apply`]; those before the one that was refused are left to a restore.
pub fn apply_together(journal: &mut Journal, changes: &[Change]) -> Result<(), TuneError> {
    let holder = this_process().map_err(|source| TuneError::Journal {
        path: journal.path().to_owned(),
        source,
    })?;
    let mut intents = Vec::new();
    for change in changes {
        let now = read(&change.setting).map_err(|source| TuneError::Unreadable {
            setting: change.setting.clone(),
            source,
        })?;
        if !is_same(&change.setting, &now, &change.value) {
            intents.push((change, now));
        }
    }
    if intents.is_empty() {
        return Ok(());
    }
    journal.intend(&mut intents, Some(holder))?;
    for (change, now) in &intents {
        replace(&change.setting, &change.value, now).map_err(|source| TuneError::Refused {
            setting: change.setting.clone(),
            value: change.value.clone(),
            source,
        })?;
    }
    journal.intend(&mut intents, None)?;
    let held = journal
        .entries()
        .iter()
        .filter(|it| it.holder == Some(holder));
    let held: Vec<_> = held.cloned().collect();
    journal.close(&held)
}

/// The changes that were made, and those that the kernel refuses.
pub type Made<'c> = (Vec<&'c Change>, Vec<(&'c Change, TuneError)>);

/// [`apply`], but a value that the kernel refuses leaves its setting as it is, and the changes go
/// on.
///
/// # Errors
/// As [`apply`], without refused values.
pub fn apply_accepted<'c>(
    journal: &mut Journal,
    changes: &'c [Change],
) -> Result<Made<'c>, TuneError> {
    make(journal, changes, false)
}

fn make<'c>(
    journal: &mut Journal,
    changes: &'c [Change],
    ends_when_refused: bool,
) -> Result<Made<'c>, TuneError> {
    // The kernel overwrites CPUs of its threads with a partition: all of them are kept first.
    let is_partition = |change: &Change| matches!(change.setting, Setting::Partition { .. });
    let has_partition = changes.iter().any(is_partition);
    let (mut intents, mut refused) = (Vec::new(), Vec::new());
    for change in changes {
        let now = match read(&change.setting) {
            Ok(now) => now,
            // A thread that has ended meanwhile has no setting.
            Err(_) if !ends_when_refused && is_gone(&change.setting) => continue,
            Err(source) => {
                let error = TuneError::Unreadable {
                    setting: change.setting.clone(),
                    source,
                };
                if ends_when_refused {
                    return Err(error);
                }
                refused.push((change, error));
                continue;
            }
        };
        let is_kept = has_partition && matches!(change.setting, Setting::Affinity { .. });
        if is_kept || !is_same(&change.setting, &now, &change.value) {
            intents.push((change, now));
        }
    }
    let mut changed = Vec::new();
    if intents.is_empty() {
        return Ok((changed, refused));
    }
    let before = journal.entries().to_vec();
    journal.intend(&mut intents, None)?;
    for (change, now) in intents {
        match replace(&change.setting, &change.value, &now) {
            Ok(()) => changed.push(change),
            Err(source) => {
                let error = TuneError::Refused {
                    setting: change.setting.clone(),
                    value: change.value.clone(),
                    source,
                };
                refused.push((change, error));
                if ends_when_refused {
                    break;
                }
            }
        }
    }
    journal.forget_unmade(&before, &changed)?;
    Ok((changed, refused))
}
