/* Publishes new pages of knobs, and writes the knobs as a profile. */
#include "policy/policy.h"
#include "os/os.h"

const struct hk_knob_row hk_knob_rows[HK_KNOBS] = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning)                                                   \
    HK_KNOB_IF_##scope({#name, #unit, &hk_options.name, fallback, min, max})
#include "policy/options.def"
};

const char hk_phase_names[HK_PHASES][16] = {"STEADY", "BURST", "REMOTE_HEAVY", "MEM_TIGHT"};

static struct hk_policy first_page = {.xvalue = {
#define HK_OPT(kind, name, fallback, min, max, scope, unit, meaning) HK_KNOB_IF_##scope(fallback)
#include "policy/options.def"
                                      }};
_Atomic(const struct hk_policy *) hk_policy_now = &first_page;

static struct sealing {
    char *start; /* HK_POLICY_PAGES pages of the system */
    unsigned next;
    bool sealed[HK_POLICY_PAGES];
    bool stays_open; /* true if the system refused to unseal earlier pages; then no later page is sealed */
} sealing;

/* HAKMEM_THP=off and HAKMEM_THP=on replace the two thresholds of huge pages by values that mean never and always. */
void hk_policy_begin(void)
{
    if (hk_options.thp != HK_THP_AUTO) {
        hk_options.huge_pages_from = hk_options.thp == HK_THP_ON;
        hk_options.huge_blocks_from = hk_options.thp == HK_THP_ON ? 2 * HK_MIB : 0;
    }
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(first_page.xvalue[knob], *hk_knob_rows[knob].option);
    hk_store_release(hk_policy_now, &first_page);
}

void hk_policy_read(struct hk_knobs *knobs)
{
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        knobs->value[knob] = hk_policy_value(knob);
}

/* Returns the next page to write, or NULL if memory is refused. If a sandbox forbids unsealing, maps new pages once. Readers may use old ones. */
static struct hk_policy *next_page(void)
{
    char *page = sealing.start + sealing.next * hk_system_page();
    if (sealing.start == NULL || (sealing.sealed[sealing.next] && !hk_os.unseal(page, hk_system_page()))) {
        page = hk_os.map(HK_POLICY_PAGES * hk_system_page());
        if (page != NULL)
            sealing = (struct sealing){.start = page, .stays_open = sealing.start != NULL};
    }
    return (struct hk_policy *)(void *)page;
}

/* Publishes a page even if it cannot be sealed, because the seal is only a protection against stray writes of the program. */
bool hk_policy_publish(const struct hk_knobs *knobs, enum hk_phase state)
{
    struct hk_policy *page = next_page();
    if (page == NULL)
        return false;
    hk_store(page->xstate, state);
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_store(page->xvalue[knob], knobs->value[knob]);
    sealing.sealed[sealing.next] = !sealing.stays_open && hk_os.seal(page, hk_system_page());
    sealing.next = (sealing.next + 1) % HK_POLICY_PAGES;
    hk_store_release(hk_policy_now, page);
    return true;
}

void hk_profile_add(struct hk_text *text, const struct hk_knobs *knobs)
{
    hk_text_add(text, "# hakmem profile\n");
    for (unsigned knob = 0; knob < HK_KNOBS; knob++)
        hk_text_add(text, "%s = %lu # %s\n", hk_knob_rows[knob].name, knobs->value[knob], hk_knob_rows[knob].unit);
}
