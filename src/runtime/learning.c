/* Collects the learner's signals at each tick, runs the learner, publishes its knobs, and writes the log of its decisions. */
#include "runtime/learning.h"
#include "learn/learner.h"
#include "runtime/attach.h"
#include "runtime/named_file.h"

/* Reading the counts of 512 threads takes about 50 us. More threads make ticks rarer. */
enum { THREADS_PER_TICK = 512 };

static struct {
    struct hk_lock lock;
    struct hk_learner learner;
    struct hk_signals before; /* totals of the signals at the last tick */
    uint64_t ticked_ms;
    uint64_t next_ms; /* time of the next regular tick */
    uint64_t began_ms;
    uint64_t log_bytes, trace_bytes;
    bool begun;
    bool sought, found;              /* a memory goal was looked for; one was found that no tick has used yet */
    bool log_refused, trace_refused; /* the last attempt to write the log or the trace failed */
} learning = {.lock = HK_LOCK_INIT(HK_RANK_LEARN)};

static void take_signals(struct hk_signals *saw, uint64_t now)
{
#define SAME_NAME(name) [HK_STAT_##name] = HK_SIGNAL_##name
    static const uint8_t signals[HK_STAT_ROWS] = {
        SAME_NAME(misses),          SAME_NAME(overflows),    SAME_NAME(medium_reused),
        SAME_NAME(medium_refilled), SAME_NAME(depot_full),   SAME_NAME(slabs_made),
        SAME_NAME(slabs_released),  SAME_NAME(large_reused), SAME_NAME(large_mapped),
        SAME_NAME(large_fresh),     SAME_NAME(large_missed), [HK_STAT_remote_frees] = HK_SIGNAL_remote};
    struct hk_signals totals = {{[HK_SIGNAL_idled] = hk_load(hk_reuse.xidled)}};
    for (enum hk_stat i = 0; i < HK_STAT_ROWS; i++)
        if (signals[i] != 0)
            totals.value[signals[i]] = i < HK_THREAD_STATS ? hk_tcaches_counted(i) : hk_load(hk_global_counts[i]);
    for (unsigned span = 0; span < HK_REUSE_SPANS; span++)
        totals.value[HK_SIGNAL_back_64ms + span] = hk_load(hk_reuse.xback[span]);
    for (unsigned i = 0; i < HK_SIGNALS; i++)
        saw->value[i] = totals.value[i] - learning.before.value[i];
    learning.before = totals;
    HK_SAW(saw, elapsed) = now - learning.ticked_ms;
    HK_SAW(saw, threads) = hk_tcaches_alive();
    HK_SAW(saw, footprint) = hk_decay_footprint();
    HK_SAW(saw, idle) = hk_decay_idle();
    hk_goal_look(saw, now);
}

static uint64_t since_begin(uint64_t ms) { return ms - hk_min(ms, learning.began_ms); }

static void remark(struct hk_text *line, uint64_t ms, uint64_t lost, const char *why)
{
    hk_text_init(line, HK_NOWHERE);
    hk_text_add(line, "{\"ms\": %lu, \"who\": \"log\", \"lost\": %lu, \"why\": \"%s\"}\n", ms, lost, why);
}

static void write_to_log(uint64_t ms, struct hk_text *line)
{
    if (learning.log_bytes > hk_options.explain_most)
        return;
    learning.log_bytes += line->used;
    if (learning.log_bytes > hk_options.explain_most)
        remark(line, ms, 0, "the log has reached explain_most bytes and ends here");
    hk_option_file_append("explain", hk_options.explain, line, &learning.log_refused);
}

static void write_decisions(uint64_t now)
{
    struct hk_text line;
    if (hk_options.explain == NULL)
        return;
    for (struct hk_decision decision; hk_decision_take(&decision);) {
        decision.ms = since_begin(decision.ms);
        hk_text_init(&line, HK_NOWHERE);
        hk_explain_decision(&line, &decision);
        write_to_log(decision.ms, &line);
    }
    uint64_t lost = hk_decisions_lost();
    if (lost == 0)
        return;
    remark(&line, since_begin(now), lost, "the queue of decisions was full: these were lost");
    write_to_log(since_begin(now), &line);
}

/* Initializes the learner. Called by the first tick instead of the start, because most processes end before their first tick. */
static void begin_learner(void)
{
    struct hk_knobs options;
    uint64_t rules = (hk_options.learn_delay ? HK_RULE_DELAY : 0) | (hk_options.learn_caps ? HK_RULE_CAPS : 0) |
                     (hk_options.learn_crowd ? HK_RULE_CROWD : 0) | (hk_options.learn_huge ? HK_RULE_HUGE : 0) |
                     (hk_options.learn_burst ? HK_RULE_BURST : 0) | (hk_options.learn_remote ? HK_RULE_REMOTE : 0);
    if (learning.begun)
        return;
    learning.begun = true;
    hk_policy_read(&options);
    hk_learner_begin(&learning.learner, &options, hk_options.reuse_worth, hk_options.learn, rules);
}

/* Not inlined, because `line` takes 1 KiB of the stack, which may be small. */
static HK_NOINLINE void write_trace(uint64_t now, const struct hk_signals *saw)
{
    const struct hk_learner *learner = &learning.learner;
    struct hk_text line = {.fd = HK_NOWHERE};
    if (learning.trace_bytes == 0) {
        hk_text_add(&line, "options");
        for (unsigned knob = 0; knob < HK_KNOBS; knob++)
            hk_text_add(&line, " %lu", learner->option.value[knob]);
        hk_text_add(&line, " %lu %lu %lu\n", learner->reuse_worth, learner->mode, learner->rules);
    }
    hk_explain_signals(&line, since_begin(now), saw);
    learning.trace_bytes += line.used;
    if (learning.trace_bytes <= hk_options.explain_most)
        hk_option_file_append("learn_trace", hk_options.learn_trace, &line, &learning.trace_refused);
}

static void learn(uint64_t now)
{
    struct hk_signals saw;
    struct hk_step step;
    struct hk_knobs in_force;
    begin_learner();
    take_signals(&saw, now);
    if (hk_options.learn_trace != NULL)
        write_trace(now, &saw);
    hk_learner_step(&learning.learner, &saw, &step);
    for (unsigned i = 0; i < step.count && hk_options.explain != NULL; i++) {
        step.decisions[i].ms = now;
        hk_decision_note(&step.decisions[i]);
    }
    /* Compares with the published knobs, not with the learner's last knobs. So a publication that failed for lack of memory is repeated. */
    hk_policy_read(&in_force);
    if (memcmp(&in_force, &learning.learner.now, sizeof in_force) != 0 || hk_policy_phase() != learning.learner.state)
        hk_policy_publish(&learning.learner.now, learning.learner.state);
}

/* Runs a tick. Writes the pending decisions even if the learner is off, because bins also make decisions. */
static void tick_locked(uint64_t now)
{
    if (hk_options.learn != HK_LEARN_OFF)
        learn(now);
    write_decisions(now);
    learning.ticked_ms = now;
    learning.found = false;
}

/* Looks for a memory goal, but only once. Called at the start if an option needs it, before a sandbox begins, and at ticks if the heap is large. */
static void seek_goal_locked(void)
{
    if (!learning.sought && hk_options.learn != HK_LEARN_OFF)
        learning.found = hk_goal_find();
    learning.sought = true;
}

/* Appends nothing, so that a message is printed now if the log cannot be written. Not inlined, because `nothing` takes 1 KiB of the stack. */
static HK_NOINLINE void begin_log(void)
{
    struct hk_text nothing = {.fd = HK_NOWHERE};
    hk_option_file_append("explain", hk_options.explain, &nothing, &learning.log_refused);
}

/* Begins to learn. If a memory goal is known, runs a tick at once, because only a tick sets the ceiling of the heap. */
void hk_learning_begin(void)
{
    uint64_t now = learning.began_ms = learning.ticked_ms = hk_os.clock_ms();
    hk_lock_register(HK_RANK_LEARN, &learning.lock);
    if (hk_options.learn == HK_LEARN_OFF && hk_options.explain == NULL)
        return;
    if (hk_options.explain != NULL)
        begin_log();
    if (hk_goal_begin() || hk_options.learn_crowd || hk_options.learn_trace != NULL)
        seek_goal_locked();
    if (learning.found)
        tick_locked(now);
    learning.next_ms = now + HK_TICK_MS;
    hk_store(hk_decay_learner_due_ms, learning.next_ms);
}

void hk_learning_shut_in(void)
{
    hk_lock(&learning.lock);
    seek_goal_locked();
    if (learning.found)
        hk_store(hk_decay_learner_due_ms, 0);
    hk_unlock(&learning.lock);
}

/* Runs a tick if one is due: at regular intervals, when a small heap has become large, and when `hakmem` has made a request. */
HK_COLD void hk_learning_tick(void)
{
    if (!hk_try_lock(&learning.lock))
        return;
    uint64_t now = hk_reuse_now();
    bool regular = now >= learning.next_ms;
    if (now >= hk_load(hk_decay_learner_due_ms)) {
        hk_attach_look();
        if (hk_decay_footprint() >= HK_SMALL_HEAP)
            seek_goal_locked();
        if (regular || learning.found)
            tick_locked(now);
        if (regular)
            learning.next_ms = now + HK_TICK_MS * hk_max(1, hk_tcaches_alive() / THREADS_PER_TICK);
        hk_store(hk_decay_learner_due_ms, learning.next_ms);
    }
    hk_unlock(&learning.lock);
}

/* Writes the learned knobs, classes and bins. The ceiling comes from the option, because the learned one depends on the memory goal of this run. */
static int write_profile(int fd, const char *path)
{
    (void)path;
    begin_learner();
    struct hk_knobs learned = learning.learner.target;
    learned.value[HK_KNOB_ceiling] = learning.learner.option.value[HK_KNOB_ceiling];
    struct hk_text text = {.fd = fd};
    uint64_t slabs_made[HK_FINE_CLASSES];
    for (unsigned class = 0; class < HK_FINE_CLASSES; class ++)
        slabs_made[class] = hk_tcaches_refilled(class, HK_SOURCE_NEW);
    hk_profile_add(&text, &learned);
    hk_learned_write(&text, slabs_made);
    hk_text_flush(&text);
    return 0;
}

void hk_learning_end(void)
{
    const char *name = hk_options.profile_save;
    if (hk_options.explain == NULL && name == NULL)
        return;
    if (!HK_COMES_TRUE(hk_try_lock(&learning.lock), HK_PAUSES_A_SECOND / 10))
        return;
    write_decisions(hk_reuse_now());
    if (name != NULL)
        hk_option_file_write("profile_save", name, ".profile", write_profile, &(bool){false});
    hk_unlock(&learning.lock);
}
