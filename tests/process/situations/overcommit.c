/* Usage: test_overcommit real|charged|limited|upwards
 * Tests vm.overcommit_memory=2, with which the kernel charges writable memory when it is mapped, not when it is touched. The setting holds
 * for the whole machine, and namespaces cannot change it.
 *   real     the memory that the kernel charges must be in proportion to the heap; the test is skipped on a machine without this setting
 *   charged  on any machine, the writable private mappings, which would be charged, must be in proportion to the memory allocated
 *   limited  on any machine, RLIMIT_DATA counts the same mappings, and malloc must return NULL at this limit; starts with large blocks
 *   upwards  the same as limited, but starts with small blocks */
#include "areas.h"
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SKIPPED = 77, MIB = 1 << 20, IDLE_MIB = 24, LIMIT_MIB = 64, HELD = 1000, ROUNDS = 3, SIZES = 3 };

static size_t charged(void)
{
    static struct area area[AREAS_MOST];
    size_t sum = 0, count = areas_read(area);
    for (size_t i = 0; i < count; i++) {
        sum += area[i].writable && area[i].private_to_us ? area[i].end - area[i].start : 0;
    }
    return sum;
}

static void charge_is_in_proportion(void)
{
    static void *block[HELD];
    size_t idle = charged(), asked = 0;
    CHECK(idle <= (size_t)IDLE_MIB * MIB, "%zu KiB when nothing is allocated", idle >> 10);
    blocks_allocate(block, HELD);
    for (size_t i = 0; i < HELD; i++) {
        asked += blocks_size(i);
    }
    size_t held = charged();
    CHECK(held >= asked, "%zu KiB charged for %zu KiB", held >> 10, asked >> 10);
    CHECK(held <= idle + asked + asked / 4 + 16 * (size_t)MIB, "%zu KiB charged for %zu KiB", held >> 10, asked >> 10);
    blocks_free(block, HELD);
}

/* Allocates blocks of one size until malloc refuses one. Returns their number. */
static size_t fill(void **block, size_t most, size_t size)
{
    size_t count = 0;
    errno = 0;
    while (count < most && (block[count] = malloc(size)) != NULL) {
        pattern_fill(block[count], size, count);
        count++;
    }
    CHECK(count < most && errno == ENOMEM, "%zu blocks of %zu, errno %d", count, size, errno);
    return count;
}

static void refused_and_served_again(size_t most_bytes, bool small_first)
{
    static const size_t sizes[] = {1000, 100000, 4000000, 100000, 1000};
    static void *block[LIMIT_MIB * 1100];
    const size_t *size = sizes + (small_first ? 0 : SIZES - 1);
    for (size_t s = 0; s < SIZES; s++) {
        size_t first = 0;
        for (int round = 0; round < ROUNDS; round++) {
            size_t count = fill(block, most_bytes / size[s] + 1, size[s]);
            first = round ? first : count;
            CHECK(count >= first - first / 4, "%zu blocks of %zu in round %d, %zu in the first", count, size[s], round,
                  first);
            CHECK(count * size[s] >= most_bytes / 2, "%zu blocks of %zu of %zu bytes", count, size[s], most_bytes);
            for (size_t i = 0; i < count; i++) {
                CHECK(pattern_holds(block[i], size[s], i), "block %zu", i);
                free(block[i]);
            }
        }
    }
}

static bool machine_does_not_overcommit(void)
{
    char mode = '?';
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, &mode, 1) : 0;
    close(fd);
    return got == 1 && mode == '2';
}

int main(int argc, char **argv)
{
    watchdog_start(60, "overcommit");
    const char *what = argc == 2 ? argv[1] : "";
    if (what[0] == 'r') {
        if (!machine_does_not_overcommit()) {
            printf("overcommit: vm.overcommit_memory is not 2 here, and is not ours to set: skipped\n");
            return SKIPPED;
        }
        charge_is_in_proportion();
    } else if (what[0] == 'c') {
        charge_is_in_proportion();
    } else {
        size_t left = LIMIT_MIB * (size_t)MIB;
        struct rlimit limit = {charged() + left, charged() + left};
        CHECK(setrlimit(RLIMIT_DATA, &limit) == 0, "errno %d", errno);
        refused_and_served_again(left, what[0] == 'u');
    }
    return check_report("overcommit");
}
