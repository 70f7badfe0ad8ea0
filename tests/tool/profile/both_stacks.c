/* A library to preload. It takes the stack of every 31st malloc twice, with HAKMEM's capture and with the C library's backtrace(), and compares the
 * frames. At the end it appends "stacks frames different longer" to the file BOTH_STACKS: the number of pairs, the frames in them, the pairs that
 * differ, and the pairs in which HAKMEM has all frames of backtrace() and more. HAKMEM has more if a module has no unwind table but has frame
 * pointers. With BOTH_STACKS_SPOIL, the first frame of HAKMEM's stacks is made wrong, as a negative control. */
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prof/stack.h"

enum { EVERY = 31, ROOM = 128, SHOWN = 3 };

void *__libc_malloc(size_t size); /* NOLINT because it is glibc's name */

static atomic_ulong calls, stacks, frames, different, longer;
static __thread int busy __attribute__((tls_model("initial-exec")));
static int ready, spoils;

static void show(const struct hk_stack *ours, void *const *theirs, int count)
{
    if (spoils || atomic_load(&different) > SHOWN) {
        return;
    }
    for (int i = 0; i < count || i < (int)ours->depth; i++) {
        void *own = i < (int)ours->depth ? ours->frames[i] : NULL, *other = i < count ? theirs[i] : NULL;
        (void)fprintf(stderr, "%c %p %p\n", own == other ? ' ' : '*', own, other);
    }
    backtrace_symbols_fd(theirs, count, STDERR_FILENO);
}

static __attribute__((noinline)) void compare(void *caller)
{
    struct hk_stack ours;
    void *all[ROOM], **theirs = all;
    hk_stack_capture(&ours, caller);
    ours.frames[0] = (char *)ours.frames[0] + spoils;
    int count = backtrace(all, ROOM);
    while (count > 0 && *theirs != caller) {
        theirs++;
        count--;
    }
    count = count < HK_STACK_MOST ? count : HK_STACK_MOST;
    size_t both = ours.depth < (unsigned)count ? ours.depth : (size_t)count;
    stacks++;
    frames += both;
    if (ours.depth < (unsigned)count || memcmp(ours.frames, theirs, both * sizeof(void *)) != 0) {
        different++;
        show(&ours, theirs, count);
    } else if (ours.depth > (unsigned)count) {
        longer++;
    }
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    if (ready && !busy && atomic_fetch_add(&calls, 1) % EVERY == 0) {
        busy = 1;
        compare(__builtin_return_address(0));
        busy = 0;
    }
    return __libc_malloc(size);
}

/* Calls backtrace() once, because its first call loads the unwinder. */
__attribute__((constructor)) static void begin(void)
{
    void *frame;
    (void)backtrace(&frame, 1);
    spoils = getenv("BOTH_STACKS_SPOIL") != NULL;
    ready = 1;
}

__attribute__((destructor)) static void end(void)
{
    ready = 0;
    const char *path = getenv("BOTH_STACKS");
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (fd >= 0) {
        (void)dprintf(fd, "%lu %lu %lu %lu\n", stacks, frames, different, longer);
        (void)close(fd);
    }
}
