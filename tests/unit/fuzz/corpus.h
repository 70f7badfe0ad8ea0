/* Corpus: the cases of a target: the lines of DIR/TARGET.txt, in hexadecimal, as the tree has them; and the files of DIR/TARGET/. */
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
    } cases[CORPUS_MOST]; /* the shortest first */
};

/* None where `folder` is NULL. */
void corpus_read(struct corpus *corpus, const char *folder, const char *target);
/* False if a case fails, or there is none. */
bool corpus_run(const char *folder, const struct fuzz_target *target);
bool corpus_run_file(const char *path, const struct fuzz_target *target);
/* Writes TARGET.txt: the cases, shortest first, that reach what no shorter one does, up to so many bytes. */
bool corpus_merge(const char *from, const char *to, size_t most, const struct fuzz_target *target);
/* Removes bytes from an input as long as it fails. */
bool corpus_reduce(const char *path, const struct fuzz_target *target);
/* Writes a file; under a name by its contents. */
void corpus_save(const char *path, const uint8_t *bytes, size_t size);
void corpus_write(const char *folder, const char *target, const uint8_t *bytes, size_t size);

#endif
