/* Tests each function of bits.h against a simple loop that computes the same result. */
#include "unit/unit.h"

#include "base/bits.h"
#include "support/rng.h"
#include "support/slow_bits.h"

static uint32_t lowest_run(uint32_t x)
{
    uint32_t run = 0;
    for (uint32_t bit = 1; bit != 0 && (run == 0 || (x & bit) != 0); bit <<= 1)
        run |= x & bit;
    return run;
}

UNIT_TEST(runs_of_ones)
{
    struct rng rng = rng_seeded(1);
    static const uint32_t corners[] = {0, 1, 0x80000000, 0xffffffff, 0x7fffffff, 0xfffffffe, 0x55555555, 0xffff0000};
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t x = i < 8 ? corners[i] : (uint32_t)(rng_next(&rng) | rng_next(&rng));
        assert_int_equal(hk_longest_run32(x), longest_run(x));
        assert_int_equal(hk_lowest_run32(x), lowest_run(x));
        for (unsigned n = 1; n <= 32; n++)
            assert_int_equal(hk_runs32(x, n), starts_of_runs(x, n));
    }
}

UNIT_TEST(low_bits)
{
    for (unsigned n = 0; n <= 32; n++)
        assert_int_equal(hk_low_bits32(n), (uint32_t)(((uint64_t)1 << n) - 1));
}

UNIT_TEST(powers_and_rounding)
{
    assert_false(hk_is_pow2(0));
    for (unsigned shift = 0; shift < 64; shift++) {
        size_t power = (size_t)1 << shift;
        assert_true(hk_is_pow2(power));
        assert_int_equal(hk_is_pow2(power + 1), shift == 0);
        assert_int_equal(hk_ctz64(power), shift);
        assert_true(hk_pow2_from(power) == power);
        assert_true(shift == 63 || hk_pow2_from(power + 1) == 2 * power);
    }
    for (size_t x = 0; x < 3000; x++)
        for (size_t align = 1; align <= 512; align *= 2) {
            assert_int_equal(hk_align_up(x, align), (x + align - 1) / align * align);
            assert_int_equal(hk_align_down(x, align), x / align * align);
        }
    assert_int_equal(hk_popcount64(UINT64_MAX), 64);
    assert_int_equal(hk_popcount64(0x8000000000000001), 2);
    assert_int_equal(hk_min(3, SIZE_MAX), 3);
    assert_true(hk_max(3, SIZE_MAX) == SIZE_MAX);
    assert_int_equal(hk_pow2_from(0), 1);
    assert_int_equal(hk_positive_part(-1), 0);
    assert_true(hk_positive_part(INT64_MAX) == INT64_MAX);
}

UNIT_TEST(bits_of_words)
{
    struct rng rng = rng_seeded(11);
    for (int i = 0; i < 20000; i++) {
        uint64_t x = (uint64_t)rng_next(&rng) << 32 ^ rng_next(&rng);
        x = i % 3 == 0 ? x & x << 1 & x << 2 & x << 3 : i % 3 == 1 ? ~(x & x << 1 & x << 2) : x;
        unsigned ones = 0;
        for (unsigned bit = 0; bit < 64; bit++) {
            ones += (x >> bit & 1) != 0;
            uint64_t word = x;
            /* The test adds multiples of 64 because hk_bit_set() uses only the index modulo 64. */
            assert_int_equal(hk_bit_set(&word, bit + 64 * (unsigned)(i % 5)), (x >> bit & 1) == 0);
            assert_true(word == (x | (uint64_t)1 << bit));
        }
        assert_int_equal(hk_popcount64(x), ones);
        if (x != 0)
            assert_int_equal(hk_lowest_bit(x), hk_ctz64(x));
    }
}

UNIT_TEST(next_bit)
{
    struct rng rng = rng_seeded(12);
    for (int i = 0; i < 2000; i++) {
        uint64_t words[3], flip = i % 2 == 0 ? 0 : UINT64_MAX;
        for (unsigned word = 0; word < 3; word++) /* few bits are set, or clear if `flip` is all ones */
            words[word] = flip ^ ((uint64_t)1 << rng_next(&rng) % 64 & (0 - (uint64_t)(rng_next(&rng) % 2)));
        unsigned end = (unsigned)(rng_next(&rng) % 193);
        for (unsigned at = 0; at <= 192; at++) {
            unsigned expected = at;
            while (expected < end && ((words[expected / 64] ^ flip) >> expected % 64 & 1) == 0)
                expected++;
            assert_int_equal(hk_bits_find(words, at, end, flip), expected < end ? expected : end);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_ones),  cmocka_unit_test(low_bits), cmocka_unit_test(powers_and_rounding),
        cmocka_unit_test(bits_of_words), cmocka_unit_test(next_bit),
    };
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
