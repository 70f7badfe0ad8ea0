/* Tests the format of recordings. Encoded events must be read back in the order of all threads, and damaged recordings must be refused. Also tests
 * that the sums of the book are those of a simple model, and that the overview gives the right lanes and touched pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "plan.h"
#include "tool/record/made.h"
#include "support/rng.h"

enum { THREADS = 3, EVENTS = 6000, LIVE = 200 };

static struct rec_event written[EVENTS];

static bool open_made(struct rec_reader *reader) { return rec_reader_open(reader, made.bytes, made_size()); }

static struct rec_event any_event(struct rng *rng, uint64_t order)
{
    static const uint64_t sizes[] = {0, 1, 255, 256, 65535, 65536, (uint64_t)1 << 40, REC_SIZE_MOST};
    struct rec_event event = {.order = order,
                              .kind = (uint8_t)(REC_MALLOC + rng_below(rng, REC_THREAD_END - REC_MALLOC)),
                              .thread = rng_below(rng, THREADS),
                              .size = sizes[rng_below(rng, 8)],
                              .weight_one = rng_below(rng, 2) != 0};
    event.address = 0x7f0000000000u + rng_below(rng, 1u << 30) * (rng_below(rng, 4) == 0 ? 1 : 16);
    event.extra = rng_below(rng, 3) == 0 ? (uint32_t)rng_next(rng) : rng_below(rng, 300);
    return event;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(1);
    struct rec_reader reader;
    uint64_t order = 0;
    made_begin(1);
    for (size_t i = 0; i < EVENTS; i++, order += i % 100 == 0 ? 1 + (rng_next(&rng) >> (14 + i / 100 % 50)) : 1) {
        struct rec_event event = any_event(&rng, order);
        made_add(&event);
        written[i] = event;
    }
    assert_true(open_made(&reader));
    assert_int_equal(reader.threads, THREADS);
    for (int pass = 0; pass < 2; pass++) {
        struct rec_event event;
        for (size_t i = 0; i < EVENTS; i++) {
            assert_int_equal(rec_reader_next(&reader, &event), 1);
            assert_memory_equal(&event, &written[i], offsetof(struct rec_event, extra));
            assert_int_equal(event.extra, written[i].extra);
            assert_int_equal(event.thread, written[i].thread);
            assert_int_equal(event.kind, written[i].kind);
            assert_int_equal(event.weight_one, written[i].weight_one);
        }
        assert_int_equal(rec_reader_next(&reader, &event), 0);
        assert_true(rec_reader_rewind(&reader));
    }
    rec_reader_close(&reader);
}

static void a_size_beyond_all_is_the_most(void **state)
{
    (void)state;
    struct rec_reader reader;
    struct rec_event event;
    made_begin(1);
    made_add(&(struct rec_event){.order = 0, .kind = REC_REALLOC, .size = UINT64_MAX, .address = 16});
    assert_true(open_made(&reader));
    assert_int_equal(rec_reader_next(&reader, &event), 1);
    assert_int_equal(event.size, REC_SIZE_MOST);
    rec_reader_close(&reader);
}

static void refused(const char *why)
{
    struct rec_reader reader;
    assert_false(open_made(&reader));
    assert_non_null(strstr(reader.why, why));
}

static void damage_is_refused(void **state)
{
    (void)state;
    struct rec_chunk *chunk = (struct rec_chunk *)(void *)(made.bytes + REC_HEAD_BYTES);
    made_begin(1);
    for (uint64_t i = 0; i < 10; i++)
        made_add(&(struct rec_event){.order = i, .kind = REC_MALLOC, .size = 8, .address = 4096 + i * 16});
    chunk->sum = rec_sum(chunk);
    chunk->closed = 1;
    struct rec_reader reader;
    assert_true(open_made(&reader));
    rec_reader_close(&reader);
    made.bytes[REC_HEAD_BYTES + 60] ^= 1;
    refused("altered: the sum of the chunk at byte 65536");
    chunk->closed = 0;
    memset(made.at[0], 0xff, 2); /* no kind of event is as large as 15 */
    refused("no event at byte");
    chunk->magic = 7;
    refused("no chunk at byte 65536");
    made_head()->chunks = 2;
    refused("cut off");
    made_head()->sample = 0;
    refused("its head makes no sense");
    made_head()->magic = 1;
    refused("not a recording of this version");
}

/* A chunk that its process never used contains only zeros, and has no events. */
static void an_unused_chunk_is_passed_over(void **state)
{
    (void)state;
    struct rec_reader reader;
    struct rec_event event;
    made_begin(1);
    made.chunks = 2;
    assert_true(open_made(&reader));
    assert_int_equal(rec_reader_next(&reader, &event), 0);
    rec_reader_close(&reader);
}

/* ---- the book ---------------------------------------------------------- */

static struct {
    uint64_t size[LIVE], slot_of[LIVE];
    bool slot_live[LIVE * 2];
    uint64_t live, peak;
    uint16_t version[LIVE * 2];
    uint32_t holder[LIVE * 2];
} model;

static bool check_op(void *context, const struct rec_op *op)
{
    (void)context;
    bool frees = op->kind >= REC_FREE && op->kind <= REC_DELETE_SIZED, moves = op->kind == REC_REALLOC;
    assert_true(op->block.slot < LIVE * 2);
    assert_int_equal(model.slot_live[op->block.slot], frees || moves);
    assert_int_equal(op->version, model.version[op->block.slot]);
    assert_int_equal(op->foreign, op->version != 0 && model.holder[op->block.slot] != op->thread);
    model.version[op->block.slot]++;
    model.holder[op->block.slot] = op->thread;
    model.slot_live[op->block.slot] = !frees;
    model.live += frees ? 0 - op->block.size : op->block.size - op->size_before;
    model.peak = model.live > model.peak ? model.live : model.peak;
    return true;
}

static void enter(struct rec_book *book, unsigned kind, uint32_t thread, uint64_t address, uint64_t size)
{
    static uint64_t order;
    struct rec_event event = {
        .order = order++, .kind = (uint8_t)kind, .thread = thread, .address = address, .size = size};
    assert_true(rec_book_enter(book, &event));
}

/* Makes a random event in the book and in the model. An address is the number of a slot of the model. A block moves to a slot without a block. */
static void play_model(struct rec_book *book, struct rng *rng)
{
    uint64_t i = rng_below(rng, LIVE), to = rng_below(rng, LIVE), size = 1 + rng_below(rng, 5000);
    uint32_t thread = rng_below(rng, THREADS);
    if (model.size[i] == 0) {
        enter(book, REC_MALLOC + rng_below(rng, 5), thread, 16 * (i + 1), size);
        model.size[i] = size;
    } else if (rng_below(rng, 2) != 0) {
        enter(book, REC_FREE + rng_below(rng, 3), thread, 16 * (i + 1), 0);
        model.size[i] = 0;
    } else if (model.size[to] == 0 || to == i) {
        enter(book, REC_REALLOC, thread, 16 * (i + 1), size);
        enter(book, REC_MOVED, thread, 16 * (to + 1), 0);
        model.size[i] = 0;
        model.size[to] = size;
    } else {
        enter(book, REC_REALLOC, thread, 16 * (i + 1), size);
        enter(book, REC_MOVED, thread, 0, 0); /* the realloc is refused */
    }
}

static void the_book_agrees_with_a_model(void **state)
{
    (void)state;
    struct rng rng = rng_seeded(2);
    struct rec_book *book = rec_book_open(THREADS, 1, check_op, NULL);
    assert_non_null(book);
    memset(&model, 0, sizeof model);
    for (int i = 0; i < 50000; i++)
        play_model(book, &rng);
    const struct rec_totals *totals = rec_book_totals(book);
    uint64_t live = 0, blocks = 0;
    for (size_t i = 0; i < LIVE; i++) {
        live += model.size[i];
        blocks += model.size[i] != 0;
    }
    assert_int_equal(totals->live_bytes, live);
    assert_int_equal(totals->live_blocks, blocks);
    assert_int_equal(totals->peak_bytes, model.peak);
    assert_int_equal(totals->implied + totals->unknown, 0);
    assert_true(totals->slots <= LIVE * 2 && totals->refused > 0);
    rec_book_close(book);
}

static void what_does_not_fit_is_counted(void **state)
{
    (void)state;
    struct rec_book *book = rec_book_open(1, 1, check_op, NULL);
    assert_non_null(book);
    memset(&model, 0, sizeof model);
    const struct rec_totals *totals = rec_book_totals(book);
    enter(book, REC_FREE, 0, 16, 0);
    assert_int_equal(totals->unknown, 1);
    enter(book, REC_MALLOC, 0, 16, 10);
    enter(book, REC_MALLOC, 0, 16, 20);
    assert_int_equal(totals->implied, 1);
    assert_int_equal(totals->live_bytes, 20);
    enter(book, REC_MOVED, 0, 32, 0); /* no realloc is active */
    enter(book, REC_REALLOC, 0, 48, 5);
    enter(book, REC_MOVED, 0, 64, 0); /* the block is older than the recording */
    assert_int_equal(totals->live_bytes, 25);
    enter(book, REC_REALLOC, 0, 16, 0);
    enter(book, REC_MOVED, 0, 0, 0);    /* realloc(p, 0) has freed the block */
    enter(book, REC_MALLOC, 0, 0, 100); /* an event without an address */
    assert_int_equal(totals->live_bytes, 5);
    rec_book_close(book);
}

static void a_sample_counts_for_all(void **state)
{
    (void)state;
    struct rec_book *book = rec_book_open(1, 8, check_op, NULL);
    struct rec_event event = {.kind = REC_MALLOC, .address = 16, .size = 100};
    struct rec_event large = {.kind = REC_MALLOC, .address = 32, .size = 70000, .weight_one = true, .order = 1};
    memset(&model, 0, sizeof model);
    assert_true(rec_book_enter(book, &event) && rec_book_enter(book, &large));
    assert_int_equal(rec_book_totals(book)->live_bytes, 8 * 100 + 70000);
    assert_int_equal(rec_book_totals(book)->allocs[REC_MALLOC], 9);
    rec_book_close(book);
}

/* One address in ten must be sampled. With a distance of 1, every address must be. */
static void a_sample_takes_its_share(void **state)
{
    (void)state;
    unsigned taken = 0;
    for (uint64_t i = 0; i < 100000; i++)
        taken += rec_sampled(0x7f1234560000u + i * 16, 10);
    assert_in_range(taken, 9000, 11000);
    assert_true(rec_sampled(12345, 1));
}

/* ---- the overview ------------------------------------------------------ */

static void lanes_and_touched_pages(void **state)
{
    (void)state;
    struct rec_reader reader;
    uint32_t pages = 0;
    made_begin(1);
    made_add(&(struct rec_event){.order = 0, .kind = REC_MALLOC, .address = 4096, .size = 1u << 20});
    made_add(&(struct rec_event){.order = 1, .kind = REC_MALLOC, .thread = 1, .address = 16, .size = 8});
    made_add(&(struct rec_event){.order = 2, .kind = REC_FREE, .thread = 1, .address = 16});
    made_add(&(struct rec_event){.order = 3, .kind = REC_FREE, .address = 4096, .extra = 8});
    made_add(&(struct rec_event){.order = 4, .kind = REC_MALLOC, .thread = 2, .address = 32, .size = 8});
    assert_true(open_made(&reader));
    struct overview overview;
    assert_true(overview_open(&overview, &reader));
    assert_true(overview_touched(&overview, 0, &pages));
    assert_int_equal(pages, 7);
    assert_false(overview_touched(&overview, 1, &pages));
    assert_int_equal(overview_lane(&overview, 0, 0), 0);
    assert_int_equal(overview_lane(&overview, 1, 1), 1);
    assert_int_equal(overview_lane(&overview, 2, 4), 1); /* the lane of the second thread, which has ended */
    assert_int_equal(overview.lanes, 2);
    overview_close(&overview);
    rec_reader_close(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_size_beyond_all_is_the_most),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(an_unused_chunk_is_passed_over),
        cmocka_unit_test(the_book_agrees_with_a_model),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(a_sample_counts_for_all),
        cmocka_unit_test(a_sample_takes_its_share),
        cmocka_unit_test(lanes_and_touched_pages),
    };
    return cmocka_run_group_tests_name("recording", tests, NULL, NULL);
}
