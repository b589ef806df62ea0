//! Latencies by stretches of time, so that two runs can be compared with their
//! bursts kept whole.

use punctual_stats::histogram::{DecodeError, Histogram, HistogramRecord};
use serde::{Deserialize, Serialize};

/// The latencies of a run, all threads together, cut into stretches of equal length.
/// Together they are what was measured up to the end of the last whole stretch; the
/// minimum and maximum of each hold to the width of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// The length of a stretch: of a merged record, about that of the runs in it.
    pub width_ns: u64,
    /// One histogram for each.
    pub latency: Vec<HistogramRecord>,
}

impl Blocks {
    /// The most there are.
    pub const MOST: usize = 64;

    /// The histograms, decoded.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read by [`super::read()`] has no such fault.
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
    latency: Vec<HistogramRecord>,
    /// Less than a block, and of how many units.
    begun: (Histogram, u64),
}

impl Blocking {
    /// Blocks of `unit_ns` to begin with.
    #[must_use]
    pub fn of(unit_ns: u64) -> Self {
        Self {
            unit_ns: unit_ns.max(1),
            units: 1,
            latency: Vec::new(),
            begun: (Histogram::new(), 0),
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
        if latency.is_empty() {
            return;
        }
        let (begun, of) = &mut self.begun;
        begun.merge(latency);
        *of += units;
        if *of < self.units {
            return;
        }
        self.latency.push(HistogramRecord::from(&*begun));
        self.begun = (Histogram::new(), 0);
        if self.latency.len() == Blocks::MOST {
            self.fold();
        }
    }

    fn fold(&mut self) {
        let join = |pair: &[HistogramRecord]| {
            let decoded = pair
                .iter()
                .filter_map(|block| Histogram::try_from(block).ok());
            let parts: Vec<_> = decoded.collect();
            HistogramRecord::from(&Histogram::merged(&parts))
        };
        self.latency = self.latency.chunks(2).map(join).collect();
        self.units = self.units.saturating_mul(2);
    }

    /// The whole blocks so far, if any.
    #[must_use]
    pub fn blocks(&self) -> Option<Blocks> {
        (!self.latency.is_empty()).then(|| Blocks {
            width_ns: self.width_ns(),
            latency: self.latency.clone(),
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
        let mut blocking = Blocking::of(10);
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
    fn a_stretch_without_samples_is_no_block() {
        let mut blocking = Blocking::of(10);
        blocking.add(&Histogram::new(), 1);
        blocking.add(&of([7]), 1);
        assert_eq!(blocking.blocks().unwrap().latency.len(), 1);
    }
}
