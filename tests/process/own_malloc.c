/* Tests a program that defines only malloc, calloc, realloc and free. HAKMEM serves the related functions, for example reallocarray, and
 * must not take the program's blocks for its own. The program's free and realloc abort if they get blocks of another allocator. */
#include "support/check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA = 16 << 20, MAGIC = 0x6f776e21 };

struct head {
    size_t size;
    uint32_t magic, freed;
};

static _Alignas(16) char arena[ARENA];
static _Atomic size_t used;
static _Atomic size_t reallocs, frees;

static struct head *head_of(void *p)
{
    struct head *head = (struct head *)p - 1;
    if ((char *)p < arena || (char *)p >= arena + ARENA || head->magic != MAGIC || head->freed) {
        abort();
    }
    return head;
}

void *malloc(size_t size)
{
    size_t whole = sizeof(struct head) + ((size + 15) & ~(size_t)15);
    size_t at = __atomic_fetch_add((size_t *)&used, whole, __ATOMIC_RELAXED);
    if (size > ARENA || at + whole > ARENA) {
        return NULL;
    }
    struct head *head = (struct head *)(arena + at);
    *head = (struct head){size, MAGIC, 0};
    return head + 1;
}

void free(void *p)
{
    frees++;
    if (p) {
        head_of(p)->freed = 1;
    }
}

void *calloc(size_t count, size_t size)
{
    /* The arena is zero because its memory is never reused. */
    return size && count > ARENA / size ? NULL : malloc(count * size);
}

void *realloc(void *p, size_t size)
{
    reallocs++;
    void *q = malloc(size);
    if (p && q) {
        size_t old = head_of(p)->size;
        memcpy(q, p, old < size ? old : size);
        free(p);
    }
    return q;
}

static void test_reallocarray(const char *name)
{
    void *(*array)(void *, size_t, size_t) = (void *(*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, name);
    CHECK(array != NULL, "%s is missing", name);
    size_t before = reallocs;
    char *p = array(NULL, 10, 10);
    CHECK(p && head_of(p)->size == 100, "%s of nothing", name);
    memset(p, 7, 100);
    p = array(p, 100, 100);
    CHECK(p && head_of(p)->size == 10000 && p[99] == 7, "%s of a block of the program's", name);
    CHECK(reallocs == before + 2, "%s goes by the program's realloc", name);
    CHECK(array(p, SIZE_MAX / 2, 3) == NULL, "%s that overflows", name);
    free(p);
}

/* Tests functions that free. They are looked up by name because the C library may not declare them. */
static void test_frees(void)
{
    void (*plain)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*aligned)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    void *p[3] = {malloc(10), malloc(20), malloc(30)};
    CHECK(plain && sized && aligned, "a free is missing");
    plain(p[0]);
    sized(p[1], 20);
    aligned(p[2], 16, 30);
    for (int i = 0; i < 3; i++) {
        CHECK(((struct head *)p[i] - 1)->freed == 1, "free %d", i);
    }
}

static void test_usable_size(void)
{
    char *own = malloc(100);
    void *aligned = NULL, *large = NULL;
    CHECK(malloc_usable_size(own) == 0, "of a block of the program's: %zu", malloc_usable_size(own));
    CHECK(malloc_usable_size(own + 5) == 0 && malloc_usable_size(&own) == 0 && malloc_usable_size(NULL) == 0,
          "of no block");
    CHECK(posix_memalign(&aligned, 256, 1000) == 0 && posix_memalign(&large, 4096, 3 << 20) == 0, "posix_memalign");
    CHECK(malloc_usable_size(aligned) >= 1000 && malloc_usable_size(large) >= 3 << 20, "of blocks of HAKMEM's");
    CHECK(malloc_usable_size((char *)aligned + 64) == 0, "of what may be the program's, cut from one");
    CHECK(malloc_usable_size((char *)large + 4096) == 0, "the same");
    free(own);
}

static void test_the_c_library(void)
{
    char *line = NULL, *text = strdup("a\nb\n");
    size_t room = 0;
    FILE *file = fmemopen(text, 4, "r");
    CHECK(head_of(text)->size == 5, "strdup goes by the program's malloc");
    CHECK(getline(&line, &room, file) == 2 && head_of(line)->size >= 2, "so does getline");
    fclose(file);
    free(line);
    free(text);
}

int main(void)
{
    test_reallocarray("reallocarray");
    test_reallocarray("__libc_reallocarray");
    test_frees();
    test_usable_size();
    test_the_c_library();
    return check_report("own malloc");
}
