/* The names that the library uses, and those that it leaves to programs. C89. */
#include <stdlib.h>
#include <string.h>

#ifdef WITHOUT_NAMES
#define PUNCTUAL_NO_STACK_NAMES
/* The program's own names, of other types. */
static const char *stack_alloc(void) { return "mine"; }
static const char *stack_free(void) { return "mine"; }
static const char *fetch_stack_sizes(void) { return "mine"; }
static const char *stack_bounds(void) { return "mine"; }
#endif
typedef char *uint_t;

#include <punctual.h>

#if PUNCTUAL_VERSION < 100
#error "no version"
#endif

int main(void)
{
    unsigned int *sizes = punctual_stack_sizes();
    uint_t name = NULL;
    void *stack = punctual_stack_alloc(65536);

    if (name != NULL || sizes == NULL || sizes[0] != 32768)
        return 1;
    if (stack == NULL || punctual_stack_free(stack, 65536) != 0)
        return 2;
    if (punctual_version() != PUNCTUAL_VERSION)
        return 3;
#ifdef WITHOUT_NAMES
    if (strcmp(stack_alloc(), "mine") != 0 || strcmp(stack_free(), "mine") != 0)
        return 4;
    if (strcmp(fetch_stack_sizes(), "mine") != 0 || strcmp(stack_bounds(), "mine") != 0)
        return 5;
#else
    {
        unsigned int *again = fetch_stack_sizes();
        size_t stack_bounds = 0; /* a name of the program's */

        if (again == NULL || memcmp(again, sizes, 8 * sizeof *sizes) != 0)
            return 6;
        free(again);
        stack = stack_alloc(65536);
        if (stack == NULL || stack_free(stack, 32768) != -1)
            return 7;
        if (stack_free(stack, 65536) != 0 || stack_bounds != 0)
            return 8;
    }
#endif
    free(sizes);
    return 0;
}
