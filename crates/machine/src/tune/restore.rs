//! Restores settings, and says how they are.

use std::io;
use std::path::Path;

use punctual_record::tuning::{Applied, Entry, Restored, Setting};

use super::setting::{is_gone, is_same, read, write};
use super::{Journal, TuneError, boot, boot_file, persist};
use crate::root::{Root, plain};

/// How each changed setting is now, the oldest change first.
#[must_use]
pub fn status(journal: &Journal) -> Vec<(&Entry, Applied)> {
    let entries = journal.entries().iter();
    entries
        .map(|entry| match applied(journal, entry) {
            Applied::Ours(_) if entry.setting.is_of_boot_loader() => {
                let rebooted = !journal.is_of_this_boot(entry);
                let states = boot::states(&Root::live(), entry, rebooted);
                (entry, Applied::Configured(states))
            }
            other => (entry, other),
        })
        .collect()
}

fn applied(journal: &Journal, entry: &Entry) -> Applied {
    if !journal.is_current(entry) {
        return Applied::Rebooted;
    }
    if is_gone(&entry.setting) {
        return Applied::Gone;
    }
    let is_absent = |value: &str| boot_file::content_of(value).is_ok_and(|it| it.is_none());
    match read(&entry.setting) {
        Ok(now) if is_same(&entry.setting, &now, &entry.original) => Applied::Original,
        Ok(now) if journal.is_ours(&entry.setting, &now) => Applied::Ours(now),
        // Somebody removed it, or a reboot did. Of a file that a user named, absent is a value.
        Ok(now) if is_of_persist(entry) && is_absent(&now) => Applied::Gone,
        Ok(now) => Applied::Changed(now),
        Err(error) => Applied::Unreadable(plain(&error)),
    }
}

/// Whether `persist` wrote it: a file that a user named is its knob.
fn is_of_persist(entry: &Entry) -> bool {
    matches!(&entry.setting, Setting::ConfigFile { path } if *path != entry.knob)
}

/// Whether a kill may have left something else than the setting's value: between the file and the
/// program that reads it, or before a file was complete.
fn needs_a_write(setting: &Setting) -> bool {
    match setting {
        Setting::BootFile { path, update } => {
            update.is_some() || boot_file::unfinished(Path::new(path)).is_some()
        }
        Setting::ConfigFile { path } => persist::has_left_over(Path::new(path)),
        _ => false,
    }
}

fn write_original(entry: &Entry) -> io::Result<()> {
    match &entry.setting {
        Setting::ConfigFile { path } if !is_of_persist(entry) && !Path::new(path).exists() => {
            boot_file::write_as(Path::new(path), &entry.original, boot_file::PRIVATE)
        }
        setting => write(setting, &entry.original),
    }
}

/// Whether an entry is of the knob with this name.
#[must_use]
pub fn is_of(entry: &Entry, knob: &str) -> bool {
    // A boot loader's file has the parameters of several.
    entry.knob == knob || entry.knob.split(',').any(|it| it == knob)
}

/// What to restore, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct RestoreRequest<'a> {
    /// Only these knobs; all of them if it is empty.
    pub knobs: &'a [String],
    /// Also what another program changed since.
    pub force: bool,
    /// Write nothing.
    pub dry_run: bool,
}

/// Writes the originals back, the newest change first. What somebody changed since is left alone,
/// unless it is forced. What was restored leaves the journal.
///
/// # Errors
/// [`TuneError::NotClosed`] if the journal can't be written: the settings are restored.
pub fn restore(
    journal: &mut Journal,
    request: &RestoreRequest<'_>,
) -> Result<Vec<(Entry, Restored)>, TuneError> {
    let is_named = |entry: &&Entry| {
        request.knobs.is_empty() || request.knobs.iter().any(|knob| is_of(entry, knob))
    };
    let mut results = Vec::new();
    // The kernel has overwritten CPUs of its threads when a partition ended.
    let mut is_overwritten = false;
    let write_to = |entry: &Entry| {
        if request.dry_run {
            return Restored::Written;
        }
        match write_original(entry) {
            Ok(()) => Restored::Written,
            Err(error) => Restored::Failed(plain(&error)),
        }
    };
    for entry in journal.entries().iter().rev().filter(is_named) {
        let write_back = || write_to(entry);
        let result = match applied(journal, entry) {
            Applied::Ours(_) | Applied::Configured(_) => write_back(),
            Applied::Original if needs_a_write(&entry.setting) => write_back(),
            Applied::Changed(_) if request.force => write_back(),
            Applied::Changed(_)
                if is_overwritten && matches!(entry.setting, Setting::Affinity { .. }) =>
            {
                write_back()
            }
            Applied::Changed(now) => Restored::Conflict(now),
            Applied::Original => Restored::Already,
            Applied::Gone => Restored::Gone,
            Applied::Rebooted => Restored::Rebooted,
            Applied::Unreadable(error) => Restored::Failed(error),
        };
        is_overwritten |= matches!(entry.setting, Setting::Partition { .. });
        results.push((entry.clone(), result));
    }
    // The kernel refuses some while another is as it was set: a preference of energy under the governor performance.
    for (entry, result) in &mut results {
        let is_ours = || {
            matches!(
                applied(journal, entry),
                Applied::Ours(_) | Applied::Configured(_)
            )
        };
        if matches!(result, Restored::Failed(_)) && is_ours() {
            *result = write_to(entry);
        }
    }
    if !request.dry_run {
        let done = results.iter().filter(|(_, result)| result.is_done());
        let done: Vec<Entry> = done.map(|(entry, _)| entry.clone()).collect();
        journal.close(&done).map_err(|error| match error {
            TuneError::Journal { path, source } => TuneError::NotClosed { path, source },
            other => other,
        })?;
    }
    Ok(results)
}
