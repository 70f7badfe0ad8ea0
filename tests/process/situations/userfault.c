/* Usage: test_userfault
 * Tests a program that serves the page faults of its own blocks (userfaultfd). A thread fills each page of small and large blocks at its
 * first touch. After the program unregisters and frees the blocks, their memory must be ordinary again. */
#include "blocks.h"
#include "support/core_page.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { SKIPPED = 77, LARGEST_PAGE = 65536, ROUNDS = 4, HELD = 400 };

static int faults;
static size_t page_bytes; /* size of the kernel's pages; the core's pages may be multiples of it */
static _Atomic size_t x_served;

/* Serves page faults. The first word of each page is the page's own address. */
static void *serve(void *unused)
{
    static uintptr_t page[LARGEST_PAGE / sizeof(uintptr_t)];
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message && message.event == UFFD_EVENT_PAGEFAULT) {
        uintptr_t at = message.arg.pagefault.address & ~(uintptr_t)(page_bytes - 1);
        page[0] = at;
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = page_bytes};
        x_served++; /* counted before the ioctl lets the waiting thread continue */
        CHECK(ioctl(faults, UFFDIO_COPY, &copy) == 0, "errno %d", errno);
    }
    check_thread_done();
    return unused;
}

static void ranges(char *start, size_t size, bool on)
{
    struct uffdio_range range = {(uintptr_t)start, size};
    struct uffdio_register wanted = {.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING};
    int done = on ? ioctl(faults, UFFDIO_REGISTER, &wanted) : ioctl(faults, UFFDIO_UNREGISTER, &range);
    CHECK(done == 0, "%s: errno %d", on ? "register" : "unregister", errno);
}

/* Tests one block. The whole pages of the block are registered, and the bytes before and after these pages are not served. */
static void one_block(size_t size)
{
    char *block = malloc(size);
    size_t page = core_page();
    char *first = (char *)(((uintptr_t)block + page - 1) & ~(uintptr_t)(page - 1));
    size_t whole = (size - (size_t)(first - block)) & ~(page - 1), before = x_served;
    pattern_fill(block, size, size);
    CHECK(madvise(first, whole, MADV_DONTNEED) == 0, "errno %d", errno);
    ranges(first, whole, true);
    for (size_t at = 0; at < whole; at += page_bytes) {
        CHECK(*(uintptr_t *)(void *)(first + at) == (uintptr_t)(first + at), "byte %zu of %zu", at, size);
    }
    CHECK(x_served == before + whole / page_bytes, "%zu pages served of %zu bytes", (size_t)x_served - before, size);
    CHECK(pattern_holds(block, (size_t)(first - block), size), "what lies in front of the pages");
    ranges(first, whole, false);
    free(block);
}

int main(void)
{
    static void *block[HELD];
    const size_t page = core_page(), size[] = {3 * page, 10 * page - 960, 100000, 900000, 1100000, 5000000};
    struct uffdio_api api = {.api = UFFD_API};
    pthread_t server;
    watchdog_start(60, "userfault");
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) {
        printf("userfault: not to be had here (errno %d): skipped\n", errno);
        return SKIPPED;
    }
    CHECK(pthread_create(&server, NULL, serve, NULL) == 0, "thread");
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
            one_block(size[i]);
        }
        size_t before = x_served;
        blocks_allocate(block, HELD);
        blocks_free(block, HELD);
        CHECK(x_served == before, "%zu pages of later blocks were served", (size_t)x_served - before);
    }
    CHECK(x_served > 0, "no fault came");
    pthread_cancel(server);
    pthread_join(server, NULL);
    return check_report("userfault");
}
