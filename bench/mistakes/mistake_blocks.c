/* Keeps the list of blocks that a program with a mistake holds. The list is static, so it needs no malloc. */
#include "mistake.h"

enum { MOST_HELD = 8192, MANY = 4096, MANY_BYTES = 16 * MIB, LEAST_MANY = 8, WHOLE = 4096, EDGE = 64, RING = 64 };

static struct held {
    unsigned char *p;
    size_t size;
    bool of_heap; /* false: release() does not free the block */
} list[MOST_HELD];
static size_t count;

/* Returns the length of the part that is filled at each end of a block. */
static size_t filled_part(size_t size) { return size <= WHOLE ? size : EDGE; }

void *take(size_t size)
{
    void *p = malloc(size);
    if (p == NULL)
        abort();
    return hidden(p);
}

void fill(void *p, size_t size, int byte)
{
    size_t part = filled_part(size);
    memset(p, byte, part);
    memset((unsigned char *)p + size - part, byte, part);
}

/* Leaves out sizes near `size`, because the calls must not change the neighbors of a block of this size. */
void other_calls(size_t size, int calls)
{
    static void *ring[RING];
    uint32_t random = 12345;
    for (int i = 0; i < calls; i++) {
        random = random * 1664525 + 1013904223;
        size_t other = 16 + (random >> 8) % 4096;
        if (other >= size / 2 && other <= 2 * size + 64)
            other += 8192;
        void **place = &ring[i % RING];
        free(*place);
        *place = take(other);
    }
    for (int i = 0; i < RING; i++) {
        free(ring[i]);
        ring[i] = NULL;
    }
}

void hold(void *p, size_t size, bool of_heap)
{
    if (p != NULL && count < MOST_HELD)
        list[count++] = (struct held){p, size, of_heap};
}

void forget(void *p)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].p == p)
            list[i] = list[--count];
}

void *move_held(void *p, size_t size)
{
    forget(p);
    hold(realloc(p, 8 * size + 64), 8 * size + 64, true);
    return hidden(p);
}

void hold_many(size_t size)
{
    size_t many = MANY_BYTES / (size + 1);
    many = many > MANY ? MANY : many < LEAST_MANY ? LEAST_MANY : many;
    for (size_t i = 0; i < many; i++)
        hold(take(size), size, true);
}

unsigned char *hold_among_others(size_t size)
{
    enum { AROUND = 16 };
    unsigned char *middle = NULL;
    for (int i = 0; i < AROUND; i++) {
        unsigned char *p = take(size);
        fill(p, size, NEIGHBOR);
        hold(p, size, true);
        middle = i == AROUND / 2 ? p : middle;
    }
    return middle;
}

/* Sorts the list by address. Uses a shell sort in place, because qsort could take memory from the allocator. */
static void sort(void)
{
    for (size_t gap = count / 2; gap > 0; gap /= 2) {
        for (size_t i = gap; i < count; i++) {
            struct held moving = list[i];
            size_t at = i;
            for (; at >= gap && list[at - gap].p > moving.p; at -= gap)
                list[at] = list[at - gap];
            list[at] = moving;
        }
    }
}

static bool overlaps_next(size_t i) { return i + 1 < count && list[i].p + list[i].size > list[i + 1].p; }

bool overlapping(void)
{
    bool found = false;
    sort();
    for (size_t i = 0; i < count; i++)
        found |= overlaps_next(i);
    return found;
}

void release(void)
{
    sort();
    for (size_t i = 0; i < count; i++)
        if (list[i].of_heap && !(i > 0 && overlaps_next(i - 1)))
            free(list[i].p);
    count = 0;
}

void release_every_other(void)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            free(list[i].p);
        else
            list[left++] = list[i];
    }
    count = left;
}

void fill_held(int byte)
{
    for (size_t i = 0; i < count; i++)
        fill(list[i].p, list[i].size, byte);
}

static size_t bytes_of(const unsigned char *p, size_t size, int byte)
{
    size_t found = 0;
    for (size_t at = 0; at < size; at++)
        found += p[at] == byte;
    return found;
}

size_t held_bytes(int byte)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += bytes_of(list[i].p, filled_part(list[i].size), byte);
    return found;
}

bool held_changed(int byte)
{
    bool changed = false;
    for (size_t i = 0; i < count; i++)
        changed |= bytes_of(list[i].p, filled_part(list[i].size), byte) != filled_part(list[i].size);
    return changed;
}

bool held_pointers(void)
{
    enum { NEAR = 64 * MIB };
    sort();
    uintptr_t low = (uintptr_t)list[0].p - NEAR, high = (uintptr_t)list[count - 1].p + NEAR;
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at + sizeof low <= list[i].size && at < EDGE; at += sizeof low) {
            uintptr_t word;
            memcpy(&word, list[i].p + at, sizeof word);
            if (word > low && word < high)
                return true;
        }
    }
    return false;
}

bool go_on(size_t size)
{
    hold_many(size);
    bool twice = overlapping();
    release();
    other_calls(size, OTHER_CALLS);
    hold_many(size);
    twice |= overlapping();
    release();
    return twice;
}
