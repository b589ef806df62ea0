//! The highest samples of a stream, kept whole.
//!
//! A histogram forgets when a sample came. Bursts, tails and explanations need
//! the time, of the highest samples only. [`Peaks`] keeps every sample above a
//! threshold that starts at zero and rises when the room is used up, so what is
//! above the threshold is complete, never a selection.

use crate::skips::Skips;
use serde::{Deserialize, Serialize};

/// One sample with its place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// Index of the cycle in its thread.
    pub cycle: u64,
    /// The instant that was requested, in ns of the run's clock.
    pub asked_ns: u64,
    /// Latency in ns.
    pub latency_ns: u64,
    /// Periods that were skipped because of it.
    #[serde(default)]
    pub skipped: u64,
}

impl Peak {
    /// A sample that skipped no period.
    #[inline]
    #[must_use]
    pub fn new(cycle: u64, asked_ns: u64, latency_ns: u64) -> Self {
        Peak {
            cycle,
            asked_ns,
            latency_ns,
            skipped: 0,
        }
    }

    /// The same sample with the periods that were skipped because of it.
    #[inline]
    #[must_use]
    pub fn with_skipped(self, skipped: u64) -> Self {
        Peak { skipped, ..self }
    }
}

/// Room of [`Peaks::new`], in samples.
pub const DEFAULT_CAPACITY: usize = 8192;
/// Most samples that are read back from a record.
const MAX_CAPACITY: usize = 1 << 20;

/// Every sample above a threshold that rises as room runs out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PeaksRecord")]
pub struct Peaks {
    threshold_ns: u64,
    capacity: usize,
    /// The earliest of the highest samples, kept even when so many others are
    /// as high that the threshold passed them.
    worst: Option<Peak>,
    samples: Vec<Peak>,
    /// What a watched thread skipped; a probe's late samples tell what they skipped.
    #[serde(default, skip_serializing_if = "Skips::is_empty")]
    skips: Skips,
}

#[derive(Deserialize)]
struct PeaksRecord {
    threshold_ns: u64,
    capacity: usize,
    worst: Option<Peak>,
    samples: Vec<Peak>,
    #[serde(default)]
    skips: Skips,
}

/// Why peaks could not be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeaksError {
    /// More samples than the stated capacity, or an absurd capacity.
    TooMany,
    /// A sample at or below the stated threshold.
    BelowThreshold,
}

impl std::fmt::Display for PeaksError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PeaksError::TooMany => "more peaks than their capacity allows",
            PeaksError::BelowThreshold => "a peak lies below the threshold of its list",
        })
    }
}

impl std::error::Error for PeaksError {}

impl TryFrom<PeaksRecord> for Peaks {
    type Error = PeaksError;

    fn try_from(record: PeaksRecord) -> Result<Self, PeaksError> {
        if record.capacity > MAX_CAPACITY || record.samples.len() > record.capacity {
            return Err(PeaksError::TooMany);
        }
        let above = |peak: &Peak| peak.latency_ns > record.threshold_ns;
        if !record.samples.iter().all(above) {
            return Err(PeaksError::BelowThreshold);
        }
        Ok(Peaks {
            threshold_ns: record.threshold_ns,
            capacity: record.capacity.max(2),
            worst: record.worst,
            samples: record.samples,
            skips: record.skips,
        })
    }
}

impl Default for Peaks {
    fn default() -> Self {
        Self::new()
    }
}

impl Peaks {
    /// Room for [`DEFAULT_CAPACITY`] samples, allocated at once.
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// Room for `capacity` samples (2..=1,048,576, clamped), allocated at once.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.clamp(2, MAX_CAPACITY);
        Peaks {
            threshold_ns: 0,
            capacity,
            worst: None,
            samples: Vec::with_capacity(capacity),
            skips: Skips::default(),
        }
    }

    /// With the periods that a watched thread skipped.
    #[must_use]
    pub fn with_skips(mut self, skips: Skips) -> Self {
        self.skips = skips;
        self
    }

    /// The periods that a watched thread skipped.
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// Peaks as they stood when they were written down, complete above `threshold_ns`:
    /// offered anew they would claim to be complete down to zero. Samples at or below
    /// the threshold are left out.
    pub fn restored(threshold_ns: u64, samples: &[Peak]) -> Self {
        let mut peaks = Self::with_capacity(samples.len());
        peaks.threshold_ns = threshold_ns;
        for peak in samples {
            peaks.offer(*peak);
        }
        peaks
    }

    /// Offers a sample; it is kept when it lies above the threshold. One
    /// comparison for all others. Never allocates.
    #[inline]
    pub fn offer(&mut self, peak: Peak) {
        if peak.latency_ns > self.threshold_ns {
            self.keep(peak);
        }
    }

    #[inline]
    fn keep(&mut self, peak: Peak) {
        self.note_worst(peak);
        if self.samples.len() >= self.capacity {
            self.raise_threshold();
            if peak.latency_ns <= self.threshold_ns {
                return;
            }
        }
        self.samples.push(peak);
    }

    #[inline]
    fn note_worst(&mut self, peak: Peak) {
        let beats = |worst: &Peak| {
            peak.latency_ns > worst.latency_ns
                || peak.latency_ns == worst.latency_ns && peak.asked_ns < worst.asked_ns
        };
        if self.worst.as_ref().is_none_or(beats) {
            self.worst = Some(peak);
        }
    }

    /// Lifts the threshold so that about half of the samples remain: to the median
    /// of up to 255 of them, which is had at a tenth of the price of all. At least
    /// one sample goes, for the threshold is the latency of one.
    #[cold]
    #[inline(never)]
    fn raise_threshold(&mut self) {
        const LOOKED_AT: usize = 255;
        let mut latencies = [0; LOOKED_AT];
        let step = self.samples.len().div_ceil(LOOKED_AT).max(1);
        let some = self.samples.iter().step_by(step);
        let looked_at = latencies
            .iter_mut()
            .zip(some)
            .map(|(slot, peak)| *slot = peak.latency_ns)
            .count();
        if looked_at == 0 {
            return;
        }
        let (_, middle, _) = latencies[..looked_at].select_nth_unstable(looked_at / 2);
        self.threshold_ns = *middle;
        let threshold_ns = self.threshold_ns;
        self.samples.retain(|peak| peak.latency_ns > threshold_ns);
    }

    /// Every sample above this latency (ns) is kept; none at or below.
    pub fn threshold(&self) -> u64 {
        self.threshold_ns
    }

    /// Number of kept samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether no sample is kept.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// The kept samples in no particular order.
    pub fn samples(&self) -> &[Peak] {
        &self.samples
    }

    /// The `count` highest samples, highest first, earlier first among equals.
    ///
    /// When more samples tie for the maximum than there is room for, only the
    /// earliest of them is known.
    pub fn worst(&self, count: usize) -> Vec<Peak> {
        let mut sorted = self.samples.clone();
        if sorted.is_empty() {
            sorted.extend(self.worst);
        }
        sorted.sort_unstable_by_key(|peak| (std::cmp::Reverse(peak.latency_ns), peak.asked_ns));
        sorted.truncate(count);
        sorted
    }

    /// The kept samples by the instant that was requested.
    pub fn in_order(&self) -> Vec<Peak> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by_key(|peak| (peak.asked_ns, peak.cycle));
        sorted
    }

    /// Exact number of samples above `latency_ns`, `None` below the threshold.
    pub fn count_above(&self, latency_ns: u64) -> Option<u64> {
        (latency_ns >= self.threshold_ns).then(|| {
            let above = |peak: &&Peak| peak.latency_ns > latency_ns;
            self.samples.iter().filter(above).count() as u64
        })
    }

    /// Adds the peaks of another thread. The higher threshold holds for both,
    /// and the room grows to that of both.
    pub fn merge(&mut self, other: &Peaks) {
        self.capacity = (self.capacity + other.capacity).min(MAX_CAPACITY);
        self.threshold_ns = self.threshold_ns.max(other.threshold_ns);
        let threshold_ns = self.threshold_ns;
        self.samples.extend_from_slice(&other.samples);
        self.samples.retain(|peak| peak.latency_ns > threshold_ns);
        while self.samples.len() > self.capacity {
            self.raise_threshold();
        }
        if let Some(worst) = other.worst {
            self.note_worst(worst);
        }
        self.skips.merge(&other.skips);
    }

    /// The peaks of all of `threads` in one.
    pub fn merged<'a>(threads: impl IntoIterator<Item = &'a Peaks>) -> Peaks {
        let mut threads = threads.into_iter();
        let Some(first) = threads.next() else {
            return Peaks::with_capacity(2);
        };
        let mut total = first.clone();
        for peaks in threads {
            total.merge(peaks);
        }
        total
    }
}
