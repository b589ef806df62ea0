/* Each guard of each size: SIGSEGV at that page, and punctual_stack_locate() says which it is. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static char *expected_low;
static char *expected_high;
static int expected_part;

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct punctual_stack_place place;
    char *at = (char *)info->si_addr;

    (void)number;
    (void)context;
    if (at < expected_low || at >= expected_high)
        _exit(2);
    if (punctual_stack_locate(at, &place) != 1 || place.part != expected_part || place.in_use != 1)
        _exit(3);
    _exit(42);
}

static void watch(char *low, int part)
{
    static char room[65536];
    struct sigaction action;
    stack_t other;

    memset(&other, 0, sizeof other);
    other.ss_sp = room;
    other.ss_size = sizeof room;
    CHECK(sigaltstack(&other, NULL) == 0);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    expected_low = low;
    expected_high = low + sysconf(_SC_PAGESIZE);
    expected_part = part;
}

static int ended(pid_t child)
{
    int status = 0;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void touch(char *stack, size_t size, long offset, int part)
{
    long page = sysconf(_SC_PAGESIZE);
    pid_t child = fork();

    if (child == 0) {
        watch(part < 0 ? stack - page : stack + size, part);
        ((volatile char *)stack)[offset] = 1;
        _exit(0);
    }
    CHECK(ended(child) == (part == 0 ? 0 : 42));
}

static __attribute__((noinline)) int overflow(int depth)
{
    volatile char room[512];

    room[0] = (char)depth;
    if (depth < 1 << 30)
        return overflow(depth + 1) + room[0];
    return 0;
}

static void *overflowing(void *stack)
{
    watch((char *)stack - sysconf(_SC_PAGESIZE), -1);
    return overflow(0) ? stack : NULL;
}

/* A thread with infinite recursion stops at its own guard. */
static void run_over(size_t size)
{
    pid_t child = fork();

    if (child == 0) {
        void *stack = punctual_stack_alloc(size);
        pthread_attr_t attr;
        pthread_t thread;

        CHECK(stack != NULL);
        CHECK(pthread_attr_init(&attr) == 0);
        CHECK(pthread_attr_setstack(&attr, stack, size) == 0);
        CHECK(pthread_create(&thread, &attr, overflowing, stack) == 0);
        (void)pthread_join(thread, NULL);
        _exit(0);
    }
    CHECK(ended(child) == 42);
}

int main(void)
{
    unsigned int *all = punctual_stack_sizes();
    long page = sysconf(_SC_PAGESIZE);
    size_t i;

    CHECK(all != NULL);
    for (i = 0; all[i] != 0; i++) {
        char *stack = (char *)punctual_stack_alloc(all[i]);
        long end = (long)all[i];

        CHECK(stack != NULL);
        touch(stack, all[i], 0, 0);
        touch(stack, all[i], end - 1, 0);
        touch(stack, all[i], -1, -1);
        touch(stack, all[i], -page, -1);
        touch(stack, all[i], end, 1);
        touch(stack, all[i], end + page - 1, 1);
        CHECK(punctual_stack_free(stack, all[i]) == 0);
        run_over(all[i]);
    }
    free(all);
    return 0;
}
