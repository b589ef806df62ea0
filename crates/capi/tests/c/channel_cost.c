/* Sends messages and reads them back, with a channel or, with -DPLAIN, by write(2): the instructions of the
 * two differ by what a channel costs. */
#define _GNU_SOURCE 1
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "punctual.h"

int main(int count, char **words)
{
    static char message[256 + 16], back[256 + 16];
    struct punctual_channel *channel;
    int sockets[2];
    long i, messages = count > 1 ? atol(words[1]) : 1;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK((channel = punctual_channel_open(sockets[0], NULL)) != NULL);
    for (i = 0; i < messages; i++) {
#ifdef PLAIN
        CHECK(write(sockets[0], message, sizeof message) == (ssize_t)sizeof message);
#else
        CHECK(punctual_channel_send(channel, message, 256, 0, 0) == 0);
#endif
        CHECK(read(sockets[1], back, sizeof back) == (ssize_t)sizeof back);
    }
    punctual_channel_close(channel);
    return 0;
}
