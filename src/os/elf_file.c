/* Reads sections, symbols, and strings of the dynamic section from the ELF files of programs and libraries. */
#include "os/elf_file.h"
#include <link.h>
#include <string.h>
#include "os/os.h"

enum { SYMBOL_BYTES = 48, READ_BYTES = 512, MOST_ENTRIES = 1 << 22 };

struct elf_search {
    const void *code;
    const char *name;
    struct hk_elf_loaded *loaded;
};

/* Called by dl_iterate_phdr for each library. Copies the path of the library that is searched for, because another thread may close the library. */
static int look_at(struct dl_phdr_info *library, size_t size, void *given)
{
    struct elf_search *search = given;
    const char *slash = strrchr(library->dlpi_name, '/');
    bool found = search->name != NULL && slash != NULL && strcmp(slash + 1, search->name) == 0;
    (void)size;
    for (unsigned i = 0; i < library->dlpi_phnum && search->code != NULL; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        uintptr_t offset = (uintptr_t)search->code - library->dlpi_addr - segment->p_vaddr;
        found |= segment->p_type == PT_LOAD && offset < segment->p_memsz;
    }
    if (!found || strlen(library->dlpi_name) >= sizeof search->loaded->path)
        return false;
    *search->loaded = (struct hk_elf_loaded){library->dlpi_addr, library->dlpi_phdr, library->dlpi_phnum, ""};
    strcpy(search->loaded->path, library->dlpi_name);
    return true;
}

bool hk_elf_loaded(const void *code, const char *name, struct hk_elf_loaded *loaded)
{
    return dl_iterate_phdr(look_at, &(struct elf_search){code, name, loaded}) != 0;
}

struct hash_header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
};

static bool read_whole(const struct hk_elf_file *file, uint64_t offset, void *bytes, size_t size)
{
    return hk_os_read_at(file->fd, offset, bytes, size) == size;
}

static bool read_entry(const struct hk_elf_file *file, const Elf64_Shdr *section, uint64_t n, void *entry, size_t size)
{
    return n < section->sh_size / size && read_whole(file, section->sh_offset + n * size, entry, size);
}

/* Holds the state of a walk over a table of the file. The walk reads many entries into `bytes` with one system call. */
struct table_walk {
    int fd;
    uint64_t offset, left; /* file offset of the next read, and number of entries that follow there */
    size_t size, at, got;
    Elf64_Xword bytes[READ_BYTES / sizeof(Elf64_Xword)];
};

static const void *next_entry(struct table_walk *walk)
{
    if (walk->at == walk->got) {
        size_t most = READ_BYTES / walk->size, wanted = walk->left < most ? (size_t)walk->left : most;
        walk->got = hk_os_read_at(walk->fd, walk->offset, walk->bytes, wanted * walk->size) / walk->size;
        walk->offset += walk->got * walk->size;
        walk->left -= walk->got;
        walk->at = 0;
    }
    return walk->at < walk->got ? (const char *)walk->bytes + walk->at++ * walk->size : NULL;
}

static struct table_walk walk_table(const struct hk_elf_file *file, uint64_t offset, uint64_t count, size_t size)
{
    return (struct table_walk){file->fd, offset, count < MOST_ENTRIES ? count : MOST_ENTRIES, .size = size};
}

/* Reads the header of the section that holds the strings of a symbol table. If the header cannot be read, its type becomes SHT_NULL. */
static void read_names(const struct hk_elf_file *file, const Elf64_Shdr *table, Elf64_Shdr *names)
{
    if (table->sh_type == SHT_NULL ||
        !read_whole(file, file->header.e_shoff + table->sh_link * sizeof *names, names, sizeof *names))
        *names = (Elf64_Shdr){.sh_type = SHT_NULL};
}

static void read_sections(struct hk_elf_file *file)
{
    const Elf64_Ehdr *header = &file->header;
    struct table_walk walk = walk_table(file, header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr));
    file->code = UINT64_MAX;
    for (const Elf64_Shdr *section; (section = next_entry(&walk)) != NULL;) {
        switch (section->sh_type) {
        case SHT_GNU_HASH: file->hash = *section; break;
        case SHT_DYNAMIC: file->dynamic = *section; break;
        case SHT_DYNSYM: file->symbols = *section; break;
        case SHT_SYMTAB: file->all = *section; break;
        }
        if ((section->sh_flags & SHF_EXECINSTR) != 0 && section->sh_addr < file->code)
            file->code = section->sh_addr;
    }
    read_names(file, &file->symbols, &file->names);
    read_names(file, &file->all, &file->all_names);
}

bool hk_elf_open(struct hk_elf_file *file, const char *path)
{
    *file = (struct hk_elf_file){.fd = hk_os.open(path)};
    if (file->fd < 0)
        return false;
    const Elf64_Ehdr *header = &file->header;
    if (read_whole(file, 0, &file->header, sizeof *header) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
        header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_shentsize == sizeof(Elf64_Shdr)) {
        read_sections(file);
        return true;
    }
    hk_os_close(file->fd);
    return false;
}

static bool is_named(const struct hk_elf_file *file, uint64_t at, const char *name)
{
    char bytes[SYMBOL_BYTES];
    size_t size = strlen(name) + 1;
    return size <= sizeof bytes && at < file->names.sh_size &&
           read_whole(file, file->names.sh_offset + at, bytes, size) && memcmp(bytes, name, size) == 0;
}

bool hk_elf_find(const struct hk_elf_file *file, const char *name, Elf64_Sym *symbol, uint64_t *place)
{
    struct hash_header header;
    uint32_t wanted = 5381, n, hash = 0;
    for (const char *letter = name; *letter != 0; letter++)
        wanted = wanted * 33 + (unsigned char)*letter;
    if (!read_entry(file, &file->hash, 0, &header, sizeof header) || header.buckets == 0)
        return false;
    /* `buckets` and `chains` are positions in the section, in words of 4 bytes. The header (4) and the bloom filter (2 per item) come first. */
    uint64_t buckets = 4 + 2 * (uint64_t)header.bloom_words, chains = buckets + header.buckets;
    if (!read_entry(file, &file->hash, buckets + wanted % header.buckets, &n, sizeof n) || n < header.first_symbol)
        return false;
    for (; (hash & 1) == 0; n++) {
        if (!read_entry(file, &file->hash, chains + n - header.first_symbol, &hash, sizeof hash))
            return false;
        *place = file->symbols.sh_addr + n * sizeof *symbol;
        if ((hash | 1) == (wanted | 1) && read_entry(file, &file->symbols, n, symbol, sizeof *symbol) &&
            symbol->st_shndx != SHN_UNDEF && is_named(file, symbol->st_name, name))
            return true;
    }
    return false;
}

bool hk_elf_string(const struct hk_elf_file *file, Elf64_Sxword tag, unsigned n, char *string, size_t size)
{
    Elf64_Dyn entry = {.d_tag = DT_NULL};
    for (unsigned i = 0; read_entry(file, &file->dynamic, i, &entry, sizeof entry) && entry.d_tag != DT_NULL; i++)
        if (entry.d_tag == tag && n-- == 0) {
            uint64_t at = file->names.sh_offset + entry.d_un.d_val;
            return entry.d_un.d_val < file->names.sh_size &&
                   memchr(string, 0, hk_os_read_at(file->fd, at, string, size)) != NULL;
        }
    return false;
}

/* Returns true if the program headers in the file are those of the loaded library. In the meantime, another file may have replaced the loaded one. */
static bool is_loaded(const struct hk_elf_file *file, const struct hk_elf_loaded *loaded)
{
    Elf64_Phdr segment;
    unsigned same = 0;
    while (same < loaded->count &&
           read_whole(file, file->header.e_phoff + same * sizeof segment, &segment, sizeof segment) &&
           memcmp(&segment, &loaded->segments[same], sizeof segment) == 0)
        same++;
    return same == loaded->count && same == file->header.e_phnum;
}

void hk_elf_find_hidden(const struct hk_elf_loaded *loaded, struct hk_elf_wanted *wanted, unsigned count)
{
    struct hk_elf_file file;
    if (!hk_elf_open(&file, loaded->path[0] != 0 ? loaded->path : "/proc/self/exe"))
        return;
    uint64_t symbols = is_loaded(&file, loaded) ? file.all.sh_size / sizeof(Elf64_Sym) : 0;
    struct table_walk walk = walk_table(&file, file.all.sh_offset, symbols, sizeof(Elf64_Sym));
    for (const Elf64_Sym *symbol; (symbol = next_entry(&walk)) != NULL;) {
        char name[SYMBOL_BYTES];
        if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0)
            continue;
        size_t got = hk_os_read_at(file.fd, file.all_names.sh_offset + symbol->st_name, name, sizeof name);
        for (unsigned i = 0; i < count; i++)
            if (strlen(wanted[i].name) < got && memcmp(name, wanted[i].name, strlen(wanted[i].name) + 1) == 0)
                wanted[i].address = loaded->base + symbol->st_value;
    }
    hk_os_close(file.fd);
}

uintptr_t hk_elf_address(const struct hk_elf_file *file, uintptr_t offset)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < file->header.e_phnum; i++)
        if (read_whole(file, file->header.e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_LOAD && offset - segment.p_offset < segment.p_filesz)
            return offset + segment.p_vaddr - segment.p_offset;
    return offset;
}

uintptr_t hk_elf_function(const struct hk_elf_file *file, uintptr_t address, char *name, size_t size)
{
    bool whole = file->all.sh_type != SHT_NULL;
    const Elf64_Shdr *table = whole ? &file->all : &file->symbols;
    struct table_walk walk = walk_table(file, table->sh_offset, table->sh_size / sizeof(Elf64_Sym), sizeof(Elf64_Sym));
    for (const Elf64_Sym *symbol; (symbol = next_entry(&walk)) != NULL;)
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value != 0 &&
            address - symbol->st_value < symbol->st_size + (symbol->st_size == 0)) {
            uint64_t names = (whole ? &file->all_names : &file->names)->sh_offset;
            name[hk_os_read_at(file->fd, names + symbol->st_name, name, size - 1)] = 0;
            return address - symbol->st_value;
        }
    name[0] = 0;
    return 0;
}
