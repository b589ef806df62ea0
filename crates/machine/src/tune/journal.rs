//! The journal: what was changed, what it was before, and in which boot.
//!
//! A line is a change that is intended, or says that one was restored. All lines of a plan are on
//! disk before the first change is made, so that after any end (`kill -9`, a full disk, a crash)
//! the originals are known. A torn last line belongs to a plan of which nothing was changed, or to
//! a change that was restored and is found to be.

mod lines;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use punctual_record::tuning::{Change, Closed, Entry, Holder, Setting};
use serde::Serialize;

use self::lines::{LIMIT, ends_with_newline, key, key_of, merged, parse, text_of};
use super::TuneError;
use super::boot_file::unfinished;
use super::setting::{find_thread, is_between, is_gone, is_never_written, is_same, read};
use super::states::States;
use crate::root::Root;

/// The file in the directory of state.
const NAME: &str = "journal.jsonl";
/// The last journal of which everything was restored.
const OLD_NAME: &str = "journal.old.jsonl";

/// A process between fork and exec has the locks of its parent, close-on-exec or not: no longer
/// than this.
const FORK_MOST: Duration = Duration::from_millis(300);

/// A change that will be made.
pub(super) struct Intent<'i> {
    pub(super) knob: &'i str,
    pub(super) setting: &'i Setting,
    pub(super) value: &'i str,
    /// Its value now.
    pub(super) now: &'i mut String,
}

/// The journal, locked against other processes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    /// The changes that were not restored, one for each line.
    lines: Vec<Entry>,
    /// One for each setting and holder.
    entries: Vec<Entry>,
}

/// Locks a file, unless another process has it locked for so long.
pub(super) fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let end = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

impl Journal {
    /// Where the journal is, unless another place is named.
    pub const FOLDER: &str = "/var/lib/punctual";

    /// Opens the journal in a directory, which is made if it is absent, and locks it until the
    /// result is dropped.
    ///
    /// # Errors
    /// [`TuneError`]: it can't be opened, is locked, or has a damaged line.
    pub fn open(folder: &Path) -> Result<Self, TuneError> {
        let path = folder.join(NAME);
        let failed = |source| TuneError::Journal {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = loop {
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&path)
                .map_err(failed)?;
            match lock_within(&file, FORK_MOST) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(TuneError::Locked { path }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // Between opening and locking, another process may have ended and renamed it.
            let ours = file.metadata().map_err(failed)?;
            match std::fs::metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => break file,
                _ => {}
            }
        };
        Self::of(path, file)
    }

    /// Reads the journal of a directory, for nothing to be written to it: it is not locked, and may be
    /// on a file system for reading only.
    ///
    /// # Errors
    /// [`TuneError`]: it can't be read, or has a damaged line.
    pub fn look(folder: &Path) -> Result<Self, TuneError> {
        let path = folder.join(NAME);
        let file = File::open(&path).map_err(|source| TuneError::UnreadJournal {
            path: path.clone(),
            source,
        })?;
        Self::of(path, file)
    }

    fn of(path: PathBuf, file: File) -> Result<Self, TuneError> {
        let boot = boot().map_err(|source| TuneError::UnreadJournal {
            path: path.clone(),
            source,
        })?;
        let lines = parse(&file, &path)?;
        Ok(Self {
            path,
            file,
            boot,
            entries: merged(&lines),
            lines,
        })
    }

    /// Whether a directory has a journal: without one nothing is changed.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(NAME).exists()
    }

    /// The changes of this boot that a process should have undone and did not: it was killed.
    /// Those whose setting has its former value are left out. A journal that is absent or can't
    /// be read has none; nothing is locked.
    #[must_use]
    pub fn left_over(folder: &Path) -> Vec<Entry> {
        let mut left = Self::entries_in(folder);
        let Ok(boot) = boot() else {
            return Vec::new();
        };
        left.retain(|entry| {
            let has_ended = entry.holder.is_some_and(|holder| !is_alive(holder));
            let is_changed = || {
                read(&entry.setting)
                    .is_ok_and(|now| !is_same(&entry.setting, &now, &entry.original))
            };
            entry.boot == boot && has_ended && !is_gone(&entry.setting) && is_changed()
        });
        left
    }

    /// The changes that this process should have undone by now: after its sessions have ended,
    /// those that it could not restore. Nothing is locked.
    #[must_use]
    pub fn of_this_process(folder: &Path) -> Vec<Entry> {
        let Ok(holder) = this_process() else {
            return Vec::new();
        };
        let mut entries = Self::entries_in(folder);
        entries.retain(|entry| entry.holder == Some(holder));
        entries
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The changes that were not restored, the oldest first; of a setting that the same holder
    /// changed several times the first original, the last value and its knob.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a change may still be in force: it was made in this boot, or outlives a reboot.
    #[must_use]
    pub fn is_current(&self, entry: &Entry) -> bool {
        entry.boot == self.boot || !entry.setting.ends_with_boot()
    }

    /// Whether a change was made in this boot.
    #[must_use]
    pub fn is_of_this_boot(&self, entry: &Entry) -> bool {
        entry.boot == self.boot
    }

    /// The changes that a directory's journal has; none if it is absent or can't be read. Nothing
    /// is locked.
    #[must_use]
    pub fn entries_in(folder: &Path) -> Vec<Entry> {
        Self::try_entries_in(folder).unwrap_or_default()
    }

    fn try_entries_in(folder: &Path) -> Result<Vec<Entry>, TuneError> {
        let path = folder.join(NAME);
        let file = File::open(&path).map_err(|source| TuneError::UnreadJournal {
            path: path.clone(),
            source,
        })?;
        Ok(merged(&parse(&file, &path)?))
    }

    /// The change of a setting that stays.
    #[must_use]
    pub fn entry(&self, setting: &Setting) -> Option<&Entry> {
        let key = key(&self.boot, setting, None);
        self.entries.iter().find(|entry| key_of(entry) == key)
    }

    /// Whether a value is one that our changes in this boot gave this setting, or restored. Of two
    /// changes of one setting the second may have been killed before it was made.
    pub(super) fn is_ours(&self, setting: &Setting, now: &str) -> bool {
        // A group that was made and not isolated yet, or is isolated no longer: none has the name
        // by chance.
        if matches!(setting, Setting::Partition { .. } | Setting::Cpuset { .. })
            && now.contains('(')
        {
            return true;
        }
        let of_it = |line: &&Entry| line.setting == *setting && self.is_current(line);
        self.lines.iter().filter(of_it).any(|line| {
            let of_line = |value| is_same(setting, now, value);
            of_line(&line.value)
                || of_line(&line.original)
                || is_between(setting, now, &line.original, &line.value)
        })
    }

    /// Writes changes that will be made, with the values before: after this they are on disk.
    /// A holder's value before is the present one; else it is the first original. The values are read
    /// again here: before the journals are compared, a value may be one that another directory's change gave.
    ///
    /// # Errors
    /// If they can't be written, or a setting can't be read: then nothing may be changed.
    pub(super) fn intend(
        &mut self,
        changes: &mut [(&Change, String)],
        holder: Option<Holder>,
    ) -> Result<(), TuneError> {
        let intents = changes.iter_mut().map(|(change, now)| Intent {
            knob: change.knob.name(),
            setting: &change.setting,
            value: &change.value,
            now,
        });
        self.intend_all(intents, holder)
    }

    /// As [`Journal::intend`], for what is not the change of one finding.
    ///
    /// # Errors
    /// As there.
    pub(super) fn intend_all<'i>(
        &mut self,
        intents: impl Iterator<Item = Intent<'i>>,
        holder: Option<Holder>,
    ) -> Result<(), TuneError> {
        let mut intents: Vec<Intent<'_>> = intents.collect();
        // Without the right to the list, or to /run, there is nobody to ask.
        let states = self.path.parent().and_then(|own| States::enter(own).ok());
        for other in states.iter().flat_map(|states| &states.others) {
            self.check_other(other, &intents)?;
        }
        self.check_unfinished(&intents)?;
        self.forget_former_boots()?;
        for intent in &mut intents {
            // Of changes that stay the first original counts, and it may be that of a holder.
            let is_known = self.entries.iter().any(|it| it.setting == *intent.setting);
            if holder.is_none() && is_known {
                continue;
            }
            match read(intent.setting) {
                Ok(now) => *intent.now = now,
                // Its own change fails, and no other one.
                Err(_) if is_gone(intent.setting) => {}
                Err(source) => {
                    return Err(TuneError::Unreadable {
                        setting: intent.setting.clone(),
                        source,
                    });
                }
            }
        }
        let entries = self.entries_of(&intents, holder);
        // What a process holds may be made to stay after it was changed: there is room for that too.
        let later = match holder {
            Some(_) => self.entries_of(&intents, None),
            None => Vec::new(),
        };
        self.make_room(&entries, &later)?;
        self.append(&entries)?;
        self.lines.extend(entries);
        self.entries = merged(&self.lines);
        Ok(())
    }

    /// The lines of changes that will be made.
    fn entries_of(&self, intents: &[Intent<'_>], holder: Option<Holder>) -> Vec<Entry> {
        let entry = |intent: &Intent<'_>| {
            let first = match holder {
                Some(_) => None,
                None => self.entry(intent.setting),
            };
            let original = first.map_or(&*intent.now, |entry| &entry.original);
            Entry {
                boot: self.boot.clone(),
                knob: intent.knob.to_owned(),
                setting: intent.setting.clone(),
                original: original.clone(),
                value: intent.value.to_owned(),
                holder,
            }
        };
        intents.iter().map(entry).collect()
    }

    /// Refuses files beside which another program's has the name of an unfinished one: it would be
    /// removed. Of one that a kill left, the journal has the file.
    fn check_unfinished(&self, intents: &[Intent<'_>]) -> Result<(), TuneError> {
        for intent in intents {
            let (Setting::BootFile { path, .. } | Setting::ConfigFile { path }) = intent.setting
            else {
                continue;
            };
            let is_known = self.entries.iter().any(|it| it.setting == *intent.setting);
            if !is_known && let Some(path) = unfinished(Path::new(path)) {
                return Err(TuneError::InTheWay { path });
            }
        }
        Ok(())
    }

    /// Refuses what another directory's journal has changed and not restored.
    fn check_other(&self, folder: &Path, intents: &[Intent<'_>]) -> Result<(), TuneError> {
        let entries = match Self::try_entries_in(folder) {
            // It may have any of them.
            Err(error @ TuneError::LongJournal { .. }) => return Err(error),
            entries => entries.unwrap_or_default(),
        };
        for entry in entries {
            let is_same_setting = intents.iter().any(|it| *it.setting == entry.setting);
            let is_in_force = || {
                let now = read(&entry.setting);
                now.is_ok_and(|now| !is_same(&entry.setting, &now, &entry.original))
            };
            if is_same_setting && self.is_current(&entry) && is_in_force() {
                return Err(TuneError::OtherState {
                    setting: entry.setting,
                    folder: folder.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Leaves out what a reboot has undone: a unit that makes the same changes at each boot would
    /// else let the journal grow for ever.
    fn forget_former_boots(&mut self) -> Result<(), TuneError> {
        let current: Vec<Entry> = self
            .lines
            .iter()
            .filter(|it| self.is_current(it))
            .cloned()
            .collect();
        if current.len() == self.lines.len() {
            return Ok(());
        }
        self.rewrite(current)
    }

    /// Refuses lines for which there is no room, those that come later included. What was restored makes
    /// room: its lines are left out.
    fn make_room(&mut self, lines: &[Entry], later: &[Entry]) -> Result<(), TuneError> {
        let more = self.length(lines)? + self.length(later)?;
        if self.has_room(more)? {
            return Ok(());
        }
        if self.length(&self.lines)? + more > LIMIT {
            return Err(TuneError::FullJournal {
                path: self.path.clone(),
            });
        }
        self.rewrite(self.lines.clone())
    }

    /// Whether so many bytes can be added, and the line break that ends a torn line.
    fn has_room(&self, more: u64) -> Result<bool, TuneError> {
        let file = self.file.metadata().map_err(|it| self.failed(it))?;
        Ok(file.len() + 1 + more <= LIMIT)
    }

    fn length<T: Serialize>(&self, lines: &[T]) -> Result<u64, TuneError> {
        let text = text_of(lines).map_err(|it| self.failed(it))?;
        Ok(text.len() as u64)
    }

    fn failed(&self, source: io::Error) -> TuneError {
        TuneError::Journal {
            path: self.path.clone(),
            source,
        }
    }

    /// Replaces the journal at once by one that has only these lines.
    fn rewrite(&mut self, lines: Vec<Entry>) -> Result<(), TuneError> {
        let new = self.path.with_extension("new");
        let replaced = (|| {
            let _ = std::fs::remove_file(&new);
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            // Whoever opens it next waits for us, as for the one that it replaces.
            file.lock()?;
            (&file).write_all(text_of(&lines)?.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            Ok(file)
        })();
        self.file = replaced.map_err(|source| self.failed(source))?;
        self.sync_folder().map_err(|source| self.failed(source))?;
        self.entries = merged(&lines);
        self.lines = lines;
        Ok(())
    }

    /// Ends intents of which nothing came: those of no setting that was changed, before or now, and
    /// that has its original value.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn forget_unmade(
        &mut self,
        before: &[Entry],
        changed: &[&Change],
    ) -> Result<(), TuneError> {
        let is_made = |setting: &Setting| {
            before
                .iter()
                .any(|entry| entry.setting == *setting && self.is_current(entry))
                || changed.iter().any(|change| change.setting == *setting)
        };
        // A value between the two, which the kernel would not take back, is left to a restore.
        let is_untouched = |entry: &Entry| {
            is_never_written(&entry.setting)
                || read(&entry.setting).map_or_else(
                    |_| is_gone(&entry.setting),
                    |now| is_same(&entry.setting, &now, &entry.original),
                )
        };
        let mut unmade = self.entries.clone();
        unmade.retain(|it| {
            it.holder.is_none()
                && self.is_of_this_boot(it)
                && !is_made(&it.setting)
                && is_untouched(it)
        });
        match unmade.is_empty() {
            true => Ok(()),
            // It may be written to again.
            false => self.end(&unmade),
        }
    }

    /// Ends changes that were restored. When none is left the journal becomes the old one.
    ///
    /// # Errors
    /// If it can't be written: the settings are restored.
    pub(super) fn close(&mut self, restored: &[Entry]) -> Result<(), TuneError> {
        if restored.is_empty() {
            return Ok(());
        }
        let is_restored = |line: &Entry| restored.iter().any(|it| key_of(it) == key_of(line));
        if self.lines.iter().all(is_restored) {
            std::fs::rename(&self.path, self.path.with_file_name(OLD_NAME)).map_err(|source| {
                TuneError::Journal {
                    path: self.path.clone(),
                    source,
                }
            })?;
            self.lines.clear();
            self.entries.clear();
            return Ok(());
        }
        self.end(restored)
    }

    /// Ends changes in the journal, which stays.
    fn end(&mut self, ended: &[Entry]) -> Result<(), TuneError> {
        let closed = ended.iter().map(|entry| Closed {
            boot: entry.boot.clone(),
            restored: entry.setting.clone(),
            holder: entry.holder,
        });
        let closed: Vec<Closed> = closed.collect();
        let is_ended = |line: &Entry| ended.iter().any(|it| key_of(it) == key_of(line));
        let mut left = self.lines.clone();
        left.retain(|line| !is_ended(line));
        if !self.has_room(self.length(&closed)?)? {
            // Without these lines it is shorter.
            return self.rewrite(left);
        }
        self.append(&closed)?;
        self.entries = merged(&left);
        self.lines = left;
        Ok(())
    }

    fn append<T: Serialize>(&mut self, lines: &[T]) -> Result<(), TuneError> {
        self.try_append(lines).map_err(|source| self.failed(source))
    }

    fn try_append<T: Serialize>(&mut self, lines: &[T]) -> io::Result<()> {
        // A torn line is ended first, or the next would be part of it.
        let begin = if ends_with_newline(&self.file)? {
            ""
        } else {
            "\n"
        };
        let text = begin.to_owned() + &text_of(lines)?;
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        self.sync_folder()
    }

    /// The file itself must survive as well.
    fn sync_folder(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

/// This process, as the holder of changes.
///
/// # Errors
/// If `/proc` can't be read.
pub(super) fn this_process() -> io::Result<Holder> {
    let pid = std::process::id().try_into().map_err(io::Error::other)?;
    let start = find_thread(pid)?.start;
    Ok(Holder { pid, start })
}

fn is_alive(holder: Holder) -> bool {
    find_thread(holder.pid).is_ok_and(|now| now.start == holder.start)
}

fn boot() -> io::Result<String> {
    Root::live().text("/proc/sys/kernel/random/boot_id")
}
