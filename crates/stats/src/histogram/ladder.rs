//! The usual percentiles, and how many samples support each.

use super::{Histogram, rank_of};
use serde::{Deserialize, Serialize};

/// A percentile counts as supported when at least this many samples lie beyond
/// its rank; with fewer the figure rests on a handful of samples.
pub const MIN_SAMPLES_BEYOND: u64 = 10;

const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// One percentile of a [`Histogram::percentile_ladder`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LadderRung {
    /// The percentile, 0..=100.
    pub percentile: f64,
    /// Its latency in ns; `None` when fewer than [`MIN_SAMPLES_BEYOND`]
    /// samples lie beyond it.
    pub value_ns: Option<u64>,
    /// Samples that rank beyond it.
    pub samples_beyond: u64,
}

impl Histogram {
    /// The quantile, where at least [`MIN_SAMPLES_BEYOND`] samples lie beyond it.
    #[must_use]
    pub fn supported_quantile(&self, quantile: f64) -> Option<u64> {
        let rank = rank_of(quantile, self.count());
        let samples_beyond = self.count().saturating_sub(rank);
        (samples_beyond >= MIN_SAMPLES_BEYOND).then(|| self.value_at_rank(rank))
    }

    /// p50, p90, p99, p99.9, p99.99 and p99.999 with the samples beyond each.
    pub fn percentile_ladder(&self) -> Vec<LadderRung> {
        PERCENTILES
            .iter()
            .map(|&percentile| {
                let rank = rank_of(percentile / 100.0, self.count());
                let samples_beyond = self.count().saturating_sub(rank);
                LadderRung {
                    percentile,
                    value_ns: (samples_beyond >= MIN_SAMPLES_BEYOND)
                        .then(|| self.value_at_rank(rank)),
                    samples_beyond,
                }
            })
            .collect()
    }
}
