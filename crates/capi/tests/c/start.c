/* A thread starts with its own priority, whatever runs below it, and takes only signals that its
 * creator allows. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

/* C11's atomics differ from those of C++17. */
#define LOAD(variable) __atomic_load_n(&(variable), __ATOMIC_SEQ_CST)
#define STORE(variable, value) __atomic_store_n(&(variable), (value), __ATOMIC_SEQ_CST)
#define ADD_ONE(variable) __atomic_fetch_add(&(variable), 1, __ATOMIC_SEQ_CST)

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

static const uint64_t MS = 1000000;

static struct punctual_thread_attr placed(int policy, int priority, const char *cpus)
{
    struct punctual_thread_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.policy = policy;
    attr.priority = priority;
    attr.cpus = cpus;
    return attr;
}

static int over, spinning, spun;
/* Iterations of the spinning thread: whether it runs. */
static unsigned long long turns;

static void *spin(void *unused)
{
    uint64_t until = punctual_now_ns() + 700 * MS;

    STORE(spinning, 1);
    while (!LOAD(over) && punctual_now_ns() < until)
        ADD_ONE(turns);
    STORE(spun, !LOAD(over));
    return unused;
}

static void *started(void *seen)
{
    /* Started before the spinning thread ended: the order proves it. */
    *(int *)seen = !LOAD(over);
    STORE(over, 1);
    return NULL;
}

static struct punctual_thread *spinning_thread(const struct punctual_thread_attr *attr)
{
    struct punctual_thread *spinner;

    STORE(over, 0);
    STORE(spinning, 0);
    STORE(spun, 0);
    CHECK(punctual_thread_create(&spinner, attr, spin, NULL) == 0);
    while (!LOAD(spinning))
        sched_yield();
    return spinner;
}

/* FIFO 10 spins on a CPU, where FIFO 30 must start. If the spinner could delay it, it would start
 * only after the spinner's 700 ms, each time; a busy machine delays the creator by that, sometimes. */
static void no_inversion(void)
{
    struct punctual_thread_attr low = placed(PUNCTUAL_FIFO, 10, "1");
    struct punctual_thread_attr high = placed(PUNCTUAL_FIFO, 30, "1");
    struct punctual_thread *spinner, *thread;
    int first = 0, proved = 0, delayed = 0;

    while (proved < 3) {
        spinner = spinning_thread(&low);
        CHECK(punctual_thread_create(&thread, &high, started, &first) == 0);
        CHECK(punctual_thread_join(thread, NULL) == 0);
        CHECK(punctual_thread_join(spinner, NULL) == 0);
        if (LOAD(spun)) {
            CHECK(++delayed < 10);
            continue;
        }
        CHECK(first == 1);
        proved++;
    }
}

/* With sched_rt_runtime_us = -1 the kernel admits SCHED_DEADLINE on a part of the CPUs too
 * (dl_bandwidth_enabled() in kernel/sched/syscalls.c). */
static int deadline_is_refused_on_one_cpu(void)
{
    FILE *file = fopen("/proc/sys/kernel/sched_rt_runtime_us", "r");
    long runtime = -1;

    if (!file)
        return 0;
    if (fscanf(file, "%ld", &runtime) != 1)
        runtime = -1;
    fclose(file);
    return runtime >= 0;
}

/* A thread that is refused ends, even if a thread spins on its CPU. */
static void a_refusal_is_no_wait(void)
{
    struct punctual_thread_attr low = placed(PUNCTUAL_FIFO, 10, "1");
    struct punctual_thread_attr wrong = placed(PUNCTUAL_DEADLINE, 0, "1");
    struct punctual_thread *spinner, *thread;
    int turn, waited = 0;

    wrong.runtime_ns = MS;
    wrong.deadline_ns = 10 * MS;
    /* As above: a busy machine delays the creator, and not each time. */
    for (turn = 0; turn == 0 || waited; turn++) {
        CHECK(turn < 10);
        spinner = spinning_thread(&low);
        errno = 0;
        CHECK(punctual_thread_create(&thread, &wrong, started, NULL) == -1 && errno == EPERM);
        waited = LOAD(spun);
        STORE(over, 1);
        CHECK(punctual_thread_join(spinner, NULL) == 0);
    }
}

static pthread_t creator;
static int elsewhere, handled, storm_over;

static void on_signal(int number)
{
    (void)number;
    ADD_ONE(handled);
    if (!pthread_equal(pthread_self(), creator))
        ADD_ONE(elsewhere);
}

static void *storm(void *unused)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!LOAD(storm_over)) {
        kill(getpid(), SIGUSR1);
        /* Otherwise the creator would only run handlers. */
        usleep(50);
    }
    return unused;
}

static void *nothing(void *unused)
{
    return unused;
}

/* Handlers run only on the creator. */
static void signals_stay_with_the_creator(void)
{
    struct punctual_thread *thread;
    struct sigaction action;
    pthread_t sender;
    int turn;

    creator = pthread_self();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&sender, NULL, storm, NULL) == 0);
    for (turn = 0; turn < 2000 || LOAD(handled) < 200; turn++) {
        CHECK(punctual_thread_create(&thread, NULL, nothing, NULL) == 0);
        CHECK(punctual_thread_join(thread, NULL) == 0);
    }
    STORE(storm_over, 1);
    CHECK(pthread_join(sender, NULL) == 0);
    CHECK(LOAD(elsewhere) == 0);
    /* The creator's own mask is unchanged. */
    {
        sigset_t now;

        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
        CHECK(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGTERM));
    }
}

static void *blocked(void *set)
{
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, (sigset_t *)set) == 0);
    return NULL;
}

/* Signals caused by an instruction aren't blocked, because the kernel would kill the process. */
static void synchronous_signals_are_left(void)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    static const int others[] = {SIGUSR1, SIGTERM, SIGALRM, SIGPIPE, SIGINT, SIGCHLD, SIGPROF};
    struct punctual_thread *thread;
    sigset_t set;
    size_t i;

    CHECK(punctual_thread_create(&thread, NULL, blocked, &set) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    for (i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++)
        CHECK(!sigismember(&set, synchronous[i]));
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(sigismember(&set, others[i]));
}

static volatile int watched_word;

static void *write_nine_times(void *unused)
{
    int i;

    for (i = 0; i < 9; i++)
        watched_word = i;
    return unused;
}

static void a_watchpoint_sees_the_librarys_threads(void)
{
    struct punctual_watchpoint *watched =
        punctual_watchpoint_set((const void *)&watched_word, sizeof watched_word, 0);
    struct punctual_thread *thread;

    if (watched == NULL) {
        fprintf(stderr, "start.c: watchpoints not tried: errno %d\n", errno);
        return;
    }
    CHECK(punctual_thread_create(&thread, NULL, write_nine_times, NULL) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    CHECK(punctual_watchpoint_count(watched) == 9);
    punctual_watchpoint_clear(watched);
}

static void *guard_page;
static int faulted;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    STORE(faulted, info->si_addr == guard_page);
    mprotect(guard_page, 4096, PROT_READ | PROT_WRITE);
}

static void *touch_the_guard(void *page)
{
    *(volatile char *)page = 1;
    return NULL;
}

static void a_handler_of_faults_runs(void)
{
    struct punctual_thread *thread;
    struct sigaction action;

    guard_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guard_page != MAP_FAILED);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(punctual_thread_create(&thread, NULL, touch_the_guard, guard_page) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    CHECK(LOAD(faulted) == 1);
}

static void *its_faults(void *faults)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    *(long *)faults = usage.ru_minflt + usage.ru_majflt;
    return NULL;
}

/* The library frees nothing in the new thread: the first free() would create a malloc arena for
 * it, with four system calls and a page fault. */
static void the_first_thread_takes_no_fault(void)
{
    struct punctual_thread *thread;
    long faults = -1;
    /* Code that no thread has run yet isn't mapped, wherever the program was loaded. */
    int mapped = mlockall(MCL_CURRENT) == 0;

    CHECK(punctual_thread_create(&thread, NULL, its_faults, &faults) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    munlockall();
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(faults == 0 || !mapped);
#else
    (void)mapped;
#endif
}

int main(int count, char **arguments)
{
    const char *one = count > 1 ? arguments[1] : "";
    struct punctual_thread_attr fifo = placed(PUNCTUAL_FIFO, 10, "1");
    struct punctual_thread *thread;

    alarm(120);
    the_first_thread_takes_no_fault();
    if (punctual_thread_create(&thread, &fifo, nothing, NULL) == 0) {
        CHECK(punctual_thread_join(thread, NULL) == 0);
        if (!*one || strcmp(one, "inversion") == 0) {
            no_inversion();
            if (deadline_is_refused_on_one_cpu())
                a_refusal_is_no_wait();
            else
                fprintf(stderr, "start.c: refusal not tried: no limit of real-time threads\n");
        }
    } else {
        fprintf(stderr, "start.c: priorities not tried: %s\n", punctual_last_error());
    }
    /* ThreadSanitizer runs handlers while it holds its own locks, and deadlocks. */
    if ((!*one && !UNDER_TSAN) || strcmp(one, "signals") == 0)
        signals_stay_with_the_creator();
    if (!*one || strcmp(one, "synchronous") == 0)
        synchronous_signals_are_left();
    if (!*one || strcmp(one, "watch") == 0)
        a_watchpoint_sees_the_librarys_threads();
    if (!*one || strcmp(one, "fault") == 0)
        a_handler_of_faults_runs();
    return 0;
}
