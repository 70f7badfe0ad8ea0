/* Publishes a new page of knobs. */
#include "policy/policy.h"

#include "os/os.h"

#define FIELD_start(name)
#define FIELD_policy(name) &hk_options.name,
static const uint64_t *const options_of_knobs[HK_KNOBS] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) FIELD_##scope(name)
#include "policy/options.def"
#undef HK_OPT
};

#define ROW_start(name, unit, fallback, min, max)
#define ROW_policy(name, unit, fallback, min, max) {#name, #unit, (fallback), (min), (max)},
const struct hk_knob_row hk_knob_rows[HK_KNOBS] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) ROW_##scope(name, unit, fallback, min, max)
#include "policy/options.def"
#undef HK_OPT
};

const char *const hk_phase_names[HK_PHASES] = {"STEADY", "BURST", "REMOTE_HEAVY", "MEM_TIGHT"};

#define FIRST_start(fallback)
#define FIRST_policy(fallback) (fallback),
static struct hk_policy first_page = {.xvalue = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) FIRST_##scope(fallback)
#include "policy/options.def"
#undef HK_OPT
                                      }};
_Atomic(const struct hk_policy *) hk_policy_now = &first_page;

static struct sealing {
    char *start; /* HK_POLICY_PAGES of the system's */
    unsigned next;
    bool sealed[HK_POLICY_PAGES];
    bool stays_open; /* pages sealed here could not be unsealed */
} sealing;

static void write_page(struct hk_policy *page, const struct hk_knobs *knobs, enum hk_phase state)
{
    hk_store(page->xstate, state);
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(page->xvalue[knob], knobs->value[knob]);
}

void hk_policy_begin(void)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(first_page.xvalue[knob], *options_of_knobs[knob]);
    hk_store_release(hk_policy_now, &first_page);
}

void hk_policy_read(struct hk_knobs *knobs)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        knobs->value[knob] = hk_policy_value(knob);
}

static bool map_pages(void)
{
    char *start = hk_os.map(HK_POLICY_PAGES * hk_system_page());
    if (start == NULL)
        return false;
    sealing = (struct sealing){.start = start, .stays_open = sealing.start != NULL};
    return true;
}

/* Returns the next page to write; NULL on failure. If a sandbox forbids unsealing, maps a new set of pages once, and
 * leaves the old ones mapped for their readers. */
static struct hk_policy *next_page(void)
{
    char *page = sealing.start + sealing.next * hk_system_page();
    bool stuck = sealing.start == NULL || (sealing.sealed[sealing.next] && !hk_os.unseal(page, hk_system_page()));
    if (stuck && !map_pages())
        return NULL;
    return (struct hk_policy *)(void *)(sealing.start + sealing.next * hk_system_page());
}

/* A page that cannot be sealed is used unsealed: the seal only protects against stray writes. */
bool hk_policy_publish(const struct hk_knobs *knobs, enum hk_phase state)
{
    struct hk_policy *page = next_page();
    if (page == NULL)
        return false;
    write_page(page, knobs, state);
    sealing.sealed[sealing.next] = !sealing.stays_open && hk_os.seal(page, hk_system_page());
    sealing.next = (sealing.next + 1) % HK_POLICY_PAGES;
    hk_store_release(hk_policy_now, page);
    return true;
}
