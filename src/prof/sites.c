/* Observes how soon the memory of each call site's blocks is reused, and chooses the rule of each site. */
#include "prof/sites.h"
#include "base/lock.h"
#include "count/decisions.h"
#include "count/stats.h"
#include "policy/classes.h"
#include "policy/policy.h"
#include "span/meta.h"

enum {
    FADE_FROM = 32,  /* when a site has counted this number of blocks, its counts are halved */
    LEAST_FATES = 4, /* the fewest blocks that a rule is based on */
    CLEAR_PART = 16, /* divisor; a new rule must save more than this part of a page fault per block */
    /* The weight of a page fault that a rule causes. It is more than 1 because the program waits for the fault. */
    WAITED_FOR = 2,
};

const char *const hk_site_rule_names[HK_SITE_RULES] = {"none", "keep-warm", "purge-at-once"};

static uint32_t fates_seen(const struct hk_site_fates *fates) { return fates->soon + fates->late + fates->gone; }

void hk_site_note(struct hk_site_fates *fates, const struct hk_site_costs *costs, uint64_t idle_ms)
{
    bool soon = idle_ms <= costs->delay_ms, late = !soon && idle_ms <= costs->worth_ms;
    ++*(soon ? &fates->soon : late ? &fates->late : &fates->gone);
    fates->late_ms += late ? idle_ms : 0;
    if (fates_seen(fates) >= FADE_FROM)
        *fates = (struct hk_site_fates){fates->soon / 2, fates->late / 2, fates->gone / 2, fates->late_ms / 2};
}

/* Returns the gain of a rule. HK_SITE_KEEP_WARM saves the page faults of `late` blocks, but holds `late` and `gone` blocks longer, up to worth_ms.
 * HK_SITE_PURGE_AT_ONCE saves the delay for which `late` and `gone` blocks were held, but causes page faults on `soon` blocks. */
int64_t hk_site_rule_gain(const struct hk_site_fates *fates, const struct hk_site_costs *costs, enum hk_site_rule rule)
{
    int64_t worth = (int64_t)costs->worth_ms, delay = (int64_t)costs->delay_ms;
    int64_t keep = fates->late * (worth + delay) - (int64_t)fates->late_ms - fates->gone * (worth - delay);
    int64_t purge = delay * (fates->late + fates->gone) - worth * fates->soon * WAITED_FOR;
    return rule == HK_SITE_KEEP_WARM ? keep : rule == HK_SITE_PURGE_AT_ONCE ? purge : 0;
}

enum hk_site_rule hk_site_rule_for(const struct hk_site_fates *fates, const struct hk_site_costs *costs,
                                   enum hk_site_rule now)
{
    enum hk_site_rule best = hk_site_rule_gain(fates, costs, now) < 0 ? HK_SITE_NO_RULE : now;
    int64_t clearly = (int64_t)(costs->worth_ms * fates_seen(fates) / CLEAR_PART);
    for (enum hk_site_rule rule = HK_SITE_KEEP_WARM; rule < HK_SITE_RULES && fates_seen(fates) >= LEAST_FATES; rule++)
        if (hk_site_rule_gain(fates, costs, rule) - hk_site_rule_gain(fates, costs, best) > clearly)
            best = rule;
    return best;
}

#define MEAN (512 * HK_KIB) /* mean bytes between two picked blocks; blocks above HK_SITES_SAMPLED are all recorded */
enum { SITE_GHOSTS = 32 };
_Static_assert(HK_DECISION_site_keep_warm - HK_DECISION_site_no_rule == (int)HK_SITE_KEEP_WARM &&
                   HK_DECISION_site_purge_at_once - HK_DECISION_site_no_rule == (int)HK_SITE_PURGE_AT_ONCE,
               "the decisions have the order of the rules");

/* Holds the state of a site. The index of the state is the number of the site in hk_site_samples. */
struct site_state {
    uint64_t seen_ms;
    enum hk_site_rule rule;
    uint64_t saved, wasted;
    struct hk_site_fates fates;
};

/* A ghost stands for the memory of a freed block, even if this memory is no longer mapped. */
struct site_ghost {
    size_t bytes; /* 0: the ghost is unused */
    uint64_t freed_ms;
    enum hk_site_rule rule; /* the site's rule when the block was freed; in watch mode this rule was not applied */
    unsigned site;
};

static struct hk_lock sites_lock = HK_LOCK_INIT(HK_RANK_SITES);
static struct site_state *site_states HK_COLD_DATA;
/* Newer ghosts come first. If all are used, a new ghost replaces the oldest of its site or, if its site has no ghost, the oldest of all sites. */
static struct site_ghost site_ghosts[SITE_GHOSTS] HK_COLD_DATA;

bool hk_sites_open(void)
{
    site_states = hk_meta_alloc(HK_RULE_SITES * sizeof *site_states);
    return site_states != NULL && hk_samples_open(&hk_site_samples);
}

/* Counts the ghost in its site, and clears the ghost. The memory was reused after idle_ms, or was not reused within reuse_worth. If a kept block is
 * reused within the purge delay, its bytes count as neither saved nor wasted, because the cache keeps blocks that long even without the rule. */
static void retire_ghost_locked(struct site_ghost *ghost, uint64_t idle_ms, uint64_t now)
{
    struct site_state *site = &site_states[ghost->site];
    struct hk_site_costs costs = {.delay_ms = HK_POLICY(purge_delay), .worth_ms = hk_options.reuse_worth};
    enum hk_site_rule before = site->rule;
    bool late = idle_ms > costs.delay_ms, purged = ghost->rule == HK_SITE_PURGE_AT_ONCE;
    if (purged || (ghost->rule == HK_SITE_KEEP_WARM && late))
        *(late && (purged || idle_ms <= costs.worth_ms) ? &site->saved : &site->wasted) += ghost->bytes;
    ghost->bytes = 0;
    hk_site_note(&site->fates, &costs, idle_ms);
    site->rule = hk_site_rule_for(&site->fates, &costs, before);
    if (site->rule != before && hk_options.explain != NULL) {
        const struct hk_site *known = hk_load_acquire(hk_site_samples.xsites[ghost->site]);
        int64_t gain = hk_site_rule_gain(&site->fates, &costs, site->rule != HK_SITE_NO_RULE ? site->rule : before);
        hk_decision_note(&(struct hk_decision){
            .ms = now,
            .kind = HK_DECISION_site_no_rule + site->rule,
            .before = before,
            .after = site->rule,
            .seen = {(uintptr_t)known->stack[0], (uint64_t)1 << known->size_bits, gain > 0 ? (uint64_t)gain : 0}});
    }
}

static size_t bytes_of_block(size_t size)
{
    return size > HK_MEDIUM_MAX ? hk_align_up(size, HK_PAGE) : hk_classes[hk_class_of(size)].size;
}

void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, void *caller, bool fresh)
{
    struct hk_stack stack;
    if (size <= HK_SITES_SAMPLED &&
        (countdown == NULL || !hk_countdown_runs_out(countdown, size) || !hk_countdown_picks(countdown, MEAN)))
        return;
    hk_stack_capture(&stack, caller);
    uint64_t now = hk_os.clock_ms();
    hk_reuse_saw(now);
    hk_lock(&sites_lock);
    if (size >= HK_SITES_RULED && fresh) {
        /* Matches the newest ghost that fits, in the same way as the caches take blocks. Also retires ghosts older than reuse_worth. */
        size_t bytes = bytes_of_block(size), most = size > HK_MEDIUM_MAX ? bytes * HK_POLICY(large_fit) / 100 : bytes;
        uint64_t bin_ms = hk_min(HK_TICK_MS, HK_POLICY(purge_delay));
        bool matched = false;
        for (struct site_ghost *ghost = site_ghosts; ghost < site_ghosts + SITE_GHOSTS; ghost++) {
            uint64_t idle_ms = now - hk_min(now, ghost->freed_ms);
            /* After an epoch, the block has left its bin, and its memory serves medium requests of all classes. */
            bool left_bin = size <= HK_MEDIUM_MAX && idle_ms > bin_ms;
            bool fits = ghost->bytes >= bytes && ghost->bytes <= (left_bin ? HK_MEDIUM_MAX : most);
            if ((fits && !matched) || (ghost->bytes != 0 && idle_ms > hk_options.reuse_worth))
                retire_ghost_locked(ghost, idle_ms, now);
            matched |= fits;
        }
    }
    unsigned number = hk_sample_enter(&hk_site_samples, block, size, &stack);
    HK_COUNT(sites_lost, number == HK_SAMPLE_SITES);
    if (number != HK_SAMPLE_SITES)
        site_states[number].seen_ms = now;
    hk_unlock(&sites_lock);
}

enum hk_site_rule hk_sites_free(const void *block)
{
    uint64_t now = hk_os.clock_ms();
    hk_reuse_saw(now);
    uint64_t record = hk_sample_lift(&hk_site_samples, block, true);
    if (hk_sample_size(record) < HK_SITES_RULED)
        return HK_SITE_NO_RULE;
    unsigned number = hk_sample_site(record), place = 0, same = SITE_GHOSTS - 1;
    hk_lock(&sites_lock);
    enum hk_site_rule rule = site_states[number].rule;
    for (; place < SITE_GHOSTS && site_ghosts[place].bytes != 0; place++)
        same = site_ghosts[place].site == number ? place : same;
    place = place < SITE_GHOSTS ? place : same;
    memmove(site_ghosts + 1, site_ghosts, place * sizeof *site_ghosts);
    site_ghosts[0] = (struct site_ghost){bytes_of_block(hk_sample_size(record)), now, rule, number};
    hk_unlock(&sites_lock);
    return hk_options.site_rules == HK_SITE_RULES_ON ? rule : HK_SITE_NO_RULE;
}

/* Returns the bytes that `blocks` recorded blocks stand for. */
static uint64_t bytes_for(uint64_t blocks, uint64_t bytes)
{
    return blocks == 0 || bytes / blocks > HK_SITES_SAMPLED ? bytes
                                                            : blocks * hk_countdown_weight(bytes / blocks, MEAN);
}

unsigned hk_sites_top(struct hk_site_line *lines, unsigned most)
{
    unsigned count = 0;
    uint64_t now = hk_os.clock_ms();
    hk_lock(&sites_lock);
    for (unsigned i = 0; i < HK_RULE_SITES && hk_site_samples.xsites != NULL; i++) {
        const struct hk_site *site = hk_load_acquire(hk_site_samples.xsites[i]);
        const struct site_state *state = &site_states[i];
        if (site == NULL || now - state->seen_ms > HK_SITE_LIFE_MS)
            continue;
        uint64_t blocks = hk_positive_part(hk_load(site->xlive_blocks)), all = 0, below = 0;
        uint64_t live = bytes_for(blocks, hk_positive_part(hk_load(site->xlive_bytes))),
                 bytes = bytes_for(hk_load(site->xblocks), hk_load(site->xbytes));
        struct hk_site_line line = {site, live, bytes, 0, state->rule, state->saved, state->wasted};
        for (unsigned span = 0; span < HK_SAMPLE_LIFETIMES; span++)
            all += hk_load(site->xlifetimes[span]);
        for (unsigned span = 0; span < HK_SAMPLE_LIFETIMES && line.lifetime_ms == 0; span++)
            if ((below += hk_load(site->xlifetimes[span])) * 2 >= all && all > 0)
                line.lifetime_ms = (uint64_t)1 << span;
        hk_top_insert(lines, sizeof line, &count, most, &line, &line.live, 2);
    }
    hk_unlock(&sites_lock);
    return count;
}

HK_EACH_PROCESS void hk_sites_init(void) { hk_lock_register(HK_RANK_SITES, &sites_lock); }
