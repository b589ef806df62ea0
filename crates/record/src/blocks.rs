//! Latencies by stretches of time, so that two runs can be compared with their
//! bursts kept whole.

use std::cell::OnceCell;

use punctual_stats::compare::BlockFigures;
use punctual_stats::histogram::{DecodeError, Histogram, HistogramRecord, PackedHistogram};
use serde::{Deserialize, Serialize};

/// The latencies of a run, all threads together, cut into stretches of equal length.
/// Together they are what was measured up to the end of the last whole stretch; the
/// minimum and maximum of each hold to the width of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocks {
    /// The length of a stretch: of a merged record, about that of the runs in it.
    pub width_ns: u64,
    /// One histogram for each.
    pub latency: Vec<HistogramRecord>,
    /// The figures of each thread in each of them, in the order of the run's threads; empty
    /// where they were not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<Vec<BlockFigures>>,
}

impl Blocks {
    /// The most there are.
    pub const MOST: usize = 64;
    /// Threads whose own figures are kept at most: of more, those of none.
    pub const MOST_THREADS: usize = 32;

    /// The histograms, decoded.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read by [`crate::Document::read`] has no such fault.
    pub fn histograms(&self) -> Result<Vec<Histogram>, DecodeError> {
        self.latency.iter().map(Histogram::try_from).collect()
    }
}

/// Blocks under way, in constant memory however long the run: where there would be more
/// than [`Blocks::MOST`], each two neighbours become one.
#[derive(Debug, Clone)]
pub struct Blocking {
    unit_ns: u64,
    units: u64,
    all: Lane,
    /// One for each thread, where the threads are kept apart.
    threads: Vec<Lane>,
    /// Of how many units the block is that was begun.
    begun: u64,
}

/// A whole block.
#[derive(Debug, Clone)]
struct Block {
    latency: PackedHistogram,
    /// As it is written: made once, and of no block that is merged before.
    record: OnceCell<HistogramRecord>,
}

/// The blocks of all threads together, or of one.
#[derive(Debug, Clone, Default)]
struct Lane {
    blocks: Vec<Block>,
    figures: Vec<BlockFigures>,
    /// Less than a block.
    begun: Histogram,
}

impl Lane {
    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.begun);
        self.push(&block);
    }

    fn push(&mut self, block: &Histogram) {
        self.blocks.push(Block {
            latency: PackedHistogram::from(block),
            record: OnceCell::new(),
        });
        self.figures.push(BlockFigures::of(block));
    }

    /// Each two neighbours become one.
    fn fold(&mut self) {
        let halves = std::mem::take(&mut self.blocks);
        self.figures.clear();
        for pair in halves.chunks(2) {
            let parts: Vec<Histogram> = pair.iter().map(|half| (&half.latency).into()).collect();
            self.push(&Histogram::merged(&parts));
        }
    }

    fn records(&self) -> Vec<HistogramRecord> {
        let record = |block: &Block| {
            let made = || HistogramRecord::from(&block.latency);
            block.record.get_or_init(made).clone()
        };
        self.blocks.iter().map(record).collect()
    }
}

impl Blocking {
    /// Blocks of `unit_ns` to begin with.
    #[must_use]
    pub fn new(unit_ns: u64) -> Self {
        Self {
            unit_ns: unit_ns.max(1),
            units: 1,
            all: Lane::default(),
            threads: Vec::new(),
            begun: 0,
        }
    }

    /// The length of a block by now.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.unit_ns.saturating_mul(self.units)
    }

    /// Adds the latencies of the next stretch, as many units long. One without
    /// samples is no evidence of anything, and none.
    pub fn add(&mut self, latency: &Histogram, units: u64) {
        self.add_with(latency, &[], units);
    }

    /// The same, with those of each thread. Where their number changes, none are kept.
    pub fn add_with(&mut self, latency: &Histogram, threads: &[Histogram], units: u64) {
        if latency.is_empty() {
            return;
        }
        let first = self.begun == 0 && self.all.blocks.is_empty();
        if first && threads.len() <= Blocks::MOST_THREADS {
            self.threads.resize_with(threads.len(), Lane::default);
        }
        if self.threads.len() != threads.len() {
            self.threads.clear();
        }
        self.all.begun.merge(latency);
        for (lane, latency) in self.threads.iter_mut().zip(threads) {
            lane.begun.merge(latency);
        }
        self.begun += units;
        if self.begun < self.units {
            return;
        }
        self.begun = 0;
        let fold = self.all.blocks.len() + 1 == Blocks::MOST;
        for lane in std::iter::once(&mut self.all).chain(&mut self.threads) {
            lane.end_block();
            if fold {
                lane.fold();
            }
        }
        if fold {
            self.units = self.units.saturating_mul(2);
        }
    }

    /// The whole blocks so far, if any.
    #[must_use]
    pub fn blocks(&self) -> Option<Blocks> {
        (!self.all.blocks.is_empty()).then(|| Blocks {
            width_ns: self.width_ns(),
            latency: self.all.records(),
            threads: self
                .threads
                .iter()
                .map(|lane| lane.figures.clone())
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|value| histogram.record(value));
        histogram
    }

    #[test]
    fn however_many_there_are_the_blocks_are_few_and_lose_no_sample() {
        let mut blocking = Blocking::new(10);
        assert_eq!(blocking.blocks(), None);
        for second in 0..1_000 {
            blocking.add(&of([second, second + 5]), 1);
        }
        let blocks = blocking.blocks().unwrap();
        // Folded at 64, 128, 256 and 512 seconds.
        assert_eq!(
            (blocks.width_ns, blocks.latency.len()),
            (10 * 16, 1_000 / 16)
        );
        let histograms = blocks.histograms().unwrap();
        assert!(histograms.iter().all(|block| block.count() == 32));
        let second = of((16..32).flat_map(|second| [second, second + 5]));
        assert_eq!(histograms[1], second);
    }

    #[test]
    fn the_figures_of_each_thread_are_kept_beside_them() {
        let mut blocking = Blocking::new(10);
        for second in 0..100 {
            let threads = [of([second; 3]), of([])];
            blocking.add_with(&of([second; 3]), &threads, 1);
        }
        let blocks = blocking.blocks().unwrap();
        assert_eq!(blocks.threads.len(), 2);
        for (at, (one, none)) in blocks.threads[0].iter().zip(&blocks.threads[1]).enumerate() {
            assert_eq!((one.count, none.count), (6, 0), "two seconds each");
            assert_eq!(one.quantiles_ns[2], at as u64 * 2 + 1);
        }
        assert_eq!(blocks.threads[0].len(), blocks.latency.len());
        // A thread more: whose figures are whose is no longer known.
        blocking.add_with(&of([1]), &[of([1]), of([]), of([])], 2);
        assert_eq!(blocking.blocks().unwrap().threads, Vec::<Vec<_>>::new());
        let mut many = Blocking::new(10);
        many.add_with(&of([1]), &vec![of([1]); Blocks::MOST_THREADS + 1], 1);
        assert!(many.blocks().unwrap().threads.is_empty());
    }

    #[test]
    fn a_stretch_without_samples_is_no_block() {
        let mut blocking = Blocking::new(10);
        blocking.add(&Histogram::new(), 1);
        blocking.add(&of([7]), 1);
        assert_eq!(blocking.blocks().unwrap().latency.len(), 1);
    }
}
