//! The run directory: made before anything is measured, saved into while the run
//! goes, whole at every moment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::document::Document;
use super::error::RecordError;
use super::run::Run;
use super::time;
use super::unsaved::{DirectoryRemoved, Unsaved, UnsavedPart, UnsavedReason};
use crate::files::{Fault, Folder, Reserve};

/// A directory that one run is saved into. It is held open: what is put in its place is not
/// written to.
#[derive(Debug)]
pub struct RunDirectory {
    folder: Folder,
    /// The directory that it was made in, and its name there: what was there before is never
    /// removed.
    made_in: Option<(Folder, OsString)>,
    /// Space for the next version of the record, under that name.
    reserve: Mutex<Option<(&'static str, Reserve)>>,
    /// What could not be saved and is not there, or not as it should be, and why.
    unsaved: Mutex<BTreeMap<UnsavedPart, UnsavedReason>>,
}

impl RunDirectory {
    /// Makes the directory, before anything is measured.
    ///
    /// Without a `path` it is `punctual-VERB-TIME` in the working directory, with
    /// `-2`, `-3` and so on where that exists. A `path` that exists is taken if it
    /// is an empty directory, and refused otherwise; its parent must exist. Root does
    /// not take a directory that other users may change.
    ///
    /// # Errors
    /// [`RecordError::Exists`], [`RecordError::Foreign`], or [`RecordError::Create`] with the
    /// system's reason.
    pub fn create(path: Option<&Path>, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        match path {
            Some(path) => Self::create_named(path)?,
            None => Self::create_default(Path::new(""), verb, now)?,
        }
        .taken_alone()?
        .proved_writable()
    }

    /// As [`RunDirectory::create`] without a path, in another place than the
    /// working directory.
    ///
    /// # Errors
    /// As [`RunDirectory::create`].
    pub fn create_within(parent: &Path, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        Self::create_default(parent, verb, now)?
            .taken_alone()?
            .proved_writable()
    }

    fn create_named(path: &Path) -> Result<Self, RecordError> {
        let error = |source| RecordError::Create {
            path: path.to_owned(),
            source,
        };
        // `.` and `/` are there.
        let Some(name) = path.file_name() else {
            return Self::taken(path, Folder::open(path).map_err(error)?);
        };
        let parent = Folder::open(path.parent().unwrap_or(Path::new(""))).map_err(error)?;
        match parent.make(name) {
            Ok(folder) => Ok(Self::of(folder, Some((parent, name.to_owned())))),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let found = parent.metadata_of(name).map_err(error)?;
                let folder = if found.is_symlink() {
                    refuse(path, parent.fault_of_link(found.uid()))?;
                    Folder::open(path)
                } else {
                    parent.enter(name)
                };
                match folder {
                    Ok(folder) => Self::taken(path, folder),
                    Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                        Err(RecordError::Exists {
                            path: path.to_owned(),
                        })
                    }
                    Err(e) => Err(error(e)),
                }
            }
            Err(e) => Err(error(e)),
        }
    }

    /// An empty directory that was there before.
    fn taken(path: &Path, folder: Folder) -> Result<Self, RecordError> {
        let error = |source| RecordError::Create {
            path: path.to_owned(),
            source,
        };
        refuse(path, folder.fault().map_err(error)?)?;
        Ok(Self::of(folder, None))
    }

    fn create_default(parent: &Path, verb: &str, now: SystemTime) -> Result<Self, RecordError> {
        // As many runs as may begin within one second.
        const MOST: u32 = 1000;
        let first = format!("punctual-{verb}-{}", time::compact(now));
        let error = |name: &str| {
            let path = parent.join(name);
            move |source| RecordError::Create { path, source }
        };
        let within = Folder::open(parent).map_err(error(&first))?;
        let mut name = first.clone();
        for attempt in 2.. {
            match within.make(OsStr::new(&name)) {
                Ok(folder) => return Ok(Self::of(folder, Some((within, name.into())))),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt <= MOST => {
                    name = format!("{first}-{attempt}");
                }
                Err(source) => return Err(error(&name)(source)),
            }
        }
        unreachable!("the loop ends by returning")
    }

    fn of(folder: Folder, made_in: Option<(Folder, OsString)>) -> Self {
        Self {
            folder,
            made_in,
            reserve: Mutex::new(None),
            unsaved: Mutex::new(BTreeMap::new()),
        }
    }

    /// Of two runs that find the same empty directory one has it.
    fn taken_alone(self) -> Result<Self, RecordError> {
        let path = || self.path().to_owned();
        let error = |source| RecordError::Create {
            path: path(),
            source,
        };
        let alone = self.folder.take().map_err(error)? && self.folder.is_empty().map_err(error)?;
        if !alone {
            return Err(RecordError::Exists { path: path() });
        }
        Ok(self)
    }

    /// Permission bits don't tell (read-only mounts, quotas): a file does.
    fn proved_writable(self) -> Result<Self, RecordError> {
        let begun = self.folder.begin(OsStr::new(Run::FILE));
        match begun {
            Ok((_, unfinished)) => {
                self.folder.abandon(unfinished);
                Ok(self)
            }
            Err(source) => {
                let path = self.path().to_owned();
                self.discard_if_empty();
                Err(RecordError::Create { path, source })
            }
        }
    }

    /// A directory that is there.
    ///
    /// # Errors
    /// [`RecordError::Create`] where it can't be opened.
    pub fn existing(path: &Path) -> Result<Self, RecordError> {
        let folder = Folder::open(path).map_err(|source| RecordError::Create {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::of(folder, None))
    }

    /// One in this one, which is made where it lacks.
    ///
    /// # Errors
    /// [`RecordError::Create`].
    pub fn within(&self, name: &Path) -> Result<Self, RecordError> {
        let error = |source| RecordError::Create {
            path: self.path().join(name),
            source,
        };
        let mut folder = None;
        for part in name.iter() {
            let within = folder.as_ref().unwrap_or(&self.folder);
            folder = Some(within.enter_or_make(part).map_err(error)?);
        }
        let folder = folder.ok_or_else(|| error(io::ErrorKind::InvalidInput.into()))?;
        Ok(Self::of(folder, None))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The directory, held open.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Keeps space for a document as it will be: nothing else that is saved takes it.
    pub fn reserve<D: Document>(&self) {
        let name = D::FILE;
        let found = self.folder.metadata_of(OsStr::new(name));
        let length = found.map_or(0, |found| found.len());
        let reserve = Reserve::begin(&self.folder, OsStr::new(name), length);
        *held(&self.reserve) = reserve.ok().map(|reserve| (name, reserve));
    }

    /// Gives that space back.
    pub fn release(&self) {
        if let Some((_, mut reserve)) = held(&self.reserve).take() {
            reserve.release(&self.folder);
        }
    }

    /// Saves a document. At every moment, also after a crash, its file is whole: either what was
    /// saved before or what is saved now.
    ///
    /// # Errors
    /// [`RecordError::Save`]. What was saved before still stands and nothing else
    /// is left behind, so that a run on a full disk can go on.
    pub fn save<D: Document>(&self, document: &D) -> Result<(), RecordError> {
        let saved = document.encode();
        let saved = saved.and_then(|bytes| self.put(D::FILE, &bytes));
        self.noted(D::FILE, saved)
    }

    /// Saves a record again that was saved as it should be, with what is to be said of the files
    /// beside it. Where there is no room for that, it stands as it is.
    pub fn amend(&self, run: &Run) {
        if held(&self.unsaved).contains_key(&file(Run::FILE)) {
            return;
        }
        if let Ok(bytes) = run.encode() {
            let _ = self.folder.replace(OsStr::new(Run::FILE), &bytes);
        }
    }

    /// Saves another file beside the record in the same way: a report, a picture.
    /// `name` is one component, not a path.
    ///
    /// # Errors
    /// As [`RunDirectory::save`].
    pub fn save_file(&self, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
        self.noted(name, self.put(name, bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match &mut *held(&self.reserve) {
            Some((reserved, reserve)) if *reserved == name => reserve.save(&self.folder, bytes),
            _ => self.folder.replace(OsStr::new(name), bytes),
        }
    }

    fn noted(&self, name: &str, saved: io::Result<()>) -> Result<(), RecordError> {
        let mut unsaved = held(&self.unsaved);
        let source = match saved {
            Ok(()) => {
                unsaved.remove(&file(name));
                return Ok(());
            }
            Err(_) if self.folder.is_gone() => {
                io::Error::new(io::ErrorKind::NotFound, DirectoryRemoved)
            }
            Err(error) => error,
        };
        unsaved.insert(file(name), UnsavedReason::from(&source));
        Err(RecordError::Save {
            path: self.path().join(name),
            source,
        })
    }

    /// Notes a part that could not be saved by other means.
    pub fn note_unsaved(&self, part: UnsavedPart, why: UnsavedReason) {
        held(&self.unsaved).insert(part, why);
    }

    /// What could not be saved and is not there, or not as it should be: one entry for each
    /// reason.
    #[must_use]
    pub fn unsaved(&self) -> Vec<Unsaved> {
        let mut reasons: BTreeMap<UnsavedReason, Vec<UnsavedPart>> = BTreeMap::new();
        for (part, why) in held(&self.unsaved).iter() {
            reasons.entry(why.clone()).or_default().push(part.clone());
        }
        let directory = self.path().display().to_string();
        let entry = |(why, parts)| Unsaved {
            directory: directory.clone(),
            parts,
            why,
        };
        reasons.into_iter().map(entry).collect()
    }

    /// Removes a document and its page, of which nothing was measured.
    pub fn remove_document<D: Document>(&self) {
        self.remove(D::FILE);
        D::PAGE.inspect(|page| self.remove(page));
    }

    /// Removes a file of it.
    pub fn remove(&self, name: &str) {
        let _ = self.folder.remove(OsStr::new(name));
    }

    /// Removes a directory of it, if that holds nothing.
    pub fn remove_empty(&self, name: &str) {
        let _ = self.folder.remove_empty(OsStr::new(name));
    }

    /// Takes the directory away again, if it was made here and nothing was saved in
    /// it: for a run that was refused after the directory had been made.
    pub fn discard_if_empty(&self) {
        self.release();
        if let Some((parent, name)) = &self.made_in {
            // A directory that holds anything is not removed, which is the point.
            let _ = parent.remove_empty(name);
        }
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        self.release();
    }
}

fn file(name: &str) -> UnsavedPart {
    UnsavedPart::File {
        name: name.to_owned(),
    }
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse(path: &Path, fault: Option<Fault>) -> Result<(), RecordError> {
    fault.map_or(Ok(()), |fault| {
        Err(RecordError::Foreign {
            path: path.to_owned(),
            fault,
        })
    })
}
