/* Watchpoints, processor sets and interrupts: that they work where they are supported, and are
 * refused elsewhere. */
#define _GNU_SOURCE 1
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <punctual.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t watched;

static void watchpoints(void)
{
    struct punctual_watchpoint *all[17];
    struct punctual_watchpoint_hit hit;
    size_t count = 0;
    errno = 0;
    CHECK(!punctual_watchpoint_set((const char *)(uintptr_t)&watched + 1, 8, 0) && errno == EINVAL);
    CHECK(!punctual_watchpoint_set((const void *)(uintptr_t)&watched, 3, 0) && errno == EINVAL);
    CHECK(punctual_watchpoint_count(NULL) == -1 && errno == EFAULT);
    punctual_watchpoint_clear(NULL);
    all[0] = punctual_watchpoint_set((const void *)(uintptr_t)&watched, 8, 0);
    if (!all[0]) {
        CHECK(errno == ENOTSUP || errno == EACCES || errno == EPERM);
        fprintf(stderr, "isolation.c: no watchpoints here\n");
        return;
    }
    watched = 1;
    CHECK(punctual_watchpoint_count(all[0]) == 1);
    CHECK(punctual_watchpoint_read(all[0], 0, &hit) == 1 && hit.tid == getpid());
    CHECK(punctual_watchpoint_read(all[0], 1, &hit) == 0);
    for (count = 1; count < 17; count++) {
        all[count] = punctual_watchpoint_set((const void *)(uintptr_t)&watched, 8, 0);
        if (!all[count])
            break;
    }
    CHECK(count < 17 && errno == ENOSPC);
    while (count > 0)
        punctual_watchpoint_clear(all[--count]);
}

static void processor_sets(void)
{
    char reason[128] = "";
    unsigned cpu = 0;
    CHECK(punctual_cpuset_create(NULL, &cpu, 1, reason, sizeof reason) == -1);
    CHECK(errno == EINVAL || errno == ENOTSUP);
    CHECK(strlen(reason) > 0);
    CHECK(punctual_cpuset_create("a/b", &cpu, 1, NULL, 0) == -1);
    CHECK(punctual_cpuset_state("no-such-set", reason, 4) == -1 && strlen(reason) <= 3);
    CHECK(punctual_cpuset_move_process("no-such-set", 0) == -1);
    CHECK(punctual_cpuset_remove("no-such-set") == 0 || errno == ENOTSUP);
}

/* A set of the last CPU: created, read back, with a process inside, and removed again. */
static void one_set(void)
{
    char reason[128] = "", name[64], cpus[64];
    unsigned last = 0, cpu;
    cpu_set_t allowed;
    pid_t child;

    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            last = cpu;
    if (CPU_COUNT(&allowed) < 2 || geteuid() != 0) {
        fprintf(stderr, "isolation.c: a processor set wants root and two CPUs\n");
        return;
    }
    snprintf(name, sizeof name, "punctual-c-%d", (int)getpid());
    if (punctual_cpuset_create(name, &last, 1, reason, sizeof reason) != 0) {
        CHECK(errno == ENOTSUP || errno == EBUSY || errno == EACCES || errno == EROFS);
        CHECK(strlen(reason) > 0);
        fprintf(stderr, "isolation.c: no processor set: %s\n", reason);
        return;
    }
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    CHECK(punctual_cpuset_create(name, &last, 1, NULL, 0) == -1 && errno == EEXIST);
    CHECK(punctual_cpuset_state(name, reason, sizeof reason) == 0);
    CHECK(punctual_cpuset_move_process(name, child) == 0);
    snprintf(reason, sizeof reason, "%u", last);
    CHECK(punctual_cpuset_cpus(name, cpus, sizeof cpus) == (ssize_t)strlen(reason));
    CHECK(strcmp(cpus, reason) == 0);
    CHECK(punctual_cpuset_cpus(name, cpus, strlen(reason)) == -1 && errno == ERANGE);
    CHECK(strcmp(cpus, reason) == 0);
    CHECK(punctual_affinity_get(child, cpus, sizeof cpus) > 0);
    CHECK(strtoul(cpus, NULL, 10) == last && strpbrk(cpus, ",-") == NULL);
    CHECK(punctual_cpuset_remove(name) == 0);
    CHECK(punctual_cpuset_state(name, NULL, 0) == -1 && errno == ENOENT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void count_skipped(int irq, const char *reason, void *context)
{
    CHECK(irq >= -1 && strlen(reason) > 0);
    ++*(int *)context;
}

struct plan {
    int changes, skipped;
};

static void foresee(int irq, const char *now, const char *then, void *plan)
{
    CHECK(irq >= -1 && strlen(now) > 0 && strlen(then) > 0 && strcmp(now, then) != 0);
    ((struct plan *)plan)->changes++;
}

static void foresee_skipped(int irq, const char *reason, void *plan)
{
    CHECK(irq >= -1 && strlen(reason) > 0);
    ((struct plan *)plan)->skipped++;
}

static size_t affinity(unsigned irq, char *text, size_t size)
{
    char name[64];
    size_t length;
    FILE *file;

    snprintf(name, sizeof name, "/proc/irq/%u/smp_affinity_list", irq);
    file = fopen(name, "r");
    if (file == NULL)
        return 0;
    length = fread(text, 1, size - 1, file);
    text[length] = 0;
    fclose(file);
    return length;
}

/* A preview changes nothing, and steering changes only what the preview lists. */
static void foretold(const unsigned *irqs, size_t count, unsigned cpu)
{
    static char before[1024][64], after[64];
    char journal[128];
    struct plan plan = {0, 0}, back = {0, 0};
    ssize_t changes;
    size_t i;
    int differ = 0;

    for (i = 0; i < count; i++)
        affinity(irqs[i], before[i], sizeof before[i]);
    changes = punctual_irq_preview_steer(irqs, count, &cpu, 1, foresee, foresee_skipped, &plan);
    CHECK(changes >= 0 && changes == plan.changes);
    CHECK(punctual_irq_preview_steer(irqs, count, &cpu, 1, NULL, NULL, NULL) == changes);
    for (i = 0; i < count; i++) {
        affinity(irqs[i], after, sizeof after);
        CHECK(strcmp(before[i], after) == 0);
    }
    snprintf(journal, sizeof journal, "/tmp/punctual-c-%d.foretold", (int)getpid());
    CHECK(punctual_irq_steer(irqs, count, &cpu, 1, journal, NULL, NULL) >= 0);
    for (i = 0; i < count; i++) {
        affinity(irqs[i], after, sizeof after);
        differ += strcmp(before[i], after) != 0;
    }
    /* The kernel may refuse an interrupt that the preview could not exclude. */
    CHECK(differ <= plan.changes && (differ == plan.changes || plan.skipped == 0));
    CHECK(punctual_irq_preview(journal, foresee, foresee_skipped, &back) == back.changes);
    CHECK(back.changes == differ);
    CHECK(punctual_irq_restore(journal, NULL, NULL) >= 0);
    for (i = 0; i < count; i++) {
        affinity(irqs[i], after, sizeof after);
        CHECK(strcmp(before[i], after) == 0);
    }
    CHECK(punctual_irq_preview(journal, foresee, NULL, NULL) == 0);
}

/* Steers all interrupts of the machine to the CPUs of the first one, and restores them. Those
 * that the kernel manages are listed, which is no error. */
static void every_interrupt(void)
{
    unsigned irqs[1024], cpu = 0;
    size_t count = 0;
    int skipped = 0, changed;
    char journal[128];
    struct dirent *entry;
    DIR *folder = opendir("/proc/irq");

    while (folder != NULL && count < 1024 && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            irqs[count++] = (unsigned)strtoul(entry->d_name, NULL, 10);
    if (folder != NULL)
        closedir(folder);
    if (count == 0 || geteuid() != 0) {
        fprintf(stderr, "isolation.c: no interrupts to steer\n");
        return;
    }
    foretold(irqs, count, cpu);
    snprintf(journal, sizeof journal, "/tmp/punctual-c-%d.journal", (int)getpid());
    changed = punctual_irq_steer(irqs, count, &cpu, 1, journal, count_skipped, &skipped);
    CHECK(changed >= 0 && (size_t)(changed + skipped) == count);
    CHECK(punctual_irq_restore(journal, NULL, NULL) == changed);
    CHECK(access(journal, F_OK) != 0);
    CHECK(punctual_irq_restore(journal, NULL, NULL) == 0);
}

static void interrupts(void)
{
    unsigned cpu = 0;
    CHECK(punctual_irq_steer(NULL, 0, &cpu, 1, NULL, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(punctual_irq_steer(NULL, 0, NULL, 0, "/no/such/journal", NULL, NULL) == -1 && errno == EINVAL);
    CHECK(punctual_irq_steer(&cpu, 1, &cpu, 1, "/no/such/journal", NULL, NULL) == -1 && errno == ENOENT);
    CHECK(punctual_irq_restore("/no/such/journal", NULL, NULL) == 0);
    CHECK(punctual_irq_restore(NULL, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(punctual_irq_preview(NULL, NULL, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(punctual_irq_preview("/no/such/journal", NULL, NULL, NULL) == 0);
    CHECK(punctual_irq_preview("/dev/null", NULL, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(punctual_irq_preview_steer(NULL, 0, NULL, 0, NULL, NULL, NULL) == -1 && errno == EINVAL);
    cpu = 8191;
    CHECK(punctual_irq_preview_steer(NULL, 0, &cpu, 1, NULL, NULL, NULL) == -1 && errno == EINVAL);
    cpu = 8192;
    CHECK(punctual_irq_preview_steer(NULL, 0, &cpu, 1, NULL, NULL, NULL) == -1 && errno == EINVAL);
}

int main(void)
{
    watchpoints();
    processor_sets();
    one_set();
    interrupts();
    every_interrupt();
    return 0;
}
