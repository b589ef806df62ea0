// punctual.hpp - punctual.h for C++17: objects that release what they own
//
// Constructors are for setting up: they throw std::system_error with errno and the text of
// punctual_last_error(). Functions for real-time sections allocate nothing, and are noexcept or
// throw only for errors of the program, for example a mutex that the thread already holds. They
// return false where the C function returns -1. Instants are those of std::chrono::steady_clock,
// which is CLOCK_MONOTONIC.
#ifndef PUNCTUAL_HPP
#define PUNCTUAL_HPP

// clang also defines __EXCEPTIONS for exceptions of Objective-C, and __cpp_exceptions only for
// C++'s.
#if __cplusplus < 201703L || !defined(__cpp_exceptions)
#error "punctual.hpp needs C++17 and exceptions (without -fno-exceptions): or include punctual.h"
#endif

#include <punctual.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace punctual {

// An exception for the library's last error in the calling thread.
inline std::system_error last_error(const char *what)
{
    const int number = errno;
    return std::system_error(number, std::generic_category(),
                             std::string(what) + ": " + punctual_last_error());
}

namespace detail {

// Converts to ns, rounded up: 0 if negative, and the largest value from 146 years on.
template <class Rep, class Period>
std::chrono::nanoseconds bounded(std::chrono::duration<Rep, Period> time) noexcept
{
    using std::chrono::nanoseconds;
    const std::chrono::duration<double, std::nano> rough = time;
    if (!(rough.count() > 0))
        return nanoseconds::zero();
    if (rough >= nanoseconds::max() / 2)
        return nanoseconds::max();
    return std::chrono::ceil<nanoseconds>(time);
}

template <class Rep, class Period>
std::chrono::steady_clock::time_point from_now(std::chrono::duration<Rep, Period> time) noexcept
{
    using clock = std::chrono::steady_clock;
    const clock::time_point now = clock::now();
    const std::chrono::nanoseconds left = clock::time_point::max() - now;
    return now + std::min(bounded(time), left);
}

} // namespace detail

// Converts an instant for the C functions, rounded up.
template <class Duration>
timespec instant(std::chrono::time_point<std::chrono::steady_clock, Duration> at) noexcept
{
    const auto ns = detail::bounded(at.time_since_epoch()).count();
    return punctual_timespec(static_cast<std::uint64_t>(ns));
}

// Grows and keeps the heap, prefaults the caller's stack, locks all memory: call it first in
// main().
inline void prepare_memory(std::size_t heap, std::size_t stack)
{
    if (punctual_memory_prepare(heap, stack) != 0)
        throw last_error("memory");
}

// The page faults of the calling thread since this object was constructed.
class fault_mark {
public:
    // Two system calls.
    fault_mark() noexcept
    {
        mark_.struct_size = sizeof mark_;
        punctual_faults_mark(&mark_);
    }
    // One system call; on the thread that constructed it.
    std::int64_t late() const noexcept { return punctual_late_faults(&mark_); }
    // The same by kind, and preemptions. One system call; on the thread that constructed it.
    punctual_faults since() const noexcept
    {
        punctual_faults found{};
        found.struct_size = sizeof found;
        punctual_faults_since(&mark_, &found);
        return found;
    }

private:
    punctual_faults mark_{};
};

// The largest number of bytes that any stack of exactly `size` bytes was seen to use; -1 with
// errno. No such stack may be freed meanwhile.
inline std::ptrdiff_t stack_high_water_of_class(std::size_t size) noexcept
{
    return punctual_stack_high_water_of_class(size);
}

// A guarded, prefaulted stack.
class stack {
public:
    // Of the smallest class with at least `size` bytes.
    explicit stack(std::size_t size) : stack(size, std::nothrow)
    {
        if (!data_)
            throw last_error("stack");
    }
    // For real-time threads, while a stack of the class is free: on failure it converts to false.
    stack(std::size_t size, const std::nothrow_t &) noexcept : size_(punctual_stack_class(size))
    {
        data_ = size_ == 0 ? nullptr : punctual_stack_alloc(size_);
    }
    stack(stack &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
    {
    }
    stack &operator=(stack &&other) noexcept
    {
        stack(std::move(other)).swap(*this);
        return *this;
    }
    // Ends the program if the stack is marked by set_live(true), or if the caller runs on it,
    // like an unjoined std::thread. Any other stack is freed, even if an unmarked thread still
    // runs on it.
    ~stack()
    {
        if (data_ && punctual_stack_free(data_, size_) != 0)
            std::terminate();
    }

    void swap(stack &other) noexcept
    {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }
    explicit operator bool() const noexcept { return data_ != nullptr; }
    // Call it before a thread is started on the stack, and after it was joined; false with errno.
    bool set_live(bool live) noexcept
    {
        return punctual_stack_set_live(data_, live ? 1 : 0) == 0;
    }
    // The lowest address, as in pthread_attr_setstack().
    void *data() const noexcept { return data_; }
    // The first address above the stack.
    void *top() const noexcept { return static_cast<char *>(data_) + size(); }
    std::size_t size() const noexcept { return data_ ? size_ : 0; }
    // Bytes without access below it, and above it.
    std::size_t guard_size() const noexcept { return data_ ? punctual_stack_guard_size(size_) : 0; }
    // The largest number of bytes that were ever in use. Not for real-time threads: it reads the
    // stack.
    std::ptrdiff_t high_water() const noexcept { return punctual_stack_high_water(data_); }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

// The settings of a thread; the strings must live until it is constructed.
struct attributes : punctual_thread_attr {
    attributes() noexcept : punctual_thread_attr{} { struct_size = sizeof(punctual_thread_attr); }

    attributes &fifo(int level) noexcept { return with(PUNCTUAL_FIFO, level); }
    attributes &round_robin(int level) noexcept { return with(PUNCTUAL_RR, level); }
    attributes &deadline(std::chrono::nanoseconds runtime, std::chrono::nanoseconds within,
                         std::chrono::nanoseconds period) noexcept
    {
        runtime_ns = static_cast<std::uint64_t>(runtime.count());
        deadline_ns = static_cast<std::uint64_t>(within.count());
        period_ns = static_cast<std::uint64_t>(period.count());
        return with(PUNCTUAL_DEADLINE, 0);
    }
    // A list of CPUs, "1" or "2-3".
    attributes &on_cpus(const char *list) noexcept { return cpus = list, *this; }
    attributes &named(const char *text) noexcept { return name = text, *this; }
    attributes &with_stack(std::size_t bytes) noexcept { return stack_size = bytes, *this; }
    attributes &with_signals() noexcept { return flags |= PUNCTUAL_THREAD_SIGNALS, *this; }

private:
    attributes &with(int which, int level) noexcept
    {
        policy = which;
        priority = level;
        return *this;
    }
};

// Applies the attributes, except the stack, to the calling thread.
inline void thread_apply(const punctual_thread_attr &attr)
{
    if (punctual_thread_apply(&attr) != 0)
        throw last_error("thread");
}

// A thread that is joined when it goes out of scope, unless it was detached. An exception out of
// its function ends the program.
class thread {
public:
    thread() noexcept = default;
    template <class Function> thread(const punctual_thread_attr &attr, Function &&function)
    {
        static_assert(std::is_invocable_v<std::decay_t<Function> &>, "called without arguments");
        using Kept = kept<std::decay_t<Function>>;
        // Owned by this object: the thread itself calls neither new nor delete, unless it is
        // detached.
        auto work = std::make_unique<Kept>(std::forward<Function>(function));
        if (punctual_thread_create(&thread_, &attr, run<Kept>, work.get()) != 0) {
            const std::system_error error = last_error("thread");
            thread_ = nullptr;
            throw error;
        }
        work_ = std::move(work);
    }
    thread(thread &&other) noexcept
        : thread_(std::exchange(other.thread_, nullptr)), work_(std::move(other.work_))
    {
    }
    // Joins the thread that it owned before.
    thread &operator=(thread &&other) noexcept
    {
        if (this != &other) {
            end();
            thread_ = std::exchange(other.thread_, nullptr);
            work_ = std::move(other.work_);
        }
        return *this;
    }
    ~thread() { end(); }

    bool joinable() const noexcept { return thread_ != nullptr; }
    // EDEADLK in the thread itself; EINVAL without a thread; ESRCH in a child of fork().
    void join()
    {
        if (!thread_)
            throw std::system_error(EINVAL, std::generic_category(), "join: no thread");
        if (punctual_thread_join(thread_, nullptr) != 0)
            throw last_error("join");
        joined();
    }
    // False if it has not ended: one system call. EINVAL without a thread.
    bool try_join()
    {
        return ended(punctual_thread_tryjoin(thread_, nullptr), EBUSY);
    }
    // False if it has not ended by then.
    template <class Duration>
    bool join_until(std::chrono::time_point<std::chrono::steady_clock, Duration> at)
    {
        const timespec until = instant(at);
        return ended(punctual_thread_timedjoin(thread_, nullptr, &until), ETIMEDOUT);
    }
    // The thread isn't joined any more, and destroys its function itself when it ends.
    void detach() noexcept
    {
        if (!thread_)
            return;
        punctual_thread_detach(std::exchange(thread_, nullptr));
        work_.release()->leave(left_by_its_object);
    }
    pid_t tid() const noexcept { return punctual_thread_tid(thread_); }
    // For pthread_kill() and similar; of a joinable thread.
    pthread_t native_handle() const noexcept { return punctual_thread_pthread(thread_); }

private:
    enum owner { both, left_by_its_object, left_by_its_thread };
    struct anything {
        virtual ~anything() = default;
        // The last of thread and object destroys it.
        void leave(owner who) noexcept
        {
            if (left_.exchange(who, std::memory_order_acq_rel) != both)
                delete this;
        }

    private:
        std::atomic<owner> left_{both};
    };
    // Also called when pthread_exit() or pthread_cancel() unwind.
    struct leaving {
        explicit leaving(anything &work) noexcept : work_(work) {}
        leaving(const leaving &) = delete;
        leaving &operator=(const leaving &) = delete;
        ~leaving() { work_.leave(left_by_its_thread); }

    private:
        anything &work_;
    };
    template <class Function> struct kept final : anything {
        template <class From> explicit kept(From &&from) : function(std::forward<From>(from)) {}
        Function function;
    };

    template <class Kept> static void *run(void *work)
    {
        const leaving at_end(*static_cast<Kept *>(work));
        try {
            static_cast<Kept *>(work)->function();
#ifdef __GLIBCXX__
        } catch (abi::__forced_unwind &) {
            // pthread_exit() and pthread_cancel() unwind with an exception that must be rethrown.
            throw;
#endif
        } catch (...) {
            std::terminate();
        }
        return nullptr;
    }
    // A thread that destroyed its own object would use freed memory. In a child of fork() there
    // is no thread to wait for.
    void end() noexcept
    {
        if (thread_ && punctual_thread_join(thread_, nullptr) != 0) {
            if (errno != ESRCH)
                std::terminate();
            punctual_thread_detach(thread_);
        }
        joined();
    }
    void joined() noexcept
    {
        thread_ = nullptr;
        work_.reset();
    }
    // The errno of a join that may fail.
    bool ended(int answer, int not_yet)
    {
        if (!thread_)
            throw std::system_error(EINVAL, std::generic_category(), "join: no thread");
        if (answer != 0 && errno == not_yet)
            return false;
        if (answer != 0)
            throw last_error("join");
        joined();
        return true;
    }

    punctual_thread *thread_ = nullptr;
    std::unique_ptr<anything> work_;
};

enum class overrun { skip = PUNCTUAL_SKIP, catch_up = PUNCTUAL_CATCH_UP };

// One cycle of a loop.
struct cycle : punctual_cycle {
    cycle() noexcept : punctual_cycle{} { struct_size = sizeof(punctual_cycle); }
};

// A periodic loop of the thread that constructed it.
class loop {
public:
    // The first cycle is due one period from now.
    explicit loop(std::chrono::nanoseconds period, overrun policy = overrun::skip)
    {
        const auto ns = period.count() < 0 ? 0 : static_cast<std::uint64_t>(period.count());
        if (punctual_loop_init(&loop_, ns, static_cast<int>(policy)) != 0)
            throw last_error("loop");
    }
    loop(const loop &) = delete;
    loop &operator=(const loop &) = delete;

    // Waits until the next due instant: one system call. False: a signal handler ran, and the
    // same period is still due.
    bool wait() noexcept { return punctual_loop_wait(&loop_, nullptr) == 0; }
    bool wait(cycle &out) noexcept { return punctual_loop_wait(&loop_, &out) == 0; }
    std::uint64_t missed() const noexcept { return punctual_loop_missed(&loop_); }
    std::uint64_t cycles() const noexcept { return punctual_loop_cycles(&loop_); }

private:
    punctual_loop loop_;
};

// For mutex: if a thread ends while it holds the mutex, the next lock succeeds.
struct robust_t {
    explicit robust_t() = default;
};
inline constexpr robust_t robust{};

// A mutex with priority inheritance, for std::scoped_lock, std::lock_guard and std::unique_lock.
// No system call without contention.
class mutex {
public:
    using native_handle_type = pthread_mutex_t *;

    mutex() : mutex(false) {}
    explicit mutex(robust_t) : mutex(true) {}
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;
    ~mutex() { pthread_mutex_destroy(&mutex_); }

    // Throws EDEADLK if the caller already holds it, ENOTRECOVERABLE if a robust one was unlocked
    // before it was made consistent.
    void lock()
    {
        const int number = pthread_mutex_lock(&mutex_);
        if (!taken(number))
            throw std::system_error(number, std::generic_category(), "lock");
    }
    bool try_lock() noexcept { return taken(pthread_mutex_trylock(&mutex_)); }
    // False if it is not free by then. Throws like lock(), and ENOTSUP if the kernel (before
    // 5.14) or the C library (before glibc 2.35) can't wait until an instant.
    template <class Duration>
    bool try_lock_until(std::chrono::time_point<std::chrono::steady_clock, Duration> at)
    {
        const timespec until = instant(at);
        const int number = punctual_mutex_lock_until(&mutex_, &until) == 0 ? 0 : errno;
        if (!taken(number) && number != ETIMEDOUT)
            throw last_error("lock");
        return number != ETIMEDOUT;
    }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> time)
    {
        return try_lock_until(detail::from_now(time));
    }
    // If another thread than the holder calls it, the program ends: the protected data can't be
    // trusted.
    void unlock() noexcept
    {
        if (pthread_mutex_unlock(&mutex_) != 0)
            std::terminate();
    }
    // Of a robust mutex, by its holder: whether the previous holder ended without unlocking it.
    // Call make_consistent() once the protected data are consistent; otherwise every lock after
    // the unlock fails.
    bool owner_died() const noexcept { return owner_died_; }
    void make_consistent()
    {
        if (punctual_mutex_make_consistent(&mutex_) != 0)
            throw last_error("mutex");
        owner_died_ = false;
    }
    native_handle_type native_handle() noexcept { return &mutex_; }

private:
    friend class condvar;

    explicit mutex(bool outlives)
    {
        pthread_mutexattr_t attr;
        if ((outlives ? punctual_mutexattr_init_robust(&attr) : punctual_mutexattr_init(&attr)) != 0)
            throw last_error("mutex");
        const int number = pthread_mutex_init(&mutex_, &attr);
        pthread_mutexattr_destroy(&attr);
        if (number != 0)
            throw std::system_error(number, std::generic_category(), "mutex");
    }
    // Whether the caller holds the mutex after a lock that returned this.
    bool taken(int number) noexcept
    {
        if (number == 0 || number == EOWNERDEAD)
            owner_died_ = number != 0;
        return number == 0 || number == EOWNERDEAD;
    }

    pthread_mutex_t mutex_;
    bool owner_died_ = false;
};

// A condition variable of one mutex; one system call per wait.
class condvar {
public:
    condvar() noexcept = default;
    condvar(const condvar &) = delete;
    condvar &operator=(const condvar &) = delete;

    // It may end without a notification: check the condition again. Throws EPERM if the mutex is
    // not held, EOWNERDEAD if a robust one is not consistent, and ENOTRECOVERABLE if it becomes
    // unrecoverable meanwhile: then it isn't held.
    void wait(std::unique_lock<mutex> &lock)
    {
        held(lock, punctual_condvar_wait(&condvar_, native(lock)));
    }
    template <class Condition> void wait(std::unique_lock<mutex> &lock, Condition condition)
    {
        while (!condition())
            wait(lock);
    }
    // False when the instant was reached, true if it ended earlier; the mutex is held.
    template <class Duration>
    bool wait_until(std::unique_lock<mutex> &lock,
                    std::chrono::time_point<std::chrono::steady_clock, Duration> at)
    {
        const timespec until = instant(at);
        return held(lock, punctual_condvar_wait_until(&condvar_, native(lock), &until));
    }
    // Whether the condition is true, at the instant at the latest.
    template <class Duration, class Condition>
    bool wait_until(std::unique_lock<mutex> &lock,
                    std::chrono::time_point<std::chrono::steady_clock, Duration> at,
                    Condition condition)
    {
        while (!condition())
            if (!wait_until(lock, at))
                return condition();
        return true;
    }
    // The same, with a duration from now.
    template <class Rep, class Period>
    bool wait_for(std::unique_lock<mutex> &lock, std::chrono::duration<Rep, Period> time)
    {
        return wait_until(lock, detail::from_now(time));
    }
    template <class Rep, class Period, class Condition>
    bool wait_for(std::unique_lock<mutex> &lock, std::chrono::duration<Rep, Period> time,
                  Condition condition)
    {
        return wait_until(lock, detail::from_now(time), std::move(condition));
    }
    void notify_one() noexcept { punctual_condvar_notify_one(&condvar_); }
    void notify_all() noexcept { punctual_condvar_notify_all(&condvar_); }

private:
    static pthread_mutex_t *native(std::unique_lock<mutex> &lock)
    {
        if (!lock.owns_lock())
            throw std::system_error(EPERM, std::generic_category(), "wait: the mutex is not held");
        // Unlocked in this state, the mutex could never be locked again.
        if (lock.mutex()->owner_died())
            throw std::system_error(EOWNERDEAD, std::generic_category(), "wait: not consistent");
        return lock.mutex()->native_handle();
    }
    // Whether a wait was notified.
    static bool held(std::unique_lock<mutex> &lock, int answer)
    {
        const int number = answer == 0 ? 0 : errno;
        if (lock.mutex()->taken(number == ETIMEDOUT ? 0 : number))
            return number != ETIMEDOUT;
        const std::system_error error = last_error("wait");
        // The mutex is not held any more.
        lock.release();
        throw error;
    }

    punctual_condvar condvar_{};
};

// From one thread to another; wait-free.
template <class Record> class ring {
    static_assert(std::is_trivially_copyable_v<Record>, "records are copied as bytes");

public:
    // For at least `capacity` records, prefaulted.
    explicit ring(std::size_t capacity) : ring_(punctual_ring_create(sizeof(Record), capacity))
    {
        if (!ring_)
            throw last_error("ring");
    }

    // False: full; the record is lost, and counted.
    bool push(const Record &record) noexcept
    {
        return punctual_ring_push(ring_.get(), std::addressof(record)) == 0;
    }
    // False: empty.
    bool pop(Record &record) noexcept
    {
        return punctual_ring_pop(ring_.get(), std::addressof(record)) == 1;
    }
    // Copies the oldest records, at most `room`, into an array; returns how many.
    std::size_t drain(Record *records, std::size_t room) noexcept
    {
        const ssize_t count = punctual_ring_drain(ring_.get(), records, room);
        return count < 0 ? 0 : static_cast<std::size_t>(count);
    }
    std::uint64_t lost() const noexcept { return punctual_ring_lost(ring_.get()); }

private:
    struct destroy {
        void operator()(punctual_ring *ring) const noexcept { punctual_ring_destroy(ring); }
    };
    std::unique_ptr<punctual_ring, destroy> ring_;
};

// A received message; its bytes are in the memory of the channel until the next one is received.
struct channel_message : punctual_channel_message {
    channel_message() noexcept : punctual_channel_message{}
    {
        struct_size = sizeof(punctual_channel_message);
    }
};

// The options of a channel: those that make messages arrive sooner.
struct channel_options : punctual_channel_options {
    channel_options() noexcept : punctual_channel_options{}
    {
        struct_size = sizeof(punctual_channel_options);
        punctual_channel_defaults(this);
    }
};

// A socket that listens for channels.
class channel_listener {
public:
    explicit channel_listener(const char *address, const channel_options &options = {})
        : options_(options), fd_(punctual_channel_listen(address, &options))
    {
        if (fd_ < 0)
            throw last_error("listen");
    }
    channel_listener(const channel_listener &) = delete;
    channel_listener &operator=(const channel_listener &) = delete;
    ~channel_listener() { ::close(fd_); }

    // For getsockname() and poll().
    int native_handle() const noexcept { return fd_; }
    const channel_options &options() const noexcept { return options_; }

private:
    channel_options options_;
    int fd_;
};

// Messages over TCP. One thread at a time may send, and one may receive.
class channel {
public:
    static constexpr std::uint64_t no_limit = UINT64_MAX;

    // Connects to a numeric address, such as "10.0.0.2:7000".
    template <class Duration>
    channel(const char *address, std::chrono::time_point<std::chrono::steady_clock, Duration> until,
            const channel_options &options = {})
        : channel(punctual_channel_connect(address, ns(until), &options), "connect")
    {
    }
    // Accepts a peer, with the options of the listener.
    template <class Duration>
    channel(const channel_listener &listener,
            std::chrono::time_point<std::chrono::steady_clock, Duration> until)
        : channel(punctual_channel_accept(listener.native_handle(), ns(until), &listener.options()),
                  "accept")
    {
    }
    // Of a connected socket, which is duplicated.
    explicit channel(int fd, const channel_options &options = {})
        : channel(punctual_channel_open(fd, &options), "channel")
    {
    }

    // False with errno: nothing was sent. True if the kernel has the message, or has its beginning:
    // then flush(), or the next message, sends the rest. One system call while there is room.
    bool send(const void *message, std::size_t size,
              std::chrono::nanoseconds deadline = std::chrono::nanoseconds::zero(),
              unsigned flags = 0) noexcept
    {
        const auto ns = deadline.count() < 0 ? 0 : static_cast<std::uint64_t>(deadline.count());
        return punctual_channel_send(channel_.get(), message, size, ns, flags) >= 0;
    }
    // The rest of a message, until an instant in ns; 0 does not wait.
    bool flush(std::uint64_t until_ns = no_limit) noexcept
    {
        return punctual_channel_flush(channel_.get(), until_ns) == 0;
    }
    // False with errno: EPIPE after the last message.
    bool receive(channel_message &out) noexcept { return receive_until_ns(out, no_limit); }
    bool try_receive(channel_message &out) noexcept { return receive_until_ns(out, 0); }
    template <class Duration>
    bool receive_until(channel_message &out,
                       std::chrono::time_point<std::chrono::steady_clock, Duration> at) noexcept
    {
        return receive_until_ns(out, ns(at));
    }
    // No message follows.
    bool finish() noexcept { return punctual_channel_finish(channel_.get()) == 0; }
    struct punctual_channel_counts counts() const noexcept
    {
        struct punctual_channel_counts found{};
        found.struct_size = sizeof found;
        punctual_channel_counts(channel_.get(), &found);
        return found;
    }
    // What became of each option of the socket.
    std::vector<struct punctual_channel_setting> settings() const
    {
        std::vector<struct punctual_channel_setting> all;
        struct punctual_channel_setting one{};
        one.struct_size = sizeof one;
        while (punctual_channel_setting(channel_.get(), all.size(), &one) == 1)
            all.push_back(one);
        return all;
    }
    int native_handle() const noexcept { return punctual_channel_fd(channel_.get()); }

private:
    struct close_it {
        void operator()(punctual_channel *channel) const noexcept
        {
            punctual_channel_close(channel);
        }
    };
    channel(punctual_channel *made, const char *what) : channel_(made)
    {
        if (!channel_)
            throw last_error(what);
    }
    template <class Duration>
    static std::uint64_t ns(std::chrono::time_point<std::chrono::steady_clock, Duration> at) noexcept
    {
        return static_cast<std::uint64_t>(detail::bounded(at.time_since_epoch()).count());
    }
    bool receive_until_ns(channel_message &out, std::uint64_t until_ns) noexcept
    {
        return punctual_channel_receive(channel_.get(), until_ns, &out) == 0;
    }

    std::unique_ptr<punctual_channel, close_it> channel_;
};

// The CPUs of the tasks in a processor set now, as a list like "0-3,8".
inline std::string cpuset_cpus(const char *name)
{
    for (std::string list(256, '\0');; list.resize(list.size() * 2)) {
        const ssize_t length = punctual_cpuset_cpus(name, list.data(), list.size());
        if (length >= 0)
            return list.resize(static_cast<std::size_t>(length)), list;
        if (errno != ERANGE)
            throw last_error("processor set");
    }
}

// What steering or restoring interrupts would do; the number -1 is the default of new interrupts.
struct irq_plan {
    struct change {
        int irq;
        std::string now, then;
    };
    struct skip {
        int irq;
        std::string reason;
    };
    std::vector<change> changes;
    std::vector<skip> skipped;
};

namespace detail {

// An exception must not unwind through the library.
struct irq_told {
    irq_plan plan;
    bool whole = true;

    template <class Add> void add(Add add) noexcept
    {
        try {
            add();
        } catch (...) {
            whole = false;
        }
    }
    irq_plan finished(ssize_t answer)
    {
        if (answer < 0)
            throw last_error("interrupts");
        if (!whole)
            throw std::bad_alloc();
        return std::move(plan);
    }
};

extern "C" inline void punctual_hpp_irq_change(int irq, const char *now, const char *then, void *to)
{
    irq_told &told = *static_cast<irq_told *>(to);
    told.add([&] { told.plan.changes.push_back({irq, now, then}); });
}
extern "C" inline void punctual_hpp_irq_skip(int irq, const char *reason, void *to)
{
    irq_told &told = *static_cast<irq_told *>(to);
    told.add([&] { told.plan.skipped.push_back({irq, reason}); });
}

} // namespace detail

// What punctual_irq_steer() would change; no interrupt means all, including new ones.
inline irq_plan irq_preview_steer(const std::vector<unsigned> &irqs,
                                  const std::vector<unsigned> &cpus)
{
    detail::irq_told told;
    return told.finished(punctual_irq_preview_steer(
        irqs.empty() ? nullptr : irqs.data(), irqs.size(), cpus.data(), cpus.size(),
        detail::punctual_hpp_irq_change, detail::punctual_hpp_irq_skip, &told));
}

// What punctual_irq_restore() would restore.
inline irq_plan irq_preview(const char *journal)
{
    detail::irq_told told;
    return told.finished(punctual_irq_preview(journal, detail::punctual_hpp_irq_change,
                                              detail::punctual_hpp_irq_skip, &told));
}

} // namespace punctual

#endif
