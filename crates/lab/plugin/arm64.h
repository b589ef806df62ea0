/*
 * What an instruction of AArch64 can do, as far as the observer needs it.
 * An unknown instruction counts as able to do everything.
 */
#ifndef ARM64_H
#define ARM64_H

#include "code.h"

static inline uint32_t arm64_word(const uint8_t *code, size_t size)
{
    uint32_t word = 0;
    if (size == sizeof word)
        memcpy(&word, code, sizeof word);
    return word;
}

/* mrs of cntpct_el0, cntvct_el0, cntpctss_el0 or cntvctss_el0 */
static inline int arm64_reads_clock(const uint8_t *code, size_t size)
{
    uint32_t reads = arm64_word(code, size) & 0xffffffe0;
    return reads == 0xd53be020 || reads == 0xd53be040 || reads == 0xd53be0a0 || reads == 0xd53be0c0;
}

/* Data processing, by an immediate or by registers. */
static inline int arm64_stays(const uint8_t *code, size_t size)
{
    uint32_t group = arm64_word(code, size) >> 25 & 0xf;
    return group == 0x8 || group == 0x9 || group == 0x5 || group == 0xd;
}

static inline int64_t arm64_offset(uint32_t word, unsigned first, unsigned bits)
{
    return (int64_t)((uint64_t)word << (64 - first - bits)) >> (64 - bits) << 2;
}

static inline uint64_t arm64_target_of(const uint8_t *code, size_t size, uint64_t address)
{
    uint32_t word = arm64_word(code, size);
    if ((word & 0xfc000000) == 0x14000000) /* b */
        return address + (uint64_t)arm64_offset(word, 0, 26);
    if ((word & 0xff000010) == 0x54000000) /* b.cond */
        return address + (uint64_t)arm64_offset(word, 5, 19);
    if ((word & 0x7e000000) == 0x34000000) /* cbz, cbnz */
        return address + (uint64_t)arm64_offset(word, 5, 19);
    if ((word & 0x7e000000) == 0x36000000) /* tbz, tbnz */
        return address + (uint64_t)arm64_offset(word, 5, 14);
    return 0;
}

/* Both accesses of a pair are on one page, except where it lies across the border of two. */
static inline struct way arm64_way_of(const uint8_t *code, size_t size)
{
    const struct way away = { 0, 1 }, touches = { 1, 0 }, neither = { 0, 0 };
    uint32_t word = arm64_word(code, size);
    if ((word >> 25 & 5) == 4) /* loads and stores */
        return touches;
    if ((word & 0xfff80000) == 0xd5080000) /* dc zva and its like */
        return touches;
    if ((word & 0xffc00000) == 0xd5000000) /* hints, barriers, system registers */
        return neither;
    if ((word >> 26 & 7) == 5) /* branches, exceptions */
        return away;
    return neither;
}

/* movz xzr, #0x7570, lsl #48: no compiler generates it. crates/rt has the same bytes. */
static const struct processor ARM64 = {
    .target = "aarch64",
    .mark = { 0x1f, 0xae, 0xee, 0xd2 },
    .mark_size = 4,
    .is_fixed = 1,
    .reads_clock = arm64_reads_clock,
    .stays = arm64_stays,
    .target_of = arm64_target_of,
    .way_of = arm64_way_of,
};

#endif
