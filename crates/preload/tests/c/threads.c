/* What a program does with threads, one part by name; the output tells what it saw. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static __attribute__((noinline)) int touch_200k(void)
{
    volatile char room[200 << 10];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 1;
    return room[0];
}

static void *count_faults(void *out)
{
    long before = faults();
    touch_200k();
    *(long *)out = faults() - before;
    return out;
}

static void one(const pthread_attr_t *attributes, long *found)
{
    pthread_t thread;
    void *value;
    CHECK(pthread_create(&thread, attributes, count_faults, found) == 0);
    CHECK(pthread_join(thread, &value) == 0);
    CHECK(value == found);
}

static void part_faults(void)
{
    long found[2] = {-1, -1};
    faults();
    one(NULL, &found[0]);
    one(NULL, &found[1]);
    printf("faults %ld %ld\n", found[0], found[1]);
}

static void *bounds(void *out)
{
    pthread_attr_t attributes;
    void *low;
    size_t size, guard;
    int state;
    char here;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &low, &size) == 0);
    CHECK(pthread_attr_getguardsize(&attributes, &guard) == 0);
    CHECK(pthread_attr_getdetachstate(&attributes, &state) == 0);
    pthread_attr_destroy(&attributes);
    CHECK(&here > (char *)low && &here < (char *)low + size);
    CHECK(guard > 0);
    *(size_t *)out = size;
    return (void *)(long)state;
}

static void part_sizes(void)
{
    static const size_t wishes[] = {16384, 40000, 262144, 2 << 20, 3 << 20, 8 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        size_t size = 0;
        long found;
        void *state;
        pthread_attr_init(&attributes);
        CHECK(pthread_attr_setstacksize(&attributes, wishes[i]) == 0);
        CHECK(pthread_create(&thread, &attributes, bounds, &size) == 0);
        CHECK(pthread_join(thread, &state) == 0);
        CHECK(state == (void *)PTHREAD_CREATE_JOINABLE);
        /* glibc takes the guard out of what was asked for. */
        CHECK(size >= wishes[i] - 65536 || size >= wishes[i]);
        if (wishes[i] > 300000) {
            one(&attributes, &found);
            printf("size %zu faults %ld\n", wishes[i], found);
        }
        pthread_attr_destroy(&attributes);
    }
    size_t size = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, bounds, &size) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("default size %zu\n", size);
}

static atomic_int ran;

static void *detached(void *unused)
{
    (void)unused;
    size_t size;
    CHECK(bounds(&size) == (void *)PTHREAD_CREATE_DETACHED);
    atomic_fetch_add(&ran, 1);
    return NULL;
}

static void *detaches_itself(void *unused)
{
    (void)unused;
    CHECK(pthread_detach(pthread_self()) == 0);
    CHECK(pthread_detach(pthread_self()) == EINVAL);
    atomic_fetch_add(&ran, 1);
    return NULL;
}

static void wait_for(int count)
{
    while (atomic_load(&ran) < count)
        usleep(200);
}

static void *pause_a_while(void *unused)
{
    usleep(20000);
    return unused;
}

static void part_detach(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 300; i++) {
        CHECK(pthread_create(&thread, &attributes, detached, NULL) == 0);
        if (i % 10 == 9)
            wait_for(i + 1);
    }
    wait_for(300);
    for (int i = 0; i < 300; i++) {
        CHECK(pthread_create(&thread, NULL, detaches_itself, NULL) == 0);
        if (i % 10 == 9)
            wait_for(300 + i + 1);
    }
    wait_for(600);
    /* By another thread, while it runs and after its end. */
    CHECK(pthread_create(&thread, NULL, pause_a_while, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
    CHECK(pthread_join(thread, NULL) == EINVAL);
    CHECK(pthread_create(&thread, NULL, pause_a_while, NULL) == 0);
    usleep(60000);
    CHECK(pthread_detach(thread) == 0);
    /* The caller's attributes are as they were. */
    int state;
    CHECK(pthread_attr_getdetachstate(&attributes, &state) == 0);
    CHECK(state == PTHREAD_CREATE_DETACHED);
    pthread_attr_destroy(&attributes);
}

static atomic_int cleaned;

static void clean(void *unused)
{
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static void *sleeps(void *unused)
{
    pthread_cleanup_push(clean, NULL);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void *exits(void *value)
{
    pthread_cleanup_push(clean, NULL);
    touch_200k();
    pthread_exit(value);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *joins(void *thread)
{
    pthread_cleanup_push(clean, NULL);
    pthread_join(*(pthread_t *)thread, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static void part_cancel(void)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        void *value;
        CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
        if (i % 2)
            usleep(500);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &value) == 0);
        CHECK(value == PTHREAD_CANCELED);
        CHECK(pthread_create(&thread, NULL, exits, &ran) == 0);
        CHECK(pthread_join(thread, &value) == 0);
        CHECK(value == &ran);
    }
    CHECK(cleaned >= 300);
    /* Cancelled while it joins: the other can be joined still. */
    pthread_t sleeper, joiner;
    void *value;
    CHECK(pthread_create(&sleeper, NULL, sleeps, NULL) == 0);
    CHECK(pthread_create(&joiner, NULL, joins, &sleeper) == 0);
    usleep(20000);
    CHECK(pthread_cancel(joiner) == 0);
    CHECK(pthread_join(joiner, &value) == 0 && value == PTHREAD_CANCELED);
    CHECK(pthread_tryjoin_np(sleeper, NULL) == EBUSY);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    CHECK(pthread_timedjoin_np(sleeper, NULL, &until) == ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &until);
    CHECK(pthread_clockjoin_np(sleeper, NULL, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
    CHECK(pthread_cancel(sleeper) == 0);
    CHECK(pthread_join(sleeper, NULL) == 0);
}

static void *storm(void *unused)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread[4];
        for (int j = 0; j < 4; j++)
            CHECK(pthread_create(&thread[j], NULL, j == 3 ? detaches_itself : exits, NULL) == 0);
        for (int j = 0; j < 3; j++)
            CHECK(pthread_join(thread[j], NULL) == 0);
    }
    return unused;
}

static void part_storm(void)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, storm, NULL) == 0);
    /* Forks meanwhile: the child starts threads of its own. */
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            pthread_t mine;
            CHECK(pthread_create(&mine, NULL, exits, NULL) == 0);
            CHECK(pthread_join(mine, NULL) == 0);
            _exit(7);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    wait_for(800);
}

static int c11(void *value)
{
    touch_200k();
    return *(int *)value;
}

static void part_c11(void)
{
    thrd_t thread;
    int value = -5, result = 0;
    CHECK(thrd_create(&thread, c11, &value) == thrd_success);
    CHECK(thrd_join(thread, &result) == thrd_success);
    CHECK(result == -5);
    CHECK(thrd_create(&thread, c11, &value) == thrd_success);
    CHECK(thrd_detach(thread) == thrd_success);
    usleep(20000);
}

static volatile int deeper = 1;

static void *overflow(void *unused)
{
    volatile char room[4096];
    room[0] = 1;
    if (deeper)
        overflow(unused);
    return (void *)(long)room[0];
}

static void part_overflow(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, overflow, NULL) == 0);
    pthread_join(thread, NULL);
}

static void *affine(void *out)
{
    pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), out);
    return NULL;
}

/* Attributes with an extension, a stack of the program's own, and the attributes left as
 * they were. */
static void part_attributes(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t cpus, found;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&thread, &attributes, affine, &found) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(CPU_EQUAL(&cpus, &found));
    }
    pthread_attr_destroy(&attributes);
    static char own[1 << 20] __attribute__((aligned(4096)));
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, own, sizeof own) == 0);
    CHECK(pthread_create(&thread, &attributes, pause_a_while, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
}

static void part_locked(void)
{
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "VmLck:", 6))
            printf("%s", line);
    if (file)
        fclose(file);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"faults", part_faults},   {"sizes", part_sizes}, {"detach", part_detach},
        {"cancel", part_cancel},   {"storm", part_storm}, {"c11", part_c11},
        {"overflow", part_overflow}, {"attributes", part_attributes}, {"locked", part_locked},
    };
    for (size_t i = 0; count > 1 && i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, arguments[1])) {
            parts[i].run();
            return 0;
        }
    fprintf(stderr, "which part?\n");
    return 64;
}
