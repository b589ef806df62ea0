/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Lengths of time in logarithmic buckets: the highest bit and some bits below it select the bucket.
 *
 * trace/watch/lengths.rs computes the same buckets. */
#pragma once

#include "kernel.h"

/* The longest that have a bucket of their own: 2^38 ns, about 4 minutes. */
enum { LENGTH_BITS = 38 };
#define PLACES(part_bits) ((LENGTH_BITS - (part_bits)) << (part_bits))

static ALWAYS_INLINE u32 highest_bit(u64 value)
{
	u32 bit = 0;
	if (value >> 32) {
		value >>= 32;
		bit += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bit += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bit += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bit += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bit += 2;
	}
	return bit + (value >> 1);
}

static ALWAYS_INLINE u32 place(u64 length_ns, u32 part_bits)
{
	if (length_ns < 1U << part_bits)
		return length_ns;
	u32 shift = highest_bit(length_ns) - part_bits;
	u64 at = ((u64)shift << part_bits) + (length_ns >> shift);
	return at < PLACES(part_bits) ? at : PLACES(part_bits) - 1;
}
