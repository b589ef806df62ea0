//! `--samples`: every sample to disk, by a thread that nothing waits for.

use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::JoinHandle;

use super::error::ConductError;
use crate::probe::collector::SampleSink;
use crate::probe::cycle;
use crate::record::samples::{Sample, SampleWriter};

/// Samples that are handed over at once.
const BATCH: usize = 4096;
/// Batches that may wait: 4 million samples, some 160 MB on a disk that stands still.
const WAITING: usize = 1024;

/// The writing thread. Ends, and closes the files, when the sink is dropped.
pub struct Sampling {
    thread: JoinHandle<Result<u64, String>>,
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
    /// When the files can't be made.
    pub fn begin(directory: &Path) -> Result<(Self, Box<dyn SampleSink>), ConductError> {
        let mut writer = SampleWriter::create(directory)
            .map_err(|error| ConductError::Record(error.to_string()))?;
        let (batches, incoming) = mpsc::sync_channel::<Vec<Sample>>(WAITING);
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .stack_size(512 << 10)
            .spawn(move || {
                for batch in incoming {
                    for sample in batch {
                        writer.push(sample).map_err(|error| error.to_string())?;
                    }
                    writer.checkpoint().map_err(|error| error.to_string())?;
                }
                writer.finish().map_err(|error| error.to_string())
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

    /// Waits for the files to be closed; how many samples stand in them.
    ///
    /// # Errors
    /// Why not all could be written, in words.
    pub fn end(self) -> Result<u64, String> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err("the writing thread failed".to_owned()))
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
            // The histogram has them all; the file says how many it lacks by its count.
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
                asked_ns: sample.asked_ns,
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
