//! The buckets in which the kernel side counts lengths of time: `bpf/lengths.h`.

/// Bits of the longest length with a bucket of its own.
const LENGTH_BITS: u32 = 38;

/// The number of buckets, if this many bits below the highest select one.
pub(super) const fn places(part_bits: u32) -> usize {
    ((LENGTH_BITS - part_bits) as usize) << part_bits
}

/// The smallest and the greatest length of a bucket.
pub(super) fn bounds(index: usize, part_bits: u32) -> (u64, u64) {
    let parts = 1_usize << part_bits;
    if index < parts {
        return (index as u64, index as u64);
    }
    let shift = (index >> part_bits) - 1;
    let part = (index - (shift << part_bits)) as u64;
    (part << shift, ((part + 1) << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_of_lengths_have_no_gap_between_them() {
        for part_bits in [4, 6] {
            let mut next = 0;
            for index in 0..places(part_bits) {
                let (least, most) = bounds(index, part_bits);
                assert_eq!(least, next, "{index}");
                let parts = 1 << part_bits;
                assert!(most >= least && (most - least) * parts <= least, "{index}");
                next = most + 1;
            }
            assert_eq!(next, 1 << (LENGTH_BITS - 1));
        }
    }
}
