//! The journal: what was changed, what it was before, and in which boot.
//!
//! A line is a change that is intended. All lines of a plan are on disk before the first change is
//! made, so that after any end (`kill -9`, a full disk, a crash) the originals are known. A torn
//! last line belongs to a plan of which nothing was changed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use punctual_record::tuning::{Change, Entry, Setting};

use super::TuneError;
use crate::root::Root;

/// The largest journal that is read, in bytes.
const LIMIT: u64 = 16 << 20;
/// The file in the directory of state.
const NAME: &str = "journal.jsonl";
/// The last journal of which everything was restored.
const OLD_NAME: &str = "journal.old.jsonl";

/// The journal, locked against other processes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    entries: Vec<Entry>,
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
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(TuneError::Locked { path }),
            Err(std::fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        let boot = Root::live()
            .text("/proc/sys/kernel/random/boot_id")
            .map_err(failed)?;
        let entries = read(&file, &path)?;
        Ok(Self {
            path,
            file,
            boot,
            entries,
        })
    }

    /// Whether a directory has a journal: without one nothing is changed.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(NAME).exists()
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The changes, the oldest first; of a setting that was changed several times the first
    /// original and the last value.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a change was made in this boot.
    #[must_use]
    pub fn is_of_this_boot(&self, entry: &Entry) -> bool {
        entry.boot == self.boot
    }

    /// The change of a setting in this boot.
    #[must_use]
    pub fn entry(&self, setting: &Setting) -> Option<&Entry> {
        let ours = |entry: &&Entry| entry.setting == *setting && self.is_of_this_boot(entry);
        self.entries.iter().find(ours)
    }

    /// Writes changes that will be made, with the values before: after this they are on disk.
    ///
    /// # Errors
    /// If they can't be written: then nothing may be changed.
    pub(super) fn intend(&mut self, changes: &[(&Change, String)]) -> Result<(), TuneError> {
        let entries: Vec<Entry> = changes
            .iter()
            .map(|(change, original)| {
                let first = self.entry(&change.setting);
                let first = first.map(|entry| entry.original.clone());
                Entry {
                    boot: self.boot.clone(),
                    knob: change.knob.name().to_owned(),
                    setting: change.setting.clone(),
                    original: first.unwrap_or_else(|| original.clone()),
                    value: change.value.clone(),
                }
            })
            .collect();
        self.append(&entries).map_err(|source| TuneError::Journal {
            path: self.path.clone(),
            source,
        })?;
        entries
            .into_iter()
            .for_each(|entry| merge(&mut self.entries, entry));
        Ok(())
    }

    fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        // A torn line is ended first, or the next would be part of it.
        let mut text = String::from(if ends_with_newline(&self.file)? {
            ""
        } else {
            "\n"
        });
        for entry in entries {
            text.push_str(&serde_json::to_string(entry).map_err(io::Error::other)?);
            text.push('\n');
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()?;
        // The file itself must survive as well.
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Ends the journal: everything in it was restored. Its file is kept as the old one.
    ///
    /// # Errors
    /// If it can't be renamed.
    pub(super) fn retire(&mut self) -> Result<(), TuneError> {
        let failed = |source| TuneError::Journal {
            path: self.path.clone(),
            source,
        };
        std::fs::rename(&self.path, self.path.with_file_name(OLD_NAME)).map_err(failed)?;
        self.entries.clear();
        Ok(())
    }
}

/// The entries of a journal. A line that is damaged ends one plan's intents only if it is followed
/// by an empty rest or by the line break that the next plan wrote.
fn read(file: &File, path: &Path) -> Result<Vec<Entry>, TuneError> {
    let mut text = Vec::new();
    file.take(LIMIT)
        .read_to_end(&mut text)
        .map_err(|source| TuneError::Journal {
            path: path.to_owned(),
            source,
        })?;
    let text = String::from_utf8_lossy(&text);
    let mut entries = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match serde_json::from_str::<Entry>(line) {
            Ok(entry) => merge(&mut entries, entry),
            // Written in part when the disk was full or the machine stopped: nothing was changed.
            Err(error) if error.is_eof() => {}
            Err(_) => {
                let number = text
                    .lines()
                    .position(|it| it == line)
                    .map_or(0, |at| at + 1);
                return Err(TuneError::Malformed {
                    path: path.to_owned(),
                    line: number,
                });
            }
        }
    }
    Ok(entries)
}

/// Adds a change: of a setting that was changed before in the same boot, the last value counts.
fn merge(entries: &mut Vec<Entry>, entry: Entry) {
    let same = |known: &&mut Entry| known.setting == entry.setting && known.boot == entry.boot;
    match entries.iter_mut().find(same) {
        Some(known) => known.value = entry.value,
        None => entries.push(entry),
    }
}

fn ends_with_newline(mut file: &File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
