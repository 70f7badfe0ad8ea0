/* ElfFile: reads from the file of a library or program what the loader does not offer. Before the loader has mapped a library, HAKMEM reads which
 * dynamic symbols the file defines, and which libraries it needs. Later, HAKMEM looks up hidden symbols, and the function at an address.
 * Threads  Any thread may read. A struct hk_elf_file belongs to one thread.
 * Never    allocates, or trusts a number in the file. Each read is one system call, which fails beyond the end of the file. */
#ifndef HK_ELF_FILE_H
#define HK_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HK_ELF_PATH = 512 };

/* Describes a loaded library, or the program. */
struct hk_elf_loaded {
    uintptr_t base;
    const Elf64_Phdr *segments;
    unsigned count;
    char path[HK_ELF_PATH];
};

/* Finds the library or program that contains the address `code`, or the library whose file is `name`. The caller passes NULL for one of the two. */
bool hk_elf_loaded(const void *code, const char *name, struct hk_elf_loaded *loaded);

struct hk_elf_file {
    int fd;
    Elf64_Ehdr header;
    /* Sections that the file lacks have zero headers. `all` is the full symbol table, and `all_names` its strings. A stripped file lacks both. */
    Elf64_Shdr hash, symbols, names, dynamic, all, all_names;
    uint64_t code; /* the lowest address of a section with code */
};

/* Opens a file for reading. Returns false, and leaves no descriptor open, if `path` is not a readable 64-bit ELF file. */
bool hk_elf_open(struct hk_elf_file *file, const char *path);
void hk_elf_close(struct hk_elf_file *file);
/* Reads the symbol called `name`, and the address of its table entry relative to the library. Returns false if the file defines no such symbol. */
bool hk_elf_find(const struct hk_elf_file *file, const char *name, Elf64_Sym *symbol, uint64_t *place);
/* Reads the string of the n-th entry with that tag in the dynamic section. Returns false if there is no such entry, or if the string is too long. */
bool hk_elf_string(const struct hk_elf_file *file, Elf64_Sxword tag, unsigned n, char *string, size_t size);

struct hk_elf_wanted {
    const char *name;
    uintptr_t address; /* 0: not found */
};

/* Finds the addresses of symbols, even hidden ones. Finds nothing if the file is stripped, or if it was replaced after it was loaded. */
void hk_elf_find_hidden(const struct hk_elf_loaded *loaded, struct hk_elf_wanted *wanted, unsigned count);
/* Returns the address that the linker gave to the byte at an offset of the file. Returns the offset itself if no segment contains the byte. */
uintptr_t hk_elf_address(const struct hk_elf_file *file, uintptr_t offset);
/* Sets `name` to the name of the function that contains an address given by the linker, or to "" if no such function is known. Returns the distance
 * of the address from the start of the function. Searches all functions, or only the exported ones if the file is stripped. */
uintptr_t hk_elf_function(const struct hk_elf_file *file, uintptr_t address, char *name, size_t size);

#endif
