/* Blocks that are freed in another form than they were allocated: another size, alignment, or kind of call. */
#include <dlfcn.h>

#include "mistake.h"

enum { ALIGNMENT = 64, LARGE_ALIGNMENT = 8192 };

typedef void sized_free(void *p, size_t size);

static void free_it(deed *d) { free(d->p); }

static void delete_it(deed *d) { _ZdlPv(d->p); }

static void delete_array(deed *d) { _ZdaPv(d->p); }

static void delete_larger(deed *d) { _ZdlPvm(d->p, 4 * d->size + 64); }

static void delete_smaller(deed *d) { _ZdlPvm(d->p, d->size / 4); }

static void delete_sized(deed *d) { _ZdlPvm(d->p, d->size); }

static void delete_aligned(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size, d->distance); }

static void delete_aligned_larger(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size + 64, d->distance); }

static void delete_aligned_smaller(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size / 4, d->distance); }

static void delete_aligned_otherwise(deed *d) { _ZdlPvSt11align_val_t(d->p, ALIGNMENT); }

/* The allocators that ignore the size have no free_sized. */
static sized_free *find_free_sized(void)
{
    void *found = dlsym(RTLD_DEFAULT, "free_sized");
    sized_free *call = NULL;
    memcpy(&call, &found, sizeof call);
    return call;
}

static void free_larger(deed *d) { find_free_sized()(d->p, 4 * d->size + 64); }

static void free_right(deed *d) { find_free_sized()(d->p, d->size); }

static void ends(void *p, size_t size, size_t alignment, step *wrong, step *right)
{
    deed d = {.p = p, .size = size, .distance = alignment};
    fill(d.p, size, NEIGHBOR);
    make_or(wrong, right, &d);
    go_on(size);
}

void mistake_sized_delete_larger(size_t size) { ends(_Znwm(size), size, 0, delete_larger, delete_sized); }

void mistake_sized_delete_smaller(size_t size) { ends(_Znwm(size), size, 0, delete_smaller, delete_sized); }

void mistake_free_sized_larger(size_t size)
{
    if (find_free_sized() == NULL)
        not_offered();
    ends(take(size), size, 0, free_larger, free_right);
}

static void *aligned(size_t size, size_t alignment) { return _ZnwmSt11align_val_t(size, alignment); }

void mistake_aligned_delete_larger(size_t size)
{
    ends(aligned(size, ALIGNMENT), size, ALIGNMENT, delete_aligned_larger, delete_aligned);
}

void mistake_aligned_delete_smaller(size_t size)
{
    ends(aligned(size, ALIGNMENT), size, ALIGNMENT, delete_aligned_smaller, delete_aligned);
}

void mistake_aligned_delete_plain(size_t size)
{
    ends(aligned(size, LARGE_ALIGNMENT), size, LARGE_ALIGNMENT, delete_aligned_otherwise, delete_aligned);
}

void mistake_new_free(size_t size) { ends(_Znwm(size), size, 0, free_it, delete_it); }

void mistake_malloc_delete(size_t size) { ends(take(size), size, 0, delete_it, free_it); }

void mistake_malloc_delete_array(size_t size) { ends(take(size), size, 0, delete_array, free_it); }

void mistake_new_delete_array(size_t size) { ends(_Znwm(size), size, 0, delete_array, delete_it); }

void mistake_new_array_delete(size_t size) { ends(_Znam(size), size, 0, delete_it, delete_array); }

void mistake_new_array_free(size_t size) { ends(_Znam(size), size, 0, free_it, delete_array); }
