/* Usage: test_abi_introspect
 * Tests that mallinfo, mallinfo2, mallopt, malloc_info, malloc_stats and malloc_trim exist and return correct numbers. */
#include "support/check.h"
#include "support/pattern.h"
#include "support/procinfo.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCKS = 4096 };

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* The test needs mallinfo. */

static void *block[BLOCKS];

static void allocate_all(size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = malloc(size);
        CHECK(block[i] != NULL, "malloc of %zu", size);
        pattern_fill(block[i], size, i);
    }
}

static void free_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        free(block[i]);
    }
}

/* Returns the bytes in use, which are those of arenas (uordblks) and of blocks that have their own mapping (hblkhd). */
static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void test_mallinfo2(void)
{
    static const size_t size[] = {16, 100, 1000, 4096, 20000, 100000};
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        size_t before = in_use();
        allocate_all(size[i]);
        size_t during = in_use();
        size_t asked = BLOCKS * size[i];
        CHECK(during >= before + asked, "%d blocks of %zu: in use %zu -> %zu", BLOCKS, size[i], before, during);
        CHECK(during <= before + 2 * asked + 4 * MIB, "%d blocks of %zu: in use %zu -> %zu", BLOCKS, size[i], before,
              during);
        struct mallinfo2 info = mallinfo2();
        CHECK(info.arena + info.hblkhd >= asked, "mapped %zu + %zu for %zu", info.arena, info.hblkhd, asked);
        CHECK(info.arena >= info.uordblks, "arena %zu, in use %zu", info.arena, info.uordblks);
        free_all();
        size_t after = in_use();
        /* Blocks in a thread cache may count as used. */
        CHECK(after <= before + asked / 2 + 2 * MIB, "after free of %zu: %zu, before %zu", size[i], after, before);
    }
    /* A very large block must count too. */
    size_t before = in_use();
    void *p = malloc((size_t)256 * MIB);
    CHECK(p != NULL, "256 MiB");
    CHECK(in_use() >= before + (size_t)256 * MIB, "256 MiB more: %zu -> %zu", before, in_use());
    free(p);
    CHECK(in_use() < before + (size_t)64 * MIB, "256 MiB less: %zu -> %zu", before, in_use());
}

static void test_mallinfo(void)
{
    struct mallinfo before = mallinfo();
    allocate_all(1000);
    struct mallinfo during = mallinfo();
    CHECK(before.uordblks >= 0 && during.uordblks >= before.uordblks + BLOCKS * 1000, "uordblks %d -> %d",
          before.uordblks, during.uordblks);
    CHECK(during.arena >= 0 && during.fordblks >= 0 && during.hblkhd >= 0, "a negative figure");
    free_all();
}

static void test_mallopt(void)
{
    /* Parameters that mallopt must accept, as glibc does. mallopt returns 1 on success. */
    static const struct {
        int parameter;
        int value;
    } fair[] = {{M_MMAP_THRESHOLD, 256 * 1024},
                {M_TRIM_THRESHOLD, MIB},
                {M_TOP_PAD, 4096},
                {M_MMAP_MAX, 1000},
                {M_ARENA_MAX, 4},
                {M_PERTURB, 0}};
    for (size_t i = 0; i < sizeof fair / sizeof fair[0]; i++) {
        int result = mallopt(fair[i].parameter, fair[i].value);
        CHECK(result == 1, "mallopt(%d, %d) = %d", fair[i].parameter, fair[i].value, result);
        allocate_all(700);
        free_all();
    }
}

/* Tests that mallopt returns what glibc 2.36 returns. That is 1 for each parameter, even an unknown one, except for fast bins that are too large. */
static void test_what_mallopt_says(void)
{
    static const int values[] = {INT_MIN, -1, 0, 1, 80, 159, 160, 161, MIB, 64 * MIB, INT_MAX};
    for (int parameter = -12; parameter < 8; parameter++) {
        if (parameter == M_CHECK_ACTION || parameter == M_PERTURB) {
            /* Another test covers M_PERTURB. M_CHECK_ACTION could end the process on glibc. */
            continue;
        }
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            int fair = parameter != M_MXFAST || (values[i] >= 0 && values[i] <= 160);
            CHECK(mallopt(parameter, values[i]) == fair, "mallopt(%d, %d) = %d", parameter, values[i], !fair);
        }
    }
}

/* glibc exports these names too. */
extern int __libc_mallopt(int parameter, int value);
extern struct mallinfo __libc_mallinfo(void);

static void test_other_names(void)
{
    void *blocks = malloc(20 * MIB);
    CHECK(__libc_mallopt(M_MXFAST, 161) == 0 && __libc_mallopt(M_MXFAST, 64) == 1, "__libc_mallopt");
    struct mallinfo info = mallinfo(), other = __libc_mallinfo();
    CHECK(memcmp(&info, &other, sizeof info) == 0 && other.hblkhd >= 20 * MIB, "__libc_mallinfo");
    free(blocks);
}

/* Returns whether the tags of the text are closed in order. It is not a complete XML parser. */
static bool is_well_formed(const char *text)
{
    enum { DEPTH = 64, NAME = 64 };
    char open[DEPTH][NAME];
    int depth = 0;
    int elements = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        if (!end) {
            return false;
        }
        char name[NAME];
        size_t length = 0;
        bool closing = at[1] == '/';
        for (const char *c = at + 1 + closing; c < end && (isalnum((unsigned char)*c) || strchr("-_:.", *c)); c++) {
            if (length < NAME - 1) {
                name[length++] = *c;
            }
        }
        name[length] = '\0';
        if (at[1] == '?' || at[1] == '!') {
            at = end;
            continue;
        }
        if (length == 0) {
            return false;
        }
        if (closing) {
            if (depth == 0 || strcmp(open[--depth], name) != 0) {
                return false;
            }
        } else if (end[-1] != '/') {
            if (depth == DEPTH || (depth == 0 && elements > 0)) {
                return false; /* false because the element lies too deep, or is a second root */
            }
            strcpy(open[depth++], name);
        }
        elements++;
        at = end;
    }
    return depth == 0 && elements > 1;
}

static void test_malloc_info(void)
{
    CHECK(is_well_formed("<?xml version=\"1.0\"?><a x=\"1\"><b/><c>1</c></a>"), "the checker refuses XML");
    CHECK(!is_well_formed("<a><b></a></b>"), "the checker accepts crossed tags");
    CHECK(!is_well_formed("<a><b>"), "the checker accepts open tags");

    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length); /* The stream calls malloc while malloc_info writes to it. */
    CHECK(malloc_info(0, stream) == 0, "malloc_info: errno %d", errno);
    fclose(stream);
    CHECK(length > 20 && strncmp(text, "<malloc", 7) == 0, "begins with: %.30s", text);
    CHECK(is_well_formed(text), "not well-formed: %.400s", text);
    free(text);
    errno = 0;
    CHECK(malloc_info(1, stdout) == EINVAL && errno == 0,
          "malloc_info takes no options, and says so by its value: errno %d", errno);
}

/* Tests malloc_stats, which writes to stderr. During the call stderr is a pipe, so that the test can read the text. */
static void test_malloc_stats(void)
{
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0, "pipe: errno %d", errno);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    malloc_stats();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_ends[1]);
    char text[8192];
    ssize_t got = read(pipe_ends[0], text, sizeof text);
    close(pipe_ends[0]);
    bool digits = false;
    for (ssize_t i = 0; i < got; i++) {
        digits |= isdigit((unsigned char)text[i]) != 0;
    }
    CHECK(got > 20 && digits, "malloc_stats wrote %zd bytes", got);
}

static void test_malloc_trim(void)
{
    malloc_trim(0);
    size_t before = procinfo_rss_kib();
    allocate_all(30000);
    size_t during = procinfo_rss_kib();
    CHECK(during >= before + BLOCKS * 29, "RSS %zu -> %zu KiB", before, during);
    free_all();
    int first = malloc_trim(0);
    size_t after = procinfo_rss_kib();
    CHECK(first == 0 || first == 1, "malloc_trim gave %d", first);
    CHECK(after <= before + (during - before) / 10 + 2048, "RSS %zu -> %zu -> %zu KiB", before, during, after);
    int second = malloc_trim(0);
    CHECK(second == 0 || second == 1, "malloc_trim gave %d", second);
}

/* Tests the pad of malloc_trim. After a trim with a pad, PAD free bytes must stay resident, and no more. */
static void test_malloc_trim_with_a_pad(void)
{
    enum { PAD = 48 * MIB };
    malloc_trim(0);
    size_t before = procinfo_rss_kib();
    allocate_all(30000);
    free_all();
    int gave = malloc_trim(PAD);
    size_t kept = procinfo_rss_kib() - before;
    CHECK(gave == 1, "malloc_trim(%d) of some 117 MiB gave %d", PAD, gave);
    CHECK(kept <= PAD / 1024 + 2048, "%zu KiB stayed, %d asked for", kept, PAD / 1024);
    CHECK(kept >= PAD / 1024 - 4096, "%zu KiB stayed, %d asked for", kept, PAD / 1024);
    malloc_trim(SIZE_MAX);
    size_t still = procinfo_rss_kib() - before;
    CHECK(still + 1024 >= kept, "%zu of %zu KiB stayed, where all might", still, kept);
    CHECK(malloc_trim(0) == 1, "nothing given back");
}

int main(void)
{
    test_mallinfo2();
    test_mallinfo();
    test_malloc_trim();
    test_malloc_trim_with_a_pad();
    test_malloc_info();
    test_malloc_stats();
    test_mallopt();
    test_other_names();
    test_what_mallopt_says();
    return check_report("abi introspect");
}
