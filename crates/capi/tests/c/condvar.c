/* The condition variable with a mutex of punctual_mutexattr_init(). */
#define _GNU_SOURCE 1
#include <pthread.h>

#include "check.h"
#include "punctual.h"

enum { EACH = 5000, PAIRS = 3 };

static const uint64_t S = 1000000000;
static pthread_mutex_t mutex;
static struct punctual_condvar filled, emptied;
static unsigned place;
static uint64_t sum;

static struct timespec in(uint64_t ns)
{
    return punctual_timespec(punctual_now_ns() + ns);
}

/* A queue with one place: after a lost notification a thread waits for 20 s. */
static void *produce(void *unused)
{
    struct timespec limit = in(20 * S);
    unsigned number;

    for (number = 1; number <= EACH; number++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        while (place != 0)
            CHECK(punctual_condvar_wait_until(&emptied, &mutex, &limit) == 0);
        place = number;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        CHECK(punctual_condvar_notify_one(&filled) == 0);
    }
    return unused;
}

static void *consume(void *unused)
{
    int number;

    for (number = 0; number < EACH; number++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        while (place == 0)
            CHECK(punctual_condvar_wait(&filled, &mutex) == 0);
        sum += place;
        place = 0;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        CHECK(punctual_condvar_notify_one(&emptied) == 0);
    }
    return unused;
}

static void queue(void)
{
    pthread_t producers[PAIRS], consumers[PAIRS];
    int i;

    for (i = 0; i < PAIRS; i++) {
        CHECK(pthread_create(&producers[i], NULL, produce, NULL) == 0);
        CHECK(pthread_create(&consumers[i], NULL, consume, NULL) == 0);
    }
    for (i = 0; i < PAIRS; i++)
        CHECK(pthread_join(producers[i], NULL) == 0 && pthread_join(consumers[i], NULL) == 0);
    CHECK(sum == (uint64_t)PAIRS * EACH * (EACH + 1) / 2);
    /* No thread is counted as waiting any more, so a notification makes no system call. */
    CHECK(filled.waiting == 0 && emptied.waiting == 0);
}

static unsigned waiting, released;

static void *waits_for_all(void *all)
{
    struct punctual_condvar *condvar = (struct punctual_condvar *)all;

    CHECK(pthread_mutex_lock(&mutex) == 0);
    waiting++;
    while (released == 0)
        CHECK(punctual_condvar_wait(condvar, &mutex) == 0);
    released++;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

static void all_at_once(void)
{
    static struct punctual_condvar condvar;
    struct timespec limit = in(20 * S);
    pthread_t threads[4];
    unsigned ready = 0;
    int i;

    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, waits_for_all, &condvar) == 0);
    while (ready < 4) {
        CHECK(punctual_now_ns() < punctual_ns(&limit));
        CHECK(pthread_mutex_lock(&mutex) == 0);
        ready = waiting;
        if (ready == 4)
            released = 1;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    CHECK(punctual_condvar_notify_all(&condvar) == 0);
    for (i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(released == 5 && condvar.waiting == 0);
}

static void errors(void)
{
    struct timespec wrong = {-1, 0}, soon = in(2000000);
    struct punctual_condvar condvar = {0, 0};

    FAILS(punctual_condvar_wait(NULL, &mutex), EFAULT);
    FAILS(punctual_condvar_wait(&condvar, NULL), EFAULT);
    FAILS(punctual_condvar_wait_until(&condvar, &mutex, NULL), EFAULT);
    FAILS(punctual_condvar_wait_until(&condvar, &mutex, &wrong), EINVAL);
    FAILS(punctual_condvar_notify_one(NULL), EFAULT);
    FAILS(punctual_condvar_notify_all(NULL), EFAULT);
#ifndef CHECK_NO_WRONG_UNLOCK
    /* ThreadSanitizer reports this, correctly. */
    FAILS(punctual_condvar_wait(&condvar, &mutex), EPERM);
    CHECK(strstr(punctual_last_error(), "not held") != NULL && condvar.waiting == 0);
#endif
    CHECK(pthread_mutex_lock(&mutex) == 0);
    errno = 0;
    while (punctual_condvar_wait_until(&condvar, &mutex, &soon) == 0)
        ;
    CHECK(errno == ETIMEDOUT && punctual_now_ns() >= punctual_ns(&soon));
    /* The mutex is held after the wait. */
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_unlock(&mutex) == 0);
    CHECK(condvar.waiting == 0);
}

int main(void)
{
    pthread_mutexattr_t attr;

    CHECK(punctual_mutexattr_init(&attr) == 0);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0 && pthread_mutexattr_destroy(&attr) == 0);
    errors();
    queue();
    all_at_once();
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    return 0;
}
