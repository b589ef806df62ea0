/* Reports where something stands in their way, one part by name; run with PUNCTUAL_STACK_DEBUG. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

#define SIZE ((size_t)65536)
#define THREADS 8

static char *stack;
static char foreign[2 * SIZE] = {1};
static volatile int always = 1;

static __attribute__((noinline)) int overflows_here(int depth)
{
    volatile char room[4000];

    room[0] = room[sizeof room - 1] = (char)depth;
    return always ? overflows_here(depth + 1) + room[0] : 0;
}

/* Never asks the library for anything. */
static void *overflows(void *argument)
{
    always = overflows_here(0);
    return argument;
}

static void overflow(void)
{
    struct punctual_thread *thread;

    CHECK(punctual_thread_create(&thread, NULL, overflows, NULL) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
}

/* The frame pointer leads nowhere, and the unwinder follows it. */
static void touch_without_a_frame(void)
{
    CHECK(punctual_stack_free(stack, SIZE) == 0);
#if defined(__x86_64__)
    __asm__ volatile("mov $16, %%rbp\n\tmovb $1, (%0)" : : "r"(stack) : "memory");
#else
    *(volatile char *)stack = 1;
#endif
}

/* Nobody reads standard error any more. */
static void close_reader(void)
{
    int ends[2];

    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void report_to_nobody(void)
{
    sigset_t set;

    close_reader();
    FAILS(punctual_stack_free(foreign, SIZE), EINVAL);
    /* Neither blocked nor pending, and one that was sent before is still there. */
    if (pthread_sigmask(SIG_BLOCK, NULL, &set) != 0 || sigismember(&set, SIGPIPE))
        _exit(2);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 || raise(SIGPIPE) != 0)
        _exit(3);
    FAILS(punctual_stack_free(foreign, SIZE), EINVAL);
    if (sigpending(&set) != 0 || !sigismember(&set, SIGPIPE))
        _exit(4);
}

/* The pipe is full before the reader begins. */
static void report_without_waiting(void)
{
    int i, ends[2], end = dup(2);
    pid_t reader;

    CHECK(end >= 0 && pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 && dup2(ends[1], 2) == 2);
    CHECK((reader = fork()) >= 0);
    if (reader == 0) {
        char part[512];
        ssize_t got;

        close(2);
        close(ends[1]);
        while (fcntl(ends[0], F_GETFD) >= 0 && (got = read(ends[0], part, sizeof part)) > 0) {
            if (write(end, part, (size_t)got) != got)
                _exit(1);
            usleep(1000);
        }
        _exit(0);
    }
    close(ends[1]);
    for (i = 0; i < 40; i++)
        CHECK(punctual_stack_debug_report(stack, 2) == 1);
    CHECK(dup2(end, 2) == 2 && waitpid(reader, &i, 0) == reader && i == 0);
}

static void no_descriptor(void)
{
    struct rlimit limit = {3, 3};

    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    FAILS(punctual_stack_free(foreign, SIZE), EINVAL);
}

static void *frees_wrongly(void *barrier)
{
    int i;

    pthread_barrier_wait((pthread_barrier_t *)barrier);
    for (i = 0; i < 3; i++)
        CHECK(punctual_stack_free(stack + 4096, SIZE) == -1);
    return NULL;
}

static void report_at_once(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    int i;

    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, frees_wrongly, &barrier) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The child ends as a program does, and has a stack of its own in use if it leaks. */
static void ends_in_a_child(int leaks)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        CHECK(!leaks || punctual_stack_alloc(32768) != NULL);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **arguments)
{
    const char *part = count > 1 ? arguments[1] : "";

    stack = (char *)punctual_stack_alloc(SIZE);
    CHECK(stack != NULL);
    if (strcmp(part, "overflow") == 0) {
        overflow();
    } else if (strcmp(part, "frame") == 0) {
        touch_without_a_frame();
    } else if (strcmp(part, "nobody") == 0) {
        report_to_nobody();
        return 0;
    } else if (strcmp(part, "nobody-exit") == 0) {
        close_reader();
        return 0;
    } else if (strcmp(part, "nobody-touch") == 0) {
        CHECK(punctual_stack_free(stack, SIZE) == 0);
        close_reader();
        *(volatile char *)stack = 1;
    } else if (strcmp(part, "full") == 0) {
        report_without_waiting();
    } else if (strcmp(part, "descriptor") == 0) {
        no_descriptor();
    } else if (strcmp(part, "at-once") == 0) {
        report_at_once();
    } else if (strcmp(part, "child") == 0) {
        ends_in_a_child(0);
    } else {
        CHECK(strcmp(part, "child-leaks") == 0);
        ends_in_a_child(1);
    }
    CHECK(punctual_stack_free(stack, SIZE) == 0);
    return 0;
}
