// punctual.hpp: objects release what they own, and errors have a text.
#include <punctual.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
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
static_assert(!std::is_copy_constructible_v<punctual::condvar>);
static_assert(noexcept(std::declval<punctual::condvar &>().notify_one()));
static_assert(noexcept(std::declval<punctual::ring<int> &>().drain(nullptr, 0)));

namespace {

std::size_t used(std::size_t size)
{
    struct punctual_stack_stats stats{};
    stats.struct_size = sizeof stats;
    CHECK(punctual_stack_stats(size, &stats) == 0);
    return stats.used;
}

// The errno of the exception that a constructor throws; it has a text.
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
        // A lambda may capture move-only objects.
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

    // Fails like the C function, and frees what was allocated for it.
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
    // glibc's flag of a mutex with priority inheritance.
    CHECK((right.native_handle()->__data.__kind & 32) != 0);
#endif
}

// A queue with one place: after a lost notification a thread waits for 20 s.
void condition_variables()
{
    constexpr int each = 3000;
    punctual::mutex guard;
    punctual::condvar filled, emptied;
    const auto limit = std::chrono::steady_clock::now() + 20s;
    int place = 0;
    long sum = 0;
    {
        punctual::thread producer(punctual::attributes(), [&] {
            for (int i = 1; i <= each; i++) {
                std::unique_lock held(guard);
                CHECK(emptied.wait_until(held, limit, [&] { return place == 0; }));
                place = i;
                held.unlock();
                filled.notify_one();
            }
        });
        for (int i = 1; i <= each; i++) {
            std::unique_lock held(guard);
            filled.wait(held, [&] { return place != 0; });
            sum += place;
            place = 0;
            emptied.notify_all();
        }
    }
    CHECK(sum == long{each} * (each + 1) / 2);

    std::unique_lock held(guard);
    const auto soon = std::chrono::steady_clock::now() + 2ms;
    while (filled.wait_until(held, soon))
        ;
    CHECK(std::chrono::steady_clock::now() >= soon && held.owns_lock());
    CHECK(!filled.wait_until(held, soon, [] { return false; }));
    held.unlock();
    CHECK(refused([&] { filled.wait(held); }) == EPERM);
}

void timed_locks()
{
    punctual::mutex timed;
    const auto past = std::chrono::steady_clock::time_point(1ns);
    const auto before_all = std::chrono::steady_clock::time_point(-1s);
    std::unique_lock held(timed, past); // A free one is locked whatever the time.
    CHECK(held.owns_lock());
    CHECK(refused([&] { (void)timed.try_lock_until(past); }) == EDEADLK);
    {
        punctual::thread other(punctual::attributes(), [&] {
            const auto soon = std::chrono::steady_clock::now() + 2ms;
            CHECK(!timed.try_lock_until(soon) && std::chrono::steady_clock::now() >= soon);
            CHECK(!timed.try_lock_until(before_all) && !timed.try_lock_for(1.5ms));
            CHECK(!std::unique_lock(timed, 1ms).owns_lock());
        });
    }
    std::atomic<bool> waits{false};
    punctual::thread other(punctual::attributes(), [&] {
        waits = true;
        CHECK(timed.try_lock_for(20s));
        timed.unlock();
    });
    while (!waits)
        sched_yield();
    held.unlock();
    other.join();
}

void robust_mutexes()
{
    punctual::mutex left(punctual::robust);
    const auto leave = [&] { punctual::thread(punctual::attributes(), [&] { left.lock(); }); };
    leave();
    {
        std::unique_lock held(left);
        CHECK(left.owner_died());
        punctual::condvar nobody;
        CHECK(refused([&] { nobody.wait(held); }) == EOWNERDEAD && held.owns_lock());
        left.make_consistent();
        CHECK(!left.owner_died());
        const auto soon = std::chrono::steady_clock::now() + 1ms;
        while (nobody.wait_until(held, soon))
            ;
        CHECK(held.owns_lock() && !left.owner_died());
        CHECK(refused([&] { left.make_consistent(); }) == EINVAL);
    }
    leave();
    CHECK(left.try_lock() && left.owner_died());
    left.unlock();
    CHECK(refused([&] { left.lock(); }) == ENOTRECOVERABLE);
    CHECK(!left.try_lock());
}

struct counted {
    explicit counted(std::atomic<int> &living) : living_(&living) { ++living; }
    counted(counted &&other) noexcept : living_(std::exchange(other.living_, nullptr)) {}
    ~counted()
    {
        if (living_)
            --*living_;
    }

private:
    std::atomic<int> *living_;
};

// A detached thread keeps its function until its end, and destroys it then.
void detached_threads()
{
    static std::atomic<int> living{0}, ran{0};
    static std::atomic<bool> go{false};
    const auto limit = std::chrono::steady_clock::now() + 20s;
    constexpr int many = 20;
    for (int i = 0; i < many; i++) {
        punctual::thread one(punctual::attributes(), [kept = counted(living), i] {
            while (!go)
                sched_yield();
            ++ran;
            if (i % 2 == 0)
                pthread_exit(nullptr);
        });
        one.detach();
        CHECK(!one.joinable());
        one.detach();
    }
    CHECK(living == many);
    go = true;
    while (living != 0)
        CHECK(std::chrono::steady_clock::now() < limit);
    CHECK(ran == many);
    // Ended before it is detached.
    for (int i = 0; i < many; i++) {
        std::atomic<bool> ended{false};
        punctual::thread one(punctual::attributes(), [&, kept = counted(living)] { ended = true; });
        while (!ended)
            sched_yield();
        one.detach();
    }
    while (living != 0)
        CHECK(std::chrono::steady_clock::now() < limit);

    std::atomic<bool> free{false};
    punctual::thread one(punctual::attributes(), [&free] {
        while (!free)
            sched_yield();
    });
    CHECK(!one.try_join() && one.joinable());
    CHECK(!one.join_until(std::chrono::steady_clock::now() + 1ms) && one.joinable());
    free = true;
    CHECK(one.join_until(limit) && !one.joinable());
    CHECK(refused([&] { (void)one.try_join(); }) == EINVAL);
    CHECK(refused([&] { (void)one.join_until(limit); }) == EINVAL);
    punctual::thread two(punctual::attributes(), [] {});
    while (!two.try_join())
        CHECK(std::chrono::steady_clock::now() < limit);
}

// The other functions for real-time threads.
void small_ones()
{
    {
        const punctual::fault_mark mark;
        const auto since = mark.since();
        CHECK(since.struct_size == sizeof since && since.minor + since.major <= 1000);
    }
    punctual::stack stack(65536);
    CHECK(stack.guard_size() == static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    static_cast<char *>(stack.top())[-30000] = 1;
    CHECK(stack.high_water() >= 30000);
    CHECK(punctual::stack_high_water_of_class(65536) >= stack.high_water());
    CHECK(punctual::stack_high_water_of_class(7) == -1 && errno == EINVAL);
    punctual::thread applied(punctual::attributes(), [] {
        char name[16] = "";
        punctual::thread_apply(punctual::attributes().named("applied"));
        CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
        CHECK(!std::strcmp(name, "applied"));
        CHECK(refused([] { punctual::thread_apply(punctual::attributes().fifo(100)); }) == EINVAL);
    });
    applied.join();
    const int number = refused([] { punctual::cpuset_cpus("no-such-set"); });
    CHECK(number == ENOENT || number == ENOTSUP);
    CHECK(refused([] { punctual::irq_preview_steer({}, {}); }) == EINVAL);
    CHECK(punctual::irq_preview("/no/such/journal").changes.empty());
    const auto plan = punctual::irq_preview_steer({4000000}, {0});
    CHECK(plan.changes.empty() && plan.skipped.size() == 1 && plan.skipped[0].irq == 4000000);
    CHECK(plan.skipped[0].reason == "it no longer exists");
}

void drained_rings()
{
    punctual::ring<std::uint64_t> ring(8);
    std::uint64_t records[8] = {};
    CHECK(ring.drain(records, 8) == 0);
    for (std::uint64_t i = 0; i < 8; i++)
        CHECK(ring.push(i));
    CHECK(ring.drain(records, 3) == 3 && records[2] == 2 && records[3] == 0);
    CHECK(ring.drain(records, 8) == 5 && records[0] == 3 && records[4] == 7);
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

// The latest possible instant: it waits.
void far_instants()
{
    using namespace std::chrono;
    punctual::mutex mutex;
    const auto gets_it = [&mutex](auto lock) {
        mutex.lock();
        std::atomic<bool> waits{false};
        bool got = false;
        punctual::thread other(punctual::attributes(), [&] {
            waits = true;
            got = lock();
            if (got)
                mutex.unlock();
        });
        while (!waits)
            std::this_thread::yield();
        // It may not have reached the lock yet; if it gave up, it would do so within this time.
        std::this_thread::sleep_for(20ms);
        mutex.unlock();
        other.join();
        return got;
    };
    CHECK(gets_it([&mutex] { return mutex.try_lock_for(nanoseconds::max()); }));
    CHECK(gets_it([&mutex] { return mutex.try_lock_for(hours::max()); }));
    CHECK(gets_it([&mutex] { return mutex.try_lock_for(duration<double>(1e300)); }));
    CHECK(gets_it([&mutex] { return mutex.try_lock_until(steady_clock::time_point::max()); }));
    CHECK(gets_it([&mutex] {
        return mutex.try_lock_until(time_point<steady_clock, hours>(hours::max()));
    }));
    CHECK(!gets_it([&mutex] { return mutex.try_lock_for(nanoseconds::min()); }));
    CHECK(!gets_it([&mutex] { return mutex.try_lock_for(hours::min()); }));
    CHECK(!gets_it([&mutex] { return mutex.try_lock_for(1ns); }));
}

void waits_for_a_time()
{
    using namespace std::chrono;
    punctual::mutex mutex;
    punctual::condvar condvar;
    bool ready = false;
    std::unique_lock lock(mutex);
    const auto begun = steady_clock::now();
    while (condvar.wait_for(lock, 2ms))
        continue;
    CHECK(steady_clock::now() - begun >= 2ms && lock.owns_lock());
    CHECK(!condvar.wait_for(lock, 1ms, [&ready] { return ready; }));
    CHECK(!condvar.wait_for(lock, -1h) && !condvar.wait_for(lock, hours::min()));
    punctual::thread other(punctual::attributes(), [&] {
        const std::scoped_lock guard(mutex);
        ready = true;
        condvar.notify_one();
    });
    CHECK(condvar.wait_for(lock, hours::max(), [&ready] { return ready; }));
    lock.unlock();
}

// The parent's threads don't exist in a child of fork(), which doesn't wait for them.
void forked()
{
    std::atomic<bool> ends{false};
    auto one = std::make_unique<punctual::thread>(punctual::attributes(), [&ends] {
        while (!ends)
            std::this_thread::yield();
    });
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        CHECK(refused([&one] { one->join(); }) == ESRCH);
        CHECK(refused([&one] { one->try_join(); }) == ESRCH);
        one.reset();
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    ends = true;
    one->join();
    CHECK(punctual::thread().native_handle() == 0 && punctual::thread().tid() == -1);
}

void channels()
{
    CHECK(refused([] { punctual::channel("nowhere", std::chrono::steady_clock::now()); }) == EINVAL);
    CHECK(refused([] { punctual::channel_listener("192.0.2.1:0"); }) == EADDRNOTAVAIL);
    CHECK(refused([] { punctual::channel(-1); }) == EBADF);
    punctual::channel_options options;
    CHECK(options.no_delay == 1 && options.message_max == 65536);
    options.pads = 1;
    const punctual::channel_listener listener("127.0.0.1:0", options);
    sockaddr_in at{};
    socklen_t length = sizeof at;
    CHECK(getsockname(listener.native_handle(), reinterpret_cast<sockaddr *>(&at), &length) == 0);
    const std::string address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    const auto soon = std::chrono::steady_clock::now() + 60s;
    punctual::channel one(address.c_str(), soon, options);
    punctual::channel other(listener, soon);
    CHECK(one.native_handle() != other.native_handle());
    CHECK(one.settings().size() == 10 && one.settings()[0].outcome == PUNCTUAL_CHANNEL_IN_FORCE);
    punctual::channel_message message;
    CHECK(!other.try_receive(message) && errno == EAGAIN);
    CHECK(!other.receive_until(message, std::chrono::steady_clock::now()) && errno == ETIME);
    CHECK(one.send("word", 4, 1h) && one.send("end", 3, 0ns, PUNCTUAL_CHANNEL_MORE) && one.flush());
    CHECK(other.receive(message) && message.size == 4 && message.deadline_ns == 3600000000000u);
    CHECK(other.receive_until(message, soon) && !std::memcmp(message.data, "end", 3));
    CHECK(one.counts().sent == 2 && one.counts().padding_sent == 1);
    CHECK(one.finish() && !other.receive(message) && errno == EPIPE);
    // The connection moves with the object, and is closed once.
    punctual::channel moved = std::move(one);
    CHECK(moved.counts().sent == 2);
    const int fd = moved.native_handle();
    {
        const punctual::channel last = std::move(moved);
        CHECK(last.native_handle() == fd);
    }
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
    timed_locks();
    robust_mutexes();
    condition_variables();
    detached_threads();
    small_ones();
    drained_rings();
    loops_and_rings();
    far_instants();
    waits_for_a_time();
    forked();
    channels();
    return 0;
}
