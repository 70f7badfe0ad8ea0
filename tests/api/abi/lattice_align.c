/* Tests each aligning function with many alignments. This is a part of the lattice (lattice.h). */
#include "lattice.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>

enum { PAGE = 4096 };
static const size_t GIB = (size_t)1 << 30;

static void one_alignment(const struct entry_points *api, size_t alignment, size_t size)
{
    size_t promised = alignment < 16 ? 16 : alignment;
    void *p = api->memalign(alignment, size);
    lattice_block_is_good(api, p, size, promised, "memalign");
    void *second = api->aligned_alloc(alignment, size);
    lattice_block_is_good(api, second, size, promised, "aligned_alloc");
    CHECK(p != second, "two live blocks at %p", p);
    api->free(p);
    if (alignment >= sizeof(void *)) {
        void *third = NULL;
        CHECK(api->posix_memalign(&third, alignment, size) == 0, "alignment %zu, size %zu", alignment, size);
        lattice_block_is_good(api, third, size, promised, "posix_memalign");
        if (api->free_aligned_sized) {
            api->free_aligned_sized(third, alignment, size);
        } else {
            api->free(third);
        }
    }
    api->free(second);
}

void lattice_alignments(const struct entry_points *api)
{
    size_t size[256];
    size_t sizes = lattice_edge_sizes(size, sizeof size / sizeof size[0], (size_t)4 << 20);
    for (size_t alignment = 1; alignment <= GIB; alignment *= 2) {
        for (size_t i = 0; i < sizes; i++) {
            one_alignment(api, alignment, size[i]);
        }
        size_t step = lattice_full && alignment <= 64 * 1024 ? 3 : 41;
        for (size_t small = 0; small <= 2048; small += step) {
            one_alignment(api, alignment, small);
        }
        one_alignment(api, alignment, alignment);
        if (alignment < GIB) {
            one_alignment(api, alignment, 3 * alignment);
        }
    }
}

/* Tests an invalid alignment. posix_memalign must return EINVAL and leave the pointer alone. aligned_alloc and memalign may refuse with
 * EINVAL (C11, newer glibc), or round up to a power of two (older glibc). They must never give a smaller alignment. */
static void one_bad_alignment(const struct entry_points *api, size_t alignment)
{
    static char guard;
    void *p = &guard;
    CHECK(api->posix_memalign(&p, alignment, 100) == EINVAL, "alignment %zu", alignment);
    CHECK(p == &guard, "alignment %zu: the pointer was written to", alignment);
    if (alignment == 0 || (alignment & (alignment - 1)) == 0) {
        return; /* Only posix_memalign refuses this alignment. */
    }
    for (int which = 0; which < 2; which++) {
        errno = 0;
        p = which ? api->memalign(alignment, 100) : api->aligned_alloc(alignment, 100);
        if (p) {
            size_t rounded = 1;
            while (rounded < alignment && rounded <= SIZE_MAX / 4) {
                rounded *= 2;
            }
            CHECK((uintptr_t)p % rounded == 0, "alignment %zu gave %p", alignment, p);
            api->free(p);
        } else {
            CHECK(errno == EINVAL || errno == ENOMEM, "alignment %zu: errno %d", alignment, errno);
        }
    }
}

void lattice_bad_alignments(const struct entry_points *api)
{
    for (size_t alignment = 0; alignment <= 5000; alignment++) {
        bool power = alignment && (alignment & (alignment - 1)) == 0;
        if (!power || alignment < sizeof(void *)) {
            one_bad_alignment(api, alignment);
        }
    }
    one_bad_alignment(api, GIB + 8);
    one_bad_alignment(api, SIZE_MAX);
    one_bad_alignment(api, SIZE_MAX / 2);
    one_bad_alignment(api, SIZE_MAX - 7);

    /* Tests the highest power of two, which is a valid alignment that no allocator can serve. */
    static char guard;
    void *p = &guard;
    CHECK(api->posix_memalign(&p, SIZE_MAX / 2 + 1, 16) == ENOMEM, "alignment 2^63");
    CHECK(p == &guard, "alignment 2^63: the pointer was written to");
    errno = 0;
    CHECK(api->memalign(SIZE_MAX / 2 + 1, 16) == NULL, "alignment 2^63");
    CHECK(errno == ENOMEM || errno == EINVAL, "alignment 2^63: errno %d", errno);
}

void lattice_pages(const struct entry_points *api)
{
    for (size_t size = 0; size <= 20 * PAGE; size += lattice_full ? 1 : 61) {
        void *p = api->valloc(size);
        lattice_block_is_good(api, p, size, PAGE, "valloc");
        void *q = api->pvalloc(size);
        lattice_block_is_good(api, q, (size + PAGE - 1) / PAGE * PAGE, PAGE, "pvalloc");
        api->free(p);
        api->free(q);
    }
    for (size_t below = 0; below < 2 * PAGE; below++) {
        errno = 0;
        CHECK(api->pvalloc(SIZE_MAX - below) == NULL && errno == ENOMEM, "pvalloc of SIZE_MAX - %zu, errno %d", below,
              errno);
        errno = 0;
        CHECK(api->valloc(SIZE_MAX - below) == NULL && errno == ENOMEM, "valloc of SIZE_MAX - %zu, errno %d", below,
              errno);
    }
}
