/* The library, or a plugin that it is part of, opened by dlopen() and closed while a thread that has
 * used it is alive. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>

#include "check.h"

typedef void *(*alloc_function)(size_t);
typedef int (*free_function)(void *, size_t);

static alloc_function alloc_stack;
static free_function free_stack;
static pthread_barrier_t barrier;

static void *use(void *argument)
{
    void *stack = alloc_stack(65536);

    CHECK(stack != NULL && free_stack(stack, 65536) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return argument;
}

int main(int count, char **arguments)
{
    void *library;
    pthread_t thread;

    CHECK(count == 4);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    *(void **)&alloc_stack = dlsym(library, arguments[2]);
    *(void **)&free_stack = dlsym(library, arguments[3]);
    CHECK(alloc_stack != NULL && free_stack != NULL);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, use, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(dlclose(library) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
