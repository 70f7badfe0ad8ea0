/* Maps the counters of a coverage build. They are in a file that all processes of a program map, and not in memory that a process writes out when it
 * exits. Therefore the counts of a process survive its abort(), _exit(), exec and SIGKILL, the child of a fork counts too, and nothing is written,
 * opened or allocated when the program ends. Compiled code adds __llvm_profile_counter_bias to the address of each counter
 * (-runtime-counter-relocation). It is 0 until coverage_begin() has mapped the file. Increments are atomic, so that the increments of two processes
 * add up. If a process ends between two counts of a function, the difference between these counts stays one too high. The name of the file is
 * computed from the names of the program's functions and the number of its counts. Programs in which both are the same share the file. report.py
 * finds the program that belongs to a file by the same sum. compiler-rt's own runtime is not used, because it allocates. */
#include "counters.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN extern __attribute__((visibility("hidden")))
HIDDEN uint64_t counts[] __asm__("__start___llvm_prf_cnts");
HIDDEN uint64_t counts_end[] __asm__("__stop___llvm_prf_cnts");
HIDDEN const unsigned char names[] __asm__("__start___llvm_prf_names");
HIDDEN const unsigned char names_end[] __asm__("__stop___llvm_prf_names");
HIDDEN int64_t bias __asm__("__llvm_profile_counter_bias");

/* Returns the FNV-1a hash of the names and the size. report.py computes the same. */
static uint64_t name_sum(size_t size)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (const unsigned char *c = names; c < names_end; c++)
        sum = (sum ^ *c) * 0x100000001b3u;
    return (sum ^ size) * 0x100000001b3u;
}

static void name_file(char *path, uint64_t sum)
{
    for (const char *c = HAKMEM_COUNTERS "/"; *c != '\0'; c++)
        *path++ = *c;
    for (int shift = 60; shift >= 0; shift -= 4)
        *path++ = "0123456789abcdef"[sum >> shift & 15];
    *path = '\0';
}

/* Maps the file and adds the counts so far. It uses raw system calls, because it runs before the C library is initialized if this library is the
 * first to be initialized. */
void coverage_begin(void)
{
    static int begun;
    if (begun++ != 0)
        return;
    char path[sizeof HAKMEM_COUNTERS + 24];
    size_t size = (size_t)((char *)counts_end - (char *)counts);
    name_file(path, name_sum(size));
    long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    long map = -1;
    if (syscall(SYS_ftruncate, file, size) == 0)
        map = syscall(SYS_mmap, NULL, size, (long)(PROT_READ | PROT_WRITE), (long)MAP_SHARED, file, 0L);
    syscall(SYS_close, file);
    if (map == -1)
        return;
    for (size_t i = 0; i < size / sizeof *counts; i++)
        ((uint64_t *)map)[i] += counts[i];
    bias = (int64_t)map - (int64_t)(uintptr_t)counts;
}
