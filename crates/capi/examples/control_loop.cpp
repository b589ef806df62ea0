// A control loop in C++: 1 kHz, SCHED_FIFO, no page fault; the data leave it by a ring.
//
// control_loop [SECONDS [CPUS]]; exit status 77: not permitted here, and it says what to mend.
#include <punctual.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

namespace {

struct Failed : std::system_error {
    explicit Failed(const char *what)
        : std::system_error(errno, std::generic_category(),
                            std::string(what) + ": " + punctual_last_error())
    {
    }
};

// A thread that is joined when it goes out of scope.
class Thread {
public:
    Thread(const punctual_thread_attr &attr, void *(*body)(void *), void *argument)
    {
        if (punctual_thread_create(&thread_, &attr, body, argument) != 0)
            throw Failed("thread");
    }
    ~Thread() { punctual_thread_join(thread_, nullptr); }
    Thread(const Thread &) = delete;
    Thread &operator=(const Thread &) = delete;

private:
    punctual_thread *thread_ = nullptr;
};

struct Sample {
    std::uint64_t due_ns;
    std::uint64_t latency_ns;
    double level;
};

struct Control {
    std::uint64_t cycles = 0;
    punctual_ring *ring = nullptr;
    std::atomic<bool> ended{false};
    std::uint64_t missed = 0;
    std::int64_t faults = -1;

    // The level of a tank is kept at 1 m.
    void run() noexcept
    {
        punctual_faults mark{};
        punctual_cycle cycle{};
        punctual_loop loop;
        double level = 0;

        mark.struct_size = sizeof mark;
        cycle.struct_size = sizeof cycle;
        punctual_faults_mark(&mark);
        punctual_loop_init(&loop, 1000000, PUNCTUAL_SKIP);
        while (punctual_loop_cycles(&loop) < cycles) {
            if (punctual_loop_wait(&loop, &cycle) != 0)
                continue;
            const double valve = std::clamp(4 * (1.0 - level), 0.0, 1.0);
            level += 0.02 * valve - 0.001 * level;
            const Sample sample{cycle.due_ns, cycle.latency_ns, level};
            punctual_ring_push(ring, &sample);
        }
        missed = punctual_loop_missed(&loop);
        faults = punctual_late_faults(&mark);
        ended = true;
    }
};

int run(int count, char **words)
{
    if (punctual_memory_prepare(1 << 20, 64 << 10) != 0)
        throw Failed("memory");
    const std::unique_ptr<punctual_ring, void (*)(punctual_ring *)> ring(
        punctual_ring_create(sizeof(Sample), 4096), punctual_ring_destroy);
    if (!ring)
        throw Failed("ring");

    Control control;
    control.cycles = 1000 * static_cast<std::uint64_t>(count > 1 ? std::atoi(words[1]) : 5);
    control.ring = ring.get();
    punctual_thread_attr attr{};
    attr.struct_size = sizeof attr;
    attr.name = "control";
    attr.stack_size = 64 << 10;
    attr.policy = PUNCTUAL_FIFO;
    attr.priority = 80;
    attr.cpus = count > 2 ? words[2] : nullptr;

    std::uint64_t seen = 0, longest = 0;
    Sample sample{};
    {
        const Thread thread(
            attr,
            [](void *argument) -> void * {
                static_cast<Control *>(argument)->run();
                return nullptr;
            },
            &control);
        for (bool last = false; !last;) {
            // Asked before the ring is emptied: nothing comes after the end.
            last = control.ended;
            while (punctual_ring_pop(ring.get(), &sample) == 1) {
                seen++;
                longest = std::max(longest, sample.latency_ns);
            }
            const timespec pause = punctual_timespec(punctual_now_ns() + 5000000);
            punctual_sleep_until(&pause);
        }
    }
    std::printf("%llu cycles, %llu missed, %lld faults, at most %llu ns late, level %.2f\n",
                static_cast<unsigned long long>(seen + punctual_ring_lost(ring.get())),
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
