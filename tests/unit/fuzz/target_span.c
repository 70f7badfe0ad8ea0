/* Tests the page map, descriptors, metadata, and the bootstrap arena, which are parts of src/span. */
#include "base/bits.h"
#include "unit/fuzz/fuzz.h"
#include "unit/fuzz/shadow.h"
#include "runtime/lifecycle.h"
#include "span/bootstrap.h"
#include "span/descriptor.h"
#include "span/meta.h"
#include "span/meta_regions.h"
#include "support/pattern.h"
#include "unit/fake_os.h"

enum { KNOWN = 1 << 13 };

static struct known_slice {
    uintptr_t address; /* 0: unused */
    uint32_t entry;
    struct hk_descriptor *descriptor;
} known[KNOWN];

static struct known_slice *slice_at(uintptr_t address)
{
    size_t at = (address >> HK_SLICE_SHIFT) * 0x9e3779b1 % KNOWN;
    while (known[at].address != 0 && known[at].address != address)
        at = (at + 1) % KNOWN;
    return &known[at];
}

/* Returns an address near the start of the window, in its far parts, or in one of a few other leaves. */
static uintptr_t draw_address(struct fuzz_input *in)
{
    uint8_t where = fuzz_byte(in);
    uintptr_t leaf = (where % 3 == 0   ? (hk_window.base != 0 ? hk_window.base : HK_LEAF) >> HK_LEAF_SHIFT
                      : where % 3 == 1 ? 1 + where / 3u * 37
                                       : (where * 2654435761u) % (1u << (HK_ADDRESS_BITS - HK_LEAF_SHIFT)));
    uintptr_t address = (leaf + fuzz_byte(in) % 8) << HK_LEAF_SHIFT;
    return (address + ((fuzz_byte(in) % 4 == 0 ? HK_LEAF - 4 * HK_SLICE : 0) + fuzz_byte(in) * HK_SLICE)) &
           (((uintptr_t)1 << HK_ADDRESS_BITS) - 1);
}

static void check_slice(uintptr_t address)
{
    const struct known_slice *slice = slice_at(address);
    bool is_known = slice->address == address;
    FUZZ_CHECK(hk_page_map_lookup(address + 4711) == (is_known ? slice->entry : 0), "(%lx)", (unsigned long)address);
    if (is_known)
        FUZZ_CHECK(hk_load(*hk_page_map_descriptor(address)) == slice->descriptor &&
                   hk_descriptor_at(address + 1) == slice->descriptor);
}

static void assign_slices(struct fuzz_input *in, bool both)
{
    uintptr_t address = draw_address(in), slices = 1 + fuzz_byte(in) % 40;
    uint32_t entry = (uint32_t)fuzz_bytes(in, 3);
    struct hk_descriptor *descriptor = (void *)(uintptr_t)(0x1000 + 64 * (uintptr_t)fuzz_byte(in));
    bool fits = address + slices * HK_SLICE <= (uintptr_t)1 << HK_ADDRESS_BITS;
    bool covered = hk_page_map_cover(address, slices * HK_SLICE);
    FUZZ_CHECK(covered ? fits : !fits || fake_os.refuse != NULL, "(%lx)", (unsigned long)address);
    if (!covered)
        return;
    if (both)
        hk_page_map_assign(address, slices, entry, descriptor);
    else
        hk_page_map_set(address, slices, entry);
    for (uintptr_t i = 0; i < slices; i++) {
        struct known_slice *slice = slice_at(address + i * HK_SLICE);
        *slice = (struct known_slice){address + i * HK_SLICE, entry, both ? descriptor : slice->descriptor};
        check_slice(slice->address);
    }
}

static void check_tables(void)
{
    size_t bytes = 0;
    for (uintptr_t from = 0;;) {
        struct hk_range table = hk_page_map_next_table(from, UINTPTR_MAX);
        if (table.start == table.end)
            break;
        FUZZ_CHECK(table.start >= from && table.end > table.start);
        bytes += table.end - table.start;
        from = table.end;
    }
    FUZZ_CHECK(bytes == hk_page_map_tables(), "(%zu, %zu)", bytes, hk_page_map_tables());
}

void fuzz_page_map(struct fuzz_input *in)
{
    static fake_refuse *const plans[] = {NULL, NULL, NULL, fake_refuse_mappings, fake_refuse_map};
    size_t filled = 0;
    fake_os.places_taken = fuzz_below(in, 8) == 1;
    if (!hk_page_map_init())
        return;
    bool opens = fuzz_byte(in) % 2 == 0;
    if (opens)
        hk_window_open(true);
    while (fuzz_next(in) && filled < KNOWN / 2) {
        uint8_t op = fuzz_byte(in);
        if (op < 96) {
            assign_slices(in, op % 4 != 0);
            filled += 40;
        } else if (op < 250) {
            check_slice(draw_address(in));
        } else if (op == 250 && !opens) {
            hk_window_open(true);
            opens = true;
        } else if (op < 253) {
            fake_os_refuse(plans[fuzz_below(in, 5)]);
        } else {
            check_tables();
        }
    }
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].address != 0) {
            check_slice(known[i].address);
            uintptr_t next = hk_page_map_next_covered(known[i].address);
            FUZZ_CHECK(next == known[i].address, "(%lx: %lx)", (unsigned long)known[i].address, (unsigned long)next);
        }
    check_tables();
}

enum { RECORDS = 256 };

struct record_visits {
    struct hk_descriptor *const *records;
    unsigned found;
};

static void count_record(struct hk_descriptor *descriptor, void *context)
{
    struct record_visits *visits = context;
    for (unsigned i = 0; i < RECORDS; i++)
        visits->found += descriptor == visits->records[i];
}

void fuzz_descriptor(struct fuzz_input *in)
{
    struct hk_descriptor *records[RECORDS] = {NULL};
    unsigned live = 0;
    shadow_begin();
    FUZZ_CHECK(hk_tcache_get() != NULL);
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        struct hk_descriptor **record = &records[fuzz_byte(in)];
        if (op >= 252) {
            fake_os_refuse(op == 252 ? fake_refuse_mappings : NULL);
        } else if (op >= 248) {
            struct record_visits visits = {records, 0};
            hk_descriptors_visit(count_record, &visits);
            FUZZ_CHECK(visits.found == live, "(%u of %u)", visits.found, live);
        } else if (*record == NULL) {
            *record = hk_descriptor_new();
            FUZZ_CHECK(*record != NULL || fake_os.refuse != NULL);
            if (*record == NULL)
                continue;
            FUZZ_CHECK(shadow_enter(*record, HK_DESCRIPTOR_BYTES) && (uintptr_t)*record % HK_CACHE_LINE == 0);
            FUZZ_CHECK((*record)->start == 0 && all_zero(*record + 1, HK_DESCRIPTOR_BYTES - sizeof **record));
            memset(*record, 0xee, HK_DESCRIPTOR_BYTES);
            live++;
        } else {
            FUZZ_CHECK(shadow_leave(*record, HK_DESCRIPTOR_BYTES));
            hk_descriptor_drop(*record);
            FUZZ_CHECK((*record)->start == 0);
            *record = NULL;
            live--;
        }
    }
}

/* Returns the first run of free lines that has at least `least` lines. */
static unsigned model_run(const bool *used, unsigned least, unsigned *length)
{
    for (unsigned at = 0; at < HK_META_AREA_LINES; at += *length + (*length == 0)) {
        for (*length = 0; at + *length < HK_META_AREA_LINES && !used[at + *length];)
            ++*length;
        if (*length >= least)
            return at;
    }
    return HK_META_AREA_LINES;
}

static void check_taken(struct hk_meta_range range, struct hk_meta_area *area, bool *used, unsigned least,
                        unsigned most)
{
    unsigned length = 0, at = model_run(used, least, &length);
    if (at == HK_META_AREA_LINES) {
        FUZZ_CHECK(range.start == NULL);
        return;
    }
    length = length < most ? length : most;
    FUZZ_CHECK(range.start == (char *)area + (size_t)at * HK_META_LINE &&
               range.end == range.start + (size_t)length * HK_META_LINE);
    FUZZ_CHECK(!range.zero || all_zero(range.start, (size_t)length * HK_META_LINE));
    memset(range.start, 0xab, (size_t)length * HK_META_LINE);
    memset(used + at, true, length);
}

static void withdraw_idle(struct hk_meta_area *area, bool *used, bool cleans)
{
    unsigned pages = hk_meta_area_idle(area, false);
    FUZZ_CHECK((pages & 1) == 0);
    hk_meta_area_mark_pages(area, pages, true);
    for (unsigned page = 1; page < HK_META_AREA_PAGES; page++)
        for (unsigned line = 0; (pages >> page & 1) != 0 && line < 64; line++)
            FUZZ_CHECK(!used[page * 64 + line]);
    for (unsigned page = 1; cleans && page < HK_META_AREA_PAGES; page++)
        if ((pages >> page & 1) != 0)
            memset((char *)area + page * 4096, 0, 4096);
    hk_meta_area_mark_pages(area, pages, false);
    if (cleans)
        area->dirty = (uint16_t)(area->dirty & ~pages);
    FUZZ_CHECK(!cleans || hk_meta_area_idle(area, false) == 0);
}

void fuzz_meta_area(struct fuzz_input *in)
{
    static _Alignas(65536) char room[HK_META_AREA_BYTES];
    struct hk_meta_area *area = (struct hk_meta_area *)(void *)room;
    bool used[HK_META_AREA_LINES];
    memset(room, 0xee, sizeof room);
    hk_meta_area_init(area);
    hk_meta_area_free(area, room + (size_t)HK_META_AREA_HEADER * HK_META_LINE,
                      HK_META_AREA_LINES - HK_META_AREA_HEADER);
    for (unsigned i = 0; i < HK_META_AREA_LINES; i++)
        used[i] = i < HK_META_AREA_HEADER;
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in);
        unsigned at = (unsigned)fuzz_below(in, HK_META_AREA_LINES),
                 lines = 1u + fuzz_byte(in) % (op % 5 == 0 ? 200u : 12u), free = 0, run = 0;
        if (op < 112) {
            unsigned most = lines + fuzz_byte(in);
            check_taken(hk_meta_area_alloc(area, lines, most), area, used, lines, most);
        } else if (op < 240) {
            while (run < lines && at >= HK_META_AREA_HEADER && at + run < HK_META_AREA_LINES && used[at + run])
                run++;
            if (run > 0)
                hk_meta_area_free(area, room + (size_t)at * HK_META_LINE, run);
            memset(used + at, false, run);
        } else {
            withdraw_idle(area, used, op % 2 == 0);
        }
        for (unsigned i = 0; i < HK_META_AREA_LINES; i++)
            free += !used[i];
        FUZZ_CHECK(area->free == free && area->longest <= free);
    }
}

/* Blocks of metadata are zero, do not overlap, keep their contents, and are all accounted for. */
void fuzz_meta(struct fuzz_input *in)
{
    enum { BLOCKS = 256 };
    static struct {
        unsigned char *p;
        size_t size;
    } blocks[BLOCKS];
    size_t used = 0;
    shadow_begin();
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in), slot = fuzz_byte(in);
        size_t size = 1 + (op % 8 == 0 ? fuzz_below(in, 32768) : fuzz_below(in, 700));
        if (op >= 252) {
            fake_os_refuse(op == 252 ? fake_refuse_all : op == 253 ? fake_refuse_purge : NULL);
        } else if (op >= 248) {
            FUZZ_CHECK(hk_meta_purge(op % 2 == 0) % hk_system_page() == 0);
        } else if (blocks[slot].p == NULL) {
            blocks[slot].p = hk_meta_alloc(size);
            blocks[slot].size = size;
            FUZZ_CHECK(blocks[slot].p != NULL || fake_os.refuse != NULL);
            if (blocks[slot].p == NULL)
                continue;
            FUZZ_CHECK((uintptr_t)blocks[slot].p % 64 == 0 && all_zero(blocks[slot].p, size) &&
                       shadow_enter(blocks[slot].p, (size + 63) / 64 * 64));
            pattern_fill(blocks[slot].p, size, slot);
            used += (size + 63) / 64 * 64;
        } else {
            FUZZ_CHECK(pattern_holds(blocks[slot].p, blocks[slot].size, slot));
            FUZZ_CHECK(shadow_leave(blocks[slot].p, (blocks[slot].size + 63) / 64 * 64));
            hk_meta_free(blocks[slot].p, blocks[slot].size);
            used -= (blocks[slot].size + 63) / 64 * 64;
            blocks[slot].p = NULL;
        }
        FUZZ_CHECK(used <= hk_meta_mapped() - hk_meta_unused() && hk_meta_spare() <= hk_meta_unused());
    }
}

/* Withdraws pages of metadata and returns them. Purged pages must read as zeros, and other pages must keep their contents. */
void fuzz_meta_pages(struct fuzz_input *in)
{
    enum { RUNS = 32 };
    static struct {
        unsigned char *p;
        size_t size;
        bool rests;
    } runs[RUNS];
    size_t page = hk_system_page();
    while (fuzz_next(in)) {
        uint8_t op = fuzz_byte(in), slot = fuzz_byte(in) % RUNS;
        size_t mapped = hk_meta_mapped(), unused = hk_meta_unused();
        if (runs[slot].p == NULL) {
            runs[slot].size = page * (1 + (size_t)fuzz_byte(in) % 9);
            runs[slot].p = hk_meta_pages(runs[slot].size);
            FUZZ_CHECK(runs[slot].p != NULL || fake_os.refuse != NULL);
            if (runs[slot].p == NULL)
                continue;
            FUZZ_CHECK((uintptr_t)runs[slot].p % page == 0 && all_zero(runs[slot].p, runs[slot].size));
            size_t more = hk_meta_mapped() - hk_meta_unused() - (mapped - unused);
            FUZZ_CHECK(more == runs[slot].size || more == runs[slot].size + page, "(%zu)",
                       more); /* the header of a region */
            pattern_fill(runs[slot].p, runs[slot].size, slot);
        } else if (op >= 240) {
            fake_os_refuse(op % 3 == 0 ? fake_refuse_purge : op % 3 == 1 ? fake_refuse_mappings : NULL);
        } else if (runs[slot].rests) {
            FUZZ_CHECK(all_zero(runs[slot].p, runs[slot].size));
            hk_meta_wake(runs[slot].size);
            FUZZ_CHECK(hk_meta_unused() + runs[slot].size == unused);
            pattern_fill(runs[slot].p, runs[slot].size, slot);
            runs[slot].rests = false;
        } else {
            FUZZ_CHECK(pattern_holds(runs[slot].p, runs[slot].size, slot));
            runs[slot].rests = op % 2 == 0 && hk_meta_rest(runs[slot].p, runs[slot].size);
            FUZZ_CHECK(op % 2 != 0 || runs[slot].rests || fake_os.refuse != NULL);
            FUZZ_CHECK(hk_meta_unused() == unused + (runs[slot].rests ? runs[slot].size : 0));
        }
    }
}

/* The memory of the arena is never reused. Each block is zero, overlaps no other, and has a known size. */
void fuzz_bootstrap(struct fuzz_input *in)
{
    shadow_begin();
    for (unsigned blocks = 0; fuzz_next(in) && blocks < 400; blocks++) {
        size_t size = fuzz_byte(in) < 250 ? fuzz_below(in, 3000) : fuzz_word(in),
               align = (size_t)1 << fuzz_byte(in) % 14;
        unsigned char *block = hk_bootstrap_alloc(size, align);
        if (block == NULL)
            continue; /* NULL is right if all arenas are full or the size is impossible. */
        FUZZ_CHECK(size < (size_t)1 << 47 && (uintptr_t)block % align == 0 && (uintptr_t)block % 16 == 0);
        FUZZ_CHECK(hk_bootstrap_size(block) == (size < sizeof(size_t) ? sizeof(size_t) : size) &&
                   hk_bootstrap_size(&blocks) == SIZE_MAX);
        if (size > (size_t)1 << 20)
            continue; /* A block with its own mapping is not checked further. */
        FUZZ_CHECK(all_zero(block, size) && shadow_enter(block, size));
        memset(block, 0xcd, size);
    }
}
