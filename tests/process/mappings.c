/* Tests programs that change the mapping of a large block and free it. The next block at these addresses must have ordinary memory. The program
 * and a forked child must be able to read and write it, no page may be locked, and smaps must show only the flags of malloc's memory. If a change
 * has no lasting effect, the next malloc must reuse the block at the same address while it is resident. */
#include "support/check.h"
#include "support/core_page.h"
#include "support/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { STEP = 4096, GUARD_INSTALL = 102, USER_MODE_ONLY = 1, CANNOT = -2 };

typedef int change(char *part, size_t size);

static int lock(char *part, size_t size) { return mlock(part, size); }
static int lock_an_odd_byte(char *part, size_t size) { return mlock(part + size / 2 + 77, 1); }
static int lock_on_fault(char *part, size_t size) { return mlock2(part, size, MLOCK_ONFAULT); }
static int no_access(char *part, size_t size) { return mprotect(part, size, PROT_NONE); }
static int read_only(char *part, size_t size) { return mprotect(part, size, PROT_READ); }
static int executable(char *part, size_t size) { return mprotect(part, size, PROT_READ | PROT_WRITE | PROT_EXEC); }
static int dont_fork(char *part, size_t size) { return madvise(part, size, MADV_DONTFORK); }
static int wipe_on_fork(char *part, size_t size) { return madvise(part, size, MADV_WIPEONFORK); }
static int dont_dump(char *part, size_t size) { return madvise(part, size, MADV_DONTDUMP); }
static int mergeable(char *part, size_t size) { return madvise(part, size, MADV_MERGEABLE); }
static int no_huge_pages(char *part, size_t size) { return madvise(part, size, MADV_NOHUGEPAGE); }
static int in_sequence(char *part, size_t size) { return madvise(part, size, MADV_SEQUENTIAL); }
static int at_random(char *part, size_t size) { return madvise(part, size, MADV_RANDOM); }
static int guard_pages(char *part, size_t size) { return madvise(part, size, GUARD_INSTALL); }
static int huge_pages(char *part, size_t size) { return madvise(part, size, MADV_HUGEPAGE); }
static int will_need(char *part, size_t size) { return madvise(part, size, MADV_WILLNEED); }
static int drop_pages(char *part, size_t size) { return madvise(part, size, MADV_DONTNEED); }
static int ordinary(char *part, size_t size) { return mprotect(part, size, PROT_READ | PROT_WRITE); }

static int with_a_key(char *part, size_t size)
{
    int key = pkey_alloc(0, 0);
    return key < 0 ? CANNOT : pkey_mprotect(part, size, PROT_READ | PROT_WRITE, key);
}

extern long mbind(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned) __attribute__((weak));
static int bound(char *part, size_t size)
{
    unsigned long nodes = 1;
    if (mbind == NULL) {
        return CANNOT;
    }
    return (int)mbind(part, size, MPOL_PREFERRED, &nodes, sizeof nodes * 8, 0);
}

/* Registers the range with userfaultfd. An access to a missing page then waits forever because nobody reads the descriptor. */
static int watched(char *part, size_t size)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register request = {.range = {(uintptr_t)part, size}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
        return CANNOT;
    }
    madvise(part, size, MADV_DONTNEED);
    return ioctl(fd, UFFDIO_REGISTER, &request);
}

static const struct row {
    const char *name;
    change *change;
    int lasts;
} rows[] = {
    {"mlock", lock, 1},
    {"mlock of a byte", lock_an_odd_byte, 1},
    {"mlock2", lock_on_fault, 1},
    {"PROT_NONE", no_access, 1},
    {"PROT_READ", read_only, 1},
    {"PROT_EXEC", executable, 1},
    {"pkey_mprotect", with_a_key, 1},
    {"MADV_DONTFORK", dont_fork, 1},
    {"MADV_WIPEONFORK", wipe_on_fork, 1},
    {"MADV_DONTDUMP", dont_dump, 1},
    {"MADV_MERGEABLE", mergeable, 1},
    {"MADV_NOHUGEPAGE", no_huge_pages, 1},
    {"MADV_SEQUENTIAL", in_sequence, 1},
    {"MADV_RANDOM", at_random, 1},
    {"MADV_GUARD_INSTALL", guard_pages, 1},
    {"mbind", bound, 1},
    {"userfaultfd", watched, 1},
    {"MADV_HUGEPAGE", huge_pages, 0},
    {"MADV_WILLNEED", will_need, 0},
    {"MADV_DONTNEED", drop_pages, 0},
    {"PROT_READ|PROT_WRITE", ordinary, 0},
};

struct place {
    const char *name;
    size_t bytes, from, size;
};

static size_t locked_kib(void)
{
    static char text[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, "VmLck:");
    return line != NULL ? strtoul(line + sizeof "VmLck:", NULL, 10) : SIZE_MAX;
}

/* Returns the first flag or access right of the block's mappings that ordinary memory does not have, or "" if there is none. */
static const char *odd_flag(const char *block, size_t size)
{
    static const char odd[] = " lo dc wf dd mg nh sr rr um uw ui ex ";
    static char found[8], line[512];
    int inside = 0;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    found[0] = 0;
    while (found[0] == 0 && fgets(line, sizeof line, smaps) != NULL) {
        unsigned long from, to;
        char rights[8], *rest = line;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3) {
            inside = from < (uintptr_t)block + size && to > (uintptr_t)block;
            if (inside && strcmp(rights, "rw-p") != 0) {
                strcpy(found, rights);
            }
        }
        if (inside && strncmp(line, "ProtectionKey:", 14) == 0 && strtoul(line + 14, NULL, 10) != 0) {
            strcpy(found, "key");
        }
        if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            for (char *flag = strtok_r(rest + 8, " \n", &rest); flag != NULL; flag = strtok_r(NULL, " \n", &rest)) {
                if (strlen(flag) == 2 && strstr(odd, flag) != NULL) {
                    strcpy(found, flag);
                }
            }
        }
    }
    fclose(smaps);
    return found;
}

static int policy_at(const char *p)
{
    int mode = MPOL_DEFAULT;
    syscall(SYS_get_mempolicy, &mode, NULL, 0, p, MPOL_F_ADDR);
    return mode;
}

static int holds(const char *block, size_t size, char value)
{
    for (size_t at = 0; at < size; at += STEP) {
        if (block[at] != value) {
            return 0;
        }
    }
    return 1;
}

static int child_can_use(char *block, size_t size, char value)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int right = holds(block, size, value);
        memset(block, 9, size);
        _exit(right && holds(block, size, 9) ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void next_owner(const struct row *row, const struct place *place, const char *before)
{
    char *block = malloc(place->bytes);
    CHECK(row->lasts || block == before, "%s, %s: the warm block is not used again", row->name, place->name);
    memset(block, 5, place->bytes);
    CHECK(locked_kib() == 0, "%s, %s: %zu KiB are locked", row->name, place->name, locked_kib());
    const char *odd = odd_flag(block, place->bytes);
    CHECK(odd[0] == 0, "%s, %s: the next owner has '%s'", row->name, place->name, odd);
    CHECK(policy_at(block + place->from) == MPOL_DEFAULT, "%s, %s: the next owner is bound to a node", row->name,
          place->name);
    int outcome = child_can_use(block, place->bytes, 5);
    CHECK(outcome == 0, "%s, %s: outcome %d in a forked child", row->name, place->name, outcome);
    CHECK(holds(block, place->bytes, 5), "%s, %s: the contents changed", row->name, place->name);
    free(block);
}

/* Tries one change in a process of its own, so that the changes do not influence each other. */
static int tried(const struct row *row, const struct place *place)
{
    watchdog_start(20, row->name);
    char *warm = malloc(place->bytes), *block;
    memset(warm, 1, place->bytes);
    free(warm);
    block = malloc(place->bytes);
    int changed = row->change(block + place->from, place->size);
    if (changed != 0) {
        printf("%s: cannot be had here (%s)\n", row->name, changed == CANNOT ? "no such call" : strerror(errno));
        return 0;
    }
    free(block);
    next_owner(row, place, block);
    return check_failures() > 0;
}

static void try(const struct row *row, const struct place *place)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int failed = tried(row, place);
        fflush(stdout);
        _exit(failed);
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0, "%s, %s: status %x", row->name, place->name, (unsigned)status);
}

int main(void)
{
    size_t page = core_page();
    const struct place places[] = {
        {"in the middle", 8 * MIB, 3 * MIB, MIB},
        {"a page at the end", 8 * MIB, 8 * MIB - page, page},
        {"the whole", 3 * MIB / 2, 0, 3 * MIB / 2},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            try(&rows[r], &places[p]);
        }
    }
    return check_report("mappings");
}
