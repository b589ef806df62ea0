/* New threads that touch 200 KB of their stack, and nothing of punctual: the program that
 * `punctual run` is measured with. Prints medians: ns from pthread_create to the end of the
 * body, and page faults of the body. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { threads = 100, touched = 200 << 10 };

struct done {
    double at_ns;
    long faults;
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void touch(void)
{
    char room[touched];
    volatile char *place = room;
    for (int i = 0; i < touched; i += 4096)
        place[i] = 1;
}

static void *body(void *argument)
{
    struct done *done = argument;
    long before = faults();
    touch();
    done->faults = faults() - before;
    done->at_ns = now_ns();
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

int main(void)
{
    double times[threads], counts[threads];
    cpu_set_t one;
    /* What it takes to wake another CPU from its sleep is nobody's stack. */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        return 1;
    for (int i = 0; i < threads; ++i) {
        struct done done = {0, 0};
        pthread_t thread;
        double begun = now_ns();
        if (pthread_create(&thread, NULL, body, &done) != 0 || pthread_join(thread, NULL) != 0)
            return 1;
        times[i] = done.at_ns - begun;
        counts[i] = (double)done.faults;
    }
    qsort(times, threads, sizeof *times, ascending);
    qsort(counts, threads, sizeof *counts, ascending);
    printf("done\t1\t%f\nfaults\t1\t%f\n", times[threads / 2], counts[threads / 2]);
    return 0;
}
