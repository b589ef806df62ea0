/*
 * A controller and a plant that exchange small messages over TCP: 1 kHz, SCHED_FIFO, no page fault. Here both
 * ends are in one program; on two machines each gets one of the two halves of main().
 *
 * channel [SECONDS]; exit status 77: not permitted here, with a message that says how to fix it.
 */
#include <punctual.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t MS = 1000000;

struct words {
    uint64_t number;
    double value;
};

struct end {
    struct punctual_channel *channel;
    uint64_t cycles;
    /* The result of the thread. */
    int64_t faults;
    double position;
};

/* Moves to the position that it is sent, and answers where it is. */
static void *plant(void *argument)
{
    struct end *end = (struct end *)argument;
    struct punctual_faults mark;
    struct punctual_channel_message message;
    struct words words;

    memset(&message, 0, sizeof message);
    message.struct_size = sizeof message;
    mark.struct_size = sizeof mark;
    punctual_faults_mark(&mark);
    while (punctual_channel_receive(end->channel, UINT64_MAX, &message) == 0) {
        if (message.size != sizeof words)
            continue;
        memcpy(&words, message.data, sizeof words);
        /* A command that is too old is not obeyed. */
        if (!message.late)
            end->position += 0.01 * (words.value - end->position);
        words.value = end->position;
        punctual_channel_send(end->channel, &words, sizeof words, 2 * MS, 0);
    }
    punctual_channel_finish(end->channel);
    end->faults = punctual_late_faults(&mark);
    return NULL;
}

/* Sends a command each millisecond, and takes the answers that have come. */
static void *controller(void *argument)
{
    struct end *end = (struct end *)argument;
    struct punctual_faults mark;
    struct punctual_channel_message message;
    struct punctual_loop loop;
    struct words words;

    memset(&message, 0, sizeof message);
    message.struct_size = sizeof message;
    mark.struct_size = sizeof mark;
    words.number = 0;
    punctual_faults_mark(&mark);
    punctual_loop_init(&loop, MS, PUNCTUAL_SKIP);
    while (words.number < end->cycles) {
        if (punctual_loop_wait(&loop, NULL) != 0)
            continue; /* A signal: the period is still due. */
        while (punctual_channel_receive(end->channel, 0, &message) == 0) {
            struct words answer;

            memcpy(&answer, message.data, sizeof answer);
            end->position = answer.value;
        }
        words.value = 1.0;
        /* Useless after a period: the plant shall not obey it then. */
        punctual_channel_send(end->channel, &words, sizeof words, MS, 0);
        words.number++;
    }
    /* The rest of the answers. */
    punctual_channel_flush(end->channel, UINT64_MAX);
    punctual_channel_finish(end->channel);
    while (punctual_channel_receive(end->channel, UINT64_MAX, &message) == 0)
        ;
    end->faults = punctual_late_faults(&mark);
    return NULL;
}

/* Prints the error and how to fix it; 77 if permission is missing. */
static int failed(const char *what)
{
    int not_permitted = errno == EPERM || errno == EAGAIN || errno == ENOMEM;

    fprintf(stderr, "%s: %s\n%s\n", what, strerror(errno), punctual_last_error());
    return not_permitted ? 77 : EXIT_FAILURE;
}

/* What is not in force, and what to do. */
static void report(struct punctual_channel *channel)
{
    struct punctual_channel_setting setting;
    size_t i;

    setting.struct_size = sizeof setting;
    for (i = 0; punctual_channel_setting(channel, i, &setting) == 1; i++)
        if (setting.advice[0] != '\0')
            fprintf(stderr, "%s: %u requested, %u in force: %s\n", setting.name,
                    setting.requested, setting.actual, setting.advice);
}

static int start(struct punctual_thread **thread, int priority, void *(*body)(void *), struct end *end)
{
    struct punctual_thread_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.struct_size = sizeof attr;
    attr.stack_size = 64 << 10;
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = priority;
    return punctual_thread_create(thread, &attr, body, end);
}

int main(int count, char **words)
{
    struct punctual_channel_options options;
    struct punctual_channel_counts counts;
    struct punctual_thread *threads[2];
    struct end near_end, far_end;
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    char address[40];
    int listener;
    uint64_t late;

    if (punctual_memory_prepare(1 << 20, 64 << 10) != 0)
        return failed("memory");
    memset(&near_end, 0, sizeof near_end);
    memset(&far_end, 0, sizeof far_end);
    near_end.cycles = 1000 * (uint64_t)(count > 1 ? atoi(words[1]) : 5);

    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    punctual_channel_defaults(&options);
    options.message_max = 1024;
    options.pads = 3;                               /* a lost message is sent again at once */
    options.clock = PUNCTUAL_CHANNEL_SHARED_CLOCK;  /* both ends are on one host */

    listener = punctual_channel_listen("127.0.0.1:0", &options);
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &length) != 0)
        return failed("listen");
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    near_end.channel = punctual_channel_connect(address, punctual_now_ns() + 1000 * MS, &options);
    if (near_end.channel == NULL)
        return failed("connect");
    far_end.channel = punctual_channel_accept(listener, punctual_now_ns() + 1000 * MS, &options);
    if (far_end.channel == NULL)
        return failed("accept");
    close(listener);
    report(near_end.channel);

    if (start(&threads[0], 79, plant, &far_end) != 0)
        return failed("thread");
    if (start(&threads[1], 80, controller, &near_end) != 0)
        return failed("thread");
    punctual_thread_join(threads[1], NULL);
    punctual_thread_join(threads[0], NULL);

    counts.struct_size = sizeof counts;
    punctual_channel_counts(far_end.channel, &counts);
    late = counts.late;
    punctual_channel_counts(near_end.channel, &counts);
    printf("%llu commands, %llu late, %llu refused, %llu answers, %llu late, %lld faults, "
           "position %.2f\n",
           (unsigned long long)counts.sent, (unsigned long long)late,
           (unsigned long long)counts.refused, (unsigned long long)counts.received,
           (unsigned long long)counts.late, (long long)(near_end.faults + far_end.faults),
           near_end.position);
    punctual_channel_close(near_end.channel);
    punctual_channel_close(far_end.channel);
    return near_end.faults + far_end.faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
