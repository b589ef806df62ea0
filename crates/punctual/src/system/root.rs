//! The file tree that the machine is read from: reading is bounded and total, and notes
//! the reasons for what could not be read.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use punctual_record::text::shortened;
use punctual_record::{Unread, UnreadReason};

/// The most that is read of one file. Files of `/proc` and `/sys` that matter
/// here are far smaller; a recorded tree may hold anything.
pub const READ_LIMIT: u64 = 1 << 20;

/// A pipe, a device or a directory in the place of a file.
#[derive(Debug)]
struct NotRegular;

impl std::fmt::Display for NotRegular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a regular file")
    }
}

impl std::error::Error for NotRegular {}

/// The number of entries that are read of one directory.
const ENTRY_LIMIT: usize = 1 << 17;

/// The file tree that describes a machine: the live one's, or one recorded elsewhere.
///
/// For a recorded tree no system call asks about the machine, so that nothing
/// of the live one gets into the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    prefix: PathBuf,
    live: bool,
}

impl Default for Root {
    fn default() -> Self {
        Self::live()
    }
}

impl Root {
    /// The live machine.
    #[must_use]
    pub fn live() -> Self {
        Self {
            prefix: PathBuf::from("/"),
            live: true,
        }
    }

    /// A recorded tree of some machine, with `proc` and `sys` below it.
    #[must_use]
    pub fn recorded(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
            live: false,
        }
    }

    /// Whether this is the live machine.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The path of an absolute path in this tree. `..` is dropped: paths that
    /// were read from a file must not lead out of it.
    #[must_use]
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let mut path = self.prefix.clone();
        for component in absolute.as_ref().components() {
            if let Component::Normal(name) = component {
                path.push(name);
            }
        }
        path
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
        let mut bytes = Vec::new();
        self.open(absolute)?
            .take(READ_LIMIT)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
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
        self.path(absolute).symlink_metadata().is_ok()
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// If it is not a link or can't be read.
    pub fn link(&self, absolute: &str) -> io::Result<String> {
        let target = std::fs::read_link(self.path(absolute))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// The names in a directory, in order of bytes.
    ///
    /// # Errors
    /// If it can't be opened. An entry that vanishes during the reading is omitted.
    pub fn names(&self, absolute: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(absolute))?
            .take(ENTRY_LIMIT)
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
            .filter_map(|name: OsString| name.into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
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

/// A plain decimal number: no sign, no white space.
pub(super) fn decimal<N: std::str::FromStr>(text: &str) -> Option<N> {
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
        self.parsed(path, |text| super::cpus::parse_kernel(text).ok())
    }
}

/// Whether an error means that this machine has no such thing.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO)
    )
}

/// An error's text without the number that Rust appends.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

/// The beginning of a text, on one line.
pub(super) fn excerpt(text: &str) -> String {
    format!("`{}`", shortened(text, 61))
}

/// That a text is not of the expected form, with its beginning on one line.
pub(super) fn not_understood(text: &str) -> UnreadReason {
    UnreadReason::NotUnderstood {
        text: shortened(text, 61),
    }
}
