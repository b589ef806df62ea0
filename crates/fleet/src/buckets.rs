//! The buckets of the dataset's histograms: 128 to a doubling.
//!
//! Values below 256 ns have a bucket each; above, a bucket is never wider than 1/128 of its values. Each
//! is the union of eight buckets of a record, so that a histogram loses nothing but resolution on its way
//! here. Counts beyond a deadline, minimum, maximum and mean don't come from buckets: they are exact.

/// log2 of the buckets of a doubling.
const HALF_BITS: u32 = 7;
/// Values up to this one have a bucket of their own.
const LINEAR: u64 = (1 << (HALF_BITS + 1)) - 1;
/// How many there are: enough for all of `u64`.
pub const COUNT: u32 = ((64 - HALF_BITS - 1) + 2) << HALF_BITS;

/// The bucket of a value in ns.
#[must_use]
pub const fn bucket_of(value_ns: u64) -> u32 {
    let shift = (value_ns | LINEAR).ilog2() - HALF_BITS;
    (shift << HALF_BITS) + (value_ns >> shift) as u32
}

/// The lowest value of a bucket in ns; buckets beyond the last are as the last.
#[must_use]
pub const fn lowest_ns(bucket: u32) -> u64 {
    let bucket = if bucket < COUNT { bucket } else { COUNT - 1 };
    if bucket <= LINEAR as u32 {
        return bucket as u64;
    }
    let shift = (bucket >> HALF_BITS) - 1;
    ((bucket - (shift << HALF_BITS)) as u64) << shift
}

/// The highest value of a bucket in ns.
#[must_use]
pub const fn highest_ns(bucket: u32) -> u64 {
    if bucket + 1 >= COUNT {
        return u64::MAX;
    }
    lowest_ns(bucket + 1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn they_cover_all_values_without_gap_or_overlap() {
        for bucket in 0..COUNT {
            let (low, high) = (lowest_ns(bucket), highest_ns(bucket));
            assert!(low <= high, "{bucket}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!((high - low).saturating_mul(128) <= low.max(128), "{bucket}");
        }
        assert_eq!(bucket_of(u64::MAX), COUNT - 1);
        assert_eq!(
            (bucket_of(255), bucket_of(256), bucket_of(258)),
            (255, 256, 257)
        );
    }

    proptest! {
        #[test]
        fn a_value_is_in_its_bucket(value: u64) {
            let bucket = bucket_of(value);
            prop_assert!((lowest_ns(bucket)..=highest_ns(bucket)).contains(&value));
        }
    }
}
