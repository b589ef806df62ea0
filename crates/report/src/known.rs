//! What is known of a distribution whose end another tool did not keep.

use punctual_stats::histogram::{DecodeError, Histogram, MIN_SAMPLES_BEYOND};
use serde::Serialize;

use punctual_record::{Evidence, Run};

/// A percentile as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "ns")]
pub enum Reading {
    /// The value.
    Value(u64),
    /// It lies beyond the histogram, which ends here.
    AtLeast(u64),
    /// Too few samples lie beyond.
    TooFew,
}

impl Reading {
    /// The value, where it is known.
    #[must_use]
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Value(ns) => Some(ns),
            Self::AtLeast(_) | Self::TooFew => None,
        }
    }
}

/// All samples of a run.
#[derive(Debug, Clone)]
pub struct Known {
    /// All that were counted: those at or above the limit stand at the limit.
    pub histogram: Histogram,
    /// Nothing is known of the distribution from here on.
    pub limit_ns: Option<u64>,
}

impl Known {
    /// What is known of a run, in steps of `resolution_ns` where it is coarser than the run's.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read has no such fault.
    pub fn from_run(run: &Run, resolution_ns: u64) -> Result<Self, DecodeError> {
        let evidence = Evidence::decode(run)?;
        let total = Histogram::merged(evidence.histograms());
        let total = in_steps(total, run, resolution_ns);
        let Some(imported) = &run.imported else {
            return Ok(Self {
                histogram: total,
                limit_ns: None,
            });
        };
        let unkept = run
            .threads
            .iter()
            .fold(0_u64, |sum, thread| sum.saturating_add(thread.lost));
        // Without any histogram nothing is known at all.
        let kept = if total.is_empty() {
            None
        } else {
            imported.kept_below_ns
        };
        let limit_ns = (unkept > 0).then(|| kept.unwrap_or(0));
        let whole = Self {
            histogram: total,
            limit_ns: None,
        };
        Ok(limit_ns.map_or(whole.clone(), |limit| whole.cut(limit, unkept)))
    }

    /// The same where nothing is known from `limit_ns` on, and `unkept` samples more lie there.
    #[must_use]
    pub fn cut(&self, limit_ns: u64, unkept: u64) -> Self {
        let mut histogram = Histogram::new();
        let max = self.histogram.max().unwrap_or(0);
        let mut beyond = unkept;
        for bucket in self.histogram.buckets() {
            let value = bucket.high_ns.min(max);
            if value >= limit_ns {
                beyond = beyond.saturating_add(bucket.count);
            } else {
                histogram.record_n(value, bucket.count);
            }
        }
        histogram.record_n(limit_ns, beyond);
        Self {
            histogram,
            limit_ns: Some(limit_ns),
        }
    }

    /// A percentile, 0 to 100.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Reading {
        let beyond = self.histogram.count() as f64 * (1.0 - percentile / 100.0);
        let value = self.histogram.quantile(percentile / 100.0);
        match (value, self.limit_ns) {
            (Some(_), _) if beyond + 1e-6 < MIN_SAMPLES_BEYOND as f64 => Reading::TooFew,
            (Some(ns), Some(limit)) if ns >= limit => Reading::AtLeast(limit),
            (Some(ns), _) => Reading::Value(ns),
            (None, _) => Reading::TooFew,
        }
    }
}

/// A histogram of a run, rounded down to a coarser resolution.
pub(crate) fn in_steps(total: Histogram, run: &Run, resolution_ns: u64) -> Histogram {
    if resolution_ns <= run.resolution_ns() {
        return total;
    }
    let mut coarse = Histogram::new();
    let max = total.max().unwrap_or(0);
    for bucket in total.buckets() {
        let value = bucket.high_ns.min(max);
        coarse.record_n(value - value % resolution_ns, bucket.count);
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_beyond_the_end_is_no_value() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_000, 900);
        let whole = Known {
            histogram,
            limit_ns: None,
        };
        assert_eq!(whole.percentile(50.0), Reading::Value(1_000));
        let cut = whole.cut(5_000, 100);
        assert_eq!(cut.histogram.count(), 1_000);
        assert_eq!(cut.percentile(90.0), Reading::Value(1_000));
        assert_eq!(cut.percentile(99.0), Reading::AtLeast(5_000));
        assert_eq!(cut.percentile(99.9), Reading::TooFew);
        // Cut once more, below: the same samples, known less far.
        let lower = cut.cut(500, 0);
        assert_eq!(lower.histogram.count(), 1_000);
        assert_eq!(lower.percentile(50.0), Reading::AtLeast(500));
    }
}
