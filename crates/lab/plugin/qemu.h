/*
 * QEMU's interface for plugins, declared here according to its documentation (docs/devel/tcg-plugins,
 * "API"): distributions don't install the header. Only functions that are the same from interface
 * version 1 (QEMU 6.0) to version 7 are used, except where noted below. And what each of our plugins
 * needs: the count of executed instructions.
 */
#ifndef QEMU_H
#define QEMU_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd64.h"
#include "arm64.h"

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* The part of qemu_info_t that is the same in all versions. */
struct info {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
};

typedef void (*on_translation)(plugin_id, struct qemu_plugin_tb *);
typedef void (*on_execution)(unsigned vcpu, void *data);
typedef void (*on_end)(plugin_id, void *data);
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, on_execution, int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, on_execution, int, void *);
void qemu_plugin_register_atexit_cb(plugin_id, on_end, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
/* Up to version 2 it takes only the instruction and returns a pointer to its bytes; from 3 on it
   copies them to the given buffer. This call works with both. */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
/* Removes the plugin's callbacks and discards all translations, then calls back: up to version 6
   with the plugin's id and without a third argument, from 7 on with only that argument. With the id
   as the argument, the callback gets the id in both cases. */
void qemu_plugin_reset(plugin_id, void (*)(plugin_id), void *);

/* Adding without a call: the first up to version 2, the others from 3 on. */
struct qemu_plugin_scoreboard;
struct counter {
    struct qemu_plugin_scoreboard *score;
    size_t offset;
};
enum { ADD = 0, READ_OR_WRITE = 3 };
#define OPTIONAL __attribute__((weak))
OPTIONAL void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *,
                                                         uint64_t);
OPTIONAL void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *, int,
                                                                  struct counter, uint64_t);
/* The same for each access to memory, once it has succeeded. */
OPTIONAL void qemu_plugin_register_vcpu_mem_inline(struct qemu_plugin_insn *, int, int, void *,
                                                   uint64_t);
OPTIONAL void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn *, int, int,
                                                            struct counter, uint64_t);
OPTIONAL struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
OPTIONAL void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned);

/* QEMU refuses an unknown version. The program that writes this file for a QEMU with another version
   changes the number, which follows a word that occurs nowhere else. */
__attribute__((used)) static struct {
    char word[12];
    int version;
} plugin_version = { "punctual-api", 1 };
__asm__(".globl qemu_plugin_version\n"
        ".set qemu_plugin_version, plugin_version + 12\n");

/* --- The count of executed instructions ------------------------------------------------------ */

static const struct processor *processor;

/* The processor of the guest; 0 if it is unknown. */
static inline int find_processor(const struct info *info)
{
    const struct processor *known[] = { &AMD64, &ARM64 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i]->target, info->target_name))
            processor = known[i];
    return processor != NULL;
}

#define PAGE 4096
#define KERNEL (UINT64_C(1) << 63) /* its addresses are above */

static int api;
static struct qemu_plugin_scoreboard *score;
/* Executed since the first mark, including this one. */
static uint64_t *instructions;

static size_t bytes_of(const struct qemu_plugin_insn *insn, uint8_t *to, size_t most)
{
    size_t size = qemu_plugin_insn_size(insn);
    if (size > most)
        size = most;
    uintptr_t got = qemu_plugin_insn_data(insn, to, size);
    if (api < 3)
        memcpy(to, (const void *)got, size);
    return size;
}

static void count(struct qemu_plugin_insn *insn, uint64_t more)
{
    if (score)
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, (struct counter){ score, 0 },
                                                            more);
    else
        qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, instructions, more);
}

/* Up to QEMU 8.1 a block is reported with one instruction too many if that one didn't end
   on the block's page: its translation is begun, and removed again together with a plugin's requests
   for it. So nothing but its own count may be attached to an instruction that may be such a one. */
static int at_edge(const struct qemu_plugin_tb *tb, size_t length)
{
    if (processor->is_fixed)
        return 0;
    uint64_t last = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, length - 1));
    return (last ^ (last + LONGEST)) & ~(uint64_t)(PAGE - 1) ? 1 : 0;
}

/* Says where instructions are counted: `counters` has `size` bytes, the count first. */
static int count_in(uint64_t *counters, size_t size)
{
    instructions = counters;
    if (qemu_plugin_register_vcpu_insn_exec_inline)
        return 1;
    if (!qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu)
        return 0;
    score = qemu_plugin_scoreboard_new(size);
    return 1;
}

/* The processor's own counters. Not earlier: while plugins are installed there is no processor yet, and
   QEMU aborts. */
static void find_counters(void)
{
    if (score)
        instructions = qemu_plugin_scoreboard_find(score, 0);
}

#endif
