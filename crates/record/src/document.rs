//! What all documents have in common: one file in a directory, a header, limits, promises.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::Broken;
use crate::budget::Budget;
use crate::error::RecordError;
use crate::finding::Check;
use crate::interference::Interference;
use crate::read::{FileKind, slurp};
use crate::scan;
use crate::taskset::analysis::SetAnalysis;

/// What punctual saves and reads again: a run, a lab, a fit, a ladder, a cost.
///
/// A file may come from anywhere. Reading is total: whatever it holds, the answer is a document that
/// keeps its promises, or one line that names the file and the place. Memory is bounded by
/// [`Document::MOST_BYTES`] and by what the document promises of its lists.
pub trait Document: Serialize + DeserializeOwned {
    /// What an error calls it.
    const WHAT: &'static str;
    /// Its file, in its directory.
    const FILE: &'static str;
    /// Its page, beside it.
    const PAGE: Option<&'static str>;
    /// The word that opens it.
    const FORMAT: &'static str;
    /// The version that this program writes, and the only one that it reads.
    const VERSION: u32;
    /// Bytes of its file.
    const MOST_BYTES: u64 = 64 << 20;

    /// The format and the version that it states.
    fn header(&self) -> (&str, u32);

    /// What it promises beyond its types.
    ///
    /// # Errors
    /// The first promise that is broken, and where.
    fn promises(&self) -> Result<(), Broken>;

    /// Makes again what follows from the rest: of one that was killed before, or where nothing that
    /// is shown may be only said.
    fn conclude(&mut self) {}

    /// The text of its file.
    ///
    /// # Errors
    /// What can't be written as JSON.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Whether a path is that of such a document: the file, or a directory that holds it.
    #[must_use]
    fn is_at(path: &Path) -> bool {
        path.join(Self::FILE).is_file() || path.file_name() == Some(Self::FILE.as_ref())
    }

    /// Reads one: `path` is the file or its directory. An unfinished one is read as any other; the
    /// leftover of a save that was cut short is not looked at.
    ///
    /// # Errors
    /// [`RecordError`] with the path and, for a damaged file, the place.
    fn read(path: &Path) -> Result<Self, RecordError> {
        let file = locate(path, Self::FILE)?;
        let bytes = slurp(&file, Self::MOST_BYTES)?;
        Self::parse(&file, &bytes)
    }

    /// As [`Document::read`], from memory: `path` is only named in errors.
    ///
    /// # Errors
    /// As [`Document::read`].
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RecordError> {
        let kind = FileKind {
            what: Self::WHAT,
            format: Self::FORMAT,
            version: Self::VERSION,
        };
        scan::check(path, bytes, &scan::RECORD)?;
        let document: Self = kind.decode(path, bytes)?;
        let (format, version) = document.header();
        kind.check(path, Some(format), Some(version.into()))?;
        let mut document = document.validated(path)?;
        document.conclude();
        Ok(document)
    }

    /// The document if it keeps its promises, or the place where it doesn't.
    ///
    /// # Errors
    /// [`RecordError::Malformed`].
    fn validated(self, path: &Path) -> Result<Self, RecordError> {
        match self.promises() {
            Ok(()) => Ok(self),
            Err(Broken { place, reason }) => Err(RecordError::malformed(path, place, reason)),
        }
    }
}

/// What is printed for programs, and not read again.
pub trait Printed: Serialize {
    /// The word that its JSON has as its format.
    const FORMAT: &'static str;
    /// The version of that JSON.
    const VERSION: u32;
}

impl Printed for Check {
    const FORMAT: &'static str = "punctual-check";
    const VERSION: u32 = 1;
}

impl Printed for Budget {
    const FORMAT: &'static str = "punctual-budget";
    const VERSION: u32 = 1;
}

impl Printed for SetAnalysis {
    const FORMAT: &'static str = "punctual-analysis";
    const VERSION: u32 = 1;
}

impl Printed for Interference {
    const FORMAT: &'static str = "punctual-interference";
    const VERSION: u32 = 1;
}

/// The directory of a document: `path` is that, or the file in it.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    match path.is_dir() {
        true => path,
        false => path.parent().unwrap_or(Path::new("")),
    }
}

/// A document's file: `path` itself, or the one of that name in it.
fn locate(path: &Path, name: &'static str) -> Result<PathBuf, RecordError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let file = path.join(name);
    match file.try_exists() {
        Ok(true) => Ok(file),
        Ok(false) => Err(RecordError::NoRecord {
            path: path.to_owned(),
            name,
        }),
        Err(source) => Err(RecordError::Read { path: file, source }),
    }
}
