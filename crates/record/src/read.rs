//! What reading any document needs: its bytes, its header, JSON with the place of an error; and many
//! runs side by side.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;

use serde::Deserialize;

pub use super::bounds::Bounds;
use super::document::Document;
use super::error::RecordError;
use super::run::Run;
use super::scan;

/// Threads that read records side by side: their memory is what bounds them.
const MOST_READERS: usize = 8;

/// Reads records on all CPUs, makes of each there what `prepare` does, and hands that over in
/// the order of `paths` on the caller's thread. However many there are, a few are in memory at
/// a time. It ends with the first error of `take`.
///
/// # Errors
/// That of `take`.
pub fn read_each<T: Send, E>(
    paths: &[PathBuf],
    prepare: impl Fn(Run) -> T + Sync,
    mut take: impl FnMut(&Path, Result<T, RecordError>) -> Result<(), E>,
) -> Result<(), E> {
    let readers = thread::available_parallelism().map_or(1, usize::from);
    let readers = readers.clamp(1, MOST_READERS);
    let prepare = &prepare;
    thread::scope(|scope| {
        let mut lanes = Vec::new();
        for first in 0..readers.min(paths.len()) {
            let (sender, lane) = sync_channel(1);
            lanes.push(lane);
            scope.spawn(move || {
                for path in paths.iter().skip(first).step_by(readers) {
                    // Whoever took them has stopped.
                    if sender.send(Run::read(path).map(prepare)).is_err() {
                        break;
                    }
                }
            });
        }
        for (path, lane) in paths.iter().zip(lanes.iter().cycle()) {
            // A reader ends early only by a panic, which the scope passes on.
            let Ok(prepared) = lane.recv() else { break };
            take(path, prepared)?;
        }
        Ok(())
    })
}

/// A whole file of at most `limit` bytes. It may be a pipe.
pub fn slurp(path: &Path, limit: u64) -> Result<Vec<u8>, RecordError> {
    let error = |source| RecordError::Read {
        path: path.to_owned(),
        source,
    };
    let too_large = || RecordError::TooLarge {
        path: path.to_owned(),
        limit,
    };
    let file = File::open(path).map_err(error)?;
    let length = file.metadata().map_err(error)?.len();
    if length > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let room = usize::try_from(length).unwrap_or(0) + 1;
    bytes
        .try_reserve(room)
        .map_err(|_| error(io::ErrorKind::OutOfMemory.into()))?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(error)?;
    if bytes.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(bytes)
}

/// What every version of a format has.
#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
}

/// A kind of file, by the header that each of its versions has.
pub(crate) struct FileKind {
    /// What an error calls it.
    pub what: &'static str,
    /// The value of `format`.
    pub format: &'static str,
    /// The only version that this program reads.
    pub version: u32,
}

impl FileKind {
    /// Decodes a file of this kind; the header of one that can't be decoded is checked first, for the
    /// rest of another version is not understood.
    pub fn decode<'a, T: Deserialize<'a>>(
        &self,
        path: &Path,
        bytes: &'a [u8],
    ) -> Result<T, RecordError> {
        decode(path, bytes).map_err(|error| match self.check_header(path, bytes) {
            Ok(()) => error,
            Err(header) => header,
        })
    }

    fn check_header(&self, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        let header: Header = decode(path, bytes)?;
        self.check(path, header.format.as_deref(), header.version)
    }

    /// Checks what a header states.
    pub fn check(
        &self,
        path: &Path,
        format: Option<&str>,
        version: Option<u64>,
    ) -> Result<(), RecordError> {
        let (what, reads) = (self.what, u64::from(self.version));
        let is_this = format == Some(self.format);
        match version {
            _ if !is_this => Err(RecordError::malformed(
                path,
                "format",
                format!(
                    "not a punctual {what}: expected \"format\": \"{}\"",
                    self.format
                ),
            )),
            None | Some(0) => Err(RecordError::malformed(
                path,
                "version",
                format!("no version of a {what} is stated"),
            )),
            Some(version) if version > reads => Err(RecordError::Newer {
                path: path.to_owned(),
                what,
                version,
                reads,
            }),
            Some(version) if version < reads => Err(RecordError::Older {
                path: path.to_owned(),
                what,
                version,
                reads,
            }),
            Some(_) => Ok(()),
        }
    }
}

/// Decodes JSON; errors name line, column and field.
pub fn decode<'a, T: Deserialize<'a>>(path: &Path, bytes: &'a [u8]) -> Result<T, RecordError> {
    serde_json::from_slice(bytes).map_err(|e| {
        let field = scan::path_at(bytes, e.line(), e.column());
        let mut place = format!("line {}, column {}", e.line(), e.column());
        if !field.is_empty() {
            place = format!("{place}, at {}", super::text::one_line(&field));
        }
        RecordError::malformed(path, place, reason(&e))
    })
}

/// The error without the place, which stands elsewhere.
fn reason(e: &serde_json::Error) -> String {
    let text = e.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
