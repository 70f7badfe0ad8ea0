/* Allocates from small arenas before HAKMEM can start. Recognizes blocks of another allocator in the break heap, which brk() grows. */
#include "span/bootstrap.h"
#include "base/bits.h"
#include "os/os.h"

#define OWN_BYTES (64 * HK_KIB)
#define MAPPED_BYTES (256 * HK_KIB)
enum { ARENAS = 8 };

static char own_bytes[OWN_BYTES] HK_COLD_DATA HK_ALIGNED(16);

/* The first arena is static memory, so that the first requests need no system call. The other arenas are mapped when they are needed. */
static struct bootstrap_arena {
    char *bytes;
    size_t size, used;
} arenas[ARENAS];

/* Allocates a block from an arena, and writes the block's size into the word before the block. Maps the arena's memory before its first block. */
static void *take_in_arena(struct bootstrap_arena *arena, size_t size, size_t align)
{
    if (arena->bytes == NULL) {
        arena->size = hk_align_up(hk_max(size + align + sizeof(size_t), MAPPED_BYTES), HK_PAGE);
        arena->bytes = hk_os_map_bare(arena->size);
    }
    uintptr_t start = (uintptr_t)arena->bytes;
    size_t at = hk_align_up(start + arena->used + sizeof(size_t), align) - start;
    if (start == 0 || size > arena->size || at > arena->size - size)
        return NULL;
    arena->used = at + size;
    ((size_t *)(void *)(arena->bytes + at))[-1] = size;
    return arena->bytes + at;
}

void *hk_bootstrap_alloc(size_t size, size_t align)
{
    size = hk_max(size, sizeof(size_t));
    align = hk_max(align, 16);
    arenas[0].bytes = own_bytes; /* assigned here, because a static initializer would need a relocation */
    arenas[0].size = OWN_BYTES;
    void *block = NULL;
    for (unsigned i = 0; size <= PTRDIFF_MAX / 4 && align <= PTRDIFF_MAX / 4 && i < ARENAS && block == NULL; i++)
        block = take_in_arena(&arenas[i], size, align);
    return block;
}

size_t hk_bootstrap_size(const void *p)
{
    for (unsigned i = 0; i < ARENAS && arenas[i].bytes != NULL; i++) {
        uintptr_t offset = (uintptr_t)p - (uintptr_t)arenas[i].bytes;
        if (offset < arenas[i].size && offset > 0)
            return ((const size_t *)p)[-1];
    }
    return SIZE_MAX;
}

/* The address at which the break heap starts is field 47 of /proc/self/stat. Field 2 is the program's name in parentheses, which may itself contain
 * spaces and parentheses. Therefore the fields are counted from the last parenthesis on. */
enum { FIELD_AFTER_NAME = 3, FIELD_START_BREAK = 47 };

static uintptr_t break_start(void)
{
    char text[1024];
    size_t length = hk_os.read_file("/proc/self/stat", text, sizeof text);
    const char *at = text + length;
    while (at > text && *at != ')')
        at--;
    for (int field = FIELD_AFTER_NAME - 1; field < FIELD_START_BREAK && *at != 0; at++)
        field += *at == ' ';
    uint64_t start = hk_number_in(at);
    return start != UINT64_MAX ? start : 0;
}

size_t hk_foreign_readable(const void *p)
{
    uintptr_t address = (uintptr_t)p, start = break_start(), end = hk_os.program_break();
    return start != 0 && address >= start && address < end ? end - address : 0;
}
