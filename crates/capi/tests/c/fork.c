/* After a fork the parent's stacks are unshared page by page: no thread takes a copy-on-write
 * fault at its next write. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { SIZE = 256 << 10, PAGE = 4096 };

static long faults(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt + usage.ru_majflt;
}

/* Where the C library keeps the area of restartable sequences (glibc 2.35), from the thread pointer. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));

/* The kernel writes into that area when it has moved the thread to another CPU: after a fork that is
 * a fault, whatever the thread does at that moment. So it is taken before faults are counted. */
static void own_thread_area(void)
{
#ifdef __x86_64__
    char *thread = (char *)pthread_self();
#else
    char *thread = (char *)__builtin_thread_pointer();
#endif
    volatile int nothing = 0;

    if (&__rseq_offset != NULL)
        __atomic_fetch_add((int *)(void *)(thread + __rseq_offset), nothing, __ATOMIC_RELAXED);
}

/* The page faults of one write to each page. */
static long faults_of(void *base, size_t size)
{
    volatile char *byte = (volatile char *)base;
    size_t offset;
    long before;

    own_thread_area();
    before = faults();
    for (offset = 0; offset < size; offset += PAGE)
        byte[offset] = (char)(byte[offset] + 1);
    return faults() - before;
}

/* Forks a child that lives until it is told to end; meanwhile pages are shared. */
static pid_t fork_one(int tell[2])
{
    char byte;
    pid_t child;

    CHECK(pipe(tell) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(tell[1]);
        _exit(read(tell[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(tell[0]);
    return child;
}

static void end(pid_t child, int tell[2])
{
    int status;

    close(tell[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static sem_t ready, go;

static void *on_its_stack(void *unused)
{
    struct punctual_stack_bounds mine;
    char here = 0;
    size_t below;
    long count;

    CHECK(punctual_stack_bounds(0, &mine) == 0);
    below = ((size_t)(&here - (char *)mine.low) - 16384) & ~(size_t)(PAGE - 1);
    CHECK(faults_of(mine.low, below) == 0);
    CHECK(sem_post(&ready) == 0);
    while (sem_wait(&go) != 0)
        ;
    count = faults_of(mine.low, below);
    if (count != 0)
        fprintf(stderr, "%ld faults on %zu pages\n", count, below / PAGE);
    CHECK(count == 0);
    return unused;
}

int main(void)
{
    struct punctual_thread *thread;
    void *used = punctual_stack_alloc(SIZE), *again;
    int tell[2];
    pid_t child;

    CHECK(used != NULL);
    CHECK(sem_init(&ready, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
    CHECK(punctual_stack_reserve(SIZE, 2) == 0);
    CHECK(punctual_thread_create(&thread, NULL, on_its_stack, NULL) == 0);
    while (sem_wait(&ready) != 0)
        ;
    CHECK(faults_of(used, SIZE) == 0);
    errno = 0;
    child = fork_one(tell);
    CHECK(errno == 0);
    /* A stack in use, one that a thread runs on, and a free one. */
    CHECK(faults_of(used, SIZE) == 0);
    CHECK(sem_post(&go) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    again = punctual_stack_alloc(SIZE);
    CHECK(again != NULL && faults_of(again, SIZE) == 0);
    end(child, tell);
    CHECK(punctual_stack_free(again, SIZE) == 0 && punctual_stack_free(used, SIZE) == 0);

    /* The child's stacks are unshared when they are allocated. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        again = punctual_stack_alloc(SIZE);
        CHECK(again != NULL && faults_of(again, SIZE) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, tell, 0) == child && WIFEXITED(tell[0]) && WEXITSTATUS(tell[0]) == 0);
    return 0;
}
