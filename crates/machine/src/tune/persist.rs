//! Files that make changes again at each boot: they are installed and removed through the journal.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use punctual_record::finding::FindingId;
use punctual_record::tuning::{Applied, Change, Entry, Setting};

use super::boot::write_all;
use super::boot_file::{unfinished, value_of};
use super::setting::{find_thread, is_same, read};
use super::{Journal, TuneError, status};

/// Why a change is not made again at each boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Another program has changed it since.
    Changed,
    /// It belongs to another network namespace than the one that the system begins with.
    OtherNamespace,
    /// It belongs to a network namespace, and which one the system begins with can't be read.
    UnknownNamespace,
    /// It is of one thread, whose number means another one, or none, after a reboot.
    OfThread,
    /// It is of one interrupt, whose number may mean another one, or none, after a reboot.
    OfInterrupt,
    /// It is of a control group, which is made anew with its unit or container.
    OfGroup,
    /// It can't be read: the system's reason.
    Unreadable(String),
}

/// What `apply` has changed and is in force now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    /// The changes, the oldest first.
    pub kept: Vec<Change>,
    /// What is left out.
    pub left_out: Vec<(Entry, LeftOut)>,
}

/// The network namespace that the system begins with, by the number of its inode: that of the first
/// process, or, where that one is protected, of the kernel's threads.
fn first_namespace() -> Option<u64> {
    let of = |pid: i32| std::fs::metadata(format!("/proc/{pid}/ns/net")).ok();
    let is_kernel = || find_thread(2).is_ok_and(|it| it.name == "kthreadd");
    let found = of(1).or_else(|| of(2).filter(|_| is_kernel()))?;
    Some(found.ino())
}

/// Whether it is a file of an interrupt or of a process by its number, which a user named, or of a control group: numbers
/// of message-signalled interrupts are given out anew at each boot. A finding's knob looks for them anew.
fn renewed(entry: &Entry) -> Option<LeftOut> {
    let Setting::File { path } = &entry.setting else {
        return None;
    };
    if FindingId::by_name(&entry.knob).is_some() {
        return None;
    }
    if Path::new(path).starts_with("/sys/fs/cgroup") {
        return Some(LeftOut::OfGroup);
    }
    let mut names = Path::new(path).strip_prefix("/proc").ok()?.iter();
    let is_number = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        !name.is_empty() && name.iter().all(u8::is_ascii_digit)
    };
    match names.next()? {
        name if name == "irq" && is_number(names.next()?) => Some(LeftOut::OfInterrupt),
        name if is_number(name) => Some(LeftOut::OfThread),
        _ => None,
    }
}

/// What `apply` has changed and is in force now; of these knobs alone, if some are named.
#[must_use]
pub fn in_force(journal: &Journal, only: &[String]) -> InForce {
    let mut found = InForce::default();
    let first = first_namespace();
    for (entry, applied) in status(journal) {
        // What a process holds ends with it.
        if entry.holder.is_some() || !entry.setting.ends_with_boot() {
            continue;
        }
        if !only.is_empty() && !only.contains(&entry.knob) {
            continue;
        }
        // Those of the kernel's threads are named by their finding.
        let is_of_thread = entry.knob.contains('@')
            && matches!(
                entry.setting,
                Setting::Scheduling { .. } | Setting::Affinity { .. }
            );
        let elsewhere = match (entry.setting.network_namespace(), first) {
            _ if is_of_thread => Some(LeftOut::OfThread),
            _ if renewed(entry).is_some() => renewed(entry),
            (Some(_), None) => Some(LeftOut::UnknownNamespace),
            (Some(of), Some(first)) if of != first => Some(LeftOut::OtherNamespace),
            _ => None,
        };
        let left_out = match (applied, elsewhere) {
            (Applied::Original | Applied::Gone | Applied::Rebooted | Applied::Configured(_), _) => {
                continue;
            }
            (_, Some(elsewhere)) => elsewhere,
            (Applied::Ours(_), None) => {
                found.kept.push(Change {
                    knob: entry.knob.clone().into(),
                    setting: entry.setting.clone(),
                    value: entry.value.clone(),
                });
                continue;
            }
            (Applied::Changed(_), None) => LeftOut::Changed,
            (Applied::Unreadable(why), None) => LeftOut::Unreadable(why),
        };
        found.left_out.push((entry.clone(), left_out));
    }
    found
}

/// Writes files, or removes those without a text: the journal first. Returns those that were
/// changed, and whether each has a text.
///
/// # Errors
/// [`TuneError`]: nothing is changed then.
pub fn persist(
    journal: &mut Journal,
    files: &[(String, Option<String>)],
    knobs: &[String],
) -> Result<Vec<(Setting, bool)>, TuneError> {
    let (mut changes, mut changed) = (Vec::new(), Vec::new());
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
        changed.push((setting.clone(), text.is_some()));
        changes.push((setting, value));
    }
    let mut names: Vec<&str> = knobs.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    write_all(journal, &changes, &names.join(","))?;
    Ok(changed)
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
    unfinished(path).is_some() || own_folder(path).is_some_and(is_empty)
}
