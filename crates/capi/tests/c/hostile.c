/* Reports where something stands in their way, one part by name; run with PUNCTUAL_STACK_DEBUG. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* A sandbox that allows what a report takes at least. */
static void touch_in_a_sandbox(void)
{
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 3, 0, SYS_write},
        {BPF_JMP | BPF_JEQ | BPF_K, 2, 0, SYS_rt_sigreturn},
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_exit_group},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    CHECK(punctual_stack_free(stack, SIZE) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    *(volatile char *)stack = 1;
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

/* Functions that differ in nothing but their place. */
#define ALLOCATES(name)                                     \
    static __attribute__((noinline)) void allocates_##name(void) \
    {                                                       \
        CHECK(punctual_stack_alloc(32768) != NULL);         \
    }
#define EIGHT(do, name)                                                                       \
    do(name##0) do(name##1) do(name##2) do(name##3) do(name##4) do(name##5) do(name##6) do(name##7)
EIGHT(ALLOCATES, a)
EIGHT(ALLOCATES, b)
EIGHT(ALLOCATES, c)
EIGHT(ALLOCATES, d)
#define PLACE(name) allocates_##name,

/* How often this process has called read(); -1 where the kernel doesn't count. */
static long reads(void)
{
    char line[128];
    long count = -1;
    FILE *file = fopen("/proc/self/io", "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "syscr: %ld", &count) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return count;
}

/* As many as there are lines of the report, which name 32 places. */
static void report_many(void)
{
    static void (*const places[])(void) = {EIGHT(PLACE, a) EIGHT(PLACE, b) EIGHT(PLACE, c)
                                               EIGHT(PLACE, d)};
    int i, null = open("/dev/null", O_WRONLY);
    long before, after;

    for (i = 0; i < 1024; i++)
        places[i % 32]();
    before = reads();
    CHECK(punctual_stack_debug_leaks(null) == 1025);
    after = reads();
    printf("%ld\n", before < 0 ? -1 : after - before);
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
    } else if (strcmp(part, "sandbox") == 0) {
        touch_in_a_sandbox();
    } else if (strcmp(part, "full") == 0) {
        report_without_waiting();
    } else if (strcmp(part, "descriptor") == 0) {
        no_descriptor();
    } else if (strcmp(part, "at-once") == 0) {
        report_at_once();
    } else if (strcmp(part, "many") == 0) {
        report_many();
    } else if (strcmp(part, "child") == 0) {
        ends_in_a_child(0);
    } else {
        CHECK(strcmp(part, "child-leaks") == 0);
        ends_in_a_child(1);
    }
    CHECK(punctual_stack_free(stack, SIZE) == 0);
    return 0;
}
