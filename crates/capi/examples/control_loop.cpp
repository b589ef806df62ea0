// A control loop in C++: 1 kHz, SCHED_FIFO, no page fault; the data leave it through a ring.
//
// control_loop [SECONDS [CPUS]]; exit status 77: not permitted here, with a message that says how to fix it.
#include <punctual.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace {

struct Sample {
    std::uint64_t due_ns;
    std::uint64_t latency_ns;
    double level;
};

struct Control {
    std::uint64_t cycles;
    punctual::ring<Sample> ring{4096};
    std::atomic<bool> ended{false};
    std::uint64_t missed = 0;
    std::int64_t faults = -1;

    // Controls the level of a tank at 1 m.
    void run()
    {
        const punctual::fault_mark mark;
        punctual::loop every(std::chrono::milliseconds(1));
        punctual::cycle cycle;
        double level = 0;

        while (every.cycles() < cycles) {
            if (!every.wait(cycle))
                continue;
            const double valve = std::clamp(4 * (1.0 - level), 0.0, 1.0);
            level += 0.02 * valve - 0.001 * level;
            ring.push({cycle.due_ns, cycle.latency_ns, level});
        }
        missed = every.missed();
        faults = mark.late();
        ended = true;
    }
};

int run(int count, char **words)
{
    punctual::prepare_memory(1 << 20, 64 << 10);

    Control control{1000 * static_cast<std::uint64_t>(count > 1 ? std::atoi(words[1]) : 5)};
    const auto attributes = punctual::attributes()
                                .named("control")
                                .with_stack(64 << 10)
                                .fifo(80)
                                .on_cpus(count > 2 ? words[2] : nullptr);

    std::uint64_t seen = 0, longest = 0;
    Sample sample{};
    {
        const punctual::thread thread(attributes, [&] { control.run(); });
        for (bool last = false; !last;) {
            // Read before the ring is emptied: no sample follows the end.
            last = control.ended;
            while (control.ring.pop(sample)) {
                seen++;
                longest = std::max(longest, sample.latency_ns);
            }
            const timespec pause = punctual_timespec(punctual_now_ns() + 5000000);
            punctual_sleep_until(&pause);
        }
    }
    std::printf("%llu cycles, %llu missed, %lld faults, at most %llu ns late, level %.2f\n",
                static_cast<unsigned long long>(seen + control.ring.lost()),
                static_cast<unsigned long long>(control.missed),
                static_cast<long long>(control.faults), static_cast<unsigned long long>(longest),
                sample.level);
    return control.faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
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
