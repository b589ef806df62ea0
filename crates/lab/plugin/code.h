/*
 * What the observer needs to know of a processor's instructions.
 */
#ifndef CODE_H
#define CODE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LONGEST 15 /* bytes of an instruction of any processor */

/* How an instruction may end other than by continuing with the next one. */
struct way {
    unsigned accesses; /* to memory, for its data: each of them may fault */
    int leads_away;    /* the next instruction is elsewhere, on a page that may be missing */
};

struct processor {
    const char *target; /* QEMU's name of it */
    /* An instruction that does nothing, with which a program marks a wake-up. */
    uint8_t mark[8];
    size_t mark_size;
    int is_fixed; /* all instructions have the same length, and none lies across the border of two pages */
    int (*reads_clock)(const uint8_t *code, size_t size);
    /* Whether it is a common instruction that only uses registers, so that the next one in its
       block is always reached. False for unknown instructions. */
    int (*stays)(const uint8_t *code, size_t size);
    /* Where a jump leads to, if it says so itself; else 0. */
    uint64_t (*target_of)(const uint8_t *code, size_t size, uint64_t address);
    struct way (*way_of)(const uint8_t *code, size_t size);
};

#endif
