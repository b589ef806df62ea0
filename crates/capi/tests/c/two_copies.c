/* A plugin that contains its own copy of the library, and, with HOST, the program that loads it:
 * each copy has its own threads, stacks, error texts and watchpoints. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"
#include "punctual.h"

typedef int (*use_function)(void *host_s_stack);

static void *returns(void *argument)
{
    return argument;
}

#ifndef HOST

int use_plugin(void *host_s_stack);

int use_plugin(void *host_s_stack)
{
    static volatile uint64_t word;
    struct punctual_watchpoint *watched;
    struct punctual_thread *thread;
    void *result, *stack = punctual_stack_alloc(65536);

    CHECK(stack != NULL && punctual_stack_free(stack, 65536) == 0);
    /* A stack of the other copy is unknown to this one. */
    FAILS(punctual_stack_free(host_s_stack, 65536), EINVAL);
    CHECK(punctual_thread_create(&thread, NULL, returns, &thread) == 0);
    CHECK(punctual_thread_join(thread, &result) == 0 && result == &thread);
    watched = punctual_watchpoint_set((const void *)&word, sizeof word, 0);
    if (watched == NULL)
        return 0;
    word = 1;
    word = 2;
    CHECK(punctual_watchpoint_count(watched) == 2);
    punctual_watchpoint_clear(watched);
    return 0;
}

#else

int main(int count, char **arguments)
{
    static volatile uint64_t word;
    struct punctual_watchpoint *watched;
    struct punctual_thread *thread;
    void *plugin, *result, *stack;
    use_function use;

    CHECK(count == 2);
    FAILS(punctual_memory_lock(7), EINVAL);
    watched = punctual_watchpoint_set((const void *)&word, sizeof word, 0);
    if (watched == NULL)
        fprintf(stderr, "plugin.c: watchpoints not tried: %s\n", punctual_last_error());
    stack = punctual_stack_alloc(65536);
    CHECK(stack != NULL);
    word = 1;
    plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin != NULL);
    *(void **)&use = dlsym(plugin, "use_plugin");
    CHECK(use != NULL);
    word = 2;
    CHECK(use(stack) == 0);
    word = 3;
    CHECK(dlclose(plugin) == 0);
    word = 4;
    if (watched != NULL) {
        CHECK(punctual_watchpoint_count(watched) == 4);
        punctual_watchpoint_clear(watched);
        /* An error of the other copy isn't this copy's last error. */
        CHECK(strcmp(punctual_last_error(), "present_only: expected 0 or 1") == 0);
    }
    CHECK(punctual_thread_create(&thread, NULL, returns, &thread) == 0);
    CHECK(punctual_thread_join(thread, &result) == 0 && result == &thread);
    CHECK(punctual_stack_free(stack, 65536) == 0);
    return 0;
}

#endif
