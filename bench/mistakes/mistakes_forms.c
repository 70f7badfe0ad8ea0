/* Defines the mistakes that free a block with a size, an alignment or a kind of call that does not match its allocation. */
#include "mistake.h"

enum { ALIGNMENT = 64, LARGE_ALIGNMENT = 8192 };

typedef void sized_free(void *p, size_t size);

static void delete_array(deed *d) { _ZdaPv(d->p); }
static void delete_larger(deed *d) { _ZdlPvm(d->p, 4 * d->size + 64); }
static void delete_smaller(deed *d) { _ZdlPvm(d->p, d->size / 4); }
static void delete_sized(deed *d) { _ZdlPvm(d->p, d->size); }
static void delete_aligned(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size, d->distance); }
static void delete_aligned_larger(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size + 64, d->distance); }
static void delete_aligned_smaller(deed *d) { _ZdlPvmSt11align_val_t(d->p, d->size / 4, d->distance); }
static void delete_aligned_otherwise(deed *d) { _ZdlPvSt11align_val_t(d->p, ALIGNMENT); }

/* Returns the function free_sized, or NULL if there is none. Uses dlsym(), because many allocators do not have this function. */
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

static void *aligned(size_t size, size_t alignment) { return _ZnwmSt11align_val_t(size, alignment); }

#define ENDS(name, made, alignment, wrong, right)                                                                      \
    void mistake_##name(size_t size) { ends(made, size, alignment, wrong, right); }

ENDS(sized_delete_larger, _Znwm(size), 0, delete_larger, delete_sized)
ENDS(sized_delete_smaller, _Znwm(size), 0, delete_smaller, delete_sized)
ENDS(aligned_delete_larger, aligned(size, ALIGNMENT), ALIGNMENT, delete_aligned_larger, delete_aligned)
ENDS(aligned_delete_smaller, aligned(size, ALIGNMENT), ALIGNMENT, delete_aligned_smaller, delete_aligned)
ENDS(aligned_delete_plain, aligned(size, LARGE_ALIGNMENT), LARGE_ALIGNMENT, delete_aligned_otherwise, delete_aligned)
ENDS(new_free, _Znwm(size), 0, free_it, delete_it)
ENDS(malloc_delete, take(size), 0, delete_it, free_it)
ENDS(malloc_delete_array, take(size), 0, delete_array, free_it)
ENDS(new_delete_array, _Znwm(size), 0, delete_array, delete_it)
ENDS(new_array_delete, _Znam(size), 0, delete_it, delete_array)
ENDS(new_array_free, _Znam(size), 0, free_it, delete_array)

void mistake_free_sized_larger(size_t size)
{
    if (find_free_sized() == NULL)
        not_offered();
    ends(take(size), size, 0, free_larger, free_right);
}
