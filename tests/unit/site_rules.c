/* Tests that a site gets a rule when the rule clearly saves memory or time, and keeps the rule while it saves anything. Old observations lose
 * their weight. */
#include "unit/unit.h"

#include "prof/sites.h"

enum { DELAY = 500, WORTH = 2000, SOON = 100, LATE = 1000, GONE = 5000 };
static const struct hk_site_costs costs = {DELAY, WORTH};

static struct hk_site_fates fates_of(unsigned soon, unsigned late, unsigned gone)
{
    struct hk_site_fates fates = {0};
    for (unsigned i = 0; i < soon + late + gone; i++)
        hk_site_note(&fates, &costs, i < soon ? SOON : i < soon + late ? LATE : GONE);
    return fates;
}

static enum hk_site_rule rule_of(unsigned soon, unsigned late, unsigned gone, enum hk_site_rule now)
{
    struct hk_site_fates fates = fates_of(soon, late, gone);
    return hk_site_rule_for(&fates, &costs, now);
}

UNIT_TEST(rules)
{
    static const struct {
        unsigned soon, late, gone;
        enum hk_site_rule now, then;
    } cases[] = {
        {0, 0, 0, HK_SITE_NO_RULE, HK_SITE_NO_RULE},
        {0, 3, 0, HK_SITE_NO_RULE, HK_SITE_NO_RULE}, /* Three observations are too few for a rule. */
        {0, 4, 0, HK_SITE_NO_RULE, HK_SITE_KEEP_WARM},
        {20, 8, 0, HK_SITE_NO_RULE, HK_SITE_KEEP_WARM},
        {0, 6, 3, HK_SITE_NO_RULE, HK_SITE_KEEP_WARM},
        {0, 4, 4, HK_SITE_NO_RULE, HK_SITE_PURGE_AT_ONCE}, /* Half of the memory would be kept for nothing. */
        {0, 5, 3, HK_SITE_KEEP_WARM, HK_SITE_KEEP_WARM},   /* PURGE_AT_ONCE is not clearly better. */
        {0, 4, 5, HK_SITE_KEEP_WARM, HK_SITE_PURGE_AT_ONCE},
        {8, 4, 4, HK_SITE_NO_RULE, HK_SITE_NO_RULE},
        {8, 4, 4, HK_SITE_KEEP_WARM, HK_SITE_KEEP_WARM},
        {8, 4, 5, HK_SITE_KEEP_WARM, HK_SITE_NO_RULE},
        {0, 0, 4, HK_SITE_NO_RULE, HK_SITE_PURGE_AT_ONCE},
        {1, 0, 20, HK_SITE_NO_RULE, HK_SITE_PURGE_AT_ONCE},
        {3, 0, 20, HK_SITE_NO_RULE, HK_SITE_NO_RULE}, /* The page faults of three blocks would cost too much. */
        {1, 0, 8, HK_SITE_PURGE_AT_ONCE, HK_SITE_PURGE_AT_ONCE},
        {2, 0, 8, HK_SITE_PURGE_AT_ONCE, HK_SITE_NO_RULE},
        {10, 0, 0, HK_SITE_KEEP_WARM, HK_SITE_KEEP_WARM}, /* Without late blocks, KEEP_WARM costs nothing. */
        {10, 0, 0, HK_SITE_PURGE_AT_ONCE, HK_SITE_NO_RULE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (rule_of(cases[i].soon, cases[i].late, cases[i].gone, cases[i].now) != cases[i].then)
            fail_msg("case %zu", i);
}

/* If memory is purged at once anyway, a rule cannot purge it earlier. */
UNIT_TEST(no_delay_nothing_to_gain)
{
    struct hk_site_fates fates = {0};
    const struct hk_site_costs none = {0, WORTH};
    for (int i = 0; i < 20; i++)
        hk_site_note(&fates, &none, GONE);
    assert_int_equal(hk_site_rule_for(&fates, &none, HK_SITE_NO_RULE), HK_SITE_NO_RULE);
}

UNIT_TEST(forgets)
{
    struct hk_site_fates fates = {0};
    for (int i = 0; i < 1000; i++)
        hk_site_note(&fates, &costs, GONE);
    assert_true(fates.gone < 64);
    enum hk_site_rule rule = hk_site_rule_for(&fates, &costs, HK_SITE_NO_RULE);
    assert_int_equal(rule, HK_SITE_PURGE_AT_ONCE);
    for (int i = 0; i < 64; i++)
        hk_site_note(&fates, &costs, LATE);
    assert_int_equal(hk_site_rule_for(&fates, &costs, rule), HK_SITE_KEEP_WARM);
}

/* An idle time of exactly DELAY counts as `soon`, and one of exactly WORTH counts as `late`. */
UNIT_TEST(edges)
{
    struct hk_site_fates fates = {0};
    hk_site_note(&fates, &costs, DELAY);
    hk_site_note(&fates, &costs, DELAY + 1);
    hk_site_note(&fates, &costs, WORTH);
    hk_site_note(&fates, &costs, WORTH + 1);
    assert_int_equal(fates.soon, 1);
    assert_int_equal(fates.late, 2);
    assert_int_equal(fates.gone, 1);
    assert_int_equal(fates.late_ms, DELAY + 1 + WORTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules), cmocka_unit_test(no_delay_nothing_to_gain),
                                       cmocka_unit_test(forgets), cmocka_unit_test(edges)};
    return cmocka_run_group_tests_name("site_rules", tests, NULL, NULL);
}
