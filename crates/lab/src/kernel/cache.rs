//! The cache of kernels; an entry is complete or does not exist.
//!
//! An entry is a directory that was filled under another name and renamed when it was
//! complete. Its manifest names each file with its size and hash, and begins with its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::fault::{self, Unfit};
use super::unpack::{CopyError, Sum, copy, hex};
use super::{Package, Progress, Tell};
use punctual_record::files::Folder;

/// The prefix of a directory that is being filled; one that is not locked was left behind.
const UNFINISHED: &str = ".unfinished-";
const MANIFEST: &str = "manifest";
const LONGEST_MANIFEST: u64 = 16 << 20;
/// The version of an entry's format: entries of other versions are not read.
const VERSION: u32 = 1;

/// A directory of kernels.
#[derive(Debug, Clone)]
pub struct Cache {
    directory: PathBuf,
}

/// The manifest of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    pub release: String,
    pub package: Option<Package>,
    pub files: BTreeMap<String, Known>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub size: u64,
    pub sha256: String,
}

/// A kernel in the cache.
#[derive(Debug)]
pub(super) struct Entry {
    pub directory: PathBuf,
    pub manifest: Manifest,
}

/// An entry that is being made; it is removed unless it is finished.
#[derive(Debug)]
pub(super) struct Draft {
    pub directory: PathBuf,
    files: BTreeMap<String, Known>,
}

/// Why an entry cannot be used.
#[derive(Debug)]
pub enum EntryDamage {
    /// A file of this name cannot be read.
    Unreadable(String, io::Error),
    /// A file of this name has changed.
    Altered(String),
    /// The manifest cannot be parsed.
    Manifest(serde_json::Error),
    /// Another version of this program made it.
    Version,
}

impl fmt::Display for EntryDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(name, error) => write!(f, "{name}: {error}"),
            Self::Altered(name) => write!(f, "{name} was altered"),
            Self::Manifest(error) => write!(f, "{MANIFEST}: {error}"),
            Self::Version => f.write_str("another version of punctual made it"),
        }
    }
}

enum Found {
    Whole(Entry),
    Damaged(EntryDamage),
    Nothing,
}

impl Cache {
    /// The user's cache: `punctual/kernels` in `XDG_CACHE_HOME`, or else in `~/.cache`.
    ///
    /// # Errors
    /// Neither that nor HOME is an absolute path.
    pub fn for_user() -> Result<Self, Error> {
        let named = |variable| {
            let path = std::env::var_os(variable).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let base = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
        Ok(Self::at(
            base.ok_or(Error::NoCache)?.join("punctual/kernels"),
        ))
    }

    /// The cache in a directory, which is made when it is needed.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self { directory }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The complete entry of this name: found, or made if it is missing or damaged.
    pub(super) fn entry(
        &self,
        key: &str,
        tell: Tell<'_>,
        make: impl FnOnce(&mut Draft, Tell<'_>) -> Result<(String, Option<Package>), Error>,
    ) -> Result<Entry, Error> {
        if let Found::Whole(entry) = self.look_up(key) {
            return Ok(entry);
        }
        let _lock = self.lock(tell)?;
        // Another process may have made it while this one waited for the lock.
        match self.look_up(key) {
            Found::Whole(entry) => return Ok(entry),
            Found::Damaged(why) => tell(&Progress::Damaged {
                place: self.directory.join(key),
                why,
            }),
            Found::Nothing => {}
        }
        self.sweep();
        let mut draft = self.draft(key)?;
        let (release, package) = make(&mut draft, tell)?;
        draft.finish(&self.directory.join(key), release, package)
    }

    /// All complete entries.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let names = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        let names = names.iter().filter_map(|name| name.to_str());
        let known = names.filter(|name| !name.starts_with('.'));
        known
            .filter_map(|name| match self.look_up(name) {
                Found::Whole(entry) => Some(entry),
                _ => None,
            })
            .collect()
    }

    fn look_up(&self, key: &str) -> Found {
        let directory = self.directory.join(key);
        if !directory.is_dir() {
            return Found::Nothing;
        }
        let manifest = match read_manifest(&directory.join(MANIFEST)) {
            Ok(manifest) => manifest,
            Err(why) => return Found::Damaged(why),
        };
        for (name, known) in &manifest.files {
            match hash_of(&directory.join(name), known.size) {
                Ok(sum) if sum.size == known.size && sum.sha256 == known.sha256 => {}
                Ok(_) => return Found::Damaged(EntryDamage::Altered(name.clone())),
                Err(error) => return Found::Damaged(EntryDamage::Unreadable(name.clone(), error)),
            }
        }
        Found::Whole(Entry {
            directory,
            manifest,
        })
    }

    /// Checks that no other user can change or replace what root boots and unpacks.
    fn refuse_strangers(&self) -> Result<(), Error> {
        let failed = |error| Error::cache(&self.directory, error);
        let fault = Folder::open(&self.directory)
            .and_then(|folder| folder.fault())
            .map_err(failed)?;
        let Some(fault) = fault else { return Ok(()) };
        let what = format!("as root: {fault}");
        Err(failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            what,
        )))
    }

    /// The lock: only its holder fills directories and renames them.
    fn lock(&self, tell: Tell<'_>) -> Result<File, Error> {
        make_directory(&self.directory)?;
        self.refuse_strangers()?;
        let path = self.directory.join(".lock");
        let failed = |error| Error::cache(&path, error);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        tell(&Progress::Waiting);
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// Removes the directories of killed processes.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn draft(&self, key: &str) -> Result<Draft, Error> {
        let directory = self.directory.join(format!("{UNFINISHED}{key}"));
        // The leftover is gone: another file may have this name now.
        DirBuilder::new()
            .mode(0o755)
            .create(&directory)
            .map_err(|error| Error::cache(&directory, error))?;
        let files = BTreeMap::new();
        Ok(Draft { directory, files })
    }
}

impl Draft {
    /// Writes a stream to a file of the entry. `source` is the file that an error names.
    pub(super) fn keep(
        &mut self,
        name: &str,
        from: &mut dyn Read,
        limit: u64,
        source: &Path,
    ) -> Result<Sum, Error> {
        let path = self.directory.join(name);
        if let Some(parent) = path.parent() {
            make_directory(parent)?;
        }
        let failed = |error| Error::cache(&path, error);
        if self.holds(name) {
            // A package may contain a file twice: the last one counts.
            fs::remove_file(&path).map_err(failed)?;
        }
        let mut file = BufWriter::new(File::create_new(&path).map_err(failed)?);
        let sum = copy(from, &mut file, limit).map_err(|error| match error {
            CopyError::Read(error) => unpacking(source, error),
            CopyError::Write(error) => failed(error),
            CopyError::TooLong => {
                let name = name.to_owned();
                Error::unfit(source, Unfit::LongFile { name, most: limit })
            }
        })?;
        // The kernel may report only here that there is no space.
        file.into_inner()
            .map_err(|error| failed(error.into_error()))?;
        self.files.insert(
            name.to_owned(),
            Known {
                size: sum.size,
                sha256: sum.sha256.clone(),
            },
        );
        Ok(sum)
    }

    /// A folder for temporary files.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.directory.join(name);
        make_directory(&path)?;
        Ok(path)
    }

    pub(super) fn forget_folder(&self, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        fs::remove_dir_all(&path).map_err(|error| Error::cache(&path, error))
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The length of one of its files, in bytes.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.files.get(name).map(|known| known.size)
    }

    /// Removes a file that is not needed.
    pub(super) fn forget(&mut self, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        self.files.remove(name);
        fs::remove_file(&path).map_err(|error| Error::cache(&path, error))
    }

    fn finish(
        mut self,
        place: &Path,
        release: String,
        package: Option<Package>,
    ) -> Result<Entry, Error> {
        let manifest = Manifest {
            version: VERSION,
            release,
            package,
            files: std::mem::take(&mut self.files),
        };
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| Error::cache(&path, error)
        };
        let path = self.directory.join(MANIFEST);
        let json = serde_json::to_string_pretty(&manifest)
            .map_err(|error| Error::cache(&path, error.into()))?;
        let hash = hex(&Sha256::digest(json.as_bytes()));
        Folder::open(&self.directory)
            .and_then(|folder| {
                folder.replace(OsStr::new(MANIFEST), format!("{hash}\n{json}").as_bytes())
            })
            .map_err(failed(&path))?;
        // rename() replaces only an empty directory.
        if place.exists() {
            let away = with_suffix(&self.directory, "-damaged");
            let _ = fs::remove_dir_all(&away);
            fs::rename(place, &away).map_err(failed(place))?;
            let _ = fs::remove_dir_all(&away);
        }
        fs::rename(&self.directory, place).map_err(failed(place))?;
        Ok(Entry {
            directory: place.to_owned(),
            manifest,
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename it does not exist.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The error about a file whose stream failed.
pub(super) fn unpacking(source: &Path, error: io::Error) -> Error {
    if error.raw_os_error().is_some() {
        return Error::Unreadable {
            path: source.to_owned(),
            error: io::Error::from(error.kind()),
        };
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(source, fault::Damage::Cut),
        io::ErrorKind::OutOfMemory => Error::unfit(source, Unfit::Memory),
        _ => Error::damaged(source, fault::Damage::Unpack(error)),
    }
}

/// The hash of a file's first `limit` bytes, plus one if there are more.
pub(super) fn hash_of(path: &Path, limit: u64) -> io::Result<Sum> {
    let mut file = File::open(path)?.take(limit.saturating_add(1));
    copy(&mut file, &mut io::sink(), u64::MAX).map_err(|error| match error {
        CopyError::Read(error) | CopyError::Write(error) => error,
        CopyError::TooLong => io::ErrorKind::FileTooLarge.into(),
    })
}

fn read_manifest(path: &Path) -> Result<Manifest, EntryDamage> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_MANIFEST).read_to_string(&mut text))
        .map_err(|error| EntryDamage::Unreadable(MANIFEST.to_owned(), error))?;
    let altered = || EntryDamage::Altered(MANIFEST.to_owned());
    let (hash, json) = text.split_once('\n').ok_or_else(altered)?;
    if hash != hex(&Sha256::digest(json.as_bytes())) {
        return Err(altered());
    }
    let manifest: Manifest = serde_json::from_str(json).map_err(EntryDamage::Manifest)?;
    if manifest.version != VERSION {
        return Err(EntryDamage::Version);
    }
    Ok(manifest)
}

/// Makes a directory and its parents, accessible only to the user.
fn make_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|error| Error::cache(path, error))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or(OsStr::new("")).to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
