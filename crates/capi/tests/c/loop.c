/* Memory, clocks, loops and the attributes of POSIX objects. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const uint64_t MS = 1000000;

static void clocks(void)
{
    struct timespec at = punctual_timespec(12345678901234567ull), now;
    uint64_t before;

    CHECK(at.tv_sec == 12345678 && at.tv_nsec == 901234567);
    CHECK(punctual_ns(&at) == 12345678901234567ull);
    errno = 0;
    CHECK(punctual_ns(NULL) == UINT64_MAX && errno == EFAULT);
    at.tv_nsec = 1000000000;
    errno = 0;
    CHECK(punctual_ns(&at) == UINT64_MAX && errno == EINVAL);
    FAILS(punctual_sleep_until(&at), EINVAL);
    at.tv_nsec = -1;
    FAILS(punctual_sleep_until(&at), EINVAL);
    FAILS(punctual_sleep_until(NULL), EFAULT);

    before = punctual_now_ns();
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    CHECK(before <= punctual_ns(&now) && punctual_ns(&now) <= punctual_now_ns());
    at = punctual_timespec(before + 2 * MS);
    CHECK(punctual_sleep_until(&at) == 0 && punctual_now_ns() >= before + 2 * MS);
    CHECK(punctual_sleep_until(&at) == 0);
}

static void handler(int number)
{
    (void)number;
}

static void loops(void)
{
    struct punctual_loop loop, never;
    struct punctual_cycle one, two;
    struct sigaction action;
    struct itimerval soon;
    struct timespec late;
    int i;

    memset(&never, 0, sizeof never);
    memset(&one, 0, sizeof one);
    FAILS(punctual_loop_init(NULL, MS, PUNCTUAL_SKIP), EFAULT);
    FAILS(punctual_loop_init(&loop, 0, PUNCTUAL_SKIP), EINVAL);
    FAILS(punctual_loop_init(&loop, UINT64_MAX, PUNCTUAL_SKIP), EINVAL);
    FAILS(punctual_loop_init(&loop, MS, 2), EINVAL);
    FAILS(punctual_loop_wait(NULL, NULL), EFAULT);
    FAILS(punctual_loop_wait(&never, NULL), EINVAL);
    errno = 0;
    CHECK(punctual_loop_missed(NULL) == UINT64_MAX && errno == EFAULT);
    CHECK(punctual_loop_cycles(&never) == UINT64_MAX && errno == EINVAL);

    CHECK(punctual_loop_init(&loop, 2 * MS, PUNCTUAL_SKIP) == 0);
    FAILS(punctual_loop_wait(&loop, &one), EINVAL);
    CHECK(punctual_loop_cycles(&loop) == 0);
    one.struct_size = two.struct_size = sizeof one;
    CHECK(punctual_loop_wait(&loop, &one) == 0);
    CHECK(one.woke_ns >= one.due_ns && one.latency_ns == one.woke_ns - one.due_ns);
    late = punctual_timespec(one.due_ns + 7 * MS);
    CHECK(punctual_sleep_until(&late) == 0);
    CHECK(punctual_loop_wait(&loop, &two) == 0);
    /* The phase is kept, and missed periods are counted. */
    CHECK(two.missed >= 3 && (two.due_ns - one.due_ns) % (2 * MS) == 0);
    CHECK((two.due_ns - one.due_ns) / (2 * MS) == two.missed + 1);
    CHECK(punctual_loop_missed(&loop) == one.missed + two.missed);
    CHECK(punctual_loop_cycles(&loop) == 2);

    CHECK(punctual_loop_init(&loop, MS, PUNCTUAL_CATCH_UP) == 0);
    CHECK(punctual_loop_wait(&loop, &one) == 0);
    late = punctual_timespec(one.due_ns + 5 * MS);
    CHECK(punctual_sleep_until(&late) == 0);
    for (i = 1; i <= 5; i++) {
        CHECK(punctual_loop_wait(&loop, &two) == 0);
        CHECK(two.due_ns == one.due_ns + (uint64_t)i * MS);
    }
    CHECK(punctual_loop_missed(&loop) == 0);

    /* A signal ends the wait; the period is still due. */
    memset(&action, 0, sizeof action);
    memset(&soon, 0, sizeof soon);
    action.sa_handler = handler;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(punctual_loop_init(&loop, 300 * MS, PUNCTUAL_SKIP) == 0);
    soon.it_value.tv_usec = 20000;
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    FAILS(punctual_loop_wait(&loop, &one), EINTR);
    CHECK(punctual_loop_cycles(&loop) == 0);
    CHECK(punctual_loop_wait(&loop, &one) == 0 && one.missed == 0);

    /* Periods missed before the interrupted wait belong to the next cycle. */
    do {
        CHECK(punctual_loop_init(&loop, 20 * MS, PUNCTUAL_SKIP) == 0);
        late = punctual_timespec(punctual_now_ns() + 50 * MS);
        /* The signal of the time before may come only now. */
        while (punctual_sleep_until(&late) != 0)
            CHECK(errno == EINTR);
        soon.it_value.tv_usec = 1000;
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        errno = 0;
    } while (punctual_loop_wait(&loop, &one) == 0);
    CHECK(errno == EINTR && punctual_loop_cycles(&loop) == 0);
    CHECK(punctual_loop_missed(&loop) >= 2);
    CHECK(punctual_loop_wait(&loop, &one) == 0 && one.missed == punctual_loop_missed(&loop));
}

static void posix(void)
{
    pthread_mutexattr_t mutex_attr;
    pthread_condattr_t cond_attr;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct timespec at;
    clockid_t clock;
    int protocol;

    FAILS(punctual_mutexattr_init(NULL), EFAULT);
    FAILS(punctual_condattr_init(NULL), EFAULT);
    CHECK(punctual_mutexattr_init(&mutex_attr) == 0);
    CHECK(pthread_mutexattr_getprotocol(&mutex_attr, &protocol) == 0);
    CHECK(protocol == PTHREAD_PRIO_INHERIT);
    CHECK(pthread_mutex_init(&mutex, &mutex_attr) == 0);
    CHECK(pthread_mutexattr_destroy(&mutex_attr) == 0);
    CHECK(punctual_condattr_init(&cond_attr) == 0);
    CHECK(pthread_condattr_getclock(&cond_attr, &clock) == 0 && clock == CLOCK_MONOTONIC);
    CHECK(pthread_cond_init(&cond, &cond_attr) == 0);
    CHECK(pthread_condattr_destroy(&cond_attr) == 0);

    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK);
    at = punctual_timespec(punctual_now_ns() + 3 * MS);
    while (pthread_cond_timedwait(&cond, &mutex, &at) != ETIMEDOUT)
        ;
    CHECK(punctual_now_ns() >= punctual_ns(&at));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_cond_destroy(&cond) == 0 && pthread_mutex_destroy(&mutex) == 0);
}

static void *faultless(void *argument)
{
    static struct punctual_faults none;
    struct punctual_faults mark;
    struct punctual_loop loop;
    struct punctual_cycle cycle;
    int i;

    mark.struct_size = 1;
    FAILS(punctual_faults_mark(&mark), EINVAL);
    FAILS(punctual_faults_mark(NULL), EFAULT);
    FAILS(punctual_late_faults(NULL), EFAULT);
    FAILS(punctual_late_faults(&none), EINVAL);
    mark.struct_size = sizeof mark;
    cycle.struct_size = sizeof cycle;
    CHECK(punctual_faults_mark(&mark) == 0);
    CHECK(punctual_loop_init(&loop, MS / 5, PUNCTUAL_SKIP) == 0);
    for (i = 0; i < 200; i++) {
        char room[64 << 10];

        CHECK(punctual_loop_wait(&loop, &cycle) == 0);
        memset(room, i, sizeof room);
        __asm__ volatile("" : : "r"(room) : "memory");
    }
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(punctual_late_faults(&mark) == 0);
    if (argument != NULL) {
        char *block = (char *)malloc(1 << 20);

        CHECK(block != NULL);
        memset(block, 1, 1 << 20);
        free(block);
        CHECK(punctual_late_faults(&mark) == 0);
    }
#else
    (void)argument;
#endif
    return NULL;
}

enum { FRESH = 64 };

/* The faults of each kind: the first access to a page is one minor fault. */
static void *faulting(void *unused)
{
    struct punctual_faults mark, since, small;
    long page = sysconf(_SC_PAGESIZE);
    int i;
    char *fresh = (char *)mmap(NULL, FRESH * (size_t)page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(fresh != MAP_FAILED);
    CHECK(madvise(fresh, FRESH * (size_t)page, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
    mark.struct_size = since.struct_size = sizeof mark;
    small.struct_size = 8;
    CHECK(punctual_faults_mark(&mark) == 0);
    FAILS(punctual_faults_since(NULL, &since), EFAULT);
    FAILS(punctual_faults_since(&mark, NULL), EFAULT);
    FAILS(punctual_faults_since(&small, &since), EINVAL);
    FAILS(punctual_faults_since(&mark, &small), EINVAL);
    CHECK(punctual_faults_mark(&mark) == 0 && punctual_faults_since(&mark, &since) == 0);
    CHECK(punctual_faults_mark(&mark) == 0);
    for (i = 0; i < FRESH; i++)
        ((volatile char *)fresh)[i * page] = 1;
    CHECK(punctual_faults_since(&mark, &since) == 0 && since.struct_size == sizeof since);
#ifndef CHECK_NO_FAULTS_COUNTED
    /* The code of the loop may be faulted in too, at the beginning of a page. */
    CHECK(since.minor >= FRESH && since.minor <= FRESH + 2 && since.major <= 2);
#endif
    CHECK(punctual_late_faults(&mark) >= (int64_t)(since.minor + since.major));
    CHECK(munmap(fresh, FRESH * (size_t)page) == 0);
    return unused;
}

static void on_a_thread(void *(*body)(void *), void *argument)
{
    struct punctual_thread *thread;

    CHECK(punctual_thread_create(&thread, NULL, body, argument) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
}

#ifndef CHECK_NO_FAULTS_COUNTED
static void memory_errors(void)
{
    static const struct rlimit little = {65536, 65536};
    int status;
    pid_t child = fork();

    if (child == 0) {
        CHECK(setrlimit(RLIMIT_MEMLOCK, &little) == 0);
        if (geteuid() == 0)
            CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        FAILS(punctual_memory_lock(0), ENOMEM);
        CHECK(strstr(punctual_last_error(), "RLIMIT_MEMLOCK") != NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    FAILS(punctual_memory_lock(2), EINVAL);
}
#endif

int main(void)
{
#ifndef CHECK_NO_FAULTS_COUNTED
    int prepared;

    memory_errors();
    prepared = punctual_memory_prepare(8 << 20, 256 << 10) == 0;
    if (!prepared) {
        CHECK(errno == EPERM || errno == ENOMEM || errno == EAGAIN);
        fprintf(stderr, "loop.c: memory not locked: %s\n", punctual_last_error());
        CHECK(punctual_heap_keep(8 << 20) == 0);
    }
    on_a_thread(faultless, &prepared);
    CHECK(punctual_memory_unlock() == 0);
    CHECK(punctual_memory_lock(1) == 0 || !prepared);
    CHECK(punctual_memory_unlock() == 0);
#else
    on_a_thread(faultless, NULL);
#endif
    on_a_thread(faulting, NULL);
    clocks();
    loops();
    posix();
    return 0;
}
