/* The lattice tests malloc's family with all combinations of sizes and alignments. This file declares groups of checks. lattice_main.c runs each
 * group on a table of entry points (GOALS R1).
 *
 * lattice_full selects the whole lattice, or a subset that takes a few seconds. */
#ifndef TEST_ABI_LATTICE_H
#define TEST_ABI_LATTICE_H

#include "entry_points.h"
#include "support/check.h"

#include <stdbool.h>
#include <stddef.h>

extern bool lattice_full;

/* Stores sizes at which something changes: powers of two up to `limit` and their neighbors, in ascending order. Returns their number. */
size_t lattice_edge_sizes(size_t *out, size_t room, size_t limit);

/* Checks that the block is not NULL, is aligned, is large enough, and can be written at both ends. */
void lattice_block_is_good(const struct entry_points *api, void *p, size_t size, size_t alignment, const char *from);

void lattice_every_size(const struct entry_points *api);
void lattice_neighbours(const struct entry_points *api);
void lattice_zero_size(const struct entry_points *api);

void lattice_alignments(const struct entry_points *api);
void lattice_bad_alignments(const struct entry_points *api);
void lattice_pages(const struct entry_points *api);

void lattice_realloc_pairs(const struct entry_points *api);
void lattice_realloc_aligned(const struct entry_points *api);
void lattice_realloc_ends(const struct entry_points *api);
void lattice_calloc_dirty(const struct entry_points *api);

void lattice_huge_sizes(const struct entry_points *api);
void lattice_products(const struct entry_points *api);
void lattice_errno_kept(const struct entry_points *api);

#endif
