// Stacks that global objects free when they are destroyed, and names that look like the library's.
#include <memory>
#include <string>
#include <vector>

#include "punctual.hpp"

struct Free {
    void operator()(void *stack) const { punctual_stack_free(stack, 65536); }
};

// Before the first stack: it is destroyed after what is registered with that.
static std::unique_ptr<void, Free> freed_at_the_end;

namespace core {
__attribute__((noinline)) void *make()
{
    void *stack = punctual_stack_alloc(65536);

    __asm__ volatile("" : : : "memory");
    return stack;
}
} // namespace core

namespace alloc {
template <class... Types> struct Named {
    __attribute__((noinline)) static void *get()
    {
        void *stack = core::make();

        __asm__ volatile("" : : : "memory");
        return stack;
    }
};
} // namespace alloc

template <class Type> using Nested = std::vector<std::vector<std::unique_ptr<Type>>>;

int main()
{
    freed_at_the_end.reset(core::make());
    // A leak, by way of a long name.
    return alloc::Named<Nested<std::string>, Nested<std::wstring>, Nested<std::u16string>,
                        Nested<Free>>::get() == nullptr;
}
