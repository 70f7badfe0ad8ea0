/* Corpus: the cases of a target. They are the lines of DIR/TARGET.txt, in hexadecimal, and the files of DIR/TARGET/. The repository has the lines. */
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
    } cases[CORPUS_MOST]; /* The shortest case comes first. */
};

/* Reads the cases of the target. Reads none if `folder` is NULL. */
void corpus_read(struct corpus *corpus, const char *folder, const char *target);
/* Runs all cases of the target. Returns false if a case fails, or if there is none. */
bool corpus_run(const char *folder, const struct fuzz_target *target);
bool corpus_run_file(const char *path, const struct fuzz_target *target);
/* Writes TARGET.txt with at most `most` bytes. It gets the cases, shortest first, that reach places that no shorter case reaches. */
bool corpus_merge(const char *from, const char *to, size_t most, const struct fuzz_target *target);
/* Removes bytes from an input as long as the input still fails. */
bool corpus_reduce(const char *path, const struct fuzz_target *target);
/* corpus_save() writes a file. corpus_write() also chooses its name by its contents. */
void corpus_save(const char *path, const uint8_t *bytes, size_t size);
void corpus_write(const char *folder, const char *target, const uint8_t *bytes, size_t size);

#endif
