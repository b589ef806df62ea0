//! `watch --textfile`: metrics for the textfile collector of node_exporter, while the watch goes on.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::failure::Failure;
use punctual_record::files::Folder;
use punctual_record::{Run, State, Unsaved, UnsavedPart, UnsavedReason};
use punctual_report::formats::Metrics;

/// How often it is written: as often as Prometheus asks by default. After an error it is tried again
/// when there are new figures.
const EVERY: Duration = Duration::from_secs(60);
/// What the collector reads.
const ENDING: &str = "prom";

/// A file of metrics that is written again and again, always whole.
#[derive(Debug)]
pub struct TextFile {
    directory: PathBuf,
    name: OsString,
    metrics: Metrics,
    /// When it is written next; at once if there is none.
    next: Option<Instant>,
    has_failed: bool,
}

impl TextFile {
    /// A file that can be written now.
    ///
    /// # Errors
    /// Its name, or its directory.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("--textfile: {}: {why}", path.display()))
        };
        let name = path.file_name();
        let (Some(name), Some(ENDING)) = (name, path.extension().and_then(OsStr::to_str)) else {
            return Err(refused(&format_args!(
                "expected a name that ends in .{ENDING}: node_exporter's textfile collector reads no other file"
            )));
        };
        if path.is_dir() {
            return Err(refused(&"it is a directory"));
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let try_out = || {
            let folder = Folder::open(directory)?;
            let (_, unfinished) = folder.begin(name)?;
            folder.abandon(unfinished);
            io::Result::Ok(())
        };
        try_out().map_err(|error| refused(&error))?;
        Ok(Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
            metrics: Metrics::default(),
            next: None,
            has_failed: false,
        })
    }

    /// Whether it could not be written the last time.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Writes the metrics, if it is time or the run has ended. Of errors in a row the first is
    /// returned.
    pub fn publish(&mut self, run: &Run) -> Option<Unsaved> {
        let ended = run.state != State::Unfinished;
        if !ended && self.next.is_some_and(|next| Instant::now() < next) {
            return None;
        }
        let Err(why) = self.write(run) else {
            self.next = Some(Instant::now() + EVERY);
            self.has_failed = false;
            return None;
        };
        self.next = None;
        let first = !std::mem::replace(&mut self.has_failed, true);
        first.then(|| Unsaved {
            directory: self.place().display().to_string(),
            parts: vec![UnsavedPart::File {
                name: self.name.to_string_lossy().into_owned(),
            }],
            why,
        })
    }

    fn place(&self) -> &Path {
        match self.directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => &self.directory,
        }
    }

    /// The directory is opened anew: it may have been removed and made again.
    fn write(&mut self, run: &Run) -> Result<(), UnsavedReason> {
        let text = self
            .metrics
            .write(run)
            .map_err(|error| UnsavedReason::Error {
                error: error.to_string(),
            })?;
        let written = Folder::open(&self.directory)
            .and_then(|folder| folder.replace(&self.name, text.as_bytes()));
        written.map_err(|error| UnsavedReason::from(&error))
    }
}
