/* Accesses that ThreadSanitizer must see as ordered: data referenced by a record of a ring,
 * stacks that pass between threads, a thread's argument and result, a log. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { RECORDS = 20000, SIZE = 32768 };

struct message {
    int number;
    int *data;
};

static struct punctual_ring *ring;
static int data[RECORDS];

static void *produces(void *unused)
{
    struct message message;
    int i;

    for (i = 0; i < RECORDS; i++) {
        data[i] = i;
        message.number = i;
        message.data = &data[i];
        while (punctual_ring_push(ring, &message) != 0)
            sched_yield();
    }
    return unused;
}

/* The referenced data were written before the record was pushed. */
static void rings(void)
{
    struct punctual_thread *thread;
    struct message message;
    int i;

    ring = punctual_ring_create(sizeof message, 64);
    CHECK(ring != NULL);
    CHECK(punctual_thread_create(&thread, NULL, produces, NULL) == 0);
    for (i = 0; i < RECORDS; i++) {
        while (punctual_ring_pop(ring, &message) == 0)
            sched_yield();
        CHECK(message.number == i && *message.data == i);
        /* It belongs to the consumer from now on. */
        *message.data = -1;
    }
    CHECK(punctual_thread_join(thread, NULL) == 0);
    punctual_ring_destroy(ring);
}

/* Writes to stacks that other threads wrote to before. */
static void *recycles(void *unused)
{
    volatile char *stack;
    int i, offset;

    for (i = 0; i < 300; i++) {
        stack = (volatile char *)punctual_stack_alloc(SIZE);
        CHECK(stack != NULL);
        for (offset = 0; offset < SIZE; offset += 1024)
            stack[offset] = (char)i;
        CHECK(punctual_stack_free((void *)stack, SIZE) == 0);
        if (i % 16 == 0)
            sched_yield();
    }
    return unused;
}

static void recycled_stacks(void)
{
    pthread_t threads[4];
    int i;

    CHECK(punctual_stack_reserve(SIZE, 4) == 0);
    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, recycles, NULL) == 0);
    for (i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(punctual_stack_trim(SIZE, 0) > 0);
}

static int freed, over;

static void *frees_and_stays(void *unused)
{
    volatile char *stack = (volatile char *)punctual_stack_alloc(SIZE);

    stack[8] = 1;
    CHECK(punctual_stack_free((void *)stack, SIZE) == 0);
    __atomic_store_n(&freed, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        sched_yield();
    return unused;
}

/* From a thread that keeps its free stacks: only the library orders the two threads. */
static void a_stolen_stack(void)
{
    volatile char *stack;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, frees_and_stays, NULL) == 0);
    while (!__atomic_load_n(&freed, __ATOMIC_RELAXED))
        sched_yield();
    stack = (volatile char *)punctual_stack_alloc(SIZE);
    CHECK(stack != NULL && stack[8] == 1);
    stack[8] = 2;
    CHECK(punctual_stack_free((void *)stack, SIZE) == 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *adds_one(void *number)
{
    int local[256];
    int i;

    for (i = 0; i < 256; i++)
        local[i] = *(int *)number;
    *(int *)number = local[255] + 1;
    return number;
}

static int started, added;

/* After the other thread, as learned without synchronisation: if that thread has ended by then,
 * the sanitizer may know too little for a report. */
static void *adds_one_late(void *number)
{
    __atomic_store_n(&started, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&added, __ATOMIC_RELAXED))
        sched_yield();
    return adds_one(number);
}

static void *starts(void *unused)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;
    int i, number;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.name = "short";
    for (i = 0; i < 50; i++) {
        number = i;
        CHECK(punctual_thread_create(&thread, &attr, adds_one, &number) == 0);
        CHECK(punctual_thread_join(thread, NULL) == 0);
        CHECK(number == i + 1);
    }
    return unused;
}

/* Threads that start threads: they reuse each other's stacks. */
static void thread_starts(void)
{
    struct punctual_thread *threads[3];
    int i;

    for (i = 0; i < 3; i++)
        CHECK(punctual_thread_create(&threads[i], NULL, starts, NULL) == 0);
    for (i = 0; i < 3; i++)
        CHECK(punctual_thread_join(threads[i], NULL) == 0);
}

static void *logs(void *log)
{
    uint64_t numbers[2];
    int i;

    for (i = 0; i < 2000; i++) {
        numbers[0] = (uint64_t)i;
        numbers[1] = punctual_log_double(i / 2.0);
        while (punctual_log_put((struct punctual_log *)log, 0, 2, numbers) != 0)
            sched_yield();
    }
    return NULL;
}

static void one_log(void)
{
    static const char *const formats[] = {"cycle %u is %f"};
    struct punctual_thread *thread;
    struct punctual_log *log;
    int null = open("/dev/null", O_WRONLY);

    log = punctual_log_open(null, formats, 1, 128);
    CHECK(log != NULL);
    CHECK(punctual_thread_create(&thread, NULL, logs, log) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    CHECK(punctual_log_close(log) >= 0);
    CHECK(close(null) == 0);
}

int main(int count, char **arguments)
{
    /* A race of the program is found, so this check can fail. */
    if (count > 1 && strcmp(arguments[1], "race") == 0) {
        struct punctual_thread *thread;
        static int number;

        CHECK(punctual_thread_create(&thread, NULL, adds_one_late, &number) == 0);
        /* Before it began, the threads that start it may have ordered this. */
        while (!__atomic_load_n(&started, __ATOMIC_RELAXED))
            sched_yield();
        number++;
        __atomic_store_n(&added, 1, __ATOMIC_RELAXED);
        CHECK(punctual_thread_join(thread, NULL) == 0);
        return 0;
    }
    rings();
    a_stolen_stack();
    recycled_stacks();
    thread_starts();
    one_log();
    return 0;
}
