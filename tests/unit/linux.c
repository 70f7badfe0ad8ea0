/* Tests the table of system calls: the result of each entry, that no entry changes errno, and the effects of signals and locked pages. */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/forward.h"

enum { PAGES = 16, ERROR = 12345, LONG = 200000 };

static bool is_resident(const char *page)
{
    unsigned char state = 0;
    assert_true(hk_os.resident(page, hk_system_page(), &state));
    return (state & 1) != 0;
}

UNIT_TEST(errno_stays)
{
    char *p = hk_os.map(PAGES * hk_system_page());
    assert_non_null(p);
    errno = ERROR;
    assert_true(hk_os.purge(p, hk_system_page()));
    assert_false(hk_os.purge((void *)hk_system_page(), hk_system_page()));
    assert_true(hk_os.seal(p, hk_system_page()) && hk_os.unseal(p, hk_system_page()));
    assert_false(hk_os.seal((void *)hk_system_page(), hk_system_page()));
    assert_false(hk_os.remap((void *)hk_system_page(), hk_system_page(), 2 * hk_system_page(), NULL));
    (void)hk_os.advise_huge((void *)hk_system_page(), hk_system_page(), true);
    (void)hk_os.populate(p, PAGES * hk_system_page());
    (void)hk_os.populate((void *)hk_system_page(), hk_system_page());
    (void)hk_os.forbids_huge();
    struct hk_os_range ranges[] = {{(uintptr_t)p, hk_system_page()},
                                   {(uintptr_t)p + 3 * hk_system_page(), hk_system_page()}};
    if (hk_os.purge_all(ranges, 2)) /* the kernel may be too old */
        assert_false(is_resident(p) || !is_resident(p + hk_system_page()) || is_resident(p + 3 * hk_system_page()));
    ranges[0].start = hk_system_page();
    assert_false(hk_os.purge_all(ranges, 2));
    assert_int_equal(hk_os.map_at(p, hk_system_page()), HK_PLACE_TAKEN);
    assert_int_equal(hk_os.open("/nowhere"), -ENOENT);
    assert_int_equal(hk_os_create("/nowhere/at/all"), -ENOENT);
    hk_os.write(-1, p, 1);
    assert_null(hk_os.map((size_t)1 << 62));
    assert_true(hk_os.unmap(p, PAGES * hk_system_page()));
    assert_int_equal(errno, ERROR);
}

/* If the address is in use, map_at() maps nothing at this address or elsewhere. */
UNIT_TEST(map_at)
{
    char *p = hk_os.map(PAGES * hk_system_page());
    memset(p, 7, PAGES * hk_system_page());
    assert_int_equal(hk_os.map_at(p + hk_system_page(), hk_system_page()), HK_PLACE_TAKEN);
    assert_int_equal(p[hk_system_page()], 7);
    assert_true(hk_os.unmap(p + hk_system_page(), hk_system_page()));
    if (!UNIT_UNDER_TSAN)
        assert_int_equal(hk_os.map_at(p + hk_system_page(), hk_system_page()), HK_PLACED);
}

UNIT_TEST(purged_pages_are_zero_locked_ones_too)
{
    char *p = hk_os.map(PAGES * hk_system_page());
    memset(p, 7, PAGES * hk_system_page());
    assert_true(hk_os.purge(p, hk_system_page()));
    assert_int_equal(p[0], 0);
    assert_int_equal(p[hk_system_page()], 7);
    if (mlock(p + hk_system_page(), hk_system_page()) != 0)
        return; /* The system does not let this process lock memory. */
    if (madvise(p + hk_system_page(), hk_system_page(), 24 /* MADV_DONTNEED_LOCKED */) != 0) {
        assert_false(hk_os.purge(p + hk_system_page(), hk_system_page())); /* older than Linux 5.18 */
        return;
    }
    memset(p + hk_system_page(), 7, hk_system_page());
    assert_true(hk_os.purge(p + hk_system_page(), hk_system_page()));
    assert_int_equal(p[hk_system_page()], 0);
}

static void on_alarm(int number) { (void)number; }

static void *read_late(void *end)
{
    static char bytes[LONG];
    size_t got = 0;
    usleep(100000);
    for (ssize_t n; got < LONG && (n = read(*(int *)end, bytes + got, LONG - got)) > 0;)
        got += (size_t)n;
    return (void *)got;
}

/* A signal that interrupts a waiting write does not shorten it. */
UNIT_TEST(write_goes_on_after_a_signal)
{
    static const char bytes[LONG];
    int ends[2];
    pthread_t reader;
    void *got;
    assert_int_equal(pipe(ends), 0);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* The reader inherits the mask, so it does not get the signal. */
    assert_int_equal(pthread_create(&reader, NULL, read_late, &ends[0]), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}, .it_interval = {0, 20000}}, NULL);
    hk_os.write(ends[1], bytes, LONG);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 0}}, NULL);
    assert_int_equal(pthread_join(reader, &got), 0);
    assert_int_equal((size_t)got, LONG);
}

UNIT_TEST(code_of_the_loader)
{
    const char *loader = (const char *)getauxval(AT_BASE);
    if (loader == NULL)
        return; /* The program is linked statically. */
    assert_true(hk_os_in_loader(loader));
    assert_false(hk_os_in_loader((const void *)(uintptr_t)on_alarm));
    assert_false(hk_os_in_loader(&loader));
}

/* Most advice that a program gives for its memory stays in force when other blocks use this memory. hk_advice_lasts() returns false for advice
 * that has no lasting effect. */
UNIT_TEST(advice)
{
    assert_false(hk_advice_lasts(MADV_NORMAL));
    assert_false(hk_advice_lasts(MADV_DONTNEED));
    assert_false(hk_advice_lasts(MADV_HUGEPAGE));
    assert_true(hk_advice_lasts(MADV_DONTFORK));
    assert_true(hk_advice_lasts(MADV_DONTDUMP));
}

UNIT_TEST(rss_stats)
{
    char *p = hk_os.map(2 * hk_system_page());
    p[0] = 1;
    assert_true(is_resident(p));
    assert_false(is_resident(p + hk_system_page()));
    assert_true(hk_os.unmap(p, 2 * hk_system_page()));
}

/* populate() makes pages resident if the kernel can (Linux 5.14). It asks the kernel for nothing after the program has installed a seccomp filter,
 * which may end the process. The last case, because the filter is never forgotten. */
UNIT_TEST(populates_until_a_filter_comes)
{
    enum { POPULATE_WRITE = 23 };
    char *raw = hk_os.map(hk_system_page()), *p = hk_os.map(PAGES * hk_system_page());
    bool known = madvise(raw, hk_system_page(), POPULATE_WRITE) == 0 && is_resident(raw);
    bool populated = hk_os.populate(p, (PAGES - 1) * hk_system_page());
    assert_int_equal(populated && is_resident(p) && is_resident(p + (PAGES - 2) * hk_system_page()), known);
    assert_false(is_resident(p + (PAGES - 1) * hk_system_page()));
    if (known)
        assert_false(hk_os.populate((void *)hk_system_page(), hk_system_page()));
    hk_os_filter_comes();
    assert_false(hk_os.populate(p, PAGES * hk_system_page()));
    assert_false(is_resident(p + (PAGES - 1) * hk_system_page()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errno_stays),
        cmocka_unit_test(map_at),
        cmocka_unit_test(purged_pages_are_zero_locked_ones_too),
        cmocka_unit_test(write_goes_on_after_a_signal),
        cmocka_unit_test(code_of_the_loader),
        cmocka_unit_test(advice),
        cmocka_unit_test(rss_stats),
        cmocka_unit_test(populates_until_a_filter_comes),
    };
    return cmocka_run_group_tests_name("linux", tests, NULL, NULL);
}
