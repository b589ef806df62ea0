/* Mutexes with priority inheritance: locked with a time limit, and left by a holder that ended.
 * */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const uint64_t S = 1000000000;
static pthread_mutex_t mutex;

static struct timespec in(uint64_t ns)
{
    return punctual_timespec(punctual_now_ns() + ns);
}

static void make(int (*fill)(pthread_mutexattr_t *))
{
    pthread_mutexattr_t attr;
    int protocol = -1;

    FAILS(fill(NULL), EFAULT);
    CHECK(fill(&attr) == 0);
    CHECK(pthread_mutexattr_getprotocol(&attr, &protocol) == 0);
    CHECK(protocol == PTHREAD_PRIO_INHERIT);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0 && pthread_mutexattr_destroy(&attr) == 0);
}

static void *runs_into_it(void *seen)
{
    struct timespec soon = in(2000000), past = {0, 1};

    FAILS(punctual_mutex_lock_until(&mutex, &soon), ETIMEDOUT);
    CHECK(punctual_now_ns() >= punctual_ns(&soon));
    CHECK(strstr(punctual_last_error(), "instant") != NULL);
    FAILS(punctual_mutex_lock_until(&mutex, &past), ETIMEDOUT);
    return seen;
}

static void *gets_it(void *waits)
{
    struct timespec far = in(20 * S);

    __atomic_store_n((int *)waits, 1, __ATOMIC_SEQ_CST);
    CHECK(punctual_mutex_lock_until(&mutex, &far) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return waits;
}

static void until(void)
{
    struct timespec far = in(20 * S), past = {0, 1}, wrong = {0, 1000000000};
    pthread_t thread;
    int waits = 0;

    FAILS(punctual_mutex_lock_until(NULL, &far), EFAULT);
    FAILS(punctual_mutex_lock_until(&mutex, NULL), EFAULT);
    FAILS(punctual_mutex_lock_until(&mutex, &wrong), EINVAL);
    /* A free mutex is locked even if the instant has passed. */
    CHECK(punctual_mutex_lock_until(&mutex, &past) == 0);
    FAILS(punctual_mutex_lock_until(&mutex, &far), EDEADLK);
    CHECK(pthread_create(&thread, NULL, runs_into_it, &waits) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, gets_it, &waits) == 0);
    while (__atomic_load_n(&waits, __ATOMIC_SEQ_CST) == 0)
        sched_yield();
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    /* Not robust, so make_consistent fails. */
    CHECK(pthread_mutex_lock(&mutex) == 0);
    FAILS(punctual_mutex_make_consistent(&mutex), EINVAL);
    FAILS(punctual_mutex_make_consistent(NULL), EFAULT);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void *ends_with_it(void *unused)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    return unused;
}

/* A thread that ends while it holds the mutex. */
static void leave(void)
{
    struct punctual_thread *thread;

    CHECK(punctual_thread_create(&thread, NULL, ends_with_it, NULL) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
}

static struct punctual_condvar condvar;
static int waiting;

static void *waits_and_is_told(void *answer)
{
    struct timespec far = in(20 * S);

    CHECK(pthread_mutex_lock(&mutex) == 0);
    waiting = 1;
    errno = 0;
    *(int *)answer = punctual_condvar_wait_until(&condvar, &mutex, &far) == 0 ? 0 : errno;
    if (*(int *)answer == EOWNERDEAD) {
        /* It is held in any case. */
        CHECK(punctual_mutex_make_consistent(&mutex) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

static void *notifies_and_ends(void *unused)
{
    for (;;) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        if (waiting)
            break;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        sched_yield();
    }
    CHECK(punctual_condvar_notify_one(&condvar) == 0);
    return unused;
}

static void robust(void)
{
    struct timespec far = in(20 * S);
    pthread_t waits, ends;
    int answer = -1;

    leave();
    CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    CHECK(punctual_mutex_make_consistent(&mutex) == 0);
    FAILS(punctual_mutex_make_consistent(&mutex), EINVAL);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);

    leave();
    FAILS(punctual_mutex_lock_until(&mutex, &far), EOWNERDEAD);
    CHECK(strstr(punctual_last_error(), "punctual_mutex_make_consistent") != NULL);
    CHECK(punctual_mutex_make_consistent(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);

    /* A thread that waits at a condition variable locks it again after its holder has ended. */
    CHECK(pthread_create(&waits, NULL, waits_and_is_told, &answer) == 0);
    CHECK(pthread_create(&ends, NULL, notifies_and_ends, NULL) == 0);
    CHECK(pthread_join(ends, NULL) == 0 && pthread_join(waits, NULL) == 0);
    CHECK(answer == EOWNERDEAD);

    /* Unlocked without make_consistent, it can't be locked any more. */
    leave();
    CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == ENOTRECOVERABLE);
    FAILS(punctual_mutex_lock_until(&mutex, &far), ENOTRECOVERABLE);
    CHECK(strstr(punctual_last_error(), "before it was made consistent") != NULL);
}

static pthread_mutex_t second;
static pthread_barrier_t both_held;

static void *locks_the_other_way(void *unused)
{
    struct timespec far = in(20 * S);

    CHECK(pthread_mutex_lock(&second) == 0);
    pthread_barrier_wait(&both_held);
    punctual_mutex_lock_until(&mutex, &far);
    return unused;
}

/* Two threads that each hold the mutex that the other waits for: the kernel detects the deadlock,
 * and glibc ends the program at once, although the wait has a time limit. */
static void cycle(void)
{
    struct timespec far = in(20 * S);
    pthread_mutexattr_t attr;
    pthread_t other;
    int status, said[2];
    char text[512];
    ssize_t length;
    pid_t child;

    fflush(NULL);
    CHECK(pipe(said) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(said[1], 2);
        make(punctual_mutexattr_init);
        CHECK(punctual_mutexattr_init(&attr) == 0 && pthread_mutex_init(&second, &attr) == 0);
        CHECK(pthread_barrier_init(&both_held, NULL, 2) == 0);
        CHECK(pthread_create(&other, NULL, locks_the_other_way, NULL) == 0);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        pthread_barrier_wait(&both_held);
        punctual_mutex_lock_until(&second, &far);
        _exit(1);
    }
    CHECK(close(said[1]) == 0);
    length = read(said[0], text, sizeof text - 1);
    CHECK(waitpid(child, &status, 0) == child && punctual_now_ns() < punctual_ns(&far));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && length > 0);
    text[length] = 0;
    CHECK(strstr(text, "e != EDEADLK") != NULL);
    CHECK(close(said[0]) == 0);
}

int main(void)
{
#ifndef CHECK_NO_THREADS_AFTER_FORK
    cycle();
#endif
    make(punctual_mutexattr_init);
    until();
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    make(punctual_mutexattr_init_robust);
    until();
    robust();
    CHECK(pthread_mutex_destroy(&mutex) == 0);
    return 0;
}
