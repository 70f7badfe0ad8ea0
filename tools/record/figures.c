/* Reads figures of this process from /proc/self/status, getrusage() and the clock. */
#include "figures.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? strtoull(found + strlen(name), NULL, 10) : 0;
}

struct rec_memory rec_memory_now(void)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : 0;
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = '\0';
    return (struct rec_memory){.peak_kib = field(text, "\nVmHWM:"),
                               .anon_kib = field(text, "\nRssAnon:"),
                               .file_kib = field(text, "\nRssFile:") + field(text, "\nRssShmem:")};
}

void rec_usage(uint64_t *faults, uint64_t *cpu_us)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    *faults = (uint64_t)(use.ru_minflt + use.ru_majflt);
    *cpu_us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
              (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

uint64_t rec_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t rec_now_us(void) { return rec_clock_ns(CLOCK_MONOTONIC) / 1000; }

void rec_figures_first(struct rec_head *head)
{
    head->first_anon_kib = rec_memory_now().anon_kib;
    head->began_us = rec_now_us();
}

void rec_figures_look(struct rec_head *head)
{
    struct rec_memory now = rec_memory_now();
    head->peak_rss_kib = now.peak_kib;
    head->file_rss_kib = now.file_kib;
    rec_usage(&head->faults, &head->cpu_us);
    head->wall_us = rec_now_us() - head->began_us;
}
