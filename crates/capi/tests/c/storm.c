/* Threads that are cancelled, that exit and that fork, while others allocate and free. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { THREADS = 4, ROUNDS = 15, PAIRS = 50 };

static const size_t SIZE = 65536;
static int over, at_work;

static void pairs(int count)
{
    while (count-- > 0) {
        void *first = punctual_stack_alloc(SIZE);
        void *second = punctual_stack_alloc(SIZE);

        CHECK(first != NULL && second != NULL && first != second);
        *(volatile int *)first = count;
        *(volatile int *)second = count;
        CHECK(punctual_stack_free(first, SIZE) == 0);
        CHECK(punctual_stack_free(second, SIZE) == 0);
    }
}

static void give_back(void *stack)
{
    CHECK(punctual_stack_free(stack, SIZE) == 0);
}

static void *until_cancelled(void *argument)
{
    void *held = punctual_stack_alloc(SIZE);

    (void)argument;
    CHECK(held != NULL);
    pthread_cleanup_push(give_back, held);
    for (;;) {
        pairs(PAIRS);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void *until_exit(void *argument)
{
    pairs(PAIRS);
    pthread_exit(argument);
}

static void *until_over(void *argument)
{
    __atomic_add_fetch(&at_work, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pairs(PAIRS);
        CHECK(punctual_stack_trim(SIZE, 8) >= 0);
    }
    return argument;
}

static pthread_key_t late;

/* Runs after the library's own destructor of the thread, twice. */
static void use_late(void *value)
{
    long turn = (long)value;

    pairs(2);
    if (turn < 3)
        CHECK(pthread_setspecific(late, (void *)(turn + 1)) == 0);
}

static void *with_destructor(void *argument)
{
    CHECK(pthread_setspecific(late, (void *)1) == 0);
    pairs(2);
    return argument;
}

static void start(pthread_t *threads, void *(*body)(void *))
{
    int i;

    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
}

static void join(pthread_t *threads)
{
    int i;

    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void all_free(void)
{
    struct punctual_stack_stats stats;

    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_stats(SIZE, &stats) == 0);
    CHECK(stats.used == 0);
    CHECK(stats.made - stats.unmapped == stats.kept + stats.stored);
}

static void forked(void)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        pthread_t threads[THREADS];

        alarm(30);
        pairs(PAIRS);
        start(threads, until_exit);
        join(threads);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    pthread_t threads[THREADS], busy[THREADS];
    int round, i;

    CHECK(pthread_key_create(&late, use_late) == 0);
    for (round = 0; round < ROUNDS; round++) {
        start(threads, until_cancelled);
        for (i = 0; i < THREADS; i++)
            CHECK(pthread_cancel(threads[i]) == 0);
        join(threads);
        start(threads, until_exit);
        join(threads);
        start(threads, with_destructor);
        join(threads);
    }
    all_free();
    start(busy, until_over);
#ifdef __SANITIZE_ADDRESS__
    /* A fork doesn't wait for the locks of the sanitizer's allocator, which threads take as they
     * start: the child would wait for ever (fixed in LLVM 18, llvm-project's #75290). */
    while (__atomic_load_n(&at_work, __ATOMIC_RELAXED) < THREADS)
        sched_yield();
#endif
    for (round = 0; round < ROUNDS; round++)
        forked();
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    join(busy);
    all_free();
    return 0;
}
