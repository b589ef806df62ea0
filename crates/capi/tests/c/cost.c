/* Allocates and frees a stack as often as the argument says. Prints how many instructions of its own
 * that took, or why the machine doesn't count them. */
#define _GNU_SOURCE 1
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static int counter(void)
{
    struct perf_event_attr wanted;

    memset(&wanted, 0, sizeof wanted);
    wanted.size = sizeof wanted;
    wanted.type = PERF_TYPE_HARDWARE;
    wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
    wanted.exclude_kernel = 1;
    wanted.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0);
}

static void pair(void)
{
    void *stack = punctual_stack_alloc(65536);

    CHECK(stack != NULL && punctual_stack_free(stack, 65536) == 0);
}

int main(int count, char **arguments)
{
    long left = count > 1 ? atol(arguments[1]) : 1;
    uint64_t before = 0, after = 0;
    int fd = counter();
    int reason = errno;

    pair();
    CHECK(fd < 0 || read(fd, &before, sizeof before) == (ssize_t)sizeof before);
    for (; left > 0; left--)
        pair();
    CHECK(fd < 0 || read(fd, &after, sizeof after) == (ssize_t)sizeof after);
    if (fd < 0)
        printf("no counter of instructions: %s\n", strerror(reason));
    else
        printf("%" PRIu64 "\n", after - before);
    return 0;
}
