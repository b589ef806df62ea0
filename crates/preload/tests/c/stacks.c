/* What a program does with the stacks of threads that have ended, one part by name. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static pthread_barrier_t barrier;

/* Returns what is gone when it has ended. */
static void *body(void *unused)
{
    volatile int local = 7;
    volatile int *volatile kept = &local;

    (void)unused;
    return (void *)kept;
}

static void *waits(void *unused)
{
    pthread_barrier_wait(&barrier);
    return unused;
}

static pthread_t start(void *(*what)(void *))
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, what, NULL) == 0);
    return thread;
}

static int *join(pthread_t thread)
{
    void *value;

    CHECK(pthread_join(thread, &value) == 0);
    return (int *)value;
}

static void write_late(volatile int *place)
{
    *place = 8;
    CHECK(*place == 8);
}

/* Until the kernel has no thread but this one. */
static void wait_for_the_others(void)
{
    int entries;

    do {
        DIR *threads = opendir("/proc/self/task");

        CHECK(threads != NULL);
        for (entries = 0; readdir(threads) != NULL; entries++)
            ;
        closedir(threads);
        usleep(1000);
    } while (entries != 3);
}

static volatile int always = 1;

static __attribute__((noinline)) int overflows_here(int depth)
{
    volatile char room[2000];

    room[0] = room[sizeof room - 1] = (char)depth;
    return always ? overflows_here(depth + 1) + room[0] : 0;
}

static void *overflows(void *unused)
{
    always = overflows_here(0);
    return unused;
}

int main(int count, char **arguments)
{
    const char *part = count > 1 ? arguments[1] : "";

    if (strcmp(part, "joined") == 0) {
        CHECK(join(start(body)) != NULL);
        CHECK(join(start(body)) != NULL);
    } else if (strcmp(part, "late") == 0) {
        write_late(join(start(body)));
    } else if (strcmp(part, "detached") == 0) {
        CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
        CHECK(pthread_detach(start(waits)) == 0);
        pthread_barrier_wait(&barrier);
        wait_for_the_others();
    } else if (strcmp(part, "overflow") == 0) {
        join(start(overflows));
    } else {
        CHECK(strcmp(part, "leak") == 0);
        start(body);
    }
    return 0;
}
