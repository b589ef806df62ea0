/* Channels: two ends, each documented error, options that are read back. */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

enum { MANY = 5000 };
static const uint64_t NEVER = UINT64_MAX;

static struct punctual_channel_message empty(void)
{
    struct punctual_channel_message message;

    memset(&message, 0, sizeof message);
    message.struct_size = sizeof message;
    return message;
}

static struct punctual_channel_counts counts_of(struct punctual_channel *channel)
{
    struct punctual_channel_counts counts;

    memset(&counts, 0, sizeof counts);
    counts.struct_size = sizeof counts;
    CHECK(punctual_channel_counts(channel, &counts) == 0);
    return counts;
}

static uint64_t in_a_minute(void)
{
    return punctual_now_ns() + 60000000000ull;
}

/* Two ends on any free port. */
static void pair(const struct punctual_channel_options *options, struct punctual_channel **one,
                 struct punctual_channel **other)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    char address[40];
    int listener = punctual_channel_listen("127.0.0.1:0", options);

    CHECK(listener >= 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    *one = punctual_channel_connect(address, in_a_minute(), options);
    CHECK(*one != NULL);
    *other = punctual_channel_accept(listener, in_a_minute(), options);
    CHECK(*other != NULL);
    close(listener);
    CHECK(punctual_channel_fd(*one) >= 0 && punctual_channel_fd(*one) != punctual_channel_fd(*other));
}

static void *answer(void *argument)
{
    struct punctual_channel *channel = (struct punctual_channel *)argument;
    struct punctual_channel_message message = empty();

    while (punctual_channel_receive(channel, NEVER, &message) == 0)
        CHECK(punctual_channel_send(channel, message.data, message.size, message.deadline_ns, 0) == 0);
    CHECK(errno == EPIPE);
    CHECK(punctual_channel_finish(channel) == 0);
    return NULL;
}

static void two_ends(void)
{
    struct punctual_channel_options options;
    struct punctual_channel_message message = empty();
    struct punctual_channel_counts counts;
    struct punctual_channel *one, *other;
    pthread_t peer;
    uint64_t number, back;

    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    CHECK(punctual_channel_defaults(&options) == 0);
    options.pads = 2;
    pair(&options, &one, &other);
    CHECK(pthread_create(&peer, NULL, answer, other) == 0);
    for (number = 0; number < MANY; number++) {
        uint64_t deadline = number % 2 == 0 ? 3600000000000ull : 0;
        unsigned flags = number % 10 == 0 ? PUNCTUAL_CHANNEL_MORE : 0;

        CHECK(punctual_channel_send(one, &number, sizeof number, deadline, flags) == 0);
        if (number % 3 == 0) {
            CHECK(punctual_channel_receive(one, in_a_minute(), &message) == 0);
            CHECK(message.size == sizeof back && message.deadline_ns == deadline);
            CHECK(message.late == 0);
            CHECK((message.age == PUNCTUAL_CHANNEL_AGE_UNKNOWN) == (deadline == 0));
            memcpy(&back, message.data, sizeof back);
        } else {
            CHECK(punctual_channel_read(one, &back, sizeof back, NEVER, NULL) == sizeof back);
        }
        CHECK(back == number);
    }
    CHECK(punctual_channel_flush(one, 0) == 0);
    CHECK(punctual_channel_finish(one) == 0);
    FAILS(punctual_channel_receive(one, NEVER, &message), EPIPE);
    CHECK(pthread_join(peer, NULL) == 0);
    counts = counts_of(one);
    CHECK(counts.sent == MANY && counts.received == MANY && counts.late == 0);
    CHECK(counts.refused == 0 && counts.not_judged == 0);
    CHECK(counts.padding_sent == 2 * (MANY - MANY / 10) && counts.padding_received == 2 * MANY);
    counts = counts_of(other);
    CHECK(counts.sent == MANY && counts.received == MANY);
    CHECK(counts.padding_sent == 2 * MANY && counts.padding_received == 2 * (MANY - MANY / 10));
    punctual_channel_close(one);
    punctual_channel_close(other);
}

static void options_are_read_back(void)
{
    struct punctual_channel_options options;
    struct punctual_channel_setting setting;
    struct punctual_channel *one, *other;
    size_t index, in_force = 0;

    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.no_delay = 1;
    options.user_timeout_ms = 1234;
    options.send_buffer = 0x7fffffff;
    pair(&options, &one, &other);
    memset(&setting, 0, sizeof setting);
    setting.struct_size = sizeof setting;
    for (index = 0; punctual_channel_setting(one, index, &setting) == 1; index++) {
        if (strcmp(setting.name, "TCP_USER_TIMEOUT") == 0)
            CHECK(setting.requested == 1234 && setting.actual == 1234);
        if (strcmp(setting.name, "SO_SNDBUF") == 0) {
            CHECK(setting.outcome == PUNCTUAL_CHANNEL_DIFFERS && setting.actual > 0);
            CHECK(strstr(setting.advice, "wmem_max") != NULL);
        } else if (setting.requested != 0) {
            CHECK(setting.outcome == PUNCTUAL_CHANNEL_IN_FORCE && setting.advice[0] == '\0');
            in_force++;
        } else {
            CHECK(setting.outcome == PUNCTUAL_CHANNEL_NOT_REQUESTED && setting.error == 0);
        }
    }
    CHECK(index == 10 && in_force == 2);
    CHECK(punctual_channel_setting(one, index, &setting) == 0);
    FAILS(punctual_channel_setting(NULL, 0, &setting), EFAULT);
    FAILS(punctual_channel_setting(one, 0, NULL), EFAULT);
    setting.struct_size = 1;
    FAILS(punctual_channel_setting(one, 0, &setting), EINVAL);
    punctual_channel_close(one);
    punctual_channel_close(other);
}

static void errors(void)
{
    struct punctual_channel_options options;
    struct punctual_channel_message message = empty();
    struct punctual_channel_counts counts;
    struct punctual_channel *one, *other;
    static char large[70000];
    char buffer[8];
    int sockets[2];

    memset(&options, 0, sizeof options);
    FAILS(punctual_channel_defaults(NULL), EFAULT);
    FAILS(punctual_channel_defaults(&options), EINVAL);
    FAILS(punctual_channel_listen(NULL, NULL), EFAULT);
    FAILS(punctual_channel_listen("localhost:1", NULL), EINVAL);
    CHECK(strstr(punctual_last_error(), "10.0.0.2:7000") != NULL);
    FAILS(punctual_channel_listen("192.0.2.1:0", NULL), EADDRNOTAVAIL);
    FAILS(punctual_channel_listen("127.0.0.1:0", &options), EINVAL);
    errno = 0;
    CHECK(punctual_channel_connect(NULL, NEVER, NULL) == NULL && errno == EFAULT);
    CHECK(punctual_channel_connect("127.0.0.1:1", NEVER, NULL) == NULL && errno == ECONNREFUSED);
    CHECK(strstr(punctual_last_error(), "start the peer") != NULL);
    CHECK(punctual_channel_connect("127.0.0.1:1", NEVER, &options) == NULL && errno == EINVAL);
    options.struct_size = sizeof options;
    options.pads = 8;
    CHECK(punctual_channel_connect("127.0.0.1:1", NEVER, &options) == NULL && errno == EINVAL);
    CHECK(strstr(punctual_last_error(), "pads 0 to 7") != NULL);
    options.pads = 0;
    options.when_full = 2;
    CHECK(punctual_channel_connect("127.0.0.1:1", NEVER, &options) == NULL && errno == EINVAL);
    options.when_full = PUNCTUAL_CHANNEL_REFUSE;
    CHECK(punctual_channel_accept(-1, 0, NULL) == NULL && errno == EBADF);
    CHECK(punctual_channel_accept(0, 0, NULL) == NULL);
    CHECK(punctual_channel_open(-1, NULL) == NULL && errno == EBADF);
    punctual_channel_close(NULL);
    FAILS(punctual_channel_fd(NULL), EFAULT);
    FAILS(punctual_channel_send(NULL, buffer, 1, 0, 0), EFAULT);
    FAILS(punctual_channel_flush(NULL, 0), EFAULT);
    FAILS(punctual_channel_finish(NULL), EFAULT);
    FAILS(punctual_channel_receive(NULL, 0, &message), EFAULT);
    FAILS(punctual_channel_read(NULL, buffer, sizeof buffer, 0, NULL), EFAULT);
    counts.struct_size = sizeof counts;
    FAILS(punctual_channel_counts(NULL, &counts), EFAULT);

    /* Of sockets that the program has; each closes its own. */
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) == 0);
    CHECK(punctual_channel_open(sockets[0], NULL) == NULL && errno == EPROTOTYPE);
    close(sockets[0]);
    close(sockets[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK((one = punctual_channel_open(sockets[0], NULL)) != NULL);
    CHECK((other = punctual_channel_open(sockets[1], NULL)) != NULL);
    close(sockets[0]);
    close(sockets[1]);

    FAILS(punctual_channel_send(one, NULL, 1, 0, 0), EFAULT);
    FAILS(punctual_channel_send(one, buffer, 1, 0, 2), EINVAL);
    FAILS(punctual_channel_send(one, large, sizeof large, 0, 0), EMSGSIZE);
    FAILS(punctual_channel_receive(one, 0, NULL), EFAULT);
    FAILS(punctual_channel_receive(one, 0, &message), EAGAIN);
    FAILS(punctual_channel_receive(one, 1, &message), ETIME);
    FAILS(punctual_channel_read(one, NULL, 1, 0, NULL), EFAULT);
    FAILS(punctual_channel_counts(one, NULL), EFAULT);
    counts.struct_size = 1;
    FAILS(punctual_channel_counts(one, &counts), EINVAL);
    CHECK(punctual_channel_send(other, NULL, 0, 0, 0) == 0);
    CHECK(punctual_channel_send(other, "0123456789", 10, 0, 0) == 0);
    /* A wrong size takes no message. */
    message.struct_size = 1;
    FAILS(punctual_channel_receive(one, 0, &message), EINVAL);
    FAILS(punctual_channel_read(one, buffer, sizeof buffer, 0, &message), EINVAL);
    message = empty();
    CHECK(punctual_channel_receive(one, 0, &message) == 0 && message.size == 0);
    FAILS(punctual_channel_read(one, buffer, sizeof buffer, 0, NULL), ENOBUFS);
    CHECK(punctual_channel_receive(one, 0, &message) == 0 && message.size == 10);
    CHECK(memcmp(message.data, "0123456789", 10) == 0);
    CHECK(write(punctual_channel_fd(other), large, 16) == 16);
    FAILS(punctual_channel_receive(one, 0, &message), EPROTO);
    CHECK(strstr(punctual_last_error(), "framing") != NULL);
    punctual_channel_close(one);
    FAILS(punctual_channel_receive(other, NEVER, &message), EPIPE);
    FAILS(punctual_channel_send(other, buffer, 1, 0, 0), EPIPE);
    punctual_channel_close(other);
}

int main(void)
{
    two_ends();
    options_are_read_back();
    errors();
    return 0;
}
