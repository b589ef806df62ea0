/* Watchpoints, processor sets and interrupts: where they are, and where they are refused. */
#include "check.h"

#include <errno.h>
#include <punctual.h>
#include <stdio.h>
#include <string.h>
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
        printf("SKIPPED: no watchpoints here\n");
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
    CHECK(punctual_cpuset_make(NULL, &cpu, 1, reason, sizeof reason) == -1);
    CHECK(errno == EINVAL || errno == ENOTSUP);
    CHECK(strlen(reason) > 0);
    CHECK(punctual_cpuset_make("a/b", &cpu, 1, NULL, 0) == -1);
    CHECK(punctual_cpuset_state("no-such-set", reason, 4) == -1 && strlen(reason) <= 3);
    CHECK(punctual_cpuset_take("no-such-set", 0) == -1);
    CHECK(punctual_cpuset_remove("no-such-set") == 0 || errno == ENOTSUP);
}

static void interrupts(void)
{
    unsigned cpu = 0;
    CHECK(punctual_irq_steer(NULL, 0, &cpu, 1, NULL, NULL, NULL) == -1 && errno == EFAULT);
    CHECK(punctual_irq_steer(NULL, 0, NULL, 0, "/no/such/journal", NULL, NULL) == -1 && errno == EINVAL);
    CHECK(punctual_irq_steer(&cpu, 1, &cpu, 1, "/no/such/journal", NULL, NULL) == -1 && errno == ENOENT);
    CHECK(punctual_irq_restore("/no/such/journal", NULL, NULL) == 0);
    CHECK(punctual_irq_restore(NULL, NULL, NULL) == -1 && errno == EFAULT);
}

int main(void)
{
    watchpoints();
    processor_sets();
    interrupts();
    return 0;
}
