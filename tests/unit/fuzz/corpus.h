/* Corpus: the cases of a target. They are the lines of DIR/TARGET.txt, in hexadecimal, and the files of DIR/TARGET/. Only the lines are in the
 * repository. */
#ifndef TEST_FUZZ_CORPUS_H
#define TEST_FUZZ_CORPUS_H

#include "unit/fuzz/fuzz.h"

enum { CORPUS_MOST = 4096 };

struct corpus {
    size_t count;
    struct corpus_case {
        const uint8_t *bytes;
        size_t size;
        char name[64];
    } cases[CORPUS_MOST]; /* sorted, with the shortest case first */
};

/* Reads the cases of the target. Reads no case if `folder` is NULL. */
void corpus_read(struct corpus *corpus, const char *folder, const char *target);
/* Runs all cases of the target. Returns false if a case fails, or if the target has no case. */
bool corpus_run(const char *folder, const struct fuzz_target *target);
bool corpus_run_file(const char *path, const struct fuzz_target *target);
/* Writes cases to TARGET.txt, shortest first, in at most `most` bytes. Each of them reaches a place that no shorter case reaches. */
bool corpus_merge(const char *from, const char *to, size_t most, const struct fuzz_target *target);
/* Removes as many bytes from an input as possible while the input still fails. */
bool corpus_reduce(const char *path, const struct fuzz_target *target);
/* corpus_save() writes a file. corpus_write() writes a file that has a name computed from its contents. */
void corpus_save(const char *path, const uint8_t *bytes, size_t size);
void corpus_write(const char *folder, const char *target, const uint8_t *bytes, size_t size);

#endif
