/* Threads that are joined without waiting, with a time limit, or not at all. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { MANY = 200, S = 1000000000 };

static void *until_posted(void *semaphore)
{
    while (sem_wait((sem_t *)semaphore) != 0)
        ;
    return semaphore;
}

static struct timespec in(uint64_t ns)
{
    return punctual_timespec(punctual_now_ns() + ns);
}

static void joins(void)
{
    struct punctual_thread *thread;
    struct timespec soon, wrong = {0, S}, far = in(20ull * S);
    void *result = NULL;
    sem_t ends;

    CHECK(sem_init(&ends, 0, 0) == 0);
    FAILS(punctual_thread_tryjoin(NULL, &result), EFAULT);
    FAILS(punctual_thread_timedjoin(NULL, &result, &far), EFAULT);
    CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
    FAILS(punctual_thread_timedjoin(thread, &result, NULL), EFAULT);
    FAILS(punctual_thread_timedjoin(thread, &result, &wrong), EINVAL);
    FAILS(punctual_thread_tryjoin(thread, &result), EBUSY);
    CHECK(strstr(punctual_last_error(), "has not ended") != NULL);
    soon = in(2000000);
    FAILS(punctual_thread_timedjoin(thread, &result, &soon), ETIMEDOUT);
    CHECK(punctual_now_ns() >= punctual_ns(&soon));
    CHECK(strstr(punctual_last_error(), "has not ended") != NULL && result == NULL);
    CHECK(sem_post(&ends) == 0);
    CHECK(punctual_thread_timedjoin(thread, &result, &far) == 0 && result == &ends);

    CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
    CHECK(sem_post(&ends) == 0);
    while (punctual_thread_tryjoin(thread, NULL) != 0)
        CHECK(errno == EBUSY && punctual_now_ns() < punctual_ns(&far));
}

/* Of every size: a sanitizer's data on a stack makes the default one larger. */
static struct punctual_stack_stats stacks(void)
{
    struct punctual_stack_stats stats, all;
    size_t size;

    memset(&all, 0, sizeof all);
    for (size = 32768; size <= 2097152; size *= 2) {
        stats.struct_size = sizeof stats;
        CHECK(punctual_stack_stats(size, &stats) == 0);
        all.used += stats.used;
        all.live += stats.live;
        all.made += stats.made;
    }
    return all;
}

/* Starts and joins threads, each with its stack marked, until no detached one is left. */
static void reap(void)
{
    struct timespec limit = in(20ull * S);
    struct punctual_thread *thread;
    sem_t ends;

    do {
        CHECK(punctual_now_ns() < punctual_ns(&limit));
        CHECK(sem_init(&ends, 0, 1) == 0);
        CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
        CHECK(punctual_thread_join(thread, NULL) == 0);
    } while (stacks().live != 0);
    CHECK(stacks().used == 0);
}

/* Detaches itself once it has its handle: it may run before its creator has the pointer. */
struct itself {
    struct punctual_thread *thread;
    sem_t known;
};

static void *detaches_itself(void *itself)
{
    until_posted(&((struct itself *)itself)->known);
    CHECK(punctual_thread_detach(((struct itself *)itself)->thread) == 0);
    return NULL;
}

static void *detaches_many(void *ends)
{
    struct punctual_thread *thread;
    int i;

    for (i = 0; i < MANY; i++) {
        CHECK(punctual_thread_create(&thread, NULL, until_posted, ends) == 0);
        CHECK(punctual_thread_detach(thread) == 0);
        CHECK(sem_post((sem_t *)ends) == 0);
    }
    return NULL;
}

/* A detached thread keeps its stack while it runs; after its end the stack is freed. */
static void detached(void)
{
    static struct itself itself;
    struct punctual_thread *thread;
    struct timespec limit = in(20ull * S);
    uint64_t made;
    pthread_t others[3];
    sem_t ends;
    int i;

    FAILS(punctual_thread_detach(NULL), EFAULT);
    CHECK(sem_init(&ends, 0, 0) == 0);
    CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
    CHECK(punctual_thread_detach(thread) == 0);
    CHECK(sem_init(&itself.known, 0, 0) == 0);
    CHECK(punctual_thread_create(&itself.thread, NULL, detaches_itself, &itself) == 0);
    CHECK(sem_post(&itself.known) == 0);
    while (stacks().live != 1) {
        struct punctual_thread *other;
        sem_t at_once;

        CHECK(punctual_now_ns() < punctual_ns(&limit));
        CHECK(sem_init(&at_once, 0, 1) == 0);
        CHECK(punctual_thread_create(&other, NULL, until_posted, &at_once) == 0);
        CHECK(punctual_thread_join(other, NULL) == 0);
    }
    CHECK(stacks().used == 1);
    CHECK(sem_post(&ends) == 0);
    reap();

    /* One after the other: only the first needs a new stack. */
    made = stacks().made;
    for (i = 0; i < MANY; i++) {
        CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
        CHECK(punctual_thread_detach(thread) == 0);
        CHECK(sem_post(&ends) == 0);
        reap();
    }
    CHECK(stacks().made <= made + 2);

    /* Several threads create, detach and reap in parallel. */
    for (i = 0; i < 3; i++)
        CHECK(pthread_create(&others[i], NULL, detaches_many, &ends) == 0);
    for (i = 0; i < 3; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
    reap();
}

/* The parent's threads don't belong to the child. */
static void forked(void)
{
    struct punctual_thread *thread;
    sem_t ends;
    int status;
    pid_t child;

    CHECK(sem_init(&ends, 0, 0) == 0);
    CHECK(punctual_thread_create(&thread, NULL, until_posted, &ends) == 0);
    CHECK(punctual_thread_detach(thread) == 0);
    child = fork();
    if (child == 0) {
        sem_t at_once;

        CHECK(sem_init(&at_once, 0, 1) == 0);
        CHECK(punctual_thread_create(&thread, NULL, until_posted, &at_once) == 0);
        CHECK(punctual_thread_join(thread, NULL) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(sem_post(&ends) == 0);
    reap();
}

int main(void)
{
    joins();
    detached();
#ifndef CHECK_NO_THREADS_AFTER_FORK
    forked();
#endif
    return 0;
}
