#include "guard/modules.h"

#include <elf.h>
#include <string.h>

#include "base/bits.h"
#include "os/os.h"

enum { READ_BYTES = 512, SYMBOLS_AT_ONCE = 32, MOST_SYMBOLS = 1 << 22, MOST_SECTIONS = 256, HEX = 16 };

/* The file byte by byte. */
struct lines {
    int fd;
    size_t used, at;
    char bytes[READ_BYTES];
};

static int next_char(struct lines *lines)
{
    if (lines->at == lines->used) {
        lines->used = hk_os.read(lines->fd, lines->bytes, sizeof lines->bytes);
        lines->at = 0;
    }
    return lines->at < lines->used ? (unsigned char)lines->bytes[lines->at++] : 0;
}

/* Reads a hexadecimal number and the character behind it. */
static uintptr_t next_number(struct lines *lines)
{
    uintptr_t number = 0;
    for (int c; (c = next_char(lines)) != 0;) {
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
        if (digit >= HEX)
            break;
        number = number * HEX + digit;
    }
    return number;
}

/* Skips a word and the spaces behind it; returns the next character. */
static int skip_word(struct lines *lines, int c)
{
    while (c != ' ' && c != '\n' && c != 0)
        c = next_char(lines);
    while (c == ' ')
        c = next_char(lines);
    return c;
}

/* "start-end rwxp offset device inode   path": takes the line that holds the address. */
static bool take_line(struct lines *lines, uintptr_t code, struct hk_module_place *place, bool *found)
{
    uintptr_t start = next_number(lines), end = next_number(lines);
    if (end == 0)
        return false;
    *found = code >= start && code < end;
    for (size_t i = 0; i < sizeof "rwxp"; i++)
        (void)next_char(lines);
    place->address = code - start + next_number(lines);
    int c = skip_word(lines, next_char(lines)); /* the device */
    c = skip_word(lines, c);                    /* the inode */
    size_t used = 0;
    for (; c != '\n' && c != 0; c = next_char(lines))
        if (used < sizeof place->path - 1)
            place->path[used++] = (char)c;
    place->path[used] = 0;
    return true;
}

/* Sets the path, and the address as an offset in the file. */
static bool find_mapping(uintptr_t code, struct hk_module_place *place)
{
    struct lines lines = {.fd = hk_os.open("/proc/self/maps"), .used = 0};
    bool found = false;
    if (lines.fd < 0)
        return false;
    while (!found && take_line(&lines, code, place, &found))
        ;
    hk_os.close(lines.fd);
    return found && place->path[0] == '/';
}

static bool read_all(int fd, uint64_t offset, void *bytes, size_t size)
{
    return hk_os.read_at(fd, offset, bytes, size) == size;
}

static bool is_known(const Elf64_Ehdr *file)
{
    return memcmp(file->e_ident, ELFMAG, SELFMAG) == 0 && file->e_ident[EI_CLASS] == ELFCLASS64 &&
           file->e_phentsize == sizeof(Elf64_Phdr) && file->e_shentsize == sizeof(Elf64_Shdr);
}

/* Turns an offset in the file into an address as the linker gave it. */
static void relocate(int fd, const Elf64_Ehdr *file, struct hk_module_place *place)
{
    for (unsigned i = 0; i < file->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_all(fd, file->e_phoff + i * sizeof segment, &segment, sizeof segment))
            return;
        if (segment.p_type != PT_LOAD || place->address - segment.p_offset >= segment.p_filesz)
            continue;
        place->address += segment.p_vaddr - segment.p_offset;
        return;
    }
}

static bool is_function_at(const Elf64_Sym *symbol, uintptr_t address)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value != 0 &&
           address - symbol->st_value < hk_max(symbol->st_size, 1);
}

static void take_name(int fd, const Elf64_Shdr *names, const Elf64_Sym *symbol, struct hk_module_place *place)
{
    size_t got = hk_os.read_at(fd, names->sh_offset + symbol->st_name, place->function, sizeof place->function - 1);
    place->function[got] = 0;
    place->offset = place->address - symbol->st_value;
}

static void search(int fd, const Elf64_Shdr *table, const Elf64_Shdr *names, struct hk_module_place *place)
{
    Elf64_Sym symbols[SYMBOLS_AT_ONCE];
    size_t count = hk_min(table->sh_size / sizeof symbols[0], MOST_SYMBOLS);
    for (size_t at = 0, got; at < count; at += got) {
        got = hk_os.read_at(fd, table->sh_offset + at * sizeof symbols[0], symbols, sizeof symbols) / sizeof symbols[0];
        if (got == 0)
            return;
        for (size_t i = 0; i < got && at + i < count; i++)
            if (is_function_at(&symbols[i], place->address)) {
                take_name(fd, names, &symbols[i], place);
                return;
            }
    }
}

/* All functions if the program is not stripped, else those that it exports. */
static void find_function(int fd, const Elf64_Ehdr *file, struct hk_module_place *place)
{
    Elf64_Shdr table = {.sh_type = SHT_NULL}, names;
    for (unsigned i = 0; i < hk_min(file->e_shnum, MOST_SECTIONS) && table.sh_type != SHT_SYMTAB; i++) {
        Elf64_Shdr section;
        if (!read_all(fd, file->e_shoff + i * sizeof section, &section, sizeof section))
            return;
        if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
            table = section;
    }
    if (table.sh_type != SHT_NULL && read_all(fd, file->e_shoff + table.sh_link * sizeof names, &names, sizeof names))
        search(fd, &table, &names, place);
}

bool hk_module_find(uintptr_t code, struct hk_module_place *place)
{
    Elf64_Ehdr file;
    place->function[0] = 0;
    if (!find_mapping(code, place))
        return false;
    int fd = hk_os.open(place->path);
    if (fd < 0)
        return true;
    if (read_all(fd, 0, &file, sizeof file) && is_known(&file)) {
        relocate(fd, &file, place);
        find_function(fd, &file, place);
    }
    hk_os.close(fd);
    return true;
}
