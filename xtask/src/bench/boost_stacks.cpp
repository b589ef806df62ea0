// What boost's stacks cost: a pair of allocation and free of 256 KB, as stack_bench measures
// it. Its pool has no guard pages; its protected stacks have one, and come from the kernel
// each time. Neither is made present: a pair touches the topmost word alone.
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t size = 256 << 10;
constexpr int pieces = 20;

template <typename Stack> void pairs(Stack &stack, int count)
{
    for (int i = 0; i < count; ++i) {
        boost::context::stack_context one = stack.allocate();
        *(static_cast<volatile unsigned long *>(one.sp) - 1) = 1;
        stack.deallocate(one);
    }
}

// The mean of each thread's shortest piece, in ns.
template <typename Stack> double measured(int threads, int count)
{
    std::atomic<int> ready{0};
    std::vector<double> shortest(threads, 1e18);
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread)
        running.emplace_back([&, thread] {
            Stack stack(size); // The pool is not made for several threads.
            const int piece = count / pieces;
            pairs(stack, piece);
            for (++ready; ready < threads;)
                std::this_thread::yield();
            for (int i = 0; i < pieces; ++i) {
                const auto begun = std::chrono::steady_clock::now();
                pairs(stack, piece);
                const std::chrono::duration<double, std::nano> taken =
                    std::chrono::steady_clock::now() - begun;
                shortest[thread] = std::min(shortest[thread], taken.count() / piece);
            }
        });
    double sum = 0;
    for (int thread = 0; thread < threads; ++thread) {
        running[thread].join();
        sum += shortest[thread];
    }
    return sum / threads;
}

} // namespace

int main(int count, char **arguments)
{
    for (int i = 1; i < count; ++i) {
        const int threads = std::atoi(arguments[i]);
        std::printf("boost-pooled\t%d\t%f\n", threads,
                    measured<boost::context::pooled_fixedsize_stack>(threads, 400000));
        std::printf("boost-protected\t%d\t%f\n", threads,
                    measured<boost::context::protected_fixedsize_stack>(threads, 4000));
    }
}
