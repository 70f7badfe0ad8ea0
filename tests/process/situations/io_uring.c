/* Usage: test_io_uring
 * Tests blocks from malloc as fixed buffers of an io_uring. The kernel pins their pages, writes from them and reads into them. The program
 * unregisters the buffers before or after it frees them. Later blocks at these addresses must have ordinary memory. */
#include "blocks.h"
#include "support/watchdog.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SKIPPED = 77, ENTRIES = 8, BUFFERS = 24, ROUNDS = 12 };

struct ring {
    int fd;
    _Atomic unsigned *x_submitted, *x_completed;
    unsigned *completions_end, *places, submit_mask, complete_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
};

static char *map_of(int fd, size_t size, off_t what)
{
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    CHECK(mapped != MAP_FAILED, "errno %d", errno);
    return mapped;
}

static bool ring_open(struct ring *ring)
{
    struct io_uring_params is = {0};
    ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &is);
    if (ring->fd < 0) {
        return false;
    }
    char *submits = map_of(ring->fd, is.sq_off.array + is.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *completes =
        map_of(ring->fd, is.cq_off.cqes + is.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    ring->entries = (void *)map_of(ring->fd, is.sq_entries * sizeof(struct io_uring_sqe), (off_t)IORING_OFF_SQES);
    ring->x_submitted = (void *)(submits + is.sq_off.tail);
    ring->places = (void *)(submits + is.sq_off.array);
    ring->submit_mask = *(unsigned *)(void *)(submits + is.sq_off.ring_mask);
    ring->x_completed = (void *)(completes + is.cq_off.head);
    ring->complete_mask = *(unsigned *)(void *)(completes + is.cq_off.ring_mask);
    ring->results = (void *)(completes + is.cq_off.cqes);
    return true;
}

static int transfer(struct ring *ring, int operation, int file, unsigned buffer, const struct iovec *block)
{
    unsigned tail = atomic_load(ring->x_submitted), at = tail & ring->submit_mask;
    struct io_uring_sqe *entry = &ring->entries[at];
    *entry = (struct io_uring_sqe){.opcode = (__u8)operation,
                                   .fd = file,
                                   .addr = (uintptr_t)block->iov_base,
                                   .len = (unsigned)block->iov_len,
                                   .buf_index = (__u16)buffer};
    ring->places[at] = at;
    atomic_store(ring->x_submitted, tail + 1);
    if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1) {
        return -errno;
    }
    unsigned head = atomic_load(ring->x_completed);
    int result = ring->results[head & ring->complete_mask].res;
    atomic_store(ring->x_completed, head + 1);
    return result;
}

static size_t size_of(size_t i) { return i % 8 == 7 ? (size_t)3 << 20 : i % 4 == 3 ? 300000 : 4096 + i * 5000; }

static void one_round(struct ring *ring, int file, bool free_first)
{
    struct iovec block[BUFFERS];
    for (size_t i = 0; i < BUFFERS; i++) {
        block[i] = (struct iovec){i % 2 ? malloc(size_of(i)) : aligned_alloc(4096, size_of(i)), size_of(i)};
        pattern_fill(block[i].iov_base, size_of(i), i);
    }
    long registered = syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, block, BUFFERS);
    CHECK(registered == 0, "errno %d", errno);
    for (unsigned i = 0; i < BUFFERS; i++) {
        int size = (int)size_of(i);
        CHECK(transfer(ring, IORING_OP_WRITE_FIXED, file, i, &block[i]) == size, "write of buffer %u", i);
        pattern_fill(block[i].iov_base, size_of(i), 1000 + i);
        CHECK(transfer(ring, IORING_OP_READ_FIXED, file, i, &block[i]) == size, "read into buffer %u", i);
        CHECK(pattern_holds(block[i].iov_base, size_of(i), i), "buffer %u was read into", i);
    }
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == free_first) {
            for (size_t i = 0; i < BUFFERS; i++) {
                free(block[i].iov_base);
            }
            malloc_trim(0);
        } else {
            CHECK(syscall(SYS_io_uring_register, ring->fd, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0, "errno %d", errno);
        }
    }
}

int main(void)
{
    static void *block[500];
    struct ring ring;
    watchdog_start(60, "io_uring");
    if (!ring_open(&ring)) {
        printf("io_uring: not to be had here (errno %d): skipped\n", errno);
        return SKIPPED;
    }
    int file = memfd_create("io_uring", MFD_CLOEXEC);
    CHECK(file >= 0, "errno %d", errno);
    for (int round = 0; round < ROUNDS; round++) {
        one_round(&ring, file, round % 3 == 2);
        blocks_allocate(block, 500);
        blocks_free(block, 500);
    }
    close(ring.fd);
    return check_report("io_uring");
}
