#include "span/sparse.h"

#include "base/bits.h"

static struct hk_lock sparse_lock = HK_LOCK_INIT(HK_RANK_SPARSE);

bool hk_sparse_reserve(struct hk_sparse *sparse, size_t size, enum hk_access access)
{
    sparse->window = hk_align_up((size + HK_SPARSE_WINDOWS - 1) / HK_SPARSE_WINDOWS, HK_PAGE);
    sparse->size = (size + sparse->window - 1) / sparse->window * sparse->window; /* windows are no powers of two */
    sparse->base = hk_os.map(sparse->size, access);
    if (sparse->base == NULL)
        return false;
    hk_os.advise_huge(sparse->base, sparse->size, false);
    return true;
}

void hk_sparse_drop(struct hk_sparse *sparse)
{
    if (sparse->base != NULL)
        hk_os.unmap(sparse->base, sparse->size);
    sparse->base = NULL;
    for (size_t i = 0; i < HK_SPARSE_WINDOWS / 64; i++)
        hk_store(sparse->xcommitted[i], 0);
}

static void note_committed(struct hk_sparse *sparse, size_t from, size_t to)
{
    for (size_t w = from; w < to; w++)
        atomic_fetch_or_explicit(&sparse->xcommitted[w / 64], (uint64_t)1 << (w % 64), memory_order_release);
}

/* Neighbouring windows are committed by one call. */
bool hk_sparse_cover_slow(struct hk_sparse *sparse, size_t from, size_t size)
{
    bool covered = true;
    size_t end = (from + size + sparse->window - 1) / sparse->window;
    hk_lock(&sparse_lock);
    for (size_t first = from / sparse->window, last; covered && first < end; first = last) {
        last = first + 1;
        if (hk_sparse_covers(sparse, first))
            continue;
        while (last < end && !hk_sparse_covers(sparse, last))
            last++;
        covered = hk_os.commit(sparse->base + first * sparse->window, (last - first) * sparse->window);
        if (covered)
            note_committed(sparse, first, last);
    }
    hk_unlock(&sparse_lock);
    return covered;
}

bool hk_sparse_next(struct hk_sparse *sparse, uintptr_t *from, uintptr_t *to)
{
    uintptr_t base = (uintptr_t)sparse->base, at = hk_max(*from, base), end = hk_min(*to, base + sparse->size);
    while (at < end && !hk_sparse_covers(sparse, (at - base) / sparse->window))
        at = base + ((at - base) / sparse->window + 1) * sparse->window;
    if (at >= end)
        return false;
    *from = at;
    while (at < end && hk_sparse_covers(sparse, (at - base) / sparse->window))
        at = base + ((at - base) / sparse->window + 1) * sparse->window;
    *to = hk_min(at, end);
    return true;
}

size_t hk_sparse_committed(struct hk_sparse *sparse)
{
    size_t windows = 0;
    for (size_t i = 0; i < HK_SPARSE_WINDOWS / 64; i++)
        windows += hk_popcount64(hk_load(sparse->xcommitted[i]));
    return windows * sparse->window;
}

void hk_sparse_fork_prepare(void) { hk_lock(&sparse_lock); }
void hk_sparse_fork_parent(void) { hk_unlock(&sparse_lock); }
void hk_sparse_fork_child(void) { hk_lock_reset(&sparse_lock); }
