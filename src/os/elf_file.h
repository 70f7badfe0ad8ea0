/* ElfFile: reads from the file of a library or program what the loader does not offer: before the loader has mapped the file, the dynamic symbols that
 * the file defines and the libraries that it needs; afterwards, the symbols that it hides, and the functions at addresses.
 * Threads  any; a reader belongs to one.
 * Never    allocates, or trusts a number of the file: each read is one system call, which fails behind the end of the file. */
#ifndef HK_ELF_FILE_H
#define HK_ELF_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HK_ELF_PATH = 512 };

/* A loaded library, or the program. */
struct hk_elf_loaded {
    uintptr_t base;
    const Elf64_Phdr *segments;
    unsigned count;
    char path[HK_ELF_PATH];
};

/* Finds what contains an address, or the library whose file has that name: one of `code` and `name` is NULL. */
bool hk_elf_loaded(const void *code, const char *name, struct hk_elf_loaded *loaded);

struct hk_elf_file {
    int fd;
    Elf64_Ehdr header;
    /* Sections; zero if the file has none. `all` are the symbols of a file that is not stripped. */
    Elf64_Shdr hash, symbols, names, dynamic, all, all_names;
    uint64_t code; /* the lowest address of a section with code */
};

/* False, and nothing is open, if `path` is no such file. */
bool hk_elf_open(struct hk_elf_file *file, const char *path);
void hk_elf_close(struct hk_elf_file *file);
/* Reads the symbol of that name, if the file defines it, and where the loader puts the symbol, relative to the library. */
bool hk_elf_find(const struct hk_elf_file *file, const char *name, Elf64_Sym *symbol, uint64_t *place);
/* Reads a string of the dynamic section: the n-th with that tag. False if there is none, or it is too long. */
bool hk_elf_string(const struct hk_elf_file *file, Elf64_Sxword tag, unsigned n, char *string, size_t size);

struct hk_elf_wanted {
    const char *name;
    uintptr_t address; /* 0: there is none */
};

/* Finds the addresses of names, also of those that it hides: nothing if its file is stripped, or is not the one that was loaded. */
void hk_elf_find_hidden(const struct hk_elf_loaded *loaded, struct hk_elf_wanted *wanted, unsigned count);
/* Returns the address that the linker gave to the byte at an offset of the file; the offset itself if no segment has it. */
uintptr_t hk_elf_address(const struct hk_elf_file *file, uintptr_t offset);
/* Sets the name of the function at such an address, empty if none is known, and returns how far the address lies in it. Looks among all
 * functions if the file is not stripped, else among those that it exports. */
uintptr_t hk_elf_function(const struct hk_elf_file *file, uintptr_t address, char *name, size_t size);

#endif
