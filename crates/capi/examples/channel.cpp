// A controller and a plant in C++ that exchange small messages over TCP: 1 kHz, SCHED_FIFO, no page fault. Here
// both ends are in one program; on two machines each has one of them.
//
// channel [SECONDS]; exit status 77: not permitted here, with a message that says how to fix it.
#include <punctual.hpp>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <system_error>

using namespace std::chrono_literals;

namespace {

struct Words {
    std::uint64_t number;
    double value;
};

// Moves to the position that it is sent, and answers where it is.
std::int64_t plant(punctual::channel &channel)
{
    const punctual::fault_mark mark;
    punctual::channel_message message;
    double position = 0;

    while (channel.receive(message)) {
        Words words{};
        if (message.size != sizeof words)
            continue;
        std::memcpy(&words, message.data, sizeof words);
        // A command that is too old is not obeyed.
        if (!message.late)
            position += 0.01 * (words.value - position);
        words.value = position;
        channel.send(&words, sizeof words, 2ms);
    }
    channel.finish();
    return mark.late();
}

// Sends a command each millisecond, and takes the answers that have come.
std::int64_t controller(punctual::channel &channel, std::uint64_t cycles, double &position)
{
    const punctual::fault_mark mark;
    punctual::loop every(1ms);
    punctual::channel_message message;
    const auto take = [&] {
        Words answer{};
        std::memcpy(&answer, message.data, sizeof answer);
        position = answer.value;
    };

    for (Words words{0, 1.0}; words.number < cycles;) {
        if (!every.wait())
            continue;
        while (channel.try_receive(message))
            take();
        // Useless after a period: the plant shall not obey it then.
        channel.send(&words, sizeof words, 1ms);
        words.number++;
    }
    // The rest of the answers.
    channel.flush();
    channel.finish();
    while (channel.receive(message))
        take();
    return mark.late();
}

int run(int count, char **words)
{
    punctual::prepare_memory(1 << 20, 64 << 10);
    const auto cycles = 1000 * static_cast<std::uint64_t>(count > 1 ? std::atoi(words[1]) : 5);

    punctual::channel_options options;
    options.message_max = 1024;
    options.pads = 3;                              // a lost message is sent again at once
    options.clock = PUNCTUAL_CHANNEL_SHARED_CLOCK; // both ends are on one host
    const punctual::channel_listener listener("127.0.0.1:0", options);
    sockaddr_in at{};
    socklen_t length = sizeof at;
    getsockname(listener.native_handle(), reinterpret_cast<sockaddr *>(&at), &length);
    const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    const auto soon = std::chrono::steady_clock::now() + 1s;
    punctual::channel near_end(address.c_str(), soon, options);
    punctual::channel far_end(listener, soon);
    for (const auto &setting : near_end.settings())
        if (*setting.advice)
            std::fprintf(stderr, "%s: %u requested, %u in force: %s\n", setting.name,
                         setting.requested, setting.actual, setting.advice);

    const auto attributes = punctual::attributes().with_stack(64 << 10);
    std::int64_t faults = 0, far_faults = 0;
    double position = 0;
    {
        const punctual::thread far(punctual::attributes(attributes).fifo(79),
                                   [&] { far_faults = plant(far_end); });
        const punctual::thread near(punctual::attributes(attributes).fifo(80),
                                    [&] { faults = controller(near_end, cycles, position); });
    }
    const auto sent = near_end.counts(), received = far_end.counts();
    std::printf("%llu commands, %llu late, %llu refused, %llu answers, %llu late, %lld faults, "
                "position %.2f\n",
                static_cast<unsigned long long>(sent.sent),
                static_cast<unsigned long long>(received.late),
                static_cast<unsigned long long>(sent.refused),
                static_cast<unsigned long long>(sent.received),
                static_cast<unsigned long long>(sent.late),
                static_cast<long long>(faults + far_faults), position);
    return faults + far_faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace

int main(int count, char **words)
{
    try {
        return run(count, words);
    } catch (const std::system_error &error) {
        const int number = error.code().value();
        std::fprintf(stderr, "%s\n", error.what());
        return number == EPERM || number == EAGAIN || number == ENOMEM ? 77 : EXIT_FAILURE;
    }
}
