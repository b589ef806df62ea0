/*
 * What an instruction of x86-64 can do, as far as the observer needs it, from its bytes.
 * An unknown instruction counts as able to do everything.
 */
#ifndef AMD64_H
#define AMD64_H

#include "code.h"

/* rdtsc, rdtscp */
static inline int amd64_reads_clock(const uint8_t *code, size_t size)
{
    return (size == 2 && !memcmp(code, "\x0f\x31", 2)) ||
           (size == 3 && !memcmp(code, "\x0f\x01\xf9", 3));
}

static inline int amd64_stays(const uint8_t *code, size_t size)
{
    const uint8_t *end = code + size;
    if (code < end && *code == 0x66)
        code++;
    if (code < end && (*code & 0xf0) == 0x40) /* REX */
        code++;
    int two_bytes = code < end && *code == 0x0f;
    if (two_bytes)
        code++;
    if (code >= end)
        return 0;
    uint8_t op = *code;
    /* The operand byte, if there is one. */
    int registers = code + 1 < end && code[1] >= 0xc0;
    int group = code + 1 < end ? code[1] >> 3 & 7 : 0;
    if (two_bytes)
        switch (op) {
        case 0x1f:          /* nop */
        case 0x80 ... 0x8f: /* jcc */
        case 0xc8 ... 0xcf: /* bswap */
            return 1;
        case 0x40 ... 0x4f: /* cmovcc */
        case 0x90 ... 0x9f: /* setcc */
        case 0xa3:          /* bt */
        case 0xaf:          /* imul */
        case 0xb6:          /* movzx */
        case 0xb7:
        case 0xbe: /* movsx */
        case 0xbf:
            return registers;
        default:
            return 0;
        }
    if (op < 0x40) /* add, or, adc, sbb, and, sub, xor, cmp: with an operand, or on the accumulator */
        return (op & 7) < 4 ? registers : (op & 7) < 6;
    switch (op) {
    case 0x70 ... 0x7f: /* jcc */
    case 0x8d:          /* lea */
    case 0x90:          /* nop */
    case 0x98:          /* cwde */
    case 0x99:          /* cdq */
    case 0xa8:          /* test */
    case 0xa9:
    case 0xb0 ... 0xbf: /* mov of an immediate */
    case 0xe9:          /* jmp */
    case 0xeb:
        return 1;
    case 0x63: /* movsxd */
    case 0x69: /* imul */
    case 0x6b:
    case 0x80: /* add and so on, with an immediate */
    case 0x81:
    case 0x83:
    case 0x84: /* test */
    case 0x85:
    case 0x88: /* mov */
    case 0x89:
    case 0x8a:
    case 0x8b:
    case 0xc0: /* shifts */
    case 0xc1:
    case 0xd0 ... 0xd3:
        return registers;
    case 0xc6: /* mov of an immediate; the others are transactions */
    case 0xc7:
        return registers && group == 0;
    case 0xf6: /* test, not, neg, mul; divisions fault */
    case 0xf7:
        return registers && group < 6;
    case 0xfe: /* inc, dec */
    case 0xff:
        return registers && group < 2;
    default:
        return 0;
    }
}

static inline uint64_t amd64_target_of(const uint8_t *code, size_t size, uint64_t address)
{
    int32_t far;
    int is_short = size == 2 && ((code[0] & 0xf0) == 0x70 || code[0] == 0xeb);
    int is_far = size == 5 && code[0] == 0xe9;
    int is_far_if = size == 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
    if (is_short)
        return address + size + (uint64_t)(int64_t)(int8_t)code[1];
    if (!is_far && !is_far_if)
        return 0;
    memcpy(&far, code + size - sizeof far, sizeof far);
    return address + size + (uint64_t)(int64_t)far;
}

static inline struct way amd64_way_of(const uint8_t *code, size_t size)
{
    const struct way away = { 0, 1 }, away_by_memory = { 1, 1 };
    const uint8_t *end = code + size, *at = code;
    while (at < end && memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3", *at, 11))
        at++;
    if (at < end && (*at & 0xf0) == 0x40) /* REX */
        at++;
    uint8_t op = at < end ? *at : 0;
    uint8_t next = at + 1 < end ? at[1] : 0;
    int registers = next >= 0xc0;
    switch (op) {
    case 0x70 ... 0x7f: /* jcc */
    case 0xe0 ... 0xe3: /* loop, jrcxz */
    case 0xe9:          /* jmp */
    case 0xeb:
    case 0xcf: /* iret: its target may be missing, not its own page */
        return away;
    case 0xc2: /* ret */
    case 0xc3:
    case 0xe8: /* call */
        return away_by_memory;
    case 0x0f: /* syscall, sysret, sysenter, sysexit; jcc */
        if (next == 0x05 || next == 0x07 || next == 0x34 || next == 0x35 || (next & 0xf0) == 0x80)
            return away;
        break;
    case 0xff:
        if ((next >> 3 & 7) == 2) /* call: the target and the return address */
            return registers ? away_by_memory : (struct way){ 2, 1 };
        if ((next >> 3 & 7) == 4) /* jmp */
            return registers ? away : away_by_memory;
        break;
    }
    return (struct way){ !amd64_stays(code, size), 0 };
}

/* nopl 0x746b7570(%rax,%rax,1): no compiler generates it. crates/rt has the same bytes. */
static const struct processor AMD64 = {
    .target = "x86_64",
    .mark = { 0x0f, 0x1f, 0x84, 0x00, 0x70, 0x75, 0x6b, 0x74 },
    .mark_size = 8,
    .reads_clock = amd64_reads_clock,
    .stays = amd64_stays,
    .target_of = amd64_target_of,
    .way_of = amd64_way_of,
};

#endif
