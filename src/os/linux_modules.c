/* Finds the code and the unwind table of a loaded module without taking the loader's lock. */
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "os/linux.h"

/* HAKMEM must not wait for the loader's lock, because any thread may hold it. In a fork child, the thread that holds it may not exist any more.
 * Therefore HAKMEM reads the loader's list of modules without the lock, as a debugger does. A module may be unloaded while HAKMEM reads. So HAKMEM
 * stores only the address of each module's ELF header. It reads everything else from the header each time, if the header is still readable. */
enum { MOST_MODULES = 1024, MOST_NAMESPACES = 16, MOST_GONE = 8, NAMESPACES_FROM = 2, GONE = 1 };
static struct {
    _Atomic uintptr_t xheaders[MOST_MODULES]; /* address of each ELF header; bit GONE: unloaded; 0 ends the array */
    _Atomic uintptr_t xlast, xlast_base;      /* last entry of the loader's list at the last read; its l_addr */
} modules __attribute__((section(".bss.cold")));

struct image {
    const ElfW(Phdr) * segments;
    unsigned count;
    uintptr_t bias; /* address in memory minus the address that the linker assigned */
};

/* Returns true if a word at the address can be read. rt_sigprocmask fails with EFAULT if the word cannot be read. If it can be read, the call fails
 * with EINVAL, because the first argument is invalid. For NULL the call succeeds, and NULL counts as not readable. */
bool hk_linux_readable(uintptr_t address)
{
    enum { SIGNALS_BYTES = 8, NO_SUCH_WAY = -1 };
    return KEEPING_ERRNO(syscall(SYS_rt_sigprocmask, NO_SUCH_WAY, address, NULL, SIGNALS_BYTES) != 0 &&
                         errno != EFAULT);
}

static bool all_readable(uintptr_t from, size_t size)
{
    return from + size > from && hk_os.readable(from) &&
           (from / HK_PAGE == (from + size - sizeof(uintptr_t)) / HK_PAGE ||
            hk_os.readable(from + size - sizeof(uintptr_t)));
}

static uintptr_t segment_start(const struct image *image, unsigned i)
{
    return image->bias + image->segments[i].p_vaddr;
}

static bool read_image(struct image *image, uintptr_t header)
{
    const ElfW(Ehdr) *file = (const void *)header;
    if (!hk_os.readable(header) || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
        file->e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    size_t size = file->e_phnum * sizeof(ElfW(Phdr));
    if (file->e_phoff + size > HK_PAGE && !all_readable(header + file->e_phoff, size))
        return false;
    *image = (struct image){(const void *)(header + file->e_phoff), file->e_phnum, header};
    for (unsigned i = 0; i < image->count; i++) /* skips empty segments, because their offset may also be 0 */
        if (image->segments[i].p_type == PT_LOAD && image->segments[i].p_offset == 0 && image->segments[i].p_filesz > 0)
            image->bias = header - image->segments[i].p_vaddr;
    return true;
}

/* Returns the index of the first segment of a type that contains the address, or `count` if there is none. Address 0 matches any segment. */
static unsigned segment_of(const struct image *image, unsigned type, uintptr_t address)
{
    unsigned i = 0;
    while (i < image->count && (image->segments[i].p_type != type ||
                                (address != 0 && address - segment_start(image, i) >= image->segments[i].p_memsz)))
        i++;
    return i;
}

static void find_table(struct hk_code *code, const struct image *image)
{
    unsigned table = segment_of(image, PT_GNU_EH_FRAME, 0);
    unsigned around = table < image->count ? segment_of(image, PT_LOAD, segment_start(image, table)) : image->count;
    if (around == image->count)
        return;
    code->table = (const void *)segment_start(image, table);
    code->from = (const void *)segment_start(image, around);
    code->to = code->from + image->segments[around].p_filesz;
}

static bool note_header(uintptr_t header)
{
    for (unsigned i = 0; header != 0 && header % HK_PAGE == 0 && i < MOST_MODULES; i++) {
        uintptr_t there = atomic_load_explicit(&modules.xheaders[i], memory_order_relaxed);
        if ((there == 0 || there == (header | GONE)) &&
            atomic_compare_exchange_strong(&modules.xheaders[i], &there, header))
            return true;
        if (there == header)
            return false;
    }
    return false;
}

static const struct r_debug *loader_state(void)
{
    struct image program;
    if (!read_image(&program, getauxval(AT_PHDR) & -(uintptr_t)HK_PAGE))
        return NULL;
    unsigned i = segment_of(&program, PT_DYNAMIC, 0);
    if (i == program.count)
        return NULL;
    const ElfW(Dyn) *entry = (const void *)segment_start(&program, i);
    while (entry->d_tag != DT_NULL && entry->d_tag != DT_DEBUG)
        entry++;
    return entry->d_tag == DT_DEBUG ? (const void *)entry->d_un.d_ptr : NULL;
}

/* Returns the loader's state for the next namespace, or NULL. A state of version 2 or later is followed by the pointer to the next state. */
static const struct r_debug *next_state(const struct r_debug *state)
{
    return state->r_version < NAMESPACES_FROM ? NULL : *(const struct r_debug *const *)(state + 1);
}

static bool read_list(const struct r_debug *state)
{
    const struct link_map *module = state->r_map, *last = NULL;
    bool news = false;
    for (unsigned i = 0; i < MOST_MODULES && module != NULL && all_readable((uintptr_t)module, sizeof *module); i++) {
        news |= note_header(module->l_addr);
        last = module;
        module = module->l_next;
    }
    atomic_store_explicit(&modules.xlast, (uintptr_t)last, memory_order_relaxed);
    atomic_store_explicit(&modules.xlast_base, last != NULL ? last->l_addr : 0, memory_order_relaxed);
    return news;
}

/* Returns true if there is one namespace, and its list has the same last module as before. Then no module is new, because new ones are appended. */
static bool list_is_as_read(const struct r_debug *state)
{
    const struct link_map *last = (const void *)atomic_load_explicit(&modules.xlast, memory_order_relaxed);
    return last != NULL && next_state(state) == NULL && all_readable((uintptr_t)last, sizeof *last) &&
           last->l_next == NULL && last->l_addr == atomic_load_explicit(&modules.xlast_base, memory_order_relaxed);
}

static bool read_lists(void)
{
    const struct r_debug *state = loader_state();
    bool news = note_header(getauxval(AT_PHDR) & -(uintptr_t)HK_PAGE);
    news |= note_header(getauxval(AT_SYSINFO_EHDR));
    if (state != NULL && list_is_as_read(state))
        return news;
    for (unsigned i = 0; i < MOST_NAMESPACES && state != NULL; i++, state = next_state(state))
        news |= read_list(state);
    return news;
}

/* Returns the slot of the module whose header is the nearest one at or below the address, or NULL if there is none. */
static _Atomic uintptr_t *slot_below(uintptr_t address)
{
    uintptr_t best = 0, header;
    _Atomic uintptr_t *slot = NULL, *at = modules.xheaders, *end = at + MOST_MODULES;
    for (; at < end && (header = atomic_load_explicit(at, memory_order_relaxed)) != 0; at++)
        if (header <= address && header > best && (header & GONE) == 0) {
            best = header;
            slot = at;
        }
    return slot;
}

static bool find_known(uintptr_t address, struct hk_code *code)
{
    struct image image;
    _Atomic uintptr_t *slot;
    for (unsigned i = 0; i < MOST_GONE && (slot = slot_below(address)) != NULL; i++) {
        uintptr_t header = atomic_load_explicit(slot, memory_order_relaxed);
        if (!read_image(&image, header)) {
            (void)atomic_compare_exchange_strong(slot, &header, header | GONE);
            continue;
        }
        unsigned segment = segment_of(&image, PT_LOAD, address);
        if (segment == image.count || (image.segments[segment].p_flags & PF_X) == 0)
            return false;
        *code = (struct hk_code){segment_start(&image, segment), image.segments[segment].p_memsz, NULL, NULL, NULL};
        find_table(code, &image);
        return true;
    }
    return false;
}

bool hk_linux_code_at(uintptr_t address, struct hk_code *code)
{
    return find_known(address, code) || (read_lists() && find_known(address, code));
}

bool hk_os_in_loader(const void *code)
{
    struct image loader;
    uintptr_t header = getauxval(AT_BASE);
    return header != 0 && read_image(&loader, header) && segment_of(&loader, PT_LOAD, (uintptr_t)code) < loader.count;
}
