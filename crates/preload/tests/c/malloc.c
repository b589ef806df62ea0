/* A malloc that starts a thread when it is first called within pthread_create(), as allocators
 * with background threads do. Also: threads that other threads than their creator join or detach
 * before pthread_create() has returned. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_calloc(size_t count, size_t size);

static __thread int inside;
static int started, ran;

static void *helper(void *unused)
{
    __atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
    return unused;
}

/* glibc allocates a thread's dynamic thread vector with calloc. */
void *calloc(size_t count, size_t size)
{
    if (inside && __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST) <= 8) {
        pthread_t thread;

        inside = 0;
        if (pthread_create(&thread, NULL, helper, NULL) != 0 || pthread_join(thread, NULL) != 0)
            abort();
        inside = 1;
    }
    return __libc_calloc(count, size);
}

static void *body(void *argument)
{
    return argument;
}

static void *hands_itself_on(void *place)
{
    __atomic_store_n((pthread_t *)place, pthread_self(), __ATOMIC_SEQ_CST);
    return place;
}

static void *joins(void *place)
{
    pthread_t other;
    void *result;

    while ((other = __atomic_load_n((pthread_t *)place, __ATOMIC_SEQ_CST)) == 0)
        ;
    if (pthread_join(other, &result) != 0 || result != place)
        abort();
    return NULL;
}

static void *detaches_itself(void *unused)
{
    if (pthread_detach(pthread_self()) != 0)
        abort();
    return unused;
}

int main(void)
{
    pthread_t thread, joiner, unused;
    pthread_t place;
    int turn;

    for (turn = 0; turn < 20; turn++) {
        inside = 1;
        if (pthread_create(&thread, NULL, body, &place) != 0)
            return 1;
        inside = 0;
        if (pthread_join(thread, NULL) != 0)
            return 2;
    }
    for (turn = 0; turn < 2000; turn++) {
        place = 0;
        if (pthread_create(&joiner, NULL, joins, &place) != 0)
            return 3;
        if (pthread_create(&unused, NULL, hands_itself_on, &place) != 0)
            return 4;
        if (pthread_join(joiner, NULL) != 0)
            return 5;
        if (turn % 4 == 0 && pthread_create(&unused, NULL, detaches_itself, NULL) != 0)
            return 6;
    }
    puts(ran > 0 ? "helpers ran" : "none");
    return ran > 0 ? 0 : 7;
}
