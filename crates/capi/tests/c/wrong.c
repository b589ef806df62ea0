/* Does one wrong thing, named by its argument; run with PUNCTUAL_STACK_DEBUG. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

/* Its stack is freed while it runs there. */
static ucontext_t outside, inside;
static char *volatile freed;

/* Not inlined, so that a trace has them. */
static __attribute__((noinline)) char *allocated_here(void)
{
    char *stack = (char *)punctual_stack_alloc(65536);

    CHECK(stack != NULL);
    return stack;
}

static __attribute__((noinline)) void freed_here(void *stack)
{
    CHECK(punctual_stack_free(stack, 65536) == 0);
}

static __attribute__((noinline)) void touched_here(volatile char *stack)
{
    stack[4660] = 1;
    /* Not the last thing that it does. */
    CHECK(stack != NULL);
}

static void *touches(void *stack)
{
    touched_here((volatile char *)stack);
    return NULL;
}

static void stands_on_it(void)
{
    swapcontext(&inside, &outside);
}

static sigjmp_buf before_touch;
static volatile sig_atomic_t jumps;

static void caught(int number)
{
    _exit(number == SIGSEGV ? 42 : 43);
}

static void caught_and_away(int number)
{
    jumps++;
    siglongjmp(before_touch, number);
}

static void caught_once(int number)
{
    struct sigaction now;

    /* Ours stands before it as long as it is there. */
    if (sigaction(number, NULL, &now) != 0)
        _exit(44);
    _exit(42);
}

static void caught_with(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (punctual_stack_debug_report(info->si_addr, 2) != 1)
        _exit(44);
    _exit(number == SIGSEGV && info->si_addr == freed + 4660 ? 42 : 43);
}

/* Before the library is set up. */
__attribute__((constructor(101))) static void catch_before(int count, char **arguments)
{
    const char *wrong = count > 1 ? arguments[1] : "";
    struct sigaction action;

    memset(&action, 0, sizeof action);
    if (strcmp(wrong, "before") == 0 || strcmp(wrong, "before-sent") == 0)
        action.sa_handler = caught;
    if (strcmp(wrong, "before-once") == 0) {
        action.sa_handler = caught_once;
        action.sa_flags = (int)SA_RESETHAND;
    }
    if (strcmp(wrong, "before-jump") == 0)
        action.sa_handler = caught_and_away;
    if (strcmp(wrong, "before-ignored") == 0)
        action.sa_handler = SIG_IGN;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
}

static void catch_with_information(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = caught_with;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
}

static void free_below_itself(char *stack)
{
    CHECK(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 65536;
    makecontext(&inside, stands_on_it, 0);
    CHECK(swapcontext(&outside, &inside) == 0);
    freed_here(stack);
    CHECK(swapcontext(&outside, &inside) == 0);
}

static void report(char *stack)
{
    int local = 0;

    memset(stack + 65536 - 5000, 1, 5000);
    CHECK(punctual_stack_debug_report(stack + 100, 2) == 1);
    CHECK(punctual_stack_debug_report(stack - 1, 2) == 1);
    CHECK(punctual_stack_debug_report(stack + 65536, 2) == 1);
    freed_here(stack);
    CHECK(punctual_stack_debug_report(stack + 65535, 2) == 1);
    CHECK(punctual_stack_debug_report(&local, 2) == 0);
    CHECK(punctual_stack_debug_report((void *)8, 2) == 0);
    CHECK(punctual_stack_trim(0, 0) == 1);
    CHECK(punctual_stack_debug_report(stack, 2) == 1);
    FAILS(punctual_stack_debug_report(stack, -1), EBADF);
}

/* The file of this program is gone, and what lies in its place is another. */
static void replace(const char *program)
{
    static const char *const endings[] = {"", " (deleted)"};
    char path[4096];
    size_t i;

    CHECK(unlink(program) == 0);
    for (i = 0; i < 2; i++) {
        FILE *file;

        CHECK(snprintf(path, sizeof path, "%s%s", program, endings[i]) < (int)sizeof path);
        CHECK((file = fopen(path, "w")) != NULL);
        CHECK(fputs("\177ELF\2\1\1 and no more", file) >= 0 && fclose(file) == 0);
    }
}

static void wrong_frees(char *stack)
{
    static char foreign[8192] = {1};
    char local[64];

    FAILS(punctual_stack_free(stack + 4096, 65536), EINVAL);
    FAILS(punctual_stack_free(stack - 4096, 65536), EINVAL);
    FAILS(punctual_stack_free(stack + 24, 32768), EINVAL);
    FAILS(punctual_stack_free(foreign, 65536), EINVAL);
    FAILS(punctual_stack_free(local, 65536), EINVAL);
    FAILS(punctual_stack_free((void *)4096, 65536), EINVAL);
    FAILS(punctual_stack_free(NULL, 65536), EINVAL);
    FAILS(punctual_stack_free(stack, 65537), EINVAL);
    freed_here(stack);
    FAILS(punctual_stack_free(stack + 8192, 65536), EINVAL);
}

static void check_guards(char *stack)
{
    char *other = allocated_here();

    int reads = open("/dev/null", O_RDONLY);

    FAILS(punctual_stack_debug_check(-1), EBADF);
    FAILS(punctual_stack_debug_check(reads), EBADF);
    FAILS(punctual_stack_debug_leaks(reads), EBADF);
    FAILS(punctual_stack_debug_report(stack, reads), EBADF);
    CHECK(strstr(punctual_last_error(), "for writing") != NULL && close(reads) == 0);
    CHECK(punctual_stack_debug_check(2) == 0);
    freed_here(other);
    freed_here(stack);
    CHECK(punctual_stack_debug_check(2) == 0);
    other[65535] = 1;
    CHECK(punctual_stack_debug_check(2) == 1);
    stack[0] = stack[9] = 1;
    CHECK(punctual_stack_debug_check(2) == 2);
}

int main(int count, char **arguments)
{
    const char *wrong = count > 1 ? arguments[1] : "";
    char *stack;

    freed = stack = allocated_here();
    if (strcmp(wrong, "nothing") == 0) {
        freed_here(stack);
        freed_here(allocated_here());
    } else if (strcmp(wrong, "double") == 0) {
        freed_here(stack);
        FAILS(punctual_stack_free(stack, 65536), EINVAL);
    } else if (strcmp(wrong, "replaced") == 0) {
        replace(arguments[0]);
        freed_here(stack);
        FAILS(punctual_stack_free(stack, 65536), EINVAL);
    } else if (strcmp(wrong, "class") == 0) {
        FAILS(punctual_stack_free(stack, 131072), EINVAL);
        freed_here(stack);
    } else if (strcmp(wrong, "frees") == 0) {
        wrong_frees(stack);
    } else if (strcmp(wrong, "write") == 0) {
        freed_here(stack);
        touched_here(stack);
        freed_here(allocated_here());
    } else if (strcmp(wrong, "exit") == 0) {
        freed_here(stack);
        touched_here(stack);
    } else if (strcmp(wrong, "trim") == 0) {
        freed_here(stack);
        touched_here(stack);
        CHECK(punctual_stack_trim(0, 0) == 1);
    } else if (strcmp(wrong, "before") == 0 || strcmp(wrong, "before-once") == 0) {
        freed_here(stack);
        touched_here(stack);
    } else if (strcmp(wrong, "before-jump") == 0) {
        freed_here(stack);
        if (sigsetjmp(before_touch, 1) != 2 * SIGSEGV && jumps < 2)
            touched_here(stack);
        return jumps == 2 ? 42 : 1;
    } else if (strcmp(wrong, "before-sent") == 0) {
        CHECK(raise(SIGSEGV) == 0);
    } else if (strcmp(wrong, "before-ignored") == 0) {
        CHECK(raise(SIGSEGV) == 0);
        return 42;
    } else if (strcmp(wrong, "after") == 0) {
        catch_with_information();
        freed_here(stack);
        touched_here(stack);
    } else if (strcmp(wrong, "sent") == 0) {
        CHECK(raise(SIGSEGV) == 0);
    } else if (strcmp(wrong, "other") == 0) {
        *(volatile char *)16 = 1;
    } else if (strcmp(wrong, "overflow") == 0) {
        ((volatile char *)stack)[-8] = 1;
    } else if (strcmp(wrong, "thread") == 0) {
        pthread_t thread;

        freed_here(stack);
        CHECK(pthread_create(&thread, NULL, touches, stack) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (strcmp(wrong, "below") == 0) {
        free_below_itself(stack);
    } else if (strcmp(wrong, "guards") == 0) {
        check_guards(stack);
    } else if (strcmp(wrong, "unwatched") == 0) {
        FAILS(punctual_stack_debug_check(2), ENOTSUP);
        CHECK(strstr(punctual_last_error(), "PUNCTUAL_STACK_DEBUG=guards") != NULL);
        freed_here(stack);
    } else if (strcmp(wrong, "report") == 0) {
        report(stack);
    } else if (strcmp(wrong, "water") == 0) {
        memset(stack + 65536 - 5000, 1, 5000);
        CHECK(punctual_stack_high_water(stack) >= 5000 && punctual_stack_high_water(stack) < 5008);
        freed_here(stack);
        CHECK(allocated_here() == stack && punctual_stack_high_water(stack) == 0);
        freed_here(stack);
    } else {
        CHECK(strcmp(wrong, "leak") == 0);
    }
    return 0;
}
