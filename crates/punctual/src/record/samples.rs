//! Every sample of a run, for `--samples`: Parquet files in the directory
//! `samples/` of the run, written as the run goes.
//!
//! A Parquet file ends with its index and can't be read without it, so samples go
//! into numbered parts, `samples-00000.parquet` and so on. A part is written under
//! another name and takes its own when it is whole: what stands under `*.parquet`
//! can be read at every moment, and `kill -9` costs at most the last
//! [`PART_SECONDS`] seconds. Readers of Parquet take the directory as one table.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `cpu` | int32 | the probe's CPU |
//! | `cycle` | int64 | index of the wake-up in its thread |
//! | `asked_ns` | int64 | the instant that was asked for, CLOCK_MONOTONIC |
//! | `latency_ns` | int64 | wake-up time minus that instant |
//! | `missed` | int64 | periods that passed while the thread was late |

mod delta;
mod parquet;
mod thrift;

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::RecordError;
use super::time;

/// The directory of the parts within the run directory.
pub const SAMPLES_DIRECTORY: &str = "samples";
/// A part is closed at the first checkpoint after so many seconds.
pub const PART_SECONDS: u64 = 60;
/// A part is closed after so many samples in any case.
pub const PART_ROWS: u64 = 1 << 22;
/// Samples held in memory before they are written: 40 bytes each.
const GROUP_ROWS: usize = 1 << 16;

/// One wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// The probe's CPU.
    pub cpu: u32,
    /// Index of the wake-up in its thread.
    pub cycle: u64,
    /// The instant that was asked for, CLOCK_MONOTONIC.
    pub asked_ns: u64,
    /// Wake-up time minus that instant.
    pub latency_ns: u64,
    /// Periods that passed while the thread was late.
    pub missed: u64,
}

/// Writes the samples of a run. Memory is bounded, whatever the length of the run.
#[derive(Debug)]
pub struct SampleWriter {
    directory: PathBuf,
    part: Option<Part>,
    next_part: u32,
    buffer: Vec<Sample>,
    written: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Part {
    writer: parquet::Writer<BufWriter<File>>,
    path: PathBuf,
    opened: Instant,
    rows: u64,
}

impl SampleWriter {
    /// Makes `samples/` in a run directory.
    ///
    /// # Errors
    /// [`RecordError::Create`].
    pub fn create(run_directory: &Path) -> Result<Self, RecordError> {
        let directory = run_directory.join(SAMPLES_DIRECTORY);
        fs::create_dir(&directory).map_err(|source| RecordError::Create {
            path: directory.clone(),
            source,
        })?;
        Ok(Self {
            directory,
            part: None,
            next_part: 0,
            buffer: Vec::with_capacity(GROUP_ROWS),
            written: 0,
            dropped: 0,
        })
    }

    /// Adds a sample; now and then this writes to the disk.
    ///
    /// # Errors
    /// [`RecordError::Save`]. The samples of the part that could not be written
    /// are gone and counted by [`SampleWriter::dropped`]; what was closed before
    /// stands, and the next sample begins a new part.
    pub fn push(&mut self, sample: Sample) -> Result<(), RecordError> {
        self.buffer.push(sample);
        if self.buffer.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write_group()?;
        if self
            .part
            .as_ref()
            .is_some_and(|part| part.rows >= PART_ROWS)
        {
            self.close_part()?;
        }
        Ok(())
    }

    /// To be called whenever the record is saved: closes the part when it is old
    /// enough, so that its samples survive a crash.
    ///
    /// # Errors
    /// As [`SampleWriter::push`].
    pub fn checkpoint(&mut self) -> Result<(), RecordError> {
        let old = |part: &Part| part.opened.elapsed() >= Duration::from_secs(PART_SECONDS);
        if self.part.as_ref().is_some_and(old) {
            self.write_group()?;
            self.close_part()?;
        } else if self.part.is_none() && !self.buffer.is_empty() {
            // A slow run fills no group in a minute: begin the part, so that its
            // age is known.
            self.open_part()?;
        }
        Ok(())
    }

    /// Writes what is left and closes the last part. Dropping the writer does the
    /// same and can't tell whether it went well.
    ///
    /// # Errors
    /// As [`SampleWriter::push`].
    pub fn finish(mut self) -> Result<u64, RecordError> {
        self.end()?;
        Ok(self.written)
    }

    /// Samples in closed parts.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Samples that could not be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn end(&mut self) -> Result<(), RecordError> {
        if !self.buffer.is_empty() {
            self.write_group()?;
        }
        self.close_part()
    }

    fn open_part(&mut self) -> Result<(), RecordError> {
        let path = self
            .directory
            .join(format!("samples-{:05}.parquet", self.next_part));
        self.next_part += 1;
        let opened = File::create(unfinished(&path))
            .and_then(|file| parquet::Writer::new(BufWriter::new(file)));
        match opened {
            Ok(writer) => {
                self.part = Some(Part {
                    writer,
                    path,
                    opened: Instant::now(),
                    rows: 0,
                });
                Ok(())
            }
            Err(source) => {
                self.dropped += self.buffer.len() as u64;
                self.buffer.clear();
                Err(give_up(path, source))
            }
        }
    }

    fn write_group(&mut self) -> Result<(), RecordError> {
        if self.part.is_none() {
            self.open_part()?;
        }
        let Some(part) = self.part.as_mut() else {
            return Ok(());
        };
        let rows = self.buffer.len() as u64;
        let done = part.writer.write_group(&self.buffer);
        self.buffer.clear();
        match done {
            Ok(()) => part.rows += rows,
            Err(source) => {
                self.dropped += part.rows + rows;
                let path = std::mem::take(&mut part.path);
                self.part = None;
                return Err(give_up(path, source));
            }
        }
        Ok(())
    }

    fn close_part(&mut self) -> Result<(), RecordError> {
        let Some(part) = self.part.take() else {
            return Ok(());
        };
        let Part {
            writer, path, rows, ..
        } = part;
        match close(writer, &path) {
            Ok(()) => {
                self.written += rows;
                Ok(())
            }
            Err(source) => {
                self.dropped += rows;
                Err(give_up(path, source))
            }
        }
    }
}

impl Drop for SampleWriter {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("parquet.tmp")
}

fn close(writer: parquet::Writer<BufWriter<File>>, path: &Path) -> io::Result<()> {
    let created = format!(
        "punctual {} {}",
        env!("CARGO_PKG_VERSION"),
        time::rfc3339(std::time::SystemTime::now())
    );
    let file = writer
        .finish(&created)?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(unfinished(path), path)
}

fn give_up(path: PathBuf, source: io::Error) -> RecordError {
    let _ = fs::remove_file(unfinished(&path));
    RecordError::Save { path, source }
}
