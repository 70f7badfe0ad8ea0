/* The directory of cache lines, which knows the cores that hold each line. Only the thread that has its turn uses it. */
#ifndef BENCH_LINES_DIRECTORY_H
#define BENCH_LINES_DIRECTORY_H

#include "lines_turns.h"

#include <string.h>

static void *expect(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

enum { WORDS = CORES / 64, PAGE_LINES = 64, BUCKETS_LOG2 = 18 };
/* FULL follows all accesses. NEEDED leaves out those of the allocator, and so counts the transfers that the program itself causes. */
enum view { FULL, NEEDED, VIEWS };

struct line {
    uint64_t holders[WORDS];
    uint32_t transfers; /* that the allocator caused */
    uint16_t sole;      /* 1 + the number of the core if exactly one core holds the line; otherwise 0 */
};

static struct page {
    uint64_t number;
    struct page *next;
    struct line line[VIEWS][PAGE_LINES];
} * pages[1 << BUCKETS_LOG2];

static struct page **page_link(uint64_t number)
{
    struct page **link = &pages[(number * 0x9E3779B97F4A7C15u) >> (64 - BUCKETS_LOG2)];
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

static struct line *line_of(uint64_t address, enum view view)
{
    struct page **link = page_link(address >> 12);
    if (*link == NULL) {
        *link = expect(calloc(1, sizeof **link));
        (*link)->number = address >> 12;
    }
    return &(*link)->line[view][address >> 6 & (PAGE_LINES - 1)];
}

/* The kernel gives these addresses new pages, whose lines no core holds. */
static void forget(uint64_t address, uint64_t size)
{
    for (uint64_t number = address >> 12; number < (address + size) >> 12; number++) {
        struct page *page = *page_link(number);
        for (unsigned i = 0; page != NULL && i < VIEWS * PAGE_LINES; i++)
            page->line[i / PAGE_LINES][i % PAGE_LINES] =
                (struct line){.transfers = page->line[i / PAGE_LINES][i % PAGE_LINES].transfers};
    }
}

/* Records an access. Returns whether it needs a transfer. */
static bool touch(struct line *line, unsigned core, bool store)
{
    uint64_t *word = &line->holders[core / 64], bit = (uint64_t)1 << core % 64, others = 0;
    if (line->sole == core + 1 || (!store && (*word & bit) != 0))
        return false;
    for (unsigned i = 0; i < WORDS; i++)
        others |= i == core / 64 ? *word & ~bit : line->holders[i];
    if (store)
        memset(line->holders, 0, sizeof line->holders);
    *word |= bit;
    line->sole = store || others == 0 ? (uint16_t)(core + 1) : 0;
    return others != 0;
}

#endif
