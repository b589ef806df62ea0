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
//! | `asked_ns` | int64 | the instant that was requested, CLOCK_MONOTONIC |
//! | `latency_ns` | int64 | wake-up time minus that instant |
//! | `missed` | int64 | periods that passed while the thread was late |

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::RecordError;
use super::time;
use crate::files::{Folder, Unfinished, hold_space};
use crate::parquet::{Column, Packing, Values, Writer};

/// The directory of the parts within the run directory.
pub const SAMPLES_DIRECTORY: &str = "samples";
/// A part is closed at the first checkpoint after this many seconds.
pub const PART_SECONDS: u64 = 60;
/// A part is closed after this many samples in any case.
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
    /// The instant that was requested, CLOCK_MONOTONIC.
    pub asked_ns: u64,
    /// Wake-up time minus that instant.
    pub latency_ns: u64,
    /// Periods that were skipped because the thread was late.
    pub missed: u64,
}

/// Writes the samples of a run. Memory is bounded, whatever the length of the run.
#[derive(Debug)]
pub struct SampleWriter {
    directory: Folder,
    part: Option<Part>,
    next_part: u32,
    buffer: Vec<Sample>,
    part_rows: u64,
    written: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Part {
    writer: Writer<BufWriter<File>>,
    name: String,
    unfinished: Unfinished,
    opened: Instant,
    rows: u64,
}

impl SampleWriter {
    /// Makes `samples/` in a run directory.
    ///
    /// # Errors
    /// [`RecordError::Create`].
    pub fn create(run_directory: &Path) -> Result<Self, RecordError> {
        let error = |source| RecordError::Create {
            path: run_directory.to_owned(),
            source,
        };
        Self::create_in(&Folder::open(run_directory).map_err(error)?)
    }

    /// The same in one that is held open.
    ///
    /// # Errors
    /// [`RecordError::Create`].
    pub fn create_in(run_directory: &Folder) -> Result<Self, RecordError> {
        let made = run_directory.make(OsStr::new(SAMPLES_DIRECTORY));
        let directory = made.map_err(|source| RecordError::Create {
            path: run_directory.path().join(SAMPLES_DIRECTORY),
            source,
        })?;
        Ok(Self {
            directory,
            part: None,
            next_part: 0,
            buffer: Vec::with_capacity(GROUP_ROWS),
            part_rows: PART_ROWS,
            written: 0,
            dropped: 0,
        })
    }

    /// Closes parts after other than [`PART_ROWS`] samples, to the next 65,536.
    #[must_use]
    pub fn with_part_rows(mut self, rows: u64) -> Self {
        self.part_rows = rows;
        self
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
            .is_some_and(|part| part.rows >= self.part_rows)
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
    pub fn close(mut self) -> Result<u64, RecordError> {
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

    /// Writes what is left and closes the last part.
    ///
    /// # Errors
    /// As [`SampleWriter::push`].
    pub fn end(&mut self) -> Result<(), RecordError> {
        if !self.buffer.is_empty() {
            self.write_group()?;
        }
        self.close_part()
    }

    fn open_part(&mut self) -> Result<(), RecordError> {
        let name = format!("samples-{:05}.parquet", self.next_part);
        self.next_part += 1;
        let begun = self.directory.begin(OsStr::new(&name));
        let opened = begun.and_then(|(file, unfinished)| {
            match Writer::new(BufWriter::new(file), Packing::None) {
                Ok(writer) => Ok((writer, unfinished)),
                Err(error) => {
                    self.directory.abandon(unfinished);
                    Err(error)
                }
            }
        });
        match opened {
            Ok((writer, unfinished)) => {
                self.part = Some(Part {
                    writer,
                    name,
                    unfinished,
                    opened: Instant::now(),
                    rows: 0,
                });
                Ok(())
            }
            Err(source) => {
                self.dropped += self.buffer.len() as u64;
                self.buffer.clear();
                Err(self.failed(&name, source))
            }
        }
    }

    fn failed(&self, name: &str, source: io::Error) -> RecordError {
        let path = self.directory.path().join(name);
        RecordError::Save { path, source }
    }

    fn write_group(&mut self) -> Result<(), RecordError> {
        if self.part.is_none() {
            self.open_part()?;
        }
        let Some(part) = self.part.as_mut() else {
            return Ok(());
        };
        let rows = self.buffer.len() as u64;
        let held = hold_space();
        let done = part.writer.write_group(&columns(&self.buffer));
        drop(held);
        self.buffer.clear();
        match done {
            Ok(()) => part.rows += rows,
            Err(source) => {
                self.dropped += part.rows + rows;
                let part = self.part.take();
                return Err(self.give_up(part, source));
            }
        }
        Ok(())
    }

    fn give_up(&self, part: Option<Part>, source: io::Error) -> RecordError {
        let Some(part) = part else {
            return self.failed("", source);
        };
        self.directory.abandon(part.unfinished);
        self.failed(&part.name, source)
    }

    fn close_part(&mut self) -> Result<(), RecordError> {
        let Some(part) = self.part.take() else {
            return Ok(());
        };
        let Part {
            writer,
            name,
            unfinished,
            rows,
            ..
        } = part;
        let held = hold_space();
        let closed = match close(writer) {
            Ok(file) => self.directory.publish(&file, unfinished, OsStr::new(&name)),
            Err(error) => {
                self.directory.abandon(unfinished);
                Err(error)
            }
        };
        drop(held);
        match closed {
            Ok(()) => {
                self.written += rows;
                Ok(())
            }
            Err(source) => {
                self.dropped += rows;
                Err(self.failed(&name, source))
            }
        }
    }
}

impl Drop for SampleWriter {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A row group. What Parquet's numbers don't hold is the largest that they do.
fn columns(samples: &[Sample]) -> [Column; 5] {
    let long = |name, of: fn(&Sample) -> u64| {
        let all = samples.iter().map(of);
        let all = all.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        let values = Values::Long(all.collect());
        Column { name, values }
    };
    let cpus = samples.iter().map(|sample| sample.cpu);
    let cpus = cpus.map(|cpu| i32::try_from(cpu).unwrap_or(i32::MAX));
    let cpu = Column {
        name: "cpu",
        values: Values::Int(cpus.collect()),
    };
    [
        cpu,
        long("cycle", |sample| sample.cycle),
        long("asked_ns", |sample| sample.asked_ns),
        long("latency_ns", |sample| sample.latency_ns),
        long("missed", |sample| sample.missed),
    ]
}

fn close(writer: Writer<BufWriter<File>>) -> io::Result<File> {
    let created = format!(
        "punctual {} {}",
        env!("CARGO_PKG_VERSION"),
        time::rfc3339(std::time::SystemTime::now())
    );
    writer
        .write_footer(&created)?
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
}
