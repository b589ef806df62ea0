/* Does one wrong thing, named by its argument; run with PUNCTUAL_STACK_DEBUG. */
#include <unistd.h>

#include "check.h"
#include "punctual.h"

/* Not static: a backtrace names what is exported. */
char *allocated_here(void);
void freed_here(void *stack);

char *allocated_here(void)
{
    return (char *)punctual_stack_alloc(65536);
}

void freed_here(void *stack)
{
    CHECK(punctual_stack_free(stack, 65536) == 0);
}

int main(int count, char **arguments)
{
    const char *wrong = count > 1 ? arguments[1] : "";
    char *stack = allocated_here();

    CHECK(stack != NULL);
    if (strcmp(wrong, "nothing") == 0) {
        freed_here(stack);
        freed_here(allocated_here());
    } else if (strcmp(wrong, "double") == 0) {
        freed_here(stack);
        CHECK(punctual_stack_free(stack, 65536) == -1 && errno == EINVAL);
    } else if (strcmp(wrong, "class") == 0) {
        CHECK(punctual_stack_free(stack, 131072) == -1 && errno == EINVAL);
        freed_here(stack);
    } else if (strcmp(wrong, "write") == 0) {
        freed_here(stack);
        ((volatile char *)stack)[4660] = 1;
        freed_here(allocated_here());
    } else if (strcmp(wrong, "water") == 0) {
        memset(stack + 65536 - 5000, 1, 5000);
        CHECK(punctual_stack_high_water(stack) >= 5000 && punctual_stack_high_water(stack) < 5008);
        freed_here(stack);
        CHECK(allocated_here() == stack && punctual_stack_high_water(stack) == 0);
        freed_here(stack);
    } else {
        CHECK(strcmp(wrong, "leak") == 0);
    }
    return 0;
}
