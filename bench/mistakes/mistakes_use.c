/* Tests correct calls, also with extreme sizes. The allocator must serve each call correctly or refuse it. */
#include "mistake.h"

static void told(bool failed)
{
    deed d = {.size = 24};
    make(NULL, &d);
    effect(failed);
}

void mistake_impossible_size(size_t size)
{
    void *p = malloc(sound() ? size : (size_t)0 - size);
    told(hidden(p) != NULL && !sound());
}

void mistake_calloc_overflow(size_t size)
{
    void *p = calloc(sound() ? 1 : SIZE_MAX / 2, size);
    told(hidden(p) != NULL && !sound());
}

void mistake_calloc_dirty(size_t size)
{
    hold_many(size);
    fill_held(SECRET);
    release();
    bool dirty = false;
    for (int i = 0; i < 64; i++) {
        unsigned char *p = hidden(calloc(1, size));
        for (size_t at = 0; p != NULL && at < size; at += at < 4096 ? 1 : 509)
            dirty |= p[at] != 0;
        hold(p, size, true);
    }
    told(dirty);
    release();
}

void mistake_zero_size_same(size_t size)
{
    void *p = malloc(0), *q = malloc(0);
    told(hidden(p) == hidden(q));
    free(p);
    free(q);
}

void mistake_zero_size_usable(size_t size)
{
    void *p = malloc(0);
    told(malloc_usable_size(hidden(p)) != 0 && !sound());
    free(p);
}

void mistake_array_growth(size_t size)
{
    unsigned char *p = NULL;
    bool lost = false;
    size = 256 * KIB;
    for (int i = 0; i < 14; i++) {
        p = hidden(realloc(p, size));
        if (p == NULL)
            abort();
        lost |= i > 0 && (p[0] != 'a' || p[size * 2 / 3 - 2] != 'a');
        memset(p, 'a', size);
        size = size * 3 / 2;
    }
    told(lost);
    free(p);
}

static void *grow(void *p) { return realloc(p, 3 * malloc_usable_size(p) + 1024); }

void mistake_realloc_elsewhere(size_t size)
{
    unsigned char *p = hidden(realloc(NULL, size));
    void *now = NULL;
    memset(p, 'a', size);
    pthread_join(bench_start_thread(grow, p, 0), &now);
    bool lost = now == NULL;
    for (size_t i = 0; !lost && i < size; i++)
        lost = ((unsigned char *)now)[i] != 'a';
    told(lost);
    free(now);
}

static void *leave_blocks(void *unused)
{
    hidden(malloc(16));
    hidden(malloc(4096));
    return NULL;
}

/* Zeros are no wrong answer, because an allocator without statistics leaves these functions to the C library. */
void mistake_statistics(size_t size)
{
    unsigned char *p = take(64 * MIB);
    pthread_join(bench_start_thread(leave_blocks, NULL, 0), NULL);
    struct mallinfo2 seen = mallinfo2();
    size_t known = seen.uordblks + seen.hblkhd;
    FILE *nowhere = fopen("/dev/null", "we");
    int failed = malloc_info(0, nowhere);
    fclose(nowhere);
    told(failed != 0 || (known != 0 && seen.arena != 0 && known < 64 * MIB));
    free(p);
}

void mistake_classes_overlap(size_t size)
{
    for (size = 1; size <= 4 * MIB; size += size / 4 + 1) {
        hold(take(size), size, true);
        hold(take(size), size, true);
    }
    told(overlapping());
    release();
}
