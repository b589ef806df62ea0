/* Exhausted limits of the process and of the kernel: ENOMEM and EAGAIN. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

/* Allocates stacks until one is refused; then frees them, after which allocating works again. */
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

/* Setting a policy is refused, as by a container's seccomp filter. */
static void refuse_policies(void)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setscheduler, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setattr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* The thread that writes a log is no real-time thread, or the log can't be opened. */
static void logs(int policy)
{
    struct sched_param parameters = {policy == SCHED_FIFO ? 1 : 0};
    struct punctual_log *log;
    int file = open("/dev/null", O_WRONLY);

    CHECK(file >= 0);
    if (sched_setscheduler(0, policy, &parameters) != 0)
        _exit(77);
    refuse_policies();
    errno = 0;
    log = punctual_log_open(file, NULL, 0, 16);
    if (policy == SCHED_FIFO) {
        CHECK(log == NULL && errno == EPERM);
        CHECK(strstr(punctual_last_error(), "ordinary") != NULL);
    } else {
        CHECK(log != NULL && punctual_log_close(log) == 0);
    }
    _exit(0);
}

int main(void)
{
    static const int policies[] = {SCHED_OTHER, SCHED_IDLE, SCHED_FIFO};
    pid_t child;
    int i;

    for (i = 0; i < 3; i++) {
        child = fork();
        if (child == 0)
            logs(policies[i]);
        switch (ended(child)) {
        case 0:
            break;
        case 77:
            fprintf(stderr, "limits.c: no right to SCHED_FIFO\n");
            break;
        default:
            return 1;
        }
    }

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
        /* The limit of locked memory applies only without CAP_IPC_LOCK. */
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
