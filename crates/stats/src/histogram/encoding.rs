//! The text form: HdrHistogram V2, deflated, in base64.
//!
//! Any HdrHistogram reader accepts what [`Histogram::encode`] writes. Decoding is
//! total: the length of the text and of the inflated data are bounded, every
//! count is checked, and a hostile text costs at most a few MB.
//!
//! Big-endian. Outer: cookie `0x1c849314`, length of the zlib stream. Inner:
//! cookie `0x1c849313`, payload length, normalizing offset, significant digits,
//! lowest value (u64), highest value (u64), conversion ratio (f64), then the
//! counts as zigzag LEB128 of at most nine bytes; a negative count is a run of
//! empty buckets.

use super::{Histogram, SparseHistogram, Totals, bucket_of, highest_of, lowest_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::bufread::{ZlibDecoder, ZlibEncoder};
use serde::{Deserialize, Serialize};
use std::io::Read as _;

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;
const HEADER: usize = 40;

/// The longest text that [`Histogram::decode`] accepts, in bytes.
pub const MAX_ENCODED_LENGTH: usize = 1 << 20;
/// The largest inflated size of a text. Our own worst case is 0.5 MB; the rest is room for
/// layouts with four or five digits.
const MAX_INFLATED: usize = 4 << 20;

/// Why a text is not a histogram that this library can read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is longer than [`MAX_ENCODED_LENGTH`] or inflates too far.
    TooLong,
    /// Not base64.
    NotBase64,
    /// Ends early, or does not inflate.
    Truncated,
    /// Not a (compressed) HdrHistogram V2.
    NotV2,
    /// A layout that HdrHistogram does not know: digits outside 1..=5, a lowest
    /// value of 0, a shifted array or a conversion ratio.
    Layout,
    /// A count or a bucket outside of what the layout can hold.
    Counts,
    /// The histogram does not agree with the exact figures beside it.
    Mismatch(&'static str),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::TooLong => f.write_str("the encoded histogram is too long"),
            DecodeError::NotBase64 => f.write_str("the encoded histogram is not base64"),
            DecodeError::Truncated => f.write_str("the encoded histogram is cut short"),
            DecodeError::NotV2 => f.write_str("not an HdrHistogram of version 2"),
            DecodeError::Layout => f.write_str("the histogram has an unknown bucket layout"),
            DecodeError::Counts => f.write_str("the histogram has an impossible count"),
            DecodeError::Mismatch(what) => {
                write!(f, "the histogram does not agree with its {what}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// A histogram in a record: the buckets as text, and the exact figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistogramRecord {
    /// HdrHistogram V2, deflated, in base64.
    pub encoded: String,
    /// Number of samples.
    pub count: u64,
    /// Exact minimum in ns; 0 without samples.
    pub min_ns: u64,
    /// Exact maximum in ns; 0 without samples.
    pub max_ns: u64,
    /// Exact sum in ns.
    pub sum_ns: u128,
}

impl From<&Histogram> for HistogramRecord {
    fn from(histogram: &Histogram) -> Self {
        HistogramRecord {
            encoded: histogram.encode(),
            count: histogram.count(),
            min_ns: histogram.min().unwrap_or(0),
            max_ns: histogram.max().unwrap_or(0),
            sum_ns: histogram.sum(),
        }
    }
}

impl TryFrom<&HistogramRecord> for Histogram {
    type Error = DecodeError;

    fn try_from(record: &HistogramRecord) -> Result<Self, DecodeError> {
        SparseHistogram::try_from(record).map(|decoded| Histogram::from(&decoded))
    }
}

impl TryFrom<&HistogramRecord> for SparseHistogram {
    type Error = DecodeError;

    fn try_from(record: &HistogramRecord) -> Result<Self, DecodeError> {
        let mut histogram = SparseHistogram::decode(&record.encoded)?;
        let totals = &mut histogram.totals;
        if totals.count != record.count {
            return Err(DecodeError::Mismatch("count"));
        }
        if totals.count == 0 {
            return if record.min_ns == 0 && record.max_ns == 0 && record.sum_ns == 0 {
                Ok(histogram)
            } else {
                Err(DecodeError::Mismatch("absence of samples"))
            };
        }
        if bucket_of(record.min_ns) != bucket_of(totals.min) {
            return Err(DecodeError::Mismatch("minimum"));
        }
        if bucket_of(record.max_ns) != bucket_of(totals.max) || record.min_ns > record.max_ns {
            return Err(DecodeError::Mismatch("maximum"));
        }
        // As many samples as a `u64` counts, none above `u64::MAX`: neither sum overflows.
        let (mut low, mut high) = (0u128, 0u128);
        for (index, count) in &histogram.buckets {
            let (index, count) = (*index as usize, u128::from(*count));
            low += u128::from(lowest_of(index)) * count;
            high += u128::from(highest_of(index)) * count;
        }
        if !(low..=high).contains(&record.sum_ns) {
            return Err(DecodeError::Mismatch("sum"));
        }
        totals.min = record.min_ns;
        totals.max = record.max_ns;
        totals.sum = record.sum_ns;
        Ok(histogram)
    }
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HistogramRecord::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = HistogramRecord::deserialize(deserializer)?;
        Histogram::try_from(&record).map_err(serde::de::Error::custom)
    }
}

impl Histogram {
    /// The buckets as HdrHistogram V2, deflated, in base64. Minimum, maximum
    /// and sum keep three digits; [`HistogramRecord`] carries the exact ones.
    pub fn encode(&self) -> String {
        deflated(&self.inner())
    }

    /// The buckets as HdrHistogram V2, not deflated.
    pub(super) fn inner(&self) -> Vec<u8> {
        let mut inner = Vec::new();
        // Readers in Java store values as i64, and size their array by this.
        let highest = self
            .max()
            .map_or(2, |max| highest_of(bucket_of(max)))
            .max(2);
        inner.extend_from_slice(&COOKIE.to_be_bytes());
        inner.extend_from_slice(&[0; 8]);
        inner.extend_from_slice(&3u32.to_be_bytes());
        inner.extend_from_slice(&1u64.to_be_bytes());
        inner.extend_from_slice(&highest.to_be_bytes());
        inner.extend_from_slice(&1f64.to_be_bytes());
        let mut next = 0usize;
        for (index, count) in self.occupied() {
            match index - next {
                0 => {}
                1 => put_zigzag(&mut inner, 0),
                run => put_zigzag(&mut inner, -(run as i64)),
            }
            put_zigzag(&mut inner, i64::try_from(count).unwrap_or(i64::MAX));
            next = index + 1;
        }
        if next == 0 {
            put_zigzag(&mut inner, 0);
        }
        let payload = (inner.len() - HEADER) as u32;
        inner[4..8].copy_from_slice(&payload.to_be_bytes());
        inner
    }

    /// Reads the output of [`Histogram::encode`] or of another HdrHistogram.
    ///
    /// Buckets of another layout (digits or lowest value) are converted by the highest value of
    /// each, so no sample becomes faster than it was. Minimum, maximum and sum are those of the
    /// buckets: the lowest of the first, the highest of the last.
    pub fn decode(text: &str) -> Result<Histogram, DecodeError> {
        SparseHistogram::decode(text).map(|decoded| Histogram::from(&decoded))
    }
}

impl SparseHistogram {
    /// Like [`Histogram::decode`], without room for empty buckets.
    pub fn decode(text: &str) -> Result<SparseHistogram, DecodeError> {
        let text = text.trim_ascii();
        if text.len() > MAX_ENCODED_LENGTH {
            return Err(DecodeError::TooLong);
        }
        let outer = STANDARD.decode(text).map_err(|_| DecodeError::NotBase64)?;
        match be32(&outer, 0)? {
            COOKIE => decode_inner(&outer),
            COOKIE_COMPRESSED => {
                let length = be32(&outer, 4)? as usize;
                let stream = outer[8..].get(..length).ok_or(DecodeError::Truncated)?;
                // Varints deflate to about a third.
                let mut inner = Vec::with_capacity(4 * length);
                ZlibDecoder::new(stream)
                    .take(MAX_INFLATED as u64 + 1)
                    .read_to_end(&mut inner)
                    .map_err(|_| DecodeError::Truncated)?;
                if inner.len() > MAX_INFLATED {
                    return Err(DecodeError::TooLong);
                }
                decode_inner(&inner)
            }
            _ => Err(DecodeError::NotV2),
        }
    }
}

/// An inner histogram as the text of a record.
pub(super) fn deflated(inner: &[u8]) -> String {
    let mut outer = COOKIE_COMPRESSED.to_be_bytes().to_vec();
    outer.extend_from_slice(&[0; 4]);
    ZlibEncoder::new(inner, Compression::default())
        .read_to_end(&mut outer)
        .expect("deflating memory into memory can't fail");
    let length = (outer.len() - 8) as u32;
    outer[4..8].copy_from_slice(&length.to_be_bytes());
    STANDARD.encode(outer)
}

pub(super) fn decode_inner(bytes: &[u8]) -> Result<SparseHistogram, DecodeError> {
    if be32(bytes, 0)? != COOKIE {
        return Err(DecodeError::NotV2);
    }
    let payload = be32(bytes, 4)? as usize;
    let offset = be32(bytes, 8)?;
    let digits = be32(bytes, 12)?;
    let lowest = be64(bytes, 16)?;
    let ratio = f64::from_bits(be64(bytes, 32)?);
    if offset != 0 || !(1..=5).contains(&digits) || lowest == 0 || ratio != 1.0 {
        return Err(DecodeError::Layout);
    }
    let end = HEADER.checked_add(payload).ok_or(DecodeError::Truncated)?;
    let mut payload = bytes.get(HEADER..end).ok_or(DecodeError::Truncated)?;
    let layout = ForeignLayout::new(digits, lowest)?;

    let mut buckets: Vec<(u32, u64)> = Vec::new();
    let (mut index, mut count, mut sum) = (0u64, 0u64, 0u128);
    while !payload.is_empty() {
        let entry = take_zigzag(&mut payload)?;
        if entry <= 0 {
            index = index
                .checked_add(entry.unsigned_abs().max(1))
                .filter(|index| *index <= 1 << 40)
                .ok_or(DecodeError::Counts)?;
            continue;
        }
        let (low, high) = layout.bounds(index).ok_or(DecodeError::Counts)?;
        let entry = entry.unsigned_abs();
        count = count.checked_add(entry).ok_or(DecodeError::Counts)?;
        // `layout` nearly always equals ours, and then the middle is exact enough.
        let middle = low + (high - low) / 2;
        // As many samples as a `u64` counts, none above `u64::MAX`: it fits.
        sum += u128::from(middle) * u128::from(entry);
        let bucket = bucket_of(high) as u32;
        match buckets.last_mut() {
            // Several buckets of a finer layout become one of ours; their sum is at most `count`.
            Some((last, so_far)) if *last == bucket => *so_far += entry,
            _ => buckets.push((bucket, entry)),
        }
        index += 1;
    }
    let mut totals = Totals::NONE;
    if let (Some((first, _)), Some((last, _))) = (buckets.first(), buckets.last()) {
        totals = Totals {
            count,
            sum,
            min: lowest_of(*first as usize),
            max: highest_of(*last as usize),
        };
    }
    Ok(SparseHistogram { buckets, totals })
}

/// The bucket limits of a histogram with other parameters.
struct ForeignLayout {
    /// log2 of the buckets per doubling.
    half_bits: u32,
    /// log2 of the width of the narrowest bucket.
    unit_bits: u32,
}

impl ForeignLayout {
    fn new(digits: u32, lowest: u64) -> Result<Self, DecodeError> {
        let resolution = 2 * 10u64.pow(digits);
        let half_bits = resolution.next_power_of_two().trailing_zeros() - 1;
        let unit_bits = lowest.ilog2();
        if half_bits + 1 + unit_bits > 61 {
            return Err(DecodeError::Layout);
        }
        Ok(ForeignLayout {
            half_bits,
            unit_bits,
        })
    }

    /// Lowest and highest value of a bucket, `None` beyond `u64`.
    fn bounds(&self, index: u64) -> Option<(u64, u64)> {
        let half = 1u64 << self.half_bits;
        let (shift, sub) = if index < 2 * half {
            (0, index)
        } else {
            let shift = (index >> self.half_bits) - 1;
            (shift, index - (shift << self.half_bits))
        };
        let bits = u32::try_from(shift).ok()?.checked_add(self.unit_bits)?;
        if bits >= u64::BITS || sub > u64::MAX >> bits {
            return None;
        }
        let low = sub << bits;
        Some((low, low + ((1u64 << bits) - 1)))
    }
}

fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            out.push(rest as u8);
            return;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    // The ninth byte holds eight bits.
    out.push(rest as u8);
}

fn take_zigzag(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    let mut value = 0u64;
    for position in 0..9 {
        let (&byte, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
        *bytes = rest;
        if position == 8 {
            value |= u64::from(byte) << 56;
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn be32(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    let bytes = bytes.get(at..at + 4).ok_or(DecodeError::Truncated)?;
    Ok(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

fn be64(bytes: &[u8], at: usize) -> Result<u64, DecodeError> {
    let bytes = bytes.get(at..at + 8).ok_or(DecodeError::Truncated)?;
    Ok(u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
}
