//! The run directory: made before anything is measured, saved into while the run
//! goes, whole at every moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::RecordError;
use super::run::Run;
use super::time;

/// The record's name in its directory.
pub const RUN_FILE: &str = "run.json";

/// A directory that one run is saved into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    path: PathBuf,
    /// Whether it was made for this run: what was there before is never taken away.
    is_new: bool,
}

impl RunDirectory {
    /// Makes the directory, before anything is measured.
    ///
    /// Without a `path` it is `punctual-VERB-TIME` in the working directory, with
    /// `-2`, `-3` and so on where that exists. A `path` that exists is taken if it
    /// is an empty directory, and refused otherwise; its parent must exist.
    ///
    /// # Errors
    /// [`RecordError::Exists`], or [`RecordError::Create`] with the system's reason.
    pub fn create(path: Option<&Path>, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        match path {
            Some(path) => Self::create_named(path)?,
            None => Self::create_default(Path::new(""), verb, now)?,
        }
        .proved_writable()
    }

    /// As [`RunDirectory::create`] without a path, in another place than the
    /// working directory.
    ///
    /// # Errors
    /// As [`RunDirectory::create`].
    pub fn create_within(parent: &Path, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        Self::create_default(parent, verb, now)?.proved_writable()
    }

    fn create_named(path: &Path) -> Result<Self, RecordError> {
        let error = |source| RecordError::Create {
            path: path.to_owned(),
            source,
        };
        let is_new = match fs::create_dir(path) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let empty = match fs::read_dir(path) {
                    Ok(mut entries) => entries.next().is_none(),
                    Err(e) if e.kind() == io::ErrorKind::NotADirectory => false,
                    Err(e) => return Err(error(e)),
                };
                if !empty {
                    return Err(RecordError::Exists {
                        path: path.to_owned(),
                    });
                }
                false
            }
            Err(e) => return Err(error(e)),
        };
        Ok(Self {
            path: path.to_owned(),
            is_new,
        })
    }

    fn create_default(parent: &Path, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        // As many runs as may begin within one second.
        const MOST: u32 = 1000;
        let name = format!("punctual-{verb}-{}", time::compact(now));
        let mut path = parent.join(&name);
        for attempt in 2.. {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, is_new: true }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt <= MOST => {
                    path = parent.join(format!("{name}-{attempt}"));
                }
                Err(source) => return Err(RecordError::Create { path, source }),
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Permission bits don't tell (read-only mounts, quotas): a file does.
    fn proved_writable(self) -> Result<Self, RecordError> {
        let probe = temporary(&self.path, RUN_FILE);
        match File::create(&probe).and_then(|_| fs::remove_file(&probe)) {
            Ok(()) => Ok(self),
            Err(source) => {
                let path = self.path.clone();
                self.discard_if_empty();
                Err(RecordError::Create { path, source })
            }
        }
    }

    /// A directory that was made by a run before.
    #[must_use]
    pub fn existing(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_new: false,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the record. At every moment, also after a crash, `run.json` is whole:
    /// either what was saved before or what is saved now.
    ///
    /// # Errors
    /// [`RecordError::Save`]. What was saved before still stands and nothing else
    /// is left behind, so that a run on a full disk can go on.
    pub fn save(&self, run: &Run) -> Result<(), RecordError> {
        let bytes = encode(run).map_err(|source| RecordError::Save {
            path: self.path.join(RUN_FILE),
            source,
        })?;
        self.save_file(RUN_FILE, &bytes)
    }

    /// Saves another file beside the record in the same way: a report, a picture.
    /// `name` is one component, not a path.
    ///
    /// # Errors
    /// As [`RunDirectory::save`].
    pub fn save_file(&self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        replace(&self.path, name, bytes).map_err(|source| RecordError::Save {
            path: self.path.join(name),
            source,
        })
    }

    /// Takes the directory away again, if it was made here and nothing was saved in
    /// it: for a run that was refused after the directory had been made.
    pub fn discard_if_empty(&self) {
        if self.is_new {
            // `remove_dir` refuses a directory that holds anything, which is the point.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// JSON that can be read back. It has no word for a float that isn't finite and
/// writes `null`, which no reader takes for a number; then what was concluded is
/// left out, so that what was measured can be read.
fn encode(run: &Run) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(run)?;
    if serde_json::from_slice::<Run>(&bytes).is_err() {
        let mut run = run.clone();
        run.analysis = None;
        run.verdict = None;
        for load in &mut run.loads {
            load.rate = if load.rate.is_finite() {
                load.rate
            } else {
                0.0
            };
        }
        bytes = serde_json::to_vec(&run)?;
    }
    bytes.push(b'\n');
    Ok(bytes)
}

fn temporary(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.tmp"))
}

/// Writes a file of any name whole or not at all; a device or a pipe is written
/// to as it stands.
///
/// # Errors
/// [`RecordError::Save`] with the path.
pub fn save_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    let name = path.file_name().and_then(|name| name.to_str());
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let outcome = match name {
        Some(name) if !special => replace(parent, name, bytes),
        _ => OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes)),
    };
    outcome.map_err(|source| RecordError::Save {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file under another name, brings it to the disk, and renames it.
fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    if Path::new(name).file_name() != Some(name.as_ref()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a name of one component is wanted",
        ));
    }
    let written = temporary(directory, name);
    let done = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&written)?;
        file.write_all(bytes)?;
        // A rename may reach the disk before the data does; then a power cut
        // would leave an empty file under the good name.
        file.sync_all()?;
        fs::rename(&written, directory.join(name))
    })();
    if let Err(e) = done {
        let _ = fs::remove_file(&written);
        return Err(e);
    }
    File::open(directory)?.sync_all()
}
