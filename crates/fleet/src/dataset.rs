//! A dataset: a directory to which batches of runs are added.
//!
//! ```text
//! DATASET/dataset.json                            its format and version
//! DATASET/buckets.parquet                         the bounds of each bucket
//! DATASET/month=2026-11/batch=HASH/runs.parquet   and requirements, histograms, causes, invalid
//! DATASET/month=2026-11/batch=HASH/ids            its runs, of which HASH is made
//! ```
//!
//! A batch is written under a name that begins with a dot, which no engine reads, and gets its own name
//! when all of it is on the disk: a reader sees all tables of a run or none, also after `kill -9`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use punctual_record::parquet::{Column, Values};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::batch::Batch;
use super::buckets;
use super::error::FleetError;
use super::ids::{self, Id};
use super::queries::TABLES;
use super::rows::Rows;
use super::table::write;

const FORMAT: &str = "punctual fleet";
/// The version of the dataset that this program writes.
pub(crate) const VERSION: u64 = 1;
const MARK: &str = "dataset.json";

/// Takes the lock. A child that another thread is starting has it, too, until it executes its program: for that
/// time it is waited for.
fn locked(file: &File) -> Result<(), Errno> {
    const TRIES: u32 = 50;
    let mut tries = 0;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if tries < TRIES => tries += 1,
            other => return other,
        }
        thread::sleep(Duration::from_millis(10));
    }
}
const BUCKETS: &str = "buckets.parquet";
const BATCH: &str = "batch=";
const UNFINISHED: &str = ".unfinished-";
/// Runs that are collected before they are written: some 50 MB.
const MOST_RUNS: usize = 4096;

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is new.
    New,
    /// It is new, and not valid: it is kept apart.
    Invalid,
    /// It was in the dataset already.
    Known,
}

/// A dataset that runs are added to, by this process alone.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
    /// All runs by their keys.
    known: HashMap<i64, Id>,
    /// By month.
    waiting: BTreeMap<String, Batch>,
    /// Holds the lock.
    _lock: File,
}

impl Dataset {
    /// Opens a dataset, or begins one in a directory that is new or empty.
    ///
    /// # Errors
    /// It is none, another version wrote it, another process adds to it, or the disk's error.
    pub fn open(folder: &Path) -> Result<Self, FleetError> {
        let file = |error| FleetError::file(folder, error);
        fs::create_dir_all(folder).map_err(file)?;
        let mark = folder.join(MARK);
        if !mark.exists() && holds_something(folder).map_err(file)? {
            return Err(FleetError::NotADataset {
                path: folder.to_owned(),
            });
        }
        let lock = folder.join(".lock");
        let open = File::options().create(true).append(true).open(&lock);
        let lock = open.map_err(|error| FleetError::file(&lock, error))?;
        if let Err(error) = locked(&lock) {
            return Err(match error {
                Errno::WOULDBLOCK => FleetError::Busy {
                    path: folder.to_owned(),
                },
                error => file(error.into()),
            });
        }
        if mark.exists() {
            check(&mark)?;
        } else {
            begin(folder, &mark)?;
        }
        let mut known = HashMap::new();
        for path in batches(folder).map_err(file)? {
            known.extend(ids_of(path)?.into_iter().map(|id| (id.key(), id)));
        }
        clear(folder).map_err(file)?;
        Ok(Self {
            folder: folder.to_owned(),
            known,
            waiting: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// The path of a dataset from the root, for an engine that runs elsewhere.
    ///
    /// # Errors
    /// It is none, or another version wrote it.
    pub fn located(folder: &Path) -> Result<PathBuf, FleetError> {
        let mark = folder.join(MARK);
        if !mark.exists() {
            return Err(FleetError::NoDataset {
                path: folder.to_owned(),
            });
        }
        check(&mark)?;
        fs::canonicalize(folder).map_err(|error| FleetError::file(folder, error))
    }

    /// How many runs are visible in a dataset, by the lists of its batches, which have all their tables.
    ///
    /// # Errors
    /// The disk's, a list is damaged, or a table is missing: engines would read the others alone.
    pub fn visible(folder: &Path) -> Result<u64, FleetError> {
        let mut runs = 0;
        for path in batches(folder).map_err(|error| FleetError::file(folder, error))? {
            for table in TABLES {
                let path = path.join(format!("{table}.parquet"));
                if !path.exists() {
                    return Err(FleetError::MissingTable { path });
                }
            }
            runs += ids_of(path)?.len() as u64;
        }
        Ok(runs)
    }

    /// How many runs it knows, those that wait included.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.known.len()
    }

    /// Adds a run. It may wait until [`Dataset::finish`] before it is visible.
    ///
    /// # Errors
    /// Another run has its key, or the disk's error.
    pub fn add(&mut self, rows: Rows) -> Result<Added, FleetError> {
        let id = rows.run.id;
        match self.known.get(&id.key()) {
            Some(known) if *known == id => return Ok(Added::Known),
            Some(_) => {
                return Err(FleetError::SameKey {
                    record: rows.run.record,
                });
            }
            None => {}
        }
        self.known.insert(id.key(), id);
        let added = match rows.is_invalid {
            true => Added::Invalid,
            false => Added::New,
        };
        let month: String = rows.run.day.chars().take(7).collect();
        self.waiting.entry(month).or_default().add(rows);
        if self.waiting.values().map(Batch::len).sum::<usize>() >= MOST_RUNS {
            self.flush()?;
        }
        Ok(added)
    }

    /// Makes all added runs visible.
    ///
    /// # Errors
    /// The disk's; what became visible before stays.
    pub fn finish(mut self) -> Result<(), FleetError> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), FleetError> {
        while let Some((month, batch)) = self.waiting.pop_first() {
            let name = ids::batch_name(&batch.ids());
            let unfinished = self.folder.join(format!("{UNFINISHED}{name}"));
            let created = fs::create_dir(&unfinished);
            created.map_err(|error| FleetError::file(&unfinished, error))?;
            let saved = batch.save(&unfinished).and_then(|()| {
                let month = self.folder.join(format!("month={month}"));
                let place = month.join(format!("{BATCH}{name}"));
                fs::create_dir_all(&month)
                    .and_then(|()| fs::rename(&unfinished, &place))
                    .and_then(|()| File::open(&month)?.sync_all())
                    .map_err(|error| FleetError::file(&place, error))
            });
            if saved.is_err() {
                let _ = fs::remove_dir_all(&unfinished);
            }
            saved?;
        }
        Ok(())
    }
}

/// The runs of a batch.
fn ids_of(path: PathBuf) -> Result<Vec<Id>, FleetError> {
    let ids = ids::read(&path, batch_of(&path));
    let ids = ids.map_err(|error| FleetError::file(&path.join(ids::FILE), error))?;
    ids.ok_or(FleetError::DamagedBatch { path })
}

/// The name in the path of a batch.
fn batch_of(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(BATCH))
        .unwrap_or_default()
}

fn holds_something(folder: &Path) -> io::Result<bool> {
    let mut names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    // The lock of a process that did not get further.
    names.try_fold(false, |found, name| Ok(found || name? != ".lock"))
}

fn check(mark: &Path) -> Result<(), FleetError> {
    let text = fs::read(mark).map_err(|error| FleetError::file(mark, error))?;
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    match (value["format"].as_str(), value["version"].as_u64()) {
        (Some(FORMAT), Some(VERSION)) => Ok(()),
        (Some(FORMAT), Some(version)) => Err(FleetError::Version {
            path: mark.to_owned(),
            version,
        }),
        _ => Err(FleetError::NotADataset {
            path: mark.to_owned(),
        }),
    }
}

fn begin(folder: &Path, mark: &Path) -> Result<(), FleetError> {
    let path = folder.join(BUCKETS);
    // Of a process that was killed between the two.
    let _ = fs::remove_file(&path);
    let all = || 0..buckets::COUNT;
    let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let columns = [
        Column {
            name: "bucket",
            values: Values::Int(
                all()
                    .map(|it| i32::try_from(it).unwrap_or(i32::MAX))
                    .collect(),
            ),
        },
        Column {
            name: "low_ns",
            values: Values::Long(all().map(|it| number(buckets::lowest_ns(it))).collect()),
        },
        Column {
            name: "high_ns",
            values: Values::Long(all().map(|it| number(buckets::highest_ns(it))).collect()),
        },
    ];
    write(&path, &columns)?;
    let text = format!("{}\n", json!({ "format": FORMAT, "version": VERSION }));
    let unfinished = folder.join(format!("{UNFINISHED}{MARK}"));
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, mark)
    });
    written.map_err(|error| FleetError::file(mark, error))
}

/// The directories of all batches.
fn batches(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for month in within(folder, "month=")? {
        found.extend(within(&month, BATCH)?);
    }
    found.sort();
    Ok(found)
}

fn within(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes what a killed process left.
fn clear(folder: &Path) -> io::Result<()> {
    for left in within(folder, UNFINISHED)? {
        match left.is_dir() {
            true => fs::remove_dir_all(&left)?,
            false => fs::remove_file(&left)?,
        }
    }
    Ok(())
}
