//! DELTA_BINARY_PACKED: differences in blocks of 128, packed into as many bits as
//! the widest of 32 needs. Instants and cycles take a few bits each this way.
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>

use super::thrift::{put_varint, put_zigzag};

const BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;
const MINIBLOCK: usize = BLOCK / MINIBLOCKS;

/// Appends the encoded values.
pub(super) fn encode(out: &mut Vec<u8>, values: &[i64]) {
    encode_differences(out, values, |delta| delta);
}

/// The same of small numbers, whose differences are of their own size: 2^31 - 1 is -1 after -2^31.
pub(super) fn encode_i32(out: &mut Vec<u8>, values: &[i32]) {
    let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
    encode_differences(out, &values, |delta| i64::from(delta as i32));
}

fn encode_differences(out: &mut Vec<u8>, values: &[i64], wrapped: fn(i64) -> i64) {
    put_varint(out, BLOCK as u64);
    put_varint(out, MINIBLOCKS as u64);
    put_varint(out, values.len() as u64);
    put_zigzag(out, values.first().copied().unwrap_or(0));
    let mut deltas = [0_i64; BLOCK];
    let mut start = 1;
    while start < values.len() {
        let count = (values.len() - start).min(BLOCK);
        for (offset, delta) in deltas[..count].iter_mut().enumerate() {
            *delta = wrapped(values[start + offset].wrapping_sub(values[start + offset - 1]));
        }
        encode_block(out, &deltas[..count]);
        start += count;
    }
}

fn encode_block(out: &mut Vec<u8>, deltas: &[i64]) {
    let least = deltas.iter().copied().min().unwrap_or(0);
    put_zigzag(out, least);
    let over = |delta: i64| delta.wrapping_sub(least) as u64;
    let widths = out.len();
    out.extend([0; MINIBLOCKS]);
    for (index, miniblock) in deltas.chunks(MINIBLOCK).enumerate() {
        let all = miniblock.iter().fold(0, |bits, delta| bits | over(*delta));
        let width = u64::BITS - all.leading_zeros();
        out[widths + index] = width as u8;
        pack(out, miniblock.iter().map(|delta| over(*delta)), width);
    }
}

/// Packs up to 32 values of `width` bits, lowest bit first, with zeroes up to 32.
fn pack(out: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let end = out.len() + width as usize * MINIBLOCK / 8;
    let (mut held, mut bits) = (0_u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
    out.resize(end, 0);
}
