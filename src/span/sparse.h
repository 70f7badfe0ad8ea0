/* Sparse: an array over address space, of which only the windows that were asked for are writable.
 * Owns       its reservation and the note of which windows are committed.
 * Invariant  what is committed is zero until written, and stays committed.
 * Threads    cover: any (a lock of its own). Elements: whoever covered them. */
#ifndef HK_SPARSE_H
#define HK_SPARSE_H

#include "base/lock.h"
#include "os/os.h"

enum { HK_SPARSE_WINDOWS = 4096 };

struct hk_sparse {
    char *base;
    size_t window; /* bytes; a multiple of the page size */
    size_t size;
    _Atomic uint64_t xcommitted[HK_SPARSE_WINDOWS / 64];
};

/* Reserves at least `size` bytes; false if refused. `access` is what parts that nobody covered allow: none, or reading zeros. */
bool hk_sparse_reserve(struct hk_sparse *sparse, size_t size, enum hk_access access);
void hk_sparse_drop(struct hk_sparse *sparse);

/* Makes bytes [from, from + size) writable; false if the system refuses. */
bool hk_sparse_cover_slow(struct hk_sparse *sparse, size_t from, size_t size);

HK_INLINE bool hk_sparse_covers(struct hk_sparse *sparse, size_t window)
{
    return (hk_load_acquire(sparse->xcommitted[window / 64]) >> (window % 64)) & 1;
}

void hk_sparse_fork_prepare(void);
void hk_sparse_fork_parent(void);
void hk_sparse_fork_child(void);

/* The first committed stretch in [*from, *to), which it is set to; false if there is none. Any thread. */
bool hk_sparse_next(struct hk_sparse *sparse, uintptr_t *from, uintptr_t *to);

/* Bytes committed so far. */
size_t hk_sparse_committed(struct hk_sparse *sparse);

#endif
