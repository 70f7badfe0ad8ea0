/* Tests the player. It makes recordings of invented threads that free each other's blocks, and plays their plans. Every block must keep its bytes,
 * and all blocks must be freed. The sanitizers check the player. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "player.h"
#include "tool/record/made.h"
#include "support/rng.h"

enum { LIVE = 300, STEPS = 20000 };

static struct {
    uint64_t sizes[LIVE];
    uint32_t kinds[LIVE];
    uint64_t order, allocs, frees, reallocs;
} program;

static void note(unsigned kind, uint32_t thread, uint64_t place, uint64_t size, uint32_t extra)
{
    struct rec_event event = {.order = program.order++,
                              .kind = (uint8_t)kind,
                              .thread = thread,
                              .address = place == 0 ? 0 : 0x1000 + place * 64,
                              .size = size,
                              .extra = extra};
    assert_true(made_add(&event));
}

static bool is_new(uint32_t i) { return program.kinds[i] >= REC_NEW; }

static void drop(uint32_t thread, uint32_t i)
{
    note(is_new(i) ? REC_DELETE + (unsigned)(program.order % 2) : REC_FREE, thread, i + 1, program.sizes[i],
         program.sizes[i] >= REC_LARGE_BLOCK ? 3 : 0);
    program.sizes[i] = 0;
    program.frees++;
}

static void step(struct rng *rng, uint32_t threads, uint64_t largest)
{
    uint32_t thread = rng_below(rng, threads), i = rng_below(rng, LIVE), kind = REC_MALLOC + rng_below(rng, 5);
    uint64_t size = 1 + rng_below(rng, 100) * rng_below(rng, 100) * largest / 10000;
    if (program.sizes[i] == 0) {
        bool aligned = kind == REC_ALIGNED || kind == REC_NEW_ALIGNED;
        note(kind, thread, i + 1, size, aligned ? 3 + rng_below(rng, 8) : 0);
        program.sizes[i] = size;
        program.kinds[i] = kind;
        program.allocs++;
    } else if (is_new(i) || rng_below(rng, 3) != 0) {
        drop(thread, i);
    } else {
        note(REC_REALLOC, thread, i + 1, size, 0);
        note(REC_MOVED, thread, i + 1, 0, 0);
        program.sizes[i] = size;
        program.reallocs++;
    }
}

/* Makes a recording in which more threads start during the run. */
static void make_program(uint64_t seed, uint32_t threads, uint32_t sample, uint64_t largest)
{
    struct rng rng = rng_seeded(seed);
    memset(&program, 0, sizeof program);
    made_begin(sample);
    for (uint32_t i = 0; i < STEPS / sample; i++)
        step(&rng, 1 + i * threads * sample / (STEPS + 1), largest);
    for (uint32_t i = 0; i < LIVE; i++)
        if (program.sizes[i] != 0)
            drop(rng_below(&rng, threads), i);
}

static FILE *planned(void)
{
    struct rec_reader reader;
    FILE *plan = tmpfile();
    assert_non_null(plan);
    assert_true(rec_reader_open(&reader, made.bytes, made_size()));
    struct overview overview;
    assert_true(overview_open(&overview, &reader));
    assert_true(plan_write(&reader, &overview, fileno(plan)));
    overview_close(&overview);
    rec_reader_close(&reader);
    return plan;
}

static struct player_result played(FILE *plan, uint64_t window, bool dry)
{
    struct player_options options = {.window = window, .dry = dry};
    struct player_result result;
    const char *why = NULL;
    assert_true(player_play(fileno(plan), &options, &result, &why));
    assert_null(why);
    fclose(plan);
    return result;
}

/* Runs a test in a child, because the state of the player belongs to the process. */
static void in_child(void (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        run();
        exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void check(uint32_t threads, uint32_t sample, uint64_t window, uint64_t largest)
{
    make_program(threads * 10 + sample, threads, sample, largest);
    struct player_result result = played(planned(), window, false);
    assert_int_equal(result.wrong, 0);
    assert_int_equal(result.failed, 0);
    assert_int_equal(result.left, 0);
    assert_int_equal(result.allocs, program.allocs * sample);
    assert_int_equal(result.frees, program.frees * sample);
    assert_int_equal(result.reallocs, program.reallocs * sample);
}

static void one(void) { check(1, 1, 1024, 5000); }
static void large_blocks(void) { check(1, 1, 1024, 400000); }
static void two(void) { check(2, 1, 1024, 1000); }
static void many(void) { check(MADE_THREADS, 1, 1024, 500); }
static void in_lockstep(void) { check(8, 1, 0, 500); }
static void without_a_window(void) { check(8, 1, UINT64_MAX, 500); }
static void a_sample(void) { check(4, 7, 256, 500); }

static void dry(void)
{
    make_program(5, 4, 1, 1000);
    struct player_result result = played(planned(), 1024, true);
    assert_int_equal(result.allocs + result.left, 0);
}

static void no_events(void)
{
    made_begin(1);
    assert_int_equal(played(planned(), 1024, false).allocs, 0);
}

static void no_plan(void)
{
    struct player_options options = {.window = 1};
    struct player_result result;
    const char *why = NULL;
    FILE *file = tmpfile();
    assert_false(player_play(fileno(file), &options, &result, &why));
    assert_string_equal(why, "not a plan of this version");
    fclose(file);
}

static void whatever_the_threads(void **state)
{
    (void)state;
    void (*const runs[])(void) = {one,      large_blocks, two,       many,   in_lockstep, without_a_window,
                                  a_sample, dry,          no_events, no_plan};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        in_child(runs[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_the_threads)};
    return cmocka_run_group_tests_name("player", tests, NULL, NULL);
}
