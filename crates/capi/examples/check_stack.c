/*
 * How much of its stack does a thread have in memory? Checks the primary thread, a
 * thread on a default stack, and one on a stack of the library.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif

#include <punctual.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *look(void *name)
{
    struct punctual_stack_bounds bounds;
    struct punctual_stack_residency found;
    size_t size;

    if (punctual_stack_bounds(0, &bounds) != 0) {
        perror("punctual_stack_bounds");
        return NULL;
    }
    size = (size_t)((char *)bounds.high - (char *)bounds.low);
    printf("%-24s %p to %p, %zu KB: ", (const char *)name, bounds.low, bounds.high,
           size / 1024);
    if (punctual_stack_residency(bounds.low, size, &found) != 0)
        printf("not mapped to its limit\n");
    else
        printf("%zu pages, %zu resident, %zu not\n", found.pages, found.resident,
               found.pages - found.resident);
    return NULL;
}

static void run(const pthread_attr_t *attr, char *name)
{
    pthread_t thread;

    if (pthread_create(&thread, attr, look, name) == 0)
        pthread_join(thread, NULL);
}

int main(void)
{
    static char primary[] = "primary", prefaulted[] = "primary, prefaulted";
    static char usual[] = "default stack", ours[] = "stack of the library";
    const size_t size = punctual_stack_class(200 * 1024);
    pthread_attr_t attr;
    void *stack;

    look(primary);
    if (punctual_stack_prefault(0) < 0)
        perror("punctual_stack_prefault");
    look(prefaulted);
    run(NULL, usual);

    stack = punctual_stack_alloc(size);
    if (stack == NULL) {
        perror("punctual_stack_alloc");
        return EXIT_FAILURE;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, stack, size);
    run(&attr, ours);
    pthread_attr_destroy(&attr);
    return punctual_stack_free(stack, size) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
