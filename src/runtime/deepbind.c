/* Interposes dlopen to remove the flag RTLD_DEEPBIND, which breaks plugins. A library that is opened with this flag looks up names in its own
 * dependencies before it looks in the program. So it calls the C library's free instead of HAKMEM's, also for HAKMEM's blocks that it receives from
 * the program. Therefore hak_dlopen() removes the flag if malloc is HAKMEM's.
 *
 * A library that has its own operator new or malloc fails without the flag, because HAKMEM would replace the functions that the library exports,
 * but not those that it hides. For such a library the flag stays. Instead, hak_dlopen() makes the C library's names of malloc lead to HAKMEM. To do
 * so, it changes the symbol table in memory, which the loader reads. The code of the C library does not change.
 *
 * RUNPATH, $ORIGIN and the namespace depend on the caller of dlopen, which the loader finds by the return address. Therefore hak_dlopen() ends with a
 * jump. Only libhakmem.so exports hak_dlopen() under the name dlopen (cmake/HakmemLibrary.cmake), because a static program has only one dlopen. */
#include "hakmem.h"
#include "os/elf_file.h"
#include "os/forward.h"
#include "runtime/named_file.h"
#include "runtime/lifecycle.h"

enum { THIS_NAMESPACE = 0 }; /* LM_ID_BASE */

static const char *const entries[] = {
    "malloc",         "calloc", "realloc", "free",         "memalign",           "aligned_alloc",
    "posix_memalign", "valloc", "pvalloc", "reallocarray", "malloc_usable_size",
};

/* Makes a name in the C library's symbol table lead to the process's function. The store is atomic, because the loader may be reading the value. */
static void lead_here(const struct hk_elf_file *file, uintptr_t base, const char *name)
{
    Elf64_Sym there;
    uint64_t place;
    uintptr_t ours = (uintptr_t)hk_forward_symbol(name);
    if (ours == 0 || !hk_elf_find(file, name, &there, &place))
        return;
    Elf64_Sym *symbol = (Elf64_Sym *)(base + place);
    if (memcmp(symbol, &there, sizeof there) == 0)
        __atomic_store_n(&symbol->st_value, ours - base, __ATOMIC_RELEASE);
}

static bool lead_libc_here(void)
{
    struct hk_elf_file file;
    struct hk_elf_loaded libc;
    const void *code = hk_forward_next("gnu_get_libc_version");
    if (code == NULL || !hk_elf_loaded(code, NULL, &libc) || !hk_elf_open(&file, libc.path))
        return false;
    /* The symbol table is made writable only if its pages contain no code. After the change it is made read-only again. */
    uintptr_t first = libc.base + file.symbols.sh_addr, begin = first & -hk_system_page();
    uintptr_t end = hk_in_system_pages(first + file.symbols.sh_size);
    bool leads = (file.code == UINT64_MAX || end <= libc.base + file.code) && hk_os.unseal((void *)begin, end - begin);
    for (size_t i = 0; leads && i < sizeof entries / sizeof entries[0]; i++)
        lead_here(&file, libc.base, entries[i]);
    leads = leads && hk_os.seal((void *)begin, end - begin);
    hk_os_close(file.fd);
    return leads;
}

/* Returns true if the C library's names of malloc lead to HAKMEM. At the first call, one thread changes the symbol table, while others wait. If the
 * process forks during the change, the child repeats it, because the thread that was making the change does not exist in the child. */
static bool libc_leads_here(void)
{
    enum { LEADS = -1, CANNOT = -2 };
    static _Atomic int xstate; /* LEADS, CANNOT, 0, or the id of the process that changes the table */
    int process = hk_os.process_id(), state = hk_load_acquire(xstate);
    while (state >= 0) {
        if (state == process) {
            hk_os_pause();
            state = hk_load_acquire(xstate);
        } else if (atomic_compare_exchange_strong(&xstate, &state, process)) {
            state = lead_libc_here() ? LEADS : CANNOT;
            hk_store_release(xstate, state);
        }
    }
    return state == LEADS;
}

static bool defines(const struct hk_elf_file *file, const char *name)
{
    return hk_elf_find(file, name, &(Elf64_Sym){0}, &(uint64_t){0});
}

static bool defines_operator(const struct hk_elf_file *file)
{
    return defines(file, "_Znwm") || defines(file, "_ZdlPv");
}

/* Returns true if the needed library defines operator new or delete. A library that also defines malloc does not count, because it is an allocator
 * for whole processes, and HAKMEM is already the allocator of this process. */
static bool has_own_operators(const char *path)
{
    struct hk_elf_file file;
    if (!hk_elf_open(&file, path))
        return false;
    bool own = defines_operator(&file) && !defines(&file, "malloc");
    hk_os_close(file.fd);
    return own;
}

/* Returns true if this folder of the RUNPATH contains the needed library, and if the library defines operators of its own. */
static bool folder_brings(const char *entry, const char *path, const char *name)
{
    struct hk_text file = {.fd = HK_NOWHERE};
    size_t origin = strncmp(entry, "$ORIGIN", 7) == 0 ? 7 : strncmp(entry, "${ORIGIN}", 9) == 0 ? 9 : 0;
    if (origin > 0) {
        hk_text_add(&file, "%s", path);
        file.used -= hk_min(file.used, strlen(strrchr(path, '/')));
    }
    hk_text_add(&file, "%s/%s", entry + origin, name);
    return hk_path_end(&file) && has_own_operators(file.bytes);
}

/* Returns true if the needed library defines operators of its own. The C and C++ libraries do not count, because their operators lead to HAKMEM's. */
static bool needed_brings(const struct hk_elf_file *file, const char *path, const char *name)
{
    struct hk_elf_loaded loaded;
    char folders[HK_ELF_PATH];
    if (strncmp(name, "libstdc++", 9) == 0 || strncmp(name, "libc++", 6) == 0 || strncmp(name, "libc.", 5) == 0)
        return false;
    if (hk_elf_loaded(NULL, name, &loaded))
        return has_own_operators(loaded.path);
    if (!hk_elf_string(file, DT_RUNPATH, 0, folders, sizeof folders) &&
        !hk_elf_string(file, DT_RPATH, 0, folders, sizeof folders))
        return false;
    for (char *rest = folders, *entry; (entry = strsep(&rest, ":")) != NULL;)
        if (folder_brings(entry, path, name))
            return true;
    return false;
}

/* Returns true if the library, or one that it needs, has its own allocator. Returns false for a path without a slash, which the loader searches. */
static bool brings_its_own(const char *path)
{
    struct hk_elf_file file;
    char name[128];
    if (path == NULL || strchr(path, '/') == NULL || !hk_elf_open(&file, path))
        return false;
    bool own = defines_operator(&file) || defines(&file, "malloc") || defines(&file, "free");
    for (unsigned n = 0; !own && hk_elf_string(&file, DT_NEEDED, n, name, sizeof name); n++)
        own = needed_brings(&file, path, name);
    hk_os_close(file.fd);
    return own;
}

static HK_NOINLINE int without_deepbind(const char *path, int mode)
{
    bool drops = (mode & RTLD_DEEPBIND) != 0 && hk_started() && hk_options.deepbind == HK_DEEPBIND_DROP &&
                 hk_process_is_served();
    if (!drops || (brings_its_own(path) && libc_leads_here()))
        return mode;
    HK_COUNT(deepbind_dropped, 1);
    return mode & ~RTLD_DEEPBIND;
}

HK_EXPORT void *hak_dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))hk_forward_next("dlopen");
    mode = without_deepbind(file, mode);
    if (HK_UNLIKELY(next == NULL))
        return NULL;
    HK_BY_JUMP return next(file, mode);
}

HK_EXPORT void *hak_dlmopen(long space, const char *file, int mode)
{
    void *(*next)(long, const char *, int) = (void *(*)(long, const char *, int))hk_forward_next("dlmopen");
    if (space == THIS_NAMESPACE)
        mode = without_deepbind(file, mode);
    if (HK_UNLIKELY(next == NULL))
        return NULL;
    HK_BY_JUMP return next(space, file, mode);
}
