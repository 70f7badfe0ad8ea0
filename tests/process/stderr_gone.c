/* Usage: test_stderr_gone
 * Tests that HAKMEM writes to descriptor 2 only while it is the same file as at the start. A program that closed descriptor 2 may have opened a
 * database that got this number, and HAKMEM must write no byte to the database. If the program has not changed descriptor 2, HAKMEM's line must
 * appear in stderr. */
#include "support/again.h"
#include "support/check.h"
#include "support/watchdog.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 20 };

static void refusal(void)
{
    if (malloc((size_t)1 << 46) != NULL) {
        _exit(3);
    }
}

static void invalid_free(void) { free((void *)0x123450); }

static void ask_for_events(void) { raise(SIGUSR2); }

static void crash(void) { raise(SIGSEGV); }

static void end(void) { exit(0); }

static const struct scenario {
    const char *name, *option, *says;
    void (*happens)(void);
    int signal;
} scenarios[] = {
    {"refusal", "HAKMEM_OOM_REPORT=1", "hakmem: out of memory: ", refusal, 0},
    {"fatal", "HAKMEM_LEARN=off", "hakmem: ", invalid_free, SIGABRT},
    {"events", "HAKMEM_TRACE_RING=16", "hakmem: last events of each thread", ask_for_events, 0},
    {"crash", "HAKMEM_TRACE_RING=16", "hakmem: last events of each thread", crash, SIGSEGV},
    {"report", "HAKMEM_REPORT=-", "HAKMEM ", end, 0},
    {"profile", "HAKMEM_HEAP_PROFILE=-", "heap profile: ", end, 0},
    {"log", "HAKMEM_EXPLAIN=-", "", end, 0},
    {"complaint", "HAKMEM_REPORT=/no/such/folder/x", "hakmem: option report: ", end, 0},
    {"profile nowhere", "HAKMEM_PROFILE_SAVE=/no/such/folder/x", "hakmem: option profile_save: ", end, 0},
    {"samples nowhere", "HAKMEM_HEAP_PROFILE=/no/such/folder/x", "hakmem: option heap_profile: ", end, 0},
    {"asked", "HAKMEM_LEARN=off", "HAKMEM ", malloc_stats, 0},
};

/* Says what the program does with descriptor 2 before the scenario. */
enum way { KEPT, BACK, REPLACED, CLOSED, NEVER_OPEN, WAYS };
static const char *const ways[WAYS] = {"kept", "back", "replaced", "closed", "never open"};

static int run_under(const char *name, int way, const char *file)
{
    int saved = way == BACK ? fcntl(2, F_DUPFD, 10) : -1;
    if (way != KEPT) {
        close(2);
    }
    if (way == REPLACED || way == NEVER_OPEN || way == BACK) {
        int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd != 2 || write(fd, "HEADER", 6) != 6) {
            return 4;
        }
    }
    if (way == BACK) {
        dup2(saved, 2);
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(name, scenarios[i].name) == 0) {
            scenarios[i].happens();
        }
    }
    return 0;
}

static void become(const struct scenario *scenario, int way, const char *file, int to)
{
    char number[8], option[64];
    struct again self;
    char **words = again(&self, scenario->name, number, file, NULL);
    snprintf(number, sizeof number, "%d", way);
    snprintf(option, sizeof option, "%s", scenario->option);
    putenv(option);
    dup2(to, 2);
    if (way == NEVER_OPEN) {
        close(2);
    }
    execv(words[0], words);
    _exit(126);
}

static size_t read_all(int fd, char *text)
{
    size_t used = 0;
    ssize_t got;
    while ((got = read(fd, text + used, ROOM - 1 - used)) > 0) {
        used += (size_t)got;
    }
    text[used] = '\0';
    close(fd);
    char *emulator = strstr(text, "qemu: uncaught target signal"); /* the emulator's message about a signal */
    return emulator != NULL ? (size_t)(emulator - text) : used;
}

static void test(const struct scenario *scenario, int way)
{
    static char text[ROOM], data[ROOM];
    char file[] = "/tmp/hakmem_stderr_XXXXXX";
    int ends[2], status = -1;
    bool asked = strcmp(scenario->name, "asked") == 0, there = way == KEPT || way == BACK;
    close(mkstemp(file));
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    if (child == 0) {
        become(scenario, way, file, ends[1]);
    }
    close(ends[1]);
    size_t told = read_all(ends[0], text);
    CHECK(waitpid(child, &status, 0) == child, "waitpid");
    size_t bytes = read_all(open(file, O_RDONLY), data);
    const char *name = scenario->name, *how = ways[way];
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == scenario->signal : status == 0, "%s, %s: wait status 0x%x", name,
          how, (unsigned)status);
    CHECK(there ? strncmp(text, scenario->says, strlen(scenario->says)) == 0 && (told > 0 || !*scenario->says)
                : told == 0,
          "%s, %s: stderr says: %.200s", name, how, text);
    size_t own = way == REPLACED || way == NEVER_OPEN || way == BACK ? 6 : 0;
    CHECK((bytes == own) == !(asked && own > 0 && !there), "%s, %s: the program's file has %zu bytes: %.200s", name,
          how, bytes, data);
    unlink(file);
}

int main(int argc, char **argv)
{
    if (argc == 4) {
        return run_under(argv[1], atoi(argv[2]), argv[3]);
    }
    watchdog_start(60, "stderr gone");
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        for (int way = 0; way < WAYS; way++) {
            test(&scenarios[i], way);
        }
    }
    return check_report("stderr gone");
}
