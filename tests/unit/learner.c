/* Tests each rule of the learner with invented signals. The learner is a pure function of its state and the signals. */
#include "unit/unit.h"

#include <string.h>

#include "learn/learner.h"
#include "support/rng.h"

static struct hk_learner learner;
static struct hk_step step;

static void begin_with(uint64_t mode, uint64_t rules)
{
    struct hk_knobs options;
    memset(&step, 0, sizeof step);
    hk_policy_read(&options);
    hk_learner_begin(&learner, &options, 500, mode, rules);
}

static void begin(uint64_t mode) { begin_with(mode, HK_RULES_ALL); }

static uint64_t knob(enum hk_knob which) { return learner.now.value[which]; }

/* Makes `ticks` ticks with the signals `saw`. Returns the number of decisions of the given kind. */
static unsigned pass(const struct hk_signals *saw, unsigned ticks, enum hk_decision_kind kind)
{
    unsigned decisions = 0;
    for (; ticks > 0; ticks--) {
        hk_learner_step(&learner, saw, &step);
        for (unsigned i = 0; i < step.count; i++)
            decisions += step.decisions[i].kind == kind;
    }
    return decisions;
}

#define SEEN(...) (&(struct hk_signals){.value = {[HK_SIGNAL_elapsed] = 150, [HK_SIGNAL_cpus] = 4, __VA_ARGS__}})
#define IS(name) [HK_SIGNAL_##name]

UNIT_TEST(nothing_seen_nothing_changes)
{
    begin(HK_LEARN_ON);
    struct hk_knobs before = learner.now;
    for (int i = 0; i < 1000; i++) {
        hk_learner_step(&learner, SEEN(), &step);
        assert_int_equal(step.count, 0);
    }
    assert_memory_equal(&before, &learner.now, sizeof before);
}

UNIT_TEST(states_begin_at_once_and_end_when_it_is_calm)
{
    begin(HK_LEARN_ON);
    assert_int_equal(pass(SEEN(IS(slabs_made) = 1000), 1, HK_DECISION_state_burst), 1);
    assert_int_equal(learner.state, HK_PHASE_BURST);
    assert_int_equal(pass(SEEN(), 2, HK_DECISION_state_steady), 0);
    assert_int_equal(pass(SEEN(IS(remote) = 100000, IS(misses) = 100), 1, HK_DECISION_state_remote), 1);
    assert_int_equal(pass(SEEN(), 3, HK_DECISION_state_steady), 1);
    assert_int_equal(pass(SEEN(IS(remote) = 100000, IS(misses) = 100000), 5, HK_DECISION_state_remote), 0);
    assert_int_equal(pass(SEEN(IS(slabs_made) = 1000, IS(slabs_released) = 990), 5, HK_DECISION_state_burst), 0);
}

UNIT_TEST(what_is_wanted_again_soon_is_held_for_no_longer)
{
    begin(HK_LEARN_ON);
    assert_true(pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_64ms) = 64 * HK_MIB), 100, HK_DECISION_delay_shorter) == 0);
    /* Without new idle memory, the delay stays, because all memory that was idle has been reused. */
    assert_true(pass(SEEN(), 100, HK_DECISION_delay_shorter) == 0);
    /* Half of the memory is not reused. To hold it for 500 ms costs memory and gains nothing. */
    assert_true(pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_64ms) = 32 * HK_MIB), 100, HK_DECISION_delay_shorter) >= 1);
    assert_int_equal(knob(HK_KNOB_purge_delay), 128);
}

UNIT_TEST(what_comes_back_within_the_option_is_waited_for)
{
    begin(HK_LEARN_ON);
    uint64_t option = knob(HK_KNOB_purge_delay);
    const struct hk_signals *in_time = SEEN(IS(idled) = 64 * HK_MIB, IS(back_512ms) = 64 * HK_MIB);
    assert_int_equal(pass(in_time, 60, HK_DECISION_delay_shorter), 0);
    /* To hold the memory for a part of the time until its reuse costs memory, and the page faults come anyway. */
    assert_true(pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_1s) = 64 * HK_MIB), 300, HK_DECISION_delay_shorter) >= 1);
    assert_int_equal(knob(HK_KNOB_purge_delay), 128);
    assert_int_equal(pass(in_time, 60, HK_DECISION_delay_longer), 1);
    assert_int_equal(knob(HK_KNOB_purge_delay), option);
}

UNIT_TEST(a_shift_is_followed)
{
    begin(HK_LEARN_ON);
    uint64_t option = knob(HK_KNOB_purge_delay);
    pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_512ms) = 64 * HK_MIB), 60, HK_DECISION_KINDS);
    unsigned ticks = 0;
    for (; knob(HK_KNOB_purge_delay) == option && ticks < 100; ticks++)
        hk_learner_step(&learner, SEEN(IS(idled) = 256 * HK_MIB, IS(back_64ms) = 128 * HK_MIB), &step);
    assert_in_range(ticks, 1, 40);
}

UNIT_TEST(an_option_between_two_spans_or_beyond_them_is_a_delay)
{
    static const uint64_t options[] = {0, 100, 300, 60000}, longest[] = {0, 100, 256, 60000};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        begin(HK_LEARN_ON);
        learner.option.value[HK_KNOB_purge_delay] = learner.target.value[HK_KNOB_purge_delay] = options[i];
        pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_64ms) = 32 * HK_MIB), 100, HK_DECISION_KINDS);
        assert_int_equal(knob(HK_KNOB_purge_delay), hk_min(options[i], 128));
        learner.reuse_worth = 100000;
        pass(SEEN(IS(idled) = 64 * HK_MIB, IS(back_256ms) = 32 * HK_MIB, IS(back_later) = 32 * HK_MIB), 200,
             HK_DECISION_KINDS);
        assert_int_equal(knob(HK_KNOB_purge_delay), longest[i]);
    }
}

#define MISSED IS(large_missed) = 10, IS(large_reused) = 10, IS(large_mapped) = 20

UNIT_TEST(the_large_cache_grows_where_it_is_short_and_shrinks_when_not)
{
    begin(HK_LEARN_ON);
    uint64_t large = knob(HK_KNOB_large_cache);
    assert_int_equal(pass(SEEN(MISSED), 1, HK_DECISION_large_cache_more), 0);
    assert_int_equal(pass(SEEN(MISSED), 1, HK_DECISION_large_cache_more), 1);
    assert_int_equal(knob(HK_KNOB_large_cache), 2 * large);
    pass(SEEN(IS(large_missed) = 10, IS(large_reused) = 90, IS(large_mapped) = 10), 10, HK_DECISION_large_cache_more);
    assert_int_equal(knob(HK_KNOB_large_cache), 2 * large); /* The target has been met. */
    pass(SEEN(MISSED), 100, HK_DECISION_large_cache_more);
    assert_int_equal(knob(HK_KNOB_large_cache), 8 * large);
    pass(SEEN(), 1000, HK_DECISION_large_cache_less);
    assert_int_equal(knob(HK_KNOB_large_cache), large);
}

#define CROWDED_OUT(percent) IS(depot_full) = 10, IS(medium_reused) = percent, IS(medium_refilled) = 100 - percent

UNIT_TEST(the_depot_grows_to_its_target_within_ten_ticks_and_shrinks_when_unused)
{
    begin(HK_LEARN_ON);
    uint64_t depot = knob(HK_KNOB_depot);
    pass(SEEN(CROWDED_OUT(65)), 10, HK_DECISION_KINDS);
    assert_int_equal(knob(HK_KNOB_depot), depot); /* The target has been met. */
    assert_int_equal(pass(SEEN(CROWDED_OUT(64)), 10, HK_DECISION_depot_more), 5);
    assert_int_equal(knob(HK_KNOB_depot), 32 * depot);
    assert_int_equal(pass(SEEN(CROWDED_OUT(64)), 10, HK_DECISION_depot_more), 0);
    pass(SEEN(IS(medium_refilled) = 100), 1000, HK_DECISION_depot_less);
    assert_int_equal(knob(HK_KNOB_depot), depot);
    learner.option.value[HK_KNOB_target_hit_mid] = 0;
    assert_int_equal(pass(SEEN(CROWDED_OUT(0)), 10, HK_DECISION_depot_more), 0);
}

#define BURST IS(slabs_made) = 1000
#define BLOCKS IS(large_fresh) = 64 * HK_MIB, IS(large_mapped) = 30
#define SHORT_OF_MEMORY IS(goal) = 100 * HK_MIB, IS(used) = 95 * HK_MIB

UNIT_TEST(new_blocks_ask_for_huge_pages_for_some_time)
{
    begin(HK_LEARN_ON);
    uint64_t pages = knob(HK_KNOB_huge_pages_from), blocks = knob(HK_KNOB_huge_blocks_from);
    assert_int_equal(pass(SEEN(BLOCKS), 3, HK_DECISION_huge_blocks_more), 1);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), HK_MIB);
    assert_int_equal(knob(HK_KNOB_huge_pages_from), pages);
    assert_int_equal(pass(SEEN(IS(large_fresh) = HK_MIB), 300, HK_DECISION_huge_blocks_less), 0);
    assert_int_equal(pass(SEEN(IS(large_fresh) = HK_MIB), 200, HK_DECISION_huge_blocks_less), 1);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), blocks);
}

#define REMOTE IS(remote) = 100000, IS(misses) = 100

static void assert_knobs(uint64_t refill, uint64_t hot_turns, uint64_t drain_slabs)
{
    assert_int_equal(knob(HK_KNOB_refill), refill);
    assert_int_equal(knob(HK_KNOB_hot_turns), hot_turns);
    assert_int_equal(knob(HK_KNOB_drain_slabs), drain_slabs);
}

UNIT_TEST(a_phase_bounds_its_knobs_while_it_lasts)
{
    begin(HK_LEARN_ON);
    struct hk_knobs before = learner.now;
    assert_int_equal(pass(SEEN(BURST), 100, HK_DECISION_refill_burst), 1);
    assert_knobs(100, 1, 16);
    assert_int_equal(pass(SEEN(REMOTE), 1, HK_DECISION_drain_remote), 1);
    assert_knobs(50, 1, 64);
    assert_int_equal(pass(SEEN(BURST, SHORT_OF_MEMORY), 1, HK_DECISION_refill_tight), 1);
    assert_knobs(25, 16, 16);
    assert_int_equal(pass(SEEN(), 3, HK_DECISION_hot_eased), 1);
    assert_memory_equal(&before, &learner.now, sizeof before);
    learner.option.value[HK_KNOB_drain_slabs] = learner.target.value[HK_KNOB_drain_slabs] = 100;
    pass(SEEN(), 1, HK_DECISION_KINDS);
    assert_int_equal(pass(SEEN(REMOTE), 5, HK_DECISION_drain_remote), 0);
    assert_knobs(50, 1, 100);
}

UNIT_TEST(a_phase_whose_rule_is_off_or_frozen_bounds_nothing)
{
    begin_with(HK_LEARN_ON, HK_RULES_ALL & ~(uint64_t)HK_RULE_BURST);
    pass(SEEN(BURST), 5, HK_DECISION_KINDS);
    assert_knobs(50, 1, 16);
    pass(SEEN(REMOTE), 5, HK_DECISION_KINDS);
    assert_knobs(50, 1, 64);
    begin_with(HK_LEARN_ON, HK_RULES_ALL & ~(uint64_t)HK_RULE_REMOTE);
    pass(SEEN(REMOTE), 5, HK_DECISION_KINDS);
    assert_knobs(50, 1, 16);
    begin(HK_LEARN_FROZEN);
    pass(SEEN(BURST), 5, HK_DECISION_KINDS);
    assert_knobs(50, 1, 16);
    pass(SEEN(SHORT_OF_MEMORY), 5, HK_DECISION_KINDS);
    assert_knobs(25, 16, 16);
}

UNIT_TEST(no_huge_pages_where_memory_is_short_or_the_option_says_never)
{
    begin(HK_LEARN_ON);
    uint64_t pages = knob(HK_KNOB_huge_pages_from), blocks = knob(HK_KNOB_huge_blocks_from);
    learner.option.value[HK_KNOB_huge_pages_from] = learner.target.value[HK_KNOB_huge_pages_from] = HK_MIB;
    pass(SEEN(BLOCKS), 1, HK_DECISION_KINDS);
    assert_int_equal(knob(HK_KNOB_huge_pages_from), HK_MIB);
    assert_int_equal(pass(SEEN(BLOCKS, SHORT_OF_MEMORY), 1, HK_DECISION_huge_pages_tight), 1);
    assert_int_equal(knob(HK_KNOB_huge_pages_from), pages);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), blocks);
    assert_int_equal(pass(SEEN(BLOCKS), 20, HK_DECISION_huge_pages_eased), 1);
    assert_int_equal(knob(HK_KNOB_huge_pages_from), HK_MIB);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), HK_MIB);
    learner.option.value[HK_KNOB_huge_blocks_from] = 0;
    pass(SEEN(BLOCKS), 10, HK_DECISION_KINDS);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), 0);
}

UNIT_TEST(a_crowd_of_threads_shares)
{
    begin(HK_LEARN_ON);
    uint64_t alone = knob(HK_KNOB_thread_cache);
    assert_int_equal(pass(SEEN(IS(threads) = 32), 5, HK_DECISION_caches_crowded), 0);
    assert_int_equal(pass(SEEN(IS(threads) = 320), 5, HK_DECISION_caches_crowded), 1);
    assert_in_range(knob(HK_KNOB_thread_cache), alone / 20, alone / 10);
    assert_int_equal(pass(SEEN(IS(threads) = 321), 5, HK_DECISION_caches_crowded), 0);
    pass(SEEN(IS(threads) = 100000), 5, HK_DECISION_KINDS);
    assert_in_range(knob(HK_KNOB_thread_cache), 64 * HK_KIB, 256 * HK_KIB);
    assert_int_equal(pass(SEEN(IS(threads) = 4), 5, HK_DECISION_caches_uncrowded), 1);
    assert_int_equal(knob(HK_KNOB_thread_cache), alone);
}

/* The signals in `all` make every rule act at once. */
UNIT_TEST(a_rule_that_is_off_moves_nothing_and_the_others_do)
{
    static const struct {
        enum hk_rule rule;
        enum hk_knob knob;
    } rules[] = {{HK_RULE_DELAY, HK_KNOB_purge_delay},
                 {HK_RULE_CAPS, HK_KNOB_large_cache},
                 {HK_RULE_CROWD, HK_KNOB_thread_cache},
                 {HK_RULE_HUGE, HK_KNOB_huge_blocks_from}};
    const struct hk_signals *all = SEEN(MISSED, IS(large_fresh) = 64 * HK_MIB, IS(threads) = 320,
                                        IS(idled) = 64 * HK_MIB, IS(back_1s) = 64 * HK_MIB);
    for (size_t off = 0; off < 4; off++) {
        begin_with(HK_LEARN_ON, HK_RULES_ALL & ~(uint64_t)rules[off].rule);
        pass(all, 60, HK_DECISION_KINDS);
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(knob(rules[i].knob) == learner.option.value[rules[i].knob], i == off);
    }
}

UNIT_TEST(a_goal_that_is_near_tightens_and_eases)
{
    begin(HK_LEARN_ON);
    struct hk_knobs before = learner.now;
    const uint64_t goal = 100 * HK_MIB;
    assert_int_equal(
        pass(SEEN(IS(goal) = goal, IS(used) = 50 * HK_MIB, IS(footprint) = 40 * HK_MIB), 5, HK_DECISION_ceiling_set),
        1);
    assert_in_range(knob(HK_KNOB_ceiling), 80 * HK_MIB, 90 * HK_MIB);
    assert_int_equal(knob(HK_KNOB_depot), before.value[HK_KNOB_depot]);
    assert_int_equal(
        pass(SEEN(IS(goal) = goal, IS(used) = 95 * HK_MIB, IS(footprint) = 85 * HK_MIB), 5, HK_DECISION_depot_tight),
        1);
    assert_int_equal(learner.state, HK_PHASE_TIGHT);
    assert_int_equal(knob(HK_KNOB_depot), 0);
    assert_true(knob(HK_KNOB_thread_cache) <= HK_MIB);
    pass(SEEN(IS(goal) = goal, IS(used) = 80 * HK_MIB, IS(footprint) = 70 * HK_MIB), 20, HK_DECISION_KINDS);
    assert_int_equal(learner.state, HK_PHASE_TIGHT); /* Too much memory is in use for a return to the normal phase. */
    assert_int_equal(
        pass(SEEN(IS(goal) = goal, IS(used) = 60 * HK_MIB, IS(footprint) = 50 * HK_MIB), 5, HK_DECISION_depot_eased),
        1);
    pass(SEEN(), 5, HK_DECISION_KINDS);
    assert_memory_equal(&before, &learner.now, sizeof before);
}

UNIT_TEST(stalls_of_the_system_tighten_as_well)
{
    begin(HK_LEARN_ON);
    assert_int_equal(pass(SEEN(IS(stalled) = 10000), 5, HK_DECISION_state_tight), 0);
    assert_int_equal(pass(SEEN(IS(stalled) = 20000), 5, HK_DECISION_delay_tight), 1);
    assert_int_equal(learner.state, HK_PHASE_TIGHT);
    assert_int_equal(knob(HK_KNOB_purge_delay), 128);
    assert_int_equal(pass(SEEN(), 15, HK_DECISION_delay_eased), 0);
    assert_int_equal(pass(SEEN(), 10, HK_DECISION_delay_eased), 1);
    assert_int_equal(knob(HK_KNOB_purge_delay), learner.option.value[HK_KNOB_purge_delay]);
}

UNIT_TEST(frozen_moves_for_the_goal_only)
{
    begin(HK_LEARN_FROZEN);
    pass(SEEN(MISSED, IS(idled) = 64 * HK_MIB, IS(back_1s) = 64 * HK_MIB), 100, HK_DECISION_KINDS);
    assert_memory_equal(&learner.now, &learner.option, sizeof learner.now);
    pass(SEEN(IS(goal) = HK_MIB, IS(used) = HK_MIB), 1, HK_DECISION_KINDS);
    assert_int_equal(knob(HK_KNOB_depot), 0);
}

UNIT_TEST(a_canary_that_does_worse_is_taken_back)
{
    begin(HK_LEARN_CANARY);
    const struct hk_signals *calm = SEEN(IS(misses) = 1000, MISSED), *worse = SEEN(IS(misses) = 100000, MISSED);
    uint64_t first = knob(HK_KNOB_large_cache);
    assert_int_equal(pass(calm, 2, HK_DECISION_large_cache_more), 1);
    assert_int_equal(knob(HK_KNOB_large_cache), 2 * first);
    assert_int_equal(pass(worse, 16, HK_DECISION_canary_back), 1);
    assert_int_equal(knob(HK_KNOB_large_cache), first);
    /* After the change was taken back, the learner does not change the knob for some time. */
    assert_int_equal(pass(calm, 63, HK_DECISION_large_cache_more), 0);
    assert_int_equal(pass(calm, 18, HK_DECISION_canary_kept), 1);
    assert_int_equal(knob(HK_KNOB_large_cache) / first, 2);
    for (int i = 0; i < 10 && pass(calm, 1, HK_DECISION_large_cache_more) == 0; i++)
        continue;
    assert_int_equal(knob(HK_KNOB_large_cache) / first, 4);
    assert_int_equal(pass(worse, 16, HK_DECISION_canary_back), 1);
    /* The knob returns to the last value that proved itself. */
    assert_int_equal(knob(HK_KNOB_large_cache) / first, 2);
}

UNIT_TEST(a_policy_that_settles_is_frozen)
{
    begin(HK_LEARN_SETTLE);
    const struct hk_signals *calm = SEEN(IS(misses) = 1000), *missed = SEEN(IS(misses) = 1000, MISSED);
    uint64_t first = knob(HK_KNOB_large_cache);
    pass(calm, 300, HK_DECISION_KINDS);
    assert_int_equal(pass(missed, 2, HK_DECISION_large_cache_more), 1);
    assert_int_equal(pass(calm, 16, HK_DECISION_canary_kept), 1);
    assert_int_equal(knob(HK_KNOB_large_cache), 2 * first);
    for (int i = 0; i < 30 && pass(calm, 64, HK_DECISION_policy_frozen) == 0; i++)
        continue;
    assert_int_equal(learner.mode, HK_LEARN_FROZEN);
    struct hk_knobs frozen = learner.now;
    pass(missed, 500, HK_DECISION_KINDS);
    assert_memory_equal(&learner.now, &frozen, sizeof frozen);
    pass(SEEN(IS(goal) = HK_MIB, IS(used) = HK_MIB), 1, HK_DECISION_KINDS);
    assert_int_equal(knob(HK_KNOB_depot), 0);
}

/* A burst of large blocks puts them on huge pages for a minute. The learner does not freeze this knob in the meantime. */
UNIT_TEST(a_knob_that_is_lowered_for_a_time_is_not_frozen)
{
    begin(HK_LEARN_SETTLE);
    uint64_t first = knob(HK_KNOB_huge_blocks_from);
    pass(SEEN(IS(misses) = 10), 1, HK_DECISION_KINDS);
    pass(SEEN(IS(misses) = 10, IS(large_fresh) = 100 * HK_MIB), 1, HK_DECISION_KINDS);
    assert_true(knob(HK_KNOB_huge_blocks_from) < first);
    pass(SEEN(IS(misses) = 10), 600, HK_DECISION_KINDS);
    assert_int_equal(learner.mode, HK_LEARN_FROZEN);
    assert_int_equal(knob(HK_KNOB_huge_blocks_from), first);
}

UNIT_TEST(a_stall_does_not_make_a_goal_near)
{
    begin(HK_LEARN_ON);
    const uint64_t goal = 100 * HK_MIB;
    pass(SEEN(IS(goal) = goal, IS(used) = 80 * HK_MIB, IS(stalled) = 20000), 1, HK_DECISION_KINDS);
    assert_int_equal(learner.state, HK_PHASE_TIGHT);
    pass(SEEN(IS(goal) = goal, IS(used) = 80 * HK_MIB), 25, HK_DECISION_KINDS);
    assert_int_equal(learner.state, HK_PHASE_STEADY);
}

static uint64_t moved_to(uint64_t before, const char *name)
{
    for (unsigned i = 0; i < step.count; i++)
        if (strcmp(hk_decision_rows[step.decisions[i].kind].what, name) == 0) {
            assert_int_equal(step.decisions[i].before, before);
            before = step.decisions[i].after;
        }
    return before;
}

/* For arbitrary signals, values stay within their ranges. Each change has a decision with the old and the new value. */
UNIT_TEST(any_signals)
{
    struct rng rng = rng_seeded(3);
    for (uint64_t mode = HK_LEARN_ON; mode <= HK_LEARN_CANARY; mode++) {
        begin(mode);
        for (int tick = 0; tick < 20000; tick++) {
            struct hk_signals saw;
            struct hk_knobs before = learner.now;
            for (unsigned i = 0; i < HK_SIGNALS; i++)
                saw.value[i] = rng_below(&rng, 4) != 0 ? rng_next(&rng) >> (20 + rng_below(&rng, 44)) : 0;
            hk_learner_step(&learner, &saw, &step);
            assert_true(step.count < HK_DECISIONS_A_TICK);
            for (unsigned k = 0; k < HK_KNOBS; k++) {
                assert_in_range(learner.now.value[k], hk_knob_rows[k].min, hk_knob_rows[k].max);
                if (mode != HK_LEARN_CANARY) /* In canary mode, the learner takes back a policy as a whole. */
                    assert_int_equal(moved_to(before.value[k], hk_knob_rows[k].name), learner.now.value[k]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_seen_nothing_changes),
        cmocka_unit_test(states_begin_at_once_and_end_when_it_is_calm),
        cmocka_unit_test(what_is_wanted_again_soon_is_held_for_no_longer),
        cmocka_unit_test(what_comes_back_within_the_option_is_waited_for),
        cmocka_unit_test(a_shift_is_followed),
        cmocka_unit_test(an_option_between_two_spans_or_beyond_them_is_a_delay),
        cmocka_unit_test(the_large_cache_grows_where_it_is_short_and_shrinks_when_not),
        cmocka_unit_test(the_depot_grows_to_its_target_within_ten_ticks_and_shrinks_when_unused),
        cmocka_unit_test(new_blocks_ask_for_huge_pages_for_some_time),
        cmocka_unit_test(a_phase_bounds_its_knobs_while_it_lasts),
        cmocka_unit_test(a_phase_whose_rule_is_off_or_frozen_bounds_nothing),
        cmocka_unit_test(no_huge_pages_where_memory_is_short_or_the_option_says_never),
        cmocka_unit_test(a_crowd_of_threads_shares),
        cmocka_unit_test(a_rule_that_is_off_moves_nothing_and_the_others_do),
        cmocka_unit_test(a_goal_that_is_near_tightens_and_eases),
        cmocka_unit_test(stalls_of_the_system_tighten_as_well),
        cmocka_unit_test(a_stall_does_not_make_a_goal_near),
        cmocka_unit_test(frozen_moves_for_the_goal_only),
        cmocka_unit_test(a_canary_that_does_worse_is_taken_back),
        cmocka_unit_test(a_policy_that_settles_is_frozen),
        cmocka_unit_test(a_knob_that_is_lowered_for_a_time_is_not_frozen),
        cmocka_unit_test(any_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
