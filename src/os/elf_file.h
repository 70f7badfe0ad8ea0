/* ElfFile: reads, from the file of a library or program, facts that the loader does not report. Before the loader maps a library, HAKMEM reads which
 * dynamic symbols the library defines, and which libraries it needs. After loading, HAKMEM reads hidden symbols, and the function at an address.
 * Threads  Any thread may call these functions. Only one thread at a time may use a struct hk_elf_file.
 * Never    allocates, or trusts a number in the file. A wrong offset does no harm, because a read beyond the end of the file fails. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HK_ELF_PATH = 512 };

/* Describes a loaded library, or the program itself. */
struct hk_elf_loaded {
    uintptr_t base;
    const Elf64_Phdr *segments;
    unsigned count;
    char path[HK_ELF_PATH];
};

/* Sets *loaded to the library or program that contains the address `code`. If `code` is NULL, searches for the library with the file name `name`. */
bool hk_elf_loaded(const void *code, const char *name, struct hk_elf_loaded *loaded);

struct hk_elf_file {
    int fd; /* the caller of hk_elf_open() closes it */
    Elf64_Ehdr header;
    /* The headers of sections. A section that the file lacks has a zero header. `all` is the full symbol table, which a stripped file lacks. */
    Elf64_Shdr hash, symbols, names, dynamic, all, all_names;
    uint64_t code; /* the lowest address of a section with code */
};

/* Opens a file for reading. Returns false, and leaves no descriptor open, if `path` is not a readable 64-bit ELF file. */
bool hk_elf_open(struct hk_elf_file *file, const char *path);
/* Reads a symbol's table entry. Sets *place to the entry's address, relative to the load address. Returns false if the symbol is not defined. */
bool hk_elf_find(const struct hk_elf_file *file, const char *name, Elf64_Sym *symbol, uint64_t *place);
/* Copies the string of the n-th dynamic entry (from 0) with this tag. Returns false if there is no such entry, or if the string is too long. */
bool hk_elf_string(const struct hk_elf_file *file, Elf64_Sxword tag, unsigned n, char *string, size_t size);

struct hk_elf_wanted {
    const char *name;
    uintptr_t address; /* 0 if the symbol was not found */
};

/* Sets the addresses of the wanted symbols, which may be hidden ones. Finds none if the file is stripped, or was replaced after it was loaded. */
void hk_elf_find_hidden(const struct hk_elf_loaded *loaded, struct hk_elf_wanted *wanted, unsigned count);
/* Returns the address that the linker assigned to the byte at this offset of the file, or `offset` itself if no segment contains the byte. */
uintptr_t hk_elf_address(const struct hk_elf_file *file, uintptr_t offset);
/* Copies the name of the function at `address`, an address assigned by the linker. Copies "" if no known function contains the address. Returns the
 * distance of the address from the start of the function. If the file is stripped, only exported functions are known. */
uintptr_t hk_elf_function(const struct hk_elf_file *file, uintptr_t address, char *name, size_t size);
