/* Tests that the track follows every step of a remote free. A block in an impossible state is reported, with the place of its free. Each mistake
 * is also made without the track. It must then not be reported, which shows that the report comes from the track. */
#include "unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prof/stack.h"
#include "hakmem.h"
#include "os/os.h"
#include "policy/options.h"
#include "slab/abandoned.h"
#include "slab/remote_track.h"
#include "slab/slab_heap.h"
#include "tcache/tcache.h"

enum { CLASS = CLASS_OF_64, TAKEN = 200 };

static struct hk_owner *owner;
static struct hk_owner freer, other_freer;
static struct hk_outbox outbox, other_outbox;
static struct hk_slab *slab;
static void *blocks[TAKEN];

static void start(bool tracks)
{
    hk_options.trace_remote = tracks ? HK_TRACE_REMOTE_AUTO : HK_TRACE_REMOTE_OFF;
    unit_start();
    assert_int_equal(hk_remote_track.on, tracks);
    owner = &hk_tcache_self()->owner;
    hk_outbox_open(&outbox, &freer);
    hk_outbox_open(&other_outbox, &other_freer);
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS, blocks + TAKEN, TAKEN), TAKEN);
    slab = hk_slab_at((uintptr_t)blocks[0]);
    assert_int_equal(slab->track != NULL, tracks);
}

static enum hk_stage stage(const void *block) { return (enum hk_stage)(hk_track_of(block) & HK_STAGE_MASK); }
static size_t index_of(const void *block) { return hk_slab_index(slab, (uintptr_t)block); }
static unsigned word_of(const void *block) { return (unsigned)(index_of(block) / 64); }
static uint64_t bit_of(const void *block) { return (uint64_t)1 << index_of(block) % 64; }

static void put(void *block) { hk_outbox_put(&outbox, block); }
static void send(void) { hk_outbox_send_all(&outbox); }

/* Sets a remote bit without a free. */
static void stray_bit(const void *block)
{
    hk_remote_mark(slab, word_of(block), bit_of(block));
    hk_remote_count(slab, 1);
}

UNIT_TEST(each_stage)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
    start(true);
    assert_int_equal(stage(blocks[0]), HK_STAGE_HOME);
    for (unsigned i = 0; i < 3; i++)
        put(blocks[i]);
    assert_int_equal(stage(blocks[0]), HK_STAGE_OUTBOX);
    assert_int_equal(stage(blocks[3]), HK_STAGE_HOME);
    send();
    assert_int_equal(stage(blocks[2]), HK_STAGE_REMOTE);
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 1), slab);
    assert_int_equal(hk_remote_claim(slab, bits), 3);
    assert_int_equal(stage(blocks[2]), HK_STAGE_CLAIMED);
    hk_track_step(slab, HK_TRACK_RECEIVE, word_of(blocks[2]), bit_of(blocks[2]));
    bits[word_of(blocks[2])] &= ~bit_of(blocks[2]);
    assert_int_equal(stage(blocks[2]), HK_STAGE_HOME);
    hk_remote_put_back(slab, bits);
    assert_int_equal(stage(blocks[1]), HK_STAGE_REMOTE);
    assert_int_equal(hk_remote_collect(slab), 2);
    assert_int_equal(stage(blocks[1]), HK_STAGE_HOME);
}

/* The track keeps the thread and the place of a free until the block is given out again. */
UNIT_TEST(the_place_stays)
{
    start(true);
    hk_track_freed(HK_CALL_FREE, blocks[0], (const void *)(uintptr_t)start, 0);
    put(blocks[0]);
    put(blocks[1]);
    send();
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 1), slab);
    hk_remote_collect(slab);
    uint64_t known = hk_track_of(blocks[0]), unknown = hk_track_of(blocks[1]);
    assert_int_equal(known >> 32, hk_os_thread_id());
    assert_int_equal(unknown >> 32, hk_os_thread_id());
    assert_non_null(hk_stack_table_get((uint32_t)known >> HK_STAGE_BITS));
    assert_null(hk_stack_table_get((uint32_t)unknown >> HK_STAGE_BITS));
    void *again[2];
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS, again + 2, 2), 2);
    assert_int_equal(hk_track_of(blocks[0]) | hk_track_of(blocks[1]), 0);
}

static void free_without_a_cache(void *block)
{
    assert_null(hk_tcache_self());
    hk_track_freed(HK_CALL_FREE, block, NULL, 0);
    assert_int_equal(hk_track_of(block) >> 32, hk_os_thread_id());
}

UNIT_TEST(a_thread_without_a_cache)
{
    start(true);
    unit_in_thread(free_without_a_cache, blocks[0]);
    assert_int_not_equal(hk_track_of(blocks[0]) >> 32, 0);
    assert_int_not_equal(hk_track_of(blocks[0]) >> 32, hk_os_thread_id());
}

/* The purge of idle inboxes claims blocks, and then makes them remote again. */
UNIT_TEST(purged_meanwhile)
{
    start(true);
    for (unsigned i = 0; i < TAKEN; i++)
        put(blocks[i]);
    send();
    hk_idle_inboxes_purge();
    assert_true(hk_remote_clean() > 0);
    assert_int_equal(stage(blocks[5]), HK_STAGE_REMOTE);
    assert_ptr_equal(hk_inbox_take(owner, CLASS, 1), slab);
    assert_int_equal(hk_remote_collect(slab), TAKEN);
}

/* This function and the following ones make one mistake each, which the track must report. */
static void freed_by_two_threads(void)
{
    put(blocks[0]);
    hk_outbox_put(&other_outbox, blocks[0]);
}

static void freed_when_sent(void)
{
    put(blocks[0]);
    send();
    hk_outbox_put(&other_outbox, blocks[0]);
}

static void flushed_by_its_owner(void)
{
    put(blocks[0]);
    assert_int_equal(hk_slab_heap_free(owner, blocks, 1), 1);
}

static void freed_by_its_owner(void)
{
    void *block = hak_malloc(64);
    put(block);
    hak_free(block);
}

static void popped_from_a_bin(void)
{
    void *block = hak_malloc(64);
    hak_free(block);
    put(block);
    assert_ptr_equal(hak_malloc(64), block);
}

static void sent_by_nobody(void)
{
    put(blocks[0]);
    for (size_t i = 0; i < outbox.size; i++)
        if (outbox.table[i].slab == slab)
            outbox.table[i].bits |= bit_of(blocks[1]);
    send();
}

static void not_expected(void)
{
    stray_bit(blocks[0]);
    assert_int_equal(hk_remote_collect(slab), 1);
}

static void drained_before_it_is_sent(void)
{
    put(blocks[0]);
    stray_bit(blocks[0]);
    assert_int_equal(hk_remote_collect(slab), 1);
}

static void drained_twice(void)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0};
    put(blocks[0]);
    send();
    assert_int_equal(hk_remote_claim(slab, bits), 1);
    stray_bit(blocks[0]);
    assert_int_equal(hk_remote_collect(slab), 1);
}

static void claimed_twice(void)
{
    uint64_t bits[HK_SLAB_MOST_WORDS] = {0}, again[HK_SLAB_MOST_WORDS] = {0};
    put(blocks[0]);
    send();
    assert_int_equal(hk_remote_claim(slab, bits), 1);
    stray_bit(blocks[0]);
    assert_int_equal(hk_remote_claim(slab, again), 1);
}

static void stolen_unclaimed(void)
{
    put(blocks[0]);
    hk_track_step(slab, HK_TRACK_RECEIVE, word_of(blocks[0]), bit_of(blocks[0]));
}

static void reused_under_way(void)
{
    void *again;
    put(blocks[0]);
    slab->freebits[word_of(blocks[0])] |= bit_of(blocks[0]);
    slab->first_word = (uint16_t)word_of(blocks[0]);
    slab->free++;
    assert_int_equal(hk_slab_heap_alloc(owner, CLASS, &again + 1, 1), 1);
}

static void lost_with_its_slab(void)
{
    struct hk_slab *last = unit_slab(CLASS, owner->id);
    void *block;
    hk_slab_alloc(last, &block + 1, 1);
    put(block);
    last->freebits[0] |= 1;
    last->free++;
    hk_slab_release(last);
}

static const struct mistake {
    void (*make)(void);
    const char *line;
} mistakes[] = {
    {freed_by_two_threads, "free(), found later: block already free, in an outbox, freed by thread "},
    {freed_when_sent, "free(), found later: block already free, among the remote frees of its slab, freed by thread "},
    {flushed_by_its_owner, "free(), found later: block already free, in an outbox, freed by thread "},
    {freed_by_its_owner, "hakmem: free(): block already free, in an outbox, freed by thread "},
    {popped_from_a_bin, "hakmem: malloc(): block given out again, in an outbox, freed by thread "},
    {sent_by_nobody, "remote free of a block that nobody freed, at home: address "},
    {not_expected, "remote free drained twice, or never sent, at home: address "},
    {drained_before_it_is_sent, "remote free drained twice, or never sent, in an outbox, freed by thread "},
    {drained_twice, "remote free drained twice, or never sent, claimed by a draining thread, freed by thread "},
    {claimed_twice, "remote free drained twice, or never sent, claimed by a draining thread, freed by thread "},
    {stolen_unclaimed, "remote free stolen that was not claimed, in an outbox, freed by thread "},
    {reused_under_way, "malloc(): block given out again, in an outbox, freed by thread "},
    {lost_with_its_slab, "remote free lost, its slab goes, in an outbox, freed by thread "},
};
enum { MISTAKES = sizeof mistakes / sizeof mistakes[0] };

static void make_mistake(void *mistake)
{
    start(true);
    ((const struct mistake *)mistake)->make();
}

UNIT_TEST(each_mistake_is_told)
{
    for (unsigned i = 0; i < MISTAKES; i++)
        unit_dies(make_mistake, (void *)(uintptr_t)&mistakes[i], mistakes[i].line);
}

UNIT_TEST(not_without_the_track)
{
    for (unsigned i = 0; i < MISTAKES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            start(false);
            mistakes[i].make();
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("mistake %u ended with wait status 0x%x", i, (unsigned)status);
    }
}

/* Frees a block twice. The message must name the place of the first free. */
static void free_twice_from_here(void *unused)
{
    (void)unused;
    start(true);
    hk_track_freed(HK_CALL_FREE, blocks[0], (const void *)((uintptr_t)free_twice_from_here + 1), 0);
    put(blocks[0]);
    hk_track_freed(HK_CALL_DELETE, blocks[0], NULL, 0);
}

UNIT_TEST(where_it_was_freed)
{
    unit_dies(free_twice_from_here, NULL, " free_twice_from_here+0x0 (/");
    unit_dies(free_twice_from_here, NULL,
              "hakmem: operator delete(): block already free, in an outbox, freed by thread ");
    unit_dies(free_twice_from_here, NULL, "test_unit_remote_track+0x");
}

/* A block that cannot be tracked is freed as usual. */
UNIT_TEST(memory_is_refused)
{
    start(true);
    fake_os_refuse(fake_refuse_mappings);
    struct hk_slab *made = slab;
    while (made != NULL && made->track != NULL)
        made = unit_slab(CLASS_OF_16, owner->id);
    fake_os_refuse(NULL);
    if (made == NULL)
        return;
    void *block;
    hk_slab_alloc(made, &block + 1, 1);
    put(block);
    assert_int_equal(hk_track_of(block), 0);
    send();
    assert_int_equal(hk_remote_collect(made), 1);
    hk_slab_release(made);
}

static void untracked(void *unused)
{
    (void)unused;
    void *block;
    start(true);
    struct hk_slab *made = unit_slab(CLASS, owner->id);
    _Atomic uint64_t *track = made->track;
    made->track = NULL;
    hk_slab_note_plain(made);
    hk_slab_alloc(made, &block + 1, 1);
    hk_slab_free(made, block);
    assert_int_equal(made->free, made->d.blocks);
    made->track = track;
    hk_slab_release(made);
}

UNIT_TEST(a_slab_without_words) { untracked(NULL); }

/* A fork child trusts the bits of other threads' frees, and the outbox of its own thread. */
UNIT_TEST(after_a_fork)
{
    start(true);
    put(blocks[0]);
    send();
    hk_outbox_put(&other_outbox, blocks[1]);
    put(blocks[2]);
    hk_track_restart(slab);
    assert_int_equal(stage(blocks[0]), HK_STAGE_REMOTE);
    assert_int_equal(stage(blocks[1]), HK_STAGE_HOME);
    assert_int_equal(stage(blocks[2]), HK_STAGE_HOME);
    hk_outbox_track_again(&outbox);
    assert_int_equal(stage(blocks[1]), HK_STAGE_HOME);
    assert_int_equal(stage(blocks[2]), HK_STAGE_OUTBOX);
    send();
    assert_int_equal(stage(blocks[2]), HK_STAGE_REMOTE);
}

/* With HAKMEM_TRACE_REMOTE=1, every free is checked first. The track also has the place of the owner's own frees. */
static void free_own_twice(void *unused)
{
    (void)unused;
    hk_options.trace_remote = HK_TRACE_REMOTE_ON;
    unit_start();
    assert_true(hk_remote_track.on);
    void *block = hak_malloc(64);
    hak_free(block);
    hak_free(block);
}

UNIT_TEST(asked_for)
{
    unit_dies(free_own_twice, NULL, "hakmem: free(): block already free, at home, freed by thread ");
}

/* If two threads free a block at the same moment, one of them is reported, because the track changes the state from live to free in one atomic
 * step. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RACES = 1000 };
#else
enum { RACES = 20000 };
#endif
static void *raced[RACES];
static _Atomic unsigned waiting[RACES];

static void *race(void *unused)
{
    for (unsigned i = 0; i < RACES; i++) {
        atomic_fetch_add(&waiting[i], 1);
        for (unsigned spins = 0; atomic_load(&waiting[i]) < 2; spins++)
            if (spins % 128 == 127)
                sched_yield();
        hak_free(raced[i]);
    }
    return unused;
}

UNIT_TEST(both_at_once)
{
    pthread_t other;
    hk_options.trace_remote = HK_TRACE_REMOTE_ON;
    hk_options.safe_free = HK_SAFE_FREE_ON;
    unit_start();
    for (unsigned i = 0; i < RACES; i++)
        assert_non_null(raced[i] = hak_malloc(16 + i % 8 * 100));
    fake_os_capture();
    fake_os.file = ""; /* An empty file of modules keeps the report short. */
    assert_int_equal(pthread_create(&other, NULL, race, NULL), 0);
    race(NULL);
    pthread_join(other, NULL);
    fake_os.file = NULL;
    fake_os.capturing = false;
    assert_int_equal(hk_load(hk_global_counts[HK_GLOBAL_guard_faults]), RACES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage),
        cmocka_unit_test(the_place_stays),
        cmocka_unit_test(a_thread_without_a_cache),
        cmocka_unit_test(both_at_once),
        cmocka_unit_test(purged_meanwhile),
        cmocka_unit_test(each_mistake_is_told),
        cmocka_unit_test(not_without_the_track),
        cmocka_unit_test(where_it_was_freed),
        cmocka_unit_test(memory_is_refused),
        cmocka_unit_test(a_slab_without_words),
        cmocka_unit_test(after_a_fork),
        cmocka_unit_test(asked_for),
    };
    return cmocka_run_group_tests_name("remote_track", tests, NULL, NULL);
}
