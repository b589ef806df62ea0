/*
 * The instructions and the places of an x86-64 kernel at which it may become able or unable to serve a
 * wake-up: see windows.c.
 */
#ifndef PLACES_H
#define PLACES_H

#include "qemu.h"

enum kind {
    NOTHING,
    CLI,
    STI,
    POPF,    /* sets the flags from memory: kernels since 5.12 don't, where they enable interrupts */
    IRET,
    SYSRET,
    SWAPGS,  /* between a program's base address and the kernel's */
    FAULT,   /* entry of an exception */
    DEVICE,  /* entry of an interrupt */
    SYSCALL, /* entry of a system call */
    POINT,   /* the kernel would be preempted here, if that was requested */
    CHOICE,  /* of the next thread */
    SWITCH,  /* to another thread */
    TICK,    /* what a tick does in its interrupt */
    CLOCK,   /* a program reads it */
    MARKED,  /* a wake-up has ended */
    COUNT,   /* the count of preemption is written */
};

struct place {
    uint64_t address;
    enum kind kind;
};

#define MOST_PLACES 1024
static struct place places[MOST_PLACES];
static unsigned place_count;
static uint64_t idle_from, idle_to;
static uint64_t preempt_count_at; /* in the processor's own data, gs:AT */

/* Whether an instruction reads or writes gs:AT: its address is absolute, or relative to the next
   instruction (after relocation both are used). */
static int uses_count(const uint8_t *code, size_t size, uint64_t address)
{
    size_t at = 0;
    int gs = 0;
    while (at < size && memchr("\x65\x66\xf0\xf2\xf3", code[at], 5))
        gs |= code[at++] == 0x65;
    if (!gs || !preempt_count_at)
        return 0;
    at += at < size && (code[at] & 0xf0) == 0x40;
    at += at < size && code[at] == 0x0f;
    if (at + 2 + 4 > size)
        return 0;
    uint8_t operand = code[at + 1];
    int32_t offset;
    if ((operand & 0xc7) == 0x05) {
        memcpy(&offset, code + at + 2, sizeof offset);
        return address + size + (uint64_t)(int64_t)offset == preempt_count_at;
    }
    if ((operand & 0xc7) == 0x04 && at + 3 + 4 <= size && code[at + 2] == 0x25) {
        memcpy(&offset, code + at + 3, sizeof offset);
        return (uint64_t)(int64_t)offset == preempt_count_at;
    }
    return 0;
}

static int is(const uint8_t *code, size_t size, const char *what, size_t length)
{
    return size == length && !memcmp(code, what, length);
}

/* What the kernel does at this place. */
static enum kind kind_of_place(uint64_t address)
{
    for (unsigned i = 0; i < place_count; i++)
        if (address == places[i].address)
            return places[i].kind;
    return NOTHING;
}

/* What the instruction itself does. */
static enum kind kind_of_code(const uint8_t *code, size_t size, uint64_t address)
{
    if (!(address & KERNEL)) {
        if (size == processor->mark_size && !memcmp(code, processor->mark, size))
            return MARKED;
        return processor->reads_clock(code, size) ? CLOCK : NOTHING;
    }
    if (is(code, size, "\xfa", 1))
        return CLI;
    if (is(code, size, "\xfb", 1))
        return STI;
    if (is(code, size, "\x9d", 1))
        return POPF;
    if (is(code, size, "\x48\xcf", 2))
        return IRET;
    if (is(code, size, "\x48\x0f\x07", 3))
        return SYSRET;
    if (is(code, size, "\x0f\x01\xf8", 3))
        return SWAPGS;
    return uses_count(code, size, address) ? COUNT : NOTHING;
}

/* --- The table ------------------------------------------------------------------------------- */

/* The words of the table for one address. */
static const struct {
    const char *word;
    enum kind kind;
} WORDS[] = {
    { "fault", FAULT },   { "device", DEVICE }, { "syscall", SYSCALL }, { "point", POINT },
    { "choice", CHOICE }, { "switch", SWITCH }, { "tick", TICK },
};

static int add_place(const char *word, uint64_t address)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strcmp(word, WORDS[i].word) && place_count < MOST_PLACES) {
            places[place_count++] = (struct place){ address, WORDS[i].kind };
            return 1;
        }
    return 0;
}

/* A line each: a word with its address, idle A B, count A. */
static int read_table(const char *path)
{
    FILE *from = fopen(path, "r");
    if (!from)
        return 0;
    char line[128], word[32];
    int good = 1;
    while (good && fgets(line, sizeof line, from)) {
        unsigned long long a = 0, b = 0;
        int found = sscanf(line, "%31s %llx %llx", word, &a, &b);
        if (found == 3 && !strcmp(word, "idle")) {
            idle_from = a;
            idle_to = b;
        } else if (found == 2 && !strcmp(word, "count"))
            preempt_count_at = a;
        else
            good = found == 2 && add_place(word, a);
    }
    fclose(from);
    return good;
}

#endif
