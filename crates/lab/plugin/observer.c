/*
 * The laboratory's observer: a plugin for QEMU's TCG that records each block of guest code
 * that is executed, and reports afterwards what ran before the latest wake-ups.
 *
 * The guest can't detect it: it reads and writes no guest state, and virtual time counts
 * only the guest's instructions. Its cost is host time.
 *
 * A program in the guest marks each wake-up with one instruction that does nothing (MARK, below).
 * From the first mark on, the executed blocks are kept in order, each with the number of instructions
 * executed before it: these are counted within a block too, so that it is right when a fault or a device
 * leaves a block in its middle. At a mark that ends one of the latest wake-ups so far, the blocks since the
 * previous mark are copied. Everything is written when QEMU ends.
 *
 * Arguments: out=FILE; keep=COUNT of the latest wake-ups, with period=INSTRUCTIONS to determine which these
 * are; or at=MARK, once for each requested wake-up; fault=ADDRESS, once for each of the kernel's entries for
 * page faults; idle=ADDRESS and idle-end=ADDRESS of its function for an idle processor.
 */
#include "qemu.h"

/* --- State ---------------------------------------------------------------------------------- */

/* Flags of a block; a reader of the file knows only the first. */
enum {
    READS_CLOCK = 1, /* its last instruction reads the clock */
    FAULT = 2,       /* it is the kernel's entry for page faults */
    EDGE = 4,        /* its last instruction may not belong to it: see on_new_block */
    TOUCHES = 8,     /* its last instruction has an access to memory that may fault, ... */
    TWICE = 16,      /* ... or two, ... */
    ASK = 32,        /* ... and so may what follows it: the accesses show which it was */
    ASK_BEFORE = 64, /* the same for the second-to-last instruction */
    IDLE = 128,      /* it is the idle loop's, which is kept as one block however often it is executed */
};

struct block {
    uint64_t address;
    uint32_t instructions;
    uint32_t flags;
};

/* An executed block: which, and the lower half of the count before it. */
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

#define RING (UINT64_C(1) << 22) /* 32 MiB */
#define MOST_MARKS (UINT64_C(1) << 22)
#define MOST_KEPT 16
/* Wake-ups that a wake-up is compared with: so many that one of them was nearly on time under any load, and
   so few that the drift of the guest's clock in their time, 1 ns each, is small. */
#define RECENT 128

static const char *out;
static uint64_t period;
static uint64_t keep = 8;

#define MOST_FAULTS 4
static uint64_t faults[MOST_FAULTS]; /* the kernel's entries for page faults */
static unsigned fault_count;
static uint64_t idle_from, idle_to; /* the kernel's function for an idle processor */
static uint64_t loop_from, loop_to; /* the loop in it, and where its other blocks begin */
#define MOST_INNER 16
static uint64_t inner[MOST_INNER];
static unsigned inner_count;

static struct block *blocks;
static uint64_t block_count, block_room;

static struct step *ring;
static uint64_t executed;      /* blocks, since the latest mark and the one before it */
/* Next to the count of instructions are the memory accesses of the last instructions of blocks, those
   of the second-to-last in the upper half. */
static uint64_t touched_before; /* the block that was last entered, if its accesses matter */
static int begun;

static uint64_t *marks;
static uint64_t mark_count, mark_room;
static uint64_t executed_at_mark;
/* The first of the wake-ups that follow each other without a longer pause. The first mark is none. */
static uint64_t since = 1;
/* Of the recent wake-ups, how long each was after it would have been if all had come a period apart. */
static int64_t offsets[RECENT];
/* Skipped periods: the wake-up before was still late. */
static uint64_t skipped;

static uint64_t wanted[MOST_KEPT]; /* only these marks, if there are any */
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

/* Whether the page fault after this step was caused by its last instruction, not by what follows.
   That instruction has been counted, and is counted again when it is retried: in virtual time the
   first attempt does not count. */
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

static void add_step(uint32_t index)
{
    ring[executed++ & (RING - 1)] = (struct step){ index, (uint32_t)*instructions };
}

/* Most blocks: the flags of all of them are more than fits the processor's caches. */
static void on_plain_block(unsigned vcpu, void *data)
{
    (void)vcpu;
    add_step((uint32_t)(uintptr_t)data);
}

static void on_block(unsigned vcpu, void *data)
{
    (void)vcpu;
    uint32_t index = (uint32_t)(uintptr_t)data;
    uint32_t flags = blocks[index].flags;
    if (flags & IDLE && executed && ring[(executed - 1) & (RING - 1)].block == index)
        return;
    if (flags & FAULT && executed && faulted_within(&ring[(executed - 1) & (RING - 1)]))
        --*instructions;
    if (flags & (ASK | ASK_BEFORE))
        touched_before = instructions[1];
    add_step(index);
}

/* How late the wake-up at this mark was: compared with the earliest of the recent ones, each in its
   period. If no period is known, how long after the previous mark. */
static uint64_t lateness_of(uint64_t mark)
{
    uint64_t now = marks[mark], apart = now - marks[mark - 1];
    if (!period)
        return apart;
    int64_t offset = (int64_t)(now - (mark + skipped) * period), earliest = offset;
    for (uint64_t i = mark > since + RECENT ? mark - RECENT : since; i < mark; i++)
        if (offsets[i % RECENT] < earliest)
            earliest = offsets[i % RECENT];
    offsets[mark % RECENT] = offset;
    if (apart > 4 * period)
        since = mark;
    skipped += (uint64_t)(offset - earliest) / period;
    return (uint64_t)(offset - earliest);
}

/* The slot for a mark that is this late, or null. */
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
        /* Boot and loads ran at full speed until here; from here on everything is counted. */
        begun = 1;
        find_counters();
        marks[mark_count++] = 0;
        qemu_plugin_reset((plugin_id)(uintptr_t)data, begin, data);
        return;
    }
    marks[mark_count] = *instructions;
    keep_steps(mark_count);
    mark_count++;
    /* From the ring's beginning again: the part of it that is in use stays in the processor's caches. */
    if (executed)
        ring[0] = ring[(executed - 1) & (RING - 1)];
    executed = executed_at_mark = executed != 0;
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
    return processor->way_of(code, bytes_of(insn, code, sizeof code));
}

/* Whether what follows a block is on another page, which may be missing. */
static int ends_page_at(const struct qemu_plugin_tb *tb, size_t length)
{
    struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, length - 1);
    uint64_t next = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
    return next % PAGE == 0;
}

/* The flags that show, after a page fault, whether this block caused it. */
static uint32_t tells(const struct qemu_plugin_tb *tb, size_t length, int edge)
{
    struct way last = way_at(tb, length - 1);
    uint32_t flags = last.accesses > 1 ? TOUCHES | TWICE : last.accesses ? TOUCHES : 0;
    /* The kernel's own code is always present. */
    if (qemu_plugin_tb_vaddr(tb) & KERNEL)
        return flags;
    if (edge)
        flags |= EDGE;
    int ends_page = ends_page_at(tb, length);
    if (last.accesses && (last.leads_away || edge || ends_page)) {
        flags |= ASK;
        count_accesses(qemu_plugin_tb_get_insn(tb, length - 1), 1);
    }
    if (edge && length > 1 && way_at(tb, length - 2).accesses) {
        flags |= ASK_BEFORE;
        count_accesses(qemu_plugin_tb_get_insn(tb, length - 2), UINT64_C(1) << 32);
    }
    return flags;
}

static void add_inner(uint64_t address)
{
    for (unsigned i = 0; i < inner_count; i++)
        if (inner[i] == address)
            return;
    if (inner_count < MOST_INNER)
        inner[inner_count++] = address;
}

/* A processor that waits executes the same loop again and again, and a call for each of its blocks would
   be most of what the observer costs. It has one for its first block. */
static void find_loop(struct qemu_plugin_tb *tb, size_t length)
{
    struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, length - 1);
    uint8_t code[LONGEST];
    size_t size = bytes_of(last, code, sizeof code);
    uint64_t at = qemu_plugin_insn_vaddr(last), target = processor->target_of(code, size, at);
    if (target < idle_from || target >= idle_to)
        return;
    add_inner(target);
    add_inner(at + size);
    if (target <= at) {
        loop_from = target;
        loop_to = at;
    }
}

/* Whether a block is one of the loop's others. Where an interrupt returns into the middle of one, that
   part of it is a block of its own. */
static int is_inner(uint64_t first)
{
    if (first <= loop_from || first > loop_to)
        return 0;
    for (unsigned i = 0; i < inner_count; i++)
        if (inner[i] == first)
            return 1;
    return 0;
}

static void on_new_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    size_t length = qemu_plugin_tb_n_insns(tb);
    if (!length || block_count > UINT32_MAX - 1)
        return;
    uint64_t first = qemu_plugin_tb_vaddr(tb);
    if (!begun && first >= idle_from && first < idle_to)
        find_loop(tb, length);
    /* The first mark is a program's. */
    if (!begun && first & KERNEL)
        return;
    uint32_t flags = 0;
    uint64_t uncounted = 0;
    int edge = at_edge(tb, length);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint8_t code[LONGEST];
        size_t size = bytes_of(insn, code, sizeof code);
        int mark = size == processor->mark_size && !memcmp(code, processor->mark, size);
        int sure = i + 1 < length - (edge ? 1 : 0) && processor->stays(code, size);
        uncounted++;
        if (begun && (mark || !sure)) {
            count(insn, uncounted);
            uncounted = 0;
        }
        if (mark)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, NO_REGISTERS,
                                                   (void *)(uintptr_t)id);
        /* With virtual time each of these ends its block. */
        if (i == length - 1 && processor->reads_clock(code, size))
            flags |= READS_CLOCK;
    }
    if (!begun || is_inner(first))
        return;
    if (block_count == block_room)
        blocks = grown(blocks, &block_room, sizeof *blocks);
    uint64_t index = block_count++;
    if (loop_from && first == loop_from)
        flags |= IDLE;
    for (unsigned i = 0; i < fault_count; i++)
        if (first == faults[i])
            flags |= FAULT;
    if (fault_count)
        flags |= tells(tb, length, edge);
    blocks[index] = (struct block){ first, (uint32_t)length, flags };
    int plain = !(flags & (FAULT | ASK | ASK_BEFORE | IDLE));
    qemu_plugin_register_vcpu_tb_exec_cb(tb, plain ? on_plain_block : on_block, NO_REGISTERS,
                                         (void *)(uintptr_t)index);
}

/* --- At the end ----------------------------------------------------------------------------- */

static int put(FILE *to, const void *what, size_t each, uint64_t count)
{
    return count == 0 || fwrite(what, each, count, to) == count;
}

/* From version 7 on it gets only the data, and needs neither. */
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
        else if (!strncmp(argv[i], "fault=", 6) && fault_count < MOST_FAULTS)
            faults[fault_count++] = strtoull(argv[i] + 6, NULL, 0);
        else if (!strncmp(argv[i], "idle=", 5))
            idle_from = strtoull(argv[i] + 5, NULL, 0);
        else if (!strncmp(argv[i], "idle-end=", 9))
            idle_to = strtoull(argv[i] + 9, NULL, 0);
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
    if (!find_processor(info)) {
        fprintf(stderr, "observer: the instructions of %s are unknown\n", info->target_name);
        return 1;
    }
    ring = malloc(RING * sizeof *ring);
    if (!ring) {
        fprintf(stderr, "observer: no memory for its ring\n");
        return 1;
    }
    static uint64_t counters[2];
    if (!count_in(counters, sizeof counters)) {
        fprintf(stderr, "observer: this QEMU's plugins can't count instructions\n");
        return 1;
    }
    begin(id);
    return 0;
}
