/* Tests sizes that malloc must refuse, products that overflow, and errno. This is a part of the lattice (lattice.h). */
#include "lattice.h"

#include "support/pattern.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>

enum { MIB = 1 << 20 };

/* Checks the result for a large size. It may be a block, or NULL with ENOMEM. Above PTRDIFF_MAX it must be NULL. */
static void judge(const struct entry_points *api, void *p, size_t size, const char *from)
{
    if (size > PTRDIFF_MAX) {
        CHECK(p == NULL, "%s%s of %zu bytes gave %p", api->prefix, from, size, p);
    }
    if (!p) {
        CHECK(errno == ENOMEM, "%s%s of %zu bytes: errno %d", api->prefix, from, size, errno);
    } else {
        lattice_block_is_good(api, p, size, 16, from);
    }
    api->free(p);
    errno = 0;
}

static void one_huge(const struct entry_points *api, size_t size)
{
    errno = 0;
    judge(api, api->malloc(size), size, "malloc");
    judge(api, api->realloc(NULL, size), size, "realloc(NULL)");
    judge(api, api->reallocarray(NULL, 1, size), size, "reallocarray(NULL)");
    judge(api, api->aligned_alloc(64, size), size, "aligned_alloc");
    judge(api, api->memalign(4096, size), size, "memalign");
    judge(api, api->memalign((size_t)1 << 30, size), size, "memalign to 1 GiB");
    judge(api, api->valloc(size), size, "valloc");
    if (size <= SIZE_MAX - 4096) {
        judge(api, api->pvalloc(size), size, "pvalloc");
    }
    if (size <= (size_t)1 << 30 || size > PTRDIFF_MAX) {
        /* Smaller sizes are left out because calloc might serve and zero them, which would use up the machine's memory. */
        judge(api, api->calloc(1, size), size, "calloc");
    }
    static char guard;
    void *p = &guard;
    int error = api->posix_memalign(&p, 64, size);
    CHECK(error == 0 || (error == ENOMEM && p == &guard), "posix_memalign of %zu: %d", size, error);
    if (error == 0) {
        CHECK(size <= PTRDIFF_MAX, "posix_memalign of %zu", size);
        lattice_block_is_good(api, p, size, 64, "posix_memalign");
        api->free(p);
    }
}

void lattice_huge_sizes(const struct entry_points *api)
{
    for (size_t power = MIB; power; power *= 2) {
        for (size_t near = 0; near <= 17; near += lattice_full ? 1 : 8) {
            one_huge(api, power - near);
            one_huge(api, power + near);
        }
    }
    for (size_t below = 0; below <= 70; below++) {
        one_huge(api, SIZE_MAX - below);
        one_huge(api, (size_t)PTRDIFF_MAX - below);
        one_huge(api, (size_t)PTRDIFF_MAX + below);
    }
    /* A block must stay valid if its realloc fails. */
    static const size_t size[] = {1, 24, 100, 1000, 5000, 40000, 300000, 3 * MIB};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        void *p = api->malloc(size[i]);
        CHECK(p != NULL, "malloc of %zu", size[i]);
        pattern_fill(p, size[i], i);
        for (size_t below = 0; below < 100; below++) {
            errno = 0;
            CHECK(api->realloc(p, SIZE_MAX - below) == NULL && errno == ENOMEM, "errno %d", errno);
            errno = 0;
            CHECK(api->realloc(p, (size_t)PTRDIFF_MAX + 1 + below) == NULL && errno == ENOMEM, "errno %d", errno);
            errno = 0;
            CHECK(api->reallocarray(p, SIZE_MAX / 2 + below, 3) == NULL && errno == ENOMEM, "errno %d", errno);
        }
        CHECK(pattern_holds(p, size[i], i), "a failed realloc changed %zu bytes", size[i]);
        api->free(p);
    }
}

void lattice_products(const struct entry_points *api)
{
    size_t refused = 0;
    for (unsigned a = 0; a < 64; a++) {
        for (unsigned b = 0; b < 64; b++) {
            for (int delta = -1; delta <= 1; delta++) {
                size_t count = ((size_t)1 << a) + (size_t)delta;
                size_t size = ((size_t)1 << b) - (size_t)delta;
                size_t product;
                bool overflows = __builtin_mul_overflow(count, size, &product);
                if (!overflows && product <= PTRDIFF_MAX) {
                    continue; /* malloc may serve this. */
                }
                errno = 0;
                CHECK(api->calloc(count, size) == NULL && errno == ENOMEM, "calloc(%zu, %zu): errno %d", count, size,
                      errno);
                errno = 0;
                CHECK(api->reallocarray(NULL, count, size) == NULL && errno == ENOMEM,
                      "reallocarray(%zu, %zu): errno %d", count, size, errno);
                refused++;
            }
        }
    }
    CHECK(refused > 4000, "only %zu products overflowed", refused);
}

void lattice_errno_kept(const struct entry_points *api)
{
    size_t size[256];
    size_t sizes = lattice_edge_sizes(size, sizeof size / sizeof size[0], (size_t)32 * MIB);
    for (size_t i = 0; i < sizes; i++) {
        void *p = api->malloc(size[i]);
        void *q = api->memalign(4096, size[i]);
        CHECK(p && q, "two blocks of %zu", size[i]);
        errno = 4242;
        api->free(p);
        CHECK(errno == 4242, "free of %zu bytes made errno %d", size[i], errno);
        errno = 4243;
        api->free(q);
        CHECK(errno == 4243, "free of %zu aligned bytes made errno %d", size[i], errno);
    }
    errno = 4244;
    api->free(NULL);
    CHECK(errno == 4244, "free(NULL) made errno %d", errno);
}
