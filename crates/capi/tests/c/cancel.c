/* No function is a cancellation point: a thread that is cancelled inside one finishes it. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { SIZE = 65536, ROUNDS = 300 };

static int null;
static pthread_mutex_t mutex;

static struct timespec in(uint64_t ns)
{
    return punctual_timespec(punctual_now_ns() + ns);
}

static void *nothing(void *argument)
{
    return argument;
}

static size_t used(size_t size)
{
    struct punctual_stack_stats stats;

    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_stats(size, &stats) == 0);
    return stats.used;
}

/* Functions that wait, and that read, write, open and close files, once each. */
static const char *last;
static int done;
#define STEP(call)    \
    do {              \
        last = #call; \
        (void)(call); \
        done++;       \
    } while (0)

static void threads(void)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;
    struct timespec far = in(20000000000ull);

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.name = "cancelled";
    attr.cpus = "all";
    STEP(punctual_thread_create(&thread, &attr, nothing, NULL));
    STEP(punctual_thread_join(thread, NULL));
    STEP(punctual_thread_create(&thread, NULL, nothing, NULL));
    STEP(punctual_thread_timedjoin(thread, NULL, &far));
    STEP(punctual_thread_create(&thread, NULL, nothing, NULL));
    while (punctual_thread_tryjoin(thread, NULL) != 0)
        CHECK(errno == EBUSY && punctual_now_ns() < punctual_ns(&far));
    attr.name = NULL;
    STEP(punctual_thread_apply(&attr));
}

static void stacks(void)
{
    struct punctual_stack_bounds bounds;
    struct punctual_stack_residency residency;
    void *stack;

    STEP(punctual_stack_reserve(SIZE, 2));
    STEP(stack = punctual_stack_alloc(SIZE));
    STEP(punctual_stack_debug_leaks(null));
    STEP(punctual_stack_high_water(stack));
    STEP(punctual_stack_high_water_of_class(SIZE));
    STEP(punctual_stack_residency(stack, SIZE, &residency));
    STEP(punctual_stack_free(stack, SIZE));
    STEP(punctual_stack_trim(SIZE, 0));
    STEP(punctual_stack_bounds(0, &bounds));
    STEP(punctual_stack_bounds(getpid(), &bounds));
    STEP(punctual_stack_prefault(16384));
    STEP(punctual_heap_keep(65536));
    STEP(punctual_memory_unlock());
}

static void waits(void)
{
    struct punctual_condvar condvar = {0, 0};
    struct punctual_loop loop;
    struct timespec at = in(1000000);

    STEP(punctual_sleep_until(&at));
    CHECK(punctual_loop_init(&loop, 1000000, PUNCTUAL_SKIP) == 0);
    STEP(punctual_loop_wait(&loop, NULL));
    CHECK(pthread_mutex_lock(&mutex) == 0);
    at = in(1000000);
    STEP(punctual_condvar_wait_until(&condvar, &mutex, &at));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void files(void)
{
    static const char *const formats[] = {"%u"};
    static int word;
    struct punctual_watchpoint *watched;
    struct punctual_log *log;
    uint64_t number = 1;
    unsigned cpu = 0;
    char list[64], reason[64];

    STEP(log = punctual_log_open(null, formats, 1, 16));
    STEP(punctual_log_put(log, 0, 1, &number));
    STEP(punctual_log_close(log));
    STEP(punctual_affinity_set(0, "all"));
    STEP(punctual_affinity_get(0, list, sizeof list));
    STEP(watched = punctual_watchpoint_set(&word, sizeof word, 0));
    STEP(punctual_watchpoint_clear(watched));
    STEP(punctual_irq_steer(NULL, 0, &cpu, 1, "/no/such/journal", NULL, NULL));
    STEP(punctual_irq_restore("/no/such/journal", NULL, NULL));
    STEP(punctual_cpuset_create("no/such", &cpu, 1, reason, sizeof reason));
    STEP(punctual_cpuset_state("no-such-set", reason, sizeof reason));
    STEP(punctual_cpuset_cpus("no-such-set", list, sizeof list));
    STEP(punctual_cpuset_move_process("no-such-set", 0));
    STEP(punctual_cpuset_remove("no-such-set"));
}

static void *calls_each(void *finished)
{
    /* Pending from here on: the next cancellation point ends the thread. */
    CHECK(pthread_cancel(pthread_self()) == 0);
    threads();
    stacks();
    waits();
    files();
    *(int *)finished = 1;
    pthread_testcancel();
    CHECK(!"the thread was cancelled");
    return NULL;
}

static void each_once(void)
{
    struct punctual_thread *thread;
    void *result = NULL;
    int finished = 0;

    CHECK(punctual_thread_create(&thread, NULL, calls_each, &finished) == 0);
    CHECK(punctual_thread_join(thread, &result) == 0);
    if (!finished)
        fprintf(stderr, "cancelled in %s\n", last);
    CHECK(result == PTHREAD_CANCELED && finished && done > 30);
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    CHECK(closedir(folder) == 0);
    return count;
}

static void *calls_on_and_on(void *unused)
{
    (void)unused;
    for (;;) {
        threads();
        pthread_testcancel();
        stacks();
        pthread_testcancel();
        files();
        pthread_testcancel();
    }
    return NULL;
}

/* At any instant: nothing stays locked, open or allocated. */
static void at_random(void)
{
    struct punctual_thread *thread;
    struct timespec at;
    uint64_t random = 88172645463325252ull;
    void *result;
    int i, open = descriptors();

    for (i = 0; i < ROUNDS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        CHECK(punctual_thread_create(&thread, NULL, calls_on_and_on, NULL) == 0);
        at = in(random % 2000000);
        CHECK(punctual_sleep_until(&at) == 0);
        CHECK(pthread_cancel(punctual_thread_pthread(thread)) == 0);
        CHECK(punctual_thread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    CHECK(descriptors() == open);
    CHECK(used(SIZE) == 0 && used(262144) == 0);
}

int main(void)
{
    pthread_mutexattr_t attr;

    null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0);
    CHECK(punctual_mutexattr_init(&attr) == 0);
    CHECK(pthread_mutex_init(&mutex, &attr) == 0 && pthread_mutexattr_destroy(&attr) == 0);
    each_once();
    at_random();
    return 0;
}
