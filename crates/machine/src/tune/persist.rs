//! Files that make changes again at each boot: they are installed and removed through the journal.

use std::path::Path;

use punctual_record::finding::FindingId;
use punctual_record::fit::KeptSetting;
use punctual_record::tuning::{Applied, Entry, Setting};

use super::boot::write_all;
use super::boot_file::{has_unfinished, value_of};
use super::setting::{is_same, read};
use super::{Journal, TuneError, status};

/// What `apply` has changed and is in force now, the oldest change first; of these knobs alone, if
/// some are named. The second list: what another program has changed since.
#[must_use]
pub fn in_force(journal: &Journal, only: &[FindingId]) -> (Vec<KeptSetting>, Vec<Entry>) {
    let (mut kept, mut changed) = (Vec::new(), Vec::new());
    for (entry, applied) in status(journal) {
        // What a process holds ends with it.
        if entry.holder.is_some() || !entry.setting.ends_with_boot() {
            continue;
        }
        let Some(knob) = FindingId::by_name(&entry.knob) else {
            continue;
        };
        if !only.is_empty() && !only.contains(&knob) {
            continue;
        }
        match applied {
            Applied::Ours(_) => kept.push(KeptSetting {
                knob,
                setting: entry.setting.clone(),
                value: entry.value.clone(),
            }),
            Applied::Changed(_) => changed.push(entry.clone()),
            _ => {}
        }
    }
    (kept, changed)
}

/// Knobs that `apply` has changed and that no file can set at the next boot, by their names: settings
/// with a value, which are no findings.
#[must_use]
pub fn not_persistent(journal: &Journal) -> Vec<String> {
    let entries = journal.entries().iter();
    let lasting = entries.filter(|it| it.holder.is_none() && it.setting.ends_with_boot());
    let mut names: Vec<String> = lasting
        .filter(|it| journal.is_of_this_boot(it))
        .filter(|it| {
            it.knob
                .split(',')
                .all(|name| FindingId::by_name(name).is_none())
        })
        .map(|it| it.knob.clone())
        .collect();
    names.dedup();
    names
}

/// Writes files, or removes those without a text: the journal first. Returns those that were
/// changed.
///
/// # Errors
/// [`TuneError`]: nothing is changed then.
pub fn persist(
    journal: &mut Journal,
    files: &[(String, Option<String>)],
    knobs: &[FindingId],
) -> Result<Vec<Setting>, TuneError> {
    let mut changes = Vec::new();
    for (path, text) in files {
        let setting = Setting::ConfigFile { path: path.clone() };
        let value = value_of(text.as_ref().map(String::as_bytes));
        let now = read(&setting).map_err(|source| TuneError::Unreadable {
            setting: setting.clone(),
            source,
        })?;
        // What is not ours and not needed is left alone.
        let is_ours = journal.entry(&setting).is_some();
        if is_same(&setting, &now, &value) || (text.is_none() && !is_ours) {
            continue;
        }
        changes.push((setting, value));
    }
    let mut names: Vec<&str> = knobs.iter().map(|knob| knob.name()).collect();
    names.sort_unstable();
    names.dedup();
    write_all(journal, &changes, &names.join(","))?;
    Ok(changes.into_iter().map(|(setting, _)| setting).collect())
}

/// The folder of a file, if it exists for such files alone.
fn own_folder(path: &Path) -> Option<&Path> {
    path.parent().filter(|it| {
        let name = it.file_name().unwrap_or_default();
        name.to_string_lossy().ends_with(".target.d")
    })
}

/// Removes the folder of a file that was removed, if it exists for such files alone.
pub(super) fn remove_empty_folder(path: &Path) {
    if let Some(folder) = own_folder(path)
        && !path.exists()
    {
        // It is removed only if it is empty.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Whether a kill has left something beside the file's content: a part of a new one, or a folder.
pub(super) fn has_left_over(path: &Path) -> bool {
    let is_empty = |folder: &Path| {
        let mut entries = std::fs::read_dir(folder).into_iter().flatten();
        folder.exists() && entries.next().is_none()
    };
    has_unfinished(path) || own_folder(path).is_some_and(is_empty)
}
