/* Defines the mistakes that use a block after it was freed, or read it before it was written. */
#include "mistake.h"

enum { READ_MOST = 64 * KIB };

static void flip_middle(deed *d) { *(volatile unsigned char *)(d->p + d->distance) ^= 0x5a; }

static size_t read_bytes(const deed *d) { return d->size < READ_MOST ? d->size : READ_MOST; }

static void count_secrets(deed *d)
{
    for (size_t i = 0; i < read_bytes(d); i++)
        d->seen += ((volatile unsigned char *)d->p)[i] == SECRET;
}

/* Returns true if more than a quarter of the old bytes were seen. The others may be lost, because an allocator may use words of a free block. */
static bool is_readable(const deed *d) { return d->seen > read_bytes(d) / 4; }

void mistake_write_after_free(size_t size)
{
    deed d = {.p = take(size), .size = size, .distance = size / 2};
    fill(d.p, size, NEIGHBOR);
    free(d.p);
    make(flip_middle, &d);
    go_on(size);
}

/* Writes near the start of the block, because held_changed() looks only at the first bytes of a large block. */
static void write_by_old_pointer(unsigned char *old, size_t size)
{
    deed d = {.p = old, .size = size, .distance = size / 2 < 32 ? size / 2 : 32};
    hold_many(size);
    fill_held(NEIGHBOR);
    make(flip_middle, &d);
    effect(held_changed(NEIGHBOR));
    release();
}

void mistake_write_after_free_reused(size_t size)
{
    void *p = take(size);
    free(p);
    write_by_old_pointer(p, size);
}

void mistake_write_after_realloc(size_t size) { write_by_old_pointer(move_held(hold_among_others(size), size), size); }

void mistake_read_after_free(size_t size)
{
    deed d = {.p = take(size), .size = size};
    memset(d.p, SECRET, size);
    free(d.p);
    make(count_secrets, &d);
    effect(is_readable(&d));
}

void mistake_read_after_realloc(size_t size)
{
    deed d = {.p = hold_among_others(size), .size = size};
    memset(d.p, SECRET, size);
    d.p = move_held(d.p, size);
    make(count_secrets, &d);
    effect(is_readable(&d));
    release();
}

static void look_at_held(deed *d) { d->seen = held_bytes(SECRET); }

void mistake_uninitialized_read(size_t size)
{
    deed d = {.size = size};
    hold_many(size);
    fill_held(SECRET);
    release();
    hold_many(size);
    make(look_at_held, &d);
    effect(d.seen > size / 4);
    release();
}

static void count_in_growth(deed *d)
{
    deed growth = {.p = d->p + d->size, .size = d->size};
    count_secrets(&growth);
    d->seen = growth.seen;
}

void mistake_uninitialized_growth(size_t size)
{
    hold_many(2 * size);
    fill_held(SECRET);
    hold_many(size);
    fill_held(SECRET);
    release();
    deed d = {.p = take(size), .size = size};
    memset(d.p, 0, size);
    d.p = realloc(d.p, 2 * size);
    make(count_in_growth, &d);
    effect(is_readable(&d));
    free(d.p);
}
