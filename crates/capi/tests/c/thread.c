/* Threads, policies and CPUs: the requested settings are in force, or the call fails with a
 * reason. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const uint64_t MS = 1000000;

/* The last error contains these words. */
#define SAYS(words) CHECK(strstr(punctual_last_error(), words) != NULL)

static struct punctual_thread_attr nothing(void)
{
    struct punctual_thread_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    return attr;
}

static struct punctual_sched scheduled(int policy, int priority)
{
    struct punctual_sched sched;

    memset(&sched, 0, sizeof sched);
    sched.struct_size = sizeof sched;
    sched.policy = policy;
    sched.priority = priority;
    return sched;
}

struct seen {
    char name[16];
    char cpus[64];
    struct punctual_sched sched;
    struct punctual_stack_bounds stack;
    pid_t tid;
    int signals;
};

static void *look(void *argument)
{
    struct seen *seen = (struct seen *)argument;
    sigset_t blocked;

    CHECK(pthread_getname_np(pthread_self(), seen->name, sizeof seen->name) == 0);
    CHECK(punctual_affinity_get(0, seen->cpus, sizeof seen->cpus) > 0);
    seen->sched = scheduled(-1, -1);
    CHECK(punctual_sched_get(0, &seen->sched) == 0);
    CHECK(punctual_stack_bounds(0, &seen->stack) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    seen->signals = !sigismember(&blocked, SIGUSR1);
    seen->tid = (pid_t)gettid();
    return argument;
}

/* Runs look() with these attributes; returns the errno of the attempt. */
static int seen_by(const struct punctual_thread_attr *attr, struct seen *seen)
{
    struct punctual_thread *thread;
    void *result;

    errno = 0;
    if (punctual_thread_create(&thread, attr, look, seen) != 0)
        return errno;
    CHECK(punctual_thread_tid(thread) > 0);
    CHECK(punctual_thread_join(thread, &result) == 0);
    CHECK(result == seen);
    return 0;
}

static void defaults(void)
{
    struct punctual_thread_attr attr = nothing();
    struct seen seen;

    CHECK(seen_by(NULL, &seen) == 0);
    CHECK(seen.sched.policy == PUNCTUAL_OTHER && seen.signals == 0);
    CHECK((char *)seen.stack.high - (char *)seen.stack.low == 256 << 10);
    attr.flags = PUNCTUAL_THREAD_SIGNALS;
    attr.stack_size = 40000;
    attr.name = "a-name-too-long-for-it";
    CHECK(seen_by(&attr, &seen) == 0);
    CHECK(seen.signals == 1 && strcmp(seen.name, "a-name-too-long") == 0);
    CHECK((char *)seen.stack.high - (char *)seen.stack.low == 64 << 10);
}

static void wrong_attributes(void)
{
    struct punctual_thread_attr attr = nothing();
    struct punctual_thread *thread;
    struct seen seen;
    struct larger {
        struct punctual_thread_attr attr;
        uint64_t more;
    } larger;

    FAILS(punctual_thread_create(NULL, NULL, look, NULL), EFAULT);
    FAILS(punctual_thread_create(&thread, NULL, NULL, NULL), EFAULT);
    FAILS(punctual_thread_join(NULL, NULL), EFAULT);
    FAILS(punctual_thread_tid(NULL), EFAULT);
    attr.struct_size = 8;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("struct_size");
    attr.struct_size = (size_t)-1;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    attr = nothing();
    attr.reserved[7] = 1;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    attr = nothing();
    attr.flags = 2;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("unknown flag");
    attr = nothing();
    attr.stack_size = (2 << 20) + 1;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("2 MB");
    attr = nothing();
    attr.priority = 1;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    attr = nothing();
    attr.policy = PUNCTUAL_FIFO;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    attr.priority = 100;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("between 1 and 99");
    attr = nothing();
    attr.cpus = "0-";
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("CPU list");
    attr.cpus = "8191";
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("offline");

    /* A newer program's struct is accepted while its new fields are 0. */
    memset(&larger, 0, sizeof larger);
    larger.attr.struct_size = sizeof larger;
    CHECK(seen_by(&larger.attr, &seen) == 0);
    larger.more = 1;
    CHECK(seen_by(&larger.attr, &seen) == EINVAL);
    /* An older program's struct has fewer fields. */
    attr = nothing();
    attr.struct_size = offsetof(struct punctual_thread_attr, reserved);
    attr.reserved[0] = 1;
    CHECK(seen_by(&attr, &seen) == 0);
}

static void places(void)
{
    struct punctual_thread_attr attr = nothing();
    char before[256], now[256];
    struct seen seen;

    CHECK(punctual_affinity_get(0, before, sizeof before) == (ssize_t)strlen(before));
    FAILS(punctual_affinity_get(0, NULL, 9), EFAULT);
    FAILS(punctual_affinity_get(0, now, 1), ERANGE);
    FAILS(punctual_affinity_get(0, now, 0), ERANGE);
    FAILS(punctual_affinity_get(0x7fffffff, now, sizeof now), ESRCH);
    FAILS(punctual_affinity_set(0, NULL), EFAULT);
    FAILS(punctual_affinity_set(0, ""), EINVAL);
    FAILS(punctual_affinity_set(0, "3-1"), EINVAL);
    FAILS(punctual_affinity_set(0, "!0-8191"), EINVAL);
    FAILS(punctual_affinity_set(0, "99999"), EINVAL);
    FAILS(punctual_affinity_set(0x7fffffff, before), ESRCH);
    FAILS(punctual_affinity_set(0x7fffffff, "!1"), ESRCH);
    SAYS("no such thread");
    if (sched_getcpu() < 0 || strncmp(before, "0-1", 3) != 0) {
        fprintf(stderr, "thread.c: places not tried with CPUs %s\n", before);
        return;
    }
    attr.cpus = "0";
    CHECK(seen_by(&attr, &seen) == 0 && strcmp(seen.cpus, "0") == 0);
    CHECK(punctual_affinity_set(0, "1,1") == 0);
    CHECK(punctual_affinity_get(0, now, sizeof now) == 1 && strcmp(now, "1") == 0);
    /* "!" excludes from the CPUs that the thread may use now. */
    FAILS(punctual_affinity_set(0, "!1"), EINVAL);
    CHECK(punctual_affinity_set(0, before) == 0);
}

static void *set_itself(void *answer)
{
    struct punctual_sched sched = scheduled(PUNCTUAL_DEADLINE, 0);

    sched.runtime_ns = 1 * MS;
    sched.deadline_ns = 10 * MS;
    sched.period_ns = 10 * MS;
    *(int *)answer = punctual_sched_set(0, &sched) == 0 ? 0 : errno;
    return (void *)punctual_last_error();
}

static void sched_errors(void)
{
    struct punctual_sched sched = scheduled(PUNCTUAL_DEADLINE, 0);

    FAILS(punctual_sched_set(0, NULL), EFAULT);
    FAILS(punctual_sched_get(0, NULL), EFAULT);
    FAILS(punctual_sched_set(0x7fffffff, &sched), ESRCH);
    sched.runtime_ns = 10 * MS;
    sched.deadline_ns = 5 * MS;
    sched.period_ns = 20 * MS;
    FAILS(punctual_sched_set(0, &sched), EINVAL);
    SAYS("longer than the deadline");
    sched.runtime_ns = 1 * MS;
    sched.period_ns = 2 * MS;
    FAILS(punctual_sched_set(0, &sched), EINVAL);
    SAYS("longer than the period");
    sched.priority = 1;
    FAILS(punctual_sched_set(0, &sched), EINVAL);
    sched = scheduled(3, 0);
    FAILS(punctual_sched_set(0, &sched), EINVAL);
    SAYS("one of OTHER");
    sched = scheduled(PUNCTUAL_OTHER, 0);
    sched.runtime_ns = 1;
    FAILS(punctual_sched_set(0, &sched), EINVAL);
    sched = scheduled(PUNCTUAL_OTHER, 0);
    FAILS(punctual_sched_set(0x7fffffff, &sched), ESRCH);
    FAILS(punctual_sched_get(0x7fffffff, &sched), ESRCH);
    sched.struct_size = 3;
    FAILS(punctual_sched_get(0, &sched), EINVAL);
    sched = scheduled(PUNCTUAL_OTHER, 0);
    sched.reserved[3] = 1;
    FAILS(punctual_sched_set(0, &sched), EINVAL);
}

static void *wait_here(void *lock)
{
    pthread_mutex_lock((pthread_mutex_t *)lock);
    pthread_mutex_unlock((pthread_mutex_t *)lock);
    return NULL;
}

/* DEADLINE: admitted until the CPUs are full, and refused with only some of the CPUs. */
static void deadline(const char *cpus)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct punctual_thread_attr attr = nothing();
    struct punctual_thread *threads[512];
    struct seen seen;
    size_t count = 0, i;

    attr.policy = PUNCTUAL_DEADLINE;
    attr.runtime_ns = 2 * MS;
    attr.deadline_ns = 5 * MS;
    CHECK(seen_by(&attr, &seen) == 0);
    CHECK(seen.sched.policy == PUNCTUAL_DEADLINE && seen.sched.runtime_ns == 2 * MS);
    CHECK(seen.sched.deadline_ns == 5 * MS);

    attr.runtime_ns = 6 * MS;
    CHECK(seen_by(&attr, &seen) == EINVAL);
    SAYS("longer than the deadline");
    if (strcmp(cpus, "0") != 0) {
        attr.runtime_ns = 2 * MS;
        attr.cpus = "0";
        CHECK(seen_by(&attr, &seen) == EPERM);
        SAYS("all CPUs");
    }
    attr = nothing();
    attr.policy = PUNCTUAL_DEADLINE;
    attr.runtime_ns = 90 * MS;
    attr.deadline_ns = 100 * MS;
    pthread_mutex_lock(&lock);
    while (count < 512 && punctual_thread_create(&threads[count], &attr, wait_here, &lock) == 0)
        count++;
    if (count < 512) {
        CHECK(errno == EBUSY);
        SAYS("not admitted");
    }
    pthread_mutex_unlock(&lock);
    for (i = 0; i < count; i++)
        CHECK(punctual_thread_join(threads[i], NULL) == 0);
}

static void *create_another(void *seen)
{
    CHECK(seen_by(NULL, (struct seen *)seen) == 0);
    return NULL;
}

static void policies(void)
{
    struct punctual_thread_attr attr = nothing();
    struct punctual_thread *thread;
    struct punctual_sched sched = scheduled(PUNCTUAL_RR, 7);
    char cpus[256];
    pthread_attr_t posix;
    pthread_t plain;
    struct seen seen;
    int failed;

    CHECK(pthread_attr_init(&posix) == 0);
    FAILS(punctual_pthread_attr_sched(NULL, &sched), EFAULT);
    FAILS(punctual_pthread_attr_sched(&posix, NULL), EFAULT);
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = 3;
    failed = seen_by(&attr, &seen);
    if (failed == EPERM) {
        SAYS("RLIMIT_RTPRIO");
        fprintf(stderr, "thread.c: policies not tried: %s\n", punctual_last_error());
        return;
    }
    CHECK(failed == 0 && seen.sched.policy == PUNCTUAL_FIFO && seen.sched.priority == 3);
    attr.policy = PUNCTUAL_RR;
    CHECK(seen_by(&attr, &seen) == 0 && seen.sched.policy == PUNCTUAL_RR);

    /* Priority is not inherited. */
    CHECK(punctual_thread_create(&thread, &attr, create_another, &seen) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    CHECK(seen.sched.policy == PUNCTUAL_OTHER && seen.sched.priority == 0);

    /* With POSIX attributes. */
    CHECK(punctual_pthread_attr_sched(&posix, &sched) == 0);
    CHECK(pthread_create(&plain, &posix, look, &seen) == 0);
    CHECK(pthread_join(plain, NULL) == 0);
    CHECK(seen.sched.policy == PUNCTUAL_RR && seen.sched.priority == 7);
    sched = scheduled(PUNCTUAL_DEADLINE, 0);
    sched.runtime_ns = sched.deadline_ns = MS;
    FAILS(punctual_pthread_attr_sched(&posix, &sched), ENOTSUP);
    CHECK(pthread_attr_destroy(&posix) == 0);

    CHECK(punctual_affinity_get(0, cpus, sizeof cpus) > 0);
    deadline(cpus);
}

/* The requested settings are applied to a thread that the library didn't create. */
static void *applies(void *unused)
{
    struct punctual_thread_attr attr = nothing();
    struct seen seen;
    char before[64], first[16];

    CHECK(punctual_affinity_get(0, before, sizeof before) > 0);
    snprintf(first, sizeof first, "%u", (unsigned)strtoul(before, NULL, 10));
    attr.name = "applied";
    attr.cpus = first;
    attr.flags = PUNCTUAL_THREAD_SIGNALS;
    CHECK(punctual_thread_apply(&attr) == 0);
    look(&seen);
    CHECK(strcmp(seen.name, "applied") == 0 && strcmp(seen.cpus, first) == 0);
    CHECK(seen.signals == 1 && seen.sched.policy == PUNCTUAL_OTHER);
    CHECK(punctual_thread_apply(NULL) == 0);
    look(&seen);
    CHECK(strcmp(seen.name, "applied") == 0 && strcmp(seen.cpus, first) == 0);
    CHECK(seen.signals == 0);

    /* Invalid settings are refused before anything is done. */
    attr.name = "wrong";
    attr.flags = 8;
    FAILS(punctual_thread_apply(&attr), EINVAL);
    attr = nothing();
    attr.name = "wrong";
    attr.cpus = "900";
    FAILS(punctual_thread_apply(&attr), EINVAL);
    look(&seen);
    CHECK(strcmp(seen.name, "applied") == 0);

    attr = nothing();
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = 2;
    errno = 0;
    if (punctual_thread_apply(&attr) == 0) {
        look(&seen);
        CHECK(seen.sched.policy == PUNCTUAL_FIFO && seen.sched.priority == 2);
    } else {
        CHECK(errno == EPERM && strstr(punctual_last_error(), "RLIMIT_RTPRIO") != NULL);
    }
    return unused;
}

static void apply(void)
{
    pthread_t plain;

    CHECK(pthread_create(&plain, NULL, applies, NULL) == 0);
    CHECK(pthread_join(plain, NULL) == 0);
}

static void *exits(void *argument)
{
    pthread_exit(argument);
}

static void *waits(void *argument)
{
    (void)argument;
    for (;;)
        pause();
    return NULL;
}

/* pthread_exit() and pthread_cancel() end a thread of the library like any other. */
static void ends(void)
{
    struct punctual_thread *thread;
    struct punctual_stack_stats stats;
    void *result;
    int i;

    for (i = 0; i < 20; i++) {
        CHECK(punctual_thread_create(&thread, NULL, exits, &stats) == 0);
        CHECK(punctual_thread_join(thread, &result) == 0 && result == &stats);
        CHECK(punctual_thread_create(&thread, NULL, waits, NULL) == 0);
        CHECK(pthread_cancel(punctual_thread_pthread(thread)) == 0);
        CHECK(punctual_thread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_stats(256 << 10, &stats) == 0);
    CHECK(stats.used == 0 && stats.live == 0);
}

static void *to_free(void *argument)
{
    struct punctual_stack_bounds mine;

    CHECK(punctual_stack_bounds(0, &mine) == 0);
    FAILS(punctual_stack_free(mine.low, 256 << 10), EBUSY);
    return argument;
}

/* An ordinary user's request is refused with an explanation that helps. */
static void without_rights(void)
{
    static const struct rlimit none = {0, 0};
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct punctual_thread_attr attr = nothing();
        struct punctual_sched sched = scheduled(PUNCTUAL_FIFO, 5);
        struct seen seen;
        void *words;
        int answer;

        CHECK(setrlimit(RLIMIT_RTPRIO, &none) == 0);
        if (geteuid() == 0)
            CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        FAILS(punctual_sched_set(0, &sched), EPERM);
        SAYS("CAP_SYS_NICE");
        attr.policy = PUNCTUAL_FIFO;
        attr.priority = 5;
        CHECK(seen_by(&attr, &seen) == EPERM);
        SAYS("RLIMIT_RTPRIO");
        words = set_itself(&answer);
        CHECK(answer == EPERM && strstr((char *)words, "CAP_SYS_NICE") != NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

int main(void)
{
    struct punctual_thread *thread;

    CHECK(strcmp(punctual_last_error(), "") == 0);
#ifndef __SANITIZE_THREAD__
    without_rights();
#endif
    defaults();
    wrong_attributes();
    places();
    sched_errors();
    policies();
    apply();
    ends();
    CHECK(punctual_thread_create(&thread, NULL, to_free, NULL) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    return 0;
}
