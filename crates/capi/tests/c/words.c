/* Every function that fails sets errno as documented, and a text of its own. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const char *const SENTINEL = "present_only: expected 0 or 1";
static int calls;

/* The text of another failure, which the next one must replace. */
static void forget(void)
{
    CHECK(punctual_memory_lock(7) == -1);
    CHECK(strcmp(punctual_last_error(), SENTINEL) == 0);
    errno = 0;
}

/* The call fails as `failed` says, with this errno and this text. */
#define REFUSED(failed, number, words)                                                       \
    do {                                                                                     \
        forget();                                                                            \
        CHECK(failed);                                                                       \
        if (errno != (number) || strstr(punctual_last_error(), words) == NULL) {             \
            fprintf(stderr, "%s:%d: %s: errno %d (%s), \"%s\"\n", __FILE__, __LINE__,        \
                    #failed, errno, strerror(errno), punctual_last_error());                 \
            wrong++;                                                                         \
        }                                                                                    \
        calls++;                                                                             \
    } while (0)

static int wrong;
static const uint64_t NEVER = UINT64_MAX;

static void *nothing(void *unused)
{
    return unused;
}

static void stacks(void)
{
    struct punctual_stack_stats stats;
    struct punctual_stack_bounds bounds;
    struct punctual_stack_residency residency;
    char word = 0;
    void *stack = punctual_stack_alloc(32768);

    CHECK(stack != NULL);
    stats.struct_size = sizeof stats;
    REFUSED(punctual_stack_alloc(5) == NULL, EINVAL, "32 KB to 2 MB");
    REFUSED(punctual_stack_class((2 << 20) + 1) == 0, EINVAL, "32 KB to 2 MB");
    REFUSED(punctual_stack_guard_size(7) == 0, EINVAL, "32 KB to 2 MB");
    REFUSED(punctual_stack_free(stack, 65536) == -1, EINVAL, "different size");
    REFUSED(punctual_stack_free(NULL, 65536) == -1, EINVAL, "not a stack");
    REFUSED(punctual_stack_free(&word, 32768) == -1, EINVAL, "not a stack");
    REFUSED(punctual_stack_reserve(7, 1) == -1, EINVAL, "32 KB to 2 MB");
    REFUSED(punctual_stack_trim(7, 1) == -1, EINVAL, "32 KB to 2 MB");
    REFUSED(punctual_stack_set_live(stack, 2) == -1, EINVAL, "expected 0 or 1");
    REFUSED(punctual_stack_set_live(&word, 1) == -1, EINVAL, "in use");
    CHECK(punctual_stack_set_live(stack, 1) == 0);
    REFUSED(punctual_stack_free(stack, 32768) == -1, EBUSY, "running thread");
    CHECK(punctual_stack_set_live(stack, 0) == 0);
    REFUSED(punctual_stack_stats(32768, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_stack_stats(7, &stats) == -1, EINVAL, "32 KB to 2 MB");
    /* A struct_size as in uninitialised memory. */
    stats.struct_size = (size_t)1 << 40;
    REFUSED(punctual_stack_stats(32768, &stats) == -1, EINVAL, "struct_size");
    stats.struct_size = 3;
    REFUSED(punctual_stack_stats(32768, &stats) == -1, EINVAL, "struct_size");
    REFUSED(punctual_stack_debug_leaks(-1) == -1, EBADF, "descriptor");
    REFUSED(punctual_stack_debug_check(-1) == -1, EBADF, "descriptor");
    REFUSED(punctual_stack_debug_check(2) == -1, ENOTSUP, "PUNCTUAL_STACK_DEBUG=guards");
    REFUSED(punctual_stack_debug_report(stack, -1) == -1, EBADF, "descriptor");
    REFUSED(punctual_stack_bounds(0, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_stack_bounds(0x7fffffff, &bounds) == -1, ESRCH, "no such thread");
    REFUSED(punctual_stack_bounds(-1, &bounds) == -1, ESRCH, "no such thread");
    REFUSED(punctual_stack_setbounds(NULL) == -1, EFAULT, "NULL");
    bounds.low = bounds.high = stack;
    REFUSED(punctual_stack_setbounds(&bounds) == -1, EINVAL, "a page apart");
    bounds.low = (char *)stack + 1;
    bounds.high = (char *)stack + 8193;
    REFUSED(punctual_stack_setbounds(&bounds) == -1, EINVAL, "aligned to words");
    REFUSED(punctual_stack_locate(stack, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_stack_residency(stack, 4096, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_stack_residency((char *)stack + 8, 4096, &residency) == -1, EINVAL, "page");
    REFUSED(punctual_stack_residency((void *)4096, 4096, &residency) == -1, ENOMEM, "mapped");
    CHECK(punctual_stack_free(stack, 32768) == 0);
    REFUSED(punctual_stack_free(stack, 32768) == -1, EINVAL, "already free");
    REFUSED(punctual_stack_high_water(stack) == -1, EINVAL, "already free");
    REFUSED(punctual_stack_high_water(&word) == -1, EINVAL, "not a stack");
    REFUSED(punctual_stack_high_water_of_class(7) == -1, EINVAL, "32 KB to 2 MB");
}

static void threads(void)
{
    struct punctual_thread_attr attr;
    struct punctual_sched sched;
    struct punctual_thread *thread;
    pthread_attr_t posix;
    char list[64];

    memset(&attr, 0, sizeof attr);
    memset(&sched, 0, sizeof sched);
    CHECK(pthread_attr_init(&posix) == 0);
    REFUSED(punctual_sched_set(0, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_sched_set(0, &sched) == -1, EINVAL, "struct_size");
    sched.struct_size = sizeof sched;
    REFUSED(punctual_sched_set(0x7fffffff, &sched) == -1, ESRCH, "no such thread");
    REFUSED(punctual_sched_set(-1, &sched) == -1, ESRCH, "no such thread");
    REFUSED(punctual_sched_get(-1, &sched) == -1, ESRCH, "no such thread");
    sched.policy = PUNCTUAL_FIFO;
    sched.priority = -5;
    REFUSED(punctual_sched_set(0, &sched) == -1, EINVAL, "between 1 and 99");
    sched.policy = PUNCTUAL_OTHER;
    REFUSED(punctual_sched_set(0, &sched) == -1, EINVAL, "no priority");
    sched.priority = 0;
    REFUSED(punctual_thread_pthread(NULL) == 0, EFAULT, "NULL");
    REFUSED(punctual_sched_get(0, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_sched_get(0x7fffffff, &sched) == -1, ESRCH, "no such thread");
    sched.struct_size = 1;
    REFUSED(punctual_sched_get(0, &sched) == -1, EINVAL, "struct_size");
    sched.struct_size = sizeof sched;
    sched.policy = 77;
    REFUSED(punctual_pthread_attr_sched(&posix, &sched) == -1, EINVAL, "one of OTHER");
    sched.policy = PUNCTUAL_DEADLINE;
    sched.runtime_ns = sched.deadline_ns = 1000000;
    REFUSED(punctual_pthread_attr_sched(&posix, &sched) == -1, ENOTSUP, "DEADLINE");
    REFUSED(punctual_affinity_set(0, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_affinity_set(0, "900") == -1, EINVAL, "offline");
    REFUSED(punctual_affinity_set(0x7fffffff, "0") == -1, ESRCH, "no such thread");
    REFUSED(punctual_affinity_get(0, NULL, 1) == -1, EFAULT, "NULL");
    REFUSED(punctual_affinity_get(0, list, 1) == -1, ERANGE, "room");
    REFUSED(punctual_affinity_get(0x7fffffff, list, sizeof list) == -1, ESRCH, "no such thread");

    REFUSED(punctual_thread_create(NULL, NULL, nothing, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_thread_create(&thread, &attr, nothing, NULL) == -1, EINVAL, "struct_size");
    attr.struct_size = sizeof attr;
    attr.flags = 8;
    REFUSED(punctual_thread_create(&thread, &attr, nothing, NULL) == -1, EINVAL, "flag");
    attr.flags = 0;
    attr.cpus = "900";
    REFUSED(punctual_thread_create(&thread, &attr, nothing, NULL) == -1, EINVAL, "offline");
    attr.cpus = NULL;
    REFUSED(punctual_thread_detach(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_thread_tryjoin(NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_thread_timedjoin(NULL, NULL, NULL) == -1, EFAULT, "NULL");
    attr.stack_size = 3 << 20;
    REFUSED(punctual_thread_create(&thread, &attr, nothing, NULL) == -1, EINVAL, "2 MB");
    attr.stack_size = 0;
    attr.policy = PUNCTUAL_FIFO;
    REFUSED(punctual_thread_create(&thread, &attr, nothing, NULL) == -1, EINVAL, "1 and 99");
    REFUSED(punctual_thread_join(NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_thread_tid(NULL) == -1, EFAULT, "NULL");
    CHECK(pthread_attr_destroy(&posix) == 0);
}

static void memory_and_clocks(void)
{
    struct punctual_faults faults;
    struct punctual_loop wheel;
    struct punctual_cycle cycle;
    struct timespec odd = {0, 1000000000};

    memset(&faults, 0, sizeof faults);
    memset(&wheel, 0, sizeof wheel);
    memset(&cycle, 0, sizeof cycle);
    REFUSED(punctual_heap_keep(SIZE_MAX / 4) == -1, ENOMEM, "heap");
    REFUSED(punctual_memory_prepare(SIZE_MAX / 4, 1) == -1, ENOMEM, "heap");
    REFUSED(punctual_faults_mark(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_faults_mark(&faults) == -1, EINVAL, "struct_size");
    REFUSED(punctual_late_faults(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_late_faults(&faults) == -1, EINVAL, "punctual_faults_mark");
    REFUSED(punctual_faults_since(NULL, &faults) == -1, EFAULT, "NULL");
    REFUSED(punctual_faults_since(&faults, &faults) == -1, EINVAL, "punctual_faults_mark");
    REFUSED(punctual_condvar_wait(NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_condvar_wait_until(NULL, NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_condvar_notify_one(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_condvar_notify_all(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_ns(NULL) == NEVER, EFAULT, "NULL");
    REFUSED(punctual_ns(&odd) == NEVER, EINVAL, "timespec");
    REFUSED(punctual_sleep_until(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_sleep_until(&odd) == -1, EINVAL, "timespec");
    REFUSED(punctual_loop_init(NULL, 1, PUNCTUAL_SKIP) == -1, EFAULT, "NULL");
    REFUSED(punctual_loop_init(&wheel, 0, PUNCTUAL_SKIP) == -1, EINVAL, "period");
    REFUSED(punctual_loop_init(&wheel, 1, 9) == -1, EINVAL, "PUNCTUAL_SKIP");
    REFUSED(punctual_loop_wait(NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_loop_wait(&wheel, NULL) == -1, EINVAL, "punctual_loop_init");
    REFUSED(punctual_loop_missed(NULL) == NEVER, EFAULT, "NULL");
    REFUSED(punctual_loop_missed(&wheel) == NEVER, EINVAL, "punctual_loop_init");
    REFUSED(punctual_loop_cycles(NULL) == NEVER, EFAULT, "NULL");
    REFUSED(punctual_loop_cycles(&wheel) == NEVER, EINVAL, "punctual_loop_init");
    CHECK(punctual_loop_init(&wheel, 1000000, PUNCTUAL_SKIP) == 0);
    REFUSED(punctual_loop_wait(&wheel, &cycle) == -1, EINVAL, "struct_size");
    REFUSED(punctual_mutexattr_init(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_condattr_init(NULL) == -1, EFAULT, "NULL");
}

static void rings_and_logs(void)
{
    struct punctual_ring *ring = punctual_ring_create(8, 2);
    struct punctual_log *log;
    const char *formats[] = {NULL};
    uint64_t record = 1;
    int null = open("/dev/null", O_WRONLY), full = open("/dev/full", O_WRONLY);

    CHECK(ring != NULL && null >= 0);
    REFUSED(punctual_ring_create(0, 1) == NULL, EINVAL, "at least 1 byte");
    REFUSED(punctual_ring_create(1 << 20, 1 << 20) == NULL, EINVAL, "1 GB");
    REFUSED(punctual_ring_push(NULL, &record) == -1, EFAULT, "NULL");
    REFUSED(punctual_ring_pop(ring, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_ring_drain(ring, NULL, 1) == -1, EFAULT, "NULL");
    REFUSED(punctual_ring_lost(NULL) == NEVER, EFAULT, "NULL");
    CHECK(punctual_ring_push(ring, &record) == 0 && punctual_ring_push(ring, &record) == 0);
    REFUSED(punctual_ring_push(ring, &record) == -1, EAGAIN, "full");
    punctual_ring_destroy(ring);
    REFUSED(punctual_log_open(null, NULL, 1, 8) == NULL, EFAULT, "NULL");
    REFUSED(punctual_log_open(null, formats, 1, 8) == NULL, EFAULT, "NULL");
    REFUSED(punctual_log_open(null, NULL, 0, 0) == NULL, EINVAL, "1048576");
    REFUSED(punctual_log_open(-1, NULL, 0, 8) == NULL, EBADF, "descriptor");
    REFUSED(punctual_log_put(NULL, 0, 0, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_log_close(NULL) == -1, EFAULT, "NULL");
    CHECK((log = punctual_log_open(null, NULL, 0, 2)) != NULL);
    REFUSED(punctual_log_put(log, 0, 7, &record) == -1, EINVAL, "6");
    REFUSED(punctual_log_put(log, 0, 1, NULL) == -1, EFAULT, "NULL");
    CHECK(punctual_log_close(log) >= 0);
    if (full >= 0) {
        CHECK((log = punctual_log_open(full, NULL, 0, 2)) != NULL);
        CHECK(punctual_log_put(log, 0, 0, NULL) == 0);
        REFUSED(punctual_log_close(log) == -1, ENOSPC, "written");
    }
}

static void channels(void)
{
    struct punctual_channel_options options;
    struct punctual_channel_message message;
    struct punctual_channel *one, *other;
    char word = 0;
    int sockets[2];

    memset(&options, 0, sizeof options);
    memset(&message, 0, sizeof message);
    REFUSED(punctual_channel_defaults(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_channel_defaults(&options) == -1, EINVAL, "struct_size");
    REFUSED(punctual_channel_listen("nowhere", NULL) == -1, EINVAL, "10.0.0.2:7000");
    REFUSED(punctual_channel_accept(-1, 0, NULL) == NULL, EBADF, "socket");
    REFUSED(punctual_channel_connect("127.0.0.1:1", 0, &options) == NULL, EINVAL, "struct_size");
    REFUSED(punctual_channel_connect("127.0.0.1:1", NEVER, NULL) == NULL, ECONNREFUSED, "listens");
    options.struct_size = sizeof options;
    options.quick_ack = 3;
    REFUSED(punctual_channel_open(0, &options) == NULL, EINVAL, "quick_ack 0 to 2");
    options.quick_ack = 0;
    options.message_max = 1u << 24;
    REFUSED(punctual_channel_open(0, &options) == NULL, EINVAL, "16777215");
    REFUSED(punctual_channel_open(-1, NULL) == NULL, EBADF, "socket");
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK((one = punctual_channel_open(sockets[0], NULL)) != NULL);
    CHECK((other = punctual_channel_open(sockets[1], NULL)) != NULL);
    close(sockets[0]);
    close(sockets[1]);
    REFUSED(punctual_channel_send(one, &word, 1 << 20, 0, 0) == -1, EMSGSIZE, "message_max");
    REFUSED(punctual_channel_send(one, &word, 1, 0, 8) == -1, EINVAL, "PUNCTUAL_CHANNEL_MORE");
    REFUSED(punctual_channel_receive(one, 0, &message) == -1, EINVAL, "struct_size");
    message.struct_size = sizeof message;
    REFUSED(punctual_channel_receive(one, 0, &message) == -1, EAGAIN, "again");
    REFUSED(punctual_channel_receive(one, 1, &message) == -1, ETIME, "instant");
    CHECK(write(punctual_channel_fd(other), "0123456789abcdef", 16) == 16);
    REFUSED(punctual_channel_receive(one, NEVER, &message) == -1, EPROTO, "framing");
    punctual_channel_close(one);
    REFUSED(punctual_channel_receive(other, NEVER, &message) == -1, EPIPE, "closed");
    punctual_channel_close(other);
}

static void isolation(void)
{
    struct punctual_watchpoint_hit hit;
    unsigned cpu = 900;
    char journal[] = "/tmp/punctual-words-XXXXXX", name[64], other[64];
    int made = mkstemp(journal);

    CHECK(made >= 0 && unlink(journal) == 0);
    REFUSED(punctual_watchpoint_set(&cpu, 3, 0) == NULL, EINVAL, "1, 2, 4 or 8");
    REFUSED(punctual_watchpoint_count(NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_watchpoint_read(NULL, 0, &hit) == -1, EFAULT, "NULL");
    REFUSED(punctual_irq_steer(NULL, 0, &cpu, 1, NULL, NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_irq_steer(NULL, 0, NULL, 0, journal, NULL, NULL) == -1, EINVAL, "CPU");
    REFUSED(punctual_irq_steer(NULL, 0, &cpu, 1, journal, NULL, NULL) == -1, EINVAL, "CPU");
    /* A refused call leaves nothing behind. */
    CHECK(access(journal, F_OK) == -1 && errno == ENOENT);
    cpu = 0;
    REFUSED(punctual_irq_steer(NULL, 0, &cpu, 1, "/no/such/folder/journal", NULL, NULL) == -1,
            ENOENT, "journal");
    REFUSED(punctual_irq_restore(NULL, NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_irq_restore("/proc/self/status", NULL, NULL) == -1, EINVAL, "journal");
    REFUSED(punctual_irq_preview(NULL, NULL, NULL, NULL) == -1, EFAULT, "NULL");
    REFUSED(punctual_irq_preview("/proc/self/status", NULL, NULL, NULL) == -1, EINVAL, "journal");
    REFUSED(punctual_irq_preview_steer(NULL, 0, NULL, 0, NULL, NULL, NULL) == -1, EINVAL, "CPU");
    snprintf(name, sizeof name, "punctual-words-%d", (int)getpid());
    snprintf(other, sizeof other, "punctual-other-%d", (int)getpid());
    cpu = 900;
    forget();
    if (punctual_cpuset_create(name, &cpu, 1, NULL, 0) == -1 && errno == ENOTSUP) {
        fprintf(stderr, "words.c: no cpuset controller: sets not tried\n");
    } else if (errno == EACCES || errno == EPERM || errno == EROFS) {
        fprintf(stderr, "words.c: no right to make processor sets: not tried\n");
    } else {
        REFUSED(punctual_cpuset_create(name, &cpu, 1, NULL, 0) == -1, EINVAL, "CPU");
        cpu = 0;
        CHECK(punctual_cpuset_create(name, &cpu, 1, NULL, 0) == 0 || errno == EBUSY);
        if (punctual_cpuset_state(name, NULL, 0) == 0) {
            REFUSED(punctual_cpuset_create(name, &cpu, 1, NULL, 0) == -1, EEXIST,
                    "taken");
            REFUSED(punctual_cpuset_create(other, &cpu, 1, NULL, 0) == -1, EBUSY,
                    "isolate");
        }
        CHECK(punctual_cpuset_remove(name) == 0);
        REFUSED(punctual_cpuset_state(name, NULL, 0) == -1, ENOENT, "no such set");
        REFUSED(punctual_cpuset_move_process(name, 0) == -1, ENOENT, "no such set");
        REFUSED(punctual_cpuset_remove("a/b") == -1, EINVAL, "name");
    }
    REFUSED(punctual_cpuset_cpus("a", NULL, 0) == -1, EFAULT, "NULL");
    REFUSED(punctual_cpuset_cpus(NULL, name, sizeof name) == -1, EINVAL, "name");
    REFUSED(punctual_cpuset_create(NULL, &cpu, 1, NULL, 0) == -1, EINVAL, "name");
    REFUSED(punctual_cpuset_state(NULL, NULL, 0) == -1, EINVAL, "name");
}

/* 300 KB of thread-local storage on a stack of 256 KB. */
static __thread volatile char large[300 << 10];

static void *use_large(void *unused)
{
    size_t i;

    for (i = 0; i < sizeof large; i++)
        large[i] = 1;
    return unused;
}

static void thread_local_storage(void)
{
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.stack_size = 256 << 10;
    REFUSED(punctual_thread_create(&thread, &attr, use_large, NULL) == -1, EINVAL,
            "thread-local storage");
    /* The default size makes room for it. */
    CHECK(punctual_thread_create(&thread, NULL, use_large, NULL) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
}

int main(void)
{
    stacks();
    threads();
    thread_local_storage();
    memory_and_clocks();
    rings_and_logs();
    channels();
    isolation();
    CHECK(wrong == 0);
    CHECK(calls > 90);
    return 0;
}
