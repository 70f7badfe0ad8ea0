#include "prof/sites.h"

#include "base/bits.h"
#include "base/lock.h"
#include "count/decisions.h"
#include "count/stats.h"
#include "os/os.h"
#include "policy/policy.h"
#include "span/meta.h"

#define MEAN (512 * HK_KIB) /* mean bytes between two picked blocks, big ones excluded */
enum {
    LIFETIMES = 32, /* span b: up to 2^b ms */
    SITE_GHOSTS = 32,
    MOST_CREDIT = 8, /* newcomers to a full table that an inactive site outlasts */
    NO_SITE = HK_SITES,
};

struct call_site {
    const void *caller;
    unsigned size_bits; /* 0: the place is free */
    unsigned turn;      /* the number of sites that used the place before */
    unsigned credit;
    enum hk_site_rule rule;
    uint64_t seen_ms;
    int64_t live;
    uint64_t bytes, saved, wasted;
    uint32_t lifetimes[LIFETIMES];
    struct hk_site_fates fates;
};

struct record {
    uint64_t weight;
    uint32_t born_ms;
    uint16_t site, turn;
};

/* A freed block: it represents its memory, whether that is still mapped or not. */
struct site_ghost {
    size_t bytes; /* 0: none */
    uint64_t freed_ms;
    enum hk_site_rule rule; /* the rule at its free, also if only watched */
    unsigned site, turn;
};

static struct hk_lock sites_lock = HK_LOCK_INIT(HK_RANK_SITES);
static struct {
    struct call_site *all;
    struct record *records; /* one for each place */
    struct site_ghost ghosts[SITE_GHOSTS];
    unsigned next_ghost, next_judged;
} sites HK_COLD_DATA;

_Atomic uintptr_t *hk_site_places;

bool hk_sites_open(void)
{
    sites.all = hk_meta_alloc(HK_SITES * sizeof *sites.all);
    sites.records = hk_meta_alloc(HK_SITE_PLACES * sizeof *sites.records);
    hk_site_places = hk_meta_alloc(HK_SITE_PLACES * sizeof *hk_site_places);
    return sites.all != NULL && sites.records != NULL && hk_site_places != NULL;
}

static struct hk_site_costs costs_now(void)
{
    return (struct hk_site_costs){.delay_ms = HK_POLICY(purge_delay), .worth_ms = hk_options.reuse_worth};
}

uint64_t hk_site_keep_until(void) { return hk_os.clock_ms() + hk_options.reuse_worth; }

/* Sites. */

/* log2 of the size, rounded up. */
static unsigned size_bits_of(size_t size) { return 64 - (unsigned)__builtin_clzll(size - 1); }

static bool is_expired(const struct call_site *site, uint64_t now) { return now - site->seen_ms > HK_SITE_LIFE_MS; }

static unsigned known_site_locked(const void *caller, unsigned size_bits)
{
    unsigned number = 0;
    while (number < HK_SITES && (sites.all[number].caller != caller || sites.all[number].size_bits != size_bits))
        number++;
    return number;
}

/* Returns a free place, or that of a site not seen for long. Otherwise each newcomer decrements the credit of one site,
 * in turn, and replaces a site without credit: a recurring site survives among thousands that occur once. */
static unsigned place_for_site_locked(uint64_t now)
{
    for (unsigned number = 0; number < HK_SITES; number++)
        if (sites.all[number].size_bits == 0 || is_expired(&sites.all[number], now))
            return number;
    unsigned judged = sites.next_judged++ % HK_SITES;
    if (sites.all[judged].credit == 0)
        return judged;
    sites.all[judged].credit--;
    return NO_SITE;
}

static unsigned site_for_locked(const void *caller, unsigned size_bits, uint64_t now)
{
    unsigned number = known_site_locked(caller, size_bits);
    if (number == NO_SITE && (number = place_for_site_locked(now)) != NO_SITE)
        sites.all[number] =
            (struct call_site){.caller = caller, .size_bits = size_bits, .turn = sites.all[number].turn + 1};
    if (number == NO_SITE)
        return NO_SITE;
    struct call_site *site = &sites.all[number];
    site->seen_ms = now;
    site->credit = (unsigned)hk_min(site->credit + 1, MOST_CREDIT);
    return number;
}

/* Returns NULL if another site uses the place now. */
static struct call_site *current_site(unsigned number, unsigned turn)
{
    struct call_site *site = &sites.all[number];
    return (uint16_t)site->turn == (uint16_t)turn ? site : NULL;
}

/* Ghosts: the records of freed big blocks, until a request that fits shows how long each was idle. */

static void note_site_rule(const struct call_site *site, const struct hk_site_costs *costs, enum hk_site_rule before,
                           uint64_t now)
{
    static const enum hk_decision_kind kinds[HK_SITE_RULES] = {HK_DECISION_site_no_rule, HK_DECISION_site_keep_warm,
                                                               HK_DECISION_site_purge_at_once};
    enum hk_site_rule of_interest = site->rule != HK_SITE_NO_RULE ? site->rule : before;
    int64_t gain = hk_site_rule_gain(&site->fates, costs, of_interest);
    if (hk_options.explain != NULL)
        hk_decision_note(&(struct hk_decision){
            .ms = now,
            .kind = kinds[site->rule],
            .before = before,
            .after = site->rule,
            .seen = {(uintptr_t)site->caller, (uint64_t)1 << site->size_bits, gain > 0 ? (uint64_t)gain : 0}});
}

static bool was_right(const struct site_ghost *ghost, const struct hk_site_costs *costs, uint64_t idle_ms)
{
    if (ghost->rule == HK_SITE_PURGE_AT_ONCE)
        return idle_ms > costs->delay_ms;
    return idle_ms <= costs->worth_ms;
}

/* The cache would have served a kept block that was reused within the delay also without the rule. */
static bool rule_had_no_effect(const struct site_ghost *ghost, const struct hk_site_costs *costs, uint64_t idle_ms)
{
    return ghost->rule == HK_SITE_NO_RULE || (ghost->rule == HK_SITE_KEEP_WARM && idle_ms <= costs->delay_ms);
}

/* Retires a ghost: its memory was reused after idle_ms, or not within reuse_worth. */
static void retire_ghost_locked(struct site_ghost *ghost, uint64_t idle_ms, uint64_t now)
{
    struct call_site *site = current_site(ghost->site, ghost->turn);
    struct hk_site_costs costs = costs_now();
    size_t bytes = ghost->bytes;
    ghost->bytes = 0;
    if (site == NULL)
        return;
    if (!rule_had_no_effect(ghost, &costs, idle_ms))
        *(was_right(ghost, &costs, idle_ms) ? &site->saved : &site->wasted) += bytes;
    hk_site_note(&site->fates, &costs, idle_ms);
    enum hk_site_rule before = site->rule;
    site->rule = hk_site_rule_for(&site->fates, &costs, before);
    if (site->rule != before)
        note_site_rule(site, &costs, before, now);
}

static bool would_serve(const struct site_ghost *ghost, size_t bytes)
{
    return ghost->bytes >= bytes && ghost->bytes * 100 <= bytes * HK_POLICY(big_fit);
}

/* Matches the newest ghost that fits, as the cache would. Retires the expired ghosts on the way. */
static void match_ghosts_locked(size_t bytes, uint64_t now)
{
    bool matched = false;
    for (unsigned back = 1; back <= SITE_GHOSTS; back++) {
        struct site_ghost *ghost = &sites.ghosts[(sites.next_ghost - back) % SITE_GHOSTS];
        uint64_t idle_ms = now - hk_min(now, ghost->freed_ms);
        if (ghost->bytes == 0)
            continue;
        bool matches = !matched && would_serve(ghost, bytes);
        if (matches || idle_ms > hk_options.reuse_worth)
            retire_ghost_locked(ghost, idle_ms, now);
        matched |= matches;
    }
}

static void add_ghost_locked(const struct record *record, enum hk_site_rule rule, uint64_t now)
{
    sites.ghosts[sites.next_ghost % SITE_GHOSTS] = (struct site_ghost){.bytes = hk_align_up(record->weight, HK_PAGE),
                                                                       .freed_ms = now,
                                                                       .rule = rule,
                                                                       .site = record->site,
                                                                       .turn = record->turn};
    sites.next_ghost++;
}

/* Places. */

static bool enter_locked(const void *block, const struct record *record)
{
    size_t place = hk_site_place(block);
    place += hk_load(hk_site_places[place]) != 0;
    if (hk_load(hk_site_places[place]) != 0)
        return false;
    sites.records[place] = *record;
    hk_store(hk_site_places[place], (uintptr_t)block);
    return true;
}

static bool remove_locked(const void *block, struct record *record)
{
    size_t place = hk_site_place(block);
    place += hk_load(hk_site_places[place]) != (uintptr_t)block;
    if (hk_load(hk_site_places[place]) != (uintptr_t)block)
        return false;
    *record = sites.records[place];
    hk_store(hk_site_places[place], 0);
    struct call_site *site = current_site(record->site, record->turn);
    if (site != NULL)
        site->live -= (int64_t)record->weight;
    return true;
}

static void enter_new_locked(const void *block, size_t size, const void *caller, uint64_t now)
{
    unsigned number = site_for_locked(caller, size_bits_of(size), now);
    uint64_t weight = size > HK_SITES_BIG ? size : hk_countdown_weight(size, MEAN);
    struct record record = {.weight = weight, .born_ms = (uint32_t)now, .site = (uint16_t)number};
    if (number != NO_SITE)
        record.turn = (uint16_t)sites.all[number].turn;
    if (number == NO_SITE || !enter_locked(block, &record)) {
        HK_COUNT(sites_lost, 1);
        return;
    }
    sites.all[number].live += (int64_t)weight;
    sites.all[number].bytes += weight;
}

void hk_sites_alloc(struct hk_countdown *countdown, const void *block, size_t size, const void *caller, bool fresh)
{
    bool is_big = size > HK_SITES_BIG;
    if (!is_big &&
        (countdown == NULL || !hk_countdown_runs_out(countdown, size) || !hk_countdown_picks(countdown, MEAN)))
        return;
    uint64_t now = hk_os.clock_ms();
    hk_lock(&sites_lock);
    if (is_big && fresh)
        match_ghosts_locked(hk_align_up(size, HK_PAGE), now);
    enter_new_locked(block, size, caller, now);
    hk_unlock(&sites_lock);
}

static void note_lifetime(struct call_site *site, uint32_t ms)
{
    unsigned span = 0;
    while (span < LIFETIMES - 1 && ms > (uint32_t)1 << span)
        span++;
    site->lifetimes[span]++;
}

static enum hk_site_rule end_locked(const struct record *record, uint64_t now)
{
    struct call_site *site = current_site(record->site, record->turn);
    if (site == NULL)
        return HK_SITE_NO_RULE;
    note_lifetime(site, (uint32_t)now - record->born_ms);
    if (site->size_bits <= size_bits_of(HK_SITES_BIG))
        return HK_SITE_NO_RULE;
    add_ghost_locked(record, site->rule, now);
    return site->rule;
}

enum hk_site_rule hk_sites_free(const void *block)
{
    struct record record;
    uint64_t now = hk_os.clock_ms();
    hk_lock(&sites_lock);
    enum hk_site_rule rule = remove_locked(block, &record) ? end_locked(&record, now) : HK_SITE_NO_RULE;
    hk_unlock(&sites_lock);
    return hk_options.site_rules == HK_SITE_RULES_ON ? rule : HK_SITE_NO_RULE;
}

void hk_sites_resize(const void *block)
{
    struct record record;
    hk_lock(&sites_lock);
    (void)remove_locked(block, &record);
    hk_unlock(&sites_lock);
}

/* The report. */

static uint64_t median_lifetime(const struct call_site *site)
{
    uint64_t all = 0, below = 0;
    for (unsigned span = 0; span < LIFETIMES; span++)
        all += site->lifetimes[span];
    for (unsigned span = 0; span < LIFETIMES; span++)
        if ((below += site->lifetimes[span]) * 2 >= all && all > 0)
            return (uint64_t)1 << span;
    return 0;
}

static struct hk_site_line line_of(const struct call_site *site)
{
    return (struct hk_site_line){
        .caller = site->caller,
        .block = (size_t)1 << site->size_bits,
        .live = site->live > 0 ? (uint64_t)site->live : 0,
        .bytes = site->bytes,
        .lifetime_ms = median_lifetime(site),
        .rule = site->rule,
        .saved = site->saved,
        .wasted = site->wasted,
    };
}

static bool ranks_before(const struct hk_site_line *one, const struct hk_site_line *other)
{
    return one->live != other->live ? one->live > other->live : one->bytes > other->bytes;
}

static unsigned insert_line(struct hk_site_line *lines, unsigned count, unsigned most, const struct hk_site_line *line)
{
    unsigned at = count;
    for (; at > 0 && ranks_before(line, &lines[at - 1]); at--)
        if (at < most)
            lines[at] = lines[at - 1];
    if (at < most)
        lines[at] = *line;
    return (unsigned)hk_min(count + 1, most);
}

unsigned hk_sites_top(struct hk_site_line *lines, unsigned most)
{
    unsigned count = 0;
    uint64_t now = hk_os.clock_ms();
    if (hk_site_places == NULL)
        return 0;
    hk_lock(&sites_lock);
    for (unsigned number = 0; number < HK_SITES; number++) {
        struct hk_site_line line = line_of(&sites.all[number]);
        if (sites.all[number].size_bits != 0 && !is_expired(&sites.all[number], now))
            count = insert_line(lines, count, most, &line);
    }
    hk_unlock(&sites_lock);
    return count;
}

void hk_sites_init(void) { hk_lock_register(HK_RANK_SITES, &sites_lock); }
