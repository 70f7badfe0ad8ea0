/* Defines the mistakes that pass a freed block, or an address without a block, to free, realloc, delete or malloc_usable_size. */
#include "mistake.h"

enum { FAR = 1024 * MIB, BESIDE = 16 * KIB, TRIES = 64 };

static void realloc_it(deed *d)
{
    d->result = realloc(hidden(d->p + d->distance), 2 * d->size + 64);
    hold(d->result, 2 * d->size + 64, true);
}

static void realloc_to_nothing(deed *d) { d->result = realloc(d->p, 0); }
static void usable_size_of_it(deed *d) { d->seen = malloc_usable_size(hidden(d->p + d->distance)); }

/* The mistake had its effect if two blocks that are allocated later overlap. */
static void make_and_look(step *wrong, deed d)
{
    make(wrong, &d);
    effect(go_on(d.size));
}

static deed freed(size_t size)
{
    deed d = {.p = take(size), .size = size};
    free(d.p);
    return d;
}

static deed kept(size_t size, size_t distance)
{
    deed d = {.p = take(size), .size = size, .distance = distance};
    hold(d.p, size, true);
    return d;
}

void mistake_double_free(size_t size) { make_and_look(free_it, freed(size)); }
void mistake_realloc_freed(size_t size) { make_and_look(realloc_it, freed(size)); }

void mistake_double_free_interleaved(size_t size)
{
    deed d = {.p = take(size), .size = size};
    void *other = take(size);
    free(d.p);
    free(other);
    make_and_look(free_it, d);
}

/* Allocates until a new block has the address of the freed block, but at most TRIES times, because a real program would not allocate more. */
void mistake_double_free_reused(size_t size)
{
    deed d = freed(size);
    void *p = NULL;
    for (int i = 0; i < TRIES && p != d.p; i++) {
        p = take(size);
        hold(p, size, true);
    }
    make_and_look(free_it, d);
}

void mistake_double_free_by_realloc(size_t size)
{
    deed d = {.p = take(size), .size = size};
    free(realloc(d.p, 0));
    make(realloc_to_nothing, &d);
    hold(d.result, 0, false);
    effect(go_on(size));
}

void mistake_double_delete(size_t size)
{
    deed d = {.p = _Znwm(size), .size = size};
    _ZdlPv(hidden(d.p));
    make_and_look(delete_it, d);
}

/* The deed's block is the old address of a block that realloc has moved. */
static deed moved(size_t size) { return (deed){.p = move_held(hold_among_others(size), size), .size = size}; }

void mistake_realloc_twice(size_t size) { make_and_look(realloc_it, moved(size)); }
void mistake_free_after_realloc(size_t size) { make_and_look(free_it, moved(size)); }

static deed inside(size_t size, size_t distance)
{
    return (deed){.p = hold_among_others(size), .size = size, .distance = distance};
}

/* Passes an address inside a block. The program keeps the block, so later blocks must not overlap it. */
#define INSIDE(name, distance, wrong)                                                                                  \
    void mistake_##name(size_t size) { make_and_look(wrong, inside(size, distance)); }

INSIDE(free_inside_1, 1, free_it)
INSIDE(free_inside_8, 8, free_it)
INSIDE(free_inside_16, 16, free_it)
INSIDE(free_inside_4096, PAGE, free_it)
INSIDE(realloc_inside, 16, realloc_it)

/* Frees an address behind a block, in free memory of the allocator. The allocator may allocate this memory later, but only to one block. */
static deed with_beside(size_t size) { return kept(size, (size + 15) / 16 * 16 + BESIDE); }
void mistake_free_beside(size_t size) { make_and_look(free_it, with_beside(size)); }

void mistake_free_far(size_t size)
{
    deed d = kept(size, FAR);
    hold(d.p + FAR, size, false);
    make_and_look(free_it, d);
}

void mistake_free_trimmed(size_t size)
{
    deed d = {.p = hold_among_others(size), .size = size};
    hold_many(size);
    release();
    malloc_trim(0);
    make_and_look(free_it, d);
}

static void free_foreign(unsigned char *start, size_t bytes, size_t distance)
{
    deed d = {.p = start, .size = bytes, .distance = distance};
    free(take(bytes));
    hold(start, bytes, false);
    make(free_it, &d);
    effect(go_on(64));
}

void mistake_free_stack(size_t size)
{
    unsigned char frame[4096];
    memset(frame, 0, sizeof frame);
    free_foreign(hidden(frame), sizeof frame, 64);
}

void mistake_free_static(size_t size)
{
    static unsigned char memory[4096] = {1};
    free_foreign(hidden(memory), sizeof memory, 64);
}

static void free_mapping(int protection)
{
    enum { BYTES = 16 * PAGE };
    unsigned char *p = mmap(NULL, BYTES, protection, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (p == MAP_FAILED)
        abort();
    free_foreign(p, BYTES, BYTES / 2);
}

void mistake_free_mapped(size_t size) { free_mapping(PROT_READ | PROT_WRITE); }
void mistake_free_protected(size_t size) { free_mapping(PROT_NONE); }
static deed wild(void) { return (deed){.p = hidden((void *)1), .size = 24}; }
void mistake_free_wild(size_t size) { make_and_look(free_it, wild()); }

/* The mistake has no effect if realloc returns NULL. */
void mistake_realloc_wild(size_t size)
{
    deed d = wild();
    make(realloc_it, &d);
    effect(d.result != NULL);
}

static void ask_usable_size(deed d)
{
    make(usable_size_of_it, &d);
    effect(d.seen != 0);
    release();
}

void mistake_usable_size_freed(size_t size) { ask_usable_size(freed(size)); }
void mistake_usable_size_inside(size_t size) { ask_usable_size(inside(size, 16)); }
void mistake_usable_size_beside(size_t size) { ask_usable_size(with_beside(size)); }
void mistake_usable_size_wild(size_t size) { ask_usable_size(wild()); }
