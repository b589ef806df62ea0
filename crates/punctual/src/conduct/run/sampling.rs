//! `--samples`: a thread that writes every sample to disk, and that nothing waits for.

use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;

use crate::conduct::error::ConductError;
use crate::probe::collector::SampleSink;
use crate::probe::cycle;
use punctual_record::files::Folder;
use punctual_record::samples::{Sample, SampleWriter};
use punctual_record::{MissingSamples, RecordError};

/// Samples per batch.
const BATCH: usize = 4096;
/// Batches that may wait: 4 million samples, about 160 MB if the disk makes no progress.
const WAITING: usize = 1024;

/// The writing thread. Ends, and closes the files, when the sink is dropped.
pub struct Sampling {
    thread: JoinHandle<Written>,
}

/// What was written of the samples.
#[derive(Debug, Default)]
pub struct Written {
    /// Samples in the files.
    pub samples: u64,
    /// What first went wrong.
    pub trouble: Option<String>,
}

impl Written {
    /// How many of the measured samples are missing in the files, and why; `None` where all
    /// were written.
    #[must_use]
    pub fn missing(&self, measured: u64) -> Option<MissingSamples> {
        let Self { samples, trouble } = self;
        let is_whole = *samples == measured && trouble.is_none();
        (!is_whole).then(|| MissingSamples {
            written: *samples,
            measured,
            error: trouble.clone(),
        })
    }
}

/// The collector's end.
struct Sink {
    batch: Vec<Sample>,
    cycles: Vec<(usize, u64)>,
    batches: SyncSender<Vec<Sample>>,
    dropped: u64,
}

impl Sampling {
    /// Opens the files and starts the thread.
    ///
    /// # Errors
    /// The files cannot be made.
    pub fn begin(directory: &Folder) -> Result<(Self, Box<dyn SampleSink>), ConductError> {
        let mut writer = SampleWriter::create_in(directory).map_err(ConductError::Record)?;
        let (batches, incoming) = mpsc::sync_channel::<Vec<Sample>>(WAITING);
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .stack_size(512 << 10)
            .spawn(move || {
                let mut first = None;
                let mut note = |done: Result<(), RecordError>| {
                    // The disk may have room again later: later batches are tried.
                    if let (Err(error), None) = (done, &first) {
                        first = Some(error.to_string());
                    }
                };
                for batch in incoming {
                    for sample in batch {
                        note(writer.push(sample));
                    }
                    note(writer.checkpoint());
                }
                note(writer.end());
                Written {
                    samples: writer.written(),
                    trouble: first,
                }
            })
            .map_err(ConductError::Collector)?;
        let sink = Sink {
            batch: Vec::with_capacity(BATCH),
            cycles: Vec::new(),
            batches,
            dropped: 0,
        };
        Ok((Self { thread }, Box::new(sink)))
    }

    /// Waits until the files are closed; returns how many samples they hold.
    pub fn end(self) -> Written {
        self.thread.join().unwrap_or_else(|_| Written {
            samples: 0,
            trouble: Some("the writing thread failed".to_owned()),
        })
    }
}

impl Sink {
    fn cycle_of(&mut self, cpu: usize, missed: u64) -> u64 {
        let position = self.cycles.iter().position(|(known, _)| *known == cpu);
        let position = position.unwrap_or_else(|| {
            self.cycles.push((cpu, 0));
            self.cycles.len() - 1
        });
        let next = &mut self.cycles[position].1;
        let cycle = *next;
        *next += 1 + missed;
        cycle
    }

    fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if let Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) =
            self.batches.try_send(batch)
        {
            // The histogram has all samples; the count in the file shows how many are missing.
            self.dropped += batch.len() as u64;
        }
    }
}

impl SampleSink for Sink {
    fn take(&mut self, cpu: usize, _tid: i32, samples: &[cycle::Sample]) {
        for sample in samples {
            let cycle = self.cycle_of(cpu, sample.missed);
            self.batch.push(Sample {
                cpu: u32::try_from(cpu).unwrap_or(u32::MAX),
                cycle,
                asked_ns: sample.requested_ns,
                latency_ns: sample.latency_ns(),
                missed: sample.missed,
            });
            if self.batch.len() == BATCH {
                self.hand_over();
            }
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.hand_over();
    }
}
