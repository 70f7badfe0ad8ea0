/* Keeps lists of the abandoned slabs, by class, and gives these slabs to threads that are short of blocks. */
#include "slab/abandoned.h"
#include "slab/remote.h"
#include "slab/remote_track.h"
#include "slab/slab.h"
#include "span/meta.h"

static struct class_abandoned {
    struct hk_lock lock;
    struct hk_list partial, commons;
    struct hk_walk sweep;
    unsigned sweeps; /* number of the list that is swept now (see list_at()) */
} abandoned_by_class[HK_CLASSES] HK_COLD_DATA;

/* The lists of groups, by group and class. The pointer is NULL until the first group is used, because most programs use no group. */
typedef struct hk_list lists_of_group[HK_CLASSES];
static _Atomic(lists_of_group *) xgroup_lists;

static struct hk_list *list_at(struct class_abandoned *of_class, unsigned list)
{
    if (HK_UNLIKELY(list >= HK_FIRST_GROUP))
        return &hk_load_acquire(xgroup_lists)[list - HK_FIRST_GROUP][of_class - abandoned_by_class];
    return list == HK_COMMONS ? &of_class->commons : &of_class->partial;
}

static bool has_groups(void) { return hk_load(xgroup_lists) != NULL; }
static unsigned lists_in_use(void) { return has_groups() ? HK_FIRST_GROUP + HK_GROUPS : HK_FIRST_GROUP; }

static _Atomic bool xcrowded;
static _Atomic unsigned xsweep_class; /* the class at which the sweep continues */
static _Atomic bool xin_use;          /* the lists are initialized; most programs never touch a page of them */
static struct hk_lock begin_lock = HK_LOCK_INIT(HK_RANK_ABANDONED);

static bool is_in_use(void) { return hk_load_acquire(xin_use); }

static HK_COLD void begin(void)
{
    hk_lock(&begin_lock);
    if (!is_in_use()) {
        for (unsigned class = 0; class < HK_CLASSES; class ++) {
            abandoned_by_class[class].lock.rank = HK_RANK_ABANDONED;
            hk_list_init(&abandoned_by_class[class].partial);
            hk_list_init(&abandoned_by_class[class].commons);
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

/* Puts a slab that has free blocks on its list. If all blocks are free, takes the slab off its list instead, and returns true. The caller must then
 * unlock the class and release the slab. Returns false for every slab of a group, because such a slab is never released. */
static bool list_abandoned_locked(struct class_abandoned *of_class, struct hk_slab *slab)
{
    bool all_free = hk_slab_all_free(slab) && hk_load(slab->xlist) < HK_FIRST_GROUP;
    if (all_free)
        unlist(of_class, slab);
    else if (slab->free > 0 && !hk_link_linked(&slab->link))
        hk_list_push_back(list_at(of_class, hk_load(slab->xlist)), &slab->link);
    return all_free;
}

void hk_abandoned_add(struct hk_slab *slab)
{
    struct class_abandoned *of_class = abandoned_of(slab->d.class);
    hk_lock(&of_class->lock);
    hk_slab_hand_to(slab, HK_ABANDONED);
    bool all_free = list_abandoned_locked(of_class, slab);
    if (!all_free)
        HK_TRACE(&hk_ring_shared, publish, slab->d.bytes, slab->d.start);
    hk_unlock(&of_class->lock);
    if (all_free)
        hk_slab_release(slab);
    else
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
    struct hk_list *from = &of_class->partial;
    if (hk_list_looks_empty(from) && !hk_load(xcrowded))
        from = &of_class->commons;
    if (hk_list_looks_empty(from))
        return NULL;
    hk_lock(&of_class->lock);
    struct hk_slab *slab = hk_slab_of_link(hk_list_first(from));
    if (slab != NULL)
        become_owner_locked(of_class, slab, owner);
    hk_unlock(&of_class->lock);
    return slab;
}

struct hk_slab *hk_abandoned_claim(void *block, unsigned class, struct hk_owner *owner)
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

/* Frees `block` in its slab, or drains the slab `queued` if `block` is NULL. Returns false, and does neither, if the slab is not abandoned. */
static bool free_in_place(unsigned class, struct hk_slab *queued, void *block)
{
    struct class_abandoned *of_class = abandoned_of(class);
    bool all_free = false;
    hk_lock(&of_class->lock);
    struct hk_slab *slab = block != NULL ? hk_slab_at((uintptr_t)block) : queued;
    bool abandoned = is_abandoned(slab);
    if (abandoned) {
        if (block != NULL)
            hk_slab_free(slab, block);
        else
            hk_remote_collect(slab);
        all_free = list_abandoned_locked(of_class, slab);
    }
    hk_unlock(&of_class->lock);
    if (all_free)
        hk_slab_release(slab);
    return abandoned;
}

bool hk_abandoned_free(void *block, unsigned class) { return free_in_place(class, NULL, block); }
bool hk_abandoned_collect(struct hk_slab *slab) { return free_in_place(slab->d.class, slab, NULL); }

bool hk_abandoned_has(unsigned class)
{
    return is_in_use() && !hk_list_looks_empty(&abandoned_by_class[class].partial);
}

static unsigned take_in_list_locked(struct class_abandoned *of_class, unsigned class, unsigned of_list, void **end,
                                    unsigned n)
{
    struct hk_list *list = list_at(of_class, of_list);
    struct hk_slab *slab = hk_slab_of_link(hk_list_first(list));
    if (slab == NULL && (slab = hk_slab_make(class, HK_ABANDONED, HK_USE_SPARSE)) == NULL)
        return 0;
    n = (unsigned)hk_min(n, slab->free);
    hk_store(slab->xlist, (uint8_t)of_list);
    hk_slab_alloc(slab, end, n);
    hk_track_give_out(slab, end - n, n, 1);
    if (slab->free == 0)
        unlist(of_class, slab);
    else if (!hk_link_linked(&slab->link))
        hk_list_push_front(list, &slab->link);
    return n;
}

/* Takes up to n blocks from one slab of the list, or from a new slab if the list is empty. Returns the number of taken blocks. */
static unsigned take_in_list(unsigned class, unsigned of_list, void **end, unsigned n)
{
    struct class_abandoned *of_class = abandoned_of(class);
    hk_lock(&of_class->lock);
    unsigned taken = take_in_list_locked(of_class, class, of_list, end, n);
    hk_unlock(&of_class->lock);
    return taken;
}

static void *take_cacheless(unsigned class, unsigned of_list)
{
    void *block = NULL;
    if (take_in_list(class, of_list, &block + 1, 1) != 0)
        HK_COUNT(cacheless_calls, 1);
    return block;
}

unsigned hk_abandoned_take_common(unsigned class, void **end, unsigned n)
{
    return take_in_list(class, HK_COMMONS, end, n);
}
void *hk_abandoned_alloc(unsigned class) { return take_cacheless(class, HK_FOR_ADOPTION); }

/* Makes the lists of groups. Holds the lock of one class until the lists are made, so that fork, which takes this lock too, waits. Returns false if
 * memory is refused. */
static HK_COLD bool begin_groups(void)
{
    struct class_abandoned *first = abandoned_of(0);
    hk_lock(&first->lock);
    lists_of_group *lists = has_groups() ? NULL : hk_meta_alloc(HK_GROUPS * sizeof *lists);
    if (lists != NULL) {
        for (unsigned i = 0; i < HK_GROUPS * HK_CLASSES; i++)
            hk_list_init(&lists[i / HK_CLASSES][i % HK_CLASSES]);
        hk_store_release(xgroup_lists, lists);
    }
    hk_unlock(&first->lock);
    return has_groups();
}

void *hk_abandoned_take_of_group(unsigned class, unsigned group)
{
    return HK_UNLIKELY(!has_groups()) && !begin_groups() ? NULL : take_cacheless(class, HK_FIRST_GROUP + group - 1);
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
        of_class->sweeps = (of_class->sweeps + 1) % lists_in_use();
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
        if (hk_list_looks_empty(&abandoned_by_class[class].partial) &&
            hk_list_looks_empty(&abandoned_by_class[class].commons) && !has_groups())
            continue;
        while (sweep->work > 0 && sweep_abandoned(&abandoned_by_class[class], sweep))
            continue;
        if (sweep->work <= 0)
            break;
    }
    hk_store(xsweep_class, class % HK_CLASSES);
    return class == HK_CLASSES;
}

/* Trims slabs of a list. Makes at most one system call. Returns false when all slabs of the list are trimmed. */
static bool trim_abandoned(struct class_abandoned *of_class, struct hk_list *list, struct hk_trim *trim)
{
    bool more = true;
    hk_lock(&of_class->lock);
    size_t calls = trim->calls;
    for (int looks = 0; more && trim->calls == calls && looks < HK_LOOKS_OF_HOLD; looks++) {
        struct hk_slab *slab = hk_slab_of_link(hk_list_first(list));
        more = slab != NULL && !hk_slab_is_trimmed(slab, trim);
        if (more && hk_slab_trim(slab, trim)) {
            hk_link_remove_under(&slab->link, &of_class->sweep);
            hk_list_push_back(list, &slab->link);
        }
    }
    hk_unlock_in_turn(&of_class->lock);
    return more;
}

size_t hk_abandoned_purge(void)
{
    struct hk_trim trim = hk_trim_begin();
    for (; is_in_use() && trim.class < HK_CLASSES; trim.class ++) {
        struct class_abandoned *of_class = &abandoned_by_class[trim.class];
        for (unsigned list = 0; list < lists_in_use(); list++)
            while (trim_abandoned(of_class, list_at(of_class, list), &trim))
                continue;
    }
    return trim.bytes;
}

static void relist_abandoned(struct hk_slab *slab)
{
    struct class_abandoned *of_class = abandoned_of(slab->d.class);
    hk_slab_recount(slab);
    hk_slab_hand_to(slab, HK_ABANDONED); /* clears the mixed flag if the last joined block is free now */
    hk_lock(&of_class->lock);
    bool all_free = list_abandoned_locked(of_class, slab);
    hk_unlock(&of_class->lock);
    if (all_free)
        hk_slab_release(slab);
}

/* Abandons a slab that the survivor does not own. Reads no list of another thread, because fork may have interrupted a change of the list. */
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
        if (hk_remote_merge(slab))
            relist_abandoned(slab);
    } else if (owner >= HK_FIRST_OWNER) {
        slab->link.next = slab->link.prev = NULL;
        hk_remote_merge(slab);
        hk_slab_recount(slab);
        hk_abandoned_add(slab);
    }
}

void hk_abandoned_add_rest(struct hk_owner *survivor) { hk_descriptors_visit(abandon_unless_of, survivor); }
