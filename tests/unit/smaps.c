/* Tests that the parser of smaps reads the kernel's lines from a stream that is cut at any byte. */
#include "unit/unit.h"

#include <stdlib.h>

#include "os/maps.h"

enum { MOST = 64 };

static struct hk_mapping seen[MOST];
static size_t count;

static void note(void *context, const struct hk_mapping *mapping)
{
    assert_ptr_equal(context, &count);
    if (count < MOST)
        seen[count] = *mapping;
    count++;
}

UNIT_TEST(lines)
{
    fake_os.file =
        "00400000-00452000 r-xp 00000000 08:02 173521   /usr/bin/a name with Rss: 7 kB and more, much longer than is kept\n"
        "Size:                328 kB\nRss:                 120 kB\nPss:                  60 kB\n"
        "7ffdeadb000-7ffdeadf000 rw-p 00000000 00:00 0 \nSize:  16 kB\nRss:      0 kB\nVmFlags: rd wr\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]\nRss: 4 kB\nRss: half a line";
    assert_true(hk_smaps_visit(note, &count));
    assert_int_equal(count, 3);
    assert_int_equal(seen[0].start, 0x400000);
    assert_int_equal(seen[0].end, 0x452000);
    assert_int_equal(seen[0].resident, 120 * HK_KIB);
    assert_int_equal(seen[0].inode, 173521);
    assert_int_equal(seen[1].start, 0x7ffdeadb000);
    assert_int_equal(seen[1].resident + seen[1].inode, 0);
    assert_true(seen[2].end == 0xffffffffff601000);
    assert_int_equal(seen[2].resident, 4 * HK_KIB);
}

/* The kernel shows a mapping again if it has grown since the last read. */
UNIT_TEST(grown_meanwhile)
{
    fake_os.file = "10000-20000 rw-p 00000000 00:00 0 \nRss: 64 kB\n10000-40000 rw-p 00000000 00:00 0 \nRss: 192 kB\n"
                   "40000-50000 rw-p 00000000 00:00 0 \nRss: 4 kB\n";
    assert_true(hk_smaps_visit(note, &count));
    assert_int_equal(count, 2);
    assert_int_equal(seen[0].end, 0x20000);
    assert_int_equal(seen[0].resident, 64 * HK_KIB);
    assert_int_equal(seen[1].start, 0x40000);
}

UNIT_TEST(real)
{
    assert_true(hk_smaps_visit(note, &count));
    assert_true(count > 3);
    for (size_t i = 1; i < count && i < MOST; i++)
        assert_true(seen[i].start >= seen[i - 1].end && seen[i].start < seen[i].end);
}

UNIT_TEST(unreadable)
{
    fake_os_refuse(fake_refuse_open);
    assert_false(hk_smaps_visit(note, &count));
    fake_os_refuse(NULL);
    fake_os.file = "";
    assert_false(hk_smaps_visit(note, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(grown_meanwhile),
                                       cmocka_unit_test(real), cmocka_unit_test(unreadable)};
    return cmocka_run_group_tests_name("smaps", tests, NULL, NULL);
}
