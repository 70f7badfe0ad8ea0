/* Makes mistakes with each function, in blocks of 8 bytes to 2 MiB. It writes and reads beyond the end, below the start, and in free memory. A child
 * makes each mistake. The program writes "case NAME", the child's line, and "end SIGNAL EXPECTED" to stderr, and check_mistakes.py compares them. */
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"
#include "api/misuse/joined_block.h"

enum { BLOCKS = 64, PAGE = 4096 };

static const size_t sizes[] = {8, 4 * KIB, 256 * KIB, 2 * MIB};
static const size_t distances[] = {1, 32, MIB};
static char *blocks[BLOCKS];

struct mistake {
    const struct function *function;
    char *at;
    size_t n;
    int reads;
};

static void make(const struct mistake *mistake)
{
    if (mistake->reads)
        mistake->function->act(target, mistake->at, mistake->n);
    else
        act(mistake->function, mistake->at, mistake->n);
}

__attribute__((format(printf, 3, 4))) static void try(const struct mistake *mistake, const char *name,
                                                      const char *expected, ...)
{
    va_list arguments;
    int status;
    va_start(arguments, expected);
    dprintf(STDERR_FILENO, "case %s %s\n", mistake->function->name, name);
    pid_t child = fork();
    if (child == 0) {
        make(mistake);
        _exit(0);
    }
    waitpid(child, &status, 0);
    dprintf(STDERR_FILENO, "end %d ", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    vdprintf(STDERR_FILENO, expected, arguments);
    dprintf(STDERR_FILENO, "\n");
    va_end(arguments);
}

static size_t usable(void *p) { return malloc_usable_size(p); }

static void try_beyond(const struct mistake *mistake, const char *name, const char *verb, size_t said, char *block)
{
    try(mistake, name,
        "hakmem: %s: %s beyond the end of a block: address 0x%jx, %zu bytes from offset %zu of a block of %zu bytes",
        mistake->function->line, verb, (uintmax_t)(uintptr_t)mistake->at, said, (size_t)(mistake->at - block),
        usable(block));
}

static void overflow(const struct function *function, char *block, size_t distance)
{
    size_t size = usable(block);
    struct mistake whole = {function, block, size + distance, 0}, tail = {function, block + size - 1, 1 + distance, 0};
    try_beyond(&whole, "overflow", "write", whole.n, block);
    try_beyond(&tail, "overflow from the last byte", "write", tail.n, block);
}

/* Writes from an address below the start of a block. If two blocks are adjacent, this address lies in the first block. */
static void underflow(const struct function *function, char *block, size_t distance)
{
    struct mistake mistake = {function, block - distance, distance + 1, 0};
    char *before = block - usable(block);
    int known = 0;
    for (int i = 0; i < BLOCKS && distance <= usable(block) && usable(block) <= MIB; i++)
        known |= blocks[i] == before;
    if (known)
        try_beyond(&mistake, "underflow", "write", mistake.n, before);
    else
        try(&mistake, "underflow", "any of hakmem: %s: write", function->line);
}

/* A text without an end is read up to the end of its block, and HAKMEM reports one byte more. strncat may read the whole block. */
static void overread(const struct function *function, char *block, size_t distance)
{
    size_t size = usable(block);
    struct mistake whole = {function, block, size + distance + (function->shape == TEXT), 1};
    memset(block, 'x', size);
    if (function->shape != FILLS)
        try_beyond(&whole, "overread", "read", function->shape == TEXT ? size + 1 : whole.n, block);
}

static int by_address(const void *a, const void *b)
{
    char *const *left = a, *const *right = b;
    return *left < *right ? -1 : *left > *right;
}

static void blocks_of(size_t size)
{
    int count = size > MIB ? 4 : BLOCKS;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = i < count ? malloc(size) : NULL;
    qsort(blocks, (size_t)count, sizeof blocks[0], by_address);
    char *block = blocks[count / 2 + 1];
    for (size_t f = 0; f < function_count; f++)
        for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
            overflow(&functions[f], block, distances[i]);
            underflow(&functions[f], block, distances[i]);
            overread(&functions[f], block, distances[i]);
        }
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

/* Maps a page that ends at the start of a large block, so that the written range begins at an address without a block. */
static void before_large_block(void)
{
    for (int i = 0; i < 16; i++) {
        char *block = malloc(2 * MIB), *page = block - PAGE;
        if (mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
            continue;
        for (size_t f = 0; f < function_count; f++) {
            struct mistake mistake = {&functions[f], block - 16, 32, 0};
            try(&mistake, "into a large block",
                "hakmem: %s: write before the start of a block: address 0x%jx, 32 bytes from 16 bytes before a block of %zu bytes",
                functions[f].line, (uintmax_t)(uintptr_t)mistake.at, usable(block));
        }
        return;
    }
    dprintf(STDERR_FILENO, "no room before a large block\n");
}

/* Frees blocks and trims, because the trim flushes the thread's bin and depot, so that the blocks become free in their slab. */
static void free_block(void)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(4 * KIB);
    char *freed = blocks[1];
    for (int i = 1; i < BLOCKS; i += 2)
        free(blocks[i]);
    malloc_trim(0);
    for (size_t f = 0; f < function_count; f++) {
        struct mistake mistake = {&functions[f], freed + 8, 16, 0};
        int reads_first = strstr(functions[f].name, "cat") != NULL;
        try(&mistake, "free block",
            "hakmem: %s: %s a free block: address 0x%jx, %d bytes from offset 8 of a block of 4096 bytes",
            functions[f].line, reads_first ? "read from" : "write to", (uintmax_t)(uintptr_t)mistake.at,
            reads_first ? 1 : 16);
    }
}

static void freed_large_block(void)
{
    char *block = malloc(3 * MIB);
    free(block);
    struct mistake mistake = {&functions[0], block + 2 * MIB, 16, 0};
    try(&mistake, "freed large block",
        "hakmem: memcpy(): write to a free block: address 0x%jx, 16 bytes from offset %d of a block of %d bytes",
        (uintmax_t)(uintptr_t)mistake.at, 2 * MIB, 3 * MIB);
}

/* The slack of a large block is the memory beyond the requested size. A text in the slack is not part of the block. */
static void slack_of_a_large_block(void)
{
    char *block = malloc(4 * MIB);
    memset(block, 'x', 4 * MIB);
    free(block);
    char *again = malloc(3 * MIB);
    struct mistake mistake = {&functions[7], again + 3 * MIB + 5, 0, 1};
    if (again == block)
        try(&mistake, "text in the slack of a large block",
            "hakmem: strcpy(): read beyond the end of a block: address 0x%jx, 1 bytes from offset %d of a block of %d bytes",
            (uintmax_t)(uintptr_t)mistake.at, 3 * MIB + 5, 3 * MIB);
    else
        dprintf(STDERR_FILENO, "the large block did not serve again\n");
    free(again);
}

static void released_slab(void)
{
    static char *many[256];
    for (int i = 0; i < 256; i++)
        many[i] = malloc(48 * KIB);
    char *block = many[128];
    for (int i = 0; i < 256; i++)
        free(many[i]);
    malloc_trim(SIZE_MAX / 2);
    struct mistake mistake = {&functions[0], block, 16, 0};
    try(&mistake, "released slab", "any of hakmem: memcpy(): write to ");
}

static void unended(void)
{
    char *block = malloc(64);
    memset(block, 'x', usable(block));
    try(&(struct mistake){&functions[11], target, 0, 1}, "control: nothing is wrong", "nothing");
    pid_t child;
    int status;
    dprintf(STDERR_FILENO, "case strcat to a text without an end\n");
    if ((child = fork()) == 0) {
        strcat(block, "y");
        _exit(0);
    }
    waitpid(child, &status, 0);
    dprintf(
        STDERR_FILENO,
        "end %d hakmem: strcat(): read beyond the end of a block: address 0x%jx, 65 bytes from offset 0 of a block of 64 bytes\n",
        WIFSIGNALED(status) ? WTERMSIG(status) : 0, (uintmax_t)(uintptr_t)block);
}

static void joined_blocks(void)
{
    char *joined_block = a_joined();
    struct mistake mistake = {&functions[0], joined_block + 20, usable(joined_block), 0};
    try_beyond(&mistake, "beyond a joined block", "write", mistake.n, joined_block);
    mistake = (struct mistake){&functions[0], joined_block, usable(joined_block), 0};
    try(&mistake, "control: a whole joined block", "nothing");
}

int main(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    for (size_t i = 0; i < SOURCE; i++)
        source[i] = (char)(1 + i % 100);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        blocks_of(sizes[i]);
    before_large_block();
    free_block();
    slack_of_a_large_block();
    freed_large_block();
    released_slab();
    unended();
    joined_blocks();
    return 0;
}
