//! A histogram of latencies that never drops, clips or averages a sample.
//!
//! The bucket layout is HdrHistogram's with a lowest value of 1 and three
//! significant digits: values below 2048 have a bucket each, and every doubling
//! above is cut into 1024 buckets, so a bucket is never wider than 1/1024 of
//! its values. The 56,320 buckets span the whole of `u64`; there is no overflow
//! bucket because nothing can overflow. Minimum, maximum, sum and count are
//! kept exactly beside the buckets.
//!
//! Origin of the layout: Gil Tene's HdrHistogram (<https://hdrhistogram.org>).

mod encoding;
mod ladder;
mod packed;
mod sparse;

pub use encoding::{DecodeError, HistogramRecord, MAX_ENCODED_LENGTH};
pub use ladder::{LadderRung, MIN_SAMPLES_BEYOND};
pub use packed::PackedHistogram;
pub use sparse::SparseHistogram;

use serde::{Deserialize, Serialize};

/// log2 of the number of buckets per doubling.
const HALF_BITS: u32 = 10;
/// Bits of a value that the first, linear stretch resolves.
const LINEAR_BITS: u32 = HALF_BITS + 1;
/// Values up to this one have a bucket of their own.
const LINEAR_MASK: u64 = (1 << LINEAR_BITS) - 1;
/// The number of buckets, enough for all of `u64`.
pub const BUCKETS: usize = ((64 - LINEAR_BITS as usize) + 2) << HALF_BITS;

/// A power of two above the index of every bucket for a `u32`.
const SHORT_BUCKETS: usize = 1 << 15;
const _: () = assert!(bucket_of(u32::MAX as u64) < SHORT_BUCKETS && SHORT_BUCKETS <= BUCKETS);

/// Index of the bucket that holds `value`.
#[inline]
pub(crate) const fn bucket_of(value: u64) -> usize {
    // Never 0, so this is one instruction.
    let shift = (value | LINEAR_MASK).ilog2() - HALF_BITS;
    ((shift as usize) << HALF_BITS) + (value >> shift) as usize
}

/// Lowest value of the bucket at `index`.
pub(crate) const fn lowest_of(index: usize) -> u64 {
    let half = 1usize << HALF_BITS;
    if index < 2 * half {
        return index as u64;
    }
    let shift = (index >> HALF_BITS) - 1;
    ((index - (shift << HALF_BITS)) as u64) << shift
}

/// Highest value of the bucket at `index`.
pub(crate) const fn highest_of(index: usize) -> u64 {
    let half = 1usize << HALF_BITS;
    if index < 2 * half {
        return index as u64;
    }
    let shift = (index >> HALF_BITS) - 1;
    lowest_of(index) + ((1u64 << shift) - 1)
}

/// A non-empty bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bucket {
    /// Lowest value that falls into the bucket, in ns.
    pub low_ns: u64,
    /// Highest value that falls into the bucket, in ns.
    pub high_ns: u64,
    /// Samples in the bucket.
    pub count: u64,
}

/// The lowest and the highest of a stretch of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The lowest in ns; `u64::MAX` without samples.
    pub min_ns: u64,
    /// The highest in ns; 0 without samples.
    pub max_ns: u64,
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes {
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Extremes {
    /// Makes a latency lie between.
    #[inline]
    pub fn include(&mut self, value_ns: u64) {
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }
}

/// Latencies on their way into a histogram, whose exact figures are brought up to date
/// once for all of them: see [`Histogram::batch`].
#[derive(Debug)]
pub struct Batch<'h> {
    counts: &'h mut [u64; SHORT_BUCKETS],
    totals: &'h mut Totals,
}

impl Batch<'_> {
    /// The least that [`Batch::add_usual`] takes.
    pub const USUAL_FROM_NS: u32 = 1 << HALF_BITS;

    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, value_ns: u32) {
        let value_ns = u64::from(value_ns);
        // The remainder changes nothing; it spares a comparison.
        self.counts[bucket_of(value_ns) % SHORT_BUCKETS] += 1;
    }

    /// Counts one latency of at least [`Batch::USUAL_FROM_NS`] and below 4.3 s, in half
    /// the instructions: there the buckets are what exponent and leading digits of a
    /// floating-point number are.
    #[inline]
    pub fn add_usual(&mut self, value_ns: f64) {
        const DIGITS: u32 = f64::MANTISSA_DIGITS - 1;
        const OFFSET: u64 = (f64::MAX_EXP as u64 - 1 + HALF_BITS as u64 - 1) << HALF_BITS;
        let usual = f64::from(Self::USUAL_FROM_NS)..=f64::from(u32::MAX);
        debug_assert!(usual.contains(&value_ns));
        let bucket = (value_ns.to_bits() >> (DIGITS - HALF_BITS)).wrapping_sub(OFFSET);
        self.counts[bucket as usize % SHORT_BUCKETS] += 1;
    }

    /// Brings the figures up to date. `count` is how many were added, `sum_ns` their sum and
    /// `extremes` theirs: who walks over them knows these without asking of each.
    #[inline]
    pub fn end(self, count: u64, sum_ns: u64, extremes: Extremes) {
        let totals = self.totals;
        totals.count += count;
        totals.sum += u128::from(sum_ns);
        totals.min = totals.min.min(extremes.min_ns);
        totals.max = totals.max.max(extremes.max_ns);
    }
}

/// A point of the cumulative distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CdfPoint {
    /// Latency in ns (the highest value of a bucket, clamped to the maximum).
    pub value_ns: u64,
    /// Samples at or below it.
    pub at_or_below: u64,
    /// The same as a share of all samples, 0..=1.
    pub share: f64,
}

/// Latencies in ns, counted in buckets of three significant digits.
///
/// At most [`BUCKETS`] counts of eight bytes (440 KB), and no more than the highest
/// sample asks for. [`Histogram::new`] allocates nothing; a real-time collector takes
/// [`Histogram::allocated`] so that nothing is allocated later.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    totals: Totals,
}

/// What is kept exactly beside the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Totals {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Totals {
    const NONE: Totals = Totals {
        count: 0,
        sum: 0,
        min: u64::MAX,
        max: 0,
    };

    /// Adds the samples of another histogram.
    fn add(&mut self, other: &Totals) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.totals == other.totals && self.occupied().eq(other.occupied())
    }
}

impl Histogram {
    /// An empty histogram; the buckets are allocated with the first sample.
    pub const fn new() -> Self {
        Histogram {
            counts: Vec::new(),
            totals: Totals::NONE,
        }
    }

    /// An empty histogram whose buckets are already in memory and written to,
    /// so that recording neither allocates nor faults.
    pub fn allocated() -> Self {
        let mut histogram = Self::new();
        histogram.reach(BUCKETS - 1);
        // `vec![0; n]` may hand out untouched zero pages: touch them.
        histogram.counts.fill(std::hint::black_box(0));
        histogram
    }

    /// Makes room up to a bucket, and by half of what there is where that is more.
    fn reach(&mut self, bucket: usize) {
        if bucket < self.counts.len() {
            return;
        }
        let length = (bucket + 1).next_multiple_of(1 << HALF_BITS);
        let length = length.max(self.counts.len() * 3 / 2).min(BUCKETS);
        self.counts.resize(length, 0);
    }

    /// Counts one latency of `value_ns`. Any `u64` is taken.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        // The bounds check doubles as the check for room.
        match self.counts.get_mut(bucket_of(value_ns)) {
            Some(count) => *count += 1,
            None => self.record_beyond(value_ns),
        }
        self.totals.count += 1;
        self.totals.sum += u128::from(value_ns);
        self.totals.min = self.totals.min.min(value_ns);
        self.totals.max = self.totals.max.max(value_ns);
    }

    /// Begins a batch of latencies below 4.3 s each.
    ///
    /// # Panics
    /// Never: the buckets are there once they were asked for.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        self.reach(SHORT_BUCKETS - 1);
        Batch {
            counts: self.counts.first_chunk_mut().expect("as many buckets"),
            totals: &mut self.totals,
        }
    }

    #[cold]
    #[inline(never)]
    fn record_beyond(&mut self, value_ns: u64) {
        let bucket = bucket_of(value_ns);
        self.reach(bucket);
        self.counts[bucket] += 1;
    }

    /// Counts `times` latencies of `value_ns` each. The total saturates at
    /// `u64::MAX`, as in [`Histogram::merge`].
    pub fn record_n(&mut self, value_ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        let bucket = bucket_of(value_ns);
        self.reach(bucket);
        let slot = &mut self.counts[bucket];
        *slot = slot.saturating_add(times);
        self.totals.count = self.totals.count.saturating_add(times);
        let added = u128::from(value_ns).saturating_mul(u128::from(times));
        self.totals.sum = self.totals.sum.saturating_add(added);
        self.totals.min = self.totals.min.min(value_ns);
        self.totals.max = self.totals.max.max(value_ns);
    }

    /// Adds every sample of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        if other.totals.count == 0 {
            return;
        }
        self.reach(bucket_of(other.totals.max));
        // What lies beyond the other's minimum and maximum is empty.
        let range = bucket_of(other.totals.min)..bucket_of(other.totals.max) + 1;
        let theirs = &other.counts[range.clone()];
        for (mine, theirs) in self.counts[range].iter_mut().zip(theirs) {
            *mine = mine.saturating_add(*theirs);
        }
        self.totals.add(&other.totals);
    }

    /// The samples of all of `histograms` in one.
    pub fn merged<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
        let mut total = Histogram::new();
        for histogram in histograms {
            total.merge(histogram);
        }
        total
    }

    /// What is here beyond `part`, which was here before. Minimum and maximum hold to the
    /// width of a bucket, and so does the sum.
    #[must_use]
    pub fn without(&self, part: &Histogram) -> Histogram {
        let mut rest = Histogram::new();
        let mut part = part.occupied().peekable();
        for (index, mut count) in self.occupied() {
            while let Some((known, theirs)) = part.next_if(|(known, _)| *known <= index) {
                if known == index {
                    count = count.saturating_sub(theirs);
                }
            }
            rest.record_n(highest_of(index).min(self.totals.max), count);
        }
        rest
    }

    /// Forgets every sample and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.totals = Totals::NONE;
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.totals.count
    }

    /// Whether no sample was recorded.
    pub fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// Exact minimum in ns, `None` without samples.
    pub fn min(&self) -> Option<u64> {
        (self.totals.count > 0).then_some(self.totals.min)
    }

    /// Exact maximum in ns, `None` without samples.
    pub fn max(&self) -> Option<u64> {
        (self.totals.count > 0).then_some(self.totals.max)
    }

    /// Exact sum of all latencies in ns.
    pub fn sum(&self) -> u128 {
        self.totals.sum
    }

    /// Mean latency in ns from the exact sum, `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        (self.totals.count > 0).then(|| self.totals.sum as f64 / self.totals.count as f64)
    }

    /// Standard deviation in ns, `None` without samples.
    ///
    /// Computed from the middles of the buckets: each sample is off by at most
    /// 1/2048 of its value.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = self
            .buckets()
            .map(|bucket| {
                let low = bucket.low_ns.max(self.totals.min) as f64;
                let high = bucket.high_ns.min(self.totals.max) as f64;
                let distance = (low + high) / 2.0 - mean;
                distance * distance * bucket.count as f64
            })
            .sum();
        Some((squares / self.totals.count as f64).sqrt())
    }

    /// The latency that a share `quantile` (0..=1, clamped) of all samples is
    /// at or below: the highest value of the bucket with the sample of that
    /// rank, never above the exact maximum. `None` without samples.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        if self.totals.count == 0 {
            return None;
        }
        Some(self.value_at_rank(rank_of(quantile, self.totals.count)))
    }

    /// The value of the sample with `rank` (1 is the lowest), as [`Histogram::quantile`]
    /// reports it. Zero without samples.
    pub fn value_at_rank(&self, rank: u64) -> u64 {
        if self.totals.count == 0 {
            return 0;
        }
        if rank <= 1 {
            return self.totals.min;
        }
        let mut seen = 0u64;
        for (index, count) in self.occupied() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return highest_of(index).min(self.totals.max);
            }
        }
        self.totals.max
    }

    /// Samples that may lie above `value_ns`: a bucket that straddles the value
    /// counts as above, so the true number is never larger. Zero from the exact
    /// maximum on.
    pub fn count_above(&self, value_ns: u64) -> u64 {
        if self.totals.count == 0 || value_ns >= self.totals.max {
            return 0;
        }
        sum_of(&self.counts[first_above(value_ns)..])
    }

    /// Samples that surely lie above `value_ns`: a straddling bucket does not
    /// count, apart from the exact maximum. The true number is never smaller.
    pub fn count_surely_above(&self, value_ns: u64) -> u64 {
        if self.totals.count == 0 || value_ns >= self.totals.max {
            return 0;
        }
        if value_ns < self.totals.min {
            return self.totals.count;
        }
        sum_of(&self.counts[bucket_of(value_ns) + 1..]).max(1)
    }

    /// Samples that surely lie at or below `value_ns`: all that
    /// [`Histogram::count_above`] does not count.
    pub fn count_at_or_below(&self, value_ns: u64) -> u64 {
        self.totals.count.saturating_sub(self.count_above(value_ns))
    }

    /// The non-empty buckets in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.occupied().map(|(index, count)| Bucket {
            low_ns: lowest_of(index),
            high_ns: highest_of(index),
            count,
        })
    }

    /// The cumulative distribution, one point for each non-empty bucket.
    pub fn cdf(&self) -> impl Iterator<Item = CdfPoint> + '_ {
        let total = self.totals.count as f64;
        self.occupied().scan(0u64, move |seen, (index, count)| {
            *seen = seen.saturating_add(count);
            Some(CdfPoint {
                value_ns: highest_of(index).min(self.totals.max),
                at_or_below: *seen,
                share: *seen as f64 / total,
            })
        })
    }

    /// Index and count of each non-empty bucket.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let range = if self.totals.count == 0 {
            0..0
        } else {
            bucket_of(self.totals.min)..bucket_of(self.totals.max) + 1
        };
        let start = range.start;
        // Nearly all buckets are empty: look at many at once.
        self.counts[range]
            .chunks(MANY)
            .enumerate()
            .filter(|(_, counts)| counts.iter().fold(0, |any, count| any | count) != 0)
            .flat_map(move |(chunk, counts)| {
                let start = start + chunk * MANY;
                let occupied = counts.iter().enumerate().filter(|(_, count)| **count > 0);
                occupied.map(move |(offset, count)| (start + offset, *count))
            })
    }
}

/// The number of buckets that are skipped at once where all of them are empty.
const MANY: usize = 32;

/// Index of the first bucket with room for values above this one.
const fn first_above(value_ns: u64) -> usize {
    let index = bucket_of(value_ns);
    index + (highest_of(index) == value_ns) as usize
}

fn sum_of(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

/// Rank (1..=count) of the sample at `quantile`: the smallest rank whose share
/// reaches it. A guard of 1e-12 keeps 0.999 × 1000 at 999.
pub(crate) fn rank_of(quantile: f64, count: u64) -> u64 {
    let exact = quantile.clamp(0.0, 1.0) * count as f64;
    let rank = (exact * (1.0 - 1e-12)).ceil() as u64;
    rank.clamp(1, count.max(1))
}
