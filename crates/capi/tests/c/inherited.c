/* A child of a fork has copies of its parent's threads and logs: a join and a close are refused
 * there at once, since they would wait for what doesn't run, and the parent's go on. */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

static sem_t go;

static void *waits(void *argument)
{
    CHECK(sem_wait(&go) == 0);
    return argument;
}

static void *returns(void *argument)
{
    return argument;
}

static void in_child(struct punctual_thread *thread, struct punctual_log *log)
{
    struct timespec far = punctual_timespec(punctual_now_ns() + UINT64_C(20000000000));
    struct punctual_thread *own;
    void *result = NULL;

    /* Ends the child if anything waits after all. */
    alarm(60);
    FAILS(punctual_thread_join(thread, &result), ESRCH);
    CHECK(strstr(punctual_last_error(), "forked this one") != NULL && result == NULL);
    FAILS(punctual_thread_tryjoin(thread, NULL), ESRCH);
    FAILS(punctual_thread_timedjoin(thread, NULL, &far), ESRCH);
    CHECK(punctual_thread_detach(thread) == 0);
    FAILS(punctual_log_close(log), ESRCH);
    CHECK(strstr(punctual_last_error(), "forked this one") != NULL);
    /* Its own go on as ever. */
    CHECK(punctual_thread_create(&own, NULL, returns, &go) == 0);
    CHECK(punctual_thread_join(own, &result) == 0 && result == &go);
    _exit(0);
}

int main(void)
{
    static const char *const formats[] = {"number %" "lu"};
    struct punctual_thread *thread;
    struct punctual_log *log;
    char name[] = "/tmp/punctual-inherited-XXXXXX", line[64], word[16];
    int fd = mkstemp(name), status = -1;
    uint64_t number = 41;
    void *result = NULL;
    FILE *file;
    pid_t child;

    CHECK(fd >= 0 && sem_init(&go, 0, 0) == 0);
    log = punctual_log_open(fd, formats, 1, 8);
    CHECK(log != NULL && punctual_thread_create(&thread, NULL, waits, &number) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        in_child(thread, log);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sem_post(&go) == 0);
    CHECK(punctual_thread_join(thread, &result) == 0 && result == &number);
    CHECK(punctual_log_put(log, 0, 1, &number) == 0 && punctual_log_close(log) == 0);
    file = fopen(name, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    CHECK(sscanf(line, "%*s number %15s", word) == 1 && strcmp(word, "41") == 0);
    CHECK(fgets(line, sizeof line, file) == NULL);
    CHECK(fclose(file) == 0 && close(fd) == 0 && unlink(name) == 0);
    return 0;
}
