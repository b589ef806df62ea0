/*
 * The laboratory's measurement of windows: a plugin for QEMU's TCG that finds the longest times in which
 * the guest's kernel could not have served a wake-up. It reads the guest's state, and changes nothing.
 *
 * The processor serves an interrupt only while its interrupts are enabled, and the kernel switches to
 * the woken thread only where it may be preempted. Both change at instructions that can be recognised:
 * cli, sti, entries and returns of the kernel, writes to the count of preemption. Between them nothing
 * can change, so each window is measured to the instruction. How the kernel is preempted follows from
 * its model, which only the guest knows: windows are kept for both.
 *
 *   full     wherever interrupts are enabled and the count of preemption is 0, and in programs;
 *   points   where the kernel asks (__cond_resched), where it switches by itself, and in programs.
 *
 * In the idle loop, which looks at the request itself, it is served everywhere.
 *
 * At a mark (see observer.c) a wake-up has ended. What served it (the interrupt, and from its end or
 * from the last instant at which the kernel could be preempted, the switch to the thread) is no window:
 * it is reported by itself, and the reader adds it to the longest window.
 *
 * Arguments: out=FILE; table=FILE, lines of a word and hexadecimal addresses (see read_table); ram=BYTES
 * of the guest, whose memory must be a memfd: the count of preemption is read there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trackers.h"

struct qemu_plugin_hwaddr;
typedef void (*on_access)(unsigned vcpu, uint32_t info, uint64_t address, void *data);
enum { WRITE = 2 };
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, on_access, int, int, void *);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

static const char *out;
static const uint8_t *ram;
static uint64_t ram_bytes;
static int begun;

/* --- While the guest runs ------------------------------------------------------------------- */

static void begin(plugin_id id);

/* The guest's memory: the only memfd of its size that QEMU has open. */
static const uint8_t *find_ram(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return NULL;
    void *found = MAP_FAILED;
    const struct dirent *entry;
    while (found == MAP_FAILED && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);
        struct stat status;
        char path[64], target[128];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0 || strncmp(target, "/memfd:", 7))
            continue;
        if (!fstat(fd, &status) && (uint64_t)status.st_size == ram_bytes)
            found = mmap(NULL, ram_bytes, PROT_READ, MAP_SHARED, fd, 0);
    }
    closedir(folder);
    return found == MAP_FAILED ? NULL : found;
}

static void on_mark(plugin_id id)
{
    if (!begun) {
        begun = 1;
        find_counters();
        ram = find_ram();
        qemu_plugin_reset(id, begin, (void *)(uintptr_t)id);
        return;
    }
    if (wake_count == MOST_WAKES)
        return;
    if (wake_count == wake_room) {
        wake_room = wake_room ? wake_room * 2 : 4096;
        wakes = realloc(wakes, wake_room * sizeof *wakes);
        if (!wakes) {
            fprintf(stderr, "windows: no memory for %llu wake-ups\n", (unsigned long long)wake_room);
            exit(1);
        }
    }
    struct wake *wake = &wakes[wake_count++];
    wake->mark = *instructions;
    wake->clock = last_clock;
    for (unsigned i = 0; i < 2; i++)
        end_wake(&trackers[i], i, wake);
    look_at_interrupts(trackers[0].switch_device);
}

/* An instruction of the kernel that is recognised is about to be executed. */
static void on_event(enum kind kind, uint64_t address)
{
    uint64_t now = *instructions;
    switch (kind) {
    case CLI:
        enabled = 0;
        break;
    case STI:
        enable(now);
        if (address >= idle_from && address < idle_to) {
            idle = 1;
            nested_in_idle = 0;
        }
        break;
    case POPF:
        flags_popped++;
        return;
    case SWAPGS:
        base_of_user = !base_of_user;
        return;
    case IRET:
    case SYSRET:
        if (faults_disabled && !base_of_user) {
            faults_disabled--;
            break;
        }
        enable(now);
        nested_in_idle -= nested_in_idle > 0;
        in_user = base_of_user;
        if (in_user) {
            returned_with_count += preempt_count != 0;
            faults_disabled = 0;
        }
        break;
    case DEVICE:
        interrupted_while_disabled += !enabled;
        for (unsigned i = 0; i < 2; i++)
            decide_all(&trackers[i], now);
        devices[device_count++ % RECENT] = (struct device){ now, enabled_since, 0, 0 };
        nested_in_idle++;
        in_user = 0;
        enabled = 0;
        break;
    case FAULT:
        faults_disabled += !in_user && !enabled;
        nested_in_idle++;
        in_user = 0;
        enabled = 0;
        break;
    case SYSCALL:
        in_user = 0;
        enabled = 0;
        break;
    case TICK:
        if (device_count)
            devices[(device_count - 1) % RECENT].ticked = 1;
        return;
    case SWITCH:
        for (unsigned i = 0; i < 2; i++)
            on_switch_of(&trackers[i]);
        return;
    default:
        return;
    }
    look(now, address, kind == DEVICE);
}

/* Where in the guest's memory an address of its bus is: behind 3 GiB there is a hole up to 4 GiB, if
   it has 3.5 GiB or more (QEMU's pc). */
static uint64_t ram_at(uint64_t bus)
{
    const uint64_t gib = UINT64_C(1) << 30;
    uint64_t low = ram_bytes >= 7 * gib / 2 ? 3 * gib : ram_bytes;
    if (bus < low)
        return bus;
    return bus >= 4 * gib ? bus - 4 * gib + low : UINT64_MAX;
}

static void on_count(unsigned vcpu, uint32_t info, uint64_t address, void *data)
{
    (void)vcpu;
    static uint64_t known, place;
    if (address != known) {
        struct qemu_plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);
        place = found ? ram_at(qemu_plugin_hwaddr_phys_addr(found)) : UINT64_MAX;
        known = address;
    }
    uint32_t value;
    if (!ram || place > ram_bytes - sizeof value) {
        count_unread++;
        return;
    }
    memcpy(&value, ram + place, sizeof value);
    /* The topmost bit says that no switch is requested. */
    preempt_count = value & 0x7fffffff;
    look(*instructions, (uint64_t)(uintptr_t)data, 0);
}

/* One for each kind: the data is the address. */
#define ON(NAME, KIND)                                  \
    static void NAME(unsigned vcpu, void *data)         \
    {                                                   \
        (void)vcpu;                                     \
        on_event(KIND, (uint64_t)(uintptr_t)data);      \
    }
ON(on_cli, CLI)
ON(on_sti, STI)
ON(on_popf, POPF)
ON(on_iret, IRET)
ON(on_sysret, SYSRET)
ON(on_swapgs, SWAPGS)
ON(on_fault, FAULT)
ON(on_device, DEVICE)
ON(on_syscall, SYSCALL)
ON(on_switch_to, SWITCH)
ON(on_tick, TICK)

static void on_point(unsigned vcpu, void *data)
{
    (void)vcpu;
    /* It asks only then. */
    if (preempt_count)
        return;
    struct tracker *tracker = &trackers[1];
    tracker->ready = *instructions;
    serve(tracker, *instructions, (uint64_t)(uintptr_t)data);
}

static void on_choice(unsigned vcpu, void *data)
{
    (void)vcpu;
    idle = 0;
    for (unsigned i = 0; i < 2; i++)
        choose(&trackers[i], *instructions, (uint64_t)(uintptr_t)data);
}

static void on_clock(unsigned vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    last_clock = *instructions;
}

static void on_marked(unsigned vcpu, void *data)
{
    (void)vcpu;
    on_mark((plugin_id)(uintptr_t)data);
}

static const on_execution CALLS[] = {
    [CLI] = on_cli,         [STI] = on_sti,         [POPF] = on_popf,   [IRET] = on_iret,
    [SYSRET] = on_sysret,   [SWAPGS] = on_swapgs,   [FAULT] = on_fault, [DEVICE] = on_device,
    [SYSCALL] = on_syscall, [SWITCH] = on_switch_to, [CLOCK] = on_clock, [POINT] = on_point,
    [CHOICE] = on_choice,   [MARKED] = on_marked,   [TICK] = on_tick,
};

static void call_at(struct qemu_plugin_insn *insn, enum kind kind, plugin_id id)
{
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    void *data = (void *)(uintptr_t)(kind == MARKED ? id : address);
    if (kind == COUNT)
        qemu_plugin_register_vcpu_mem_cb(insn, on_count, NO_REGISTERS, WRITE, data);
    else if (kind != NOTHING)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, CALLS[kind], NO_REGISTERS, data);
}

static void on_new_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    size_t length = qemu_plugin_tb_n_insns(tb);
    if (!length)
        return;
    uint64_t uncounted = 0;
    int edge = at_edge(tb, length);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint8_t code[LONGEST];
        size_t size = bytes_of(insn, code, sizeof code);
        enum kind kind = kind_of_code(code, size, address);
        if (!begun) {
            if (kind == MARKED)
                call_at(insn, kind, id);
            continue;
        }
        enum kind place = address & KERNEL ? kind_of_place(address) : NOTHING;
        int sure = i + 1 < length - (edge ? 1 : 0) && processor->stays(code, size);
        uncounted++;
        if (kind != NOTHING || place != NOTHING || !sure) {
            count(insn, uncounted);
            uncounted = 0;
        }
        /* The entry of system calls may begin with swapgs. */
        call_at(insn, place, id);
        call_at(insn, kind, id);
    }
}

/* --- At the end ----------------------------------------------------------------------------- */

#define N(value) ((unsigned long long)(value))

static void put(FILE *to, const struct tracker *tracker, const char *when,
                const struct longest *longest)
{
    for (unsigned i = 0; i < TOP; i++) {
        const struct window *window = &longest->top[i];
        if (window->times)
            fprintf(to, "window %s %s %llu %llx %llx %llx %llu %llu %llu\n", tracker->name, when,
                    N(window->length), N(window->start), N(window->end), N(window->then),
                    N(window->interrupted), N(window->crowded), N(window->times));
    }
}

static void at_exit(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    FILE *to = fopen(out, "w");
    if (!to) {
        perror(out);
        return;
    }
    fprintf(to, "punctual-windows 2\n");
    fprintf(to, "checks %llu %llu %llu %llu\n", N(interrupted_while_disabled), N(flags_popped),
            N(returned_with_count), N(count_unread));
    fprintf(to, "interrupts %llu %llu\n", N(device_count), N(least_apart));
    for (unsigned i = 0; i < 2; i++) {
        struct tracker *tracker = &trackers[i];
        /* Of those of the last wake-up nothing more is known. */
        memset(&tracker->current, 0, sizeof tracker->current);
        for (unsigned j = 0; j < tracker->undecided_count; j++)
            decide(tracker, &tracker->undecided[j], 1);
        merge(&tracker->late, &tracker->current);
        put(to, &trackers[i], "early", &trackers[i].early);
        put(to, &trackers[i], "late", &trackers[i].late);
    }
    for (uint64_t i = 0; i < wake_count; i++) {
        const struct wake *wake = &wakes[i];
        fprintf(to, "wake %llu %llu", N(wake->mark), N(wake->clock));
        for (unsigned j = 0; j < 2; j++)
            fprintf(to, " %llu %llu %llu %llu %llu %llu", N(wake->by[j].entry),
                    N(wake->by[j].ready), N(wake->by[j].handler), N(wake->by[j].approach),
                    N(wake->by[j].path), N(wake->by[j].mixed));
        fputc('\n', to);
    }
    fprintf(to, "end\n");
    if (fclose(to))
        perror(out);
}

static void begin(plugin_id id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_new_block);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
}

/* --- At the start --------------------------------------------------------------------------- */

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id,
                                                               const struct info *info, int argc,
                                                               char **argv)
{
    const char *table = NULL;
    api = info->version.cur;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            out = strdup(argv[i] + 4);
        else if (!strncmp(argv[i], "table=", 6))
            table = argv[i] + 6;
        else if (!strncmp(argv[i], "ram=", 4))
            ram_bytes = strtoull(argv[i] + 4, NULL, 10);
        else {
            fprintf(stderr, "windows: unknown argument %s\n", argv[i]);
            return 1;
        }
    }
    if (!out || !table || !ram_bytes) {
        fprintf(stderr, "windows: wants out=FILE, table=FILE and ram=BYTES\n");
        return 1;
    }
    if (!find_processor(info) || processor != &AMD64) {
        fprintf(stderr, "windows: the instructions of %s are unknown\n", info->target_name);
        return 1;
    }
    if (!read_table(table)) {
        fprintf(stderr, "windows: %s can't be read\n", table);
        return 1;
    }
    static uint64_t counters[1];
    if (!count_in(counters, sizeof counters)) {
        fprintf(stderr, "windows: this QEMU's plugins can't count instructions\n");
        return 1;
    }
    begin(id);
    return 0;
}
