/* Usage: test_provoke MODE
 * Provokes those messages of messages.def that need more than an environment variable. Each mode makes one mistake, or makes a request that
 * the system or the test refuses. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 4096, SIZE = 48 };

/* Finds a function by name, because the compiler must not know which function is called. */
static void *function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found == NULL)
        _exit(77);
    return found;
}

#define CALL(type, name, ...)                                                                                          \
    (__extension__({                                                                                                   \
        type;                                                                                                          \
        *(void **)&called = function(name);                                                                            \
        called(__VA_ARGS__);                                                                                           \
    }))

static void *new (const char *name, size_t size) { return CALL(void *(*called)(size_t), name, size); }
static void delete (const char *name, void *block) { CALL(void (*called)(void *), name, block); }
static void fill(char *at, size_t bytes) { CALL(void *(*called)(void *, int, size_t), "memset", at, 1, bytes); }

static void copy(char *to, const char *from, size_t bytes)
{
    CALL(void *(*called)(void *, const void *, size_t), "memcpy", to, from, bytes);
}

/* Waits until the parent closes the pipe, so that the background thread has time to begin. */
static void idle(void)
{
    char byte;
    free(malloc(SIZE));
    while (read(STDIN_FILENO, &byte, 1) > 0) {}
}

/* Waits long enough for several reports of the background thread. */
static void a_second(void)
{
    free(malloc(SIZE));
    sleep(1);
}

/* Forks. The child keeps the options of its parent. */
static void forks(void)
{
    pid_t child = fork();
    free(malloc(SIZE));
    if (child == 0)
        exit(0);
    waitpid(child, NULL, 0);
}

static void nothing(void) { free(malloc(SIZE)); }

static void twice(void)
{
    void *volatile block = malloc(SIZE);
    free(block);
    free(block);
}

static void inside(void)
{
    char *volatile block = malloc(SIZE);
    free(block + 16);
}

static void foreign(void)
{
    int local = 0;
    int *volatile pointer = &local;
    free(pointer);
}

/* Frees a block that was never allocated. This is one of the last blocks of a new slab, because a slab serves its blocks in order. */
static void never(void)
{
    char *volatile block = malloc(SIZE);
    free(block + 100 * malloc_usable_size(block));
}

static void other_size(void) { CALL(void (*called)(void *, size_t), "free_sized", malloc(SIZE), 5000); }
static void of_malloc(void) { delete ("_ZdlPv", malloc(SIZE)); }
static void of_new(void) { free(new ("_Znwm", SIZE)); }
static void of_new_array(void) { free(new ("_Znam", SIZE)); }
static void new_refused(void) { new ("_Znwm", (size_t)1 << 46); }

static void written_free(void)
{
    char *volatile block = malloc(SIZE);
    free(block);
    block[8] = 1;
    for (int i = 0; i < MANY; i++)
        if (malloc(SIZE) == NULL)
            return;
}

static void written_behind(void)
{
    char *volatile block = malloc(SIZE);
    memset(block + SIZE, 0x55, malloc_usable_size(block) + 8 - SIZE);
    free(block);
}

/* Writes a byte before the start of a block. The write changes a free block, which must be zero. */
static void written_before(void)
{
    static char *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = malloc(SIZE);
    char *volatile low = blocks[0] < blocks[2] ? blocks[0] : blocks[2], *volatile middle = blocks[1];
    free(low);
    middle[-9] = 1;
    free(middle);
}

static void beyond_end(void)
{
    char *block = malloc(SIZE);
    fill(block, malloc_usable_size(block) + 100);
}

/* Copies a range that begins before the start of a large block and reaches into it. */
static void before_start(void)
{
    static char bytes[SIZE];
    char *block = malloc(3 << 20);
    copy(bytes, block - 64, 256);
}

static void free_block(void)
{
    char *block = malloc(3 << 20);
    free(block);
    fill(block + 4096, SIZE);
}

/* Writes to memory of an empty slab, whose slices are free. Blocks in other slabs stay allocated, so that the chunk stays mapped. */
static void free_memory(void)
{
    enum { GROUP = 64, MIDDLE = 33 * GROUP + GROUP / 2 };
    static char *blocks[MANY];
    for (int i = 0; i < MANY; i++)
        blocks[i] = malloc(4096);
    for (int i = 0; i < MANY; i++)
        if (i / GROUP % 2 != 0)
            free(blocks[i]);
    malloc_trim(0);
    fill(blocks[MIDDLE], SIZE);
}

static void heap_ended(void)
{
    void *heap = CALL(void *(*called)(const char *, size_t), "hak_heap_create", "ended", (size_t)0);
    void *block = CALL(void *(*called)(void *, size_t), "hak_heap_malloc", heap, (size_t)SIZE);
    delete ("hak_heap_destroy", heap);
    delete ("hak_free", block);
}

static void free_and_abort(void)
{
    void *large = malloc(6 << 20);
    fill(large, 1);
    free(large);
    abort();
}

static const struct {
    const char *name;
    void (*provoke)(void);
} modes[] = {{"nothing", nothing},
             {"abort", free_and_abort},
             {"idle", idle},
             {"forks", forks},
             {"a_second", a_second},
             {"twice", twice},
             {"inside", inside},
             {"foreign", foreign},
             {"never", never},
             {"other_size", other_size},
             {"of_malloc", of_malloc},
             {"of_new", of_new},
             {"of_new_array", of_new_array},
             {"new_refused", new_refused},
             {"written_free", written_free},
             {"written_behind", written_behind},
             {"written_before", written_before},
             {"beyond_end", beyond_end},
             {"before_start", before_start},
             {"free_block", free_block},
             {"free_memory", free_memory},
             {"heap_ended", heap_ended}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].provoke();
            return 0;
        }
    return 2;
}
