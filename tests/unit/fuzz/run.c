#include "unit/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/fuzz/world.h"

enum { SECONDS_AN_INPUT = 120 };

const struct fuzz_target fuzz_targets[] = {
#define FUZZ_TARGET(kind, name, oracle) {#name, FUZZ_##kind, fuzz_##name},
#include "unit/fuzz/targets.def"
#undef FUZZ_TARGET
};
const size_t fuzz_target_count = sizeof fuzz_targets / sizeof fuzz_targets[0];

static _Atomic uint64_t *operations; /* This count is in memory that all processes of a run share. */
static const char *running = "none";

void fuzz_begin(void)
{
    operations = mmap(NULL, sizeof *operations, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (operations == MAP_FAILED)
        abort();
    world_prepare();
}

uint64_t fuzz_operations(void) { return atomic_load(operations); }
void fuzz_count(uint64_t count) { atomic_fetch_add(operations, count); }

_Noreturn void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = strrchr(file, '/');
    char said[1024];
    int used = snprintf(said, sizeof said, "fuzz: %s: %s:%d: not true: %s%s\n", running, name != NULL ? name + 1 : file,
                        line, condition, text);
    ssize_t written = write(STDERR_FILENO, said, (size_t)used < sizeof said ? (size_t)used : sizeof said - 1);
    (void)written;
    abort();
}

static void run_here(const struct fuzz_target *target, const uint8_t *bytes, size_t size)
{
    struct fuzz_input in = {bytes, bytes + size, 0};
    world_reset();
    target->run(&in);
    fuzz_count(in.operations);
}

void fuzz_run(const struct fuzz_target *target, const uint8_t *bytes, size_t size)
{
    running = target->name;
    if (target->kind == FUZZ_PURE) {
        run_here(target, bytes, size);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_AN_INPUT);
        run_here(target, bytes, size);
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fuzz_fail(__FILE__, __LINE__, "the target's process ends well", "(wait status 0x%x)", (unsigned)status);
}

const struct fuzz_target *fuzz_target_named(const char *name)
{
    for (size_t i = 0; i < fuzz_target_count; i++)
        if (strcmp(fuzz_targets[i].name, name) == 0)
            return &fuzz_targets[i];
    return NULL;
}

size_t fuzz_text(struct fuzz_input *in, char *text, size_t room)
{
    size_t used = 0;
    while (used + 1 < room && fuzz_left(in) > 0 && (text[used] = (char)fuzz_byte(in)) != 0)
        used++;
    text[used] = 0;
    return used;
}

size_t fuzz_pieces(struct fuzz_input *in, const char *const *pieces, char *text, size_t room)
{
    size_t used = 0, count = 0;
    while (pieces[count] != NULL)
        count++;
    for (uint8_t token; fuzz_left(in) > 0 && (token = fuzz_byte(in)) != 0;) {
        char other[2] = {(char)fuzz_byte(in), 0};
        const char *piece = token < 208 ? pieces[token % count] : other;
        size_t length = strlen(piece);
        if (used + length + 1 > room)
            break;
        memcpy(text + used, piece, length);
        used += length;
    }
    text[used] = 0;
    return used;
}
