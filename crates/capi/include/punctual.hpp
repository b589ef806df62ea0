// punctual.hpp - punctual.h for C++17: objects that give back what they hold
//
// Constructors are for setting up: they throw std::system_error with errno and the words of
// punctual_last_error(). What a real-time thread calls in its real-time section is noexcept,
// allocates nothing, and answers false where the C function answers -1.
#ifndef PUNCTUAL_HPP
#define PUNCTUAL_HPP

#include <punctual.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cxxabi.h>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace punctual {

// The last failure of the library in the calling thread, as an exception.
inline std::system_error last_error(const char *what)
{
    const int number = errno;
    return std::system_error(number, std::generic_category(),
                             std::string(what) + ": " + punctual_last_error());
}

// The heap grown and kept, the caller's stack present, all memory locked: first thing in main().
inline void prepare_memory(std::size_t heap, std::size_t stack)
{
    if (punctual_memory_prepare(heap, stack) != 0)
        throw last_error("memory");
}

// The page faults of the calling thread since this object was made.
class fault_mark {
public:
    // Two system calls.
    fault_mark() noexcept
    {
        mark_.struct_size = sizeof mark_;
        punctual_faults_mark(&mark_);
    }
    // One system call; on the thread that made it.
    std::int64_t late() const noexcept { return punctual_late_faults(&mark_); }

private:
    punctual_faults mark_{};
};

// A guarded stack, every page of it present.
class stack {
public:
    // Of the smallest class with at least `size` bytes.
    explicit stack(std::size_t size) : stack(size, std::nothrow)
    {
        if (!data_)
            throw last_error("stack");
    }
    // For real-time threads, while one of the class is free: on failure it converts to false.
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
    // A stack that is marked by set_live(true), or that the caller runs on, ends the program, as a
    // thread not joined does. Any other is taken back: a thread that still ran on it would lose it.
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
    // Before a thread is started on it, and after it was joined; false with errno.
    bool set_live(bool live) noexcept
    {
        return punctual_stack_set_live(data_, live ? 1 : 0) == 0;
    }
    // The lowest address, as pthread_attr_setstack() has it.
    void *data() const noexcept { return data_; }
    // The first address above.
    void *top() const noexcept { return static_cast<char *>(data_) + size(); }
    std::size_t size() const noexcept { return data_ ? size_ : 0; }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

// How a thread is set up; the strings must live until it is made.
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

// A thread that is joined when it goes out of scope. An exception that leaves its function ends
// the program.
class thread {
public:
    thread() noexcept = default;
    template <class Function> thread(const punctual_thread_attr &attr, Function &&function)
    {
        static_assert(std::is_invocable_v<std::decay_t<Function> &>, "called without arguments");
        using Kept = kept<std::decay_t<Function>>;
        // Kept by this object: the thread itself calls neither new nor delete.
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
    // Joins the thread that it was before.
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
    // EDEADLK by the thread itself; EINVAL where there is none.
    void join()
    {
        if (!thread_)
            throw std::system_error(EINVAL, std::generic_category(), "join: no thread");
        if (punctual_thread_join(thread_, nullptr) != 0)
            throw last_error("join");
        thread_ = nullptr;
        work_.reset();
    }
    pid_t tid() const noexcept { return punctual_thread_tid(thread_); }
    // For pthread_kill() and the like; of a joinable thread.
    pthread_t native_handle() const noexcept { return punctual_thread_pthread(thread_); }

private:
    struct anything {
        virtual ~anything() = default;
    };
    template <class Function> struct kept final : anything {
        template <class From> explicit kept(From &&from) : function(std::forward<From>(from)) {}
        Function function;
    };

    template <class Kept> static void *run(void *work)
    {
        try {
            static_cast<Kept *>(work)->function();
#ifdef __GLIBCXX__
        } catch (abi::__forced_unwind &) {
            // pthread_exit() and pthread_cancel() unwind too, and must get through.
            throw;
#endif
        } catch (...) {
            std::terminate();
        }
        return nullptr;
    }
    // A thread that destroys its own object would use what is gone.
    void end() noexcept
    {
        if (thread_ && punctual_thread_join(thread_, nullptr) != 0)
            std::terminate();
        thread_ = nullptr;
        work_.reset();
    }

    punctual_thread *thread_ = nullptr;
    std::unique_ptr<anything> work_;
};

enum class overrun { skip = PUNCTUAL_SKIP, catch_up = PUNCTUAL_CATCH_UP };

// One cycle of a loop.
struct cycle : punctual_cycle {
    cycle() noexcept : punctual_cycle{} { struct_size = sizeof(punctual_cycle); }
};

// A periodic loop of the thread that made it.
class loop {
public:
    // Due first one period from now.
    explicit loop(std::chrono::nanoseconds period, overrun policy = overrun::skip)
    {
        const auto ns = period.count() < 0 ? 0 : static_cast<std::uint64_t>(period.count());
        if (punctual_loop_init(&loop_, ns, static_cast<int>(policy)) != 0)
            throw last_error("loop");
    }
    loop(const loop &) = delete;
    loop &operator=(const loop &) = delete;

    // Until the next due instant: one system call. False: a signal handler ran, and the same
    // period is still due.
    bool wait() noexcept { return punctual_loop_wait(&loop_, nullptr) == 0; }
    bool wait(cycle &out) noexcept { return punctual_loop_wait(&loop_, &out) == 0; }
    std::uint64_t missed() const noexcept { return punctual_loop_missed(&loop_); }
    std::uint64_t cycles() const noexcept { return punctual_loop_cycles(&loop_); }

private:
    punctual_loop loop_;
};

// A mutex with priority inheritance, for std::scoped_lock, std::lock_guard and std::unique_lock.
// No system call without contention.
class mutex {
public:
    using native_handle_type = pthread_mutex_t *;

    mutex()
    {
        pthread_mutexattr_t attr;
        if (punctual_mutexattr_init(&attr) != 0)
            throw last_error("mutex");
        const int number = pthread_mutex_init(&mutex_, &attr);
        pthread_mutexattr_destroy(&attr);
        if (number != 0)
            throw std::system_error(number, std::generic_category(), "mutex");
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;
    ~mutex() { pthread_mutex_destroy(&mutex_); }

    // Throws EDEADLK where the caller has it already.
    void lock()
    {
        const int number = pthread_mutex_lock(&mutex_);
        if (number != 0)
            throw std::system_error(number, std::generic_category(), "lock");
    }
    bool try_lock() noexcept { return pthread_mutex_trylock(&mutex_) == 0; }
    // By another than its holder, it ends the program: what it guards is not to be trusted.
    void unlock() noexcept
    {
        if (pthread_mutex_unlock(&mutex_) != 0)
            std::terminate();
    }
    native_handle_type native_handle() noexcept { return &mutex_; }

private:
    pthread_mutex_t mutex_;
};

// From one thread to one other; wait-free.
template <class Record> class ring {
    static_assert(std::is_trivially_copyable_v<Record>, "records are copied as bytes");

public:
    // For at least `capacity` records, every page present.
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
    std::uint64_t lost() const noexcept { return punctual_ring_lost(ring_.get()); }

private:
    struct destroy {
        void operator()(punctual_ring *ring) const noexcept { punctual_ring_destroy(ring); }
    };
    std::unique_ptr<punctual_ring, destroy> ring_;
};

} // namespace punctual

#endif
