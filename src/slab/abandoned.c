/* Keeps lists of the abandoned slabs by class, and gives these slabs to threads that are short of blocks. */
#include "slab/abandoned.h"
#include "slab/remote.h"
#include "slab/remote_track.h"

static struct class_abandoned {
    struct hk_lock lock;
    struct hk_walk sweep;
    unsigned sweeps; /* number of the list that the sweep visits now */
} abandoned_by_class[HK_CLASSES] HK_COLD_DATA;

/* The lists by enum hk_abandoned_list_id and by class. The lists of a group stay all zeros until their first use, so that few programs touch them. */
static struct hk_list abandoned_lists[HK_FIRST_GROUP + HK_GROUPS][HK_CLASSES] HK_COLD_DATA;
static _Atomic unsigned xlists_in_use = HK_FIRST_GROUP;

/* Returns a list of the class, and initializes it at its first use. The caller holds the lock of the class. */
static struct hk_list *list_at(const struct class_abandoned *of_class, unsigned list)
{
    struct hk_list *found = &abandoned_lists[list][of_class - abandoned_by_class];
    if (HK_UNLIKELY(found->head.next == NULL))
        hk_list_init(found);
    return found;
}

static _Atomic bool xcrowded;
static _Atomic unsigned xsweep_class; /* the class at which the sweep continues */
static _Atomic bool xin_use;          /* true if the lists are initialized; most programs never touch their pages */
static struct hk_lock begin_lock = HK_LOCK_INIT(HK_RANK_ABANDONED);

static bool is_in_use(void) { return hk_load_acquire(xin_use); }

static HK_COLD void begin(void)
{
    hk_lock(&begin_lock);
    if (!is_in_use()) {
        for (unsigned class = 0; class < HK_CLASSES; class ++) {
            abandoned_by_class[class].lock.rank = HK_RANK_ABANDONED;
            hk_list_init(&abandoned_lists[HK_FOR_ADOPTION][class]);
            hk_list_init(&abandoned_lists[HK_COMMONS][class]);
        }
        hk_lock_register(HK_RANK_ABANDONED, &abandoned_by_class[0].lock);
        hk_lock_register_more(HK_RANK_ABANDONED, HK_CLASSES - 1, sizeof abandoned_by_class[0]);
        hk_store_release(xin_use, true);
    }
    hk_unlock(&begin_lock);
}

static struct class_abandoned *abandoned_of(unsigned class)
{
    if (HK_UNLIKELY(!is_in_use()))
        begin();
    return &abandoned_by_class[class];
}

void hk_abandoned_fork_prepare(void) { (void)abandoned_of(0); }

void hk_abandoned_crowd(bool crowded)
{
    if (HK_UNLIKELY(hk_load(xcrowded) != crowded))
        hk_store(xcrowded, crowded);
}

static bool is_abandoned(const struct hk_slab *slab)
{
    return hk_entry_owner(hk_load(*hk_page_map_entry(slab->d.start))) == HK_ABANDONED;
}

static void unlist(struct class_abandoned *of_class, struct hk_slab *slab)
{
    if (hk_link_linked(&slab->link))
        hk_link_remove_under(&slab->link, &of_class->sweep);
}

/* Puts a slab with free blocks on its list. If all are free and the slab has no group, releases it instead and returns false. Unlocks the class. */
HK_INLINE bool keep_and_unlock(struct class_abandoned *of_class, struct hk_slab *slab)
{
    bool kept = !hk_slab_all_free(slab) || hk_load(slab->xlist) >= HK_FIRST_GROUP;
    if (!kept)
        unlist(of_class, slab);
    else if (slab->free > 0 && !hk_link_linked(&slab->link))
        hk_list_push_back(list_at(of_class, hk_load(slab->xlist)), &slab->link);
    hk_unlock(&of_class->lock);
    if (!kept)
        hk_slab_release(slab);
    return kept;
}

/* Abandons a slab, and writes slab->mixed into its page map entries. Returns false if the slab was released, because all its blocks were free. */
HK_INLINE bool give_up(struct hk_slab *slab)
{
    struct class_abandoned *of_class = abandoned_of(slab->d.class);
    hk_lock(&of_class->lock);
    hk_slab_hand_to(slab, HK_ABANDONED);
    return keep_and_unlock(of_class, slab);
}

void hk_abandoned_add(struct hk_slab *slab)
{
    uintptr_t start = slab->d.start;
    size_t bytes = slab->d.bytes; /* read now, because an abandoned slab may be released at any time */
    if (!give_up(slab))
        return;
    HK_TRACE(&hk_ring_shared, publish, bytes, start);
    HK_COUNT(slabs_abandoned, 1);
}

static void become_owner_locked(struct class_abandoned *of_class, struct hk_slab *slab, struct hk_owner *owner)
{
    unlist(of_class, slab);
    hk_store(slab->xlist, HK_FOR_ADOPTION);
    hk_slab_hand_to(slab, owner->id);
    HK_COUNT(slabs_adopted, 1);
    HK_TRACE(&owner->ring, adopt, slab->d.bytes, slab->d.start);
}

struct hk_slab *hk_abandoned_adopt(unsigned class, struct hk_owner *owner)
{
    if (!is_in_use())
        return NULL;
    struct class_abandoned *of_class = &abandoned_by_class[class];
    struct hk_list *from = &abandoned_lists[HK_FOR_ADOPTION][class];
    if (hk_list_looks_empty(from) && !hk_load(xcrowded))
        from = &abandoned_lists[HK_COMMONS][class];
    if (hk_list_looks_empty(from))
        return NULL;
    hk_lock(&of_class->lock);
    struct hk_slab *slab = hk_slab_of_link(hk_list_first(from));
    if (slab != NULL)
        become_owner_locked(of_class, slab, owner);
    hk_unlock(&of_class->lock);
    return slab;
}

struct hk_slab *hk_abandoned_claim(const void *block, unsigned class, struct hk_owner *owner)
{
    struct class_abandoned *of_class = abandoned_of(class);
    hk_lock(&of_class->lock);
    struct hk_slab *slab = hk_slab_at((uintptr_t)block);
    bool abandoned = is_abandoned(slab) && hk_load(slab->xlist) == HK_FOR_ADOPTION;
    if (abandoned)
        become_owner_locked(of_class, slab, owner);
    hk_unlock(&of_class->lock);
    return abandoned ? slab : NULL;
}

/* Frees `block` in its slab. If `block` is NULL, drains the slab `queued` instead. Returns false, and does neither, if the slab is not abandoned. */
static bool free_in_place(unsigned class, struct hk_slab *queued, void *block)
{
    struct class_abandoned *of_class = abandoned_of(class);
    hk_lock(&of_class->lock);
    struct hk_slab *slab = block != NULL ? hk_slab_at((uintptr_t)block) : queued;
    if (!is_abandoned(slab)) {
        hk_unlock(&of_class->lock);
        return false;
    }
    if (block != NULL)
        hk_slab_free(slab, block);
    else
        hk_remote_collect(slab);
    keep_and_unlock(of_class, slab);
    return true;
}

bool hk_abandoned_free(void *block, unsigned class) { return free_in_place(class, NULL, block); }
bool hk_abandoned_collect(struct hk_slab *slab) { return free_in_place(slab->d.class, slab, NULL); }

bool hk_abandoned_has(unsigned class)
{
    return is_in_use() && !hk_list_looks_empty(&abandoned_lists[HK_FOR_ADOPTION][class]);
}

unsigned hk_abandoned_take(unsigned class, unsigned list, void **end, unsigned n)
{
    struct class_abandoned *of_class = abandoned_of(class);
    if (HK_UNLIKELY(list >= hk_load(xlists_in_use)))
        hk_store(xlists_in_use, HK_FIRST_GROUP + HK_GROUPS);
    hk_lock(&of_class->lock);
    struct hk_list *from = list_at(of_class, list);
    struct hk_slab *slab = hk_slab_of_link(hk_list_first(from));
    if (slab == NULL)
        slab = hk_slab_make(class, HK_ABANDONED, HK_USE_SPARSE);
    n = slab != NULL ? (unsigned)hk_min(n, slab->free) : 0;
    if (n > 0) {
        hk_store(slab->xlist, (uint8_t)list);
        hk_slab_alloc(slab, end, n);
        hk_track_give_out(slab, end - n, n, 1);
        if (slab->free == 0)
            unlist(of_class, slab);
        else if (!hk_link_linked(&slab->link))
            hk_list_push_front(from, &slab->link);
    }
    hk_unlock(&of_class->lock);
    return n;
}

void *hk_abandoned_alloc(unsigned class, unsigned list)
{
    void *block = NULL;
    if (hk_abandoned_take(class, list, &block + 1, 1) != 0)
        HK_COUNT(cacheless_calls, 1);
    return block;
}

/* Sweeps a part of a list. Makes at most one system call while it holds the lock. Returns false after the last list of the class. */
static bool sweep_abandoned(struct class_abandoned *of_class, struct hk_sweep *sweep)
{
    int64_t rest = hk_sweep_hold(sweep);
    hk_lock(&of_class->lock);
    struct hk_list *list = list_at(of_class, of_class->sweeps);
    if (of_class->sweep.at == NULL)
        of_class->sweep = (struct hk_walk){.at = list->head.next};
    bool at_end = of_class->sweep.at == &list->head;
    if (!at_end) {
        hk_slab_sweep_under(&of_class->sweep, list, sweep);
    } else {
        of_class->sweep.at = NULL;
        of_class->sweeps = (of_class->sweeps + 1) % hk_load(xlists_in_use);
    }
    bool over = at_end && of_class->sweeps == HK_FOR_ADOPTION;
    hk_unlock_in_turn(&of_class->lock);
    sweep->work += rest;
    return !over;
}

bool hk_abandoned_sweep(struct hk_sweep *sweep)
{
    unsigned class = is_in_use() ? hk_load(xsweep_class) : HK_CLASSES;
    for (; class < HK_CLASSES; class ++) {
        if (hk_list_looks_empty(&abandoned_lists[HK_FOR_ADOPTION][class]) &&
            hk_list_looks_empty(&abandoned_lists[HK_COMMONS][class]) && hk_load(xlists_in_use) == HK_FIRST_GROUP)
            continue;
        while (sweep->work > 0 && sweep_abandoned(&abandoned_by_class[class], sweep))
            continue;
        if (sweep->work <= 0)
            break;
    }
    hk_store(xsweep_class, class % HK_CLASSES);
    return class == HK_CLASSES;
}

/* Trims slabs of a list. Makes at most one system call. Returns false once all slabs of the list are trimmed. */
static bool trim_abandoned(struct class_abandoned *of_class, unsigned of_list, struct hk_trim *trim)
{
    bool more = true;
    hk_lock(&of_class->lock);
    struct hk_list *list = list_at(of_class, of_list);
    size_t calls = trim->calls;
    for (int looks = 0; more && trim->calls == calls && looks < HK_LOOKS_OF_HOLD; looks++) {
        struct hk_slab *slab = hk_slab_of_link(hk_list_first(list));
        more = slab != NULL && !hk_slab_is_trimmed(slab, trim);
        if (more && hk_slab_trim(slab, trim))
            hk_list_move_to_back(list, &slab->link, &of_class->sweep);
    }
    hk_unlock_in_turn(&of_class->lock);
    return more;
}

size_t hk_abandoned_purge(void)
{
    struct hk_trim trim = hk_trim_begin();
    for (; is_in_use() && trim.class < HK_CLASSES; trim.class ++) {
        struct class_abandoned *of_class = &abandoned_by_class[trim.class];
        for (unsigned list = 0; list < hk_load(xlists_in_use); list++)
            while (trim_abandoned(of_class, list, &trim))
                continue;
    }
    return trim.bytes;
}

/* Abandons a slab in a fork child, unless `survivor` owns the slab. Does not read other threads' lists, which may be half changed. */
static void abandon_unless_of(struct hk_descriptor *descriptor, void *context)
{
    struct hk_owner *survivor = context;
    struct hk_slab *slab = hk_slab_of(descriptor);
    if (slab == NULL || hk_slab_at(slab->d.start) != slab)
        return;
    hk_track_restart(slab);
    uint32_t owner = hk_entry_owner(hk_load(*hk_page_map_entry(slab->d.start)));
    if (slab->d.class >= HK_FINE_CLASSES)
        hk_marks_assume(slab);
    if (survivor != NULL && owner == survivor->id) {
        if (hk_remote_restart(slab))
            hk_inbox_push(survivor, slab);
    } else if (owner == HK_ABANDONED) {
        if (hk_remote_merge(slab)) {
            hk_slab_recount(slab);
            give_up(slab);
        }
    } else if (owner >= HK_FIRST_OWNER) {
        slab->link.next = slab->link.prev = NULL;
        hk_remote_merge(slab);
        hk_slab_recount(slab);
        hk_abandoned_add(slab);
    }
}

void hk_abandoned_add_rest(struct hk_owner *survivor) { hk_descriptors_visit(abandon_unless_of, survivor); }
