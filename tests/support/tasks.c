#include "tasks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILE_BYTES = 4096, PATIENCE = 30000, SLEEPS = 20 };

/* An emulator has its own thread in each process. It does not block the signals that it needs, even if a thread of the program blocks them. So a test
 * cannot check these signals. */
#ifdef TEST_EMULATOR
enum { NOT_THE_PROGRAMS = 1 };
static const unsigned long let_through = ~0ul;
#else
enum { NOT_THE_PROGRAMS = 0 };
static const unsigned long let_through = 0;
#endif

struct entry {
    unsigned long number;
    long offset;
    unsigned short bytes;
    unsigned char type;
    char name[];
};

static unsigned long field(const char *text, const char *name, int base)
{
    const char *at = strstr(text, name);
    return at ? strtoul(at + strlen(name), NULL, base) : 0;
}

static bool read_of_task(pid_t pid, const char *number, const char *name, char text[FILE_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/%s", (int)pid, number, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, FILE_BYTES - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* Returns whether the thread waits for a futex without a timeout. The file has the number and the arguments of the thread's system call. The fourth
 * argument of futex is the timeout. */
static bool sleeps_for_good(pid_t pid, const char *number)
{
    char text[FILE_BYTES];
    long call;
    unsigned long timeout;
    return read_of_task(pid, number, "syscall", text) && sscanf(text, "%ld %*x %*x %*x %lx", &call, &timeout) == 2 &&
           call == SYS_futex && timeout == 0;
}

static void add_task(struct tasks *found, pid_t pid, const char *number)
{
    char text[FILE_BYTES];
    if (!read_of_task(pid, number, "status", text)) {
        return;
    }
    found->threads++;
    if (strncmp(text, "Name:\thakmem\n", 13) == 0) {
        found->ours++;
        found->blocked = field(text, "SigBlk:", 16) | let_through;
        found->switches =
            field(text, "\nvoluntary_ctxt_switches:", 10) + field(text, "nonvoluntary_ctxt_switches:", 10);
        found->waits = strstr(text, "State:\tS") != NULL;
        found->asleep = sleeps_for_good(pid, number);
    }
}

struct tasks tasks_of(pid_t pid)
{
    struct tasks found = {0};
    char path[64];
    _Alignas(struct entry) char list[FILE_BYTES];
    pid = pid ? pid : getpid();
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long got;
    while ((got = syscall(SYS_getdents64, folder, list, sizeof list)) > 0) {
        for (long at = 0; at < got; at += ((struct entry *)(void *)(list + at))->bytes) {
            const char *name = ((struct entry *)(void *)(list + at))->name;
            if (name[0] != '.') {
                add_task(&found, pid, name);
            }
        }
    }
    close(folder);
    found.threads -= NOT_THE_PROGRAMS;
    return found;
}

unsigned tasks_count(void) { return tasks_of(0).threads; }

bool tasks_has_ours(unsigned own)
{
    struct tasks found = tasks_of(0);
    for (int i = 0; i < PATIENCE && found.threads > own && found.ours == 0; i++) {
        usleep(1000);
        found = tasks_of(0);
    }
    return found.ours == 1;
}

bool tasks_alone(void)
{
    struct tasks found = tasks_of(0);
    for (int i = 0, sleeps = 0; i < PATIENCE && found.threads > 1 && sleeps < SLEEPS; i++) {
        usleep(1000);
        found = tasks_of(0);
        sleeps = found.waits ? sleeps + 1 : 0;
    }
    return found.threads == 1;
}
