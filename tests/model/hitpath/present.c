/* A library to preload, linked with initfirst. It makes the read-only pages of all mapped files present before the first constructor runs, and writes
 * the number of page faults that this takes to the file PRESENT_FAULTS. Without this library, the number of faults would depend on which variants of
 * libc's functions the processor selects, and on which parts of the files are in the page cache. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static long faults_so_far(void)
{
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) == 0 ? use.ru_minflt + use.ru_majflt : 0;
}

static int touch_file(struct dl_phdr_info *file, size_t size, void *page_size)
{
    (void)size;
    for (unsigned i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &file->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W) != 0)
            continue;
        const char *at = (const char *)(file->dlpi_addr + part->p_vaddr);
        for (const char *end = at + part->p_filesz; at < end; at += *(const size_t *)page_size)
            (void)*(const volatile char *)at;
    }
    return 0;
}

/* Returns the value of a variable. getenv cannot be used, because libc's own environment is not set yet. */
static const char *value_of(char **environment, const char *name)
{
    size_t length = strlen(name);
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

static __attribute__((constructor)) void be_present(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv;
    const char *path = value_of(environment, "PRESENT_FAULTS");
    int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        return;
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    long before = faults_so_far();
    dl_iterate_phdr(touch_file, &page_size);
    long faults = faults_so_far() - before;
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%ld", faults);
    if (write(file, digits, (size_t)length) != length)
        abort();
    close(file);
}
