/* What the limits of the process and of the kernel answer: ENOMEM and EAGAIN. */
#define _GNU_SOURCE 1
#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static const size_t SIZE = 262144;

static void limit(int which, rlim_t value)
{
    struct rlimit now;

    CHECK(getrlimit((__typeof__(RLIMIT_AS))which, &now) == 0);
    if (now.rlim_max > value)
        now.rlim_max = value;
    now.rlim_cur = now.rlim_max;
    CHECK(setrlimit((__typeof__(RLIMIT_AS))which, &now) == 0);
}

/* Takes stacks until one is refused; they are then freed, and work again. */
static void until(int number)
{
    enum { MOST = 200 };
    void *held[MOST];
    size_t count = 0, again;

    while (count < MOST && (held[count] = punctual_stack_alloc(SIZE)) != NULL)
        count++;
    CHECK(count < MOST && errno == number);
    FAILS(punctual_stack_reserve(SIZE, MOST), number);
    for (again = 0; again < count; again++)
        CHECK(punctual_stack_free(held[again], SIZE) == 0);
    for (again = 0; again < count; again++)
        CHECK((held[again] = punctual_stack_alloc(SIZE)) != NULL);
    for (again = 0; again < count; again++)
        CHECK(punctual_stack_free(held[again], SIZE) == 0);
}

static int ended(pid_t child)
{
    int status = 0;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(void)
{
    pid_t child;

    CHECK(punctual_stack_reserve(32768, 1) == 0);
    child = fork();
    if (child == 0) {
        limit(RLIMIT_AS, 32 << 20);
        until(ENOMEM);
        _exit(0);
    }
    CHECK(ended(child) == 0);

    child = fork();
    if (child == 0) {
        /* The limit of locked memory binds those without CAP_IPC_LOCK alone. */
        limit(RLIMIT_MEMLOCK, 32 << 20);
        if (geteuid() == 0)
            CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
            _exit(77);
        until(EAGAIN);
        _exit(0);
    }
    switch (ended(child)) {
    case 0:
        return 0;
    case 77:
        fprintf(stderr, "limits.c: could not lock memory under the limit\n");
        return 77;
    default:
        return 1;
    }
}
