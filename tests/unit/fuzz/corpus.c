#include "unit/fuzz/corpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/fuzz/coverage.h"

static bool map_file(const char *path, struct corpus_case *it)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    it->size = (size_t)about.st_size;
    void *p = it->size == 0 ? NULL : mmap(NULL, it->size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    it->bytes = p;
    return p != MAP_FAILED;
}

static int by_size(const void *a, const void *b)
{
    const struct corpus_case *one = a, *other = b;
    return one->size != other->size ? (one->size > other->size) - (one->size < other->size)
                                    : strcmp(one->name, other->name);
}

static unsigned digit_of(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* Reads a case from each line. A case ends at the first character that is no hexadecimal digit. */
static void read_lines(struct corpus *corpus, const char *path)
{
    struct corpus_case text;
    if (!map_file(path, &text) || text.size == 0)
        return;
    const char *at = (const char *)text.bytes, *end = at + text.size;
    uint8_t *to = mmap(NULL, text.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned line = 1; to != MAP_FAILED && at < end && corpus->count < CORPUS_MOST; line++) {
        struct corpus_case *it = &corpus->cases[corpus->count];
        *it = (struct corpus_case){.bytes = to};
        snprintf(it->name, sizeof it->name, "line %u", line);
        for (; end - at >= 2 && digit_of(at[0]) < 16 && digit_of(at[1]) < 16; at += 2)
            *to++ = (uint8_t)(digit_of(at[0]) << 4 | digit_of(at[1]));
        it->size = (size_t)(to - it->bytes);
        corpus->count += it->size > 0;
        while (at < end && *at++ != '\n')
            continue;
    }
}

static void read_folder(struct corpus *corpus, const char *path)
{
    char file[4400];
    DIR *opened = opendir(path);
    for (struct dirent *entry; opened != NULL && (entry = readdir(opened)) != NULL && corpus->count < CORPUS_MOST;) {
        struct corpus_case *it = &corpus->cases[corpus->count];
        snprintf(it->name, sizeof it->name, "%.63s", entry->d_name);
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        corpus->count += map_file(file, it);
    }
    if (opened != NULL)
        closedir(opened);
}

void corpus_read(struct corpus *corpus, const char *folder, const char *target)
{
    char path[4096];
    corpus->count = 0;
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s.txt", folder, target);
    read_lines(corpus, path);
    snprintf(path, sizeof path, "%s/%s", folder, target);
    read_folder(corpus, path);
    qsort(corpus->cases, corpus->count, sizeof corpus->cases[0], by_size);
}

/* Runs a case in a child, which may fail. Stores the failure's message in `said`, without numbers that differ from run to run. */
enum { SAID_ROOM = 512 };

static void read_said(int fd, char *said)
{
    size_t used = 0;
    for (ssize_t n; used < SAID_ROOM - 1 && (n = read(fd, said + used, SAID_ROOM - 1 - used)) > 0;)
        used += (size_t)n;
    said[used] = 0;
    said[strcspn(said, "(")] = 0;
}

static bool runs_well(const struct fuzz_target *target, const uint8_t *bytes, size_t size, char *said)
{
    int ends[2], status = -1;
    if (said != NULL && pipe(ends) != 0)
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (said != NULL)
            dup2(ends[1], STDERR_FILENO);
        fuzz_run(target, bytes, size);
        _exit(0);
    }
    if (said != NULL) {
        close(ends[1]);
        read_said(ends[0], said);
        close(ends[0]);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

bool corpus_run(const char *folder, const struct fuzz_target *target)
{
    static struct corpus corpus;
    bool well = true;
    corpus_read(&corpus, folder, target->name);
    for (size_t i = 0; i < corpus.count; i++)
        if (!runs_well(target, corpus.cases[i].bytes, corpus.cases[i].size, NULL)) {
            fprintf(stderr, "fuzz: case %s/%s/%s fails\n", folder, target->name, corpus.cases[i].name);
            well = false;
        }
    if (corpus.count == 0)
        fprintf(stderr, "fuzz: no case of target %s in %s\n", target->name, folder != NULL ? folder : "(no --corpus)");
    return well && corpus.count > 0;
}

bool corpus_run_file(const char *path, const struct fuzz_target *target)
{
    struct corpus_case it;
    if (!map_file(path, &it)) {
        fprintf(stderr, "fuzz: %s cannot be read\n", path);
        return false;
    }
    return runs_well(target, it.bytes, it.size, NULL);
}

static void write_line(FILE *file, const struct corpus_case *it)
{
    for (size_t i = 0; i < it->size; i++)
        fprintf(file, "%02x", it->bytes[i]);
    fputc('\n', file);
}

bool corpus_merge(const char *from, const char *to, size_t most, const struct fuzz_target *target)
{
    static struct corpus corpus;
    char path[4096];
    size_t kept = 0, bytes = 0, before = coverage_total();
    corpus_read(&corpus, from, target->name);
    mkdir(to, 0755);
    snprintf(path, sizeof path, "%s/%s.txt", to, target->name);
    FILE *file = fopen(path, "we");
    for (size_t i = 0; file != NULL && i < corpus.count && bytes + corpus.cases[i].size <= most; i++) {
        coverage_clear();
        fuzz_run(target, corpus.cases[i].bytes, corpus.cases[i].size);
        if (!coverage_is_new(false) && i > 0)
            continue;
        write_line(file, &corpus.cases[i]);
        kept++;
        bytes += corpus.cases[i].size;
    }
    printf("%-20s %5zu of %5zu cases, %7zu bytes, %6zu places more\n", target->name, kept, corpus.count, bytes,
           coverage_total() - before);
    return file != NULL && fclose(file) == 0;
}

void corpus_save(const char *path, const uint8_t *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        fprintf(stderr, "fuzz: %s cannot be written\n", path);
    if (fd >= 0)
        close(fd);
}

void corpus_write(const char *folder, const char *target, const uint8_t *bytes, size_t size)
{
    char path[4096];
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    mkdir(folder, 0755);
    snprintf(path, sizeof path, "%s/%s", folder, target);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/%016lx", folder, target, (unsigned long)hash);
    corpus_save(path, bytes, size);
}

bool corpus_reduce(const char *path, const struct fuzz_target *target)
{
    struct corpus_case it;
    char fault[SAID_ROOM], said[SAID_ROOM];
    if (!map_file(path, &it) || it.size == 0 || runs_well(target, it.bytes, it.size, fault)) {
        fprintf(stderr, "fuzz: %s is no input that fails\n", path);
        return false;
    }
    uint8_t *best = malloc(it.size), *shorter = malloc(it.size);
    size_t size = it.size;
    if (best == NULL || shorter == NULL)
        abort();
    memcpy(best, it.bytes, size);
    for (size_t part = size; part > 0; part /= 2)
        for (size_t at = 0; at < size;) {
            size_t gone = part < size - at ? part : size - at;
            memcpy(shorter, best, at);
            memcpy(shorter + at, best + at + gone, size - at - gone);
            if (runs_well(target, shorter, size - gone, said) || strcmp(said, fault) != 0) {
                at += gone;
                continue;
            }
            size -= gone;
            memcpy(best, shorter, size);
        }
    corpus_save(path, best, size);
    printf("%s: %zu bytes, of %zu\n", path, size, it.size);
    free(best);
    free(shorter);
    return true;
}
