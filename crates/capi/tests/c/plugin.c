/* What a plugin has of the library: linked into a shared object. */
#include "punctual.h"

void *plugin_alloc(size_t size);
int plugin_free(void *stack, size_t size);

void *plugin_alloc(size_t size)
{
    return punctual_stack_alloc(size);
}

int plugin_free(void *stack, size_t size)
{
    return punctual_stack_free(stack, size);
}
