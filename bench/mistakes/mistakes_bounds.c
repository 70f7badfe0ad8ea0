/* Defines the mistakes that write or read outside a block. */
#include "mistake.h"

enum { FLIP = 0x5a }; /* a byte is flipped and not set, because it may already have the value to be set */

static unsigned char source[4 * MIB]; /* source of copies; only its last byte is zero */

static void flip(unsigned char *p) { *(volatile unsigned char *)p ^= FLIP; }

static void flip_after(deed *d)
{
    for (size_t i = 0; i < d->distance; i++)
        flip(d->p + d->size + i);
}

static void flip_before(deed *d)
{
    for (size_t i = 1; i <= d->distance; i++)
        flip(d->p - i);
}

static void flip_far_after(deed *d) { flip(d->p + d->size + MIB); }
static void flip_far_before(deed *d) { flip(d->p - MIB); }

/* Flips the byte at this distance after the end of the usable size. */
static void flip_after_usable(deed *d) { flip(d->p + malloc_usable_size(d->p) + d->distance - 1); }

static void copy_more(deed *d) { memcpy(d->p, hidden(source), d->size + d->distance); }
static void move_more(deed *d) { memmove(d->p, hidden(source), d->size + d->distance); }
static void copy_before(deed *d) { memcpy(d->p - d->distance, hidden(source), d->size); }
static void read_more(deed *d) { memcpy(hidden(source), d->p, d->size + d->distance); }
static void set_more(deed *d) { memset(d->p, FLIP, d->size + d->distance); }

static void copy_string(deed *d)
{
    source[d->size + d->distance - 1] = 0;
    strcpy((char *)d->p, hidden(source));
}

/* Makes the wrong step with a block among others, and then frees the block and continues, as a program would. */
static void outside(size_t size, size_t distance, step *wrong)
{
    deed d = {.p = hold_among_others(size), .size = size, .distance = distance};
    memset(source, 'x', sizeof source - 1);
    make(wrong, &d);
    forget(d.p);
    free(d.p);
    go_on(size);
}

#define OUTSIDE(name, distance, wrong)                                                                                 \
    void mistake_##name(size_t size) { outside(size, distance, wrong); }

OUTSIDE(overflow_1, 1, flip_after)
OUTSIDE(overflow_8, 8, flip_after)
OUTSIDE(overflow_16, 16, flip_after)
OUTSIDE(overflow_32, 32, flip_after)
OUTSIDE(overflow_page, PAGE, flip_after)
OUTSIDE(overflow_mib, 0, flip_far_after)
OUTSIDE(usable_overflow_1, 1, flip_after_usable)
OUTSIDE(usable_overflow_8, 8, flip_after_usable)
OUTSIDE(underflow_1, 1, flip_before)
OUTSIDE(underflow_8, 8, flip_before)
OUTSIDE(underflow_16, 16, flip_before)
OUTSIDE(underflow_32, 32, flip_before)
OUTSIDE(underflow_page, PAGE, flip_before)
OUTSIDE(underflow_mib, 0, flip_far_before)
OUTSIDE(memcpy_overflow_1, 1, copy_more)
OUTSIDE(memcpy_overflow_32, 32, copy_more)
OUTSIDE(memcpy_underflow_32, 32, copy_before)
OUTSIDE(memcpy_read_32, 32, read_more)
OUTSIDE(memmove_overflow_32, 32, move_more)
OUTSIDE(memset_overflow_32, 32, set_more)
OUTSIDE(strcpy_overflow_32, 32, copy_string)

static void measure_string(deed *d) { d->seen = strlen((char *)d->p) - malloc_usable_size(d->p); }

/* Fills all usable bytes of the block and of its neighbors, so that the string ends only if the allocator ends it. */
void mistake_string_without_end(size_t size)
{
    enum { AROUND = 16 };
    unsigned char *blocks[AROUND];
    for (int i = 0; i < AROUND; i++) {
        blocks[i] = take(size);
        memset(blocks[i], NEIGHBOR, malloc_usable_size(blocks[i]));
    }
    deed d = {.p = blocks[AROUND / 2], .size = size};
    make(measure_string, &d);
    effect(d.seen != 0);
    for (int i = 0; i < AROUND; i++)
        free(blocks[i]);
}

static void write_byte(deed *d) { *(volatile unsigned char *)d->p = 5; }
static void read_byte(deed *d) { d->seen = *(volatile unsigned char *)d->p; }

static void zero_size(step *wrong)
{
    deed d = {.p = malloc(0), .size = 0};
    make(wrong, &d);
    free(d.p);
    go_on(16);
}

void mistake_zero_size_write(size_t size) { zero_size(write_byte); }
void mistake_zero_size_read(size_t size) { zero_size(read_byte); }
