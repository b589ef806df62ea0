// punctual.hpp: what is held is given back, and what fails says why.
#include <punctual.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <vector>

#include "check.h"

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<punctual::stack>);
static_assert(!std::is_copy_constructible_v<punctual::thread>);
static_assert(!std::is_move_constructible_v<punctual::mutex>);
static_assert(!std::is_move_constructible_v<punctual::loop>);
static_assert(std::is_nothrow_move_constructible_v<punctual::stack>);
static_assert(std::is_nothrow_move_assignable_v<punctual::thread>);
static_assert(noexcept(std::declval<punctual::ring<int> &>().push(1)));
static_assert(noexcept(std::declval<punctual::loop &>().wait()));

namespace {

std::size_t used(std::size_t size)
{
    struct punctual_stack_stats stats{};
    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_stats(size, &stats) == 0);
    return stats.used;
}

// The number of the error that a constructor throws; it has words.
template <class Make> int refused(Make make)
{
    try {
        make();
    } catch (const std::system_error &error) {
        CHECK(std::strlen(error.what()) > 10);
        return error.code().value();
    }
    return 0;
}

void stacks()
{
    CHECK(used(65536) == 0);
    {
        punctual::stack one(40000), other(65536);
        CHECK(one && one.size() == 65536 && used(65536) == 2);
        CHECK(static_cast<char *>(one.top()) - static_cast<char *>(one.data()) == 65536);
        static_cast<char *>(one.top())[-1] = 1;
        punctual::stack moved(std::move(one));
        CHECK(moved && !one && one.size() == 0 && used(65536) == 2);
        other = std::move(moved);
        CHECK(other && used(65536) == 1);
        punctual::stack &itself = other;
        other = std::move(itself);
        CHECK(other && used(65536) == 1);
    }
    CHECK(used(65536) == 0);
    CHECK(refused([] { punctual::stack(std::size_t{1} << 30); }) == EINVAL);
    CHECK(!punctual::stack(std::size_t{1} << 30, std::nothrow));
}

void threads()
{
    const auto plain = punctual::attributes().named("raii").with_stack(131072);
    std::atomic<int> sum{0};
    {
        // What only moves may be captured.
        auto number = std::make_unique<int>(7);
        punctual::thread one(plain, [&sum, number = std::move(number)] { sum += *number; });
        CHECK(one.joinable() && one.tid() > 0);
        punctual::thread moved(std::move(one));
        CHECK(moved.joinable() && !one.joinable());
        one = punctual::thread(plain, [&sum] { sum += 20; });
        moved = std::move(one);
        CHECK(sum >= 7); // the first was joined
        std::vector<punctual::thread> many;
        for (int i = 0; i < 4; i++)
            many.emplace_back(plain, [&sum] { sum += 100; });
    }
    CHECK(sum == 427 && used(131072) == 0);
    punctual::thread ends(plain, [] { pthread_exit(nullptr); });
    ends.join();
    CHECK(!ends.joinable());
    CHECK(refused([&] { ends.join(); }) == EINVAL);

    // Refused as the C function refuses, and what was kept for it is given back.
    auto count = std::make_shared<int>(0);
    CHECK(refused([&] {
              punctual::thread never(punctual::attributes().fifo(100), [count] { ++*count; });
          }) == EINVAL);
    CHECK(count.use_count() == 1 && *count == 0);
    auto long_ago = punctual::attributes();
    long_ago.struct_size = 1;
    CHECK(refused([&] { punctual::thread never(long_ago, [] {}); }) == EINVAL);
    const auto timed = punctual::attributes().deadline(1ms, 2ms, 3ms).on_cpus("0");
    CHECK(timed.policy == PUNCTUAL_DEADLINE && timed.priority == 0 && !std::strcmp(timed.cpus, "0"));
    CHECK(timed.runtime_ns == 1000000 && timed.deadline_ns == 2000000 && timed.period_ns == 3000000);
    CHECK(punctual::attributes().round_robin(3).with_signals().flags == PUNCTUAL_THREAD_SIGNALS);
}

void mutexes()
{
    punctual::mutex left, right;
    long both = 0;
    const auto add = [&] {
        for (int i = 0; i < 20000; i++) {
            const std::scoped_lock held(left, right);
            both = both + 1;
        }
    };
    const auto add_reversed = [&] {
        for (int i = 0; i < 20000; i++) {
            const std::scoped_lock held(right, left);
            both = both + 1;
        }
    };
    {
        punctual::thread one(punctual::attributes(), add);
        punctual::thread other(punctual::attributes(), add_reversed);
    }
    CHECK(both == 40000);
    const std::lock_guard held(left);
    int number = 0;
    try {
        left.lock();
    } catch (const std::system_error &error) {
        number = error.code().value();
    }
    CHECK(number == EDEADLK);
    CHECK(!left.try_lock());
    std::unique_lock<punctual::mutex> free(right, std::try_to_lock);
    CHECK(free.owns_lock());
#ifdef __GLIBC__
    // glibc's mark of a mutex with priority inheritance.
    CHECK((right.native_handle()->__data.__kind & 32) != 0);
#endif
}

void loops_and_rings()
{
    struct sample {
        std::uint64_t due;
        int number;
    };
    punctual::ring<sample> ring(64);
    std::uint64_t missed = 0;
    {
        punctual::thread control(punctual::attributes(), [&] {
            const punctual::fault_mark mark;
            punctual::loop every(1ms, punctual::overrun::catch_up);
            punctual::cycle now;
            for (int i = 0; i < 50; i++)
                CHECK(every.wait(now) && ring.push({now.due_ns, i}));
            CHECK(every.cycles() == 50 && mark.late() >= 0);
            missed = every.missed();
        });
    }
    CHECK(missed == 0); // each is run when it is caught up
    sample one{}, before{};
    for (int i = 0; i < 50; i++) {
        CHECK(ring.pop(one) && one.number == i);
        CHECK(i == 0 || one.due - before.due == 1000000);
        before = one;
    }
    CHECK(!ring.pop(one) && ring.lost() == 0);
    for (int i = 0; i < 70; i++)
        CHECK(ring.push(one) == (i < 64));
    CHECK(ring.lost() == 6);
    punctual::ring<sample> moved(std::move(ring));
    CHECK(moved.pop(one));
    CHECK(refused([] { punctual::ring<int> none(0); }) == EINVAL);
    CHECK(refused([] { punctual::loop none(0ns); }) == EINVAL);
    CHECK(refused([] { punctual::loop none(-1ns); }) == EINVAL);
}

} // namespace

int main(int count, char **words)
{
    if (count > 1 && !std::strcmp(words[1], "throws")) {
        punctual::thread one(punctual::attributes(), [] { throw 1; });
        return 0;
    }
    stacks();
    threads();
    mutexes();
    loops_and_rings();
    return 0;
}
