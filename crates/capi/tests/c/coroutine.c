/* The stack pointer decides which stack the caller runs on: a coroutine's, not its thread's. And
 * a stack with guards of the program is prefaulted down to its guard. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const size_t SIZE = 65536;
static ucontext_t outside, inside;
static struct punctual_stack_bounds found;
static char *expected;
static int known;

static void body(void)
{
    char here = 0;

    CHECK(punctual_stack_bounds(0, &found) == 0);
    CHECK((char *)found.low <= &here && &here < (char *)found.high);
    CHECK(punctual_stack_contains(&here) == 1);
    CHECK(punctual_stack_contains(&outside) == 0);
    if (known) {
        CHECK(found.low == expected && (char *)found.high == expected + SIZE);
        CHECK(punctual_stack_contains(expected) == 1 && punctual_stack_contains(expected - 1) == 0);
    }
}

/* Runs body() on the given stack. */
static void on(void *stack, int is_told)
{
    struct punctual_stack_bounds given;
    char here = 0;

    expected = (char *)stack;
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = &outside;
    makecontext(&inside, body, 0);
    if (is_told) {
        given.low = stack;
        given.high = (char *)stack + SIZE;
        CHECK(punctual_stack_setbounds(&given) == 0);
    }
    CHECK(swapcontext(&outside, &inside) == 0);
    /* Back on the thread's own stack, whatever bounds were set for the other one. */
    CHECK(punctual_stack_bounds(0, &found) == 0);
    CHECK((char *)found.low <= &here && &here < (char *)found.high);
    CHECK(punctual_stack_contains(&here) == 1 && punctual_stack_contains(expected) == 0);
}

static void *coroutines(void *unused)
{
    void *ours = punctual_stack_alloc(SIZE), *mapped, *heap = malloc(SIZE);
    struct punctual_stack_bounds before, after;
    int turn;

    CHECK(ours != NULL && heap != NULL);
    CHECK(punctual_stack_bounds(0, &before) == 0);
    /* With guards, so that it is a separate mapping. */
    mapped = mmap(NULL, SIZE + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    mapped = (char *)mapped + 4096;
    CHECK(mprotect(mapped, SIZE, PROT_READ | PROT_WRITE) == 0);
    for (turn = 0; turn < 3; turn++) {
        known = 1;
        on(ours, 0);
        on(mapped, 0);
        on(ours, 1);
        on(mapped, 1);
        /* On the heap, only the code that switches knows the bounds. */
        on(heap, 1);
        known = 0;
        on(heap, 0);
    }
    CHECK(punctual_stack_bounds(0, &after) == 0);
    CHECK(before.low == after.low && before.high == after.high);
    CHECK(punctual_stack_free(ours, SIZE) == 0);
    CHECK(munmap((char *)mapped - 4096, SIZE + 8192) == 0);
    free(heap);
    return unused;
}

static void *guarded(void *unused)
{
    struct punctual_stack_residency seen;
    struct punctual_stack_bounds mine;
    char *guard;
    ssize_t got;

    CHECK(punctual_stack_bounds(0, &mine) == 0);
    guard = (char *)mine.low + 65536;
    CHECK(mprotect(guard, 4096, PROT_NONE) == 0);
    got = punctual_stack_prefault(0);
    CHECK(got > 65536 && got < (char *)mine.high - guard);
    CHECK(punctual_stack_residency(guard + 4096, (size_t)((char *)mine.high - guard - 4096), &seen) == 0);
    CHECK(seen.pages == seen.resident);
    got = punctual_stack_prefault(1 << 20);
    CHECK(got > 65536 && got < (char *)mine.high - guard);
    CHECK(punctual_stack_prefault(4096) >= 4096);
    return unused;
}

int main(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    coroutines(NULL);
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, 1 << 20) == 0);
    CHECK(pthread_create(&thread, &attr, coroutines, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
#ifndef CHECK_NO_PREFAULT
    CHECK(pthread_create(&thread, &attr, guarded, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
#endif
    CHECK(pthread_attr_destroy(&attr) == 0);
    return 0;
}
