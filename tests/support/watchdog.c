#include "watchdog.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *watched = "test";

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    say("watchdog: no end in time: ");
    say(watched);
    say("\n");
    _exit(WATCHDOG_EXIT);
}

void watchdog_start(unsigned seconds, const char *what)
{
    const char *slowdown = getenv("TEST_SLOWDOWN");
    unsigned factor = slowdown ? (unsigned)strtoul(slowdown, NULL, 10) : 1;
    watched = what;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds * (factor ? factor : 1));
}

void watchdog_stop(void) { alarm(0); }
