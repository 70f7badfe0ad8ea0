#include "entry_points.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Stores the function's address in `slot`. dlsym returns a data pointer, and POSIX guarantees that a function pointer fits into a data pointer. */
static void look_up(void *slot, const char *prefix, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    void *address = dlsym(RTLD_DEFAULT, full);
    memcpy(slot, &address, sizeof address);
}

bool entry_points_find(struct entry_points *table, const char *prefix)
{
    memset(table, 0, sizeof *table);
    table->prefix = prefix;
    look_up(&table->malloc, prefix, "malloc");
    look_up(&table->calloc, prefix, "calloc");
    look_up(&table->realloc, prefix, "realloc");
    look_up(&table->reallocarray, prefix, "reallocarray");
    look_up(&table->aligned_alloc, prefix, "aligned_alloc");
    look_up(&table->memalign, prefix, "memalign");
    look_up(&table->posix_memalign, prefix, "posix_memalign");
    look_up(&table->valloc, prefix, "valloc");
    look_up(&table->pvalloc, prefix, "pvalloc");
    look_up(&table->usable_size, prefix, "malloc_usable_size");
    look_up(&table->free, prefix, "free");
    look_up(&table->free_sized, prefix, "free_sized");
    look_up(&table->free_aligned_sized, prefix, "free_aligned_sized");
    return table->malloc != NULL;
}
