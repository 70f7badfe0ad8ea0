/* Passes each allocation and each free to the heap profile, the debug rings and the site rules. Writes the heap profile in the format heap_v2. */
#include "prof/hooks.h"
#include <elf.h>
#include "base/probe.h"
#include "os/maps.h"

#define DEFAULT_MEAN (512 * HK_KIB)

struct hk_hooks hk_hooks;

HK_EACH_PROCESS size_t hk_hooks_begin(void)
{
    hk_tcache_open_ring(&hk_ring_shared);
    bool by_default = hk_options.heap_sample == 0 && hk_options.heap_profile != NULL;
    hk_hooks.mean = by_default ? DEFAULT_MEAN : hk_options.heap_sample;
    hk_hooks.began_ms = hk_hooks.mean != 0 ? hk_os.clock_ms() : 0;
    if (hk_hooks.mean != 0 && !hk_samples_open(&hk_samples)) {
        hk_message(HK_TEXT_samples_memory);
        hk_options.heap_profile = NULL; /* no profile is written at exit, because it would have no samples */
        hk_hooks.mean = 0;
    }
    hk_hooks.sites = hk_options.site_rules != HK_SITE_RULES_OFF;
    if (hk_hooks.sites && !hk_sites_open()) {
        hk_message(HK_TEXT_sites_memory);
        hk_hooks.sites = false;
    }
    hk_hooks.traces = hk_options.trace_ring != 0;
    return hk_hooks.mean != 0 || hk_hooks.traces ? 0 : hk_hooks.sites ? HK_SITES_FROM : HK_ALL_HIT;
}

bool hk_hooks_watch(uint64_t mean)
{
    if (hk_mode_has(HK_MODE_HOOKS))
        return hk_hooks.watches && hk_attach_sampling_begin(mean);
    /* If no call can be a hit, the gate must stay shut, because the guard sees every call. */
    if (HK_LOAD_SETTLED(hk_window.hits) == 0 || !hk_samples_open(&hk_samples) || !hk_attach_sampling_begin(mean))
        return false;
    hk_hooks.watches = true;
    hk_hooks.mean = mean;
    hk_hooks.began_ms = hk_os.clock_ms();
    hk_mode_set(HK_MODE_HOOKS);
    return true;
}

/* After the first pass, which takes each heap's lock, every thread sees that sampling has ended, so no new sample of a user heap stays. The second pass
 * lets caches open. */
void hk_hooks_unwatch(void)
{
    hk_attach_sampling_end();
    hk_heaps_set_sampled(true);
    hk_hooks_forget_heap(NULL);
    hk_heaps_set_sampled(false);
}

HK_COLD void hk_hooks_picked(const void *block, size_t size, void *caller)
{
    struct hk_stack stack;
    hk_stack_capture(&stack, caller);
    HK_COUNT(samples, 1);
    hk_reuse_saw(hk_os.clock_ms()); /* updates the clock for births, because ticks do so only if there are misses */
    HK_PROBE_ALLOC(block, size, hk_countdown_weight(size, hk_hooks.mean));
    if (hk_sample_enter(&hk_samples, block, size, &stack) == HK_SAMPLE_SITES) {
        static atomic_flag said = ATOMIC_FLAG_INIT;
        HK_COUNT(samples_lost, 1);
        if (!atomic_flag_test_and_set(&said))
            hk_message(HK_TEXT_samples_full);
    }
    struct hak_heap *heap = hk_heaps_of(block);
    if (heap == NULL || hk_attach_sampling_has(heap->key))
        return;
    hk_lock(heap->lock);
    bool samples = hk_hooks_see_heaps();
    if (samples)
        hk_heap_set_sampled_locked(heap, true);
    hk_unlock(heap->lock);
    if (!samples) /* sampling has ended since the block was picked */
        (void)hk_sample_lift(&hk_samples, block, false);
}

HK_COLD void hk_hooks_alloc_in_heap(const void *block, size_t size, void *caller)
{
    struct hk_tcache *cache = hk_tcache_self();
    HK_FENCE(memory_order_acquire); /* pairs with hk_mode_set() in hk_hooks_watch() */
    if (!hk_hooks.watches)
        hk_hooks_alloc(HK_EVENT_alloc, block, size, caller);
    else if (size <= HK_FINE_MAX)
        hk_sub(hk_attach_sampling.xserved_before[hk_class_of(size)], 1);
    if (hk_hooks.watches && cache != NULL && hk_attach_sampling_picks(cache, size))
        hk_hooks_picked(block, size, caller);
}

static void forget_sample(void *heap, const struct hk_live_sample *sample)
{
    const struct hak_heap *of = hk_heaps_of(sample->block);
    if (of != NULL && of == heap)
        hk_hooks_unpick(sample->block);
    else if (of != NULL && heap == NULL && !hk_attach_sampling_has(of->key))
        (void)hk_sample_lift(&hk_samples, sample->block, false);
}

HK_COLD void hk_hooks_forget_heap(struct hak_heap *heap) { hk_samples_visit(&hk_samples, forget_sample, heap); }

static atomic_flag cacheless_busy = ATOMIC_FLAG_INIT;

void hk_hooks_fork_child(void) { atomic_flag_clear(&cacheless_busy); }

/* All threads without a tcache share one countdown. If another thread is using this countdown, the block is not counted and not sampled. */
HK_COLD void hk_hooks_pick(struct hk_tcache *cache, const void *block, size_t size, void *caller)
{
    static struct hk_countdown countdown;
    if (cache != NULL) {
        if (hk_countdown_picks(&cache->countdown, hk_hooks.mean))
            hk_hooks_picked(block, size, caller);
    } else if (!atomic_flag_test_and_set_explicit(&cacheless_busy, memory_order_acquire)) {
        if (hk_countdown_runs_out(&countdown, size) && hk_countdown_picks(&countdown, hk_hooks.mean))
            hk_hooks_picked(block, size, caller);
        atomic_flag_clear_explicit(&cacheless_busy, memory_order_release);
    }
}

HK_COLD void hk_hooks_unpick(const void *block)
{
    hk_reuse_saw(hk_os.clock_ms());
    if (hk_sample_lift(&hk_samples, block, true) != 0)
        HK_PROBE_FREE(block);
}

HK_COLD void hk_hooks_trace(struct hk_tcache *cache, enum hk_event_kind kind, size_t size, const void *block)
{
    struct hk_ring *ring = cache != NULL ? &cache->owner.ring : &hk_ring_shared;
    if (hk_load(ring->xevents) != NULL)
        hk_ring_note_slow(ring, kind, size, (uintptr_t)block);
}

uint64_t hk_hooks_resize_begin(const void *block)
{
    if (hk_hooks.sites)
        (void)hk_sample_lift(&hk_site_samples, block, false); /* makes no ghost, because no memory becomes free */
    return hk_hooks.mean != 0 ? hk_sample_lift(&hk_samples, block, false) : 0;
}

void hk_hooks_resize_end(const void *block, uint64_t record, const void *resized, size_t size, void *caller)
{
    if (record != 0 && resized == NULL)
        (void)hk_sample_put(&hk_samples, block, record);
    else if (record != 0)
        HK_PROBE_FREE(block);
    if (record != 0 && resized != NULL && hk_hooks.watches)
        hk_hooks_picked(resized, size, caller);
    else if (resized != NULL)
        hk_hooks_alloc(HK_EVENT_resize, resized, size, caller);
}

static void add_up(void *context, const struct hk_site *site, unsigned number)
{
    (void)number;
    struct hk_site *total = context;
    hk_add(total->xlive_blocks, hk_load(site->xlive_blocks));
    hk_add(total->xlive_bytes, hk_load(site->xlive_bytes));
    hk_add(total->xblocks, hk_load(site->xblocks));
    hk_add(total->xbytes, hk_load(site->xbytes));
}

static void write_sums(struct hk_text *text, const struct hk_site *site)
{
    hk_text_add(text, "%lu: %lu [%lu: %lu] @", hk_positive_part(hk_load(site->xlive_blocks)),
                hk_positive_part(hk_load(site->xlive_bytes)), hk_load(site->xblocks), hk_load(site->xbytes));
}

/* Writes two lines for a site. The second line, with the lifetimes, is a comment in this format, because only `hakmem` knows lifetimes. */
static void write_site(void *context, const struct hk_site *site, unsigned number)
{
    write_sums(context, site);
    for (unsigned i = 0; i < site->depth; i++)
        hk_text_add(context, " 0x%zx", (size_t)site->stack[i]);
    hk_text_add(context, "\n# site %u freed", number);
    for (unsigned span = 0; span < HK_SAMPLE_LIFETIMES; span++)
        if (hk_load(site->xlifetimes[span]) != 0)
            hk_text_add(context, " %u:%u", span, hk_load(site->xlifetimes[span]));
    hk_text_add(context, "\n");
}

static void write_sample(void *context, const struct hk_live_sample *sample)
{
    hk_text_add(context, "# live %u %zu %u\n", sample->number, sample->size, sample->born);
}

/* Adds the estimated live bytes of a site. Scales its samples up by size, because large blocks are sampled more often than small ones. */
static void add_estimate(void *context, const struct hk_site *site, unsigned number)
{
    uint64_t blocks = hk_positive_part(hk_load(site->xlive_blocks));
    uint64_t bytes = hk_positive_part(hk_load(site->xlive_bytes));
    (void)number;
    if (blocks > 0 && bytes > 0)
        *(uint64_t *)context += blocks * hk_countdown_weight(bytes / blocks, hk_hooks.mean);
}

uint64_t hk_heap_profile_live(void)
{
    uint64_t live = 0;
    hk_sites_visit(&hk_samples, add_estimate, &live);
    return live;
}

/* Writes the build-id of the file whose first page is at `page`. Linkers put the note that holds the build-id into this page. */
static void write_build_id(struct hk_text *text, uintptr_t page)
{
    enum { BUILD_ID_MOST = 32 };
    const uint32_t *note = (const void *)page, *end = note + (HK_PAGE - BUILD_ID_MOST) / sizeof *note - 4;
    if (!hk_os.readable(page) || memcmp(note, ELFMAG, SELFMAG) != 0)
        return;
    while (note < end && (note[0] != sizeof "GNU" || note[1] > BUILD_ID_MOST || note[2] != NT_GNU_BUILD_ID ||
                          memcmp(note + 3, "GNU", sizeof "GNU") != 0))
        note++;
    hk_text_add(text, "# build-id ");
    for (const uint8_t *byte = (const uint8_t *)(note + 4), *id = byte; note < end && byte < id + note[1]; byte++)
        hk_text_add(text, "%x%x", *byte >> 4, *byte & 15);
    hk_text_add(text, "\n");
}

int hk_heap_profile_write(int fd, const char *path)
{
    (void)path;
    struct hk_text text = {.fd = fd};
    struct hk_site total = {.hash = 0};
    hk_sites_visit(&hk_samples, add_up, &total);
    hk_text_add(&text, "heap profile: ");
    write_sums(&text, &total);
    hk_reuse_saw(hk_os.clock_ms());
    hk_text_add(&text, " heap_v2/%lu\n# hakmem 1 began %u now %u\n", hk_hooks.mean, (uint32_t)hk_hooks.began_ms,
                (uint32_t)hk_reuse_now());
    hk_sites_visit(&hk_samples, write_site, &text);
    hk_samples_visit(&hk_samples, write_sample, &text);
    hk_text_add(&text, "\nMAPPED_LIBRARIES:\n");
    char line[640]; /* a longer path is cut off, because this stack may be that of a signal handler */
    struct hk_lines lines;
    struct hk_mapping file, first = {.inode = 0};
    hk_lines_open(&lines, "/proc/self/maps");
    while (hk_lines_next(&lines, line, sizeof line)) {
        hk_text_add(&text, "%s\n", line);
        if (!hk_mapping_parse(line, &file))
            continue;
        if (file.offset == 0 && file.inode != 0)
            first = file;
        /* Reads only files with code. A read of a device may have side effects, and the program may shorten a file of data at any time. */
        if (file.is_code && first.inode != 0 && file.inode == first.inode && strstr(line, " /dev/") == NULL) {
            write_build_id(&text, first.start);
            first.inode = 0;
        }
    }
    hk_text_flush(&text);
    return 0;
}
