//! Restores settings, and says how they are.

use punctual_record::tuning::{Applied, Entry, Restored};

use super::setting::{is_gone, is_same, read, write};
use super::{Journal, TuneError};
use crate::root::plain;

/// How each changed setting is now, the oldest change first.
#[must_use]
pub fn status(journal: &Journal) -> Vec<(&Entry, Applied)> {
    let entries = journal.entries().iter();
    entries
        .map(|entry| (entry, applied(journal, entry)))
        .collect()
}

fn applied(journal: &Journal, entry: &Entry) -> Applied {
    if !journal.is_of_this_boot(entry) {
        return Applied::Rebooted;
    }
    if is_gone(&entry.setting) {
        return Applied::Gone;
    }
    match read(&entry.setting) {
        Ok(now) if is_same(&entry.setting, &now, &entry.original) => Applied::Original,
        Ok(now) if is_same(&entry.setting, &now, &entry.value) => Applied::Ours,
        Ok(now) => Applied::Changed(now),
        Err(error) => Applied::Unreadable(plain(&error)),
    }
}

/// Writes the originals back, the newest change first. What somebody changed since is left alone,
/// unless `force`. When nothing remains the journal is retired. With `dry_run` nothing is written.
///
/// # Errors
/// [`TuneError::Journal`] if the journal can't be retired: the settings are restored.
pub fn restore(
    journal: &mut Journal,
    force: bool,
    dry_run: bool,
) -> Result<Vec<(Entry, Restored)>, TuneError> {
    let mut results = Vec::new();
    for entry in journal.entries().iter().rev() {
        let write_back = || {
            if dry_run {
                return Restored::Written;
            }
            match write(&entry.setting, &entry.original) {
                Ok(()) => Restored::Written,
                Err(error) => Restored::Failed(plain(&error)),
            }
        };
        let result = match applied(journal, entry) {
            Applied::Ours => write_back(),
            Applied::Changed(_) if force => write_back(),
            Applied::Changed(now) => Restored::Conflict(now),
            Applied::Original => Restored::Already,
            Applied::Gone => Restored::Gone,
            Applied::Rebooted => Restored::Rebooted,
            Applied::Unreadable(error) => Restored::Failed(error),
        };
        results.push((entry.clone(), result));
    }
    if !dry_run && !results.is_empty() && results.iter().all(|(_, result)| result.is_done()) {
        journal.retire()?;
    }
    Ok(results)
}
