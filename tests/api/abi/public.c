/* Usage: test_public
 * Tests all of include/hakmem.h as a program uses it. Each function is called before main, in a thread, in a fork child, or in a signal handler.
 * Programs that were compiled with an older or a newer header must be able to read the statistics. This file is compiled as C and, in public.cpp,
 * as C++. */
#include <malloc.h> /* before hakmem.h, which declares more then */

#include "hakmem.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 1000, BLOCK = 5000, LARGE = 7 << 20, MIB = 1 << 20, FILLED = 0xA5 };

static int failures;

static void must_at(int line, int good, const char *what)
{
    if (!good) {
        failures++;
        fprintf(stderr, "public.c:%d: %s\n", line, what);
    }
}

#define MUST(condition) must_at(__LINE__, (condition) ? 1 : 0, #condition)

static struct hak_stats at_first;
static int got_at_first = 1;
static const char *version_in_handler;

__attribute__((constructor)) static void before_main(void)
{
    void *block = hak_malloc(100);
    got_at_first = block != NULL ? hak_get_stats(&at_first, sizeof at_first) : 1;
    hak_free(block);
}

static struct hak_stats now(void)
{
    struct hak_stats stats;
    MUST(hak_get_stats(&stats, sizeof stats) == 0);
    return stats;
}

static void test_version(void)
{
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", HAKMEM_VERSION_MAJOR, HAKMEM_VERSION_MINOR, HAKMEM_VERSION_PATCH);
    MUST(strcmp(text, hak_version()) == 0);
#ifdef PROJECT_VERSION
    MUST(strcmp(text, PROJECT_VERSION) == 0);
#endif
    MUST(HAKMEM_VERSION == HAKMEM_VERSION_MAJOR * 10000 + HAKMEM_VERSION_MINOR * 100 + HAKMEM_VERSION_PATCH);
    MUST(HAKMEM_VERSION_OF(1, 0, 0) > HAKMEM_VERSION_OF(0, 99, 99));
    MUST(now().version == HAKMEM_VERSION);
}

/* Reads the pointer through a volatile variable, because the compiler assumes that alloc_align holds. */
static int is_aligned(const void *block, size_t alignment)
{
    const void *volatile seen = block;
    return seen != NULL && (uintptr_t)seen % alignment == 0;
}

static void test_blocks(void)
{
    errno = 7;
    char *block = (char *)hak_malloc(100);
    MUST(is_aligned(block, 16) && hak_malloc_usable_size(block) >= 100);
    memset(block, 1, 100);
    block = (char *)hak_realloc(block, 100000);
    MUST(is_aligned(block, 16) && block[99] == 1);
    block = (char *)hak_reallocarray(block, 3, 1000);
    MUST(block != NULL && block[0] == 1 && hak_malloc_usable_size(block) >= 3000);
    MUST(hak_realloc(block, 0) == NULL);
    block = (char *)hak_calloc(10, 10);
    MUST(is_aligned(block, 16) && block[0] == 0 && block[99] == 0);
    hak_free_sized(block, 100);
    hak_free(hak_malloc(0));
    hak_free(NULL);
    hak_cfree(hak_malloc(10));
    hak_cfree(NULL);
    MUST(hak_malloc_usable_size(NULL) == 0 && errno == 7);
}

static void test_alignment(void)
{
    void *block = NULL;
    errno = 7;
    for (size_t alignment = 16; alignment <= MIB; alignment *= 2) {
        block = hak_aligned_alloc(alignment, 100);
        MUST(is_aligned(block, alignment));
        hak_free_aligned_sized(block, alignment, 100);
        block = hak_memalign(alignment, 100);
        MUST(is_aligned(block, alignment));
        hak_free(block);
        MUST(hak_posix_memalign(&block, alignment, 100) == 0 && is_aligned(block, alignment));
        hak_free(block);
    }
    block = hak_valloc(100);
    MUST(is_aligned(block, 4096));
    hak_free(block);
    block = hak_pvalloc(100);
    MUST(is_aligned(block, 4096) && hak_malloc_usable_size(block) >= 4096);
    hak_free(block);
    MUST(errno == 7);
}

static int refused(const void *block)
{
    int is_told = block == NULL && errno == ENOMEM;
    errno = 0;
    return is_told;
}

static void test_refusals(void)
{
    /* volatile because compilers know alloc_size */
    volatile size_t too_large = (size_t)PTRDIFF_MAX + 1, half = SIZE_MAX / 2 + 1;
    volatile size_t no_power = SIZE_MAX, odd = 24;
    void *kept = hak_malloc(10), *untouched = kept;
    errno = 0;
    MUST(refused(hak_malloc(too_large)) && refused(hak_calloc(half, 2)) && refused(hak_calloc(2, half)));
    MUST(refused(hak_realloc(kept, too_large)) && refused(hak_reallocarray(kept, 2, half)));
    MUST(refused(hak_aligned_alloc(64, too_large)) && refused(hak_memalign(64, too_large)));
    MUST(refused(hak_valloc(too_large)) && refused(hak_pvalloc(too_large)));
    MUST(hak_aligned_alloc(no_power, 10) == NULL && errno == EINVAL);
    errno = 7;
    MUST(hak_posix_memalign(&untouched, odd, 10) == EINVAL && hak_posix_memalign(&untouched, 64, too_large) == ENOMEM);
    MUST(untouched == kept && errno == 7);
    hak_free(kept);
}

static uint64_t sum_of_parts(const struct hak_stats *stats)
{
    return stats->live + stats->rounding + stats->large_live + stats->thread_caches + stats->remote_pending +
           stats->free_in_slabs + stats->slab_tails + stats->large_cached + stats->idle + stats->metadata +
           stats->metadata_spare;
}

static void test_stats(void)
{
    static char *blocks[BLOCKS];
    struct hak_stats before = now();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = (char *)hak_malloc(BLOCK);
        MUST(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK);
    }
    char *large = (char *)hak_malloc(LARGE);
    MUST(large != NULL);
    memset(large, 1, 1);
    struct hak_stats during = now();
    MUST(during.size == sizeof during && sum_of_parts(&during) == during.mapped);
    MUST(during.live + during.rounding >= before.live + before.rounding + BLOCKS * BLOCK);
    MUST(during.live_blocks >= before.live_blocks + BLOCKS + 1 && during.mallocs >= before.mallocs + BLOCKS + 1);
    MUST(during.mallocs - during.frees == during.live_blocks);
    MUST(during.large_live >= before.large_live + LARGE && during.large_calls == before.large_calls + 1);
    MUST(during.large_mapped == before.large_mapped + 1 && during.misses > before.misses);
    MUST(during.footprint >= before.footprint + LARGE + BLOCKS * BLOCK / 2 && during.footprint <= during.mapped);
    MUST(during.threads >= 1 && during.threads_started >= during.threads && during.metadata > 0);
    for (int i = 0; i < BLOCKS; i++)
        hak_free(blocks[i]);
    hak_free(large);
    struct hak_stats freed = now();
    MUST(freed.live_blocks <= during.live_blocks - BLOCKS && freed.frees >= during.frees + BLOCKS + 1);
    MUST(freed.large_cached >= LARGE && freed.large_live == before.large_live && sum_of_parts(&freed) == freed.mapped);
    MUST(freed.out_of_memory >= 8); /* test_refusals caused 8 refusals */
}

/* Tests the footprint after a trim. The footprint must count the pages that live blocks keep, and must not count the purged pages. */
static void test_footprint_after_a_trim(void)
{
    enum { SPREAD = 100000, SMALL = 100, KEPT_OF = 400 };
    static void *blocks[SPREAD];
    struct hak_stats before = now();
    for (int i = 0; i < SPREAD; i++) {
        blocks[i] = hak_malloc(SMALL);
        MUST(blocks[i] != NULL);
    }
    for (int i = 0; i < SPREAD; i++)
        if (i % KEPT_OF != 0)
            hak_free(blocks[i]);
    hak_malloc_trim(0);
    MUST(now().footprint >= SPREAD / KEPT_OF * 4096 && now().footprint < before.footprint + SPREAD * SMALL / 2);
    for (int i = 0; i < SPREAD; i += KEPT_OF)
        hak_free(blocks[i]);
}

/* These are hak_stats as it was with three fields, and as it may become. */
struct older_stats {
    uint64_t size, version, mapped;
};
struct newer_stats {
    struct hak_stats known;
    uint64_t more[3];
};

static int is_filled(const unsigned char *bytes, size_t size, int with)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != with)
            return 0;
    return 1;
}

static void test_older_and_newer(void)
{
    union {
        unsigned char bytes[2 * sizeof(struct newer_stats)];
        struct hak_stats stats;
        struct older_stats older;
        struct newer_stats newer;
    } room;
    memset(&room, FILLED, sizeof room);
    MUST(hak_get_stats(&room.stats, sizeof room.older) == 0);
    MUST(room.older.size == sizeof room.older && room.older.version == HAKMEM_VERSION && room.older.mapped > 0);
    MUST(is_filled(room.bytes + sizeof room.older, sizeof room - sizeof room.older, FILLED));
    MUST(HAK_STATS_HAS(&room.stats, mapped) && !HAK_STATS_HAS(&room.stats, footprint));

    memset(&room, FILLED, sizeof room);
    MUST(hak_get_stats(&room.stats, sizeof room.older + 5) == 0); /* no field ends there */
    MUST(room.older.size == sizeof room.older && is_filled(room.bytes + sizeof room.older, 5, 0));
    MUST(is_filled(room.bytes + sizeof room.older + 5, sizeof room - sizeof room.older - 5, FILLED));

    memset(&room, FILLED, sizeof room);
    MUST(hak_get_stats(&room.stats, sizeof room.newer) == 0);
    MUST(room.newer.known.size == sizeof room.stats && HAK_STATS_HAS(&room.stats, forks));
    MUST(is_filled((unsigned char *)room.newer.more, sizeof room.newer.more, 0));
    MUST(is_filled(room.bytes + sizeof room.newer, sizeof room - sizeof room.newer, FILLED));

    memset(&room, FILLED, sizeof room);
    errno = 0;
    MUST(hak_get_stats(&room.stats, 2 * sizeof(uint64_t) - 1) == -1 && errno == EINVAL);
    errno = 0;
    MUST(hak_get_stats(NULL, sizeof room.stats) == -1 && errno == EINVAL);
    MUST(is_filled(room.bytes, sizeof room, FILLED));
}

static void test_trim(void)
{
    enum { KEPT = 3 * MIB };
    char *large[4];
    hak_malloc_trim(0);
    MUST(hak_malloc_trim(0) == 0);
    for (int i = 0; i < 4; i++) {
        large[i] = (char *)hak_malloc(MIB / 2 * 3);
        MUST(large[i] != NULL);
    }
    for (int i = 0; i < 4; i++)
        hak_free(large[i]);
    errno = 7;
    MUST(hak_malloc_trim(SIZE_MAX) == 0 && now().large_cached >= 6 * MIB);
    MUST(hak_malloc_trim(KEPT) == 1);
    struct hak_stats kept = now();
    MUST(kept.large_cached + kept.idle_resident <= KEPT && kept.large_cached >= KEPT / 2);
    MUST(hak_malloc_trim(0) == 1 && errno == 7);
    MUST(now().large_cached == 0 && now().idle_resident == 0);
}

static void test_files(void)
{
    char name[] = "/tmp/hakmem_public_XXXXXX";
    char found[8] = "";
    int fd = mkstemp(name);
    errno = 7;
    MUST(hak_report(name) == 0 && hak_report("/nowhere/at/all") == -1 && hak_heap_profile("/nowhere/at/all") == -1);
    MUST(errno == 7);
    close(fd);
    FILE *report = fopen(name, "r");
    MUST(report != NULL && fread(found, 1, 6, report) == 6 && strcmp(found, "HAKMEM") == 0);
    if (report != NULL)
        fclose(report);
    unlink(name);
}

/* musl lacks the structs. glibc before 2.33 lacks mallinfo2. */
static void test_introspection(void)
{
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33)
    char xml[9] = "";
    FILE *file = tmpfile();
    void *large = hak_malloc(LARGE);
    MUST(hak_mallinfo2().hblkhd >= LARGE && hak_mallinfo().hblkhd >= LARGE);
    MUST(hak_mallopt(M_MXFAST, 64) == 1 && hak_mallopt(M_MXFAST, -1) == 0);
    MUST(file != NULL && hak_malloc_info(1, file) == EINVAL && hak_malloc_info(0, file) == 0);
    if (file != NULL) {
        rewind(file);
        MUST(fread(xml, 1, 8, file) == 8 && strcmp(xml, "<malloc ") == 0);
        fclose(file);
    }
    hak_free(large);
#endif
#endif
}

static void handler(int number)
{
    (void)number;
    version_in_handler = hak_version();
}

static void *in_a_thread(void *argument)
{
    void *block = hak_malloc(1000);
    struct hak_stats stats = now();
    hak_free(block);
    return stats.threads >= 2 ? argument : NULL;
}

static void test_moments(void)
{
    MUST(got_at_first == 0 && at_first.live_blocks >= 1 && at_first.version == HAKMEM_VERSION);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    MUST(version_in_handler == hak_version());
    pthread_t thread;
    void *result = NULL;
    MUST(hak_pthread_create(&thread, NULL, in_a_thread, &failures) == 0);
    pthread_join(thread, &result);
    MUST(result == &failures);
    uint64_t forks = now().forks;
    pid_t child = fork();
    if (child == 0) {
        hak_free(hak_malloc(100));
        _exit(now().forks == forks + 1 && hak_malloc_trim(0) >= 0 && failures == 0 ? 0 : 1);
    }
    int status = -1;
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    MUST(hak_dlopen(NULL, 1) != NULL); /* RTLD_LAZY */
    MUST(hak_dlmopen(0, "/nowhere/at/all", 1) == NULL);
}

int main(void)
{
    alarm(60);
    test_version();
    test_blocks();
    test_alignment();
    test_refusals();
    test_stats();
    test_footprint_after_a_trim();
    test_older_and_newer();
    test_trim();
    test_files();
    test_introspection();
    test_moments();
    printf("public: HAKMEM %s, %d failures\n", hak_version(), failures);
    return failures ? 1 : 0;
}
