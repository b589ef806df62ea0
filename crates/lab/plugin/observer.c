/*
 * The laboratory's observer: a plugin of QEMU's translator that sees each block of guest code
 * as it is executed, and says afterwards what ran before the latest wake-ups.
 *
 * The guest can't notice it: it reads no guest state and writes none, and virtual time counts
 * the guest's instructions alone. What it costs is host time.
 *
 * A program in the guest marks each wake-up with one instruction that does nothing (MARK, below).
 * From the first mark on, the executed blocks are kept in order, each with the number of instructions
 * executed before it: these are counted within a block too, wherever it may be left in its middle, by a
 * fault or a device. At a mark that ends one of the latest wake-ups so far, the blocks since the mark
 * before are copied. All is written when QEMU ends.
 *
 * Arguments: out=FILE; keep=COUNT of the latest wake-ups, with period=INSTRUCTIONS to tell which those
 * are; or at=MARK, once for each wake-up that is wanted; fault=ADDRESS of the kernel's entry for page
 * faults.
 *
 * QEMU's interface for plugins is declared here as its documentation has it (docs/devel/tcg-plugins,
 * "API"): distributions don't install the header. Only functions that are the same from interface
 * version 1 (QEMU 6.0) to version 7 are used, but for those that say below how they differ.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"

/* --- What QEMU gives ------------------------------------------------------------------------ */

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* The part of qemu_info_t that has never moved. */
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
/* Up to version 2 it takes the instruction alone and gives a pointer to its bytes; from 3 on it
   copies them to where it is told. Called in this way it does the one or the other. */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
/* Clears what the plugin asked for and throws all translations away, then calls back: up to version 6
   with the plugin's id and without a third argument, from 7 on with that argument alone. Given the id
   there too, the callback gets it either way. */
void qemu_plugin_reset(plugin_id, void (*)(plugin_id), void *);

/* Adding without a call: the first until version 2, the others from then on. */
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

/* QEMU refuses a version that it doesn't know. Who writes this file out for a QEMU that wants another
   one changes the number, which stands behind a word that is nowhere else. */
__attribute__((used)) static struct {
    char word[12];
    int version;
} observer_version = { "punctual-api", 1 };
__asm__(".globl qemu_plugin_version\n"
        ".set qemu_plugin_version, observer_version + 12\n");

/* --- What is kept --------------------------------------------------------------------------- */

/* nopl 0x746b7570(%rax,%rax,1): no compiler makes it. crates/rt has the same bytes. */
static const uint8_t MARK[8] = { 0x0f, 0x1f, 0x84, 0x00, 0x70, 0x75, 0x6b, 0x74 };

/* Of a block; who reads the file knows the first alone. */
enum {
    READS_CLOCK = 1, /* its last instruction does */
    FAULT = 2,       /* the kernel takes page faults there */
    EDGE = 4,        /* its last instruction may be none of it: see on_new_block */
    TOUCHES = 8,     /* its last instruction has an access to memory that may fault, ... */
    TWICE = 16,      /* ... or two, ... */
    ASK = 32,        /* ... and so may what comes after it: the accesses tell which it was */
    ASK_BEFORE = 64, /* the same of the instruction before the last */
};

struct block {
    uint64_t address;
    uint32_t instructions;
    uint32_t flags;
};

#define KERNEL (UINT64_C(1) << 63) /* its addresses lie above */

/* One block on its way: which, and the lower half of the count before it. */
struct step {
    uint32_t block;
    uint32_t before;
};

struct kept {
    uint64_t mark;
    uint64_t lateness;
    uint64_t length;
    uint64_t whole;
    struct step *steps;
};

#define PAGE 4096
#define RING (UINT64_C(1) << 22) /* 32 MiB */
#define MOST_MARKS (UINT64_C(1) << 22)
#define MOST_KEPT 16
#define RECENT 16 /* wake-ups that one is held against */

static int api;
static const char *out;
static uint64_t period;
static uint64_t keep = 8;

static uint64_t fault; /* where the kernel takes page faults */

static struct block *blocks;
static uint64_t block_count, block_room;

static struct step *ring;
static uint64_t executed;      /* blocks, since the first mark */
/* Executed since the first mark, this one included; and behind it the accesses to memory by last
   instructions of blocks, those of the one before it in the upper half. */
static uint64_t *instructions;
static uint64_t touched_before; /* the block that was last entered, if it is one to ask of */
static struct qemu_plugin_scoreboard *score;
static int begun;

static uint64_t *marks;
static uint64_t mark_count, mark_room;
static uint64_t executed_at_mark;
/* The first wake-up of those that follow each other without a longer pause. */
static uint64_t since;

static uint64_t wanted[MOST_KEPT]; /* in these marks alone, if there are any */
static uint64_t wanted_count;

static struct kept kept[MOST_KEPT];
static uint64_t kept_count;

static void *grown(void *old, uint64_t *room, size_t each)
{
    uint64_t wanted = *room ? *room * 2 : 4096;
    void *bigger = realloc(old, wanted * each);
    if (!bigger) {
        fprintf(stderr, "observer: no memory for %llu entries\n", (unsigned long long)wanted);
        exit(1);
    }
    *room = wanted;
    return bigger;
}

/* --- While the guest runs ------------------------------------------------------------------- */

/* Whether the page fault after this step was one of its last instruction and not of what comes next.
   That instruction has been counted, and is again when it is tried once more: in virtual time the
   first time is none. */
static int faulted_within(const struct step *step)
{
    const struct block *block = &blocks[step->block];
    uint32_t done = (uint32_t)*instructions - step->before;
    uint64_t touched = instructions[1] - touched_before;
    if (done >= block->instructions) {
        uint32_t wanted = block->flags & TWICE ? 2 : 1;
        return block->flags & ASK ? (uint32_t)touched < wanted : (block->flags & TOUCHES) != 0;
    }
    if (block->flags & EDGE && done == block->instructions - 1)
        return block->flags & ASK_BEFORE && touched >> 32 == 0;
    return done != 0;
}

static void on_block(unsigned vcpu, void *data)
{
    (void)vcpu;
    uint32_t index = (uint32_t)(uintptr_t)data;
    uint32_t flags = blocks[index].flags;
    if (flags & FAULT && executed && faulted_within(&ring[(executed - 1) & (RING - 1)]))
        --*instructions;
    if (flags & (ASK | ASK_BEFORE))
        touched_before = instructions[1];
    ring[executed++ & (RING - 1)] =
        (struct step){ index, (uint32_t)*instructions };
}

/* How late the wake-up at this mark was: later in its period than the earliest of the latest ones, or
   since the mark before it where that is longer ago than a period. Where no period is known, how long
   after the mark before. */
static uint64_t lateness_of(uint64_t mark)
{
    uint64_t now = marks[mark], apart = now - marks[mark - 1];
    if (!period)
        return apart;
    uint64_t latest = apart > period ? apart - period : 0;
    for (uint64_t i = mark > since + RECENT ? mark - RECENT : since; i < mark; i++) {
        uint64_t later = (now - marks[i]) % period;
        if (later < period / 2 && later > latest)
            latest = later;
    }
    if (apart > 4 * period)
        since = mark;
    return latest;
}

/* The slot for a mark so late, or none. */
static struct kept *slot_for(uint64_t mark, uint64_t lateness)
{
    if (wanted_count) {
        for (uint64_t i = 0; i < wanted_count; i++)
            if (wanted[i] == mark && kept_count < MOST_KEPT)
                return &kept[kept_count++];
        return NULL;
    }
    if (kept_count < keep)
        return &kept[kept_count++];
    struct kept *least = &kept[0];
    for (uint64_t i = 1; i < kept_count; i++)
        if (kept[i].lateness < least->lateness)
            least = &kept[i];
    return least->lateness < lateness ? least : NULL;
}

static void keep_steps(uint64_t mark)
{
    uint64_t lateness = lateness_of(mark);
    struct kept *slot = slot_for(mark, lateness);
    if (!slot)
        return;
    uint64_t length = executed - executed_at_mark;
    uint64_t whole = length <= RING;
    if (!whole)
        length = RING;
    struct step *copy = realloc(slot->steps, (length + 1) * sizeof *copy);
    if (!copy) {
        fprintf(stderr, "observer: no memory for %llu blocks\n", (unsigned long long)length);
        exit(1);
    }
    for (uint64_t i = 0; i < length; i++)
        copy[i] = ring[(executed - length + i) & (RING - 1)];
    *slot = (struct kept){ mark, lateness, length, whole, copy };
}

static void begin(plugin_id id);

static void on_mark(unsigned vcpu, void *data)
{
    (void)vcpu;
    if (mark_count >= MOST_MARKS)
        return;
    if (mark_count == mark_room)
        marks = grown(marks, &mark_room, sizeof *marks);
    if (!begun) {
        /* Boot and loads until here went at full speed; from here on all is counted. */
        begun = 1;
        /* Not before: while plugins are installed there is no processor yet, and QEMU says so by dying. */
        if (score)
            instructions = qemu_plugin_scoreboard_find(score, 0);
        marks[mark_count++] = 0;
        qemu_plugin_reset((plugin_id)(uintptr_t)data, begin, data);
        return;
    }
    marks[mark_count] = *instructions;
    keep_steps(mark_count);
    mark_count++;
    executed_at_mark = executed;
}

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

static void count_accesses(struct qemu_plugin_insn *insn, uint64_t each)
{
    if (score)
        qemu_plugin_register_vcpu_mem_inline_per_vcpu(
            insn, READ_OR_WRITE, ADD, (struct counter){ score, sizeof *instructions }, each);
    else
        qemu_plugin_register_vcpu_mem_inline(insn, READ_OR_WRITE, ADD, instructions + 1, each);
}

static struct way way_at(const struct qemu_plugin_tb *tb, size_t place)
{
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, place);
    uint8_t code[LONGEST];
    return way_of(code, bytes_of(insn, code, sizeof code));
}

/* What tells, after a page fault, whether it was this block's. */
static uint32_t tells(const struct qemu_plugin_tb *tb, size_t length, int edge)
{
    struct way last = way_at(tb, length - 1);
    uint32_t flags = last.accesses > 1 ? TOUCHES | TWICE : last.accesses ? TOUCHES : 0;
    /* The kernel's own code is always there. */
    if (qemu_plugin_tb_vaddr(tb) & KERNEL)
        return flags;
    if (edge)
        flags |= EDGE;
    if (last.accesses && (last.leads_away || edge)) {
        flags |= ASK;
        count_accesses(qemu_plugin_tb_get_insn(tb, length - 1), 1);
    }
    if (edge && length > 1 && way_at(tb, length - 2).accesses) {
        flags |= ASK_BEFORE;
        count_accesses(qemu_plugin_tb_get_insn(tb, length - 2), UINT64_C(1) << 32);
    }
    return flags;
}

/* Up to QEMU 8.1 a block is told to have one instruction more than it has where that one didn't end
   on the block's page: it is begun, and taken out again together with whatever a plugin asked for
   at it. So nothing may hang on an instruction that may be such a one, but its own count. */
static int at_edge(const struct qemu_plugin_tb *tb, size_t length)
{
    uint64_t last = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, length - 1));
    return (last ^ (last + LONGEST)) & ~(uint64_t)(PAGE - 1) ? 1 : 0;
}

static void on_new_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    size_t length = qemu_plugin_tb_n_insns(tb);
    if (!length || block_count > UINT32_MAX - 1)
        return;
    uint32_t flags = 0;
    uint64_t uncounted = 0;
    int edge = at_edge(tb, length);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint8_t code[LONGEST];
        size_t size = bytes_of(insn, code, sizeof code);
        int mark = size == sizeof MARK && !memcmp(code, MARK, size);
        int sure = i + 1 < length - (edge ? 1 : 0) && stays(code, size);
        uncounted++;
        if (begun && (mark || !sure)) {
            count(insn, uncounted);
            uncounted = 0;
        }
        if (mark)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, NO_REGISTERS,
                                                   (void *)(uintptr_t)id);
        /* With virtual time each ends its block. */
        if (i == length - 1 && reads_clock(code, size))
            flags |= READS_CLOCK;
    }
    if (!begun)
        return;
    if (block_count == block_room)
        blocks = grown(blocks, &block_room, sizeof *blocks);
    uint64_t index = block_count++;
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    if (fault && address == fault)
        flags |= FAULT;
    if (fault)
        flags |= tells(tb, length, edge);
    blocks[index] = (struct block){ address, (uint32_t)length, flags };
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, (void *)(uintptr_t)index);
}

/* --- At the end ----------------------------------------------------------------------------- */

static int put(FILE *to, const void *what, size_t each, uint64_t count)
{
    return count == 0 || fwrite(what, each, count, to) == count;
}

/* From version 7 on it gets the data alone: it needs neither. */
static void at_exit(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    FILE *to = fopen(out, "wb");
    if (!to) {
        perror(out);
        return;
    }
    uint64_t head[3] = { block_count, mark_count, kept_count };
    int good = put(to, "punctOB1", 8, 1) && put(to, head, sizeof head, 1) &&
               put(to, blocks, sizeof *blocks, block_count) &&
               put(to, marks, sizeof *marks, mark_count);
    for (uint64_t i = 0; good && i < kept_count; i++) {
        uint64_t row[3] = { kept[i].mark, kept[i].whole, kept[i].length };
        good = put(to, row, sizeof row, 1) &&
               put(to, kept[i].steps, sizeof *kept[i].steps, kept[i].length);
    }
    good = good && put(to, "punctEND", 8, 1);
    if (fclose(to) || !good)
        perror(out);
}

static void begin(plugin_id id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_new_block);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id,
                                                               const struct info *info, int argc,
                                                               char **argv)
{
    api = info->version.cur;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            out = strdup(argv[i] + 4);
        else if (!strncmp(argv[i], "period=", 7))
            period = strtoull(argv[i] + 7, NULL, 10);
        else if (!strncmp(argv[i], "keep=", 5))
            keep = strtoull(argv[i] + 5, NULL, 10);
        else if (!strncmp(argv[i], "fault=", 6))
            fault = strtoull(argv[i] + 6, NULL, 0);
        else if (!strncmp(argv[i], "at=", 3) && wanted_count < MOST_KEPT)
            wanted[wanted_count++] = strtoull(argv[i] + 3, NULL, 10);
        else {
            fprintf(stderr, "observer: unknown argument %s\n", argv[i]);
            return 1;
        }
    }
    if (!out || keep < 1 || keep > MOST_KEPT) {
        fprintf(stderr, "observer: wants out=FILE, and keep=1 to %d\n", MOST_KEPT);
        return 1;
    }
    ring = malloc(RING * sizeof *ring);
    if (!ring) {
        fprintf(stderr, "observer: no memory for its ring\n");
        return 1;
    }
    static uint64_t counters[2];
    instructions = counters;
    if (!qemu_plugin_register_vcpu_insn_exec_inline) {
        if (!qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu) {
            fprintf(stderr, "observer: this QEMU's plugins can't count instructions\n");
            return 1;
        }
        score = qemu_plugin_scoreboard_new(sizeof counters);
    }
    begin(id);
    return 0;
}
