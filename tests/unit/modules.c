/* Tests that the file, the linker's address in this file, and the function are found for an address of code. */
#include "unit/unit.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard/fault_text.h"

/* The function is static, so only the full symbol table has its name. */
static __attribute__((noinline, used)) int a_function_of_this_file(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static struct hk_module_place find(uintptr_t code)
{
    struct hk_module_place place;
    assert_true(hk_module_find(code, &place));
    return place;
}

static const char *last_part(const char *path) { return strrchr(path, '/') + 1; }

/* Sets *base to the difference between the program's addresses and the linker's addresses. The program is the first module. */
static int first_module(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

UNIT_TEST(own_function)
{
    uintptr_t code = (uintptr_t)a_function_of_this_file, base = 0;
    dl_iterate_phdr(first_module, &base);
    for (unsigned into = 0; into < 4; into++) {
        struct hk_module_place place = find(code + into);
        assert_string_equal(last_part(place.path), "test_unit_modules");
        assert_string_equal(place.function, "a_function_of_this_file");
        assert_int_equal(place.offset, into);
        assert_int_equal(place.address, code + into - base);
    }
}

/* In a stripped library, only exported functions have names. */
UNIT_TEST(function_of_a_library)
{
    struct hk_module_place place = find((uintptr_t)getpid + 1);
    assert_non_null(strstr(place.path, "libc"));
    assert_non_null(strstr(place.function, "getpid"));
    assert_int_equal(place.offset, 1);
}

UNIT_TEST(no_module)
{
    struct hk_module_place place;
    int here = a_function_of_this_file(1);
    assert_false(hk_module_find((uintptr_t)&here, &place));
    assert_false(hk_module_find(0, &place));
    assert_false(hk_module_find(UINTPTR_MAX, &place));
    fake_os_refuse(fake_refuse_open);
    assert_false(hk_module_find((uintptr_t)a_function_of_this_file, &place));
}

/* The maps are read line by line. Lines may have any length, and the last one may be incomplete. */
UNIT_TEST(lines_of_any_length)
{
    struct hk_module_place place;
    static char maps[8192];
    memset(maps, 0, sizeof maps);
    strcpy(maps, "1000-2000 r-xp 12345000 08:01 77   /no/such/");
    memset(maps + strlen(maps), 'x', 600);
    strcat(maps,
           "\n2000-3000 ---p 00000000 00:00 0 \n3000-4000 r-xp 00001000 08:01 9  /a file/with spaces (deleted)\n");
    fake_os.file = maps;
    assert_true(hk_module_find(0x1004, &place));
    assert_in_range(strlen(place.path), 500, HK_MODULE_PATH - 1);
    assert_int_equal(place.address, 0x12345004);
    fake_os.file = maps;
    assert_false(hk_module_find(0x2004, &place));
    fake_os.file = maps;
    assert_true(hk_module_find(0x3004, &place));
    assert_string_equal(place.path, "/a file/with spaces (deleted)");
    assert_int_equal(place.address, 0x1004);
    assert_string_equal(place.function, "");
    fake_os.file = "nonsense";
    assert_false(hk_module_find(0x3004, &place));
}

/* Describes an ELF file with one loadable segment, whose addresses differ from its file offsets, and with two functions. The file ends after
 * `size` bytes. */
enum { SHIFT = 0x100000, TEXT_AT = 0x1000, CODE = TEXT_AT + 0x40, FILE_BYTES = 0x2000, SYMBOLS = 70 };

static struct file {
    Elf64_Ehdr head;
    Elf64_Phdr segments[2];
    Elf64_Shdr sections[3];
    char names[64];
    Elf64_Sym symbols[SYMBOLS];
} file;

static void add_function(unsigned at, unsigned name, uintptr_t address, size_t size)
{
    file.symbols[at] = (Elf64_Sym){
        .st_name = name, .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC), .st_value = address, .st_size = size};
}

static void make_file(void)
{
    memcpy(file.head.e_ident, ELFMAG "\2\1\1", 7);
    file.head.e_phoff = offsetof(struct file, segments), file.head.e_phnum = 2;
    file.head.e_phentsize = sizeof(Elf64_Phdr), file.head.e_shentsize = sizeof(Elf64_Shdr);
    file.head.e_shoff = offsetof(struct file, sections), file.head.e_shnum = 3;
    file.segments[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_filesz = FILE_BYTES};
    file.segments[1] =
        (Elf64_Phdr){.p_type = PT_LOAD, .p_offset = TEXT_AT, .p_vaddr = TEXT_AT + SHIFT, .p_filesz = TEXT_AT};
    file.sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names)};
    file.sections[2] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                    .sh_offset = offsetof(struct file, symbols),
                                    .sh_size = sizeof file.symbols,
                                    .sh_link = 1};
    strcpy(file.names + 1, "before");
    strcpy(file.names + 10, "meant");
    add_function(3, 1, CODE + SHIFT - 16, 16);
    add_function(SYMBOLS / 2, 10, CODE + SHIFT, 16);
}

/* Writes the first `bytes` bytes of the file, maps the file, and returns what is found for an address in its code. */
static struct hk_module_place found_in_file(size_t bytes)
{
    char path[] = "/tmp/hakmem_modules_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &file, bytes), bytes);
    assert_int_equal(ftruncate(fd, bytes == sizeof file ? FILE_BYTES : (off_t)bytes), 0);
    char *mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(mapped != MAP_FAILED);
    struct hk_module_place place = find((uintptr_t)mapped + CODE + 3);
    assert_string_equal(place.path, path);
    munmap(mapped, FILE_BYTES);
    close(fd);
    unlink(path);
    return place;
}

UNIT_TEST(addresses_of_the_linker)
{
    make_file();
    struct hk_module_place place = found_in_file(sizeof file);
    assert_int_equal(place.address, CODE + 3 + SHIFT);
    assert_string_equal(place.function, "meant");
    assert_int_equal(place.offset, 3);
    add_function(SYMBOLS / 2, 10, CODE + SHIFT, 3); /* With a size of 3, the function ends before the address. */
    assert_string_equal(found_in_file(sizeof file).function, "");
    /* The reader reads the table in parts, so the function is tested in each entry. */
    for (unsigned at = 0; at < SYMBOLS; at++) {
        memset(file.symbols, 0, sizeof file.symbols);
        add_function(at, 10, CODE + SHIFT, 16);
        assert_string_equal(found_in_file(sizeof file).function, "meant");
    }
}

/* If the file is cut off in its headers, sections or symbols, or is no ELF file for this machine, the result contains what was read before. */
UNIT_TEST(damaged_files)
{
    make_file();
    static const size_t ends[] = {0, sizeof(Elf64_Ehdr) - 1, sizeof(Elf64_Ehdr) + 8,
                                  offsetof(struct file, sections) + 8, offsetof(struct file, symbols)};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct hk_module_place place = found_in_file(ends[i]);
        assert_string_equal(place.function, "");
        assert_int_equal(place.address, CODE + 3 + (ends[i] > offsetof(struct file, sections) ? SHIFT : 0));
    }
    file.head.e_ident[EI_CLASS] = ELFCLASS32;
    assert_string_equal(found_in_file(sizeof file).function, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_function),
                                       cmocka_unit_test(function_of_a_library),
                                       cmocka_unit_test(no_module),
                                       cmocka_unit_test(lines_of_any_length),
                                       cmocka_unit_test(addresses_of_the_linker),
                                       cmocka_unit_test(damaged_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
