/* Writes the heap profile in the format heap_v2. */
#include "prof/hooks.h"

struct sums {
    int64_t live_blocks, live_bytes;
    uint64_t blocks, bytes;
};

static void add_up(void *context, const struct hk_site *site, unsigned number)
{
    (void)number;
    struct sums *total = context;
    total->live_blocks += (int64_t)hk_positive_part(hk_load(site->xlive_blocks));
    total->live_bytes += (int64_t)hk_positive_part(hk_load(site->xlive_bytes));
    total->blocks += hk_load(site->xblocks);
    total->bytes += hk_load(site->xbytes);
}

static void write_sums(struct hk_text *text, const struct sums *sums)
{
    hk_text_add(text, "%ld: %ld [%lu: %lu] @", sums->live_blocks, sums->live_bytes, sums->blocks, sums->bytes);
}

/* Writes two lines for a site. The second line, with the lifetimes, is a comment in this format, because only `hakmem` knows lifetimes. */
static void write_site(void *context, const struct hk_site *site, unsigned number)
{
    struct sums sums = {0, 0, 0, 0};
    add_up(&sums, site, number);
    write_sums(context, &sums);
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
    struct sums sums = {0, 0, 0, 0};
    add_up(&sums, site, number);
    if (sums.live_blocks > 0 && sums.live_bytes > 0)
        *(uint64_t *)context += (uint64_t)sums.live_blocks *
                                hk_countdown_weight((uint64_t)(sums.live_bytes / sums.live_blocks), hk_hooks.mean);
}

uint64_t hk_heap_profile_live(void)
{
    uint64_t live = 0;
    hk_sites_visit(&hk_samples, add_estimate, &live);
    return live;
}

void hk_heap_profile_write(int fd)
{
    struct hk_text text = {.fd = fd};
    struct sums total = {0, 0, 0, 0};
    hk_sites_visit(&hk_samples, add_up, &total);
    hk_text_add(&text, "heap profile: ");
    write_sums(&text, &total);
    hk_text_add(&text, " heap_v2/%lu\n", hk_hooks.mean);
    hk_reuse_saw(hk_os.clock_ms());
    hk_text_add(&text, "# hakmem 1 began %u now %u\n", (uint32_t)hk_hooks.began_ms, (uint32_t)hk_reuse_now());
    hk_sites_visit(&hk_samples, write_site, &text);
    hk_samples_visit(&hk_samples, write_sample, &text);
    hk_text_add(&text, "\nMAPPED_LIBRARIES:\n");
    hk_text_flush(&text);
    int from = hk_os.open("/proc/self/maps");
    for (size_t n; from >= 0 && (n = hk_os.read(from, text.bytes, sizeof text.bytes)) > 0;)
        hk_put(fd, text.bytes, n);
    if (from >= 0)
        hk_os_close(from);
}
