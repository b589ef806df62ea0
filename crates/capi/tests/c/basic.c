/* Each function of the header, and each row of the table of errors. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

#ifdef CHECK_NO_PREFAULT
enum { PREFAULT = 0 };
#else
enum { PREFAULT = 1 };
#endif

static void sizes(void)
{
    unsigned int *array = punctual_stack_sizes();
    unsigned int *again = punctual_stack_sizes();
    unsigned int expected = 32768;
    size_t count = 0;

    CHECK(array != NULL && again != NULL && array != again);
    while (array[count] != 0) {
        CHECK(array[count] == expected && again[count] == expected);
        expected *= 2;
        count++;
    }
    CHECK(count == 7 && expected == 2 * 2097152u);
    free(array);
    free(again);

    CHECK(punctual_stack_class(0) == 32768);
    CHECK(punctual_stack_guard_size(32768) == (size_t)sysconf(_SC_PAGESIZE));
    CHECK(punctual_stack_guard_size(2097152) == punctual_stack_guard_size(32768));
    errno = 0;
    CHECK(punctual_stack_guard_size(0) == 0 && errno == EINVAL);
    CHECK(punctual_stack_class(32769) == 65536);
    CHECK(punctual_stack_class(2097152) == 2097152);
    errno = 0;
    CHECK(punctual_stack_class(2097153) == 0 && errno == EINVAL);
}

static void wrong_sizes(void)
{
    static const size_t wrong[] = {0, 1, 4096, 32767, 32769, 98304, 4194304, (size_t)-1};
    size_t i;

    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = 0;
        CHECK(punctual_stack_alloc(wrong[i]) == NULL && errno == EINVAL);
        FAILS(punctual_stack_reserve(wrong[i], 1), EINVAL);
    }
    FAILS(punctual_stack_trim(1, 0), EINVAL);
}

static void frees(void)
{
    unsigned int *all = punctual_stack_sizes();
    size_t i, j;

    CHECK(all != NULL);
    CHECK(punctual_stack_free(NULL, 0) == 0);
    FAILS(punctual_stack_free(NULL, 32768), EINVAL);
    for (i = 0; all[i] != 0; i++) {
        char *stack = (char *)punctual_stack_alloc(all[i]);
        int local;

        CHECK(stack != NULL);
        CHECK((uintptr_t)stack % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
        memset(stack, 0x5a, all[i]);
        for (j = 0; all[j] != 0; j++) {
            if (j != i)
                FAILS(punctual_stack_free(stack, all[j]), EINVAL);
        }
        FAILS(punctual_stack_free(stack, 0), EINVAL);
        FAILS(punctual_stack_free(stack, all[i] + 1), EINVAL);
        FAILS(punctual_stack_free(stack + 1, all[i]), EINVAL);
        FAILS(punctual_stack_free(stack + 4096, all[i]), EINVAL);
        FAILS(punctual_stack_free(&local, all[i]), EINVAL);
        FAILS(punctual_stack_free((void *)8, all[i]), EINVAL);
        CHECK(stack[0] == 0x5a && stack[all[i] - 1] == 0x5a);
        CHECK(punctual_stack_free(stack, all[i]) == 0);
        FAILS(punctual_stack_free(stack, all[i]), EINVAL);
    }
    free(all);
}

struct task {
    void *stack;
    size_t size;
    long faults;
};

static long faults_now(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt + usage.ru_majflt;
}

static void *on_stack(void *argument)
{
    struct task *task = (struct task *)argument;
    struct punctual_stack_bounds bounds;
    struct punctual_stack_place place;
    const size_t guard = punctual_stack_guard_size(task->size);
    volatile char room[100 * 1024];
    long before;
    size_t i;

    (void)faults_now();
    before = faults_now();
    for (i = 0; i < sizeof room; i += 1024)
        room[i] = 1;
    task->faults = faults_now() - before;

    FAILS(punctual_stack_free(task->stack, task->size), EBUSY);
    CHECK(punctual_stack_bounds(0, &bounds) == 0);
    CHECK(bounds.low == task->stack);
    CHECK((char *)bounds.high == (char *)task->stack + task->size);
    CHECK(punctual_stack_contains(&before) == 1);
    CHECK(punctual_stack_contains(&task->size) == 0);
    CHECK(punctual_stack_locate((char *)task->stack - 1, &place) == 1 && place.part == -1);
    CHECK(punctual_stack_locate((char *)task->stack - guard, &place) == 1 && place.part == -1);
    /* Below there may be another stack, or none. */
    if (punctual_stack_locate((char *)task->stack - guard - 1, &place) == 1)
        CHECK(place.bounds.low != task->stack);
    CHECK(punctual_stack_locate(bounds.high, &place) == 1 && place.part == 1);
    CHECK(punctual_stack_locate(&before, &place) == 1 && place.part == 0 && place.in_use == 1);
    CHECK(place.bounds.low == task->stack);
    return NULL;
}

static void threads(void)
{
    struct task task;
    struct punctual_stack_residency found;
    struct punctual_stack_place place;
    pthread_attr_t attr;
    pthread_t thread;

    task.size = 256 * 1024;
    task.stack = punctual_stack_alloc(task.size);
    task.faults = -1;
    CHECK(task.stack != NULL);
    CHECK(punctual_stack_residency(task.stack, task.size, &found) == 0);
    CHECK(found.pages == task.size / (size_t)sysconf(_SC_PAGESIZE));
    CHECK(found.resident == found.pages);
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstack(&attr, task.stack, task.size) == 0);
    CHECK(punctual_stack_set_live(task.stack, 1) == 0);
    FAILS(punctual_stack_set_live(task.stack, 1), EINVAL);
    FAILS(punctual_stack_set_live(task.stack, 2), EINVAL);
    FAILS(punctual_stack_free(task.stack, task.size), EBUSY);
    CHECK(punctual_stack_set_live(task.stack, 0) == 0);
    CHECK(pthread_create(&thread, &attr, on_stack, &task) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_destroy(&attr) == 0);
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(task.faults == 0);
    CHECK(punctual_stack_high_water(task.stack) >= 100 * 1024);
    /* It is the only one of its size in use. */
    CHECK(punctual_stack_high_water_of_class(task.size) ==
          punctual_stack_high_water(task.stack));
#endif
    CHECK(punctual_stack_high_water(task.stack) <= (ssize_t)task.size);
    CHECK(punctual_stack_free(task.stack, task.size) == 0);
    FAILS(punctual_stack_high_water(task.stack), EINVAL);
    CHECK(punctual_stack_high_water_of_class(task.size) == 0);
    FAILS(punctual_stack_high_water_of_class(task.size + 1), EINVAL);
    FAILS(punctual_stack_set_live(task.stack, 1), EINVAL);
    CHECK(punctual_stack_locate(task.stack, &place) == 1 && place.in_use == 0);
    CHECK(punctual_stack_locate(&task, &place) == 0);
}

static void counts(void)
{
    struct punctual_stack_stats stats;
    struct {
        struct punctual_stack_stats known;
        char beyond[64];
    } newer;
    void *held[3];
    size_t i;

    memset(&stats, 0xff, sizeof stats);
    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_trim(0, 0) >= 0);
    CHECK(punctual_stack_reserve(65536, 5) == 0);
    for (i = 0; i < 3; i++)
        CHECK((held[i] = punctual_stack_alloc(65536)) != NULL);
    CHECK(punctual_stack_stats(65536, &stats) == 0);
    CHECK(stats.struct_size == sizeof stats && stats.size == 65536);
    CHECK(stats.used == 3 && stats.live == 0 && stats.kept + stats.stored == 2);
    CHECK(stats.made - stats.unmapped == 5 && stats.reserved[6] == 0);
    for (i = 0; i < 3; i++)
        CHECK(punctual_stack_free(held[i], 65536) == 0);
    CHECK(punctual_stack_trim(65536, 1) == 4);
    CHECK(punctual_stack_stats(65536, &stats) == 0);
    CHECK(stats.used == 0 && stats.kept + stats.stored == 1);

    /* A newer caller: fields that the library doesn't know stay unchanged. */
    memset(&newer, 0x77, sizeof newer);
    newer.known.struct_size = sizeof newer;
    CHECK(punctual_stack_stats(65536, &newer.known) == 0);
    CHECK(newer.known.struct_size == sizeof stats && newer.beyond[0] == 0x77);

    FAILS(punctual_stack_stats(65536, NULL), EFAULT);
    FAILS(punctual_stack_stats(65537, &stats), EINVAL);
    stats.struct_size = 8;
    FAILS(punctual_stack_stats(65536, &stats), EINVAL);
}

static void inspection(void)
{
    struct punctual_stack_bounds bounds;
    struct punctual_stack_residency found;
    int here, sink = open("/dev/null", O_WRONLY);
    void *leaked;

    CHECK(punctual_stack_bounds(0, &bounds) == 0);
    CHECK((char *)bounds.low <= (char *)&here && (char *)&here < (char *)bounds.high);
    CHECK(punctual_stack_contains(&here) == 1 && punctual_stack_contains(&errno) == 0);
    CHECK(punctual_stack_contains(NULL) == 0);
    FAILS(punctual_stack_bounds(0, NULL), EFAULT);
    FAILS(punctual_stack_bounds(-1, &bounds), ESRCH);
    FAILS(punctual_stack_bounds(0x7ffffff0, &bounds), ESRCH);
    FAILS(punctual_stack_locate(&here, NULL), EFAULT);
    FAILS(punctual_stack_residency(bounds.high, 4096, NULL), EFAULT);
    FAILS(punctual_stack_residency((void *)1, 4096, &found), EINVAL);
    FAILS(punctual_stack_residency(NULL, 4096, &found), ENOMEM);

    leaked = punctual_stack_alloc(32768);
    CHECK(leaked != NULL && punctual_stack_debug_leaks(sink) == 1);
    CHECK(punctual_stack_free(leaked, 32768) == 0 && punctual_stack_debug_leaks(sink) == 0);
    CHECK(close(sink) == 0);
    FAILS(punctual_stack_debug_leaks(sink), EBADF);
}

static __attribute__((noinline)) long touch_down(size_t bytes)
{
    volatile char room[16384];
    long before = faults_now();

    room[0] = 1;
    room[sizeof room - 1] = 1;
    if (bytes > sizeof room)
        (void)touch_down(bytes - sizeof room);
    room[1] = 1;
    return faults_now() - before;
}

static void prefault(void)
{
    struct punctual_stack_bounds bounds;
    struct punctual_stack_residency found;
    ssize_t present = punctual_stack_prefault(3 << 20);

    CHECK(present >= 3 << 20);
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(touch_down(2 << 20) == 0);
#else
    (void)touch_down(2 << 20);
#endif
    CHECK(punctual_stack_bounds(0, &bounds) == 0);
    CHECK(punctual_stack_prefault(0) > 0);
    CHECK(punctual_stack_residency(bounds.low, (size_t)((char *)bounds.high - (char *)bounds.low),
                          &found) == 0);
    CHECK(found.resident == found.pages);
}

static void *prefault_default(void *argument)
{
    (void)argument;
    CHECK(punctual_stack_prefault(1 << 20) >= 1 << 20);
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(touch_down(900 * 1024) == 0);
#endif
    return NULL;
}

static void running_default_stack(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, prefault_default, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    sizes();
    wrong_sizes();
    frees();
    threads();
    counts();
    inspection();
    if (PREFAULT) {
        prefault();
        running_default_stack();
    }
    return 0;
}
