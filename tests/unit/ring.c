/* Tests that a reader gets the last events of a ring, oldest first, and no incomplete event. A thread without a ring records no events. */
#include "unit/unit.h"

#include <pthread.h>

#include "count/ring.h"

enum { SIZE = 8, STEPS = 200000, WRITERS = 2 };

static struct hk_event slots[SIZE];
static struct hk_ring ring;

struct reading {
    unsigned count;
    uint64_t amounts[SIZE];
    uintptr_t addresses[SIZE];
    enum hk_event_kind kinds[SIZE];
};

static void remember(void *context, const struct hk_event_seen *event)
{
    struct reading *reading = context;
    assert_true(reading->count < SIZE);
    reading->amounts[reading->count] = event->amount;
    reading->addresses[reading->count] = event->address;
    reading->kinds[reading->count++] = event->kind;
}

UNIT_TEST(sizes)
{
    assert_int_equal(hk_ring_size(1), 256);
    assert_int_equal(hk_ring_size(2), 2);
    assert_int_equal(hk_ring_size(64), 64);
    assert_int_equal(hk_ring_size(65), 128);
}

UNIT_TEST(closed)
{
    struct reading reading = {0};
    HK_TRACE(&ring, alloc, 1, 2);
    hk_ring_read(&ring, remember, &reading);
    assert_int_equal(reading.count, 0);
    assert_int_equal(hk_load(ring.xnext), 0);
}

UNIT_TEST(last_ones_in_order)
{
    struct reading few = {0}, last = {0};
    hk_ring_open(&ring, slots, SIZE);
    for (uint64_t i = 0; i < 3; i++)
        HK_TRACE(&ring, alloc, i, i * 16);
    hk_ring_read(&ring, remember, &few);
    assert_int_equal(few.count, 3);
    for (uint64_t i = 3; i < 20; i++)
        HK_TRACE(&ring, free, i, i * 16);
    hk_ring_read(&ring, remember, &last);
    assert_int_equal(last.count, SIZE);
    for (unsigned i = 0; i < SIZE; i++) {
        assert_int_equal(last.amounts[i], 20 - SIZE + i);
        assert_int_equal(last.addresses[i], last.amounts[i] * 16);
        assert_int_equal(last.kinds[i], HK_EVENT_free);
    }
}

/* A reader gets no event that is only half written, but it gets all complete events. */
UNIT_TEST(dead)
{
    struct reading reading = {0};
    hk_ring_open(&ring, slots, SIZE);
    for (uint64_t i = 0; i < 5; i++)
        HK_TRACE(&ring, purge, i, 0);
    hk_store(slots[2].xstamp, 1);
    hk_ring_read(&ring, remember, &reading);
    assert_int_equal(reading.count, 4);
    assert_int_equal(reading.amounts[2], 3);
}

static uint64_t (*real_clock)(void);
static unsigned laps;

/* Simulates another thread that writes one event for each slot while an event is being written. The last of its events finds its slot in use. */
static uint64_t clock_of_a_lap(void)
{
    hk_os.clock_ns = real_clock;
    for (uint64_t i = 1; i <= SIZE; i++, laps++)
        HK_TRACE(&ring, free, i, i);
    return real_clock();
}

UNIT_TEST(lapped)
{
    struct reading reading = {0};
    hk_ring_open(&ring, slots, SIZE);
    real_clock = hk_os.clock_ns;
    hk_os.clock_ns = clock_of_a_lap;
    HK_TRACE(&ring, alloc, 77, 77);
    assert_int_equal(laps, SIZE);
    hk_ring_read(&ring, remember, &reading);
    assert_int_equal(reading.count, SIZE - 1);
    for (unsigned i = 0; i < reading.count; i++)
        assert_int_equal(reading.amounts[i], i + 1);
    HK_TRACE(&ring, alloc, 78, 78); /* The next event can be written and read. */
    struct reading next = {0};
    hk_ring_read(&ring, remember, &next);
    assert_int_equal(next.amounts[next.count - 1], 78);
}

static _Atomic unsigned xwriting = WRITERS;

static void *write_events(void *unused)
{
    for (uint64_t i = 0; i < STEPS; i++)
        HK_TRACE(&ring, miss, i, i + 1);
    hk_sub(xwriting, 1);
    return unused;
}

/* A reader that runs beside writers sees only complete events. */
UNIT_TEST(read_while_written)
{
    pthread_t threads[WRITERS];
    hk_ring_open(&ring, slots, SIZE);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_events, NULL), 0);
    do {
        struct reading reading = {0};
        hk_ring_read(&ring, remember, &reading);
        for (unsigned i = 0; i < reading.count; i++) {
            assert_int_equal(reading.kinds[i], HK_EVENT_miss);
            assert_int_equal(reading.addresses[i], reading.amounts[i] + 1);
        }
    } while (hk_load(xwriting) > 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(hk_load(ring.xnext), (uint64_t)WRITERS * STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(closed), cmocka_unit_test(last_ones_in_order),
        cmocka_unit_test(dead),  cmocka_unit_test(lapped), cmocka_unit_test(read_while_written)};
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
