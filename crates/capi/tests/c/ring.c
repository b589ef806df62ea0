/* The ring and the log: in order, once, and what is lost is counted. */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

struct record {
    uint64_t number;
    char text[12];
};

enum { MANY = 100000 };

static void *produce(void *ring)
{
    struct record record;

    memset(&record, 0, sizeof record);
    while (record.number < MANY) {
        snprintf(record.text, sizeof record.text, "%u", (unsigned)record.number);
        if (punctual_ring_push((struct punctual_ring *)ring, &record) == 0)
            record.number++;
        else
            sched_yield();
    }
    return NULL;
}

static void ring_errors(void)
{
    struct punctual_ring *ring;
    struct record record, back;
    int i;

    errno = 0;
    CHECK(punctual_ring_create(0, 1) == NULL && errno == EINVAL);
    CHECK(punctual_ring_create(1, 0) == NULL && punctual_ring_create(8, (size_t)-1) == NULL);
    CHECK(strstr(punctual_last_error(), "1 GB") != NULL);
    punctual_ring_destroy(NULL);
    memset(&record, 0, sizeof record);
    FAILS(punctual_ring_push(NULL, &record), EFAULT);
    FAILS(punctual_ring_pop(NULL, &record), EFAULT);
    CHECK(punctual_ring_lost(NULL) == UINT64_MAX);

    ring = punctual_ring_create(sizeof record, 3);
    CHECK(ring != NULL);
    FAILS(punctual_ring_push(ring, NULL), EFAULT);
    FAILS(punctual_ring_pop(ring, NULL), EFAULT);
    CHECK(punctual_ring_pop(ring, &back) == 0);
    for (i = 0; i < 4; i++, record.number++)
        CHECK(punctual_ring_push(ring, &record) == 0);
    FAILS(punctual_ring_push(ring, &record), EAGAIN);
    FAILS(punctual_ring_push(ring, &record), EAGAIN);
    CHECK(punctual_ring_lost(ring) == 2);
    for (i = 0; i < 4; i++)
        CHECK(punctual_ring_pop(ring, &back) == 1 && back.number == (uint64_t)i);
    CHECK(punctual_ring_pop(ring, &back) == 0);
    punctual_ring_destroy(ring);
}

/* Many at once, across the end of the ring, in order, and no more than there is room for. */
static void drains(void)
{
    struct punctual_ring *ring = punctual_ring_create(sizeof(struct record), 8);
    struct record record, back[9];
    uint64_t expected = 0;
    ssize_t count, i;
    int round;

    CHECK(ring != NULL);
    FAILS(punctual_ring_drain(NULL, back, 1), EFAULT);
    FAILS(punctual_ring_drain(ring, NULL, 1), EFAULT);
    CHECK(punctual_ring_drain(ring, back, 9) == 0 && punctual_ring_drain(ring, NULL, 0) == 0);
    memset(&record, 0, sizeof record);
    for (round = 0; round < 20; round++) {
        while (punctual_ring_push(ring, &record) == 0)
            record.number++;
        CHECK(record.number - expected == 8);
        memset(back, 0xff, sizeof back);
        count = punctual_ring_drain(ring, back, round % 2 == 0 ? 5 : 9);
        CHECK(count == (round % 2 == 0 ? 5 : 8));
        for (i = 0; i < count; i++)
            CHECK(back[i].number == expected++);
        CHECK(back[count].number == UINT64_MAX);
    }
    while (punctual_ring_pop(ring, &record) == 1)
        CHECK(record.number == expected++);
    punctual_ring_destroy(ring);
}

static void two_threads(void)
{
    struct punctual_ring *ring = punctual_ring_create(sizeof(struct record), 64);
    struct record records[10];
    pthread_t producer;
    uint64_t expected = 0;
    ssize_t count, i;
    char text[12];

    CHECK(ring != NULL && pthread_create(&producer, NULL, produce, ring) == 0);
    while (expected < MANY) {
        /* By turns one record, and as many as there are. */
        count = expected % 3 == 0 ? punctual_ring_pop(ring, records)
                                  : punctual_ring_drain(ring, records, 10);
        CHECK(count >= 0);
        if (count == 0)
            sched_yield();
        for (i = 0; i < count; i++) {
            snprintf(text, sizeof text, "%u", (unsigned)expected);
            CHECK(records[i].number == expected && strcmp(records[i].text, text) == 0);
            expected++;
        }
    }
    CHECK(pthread_join(producer, NULL) == 0);
    punctual_ring_destroy(ring);
}

static void *faultless(void *log)
{
    struct punctual_faults mark;
    uint64_t numbers[2];
    uint64_t i;

    mark.struct_size = sizeof mark;
    /* Memory is not locked here: the code comes in with its first use. */
    numbers[1] = punctual_log_double(1);
    CHECK(punctual_log_put((struct punctual_log *)log, 0, 0, NULL) == 0);
    CHECK(punctual_faults_mark(&mark) == 0 && punctual_late_faults(&mark) >= 0);
    CHECK(punctual_faults_mark(&mark) == 0);
    for (i = 0; i < 1000; i++) {
        numbers[0] = i;
        numbers[1] = punctual_log_double((double)i / 2);
        CHECK(punctual_log_put((struct punctual_log *)log, 1, 2, numbers) == 0);
    }
#ifndef CHECK_NO_FAULTS_COUNTED
    CHECK(punctual_late_faults(&mark) == 0);
#endif
    return NULL;
}

static void logs(void)
{
    static const char *const formats[] = {"begins", "cycle %u is %f", NULL};
    const uint64_t numbers[7] = {1, 2, 3, 4, 5, 6, 7};
    struct punctual_thread *thread;
    struct punctual_log *log;
    char name[] = "/tmp/punctual-log-XXXXXX", line[128], expected[64];
    int fd = mkstemp(name), i, lines = 0;
    FILE *file;

    CHECK(fd >= 0);
    errno = 0;
    CHECK(punctual_log_open(-1, formats, 2, 8) == NULL && errno == EBADF);
    errno = 0;
    CHECK(punctual_log_open(fd, formats, 3, 8) == NULL && errno == EFAULT);
    CHECK(punctual_log_open(fd, NULL, 1, 8) == NULL && errno == EFAULT);
    errno = 0;
    CHECK(punctual_log_open(fd, formats, 2, 0) == NULL && errno == EINVAL);
    FAILS(punctual_log_put(NULL, 0, 0, NULL), EFAULT);
    FAILS(punctual_log_close(NULL), EFAULT);

    log = punctual_log_open(fd, formats, 2, 2048);
    CHECK(log != NULL);
    FAILS(punctual_log_put(log, 0, 1, NULL), EFAULT);
    FAILS(punctual_log_put(log, 0, 7, numbers), EINVAL);
    CHECK(punctual_thread_create(&thread, NULL, faultless, log) == 0);
    CHECK(punctual_thread_join(thread, NULL) == 0);
    CHECK(punctual_log_put(log, 9, 6, numbers) == 0);
    CHECK(punctual_log_close(log) == 0);

    file = fopen(name, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        i = lines++ - 1;
        if (i < 0)
            snprintf(expected, sizeof expected, " begins\n");
        else if (i < 1000)
            snprintf(expected, sizeof expected, " cycle %d is %.3f\n", i, i / 2.0);
        else
            snprintf(expected, sizeof expected, " record 9 1 2 3 4 5 6\n");
        CHECK(strchr(line, ' ') != NULL && strcmp(strchr(line, ' '), expected) == 0);
    }
    CHECK(lines == 1002);
    CHECK(fclose(file) == 0 && close(fd) == 0 && unlink(name) == 0);

    fd = open("/dev/full", O_WRONLY);
    log = punctual_log_open(fd, formats, 2, 8);
    CHECK(log != NULL && punctual_log_put(log, 0, 0, NULL) == 0);
    FAILS(punctual_log_close(log), ENOSPC);
    CHECK(close(fd) == 0);
}

/* Whoever read the log is gone: an error of the log, and no SIGPIPE, which would end us. */
static void closed_pipe(void)
{
    static const char *const formats[] = {"cycle %u"};
    struct punctual_log *log;
    uint64_t number = 1;
    int ends[2];

    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    log = punctual_log_open(ends[1], formats, 1, 8);
    CHECK(log != NULL && close(ends[1]) == 0);
    CHECK(punctual_log_put(log, 0, 1, &number) == 0);
    FAILS(punctual_log_close(log), EPIPE);
    CHECK(strstr(punctual_last_error(), "could not be written") != NULL);
}

static int lines_read;

static void *reads_slowly(void *from)
{
    char text[4096];
    ssize_t count, i;

    while ((count = read(*(int *)from, text, sizeof text)) > 0) {
        for (i = 0; i < count; i++)
            lines_read += text[i] == '\n';
        sched_yield();
    }
    return NULL;
}

/* A descriptor that doesn't wait is waited for: all lines come, though the pipe is full again and
 * again. */
static void pipe_without_waiting(void)
{
    static const char *const formats[] = {"a line that is long enough to fill a pipe: %u"};
    enum { LINES = 20000 };
    struct punctual_log *log;
    pthread_t reader;
    uint64_t number;
    char byte = 0;
    int ends[2];

    CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    /* Full from the first line on. */
    while (write(ends[1], &byte, 1) == 1)
        continue;
    CHECK(errno == EAGAIN);
    log = punctual_log_open(ends[1], formats, 1, LINES);
    CHECK(log != NULL && close(ends[1]) == 0);
    for (number = 0; number < LINES; number++)
        CHECK(punctual_log_put(log, 0, 1, &number) == 0);
    CHECK(pthread_create(&reader, NULL, reads_slowly, &ends[0]) == 0);
    CHECK(punctual_log_close(log) == 0);
    CHECK(pthread_join(reader, NULL) == 0 && lines_read == LINES);
    CHECK(close(ends[0]) == 0);
}

int main(void)
{
    pipe_without_waiting();
    ring_errors();
    drains();
    two_threads();
    logs();
    closed_pipe();
    return 0;
}
