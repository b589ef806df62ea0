//! Where the machine is read from, and how: bounded, total, with the reasons
//! for what could not be read.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use punctual_record::text::shortened;

/// The most that is read of one file. Files of `/proc` and `/sys` that matter
/// here are far smaller; a recorded tree may hold anything.
pub const READ_LIMIT: u64 = 1 << 20;

/// The most entries that are taken from one directory.
const ENTRY_LIMIT: usize = 1 << 17;

/// The file tree that describes a machine: this one's, or one recorded elsewhere.
///
/// On a recorded tree no system call is asked about the machine, so that nothing
/// of the one that we run on slips into the picture.
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
    /// The machine that we run on.
    #[must_use]
    pub fn live() -> Self {
        Self {
            prefix: PathBuf::from("/"),
            live: true,
        }
    }

    /// A tree that was recorded from some machine, with `proc` and `sys` below it.
    #[must_use]
    pub fn recorded(prefix: impl Into<PathBuf>) -> Self {
        Self {
            prefix: prefix.into(),
            live: false,
        }
    }

    /// Whether this is the machine that we run on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The place of an absolute path in this tree. `..` is dropped: paths that
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

    /// Opens a regular file. Anything else (a pipe, a device) could block or never end.
    fn open(&self, absolute: &str) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
            .open(self.path(absolute))?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a regular file"))
        }
    }

    /// The first [`READ_LIMIT`] bytes of a file.
    ///
    /// # Errors
    /// When it can't be opened or read, or is not a regular file.
    pub fn bytes(&self, absolute: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(absolute)?
            .take(READ_LIMIT)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The first [`READ_LIMIT`] bytes of a file as text, without the white space
    /// and the zero bytes (device tree) at its end. What is not UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`Root::bytes`].
    pub fn text(&self, absolute: &str) -> io::Result<String> {
        let bytes = self.bytes(absolute)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text
            .trim_end_matches(|c: char| c == '\0' || c.is_whitespace())
            .to_owned())
    }

    /// Whether there is something at this path.
    #[must_use]
    pub fn exists(&self, absolute: &str) -> bool {
        self.path(absolute).symlink_metadata().is_ok()
    }

    /// Where a symbolic link points to.
    ///
    /// # Errors
    /// When it is not a link or can't be read.
    pub fn link(&self, absolute: &str) -> io::Result<String> {
        let target = std::fs::read_link(self.path(absolute))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// The names in a directory, in order of bytes.
    ///
    /// # Errors
    /// When it can't be opened. An entry that vanishes while we read is left out.
    pub fn names(&self, absolute: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(absolute))?
            .take(ENTRY_LIMIT)
            .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
            .filter_map(|name: OsString| name.into_string().ok())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The numbers N of the names `<stem>N` in a directory, in order; empty where
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

/// Reads a [`Root`] and remembers what could not be read, and why.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The tree.
    pub root: &'a Root,
    unread: Vec<String>,
}

/// The most reasons that are kept: garbage must not fill the record.
const UNREAD_LIMIT: usize = 64;

impl<'a> Reader<'a> {
    /// A reader without complaints so far.
    #[must_use]
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            unread: Vec::new(),
        }
    }

    /// The complaints: `path: reason`.
    #[must_use]
    pub fn into_unread(self) -> Vec<String> {
        self.unread
    }

    /// Notes that `what` could not be read.
    pub fn note(&mut self, what: &str, reason: impl std::fmt::Display) {
        if self.unread.len() < UNREAD_LIMIT {
            self.unread.push(format!("{what}: {reason}"));
        }
    }

    /// The text of a file that should be there.
    pub fn text(&mut self, path: &str) -> Option<String> {
        match self.root.text(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.note(path, plain(&error));
                None
            }
        }
    }

    /// The text of a file that may be absent, where absence itself says enough
    /// (no such driver, no such limit). Other reasons are noted.
    pub fn optional(&mut self, path: &str) -> Option<String> {
        match self.root.text(path) {
            Ok(text) => Some(text),
            Err(error) if absent(&error) => None,
            Err(error) => {
                self.note(path, plain(&error));
                None
            }
        }
    }

    /// What `parse` makes of a file that may be absent; nonsense is noted.
    pub fn parsed<T>(&mut self, path: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.optional(path)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.note(path, format!("not understood: {}", excerpt(&text)));
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

/// Whether an error says that there is no such thing on this machine.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO)
    )
}

/// An error's words without the number that Rust puts behind them.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

/// The beginning of a text, fit for one line.
pub(super) fn excerpt(text: &str) -> String {
    format!("`{}`", shortened(text, 61))
}
