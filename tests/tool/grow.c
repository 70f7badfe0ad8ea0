/* Usage: test_tool_grow [WHAT AMOUNT]...
 * Allocates AMOUNT KiB for each WHAT, and leaves the memory in the state that WHAT names. The words WHAT are:
 *   live    blocks in use                    pinned  only one block in eight stays in use
 *   odd     blocks just above a size class   freed   freed blocks of one slice each
 *   cached  a freed block of the large cache  others  a mapping that is not malloc's
 *   sleep   after the other words, waits for the end of its input */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 1024, SMALL = 200, SLICE = 65536, KEPT_OF = 8 };

static __attribute__((noinline)) void *touched(size_t size)
{
    void *block = malloc(size);
    if (block == NULL)
        abort();
    memset(block, 1, size);
    __asm__ volatile("" ::: "memory");
    return block;
}

/* These functions give the stacks of samples distinct frames. */
static __attribute__((noinline)) void *make_record(size_t size)
{
    void *block = touched(size);
    __asm__ volatile("" ::: "memory");
    return block;
}

static __attribute__((noinline)) void *make_keeper(size_t size)
{
    void *block = touched(size);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static __attribute__((noinline)) void *make_request(size_t size)
{
    void *block = touched(size);
    __asm__ volatile("nop" ::: "memory");
    return block;
}

/* Returns an array of pointers in a separate mapping, because only the blocks should change the heap of two compared runs. */
static void **array_of(size_t count)
{
    void **array = mmap(NULL, (count + 1) * sizeof(void *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array == MAP_FAILED)
        abort();
    return array;
}

static void pinned(size_t bytes)
{
    size_t count = bytes / SMALL;
    void **blocks = array_of(count);
    for (size_t i = 0; i < count; i++)
        blocks[i] = i % KEPT_OF == 0 ? make_keeper(SMALL) : make_request(SMALL);
    for (size_t i = 0; i < count; i++)
        if (i % KEPT_OF != 0)
            free(blocks[i]);
}

static void keep(size_t bytes, size_t size)
{
    for (size_t i = 0; i < bytes / BLOCK; i++)
        make_record(size);
}

static void freed(size_t bytes)
{
    size_t count = bytes / SLICE;
    void **blocks = array_of(count);
    for (size_t i = 0; i < count; i++)
        blocks[i] = make_request(SLICE);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

static void others(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    memset(memory, 1, bytes);
}

static void wait_for_end_of_input(void)
{
    char byte;
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
}

int main(int count, char **words)
{
    for (int i = 1; i + 1 < count; i += 2) {
        size_t bytes = (size_t)strtoul(words[i + 1], NULL, 10) * 1024;
        switch (words[i][0]) {
        case 'l': keep(bytes, BLOCK); break;
        case 'p': pinned(bytes); break;
        case 'o': words[i][1] == 'd' ? keep(bytes, BLOCK + 16) : others(bytes); break;
        case 'f': freed(bytes); break;
        case 'c': free(touched(bytes)); break;
        case 's': wait_for_end_of_input(); break;
        default: return 2;
        }
    }
    return 0;
}
