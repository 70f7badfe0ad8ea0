/* Allocates picked blocks from slabs of their own, for which the page map has no entries. */
#include "prof/sampled_heap.h"

#include "base/bits.h"
#include "base/lock.h"
#include "os/os.h"
#include "span/meta.h"

enum { LEAST_BLOCK = 64, NO_SLAB = UINT16_MAX };
#define SLAB (64 * HK_KIB)
#define SLAB_WORDS (SLAB / LEAST_BLOCK / 64)
#define RANGE_MOST (512 * HK_MIB)
#define RANGE_LEAST (1 * HK_MIB)
_Static_assert(RANGE_MOST / SLAB < NO_SLAB && HK_FINE_MAX <= SLAB, "a slab has a number, and room for a block");

struct sampled_slab {
    uint32_t block_bytes; /* size of the slab's blocks; 0: the slab is unused */
    uint16_t free, blocks;
    uint16_t next, before; /* neighbors in the list of slabs with free blocks; unused slabs have only `next` */
    uint64_t free_bits[SLAB_WORDS];
};

struct hk_late_range hk_sampled_heap_range;

static struct {
    struct hk_lock lock;
    struct sampled_slab *slabs;
    uint16_t partial[HK_CLASSES], unused; /* the heads of the lists of slabs */
    uint16_t used_to;                     /* slabs from this number on were never used */
    size_t live, slabs_in_use;
    uint64_t served;
} sampled_heap = {.lock = HK_LOCK_INIT(HK_RANK_SAMPLED_HEAP)};

HK_EACH_PROCESS void hk_sampled_heap_init(void) { hk_lock_register(HK_RANK_SAMPLED_HEAP, &sampled_heap.lock); }

/* Reserves the range if needed. Tries smaller ranges after a refusal, because a system that counts reserved memory may refuse only the largest. */
static bool open_range_locked(void)
{
    size_t bytes = RANGE_MOST;
    void *start = NULL;
    if (hk_load(hk_sampled_heap_range.xbytes) != 0)
        return true;
    if (sampled_heap.slabs == NULL &&
        (sampled_heap.slabs = hk_meta_alloc(RANGE_MOST / SLAB * sizeof *sampled_heap.slabs)) == NULL)
        return false;
    while (bytes >= RANGE_LEAST && (start = hk_os_map_aligned(bytes, SLAB)) == NULL)
        bytes /= 4;
    if (start == NULL)
        return false;
    (void)hk_os.advise_huge(start, bytes, false);
    for (unsigned class = 0; class < HK_CLASSES; class ++)
        sampled_heap.partial[class] = NO_SLAB;
    sampled_heap.unused = NO_SLAB;
    hk_store(hk_sampled_heap_range.xstart, (uintptr_t)start);
    hk_store_release(hk_sampled_heap_range.xbytes, bytes);
    return true;
}

bool hk_sampled_heap_open(void)
{
    hk_lock(&sampled_heap.lock);
    bool open = open_range_locked();
    hk_unlock(&sampled_heap.lock);
    return open;
}

static uintptr_t start_of_slab(size_t number) { return hk_load(hk_sampled_heap_range.xstart) + number * SLAB; }
static size_t slab_number(const void *p) { return ((uintptr_t)p - hk_load(hk_sampled_heap_range.xstart)) / SLAB; }

static void link_slab(uint16_t *head, uint16_t number)
{
    struct sampled_slab *slab = &sampled_heap.slabs[number];
    slab->before = NO_SLAB;
    slab->next = *head;
    if (*head != NO_SLAB)
        sampled_heap.slabs[*head].before = number;
    *head = number;
}

static void unlink_slab(uint16_t *head, const struct sampled_slab *slab)
{
    if (slab->before == NO_SLAB)
        *head = slab->next;
    else
        sampled_heap.slabs[slab->before].next = slab->next;
    if (slab->next != NO_SLAB)
        sampled_heap.slabs[slab->next].before = slab->before;
}

static bool give_slab(unsigned class)
{
    uint16_t number = sampled_heap.unused;
    if (number != NO_SLAB)
        sampled_heap.unused = sampled_heap.slabs[number].next;
    else if (sampled_heap.used_to < hk_load(hk_sampled_heap_range.xbytes) / SLAB)
        number = sampled_heap.used_to++;
    else
        return false;
    struct sampled_slab *slab = &sampled_heap.slabs[number];
    slab->block_bytes = (uint32_t)hk_max(hk_classes[class].size, LEAST_BLOCK);
    slab->free = slab->blocks = (uint16_t)(SLAB / slab->block_bytes);
    for (unsigned word = 0; word < SLAB_WORDS; word++) {
        unsigned left = slab->blocks - (unsigned)hk_min(slab->blocks, word * 64);
        slab->free_bits[word] = left >= 64 ? UINT64_MAX : ((uint64_t)1 << left) - 1;
    }
    link_slab(&sampled_heap.partial[class], number);
    sampled_heap.slabs_in_use++;
    return true;
}

static void *take_block_locked(unsigned class)
{
    uint16_t *head = &sampled_heap.partial[class];
    if (*head == NO_SLAB && !give_slab(class))
        return NULL;
    uint16_t number = *head;
    struct sampled_slab *slab = &sampled_heap.slabs[number];
    unsigned word = 0;
    while (slab->free_bits[word] == 0)
        word++;
    unsigned block = word * 64 + hk_ctz64(slab->free_bits[word]);
    slab->free_bits[word] &= slab->free_bits[word] - 1;
    if (--slab->free == 0)
        unlink_slab(head, slab);
    sampled_heap.live++;
    sampled_heap.served++;
    return (void *)(start_of_slab(number) + (size_t)block * slab->block_bytes);
}

void *hk_sampled_heap_alloc(size_t size, size_t align)
{
    unsigned class = hk_class_of_aligned(hk_max(size, LEAST_BLOCK), align);
    if (hk_load_acquire(hk_sampled_heap_range.xbytes) == 0 || align > HK_PAGE || hk_classes[class].size > HK_FINE_MAX)
        return NULL;
    hk_lock(&sampled_heap.lock);
    void *block = take_block_locked(class);
    hk_unlock(&sampled_heap.lock);
    return block;
}

static void put_block_locked(struct sampled_slab *slab, const void *block)
{
    unsigned class = hk_class_of(slab->block_bytes);
    uint16_t number = (uint16_t)slab_number(block);
    size_t index = (uintptr_t)block % SLAB / slab->block_bytes;
    slab->free_bits[index / 64] |= (uint64_t)1 << index % 64;
    sampled_heap.live--;
    if (slab->free++ == 0)
        link_slab(&sampled_heap.partial[class], number);
    if (slab->free < slab->blocks || !hk_os.purge((void *)start_of_slab(number), SLAB))
        return;
    unlink_slab(&sampled_heap.partial[class], slab);
    slab->block_bytes = 0;
    slab->next = sampled_heap.unused;
    sampled_heap.unused = number;
    sampled_heap.slabs_in_use--;
}

static size_t check_live(enum hk_call call, const void *block, bool frees)
{
    hk_lock(&sampled_heap.lock);
    struct sampled_slab *slab = &sampled_heap.slabs[slab_number(block)];
    size_t bytes = slab->block_bytes, offset = (uintptr_t)block % SLAB, index = bytes != 0 ? offset / bytes : 0;
    const char *fault = NULL;
    if (bytes == 0)
        fault = HK_TEXT_foreign;
    else if (offset % bytes != 0 || index >= slab->blocks)
        fault = HK_TEXT_inside;
    else if ((slab->free_bits[index / 64] >> index % 64 & 1) != 0)
        fault = HK_TEXT_already_free;
    else if (frees)
        put_block_locked(slab, block);
    hk_unlock(&sampled_heap.lock);
    if (HK_UNLIKELY(fault != NULL))
        hk_invalid_pointer(call, fault, block);
    return bytes;
}

size_t hk_sampled_heap_size(enum hk_call call, const void *block) { return check_live(call, block, false); }
void hk_sampled_heap_free(enum hk_call call, void *block) { (void)check_live(call, block, true); }

struct hk_sampled_heap_totals hk_sampled_heap_total(void)
{
    hk_lock(&sampled_heap.lock);
    struct hk_sampled_heap_totals total = {sampled_heap.live, sampled_heap.slabs_in_use * SLAB, sampled_heap.served};
    hk_unlock(&sampled_heap.lock);
    return total;
}
