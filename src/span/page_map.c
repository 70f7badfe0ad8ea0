/* Maps the tables of the page map, writes page map entries, and finds the addresses for which tables are mapped. */
#include "span/page_map.h"
#include "base/lock.h"
#include "count/stats.h"
#include "os/os.h"
#include "span/footprint.h"
#include "span/meta.h"

#define ENTRIES_OF_LEAF (HK_LEAF_SLICES * sizeof(uint32_t))
#define CHUNKS_OF_LEAF (HK_LEAF_CHUNKS * sizeof(struct hk_chunk))
/* The tables lie below the window. From low to high addresses, these are the chunks, the marks and the page map entries. The chunks and the entries
 * have room for 16 TiB of heap. The marks grow downwards, and have room for 3 TiB of heap. */
#define ROOM_FOR_CHUNKS (4 * HK_GIB)
#define ROOM_FOR_MARKS (3 * HK_GIB)
#define ROOM_FOR_ENTRIES (1 * HK_GIB)
#define LEAST_MARKS (64 * HK_KIB)
#define LOWEST_STACK ((uintptr_t)1 << 36)
#define WINDOW_LEAVES (ROOM_FOR_ENTRIES / ENTRIES_OF_LEAF)
#define OFFSETS (HK_LEAF / 2 / HK_CHUNK) /* the heap begins at one of the first OFFSETS chunks of the window */
enum {
    LEAVES_SKIPPED = 64,   /* most leaves that the heap skips if another mapping lies in the window */
    LEAVES_AROUND = 64,    /* number of leaves in a window whose place the system chooses */
    LIMIT_PER_WINDOW = 16, /* if the address space is limited, the first tables take at most 1/16 of the limit */
    CHUNKS_AT_ONCE = 32,   /* smallest number of chunk structs that one system call maps */
    SHARE_AT_ONCE = 8,     /* a system call maps at least 1/8 more chunk structs or marks */
};

/* No window contains NULL. A thread may read this `base` before HAKMEM has started, and `hits` afterwards, so this `base` leads nowhere. */
struct hk_window hk_window HK_EACH_PROCESS_DATA = {.base = (uintptr_t)1 << 62};
_Atomic(struct hk_branch *) hk_page_map_root[HK_BRANCHES] HK_COLD_DATA;

static struct {
    struct hk_lock lock;
    _Atomic size_t xmapped; /* bytes of tables */
    char *lent;             /* memory from the caller for a leaf's tables and a branch, or NULL */
    bool took_lent;
    bool hits;
} map = {.lock = HK_LOCK_INIT(HK_RANK_PAGE_MAP)};

static struct window {
    uintptr_t first;  /* start of the heap; 0 if the system chooses addresses */
    size_t leaves;    /* number of leaves whose page map entries are mapped */
    size_t most;      /* upper bound of `leaves`; leaf number `most` has no room for entries, or has its own tables */
    size_t chunks_to; /* number of mapped chunk structs, from the first on */
    size_t marks, most_marks; /* bytes of mapped marks, which lie just below the entries; upper bound of these bytes */
} window;

static void *take_lent(size_t from)
{
    map.took_lent |= map.lent != NULL;
    return map.lent != NULL ? map.lent + from : NULL;
}

static void *map_table(size_t size)
{
    void *p = hk_os.map(size);
    p = p != NULL ? p : take_lent(0);
    if (p != NULL)
        hk_os.advise_huge(p, size, false);
    return p;
}

/* Publishes the window, so that look-ups use it. `chunks` is NULL if the chunk structs of the window are mapped separately for each leaf. */
static void place_window(uintptr_t base, _Atomic uint32_t *entries, struct hk_chunk *chunks)
{
    __atomic_store_n(&hk_window.base, base, __ATOMIC_RELEASE);
    __atomic_store_n(&hk_window.entries, entries, __ATOMIC_RELEASE);
    __atomic_store_n(&hk_window.chunks, chunks, __ATOMIC_RELEASE);
    __atomic_store_n(&hk_window.covered, window.leaves * HK_LEAF, __ATOMIC_RELEASE);
}

/* Chooses a window in the second quarter of the addresses below the stack. Usually no other mapping lies there, because the kernel places programs
 * and mappings far from this quarter. The place depends on the addresses of the stack and of this library, so the window is as random as these
 * addresses. Without ASLR, the window always has the same place. */
static bool choose_window(void)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0), quarter = hk_align_down(stack / 4, HK_LEAF);
    uint64_t random = stack >> 24 ^ (uintptr_t)&hk_window;
    random = (random ^ random >> 31) * 0x9e3779b97f4a7c15u;
    random ^= random >> 29;
    if (stack < LOWEST_STACK || stack >> HK_ADDRESS_BITS != 0)
        return false;
    uintptr_t base = quarter + random / OFFSETS % (quarter / HK_LEAF) * HK_LEAF, entries = base - ROOM_FOR_ENTRIES;
    if (hk_os.map_at((char *)entries - LEAST_MARKS, LEAST_MARKS + ENTRIES_OF_LEAF) != HK_PLACED)
        return false;
    window = (struct window){.first = base + random % OFFSETS * HK_CHUNK,
                             .leaves = 1,
                             .most = WINDOW_LEAVES,
                             .marks = LEAST_MARKS,
                             .most_marks = ROOM_FOR_MARKS};
    place_window(base, (void *)entries, (void *)(entries - ROOM_FOR_MARKS - ROOM_FOR_CHUNKS));
    return true;
}

/* Makes a window around an address that the system chose. Called if the system does not let HAKMEM choose addresses. */
static bool window_around(size_t leaves)
{
    _Atomic uint32_t *entries = map_table(leaves * ENTRIES_OF_LEAF);
    if (entries == NULL)
        return false;
    uintptr_t here = hk_align_down((uintptr_t)entries, HK_LEAF), below = leaves / 2 * HK_LEAF;
    window = (struct window){.leaves = leaves, .most = leaves};
    place_window(hk_max(HK_LEAF, here - hk_min(here, below)), entries, NULL);
    return true;
}

bool hk_page_map_init(void)
{
    size_t leaves = LEAVES_AROUND, limit = hk_footprint_read_limit();
    bool chosen = choose_window();
    hk_lock_register(HK_RANK_PAGE_MAP, &map.lock);
    while (leaves > 1 && leaves * ENTRIES_OF_LEAF > limit / LIMIT_PER_WINDOW)
        leaves /= 2;
    for (; !chosen && leaves > 0; leaves /= 2)
        chosen = window_around(leaves);
    hk_store(map.xmapped, window.marks + window.leaves * ENTRIES_OF_LEAF);
    return chosen;
}

/* Returns the number of bytes between the window's base and the start of the heap. These bytes have no marks. */
static size_t below_heap(void) { return window.first - hk_window.base; }

static void show_window(void)
{
    size_t covered = window.leaves * HK_LEAF, flat = hk_min(window.chunks_to * HK_CHUNK, covered);
    size_t marked = !map.hits || window.marks == 0 ? 0 : below_heap() + (window.marks << HK_MARK_SHIFT);
    /* Leaves with their own tables have no marks. Therefore `marked` must not exceed `flat`. */
    __atomic_store_n(&hk_window.marked, hk_min(marked, flat), __ATOMIC_RELEASE);
    __atomic_store_n(&hk_window.flat, flat, __ATOMIC_RELEASE);
    __atomic_store_n(&hk_window.covered, covered, __ATOMIC_RELEASE);
    if (map.hits)
        __atomic_store_n(&hk_window.hits, covered, __ATOMIC_RELEASE);
    hk_store(hk_global_counts[HK_GLOBAL_hit_window], hk_window.hits);
}

void hk_window_open(bool hits)
{
    if (window.marks != 0) {
        _Atomic uint8_t *below_entries = (_Atomic uint8_t *)hk_window.entries - 1;
        __atomic_store_n(&hk_window.marks, below_entries + (below_heap() >> HK_MARK_SHIFT), __ATOMIC_RELEASE);
    }
    map.hits = hits;
    show_window();
}

uintptr_t hk_window_first(void) { return window.first; }

/* Maps `bytes` of a table at its end, and sets *count to `to`. Returns false if the system refuses memory. */
static bool map_more(void *end, size_t bytes, size_t *count, size_t to)
{
    if (hk_os.map_at(end, bytes) != HK_PLACED)
        return false;
    hk_add(map.xmapped, bytes);
    *count = to;
    show_window();
    return true;
}

/* Makes sure that the page map entries of the window's first `leaves` leaves are mapped. Returns false if this is not possible. */
static bool has_entries(size_t leaves)
{
    size_t more = leaves - hk_min(leaves, window.leaves);
    char *end = (char *)hk_window.entries + window.leaves * ENTRIES_OF_LEAF;
    return more == 0 || (leaves <= window.most && more <= LEAVES_SKIPPED &&
                         map_more(end, more * ENTRIES_OF_LEAF, &window.leaves, leaves));
}

/* Makes sure that the structs of the window's first `to` chunks are mapped. Leaves no gap, because look-ups may read all chunk structs below
 * hk_window.flat. Returns false if the system refuses memory. */
static bool has_chunks(size_t to)
{
    if (to <= window.chunks_to)
        return true;
    size_t ahead = hk_max(CHUNKS_AT_ONCE, window.chunks_to / SHARE_AT_ONCE);
    size_t more = hk_align_up(to - window.chunks_to + ahead - 1, hk_system_page() / sizeof(struct hk_chunk));
    return map_more(hk_window.chunks + window.chunks_to, more * sizeof(struct hk_chunk), &window.chunks_to,
                    window.chunks_to + more);
}

/* Returns the leaf of an address. Makes the branch of the leaf if necessary. Returns NULL if the system refuses memory for the branch. */
static struct hk_leaf *leaf_at(uintptr_t address)
{
    _Atomic(struct hk_branch *) *branch = &hk_page_map_root[address >> HK_BRANCH_SHIFT];
    if (hk_load(*branch) == NULL) {
        struct hk_branch *made = hk_meta_alloc(sizeof *made);
        hk_store_release(*branch, made != NULL ? made : take_lent(CHUNKS_OF_LEAF + ENTRIES_OF_LEAF));
    }
    return hk_page_map_leaf(address);
}

/* Maps tables for one leaf, and lets the root lead to them. The tables hold the leaf's chunk structs, and also its page map entries, unless the
 * window has entries for the leaf. The window never grows to a leaf with its own entries. Returns false if the system refuses memory. */
static bool cover_apart(uintptr_t address, size_t number)
{
    struct hk_leaf *leaf = leaf_at(address);
    if (leaf == NULL || leaf->chunks != NULL)
        return leaf != NULL;
    bool has_window = hk_window.chunks == NULL && number < window.leaves;
    size_t size = CHUNKS_OF_LEAF + (has_window ? 0 : ENTRIES_OF_LEAF);
    char *table = map_table(size);
    if (table == NULL)
        return false;
    hk_add(map.xmapped, size);
    if (number >= window.leaves)
        window.most = hk_min(window.most, number);
    _Atomic uint32_t *entries =
        has_window ? hk_window.entries + number * HK_LEAF_SLICES : (void *)(table + CHUNKS_OF_LEAF);
    leaf->chunks = (void *)table;
    hk_store_release(leaf->xentries, entries);
    return true;
}

static bool cover_locked(uintptr_t address, uintptr_t end)
{
    bool covered = true;
    for (uintptr_t at = address, next; covered && at < end; at = next) {
        next = hk_min(hk_align_down(at, HK_LEAF) + HK_LEAF, end);
        size_t to = (next - 1) % HK_LEAF / HK_CHUNK + 1;
        size_t number = (at - hk_window.base) >> HK_LEAF_SHIFT; /* number of the leaf, counted from the window's base */
        bool flat = hk_window.chunks != NULL && has_entries(number + 1);
        covered = flat ? has_chunks(number * HK_LEAF_CHUNKS + to) : cover_apart(at, number);
    }
    return covered;
}

bool hk_page_map_cover(uintptr_t address, size_t size)
{
    uintptr_t end = address + size;
    if (end > (uintptr_t)1 << HK_ADDRESS_BITS || end < address)
        return false;
    return HK_UNDER(&map.lock, cover_locked(address, end));
}

void *hk_page_map_covered(void *p, size_t mapped, size_t size)
{
    if (p == NULL || hk_page_map_cover((uintptr_t)p, size))
        return p;
    hk_os.unmap(p, mapped);
    return NULL;
}

bool hk_page_map_cover_with(uintptr_t address, void **table)
{
    _Static_assert(CHUNKS_OF_LEAF + ENTRIES_OF_LEAF + sizeof(struct hk_branch) <= HK_PAGE_MAP_TABLE, "both fit");
    hk_lock(&map.lock);
    map.lent = *table;
    bool covered = cover_locked(address, address + 1);
    if (map.took_lent)
        *table = NULL;
    map.lent = NULL;
    map.took_lent = false;
    hk_unlock(&map.lock);
    return covered;
}

bool hk_page_map_is_flat(uintptr_t address, size_t size)
{
    return address >= hk_window.base && address + size - hk_window.base <= HK_LOAD_SETTLED(hk_window.covered);
}

void hk_page_map_cover_marks(uintptr_t address, size_t size)
{
    uintptr_t end = address + size - HK_LOAD_SETTLED(hk_window.base);
    if (HK_LIKELY(end <= HK_LOAD_SETTLED(hk_window.marked)))
        return;
    hk_lock(&map.lock);
    size_t needed = map.hits && end <= hk_window.flat ? (end - below_heap()) >> HK_MARK_SHIFT : 0;
    if (needed > window.marks) {
        size_t step = hk_max(LEAST_MARKS, window.marks / SHARE_AT_ONCE);
        size_t more = hk_in_system_pages(hk_max(needed - window.marks, step));
        if (window.marks + more > window.most_marks ||
            !map_more((char *)hk_window.entries - window.marks - more, more, &window.marks, window.marks + more))
            window.most_marks = 0;
    }
    hk_unlock(&map.lock);
}

void hk_page_map_assign(uintptr_t address, size_t slices, uint32_t entry, struct hk_descriptor *descriptor)
{
    for (size_t i = 0; i < slices; i++)
        hk_store(*hk_page_map_descriptor(address + i * HK_SLICE), descriptor);
    hk_page_map_set(address, slices, entry);
}

void hk_page_map_set(uintptr_t address, size_t slices, uint32_t entry)
{
    for (size_t i = 0; i < slices; i++)
        hk_store_release(*hk_page_map_entry(address + i * HK_SLICE), entry);
}

size_t hk_page_map_tables(void) { return hk_load(map.xmapped); }

/* Returns the first leaf, from *address on, to which the root leads. Sets *address to the start of this leaf. Returns NULL if there is none. */
static const struct hk_leaf *next_leaf(uintptr_t *address)
{
    for (uintptr_t at = hk_align_down(*address, HK_LEAF); at >> HK_ADDRESS_BITS == 0;) {
        const struct hk_leaf *leaf = hk_page_map_leaf(at);
        if (leaf != NULL && hk_load(leaf->xentries) != NULL) {
            *address = at;
            return leaf;
        }
        at = leaf != NULL ? at + HK_LEAF : ((at >> HK_BRANCH_SHIFT) + 1) << HK_BRANCH_SHIFT;
    }
    return NULL;
}

struct hk_range hk_page_map_next_table(uintptr_t from, uintptr_t to)
{
    struct hk_range lowest = {to, to};
    const struct hk_leaf *leaf;
    hk_lock(&map.lock);
    uintptr_t entries = (uintptr_t)hk_window.entries, chunks = (uintptr_t)hk_window.chunks;
    hk_range_keep_lowest(&lowest, from, to, entries - window.marks, entries + window.leaves * ENTRIES_OF_LEAF);
    hk_range_keep_lowest(&lowest, from, to, chunks, chunks + window.chunks_to * sizeof(struct hk_chunk));
    for (uintptr_t at = 0; (leaf = next_leaf(&at)) != NULL; at += HK_LEAF) {
        chunks = (uintptr_t)leaf->chunks;
        uintptr_t end = chunks + CHUNKS_OF_LEAF;
        bool entries_follow = (uintptr_t)hk_load(leaf->xentries) == end;
        hk_range_keep_lowest(&lowest, from, to, chunks, end + (entries_follow ? ENTRIES_OF_LEAF : 0));
    }
    hk_unlock(&map.lock);
    return lowest;
}

uintptr_t hk_page_map_next_covered(uintptr_t address)
{
    uintptr_t at = address;
    hk_lock(&map.lock);
    uintptr_t apart = next_leaf(&at) != NULL ? hk_max(address, at) : UINTPTR_MAX, start = hk_window.base;
    /* next_leaf() does not find the chunks of the window, because look-ups find them without the root. */
    size_t flat = hk_min(window.chunks_to * HK_CHUNK, window.leaves * HK_LEAF);
    hk_unlock(&map.lock);
    return flat != 0 && address < start + flat ? hk_min(apart, hk_max(address, start)) : apart;
}
