//! A histogram as read from a record: only the non-empty buckets.

use super::{BUCKETS, Histogram, Totals, first_above, lowest_of};

const _: () = assert!(BUCKETS <= u32::MAX as usize);

/// The non-empty buckets of a histogram and its exact figures: to read, to check and to add to a
/// [`Histogram`]. A record has one or two thousand of the 56,320 buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseHistogram {
    /// Index and count, the index ascending, no count zero.
    pub(super) buckets: Vec<(u32, u64)>,
    pub(super) totals: Totals,
}

impl SparseHistogram {
    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.totals.count
    }

    /// Number of buckets that hold one.
    pub fn occupied(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.totals.count == 0
    }

    /// Exact maximum in ns, `None` without samples.
    pub fn max(&self) -> Option<u64> {
        (self.totals.count > 0).then_some(self.totals.max)
    }

    /// The exact sum in ns.
    pub fn sum(&self) -> u128 {
        self.totals.sum
    }

    /// The non-empty buckets in ascending order: the lowest value of each in ns, and its count.
    pub fn lows(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.buckets.iter();
        buckets.map(|(index, count)| (lowest_of(*index as usize), *count))
    }

    /// As [`Histogram::count_above`].
    pub fn count_above(&self, value_ns: u64) -> u64 {
        if value_ns >= self.totals.max {
            return 0;
        }
        let first = first_above(value_ns);
        let below = self
            .buckets
            .partition_point(|(index, _)| (*index as usize) < first);
        self.buckets[below..].iter().map(|(_, count)| count).sum()
    }
}

impl From<&SparseHistogram> for Histogram {
    fn from(sparse: &SparseHistogram) -> Self {
        let mut histogram = Histogram::new();
        histogram.merge_sparse(sparse);
        histogram
    }
}

impl Histogram {
    /// Adds every sample of `other`, as [`Histogram::merge`].
    pub fn merge_sparse(&mut self, other: &SparseHistogram) {
        let Some((highest, _)) = other.buckets.last() else {
            return;
        };
        self.reach(*highest as usize);
        for (index, count) in &other.buckets {
            let mine = &mut self.counts[*index as usize];
            *mine = mine.saturating_add(*count);
        }
        self.totals.add(&other.totals);
    }
}
