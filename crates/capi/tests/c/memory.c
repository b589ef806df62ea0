/* Out of memory is returned: NULL or -1, with ENOMEM. Each constructor is called with decreasing
 * address space, down to none. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static void *nothing(void *unused)
{
    return unused;
}

static int null;

static int ring_small(void)
{
    struct punctual_ring *ring = punctual_ring_create(8, 8);

    punctual_ring_destroy(ring);
    return ring != NULL;
}

static int ring_large(void)
{
    struct punctual_ring *ring = punctual_ring_create(1024, 1 << 16);

    punctual_ring_destroy(ring);
    return ring != NULL;
}

static int log_small(void)
{
    static const char *const formats[] = {"one %u", "two %d"};
    struct punctual_log *log = punctual_log_open(null, formats, 2, 16);
    uint64_t number = 1;

    if (log == NULL)
        return 0;
    CHECK(punctual_log_put(log, 0, 1, &number) == 0);
    CHECK(punctual_log_close(log) >= 0);
    return 1;
}

static int log_large(void)
{
    struct punctual_log *log = punctual_log_open(null, NULL, 0, 1 << 20);

    if (log != NULL)
        CHECK(punctual_log_close(log) >= 0);
    return log != NULL;
}

static int thread(void)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *made;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.name = "short of memory";
    attr.cpus = "all";
    if (punctual_thread_create(&made, &attr, nothing, NULL) != 0)
        return 0;
    CHECK(punctual_thread_join(made, NULL) == 0);
    return 1;
}

static int stack(void)
{
    void *base = punctual_stack_alloc(2 << 20);

    if (base == NULL)
        return 0;
    CHECK(punctual_stack_free(base, 2 << 20) == 0);
    return 1;
}

static int reserve(void)
{
    return punctual_stack_reserve(1 << 20, 3) == 0;
}

static int sizes(void)
{
    unsigned int *list = punctual_stack_sizes();

    free(list);
    return list != NULL;
}

static int watchpoint(void)
{
    static int word;
    struct punctual_watchpoint *watched = punctual_watchpoint_set(&word, sizeof word, 0);

    punctual_watchpoint_clear(watched);
    /* No hardware or no permission: not the subject of this test. */
    return watched != NULL || errno != ENOMEM;
}

static int heap(void)
{
    return punctual_heap_keep(8 << 20) == 0;
}

/* Lists of CPUs and of interrupts have any length. That they name CPUs or interrupts that don't
 * exist is not the subject of this test. */
enum { CPUS = 8192, IRQS = 3000 };
static unsigned cpus[2 * CPUS], irqs[IRQS];

static void lists(void)
{
    unsigned i;

    for (i = 0; i < 2 * CPUS; i++)
        cpus[i] = i % CPUS;
    for (i = 0; i < IRQS; i++)
        irqs[i] = 1000000 + i;
}

static int found_out(ssize_t answer)
{
    return answer >= 0 || errno != ENOMEM;
}

static int affinity_set(void)
{
    return found_out(punctual_affinity_set(0, "0-8191"));
}

static int affinity_get(void)
{
    static char list[65536];

    return punctual_affinity_get(0, list, sizeof list) > 0;
}

static int thread_on_all(void)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *made;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.cpus = "0-8191";
    if (punctual_thread_create(&made, &attr, nothing, NULL) != 0)
        return found_out(-1);
    return punctual_thread_join(made, NULL) == 0;
}

static int apply_all(void)
{
    struct punctual_thread_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.flags = PUNCTUAL_THREAD_SIGNALS;
    attr.cpus = "0-8190";
    return found_out(punctual_thread_apply(&attr));
}

static int cpuset(void)
{
    char reason[64] = "";

    return found_out(punctual_cpuset_create("a/b", cpus, 2 * CPUS, reason, sizeof reason)) ||
           strlen(reason) == 0;
}

static int cpuset_name(void)
{
    static char name[1 << 20];

    memset(name, 'n', sizeof name - 1);
    errno = 0;
    CHECK(punctual_cpuset_state(name, NULL, 0) == -1);
    return errno == ENAMETOOLONG || errno == ENOTSUP;
}

static int irq_preview(void)
{
    unsigned cpu = 0;

    return found_out(punctual_irq_preview_steer(irqs, IRQS, &cpu, 1, NULL, NULL, NULL));
}

static int irq_steer(void)
{
    return found_out(punctual_irq_steer(irqs, IRQS, cpus, CPUS, "/no/such/journal", NULL, NULL));
}

static const struct {
    const char *name;
    int (*works)(void);
    size_t most;
} constructors[] = {
    {"ring_small", ring_small, 256 << 10}, {"ring_large", ring_large, 80 << 20},
    {"log_small", log_small, 1 << 20},     {"log_large", log_large, 160 << 20},
    {"thread", thread, 1 << 20},           {"stack", stack, 3 << 20},
    {"reserve", reserve, 4 << 20},         {"sizes", sizes, 128 << 10},
    {"watchpoint", watchpoint, 128 << 10}, {"heap", heap, 12 << 20},
    {"affinity_set", affinity_set, 512 << 10}, {"affinity_get", affinity_get, 64 << 10},
    {"thread_on_all", thread_on_all, 512 << 10}, {"apply_all", apply_all, 512 << 10},
    {"cpuset", cpuset, 512 << 10}, {"cpuset_name", cpuset_name, 64 << 10},
    {"irq_preview", irq_preview, 512 << 10}, {"irq_steer", irq_steer, 512 << 10},
};

/* Calls that use the library's reserve, or that allocate next to nothing. */
static int always_works(int (*works)(void))
{
    return works == watchpoint || works == affinity_get || works == cpuset_name;
}

/* The address space of the process. */
static size_t taken(void)
{
    char text[64] = "";
    int file = open("/proc/self/statm", O_RDONLY);

    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Otherwise a compiler removes malloc(). */
static void *volatile sink;

/* Leaves `spare` bytes of address space, and an empty heap if `spare` is 0. */
static void starve(size_t spare)
{
    struct rlimit limit;
    size_t size;

    limit.rlim_cur = limit.rlim_max = taken() + spare;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    if (spare == 0)
        for (size = 64 << 10; size >= 16; size /= 2)
            while ((sink = malloc(size)) != NULL)
                ;
}

static int refused;

/* One call of one constructor in a separate child: it succeeds, or fails with ENOMEM. */
static void tried(size_t which, size_t spare)
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        starve(spare);
        errno = 0;
        if (constructors[which].works())
            _exit(0);
        /* Not printf, which may need memory. */
        if (errno != ENOMEM)
            _exit(errno);
        _exit(*punctual_last_error() != 0 ? 200 : 201);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 200)) {
        fprintf(stderr, "%s with %zu bytes left: status 0x%x\n", constructors[which].name, spare,
                status);
        exit(1);
    }
    refused += WEXITSTATUS(status) == 200;
}

/* Free stacks of other sizes are unmapped before an allocation fails; reserved ones are not. */
static void others_make_room(void)
{
    enum { MANY = 32 };
    void *held[MANY], *large[4];
    struct punctual_stack_stats stats, before;
    int i, status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        for (i = 0; i < MANY; i++)
            CHECK((held[i] = punctual_stack_alloc(524288)) != NULL);
        for (i = 0; i < MANY; i++)
            CHECK(punctual_stack_free(held[i], 524288) == 0);
        CHECK(punctual_stack_reserve(262144, 4) == 0);
        stats.struct_size = before.struct_size = sizeof stats;
        CHECK(punctual_stack_stats(262144, &before) == 0);
        starve(1 << 20);
        for (i = 0; i < 4; i++)
            CHECK((large[i] = punctual_stack_alloc(2 << 20)) != NULL);
        CHECK(punctual_stack_reserve(1 << 20, 2) == 0);
        CHECK(punctual_stack_stats(524288, &stats) == 0 && stats.unmapped > 0);
        CHECK(punctual_stack_stats(262144, &stats) == 0);
        CHECK(stats.unmapped == before.unmapped && stats.kept + stats.stored == 4);
        while (punctual_stack_alloc(2 << 20) != NULL)
            ;
        CHECK(errno == ENOMEM && strstr(punctual_last_error(), "punctual_stack_trim") != NULL);
        /* The reserved stacks are still available. */
        for (i = 0; i < 4; i++)
            CHECK(punctual_stack_alloc(262144) != NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    size_t which, spare;

    lists();
    /* glibc loads a library once to cancel threads, which is not the subject of this test. */
    CHECK((null = open("/dev/null", O_WRONLY)) >= 0);
    CHECK(thread());
    CHECK(punctual_stack_trim(0, 0) >= 0);
    for (which = 0; which < sizeof constructors / sizeof constructors[0]; which++) {
        int before = refused;

        tried(which, 0);
        for (spare = 4096; spare <= constructors[which].most; spare = spare * 3 / 2 / 4096 * 4096 + 4096)
            tried(which, spare);
        CHECK(refused > before || always_works(constructors[which].works));
    }
    others_make_room();
    return 0;
}
