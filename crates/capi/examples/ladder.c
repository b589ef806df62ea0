/*
 * A periodic loop of 1 kHz, with as many of the five steps as you ask for.
 *
 * ladder [STEPS [CYCLES [CPU]]]: 0 is a loop around a sleep; each number up to 5 takes one step more.
 * It prints how late the work of a cycle was done, and how many page faults it took. Exit status 77: not
 * permitted here, with a message that says how to fix it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <punctual.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERIOD_NS UINT64_C(1000000)
/* Where the old affinities of interrupts are kept until they are restored. */
#define JOURNAL "/run/punctual-ladder-example.irqs"

struct control {
    int steps;
    size_t cycles;
    /* The work of a cycle is a line in a log: memory that it touches for the first time. */
    uint64_t (*log)[8];
    /* How late the work of each cycle was done, in ns. */
    uint64_t *late;
    int64_t faults;
};

static void *control(void *argument)
{
    struct control *control = (struct control *)argument;
    const struct timespec period = {0, PERIOD_NS};
    uint64_t due = punctual_now_ns();
    struct punctual_faults before;
    struct timespec at;
    size_t cycle;

    memset(&before, 0, sizeof before);
    before.struct_size = sizeof before;
    punctual_faults_mark(&before);
    for (cycle = 0; cycle < control->cycles; cycle++) {
        if (control->steps == 0) {
            /* relative-sleep: the period grows by all that is not sleep. */
            due = punctual_now_ns() + PERIOD_NS;
            nanosleep(&period, NULL);
        } else {
            /* absolute-sleep: the period is kept, and lateness does not add up. */
            due += PERIOD_NS;
            at = punctual_timespec(due);
            punctual_sleep_until(&at);
        }
        control->log[cycle][0] = punctual_now_ns();
        control->late[cycle] = punctual_now_ns() - due;
    }
    control->faults = punctual_late_faults(&before);
    return NULL;
}

/* Prints the error and how to fix it; 77 if permission is missing. */
static int failed(const char *what)
{
    int not_permitted = errno == EPERM || errno == EACCES || errno == EAGAIN || errno == ENOMEM;

    fprintf(stderr, "%s: %s\n%s\n", what, strerror(errno), punctual_last_error());
    return not_permitted ? 77 : EXIT_FAILURE;
}

static int by_size(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    unsigned int rest[CPU_SETSIZE], n = 0, cpu, it;
    struct punctual_thread_attr attr;
    struct punctual_thread *thread;
    struct control task;
    char cpus[16];

    memset(&task, 0, sizeof task);
    task.steps = count > 1 ? atoi(words[1]) : 4;
    task.cycles = count > 2 ? (size_t)atoi(words[2]) : 1000;
    cpu = count > 3 ? (unsigned int)atoi(words[3]) : 0;
    snprintf(cpus, sizeof cpus, "%u", cpu);
    if (task.cycles == 0)
        return EXIT_FAILURE;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.name = "control";
    if (task.steps >= 2) {
        /* priority: it runs before all ordinary threads, and its timers have no slack. */
        attr.policy = PUNCTUAL_FIFO;
        attr.priority = 80;
    }
    if (task.steps >= 3) {
        /* locked-memory: all memory is present, and stays so; what is allocated later too. */
        if (punctual_memory_prepare(1 << 20, 64 << 10) != 0)
            return failed("memory");
    }
    if (task.steps >= 4) {
        /* affinity: it never waits for a busy CPU to take it over, and its caches stay warm. */
        attr.cpus = cpus;
    }
    if (task.steps >= 5) {
        cpu_set_t allowed;

        if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
            return failed("affinity");
        for (it = 0; it < CPU_SETSIZE; it++)
            if (CPU_ISSET(it, &allowed) && it != cpu)
                rest[n++] = it;
        /* quiet-interrupts: no device interrupts its CPU. */
        if (punctual_irq_steer(NULL, 0, rest, n, JOURNAL, NULL, NULL) < 0)
            return failed("interrupts");
    }

    /* Mapped, and without step 3 not yet present. What the statistics need is touched. */
    task.log = malloc(task.cycles * sizeof *task.log);
    task.late = malloc(task.cycles * sizeof *task.late);
    if (task.log == NULL || task.late == NULL)
        return failed("memory");
    memset(task.late, 1, task.cycles * sizeof *task.late);
    if (punctual_thread_create(&thread, &attr, control, &task) != 0)
        return failed("thread");
    punctual_thread_join(thread, NULL);
    if (task.steps >= 5 && punctual_irq_restore(JOURNAL, NULL, NULL) < 0)
        return failed("interrupts");

    qsort(task.late, task.cycles, sizeof *task.late, by_size);
    printf("%zu cycles, %lld faults, p50 %llu ns, p99 %llu ns, worst %llu ns\n", task.cycles,
           (long long)task.faults, (unsigned long long)task.late[task.cycles / 2],
           (unsigned long long)task.late[task.cycles * 99 / 100],
           (unsigned long long)task.late[task.cycles - 1]);
    return EXIT_SUCCESS;
}
