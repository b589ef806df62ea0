/* Referenced stacks and lost stacks; ends at a breakpoint instruction. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

/* Referenced by its end, by its middle, and by a block of the heap. */
static char *volatile kept_end;
static char *volatile kept_middle;
static char **volatile kept_in_heap;
static pthread_barrier_t barrier;

static __attribute__((noinline)) char *keep(void)
{
    char *stack = (char *)punctual_stack_alloc(32768);

    CHECK(stack != NULL);
    memset(stack, 0, 32768);
    return stack;
}

static __attribute__((noinline)) void lose(void)
{
    char *stack = (char *)punctual_stack_alloc(131072);

    CHECK(stack != NULL);
    memset(stack, 0, 131072);
}

/* Two that point only to each other, and each to itself. */
static __attribute__((noinline)) void lose_two(void)
{
    char **one = (char **)punctual_stack_alloc(65536), **two = (char **)punctual_stack_alloc(65536);

    CHECK(one != NULL && two != NULL);
    one[5] = (char *)two;
    two[5] = (char *)one;
    one[6] = (char *)one;
}

/* A stack that is referenced by a referenced stack. */
static __attribute__((noinline)) void keep_inside(char *stack)
{
    ((char **)(void *)stack)[9] = keep() + 100;
}

static __attribute__((noinline)) void freed(void)
{
    char *stack = (char *)punctual_stack_alloc(65536);

    CHECK(punctual_stack_free(stack, 65536) == 0);
}

static void *waits(void *unused)
{
    pthread_barrier_wait(&barrier);
    for (;;)
        pause();
    return unused;
}

/* Overwrites what functions have left on the stack below. */
static __attribute__((noinline)) void forget(void)
{
    volatile char room[64 << 10];
    size_t i;

    for (i = 0; i < sizeof room; i++)
        room[i] = 0;
}

/* Referenced only from its own stack: the library's own thread. */
static void start(void)
{
    struct punctual_thread *thread;

    CHECK(punctual_thread_create(&thread, NULL, waits, NULL) == 0);
    CHECK(punctual_thread_detach(thread) == 0);
}

int main(void)
{
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    kept_end = keep() + 32768;
    kept_middle = keep() + 16384;
    kept_in_heap = (char **)malloc(64);
    CHECK(kept_in_heap != NULL);
    kept_in_heap[3] = keep();
    keep_inside(kept_middle - 16384);
    lose();
    lose_two();
    freed();
    start();
    pthread_barrier_wait(&barrier);
    forget();
    raise(SIGTRAP);
    return 0;
}
