//! Compares the histogram with sorted vectors, and its text form with hdrhistogram.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use proptest::prelude::*;
use punctual_stats::histogram::{
    BUCKETS, Batch, DecodeError, Extremes, Histogram, HistogramRecord, PackedHistogram,
    SparseHistogram,
};

fn of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.record(*value);
    }
    histogram
}

/// Latencies of every magnitude.
fn latency() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

/// Latencies of every magnitude below 4.3 s.
fn short_latency() -> impl Strategy<Value = u32> {
    (any::<u32>(), 0u32..32).prop_map(|(value, shift)| value >> shift)
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(latency(), 1..200)
}

#[test]
fn every_value_has_a_bucket_of_three_digits() {
    for bit in 0..64 {
        for value in [
            1u64 << bit,
            (1u64 << bit) - 1,
            (1u64 << bit) | 1,
            (1u64 << bit) | 0x155,
        ] {
            let bucket = of(&[value]).buckets().next().expect("one bucket");
            assert!(bucket.low_ns <= value && value <= bucket.high_ns, "{value}");
            let width = bucket.high_ns - bucket.low_ns;
            assert!(
                width as f64 <= bucket.low_ns as f64 / 1000.0,
                "{value}: {width}"
            );
        }
    }
    // Adjacent buckets have no gap and no overlap.
    let mut previous: Option<u64> = None;
    for value in 0..100_000u64 {
        let bucket = of(&[value]).buckets().next().expect("one bucket");
        if let Some(high) = previous.filter(|high| *high < value) {
            assert_eq!(bucket.low_ns, high + 1);
        }
        previous = Some(bucket.high_ns);
        if value > 5000 && value % 7 != 0 {
            break;
        }
    }
}

#[test]
fn the_top_of_the_range_is_counted() {
    let histogram = of(&[u64::MAX, u64::MAX - 1, 1 << 63, 0]);
    assert_eq!(histogram.count(), 4);
    assert_eq!(histogram.max(), Some(u64::MAX));
    assert_eq!(histogram.min(), Some(0));
    assert_eq!(histogram.quantile(1.0), Some(u64::MAX));
    assert_eq!(
        histogram.buckets().map(|bucket| bucket.count).sum::<u64>(),
        4
    );
    let top = histogram.buckets().last().expect("not empty");
    assert_eq!(top.high_ns, u64::MAX);
}

#[test]
fn an_empty_histogram_has_no_figures() {
    let histogram = Histogram::new();
    assert_eq!(histogram.min(), None);
    assert_eq!(histogram.max(), None);
    assert_eq!(histogram.mean(), None);
    assert_eq!(histogram.quantile(0.5), None);
    assert_eq!(histogram.count_above(0), 0);
    assert!(
        histogram
            .percentile_ladder()
            .iter()
            .all(|rung| rung.value_ns.is_none())
    );
    assert_eq!(Histogram::decode(&histogram.encode()), Ok(histogram));
}

#[test]
fn the_percentile_ladder_ends_where_samples_are_too_few() {
    let mut histogram = Histogram::new();
    histogram.record_n(1000, 9_990);
    histogram.record_n(2000, 10);
    let ladder = histogram.percentile_ladder();
    let rung = |percentile: f64| ladder.iter().find(|r| r.percentile == percentile).copied();
    let supported = rung(99.9).expect("listed");
    assert_eq!(
        (supported.value_ns, supported.samples_beyond),
        (Some(1000), 10)
    );
    let beyond = rung(99.99).expect("listed");
    assert_eq!((beyond.value_ns, beyond.samples_beyond), (None, 1));
}

#[test]
fn the_fast_path_finds_the_same_bucket_at_every_edge() {
    for bits in 10..32 {
        for digit in 0..1024u64 {
            let edge = (1u64 << bits) + (digit << (bits - 10));
            for value in [edge - 1, edge, edge + 1] {
                if (u64::from(Batch::USUAL_FROM_NS)..=u64::from(u32::MAX)).contains(&value) {
                    let (mut short, mut long) = (Histogram::new(), Histogram::new());
                    let mut extremes = Extremes::default();
                    extremes.include(value);
                    let mut batch = short.batch();
                    batch.add_usual(value as f64);
                    batch.end(1, value, extremes);
                    long.record(value);
                    assert_eq!(short, long, "{value}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_packed_histogram_is_the_histogram_and_its_record(values in latencies(), times in 1..=u64::MAX) {
        let mut histogram = of(&values);
        for histogram in [Histogram::new(), histogram.clone(), {
            histogram.record_n(values[0], times);
            histogram
        }] {
            let packed = PackedHistogram::from(&histogram);
            prop_assert_eq!(HistogramRecord::from(&packed), HistogramRecord::from(&histogram));
            // A bucket of more than 2^63 samples keeps 2^63 of them, as in a record.
            if times < 1 << 62 {
                prop_assert_eq!(Histogram::from(&packed), histogram);
            }
        }
    }

    #[test]
    fn quantiles_agree_with_the_sorted_samples(values in latencies(), q in 0.0f64..=1.0) {
        let histogram = of(&values);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64 * (1.0 - 1e-12)).ceil() as usize).clamp(1, sorted.len());
        let exact = sorted[rank - 1];
        let reported = histogram.quantile(q).expect("not empty");
        prop_assert!(reported >= exact);
        prop_assert!((reported - exact) as f64 <= exact as f64 / 1000.0);
        prop_assert!(reported <= sorted[sorted.len() - 1]);
    }

    #[test]
    fn a_batch_is_its_samples_one_by_one(before in latencies(), values in proptest::collection::vec(short_latency(), 0..100)) {
        let (mut batched, mut single) = (of(&before), of(&before));
        let mut extremes = Extremes::default();
        let mut batch = batched.batch();
        for value in &values {
            if *value >= Batch::USUAL_FROM_NS {
                batch.add_usual(f64::from(*value));
            } else {
                batch.add(*value);
            }
            extremes.include(u64::from(*value));
        }
        let sum_ns = values.iter().map(|value| u64::from(*value)).sum();
        batch.end(values.len() as u64, sum_ns, extremes);
        values.iter().for_each(|value| single.record(u64::from(*value)));
        prop_assert_eq!(&batched, &single);
    }

    #[test]
    fn quantiles_are_monotone(values in latencies(), a in 0.0f64..=1.0, b in 0.0f64..=1.0) {
        let histogram = of(&values);
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        prop_assert!(histogram.quantile(low) <= histogram.quantile(high));
    }

    #[test]
    fn exact_figures_are_exact(values in latencies()) {
        let histogram = of(&values);
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!(histogram.min(), values.iter().min().copied());
        prop_assert_eq!(histogram.max(), values.iter().max().copied());
        prop_assert_eq!(histogram.sum(), values.iter().map(|v| u128::from(*v)).sum::<u128>());
    }

    #[test]
    fn counts_above_enclose_the_truth(values in latencies(), limit in latency()) {
        let histogram = of(&values);
        let above = values.iter().filter(|value| **value > limit).count() as u64;
        prop_assert!(histogram.count_above(limit) >= above);
        prop_assert!(histogram.count_surely_above(limit) <= above);
        prop_assert_eq!(
            histogram.count_above(limit) + histogram.count_at_or_below(limit),
            histogram.count()
        );
        // Below 2048 ns buckets are single values, so nothing straddles.
        if limit < 2048 {
            prop_assert_eq!(histogram.count_above(limit), above);
        }
    }

    #[test]
    fn merging_is_recording_all(a in latencies(), b in latencies()) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let both: Vec<u64> = a.into_iter().chain(b).collect();
        prop_assert_eq!(merged, of(&both));
    }

    #[test]
    fn a_record_is_read_back_as_it_was(values in latencies()) {
        let histogram = of(&values);
        let json = serde_json::to_string(&histogram).expect("serialises");
        let back: Histogram = serde_json::from_str(&json).expect("reads back");
        prop_assert_eq!(back, histogram);
    }

    #[test]
    fn a_sparse_histogram_is_the_same_samples(a in latencies(), b in latencies(), limit in latency()) {
        let (mut merged, other) = (of(&a), of(&b));
        let sparse = SparseHistogram::try_from(&HistogramRecord::from(&other)).expect("decodes");
        prop_assert_eq!(&Histogram::from(&sparse), &other);
        prop_assert_eq!((sparse.count(), sparse.max()), (other.count(), other.max()));
        prop_assert_eq!(sparse.occupied(), other.buckets().count());
        for limit in [limit, a[0], b[0], b[0].saturating_sub(1)] {
            prop_assert_eq!(sparse.count_above(limit), other.count_above(limit));
        }
        merged.merge_sparse(&sparse);
        let both: Vec<u64> = a.into_iter().chain(b).collect();
        prop_assert_eq!(merged, of(&both));
    }

    #[test]
    fn cdf_ends_at_one(values in latencies()) {
        let histogram = of(&values);
        let points: Vec<_> = histogram.cdf().collect();
        let last = points.last().expect("not empty");
        prop_assert_eq!(last.at_or_below, histogram.count());
        prop_assert_eq!(Some(last.value_ns), histogram.max());
        prop_assert!(points.windows(2).all(|pair| pair[0].value_ns < pair[1].value_ns));
    }

    #[test]
    fn hdrhistogram_reads_what_we_write(values in proptest::collection::vec(0u64..1 << 60, 1..100)) {
        let text = of(&values).encode();
        let bytes = STANDARD.decode(text).expect("base64");
        let theirs: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("hdrhistogram reads it");
        prop_assert_eq!(theirs.len(), values.len() as u64);
        for value in &values {
            let counted = theirs.count_at(*value);
            let ours = values.iter().filter(|v| theirs.equivalent(**v, *value)).count();
            prop_assert_eq!(counted, ours as u64);
        }
    }

    #[test]
    fn hostile_text_is_refused_or_read(text in "[ -~]{0,300}") {
        let _ = Histogram::decode(&text);
    }

    #[test]
    fn hostile_bytes_are_refused_or_read(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        digits in 0u8..8,
        sane: bool,
    ) {
        if sane && bytes.len() > 48 {
            let length = (bytes.len() - 40) as u32;
            bytes[..4].copy_from_slice(&0x1c84_9313u32.to_be_bytes());
            bytes[4..8].copy_from_slice(&length.to_be_bytes());
            bytes[8..12].fill(0);
            bytes[12..16].copy_from_slice(&u32::from(digits).to_be_bytes());
            bytes[16..24].copy_from_slice(&1u64.to_be_bytes());
            bytes[32..40].copy_from_slice(&1f64.to_be_bytes());
        }
        let _ = Histogram::decode(&STANDARD.encode(bytes));
    }

    #[test]
    fn a_damaged_text_is_refused_or_read(values in latencies(), at: usize, with: u8) {
        let mut bytes = STANDARD.decode(of(&values).encode()).expect("base64");
        let at = at % bytes.len();
        bytes[at] ^= with;
        let _ = Histogram::decode(&STANDARD.encode(bytes));
    }
}

proptest! {
    // With five digits hdrhistogram needs 50 MB: fewer cases.
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn we_read_what_hdrhistogram_writes(
        values in proptest::collection::vec(1u64..1 << 50, 1..100),
        digits in 1u8..=5,
        compressed: bool,
    ) {
        let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 52, digits)
            .expect("valid bounds");
        for value in &values {
            theirs.record(*value).expect("within bounds");
        }
        let mut bytes = Vec::new();
        if compressed {
            V2DeflateSerializer::new().serialize(&theirs, &mut bytes).expect("writes");
        } else {
            V2Serializer::new().serialize(&theirs, &mut bytes).expect("writes");
        }
        let ours = Histogram::decode(&STANDARD.encode(bytes)).expect("reads");
        prop_assert_eq!(ours.count(), values.len() as u64);
        if digits == 3 {
            let again = of(&values);
            prop_assert!(ours.buckets().eq(again.buckets()));
        }
        // No sample becomes faster, or slower by more than the width of a foreign bucket.
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for (i, value) in sorted.iter().enumerate() {
            let read = ours.value_at_rank(i as u64 + 1);
            let slack = 2.0 * 10f64.powi(-i32::from(digits)) + 0.001;
            prop_assert!(read as f64 <= *value as f64 * (1.0 + slack) + 1.0, "{} {}", read, value);
            if i > 0 {
                prop_assert!(read >= *value, "{} {}", read, value);
            }
        }
    }
}

/// A deflated text of zeros that would inflate to `length` bytes.
fn bomb(length: usize) -> String {
    use std::io::Read as _;
    let mut out = 0x1c84_9314u32.to_be_bytes().to_vec();
    let mut stream = Vec::new();
    flate2::read::ZlibEncoder::new(
        std::io::repeat(0).take(length as u64),
        flate2::Compression::best(),
    )
    .read_to_end(&mut stream)
    .expect("deflates");
    out.extend_from_slice(&(stream.len() as u32).to_be_bytes());
    out.extend(stream);
    STANDARD.encode(out)
}

#[test]
fn a_decompression_bomb_is_refused() {
    assert_eq!(
        Histogram::decode(&bomb(64 << 20)),
        Err(DecodeError::TooLong)
    );
    assert_eq!(
        Histogram::decode(&"A".repeat(2 << 20)),
        Err(DecodeError::TooLong)
    );
    assert_eq!(Histogram::decode("%"), Err(DecodeError::NotBase64));
    assert_eq!(Histogram::decode(""), Err(DecodeError::Truncated));
    assert_eq!(Histogram::decode("AAAAAAAA"), Err(DecodeError::NotV2));
}

#[test]
fn counts_that_overflow_are_refused() {
    // Three counts of i64::MAX: 2^64 and more samples.
    let mut bytes = 0x1c84_9313u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&27u32.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&3u32.to_be_bytes());
    bytes.extend_from_slice(&1u64.to_be_bytes());
    bytes.extend_from_slice(&1000u64.to_be_bytes());
    bytes.extend_from_slice(&1f64.to_be_bytes());
    for _ in 0..3 {
        bytes.extend_from_slice(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }
    assert_eq!(
        Histogram::decode(&STANDARD.encode(bytes)),
        Err(DecodeError::Counts)
    );
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    let record = HistogramRecord::from(&of(&[1_000, 50_000, 2_000_000]));
    let broken = |change: fn(&mut HistogramRecord)| {
        let mut record = record.clone();
        change(&mut record);
        Histogram::try_from(&record).expect_err("must not be read")
    };
    assert_eq!(broken(|r| r.count = 4), DecodeError::Mismatch("count"));
    assert_eq!(broken(|r| r.min_ns = 999), DecodeError::Mismatch("minimum"));
    assert_eq!(
        broken(|r| r.max_ns = 1_990_000),
        DecodeError::Mismatch("maximum")
    );
    assert_eq!(broken(|r| r.sum_ns = 1), DecodeError::Mismatch("sum"));
    let empty = HistogramRecord {
        max_ns: 7,
        ..HistogramRecord::from(&Histogram::new())
    };
    assert!(Histogram::try_from(&empty).is_err());
}

#[test]
fn the_fullest_histogram_is_read_back() {
    let mut histogram = Histogram::allocated();
    for index in 0..BUCKETS as u64 {
        let value = if index < 2048 {
            index
        } else {
            (1024 + index % 1024) << (index / 1024 - 1)
        };
        histogram.record_n(value, index * 1_000_003 + 1);
    }
    assert_eq!(histogram.buckets().count(), BUCKETS);
    let json = serde_json::to_string(&histogram).expect("serialises");
    let back: Histogram = serde_json::from_str(&json).expect("reads back");
    assert_eq!(back, histogram);
}

#[test]
fn a_quantile_is_supported_from_the_tenth_sample_beyond_it() {
    for (quantile, least) in [(0.5, 20), (0.99, 1_000), (0.999, 10_000)] {
        let of = |count: u64| {
            let mut histogram = Histogram::new();
            (1..=count).for_each(|value| histogram.record(value));
            histogram
        };
        assert_eq!(Histogram::new().supported_quantile(quantile), None);
        assert_eq!(of(least - 1).supported_quantile(quantile), None);
        let enough = of(least);
        let found = enough.supported_quantile(quantile);
        assert!(found.is_some() && found == enough.quantile(quantile));
    }
}
