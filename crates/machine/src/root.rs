//! The file tree that the machine is read from: reading is bounded and total, and notes
//! the reasons for what could not be read.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_record::text::shortened;
use punctual_record::{Unread, UnreadReason};
use punctual_rt::cpulist;

use crate::snapshot::{Bytes, Entries, Snapshot};

/// The most that is read of one file. Files of `/proc` and `/sys` that matter
/// here are far smaller; a recorded tree may hold anything.
pub const READ_LIMIT: u64 = 1 << 20;

/// A pipe, a device or a directory in the place of a file.
#[derive(Debug)]
pub(crate) struct NotRegular;

impl std::fmt::Display for NotRegular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a regular file")
    }
}

impl std::error::Error for NotRegular {}

/// The number of entries that are read of one directory.
const ENTRY_LIMIT: usize = 1 << 17;

/// The file tree that describes a machine: the live one's, one recorded elsewhere, or a
/// snapshot.
///
/// For a recorded tree or a snapshot no system call asks about the machine, so that nothing
/// of the live one gets into the result.
#[derive(Debug, Clone, Default)]
pub struct Root {
    tree: Tree,
    /// Keeps whatever is read.
    recorder: Option<Arc<Mutex<Snapshot>>>,
}

#[derive(Debug, Clone, Default)]
enum Tree {
    #[default]
    Live,
    Folder(PathBuf),
    Snapshot(Arc<Snapshot>),
}

impl Root {
    /// The live machine.
    #[must_use]
    pub fn live() -> Self {
        Self::default()
    }

    /// A recorded tree of some machine, with `proc` and `sys` below it.
    #[must_use]
    pub fn recorded(prefix: impl Into<PathBuf>) -> Self {
        Self {
            tree: Tree::Folder(prefix.into()),
            recorder: None,
        }
    }

    /// A machine as it was when its snapshot was made.
    #[must_use]
    pub fn of_snapshot(snapshot: Snapshot) -> Self {
        Self {
            tree: Tree::Snapshot(Arc::new(snapshot)),
            recorder: None,
        }
    }

    /// The same tree; whatever is read from it is kept from now on.
    #[must_use]
    pub fn recording(self) -> Self {
        Self {
            recorder: Some(Arc::default()),
            ..self
        }
    }

    /// What was read since [`Root::recording`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let recorder = self.recorder.as_ref();
        recorder.map_or_else(Snapshot::default, |recorder| locked(recorder).clone())
    }

    /// Whether this is the live machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.tree, Tree::Live)
    }

    /// The path of an absolute path in this tree, for what is not read through it. `..` is
    /// dropped: paths that were read from a file must not lead out of it. In a snapshot
    /// there is no such path.
    #[must_use]
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let mut path = match &self.tree {
            Tree::Live => PathBuf::from("/"),
            Tree::Folder(prefix) => prefix.clone(),
            Tree::Snapshot(_) => return PathBuf::new(),
        };
        for component in absolute.as_ref().components() {
            if let Component::Normal(name) = component {
                path.push(name);
            }
        }
        path
    }

    /// Reads by `read`, or from the snapshot, and keeps the result where the tree is recorded.
    fn kept<T: Clone>(
        &self,
        key: &str,
        entries: impl Fn(&mut Snapshot) -> &mut Entries<T>,
        recorded: impl Fn(&Snapshot) -> &Entries<T>,
        read: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let result = match &self.tree {
            Tree::Snapshot(snapshot) => recorded(snapshot).get(key),
            Tree::Live | Tree::Folder(_) => read(),
        };
        if let Some(recorder) = &self.recorder {
            entries(&mut locked(recorder)).put(key, &result);
        }
        result
    }

    /// Opens a regular file. Any other (a pipe, a device) could block or never end.
    fn open(&self, absolute: &str) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
            .open(self.path(absolute))?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other(NotRegular))
        }
    }

    /// The first [`READ_LIMIT`] bytes of a file.
    ///
    /// # Errors
    /// If it can't be opened or read, or is not a regular file.
    pub fn bytes(&self, absolute: &str) -> io::Result<Vec<u8>> {
        let read = || {
            let mut bytes = Vec::new();
            self.open(absolute)?
                .take(READ_LIMIT)
                .read_to_end(&mut bytes)?;
            Ok(Bytes(bytes))
        };
        let kept = self.kept(absolute, |to| &mut to.files, |from| &from.files, read);
        kept.map(|Bytes(bytes)| bytes)
    }

    /// The first [`READ_LIMIT`] bytes of a file as text, without trailing white space
    /// and zero bytes (device tree). Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// The errors of [`Root::bytes`].
    pub fn text(&self, absolute: &str) -> io::Result<String> {
        let bytes = self.bytes(absolute)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text
            .trim_end_matches(|c: char| c == '\0' || c.is_whitespace())
            .to_owned())
    }

    /// Whether this path exists.
    #[must_use]
    pub fn exists(&self, absolute: &str) -> bool {
        let read = || self.path(absolute).symlink_metadata().map(|_| ());
        self.kept(absolute, |to| &mut to.present, |from| &from.present, read)
            .is_ok()
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// If it is not a link or can't be read.
    pub fn link(&self, absolute: &str) -> io::Result<String> {
        let read = || {
            let target = std::fs::read_link(self.path(absolute))?;
            Ok(target.to_string_lossy().into_owned())
        };
        self.kept(absolute, |to| &mut to.links, |from| &from.links, read)
    }

    /// The names in a directory, in order of bytes.
    ///
    /// # Errors
    /// If it can't be opened. An entry that vanishes during the reading is omitted.
    pub fn names(&self, absolute: &str) -> io::Result<Vec<String>> {
        let read = || {
            let mut names: Vec<String> = std::fs::read_dir(self.path(absolute))?
                .take(ENTRY_LIMIT)
                .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
                .filter_map(|name: OsString| name.into_string().ok())
                .collect();
            names.sort_unstable();
            Ok(names)
        };
        self.kept(absolute, |to| &mut to.names, |from| &from.names, read)
    }

    /// The answer of the live machine to a question that no file answers, as text: a system
    /// call with its argument. A snapshot has the answers that were given when it was made; a
    /// recorded tree has none.
    ///
    /// # Errors
    /// That of the call; [`io::ErrorKind::NotFound`] where nothing was recorded.
    pub fn answer(
        &self,
        question: &str,
        ask: impl FnOnce() -> io::Result<String>,
    ) -> io::Result<String> {
        let read = || {
            if self.is_live() {
                ask()
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        };
        self.kept(question, |to| &mut to.answers, |from| &from.answers, read)
    }

    /// The numbers N of the names `<stem>N` in a directory, in order; empty if
    /// there is no such directory.
    #[must_use]
    pub fn numbered(&self, absolute: &str, stem: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self
            .names(absolute)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| decimal(name.strip_prefix(stem)?))
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

fn locked(recorder: &Mutex<Snapshot>) -> MutexGuard<'_, Snapshot> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A plain decimal number: no sign, no white space.
#[must_use]
pub fn decimal<N: std::str::FromStr>(text: &str) -> Option<N> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Reads a [`Root`] and collects what could not be read, and why.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The tree.
    pub root: &'a Root,
    unread: Vec<Unread>,
}

/// The number of reasons that are kept: garbage must not fill the record.
const UNREAD_LIMIT: usize = 64;

impl<'a> Reader<'a> {
    /// A reader without errors so far.
    #[must_use]
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            unread: Vec::new(),
        }
    }

    /// What could not be read.
    #[must_use]
    pub fn into_unread(self) -> Vec<Unread> {
        self.unread
    }

    /// Notes that `what` could not be read.
    pub fn note(&mut self, what: &str, why: UnreadReason) {
        if self.unread.len() < UNREAD_LIMIT {
            let what = what.to_owned();
            self.unread.push(Unread { what, why });
        }
    }

    /// Notes that `what` could not be read because of an error.
    pub fn note_error(&mut self, what: &str, error: &io::Error) {
        let is_not_regular = error
            .get_ref()
            .is_some_and(|inner| inner.is::<NotRegular>());
        let why = match is_not_regular {
            true => UnreadReason::NotRegular,
            false => UnreadReason::Error {
                error: plain(error),
            },
        };
        self.note(what, why);
    }

    /// The text of a file that should exist.
    pub fn text(&mut self, path: &str) -> Option<String> {
        match self.root.text(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.note_error(path, &error);
                None
            }
        }
    }

    /// The text of a file that may be absent, if its absence has a meaning
    /// (no such driver, no such limit). Other errors are noted.
    pub fn optional(&mut self, path: &str) -> Option<String> {
        match self.root.text(path) {
            Ok(text) => Some(text),
            Err(error) if absent(&error) => None,
            Err(error) => {
                self.note_error(path, &error);
                None
            }
        }
    }

    /// The result of `parse` for a file that may be absent; a parse failure is noted.
    pub fn parsed<T>(&mut self, path: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.optional(path)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.note(path, not_understood(&text));
        }
        value
    }

    /// A number in a file that may be absent.
    pub fn number<N: std::str::FromStr>(&mut self, path: &str) -> Option<N> {
        self.parsed(path, |text| text.parse().ok())
    }

    /// A CPU list in a file that may be absent.
    pub fn cpus(&mut self, path: &str) -> Option<Vec<usize>> {
        self.parsed(path, |text| cpulist::numbers(text).ok())
    }
}

/// Whether an error means that this machine has no such thing.
#[must_use]
pub fn absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(
            error.raw_os_error(),
            Some(libc::ENOTDIR | libc::ENODEV | libc::ENXIO)
        )
}

/// An error's text without the number that Rust appends.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

/// The beginning of a text, on one line.
#[must_use]
pub fn excerpt(text: &str) -> String {
    format!("`{}`", shortened(text, 61))
}

/// That a text is not of the expected form, with its beginning on one line.
#[must_use]
pub fn not_understood(text: &str) -> UnreadReason {
    UnreadReason::NotUnderstood {
        text: shortened(text, 61),
    }
}
