/* Looks up the functions of the allocator below, and has the early arena. */
#include "next.h"
#include <dlfcn.h>
#include <stdint.h>

#define ARENA_BYTES ((size_t)256 << 10)

struct rec_next rec_next;
bool rec_ready;

static char arena[ARENA_BYTES] __attribute__((aligned(64)));
static size_t arena_used;
static bool finding;

/* Contains its own address once the dynamic loader has relocated this library. Before that, it contains the value from the file. */
static void *volatile own_address = (void *)&own_address;

/* Stores the size of a block in the word before the block. Takes no lock, because the process has one thread until `rec_next` is complete. */
void *rec_early_alloc(size_t size, size_t align)
{
    uintptr_t start = (uintptr_t)arena;
    align = align < 16 ? 16 : align;
    if (size > ARENA_BYTES || align > ARENA_BYTES)
        return NULL;
    size_t at = ((start + arena_used + sizeof(size_t) + align - 1) & ~(align - 1)) - start;
    if (at > ARENA_BYTES - size)
        return NULL;
    arena_used = at + size;
    ((size_t *)(void *)(arena + at))[-1] = size;
    return arena + at;
}

bool rec_is_early(const void *block) { return (uintptr_t)block - (uintptr_t)arena < ARENA_BYTES; }
size_t rec_early_size(const void *block) { return ((const size_t *)block)[-1]; }

bool rec_find_next(void)
{
    if ((uintptr_t)own_address != (uintptr_t)&own_address || finding)
        return false;
    finding = true;
#define FIND(name) rec_next.name = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);
    REC_FUNCTIONS(FIND)
    /* The other functions may be missing, because the C library may lack them. For example, musl lacks pvalloc. */
    rec_ready = rec_next.malloc != NULL && rec_next.free != NULL && rec_next.calloc != NULL && rec_next.realloc != NULL;
    finding = false;
    return rec_ready;
}

/* Also looks in the C++ library by its name, because RTLD_NEXT does not find a library that was loaded for one module only (RTLD_LOCAL). */
void *rec_find_operator(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found == NULL ? dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return library != NULL ? dlsym(library, name) : found;
}
