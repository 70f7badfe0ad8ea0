/* Tests the inline copy and the inline zeroing for all lengths against memcpy and memset. They must not write beyond the last 16-byte quantum of
 * the length. */
#include "unit/unit.h"

#include <string.h>

#include "base/inline_copy.h"

enum { MOST = 1024, AROUND = 16 };

static unsigned char block[AROUND + MOST + AROUND] __attribute__((aligned(16)));
static unsigned char source[MOST + AROUND] __attribute__((aligned(16)));

static size_t whole(size_t bytes)
{
    return bytes == 0 ? HK_QUANTUM : (bytes + HK_QUANTUM - 1) / HK_QUANTUM * HK_QUANTUM;
}

static void assert_all(const unsigned char *from, const unsigned char *to, unsigned char value)
{
    for (; from < to; from++)
        assert_int_equal(*from, value);
}

UNIT_TEST(zero)
{
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        memset(block, 0xa5, sizeof block);
        assert_ptr_equal(hk_inline_zero(block + AROUND, bytes), block + AROUND);
        assert_all(block, block + AROUND, 0xa5);
        assert_all(block + AROUND, block + AROUND + bytes, 0);
        assert_all(block + AROUND + whole(bytes), block + sizeof block, 0xa5);
    }
}

UNIT_TEST(copy)
{
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        memset(block, 0xa5, sizeof block);
        hk_inline_copy(block + AROUND, source, bytes);
        assert_all(block, block + AROUND, 0xa5);
        assert_memory_equal(block + AROUND, source, bytes);
        assert_all(block + AROUND + whole(bytes), block + sizeof block, 0xa5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(zero), cmocka_unit_test(copy)};
    return cmocka_run_group_tests_name("quanta", tests, NULL, NULL);
}
