/* Runs the targets under libFuzzer: fuzz_guided --target=NAME [libFuzzer's options] CORPUS ... */
#include <stdio.h>
#include <stdlib.h>

#include "unit/fuzz/coverage.h"
#include "unit/fuzz/fuzz.h"

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char option[] = "--target=";
    for (int i = 1; i < *argc; i++)
        if (strncmp((*argv)[i], option, sizeof option - 1) == 0)
            target = fuzz_target_named((*argv)[i] + sizeof option - 1);
    if (target == NULL) {
        fputs("fuzz_guided: no --target=NAME of tests/unit/fuzz/targets.def\n", stderr);
        exit(2);
    }
    fuzz_begin();
    coverage_begin();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_run(target, bytes, size);
    return 0;
}
