/* Tests the bits, inline copies, lists, numbers, messages and locks of src/base, each against a simple computation. */
#include <stdio.h>

#include "base/bits.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/inline_copy.h"
#include "unit/fuzz/fuzz.h"
#include "support/slow_bits.h"
#include "unit/fake_os.h"

static void check_word(uint64_t x)
{
    unsigned ones = 0, lowest = 64;
    for (unsigned bit = 64; bit-- > 0;) {
        ones += (x >> bit & 1) != 0;
        lowest = (x >> bit & 1) != 0 ? bit : lowest;
    }
    FUZZ_CHECK(hk_popcount64(x) == ones, "(%lx)", (unsigned long)x);
    FUZZ_CHECK(hk_is_pow2(x) == (ones == 1));
    if (x != 0)
        FUZZ_CHECK(hk_lowest_bit(x) == lowest && hk_ctz64(x) == lowest, "(%lx)", (unsigned long)x);
}

void fuzz_bits(struct fuzz_input *in)
{
    while (fuzz_next(in)) {
        uint64_t x = fuzz_word(in), word = x;
        unsigned n = 1 + fuzz_byte(in) % 32, index = fuzz_byte(in);
        size_t align = (size_t)1 << index % 32, at = x % ((uint64_t)1 << 40);
        check_word(x);
        FUZZ_CHECK(hk_longest_run32((uint32_t)x) == longest_run((uint32_t)x));
        FUZZ_CHECK(hk_runs32((uint32_t)x, n) == starts_of_runs((uint32_t)x, n), "(%x, %u)", (unsigned)x, n);
        FUZZ_CHECK(hk_low_bits32(n) == ((uint64_t)1 << n) - 1);
        FUZZ_CHECK(hk_bit_set(&word, index) == ((x >> index % 64 & 1) == 0) && word == (x | (uint64_t)1 << index % 64));
        FUZZ_CHECK(hk_align_down(at, align) == at / align * align);
        FUZZ_CHECK(hk_align_up(at, align) == (at + align - 1) / align * align);
    }
}

/* A copy may write only the 16-byte quanta that contain its bytes. The quanta beside them must be unchanged. */
void fuzz_inline_copy(struct fuzz_input *in)
{
    enum { ROOM = 1024 };
    static _Alignas(16) unsigned char from[ROOM], to[ROOM], model[ROOM];
    while (fuzz_next(in)) {
        size_t size = fuzz_below(in, 600), at = 16 * fuzz_below(in, 20), seed = fuzz_byte(in);
        bool zeroes = fuzz_byte(in) % 2 == 0;
        for (size_t i = 0; i < ROOM; i++) {
            from[i] = (unsigned char)(i * 7 + seed);
            model[i] = to[i] = (unsigned char)(i * 13 + seed + 1);
        }
        size_t touched = size == 0 ? 16 : (size + 15) / 16 * 16;
        if (zeroes)
            FUZZ_CHECK(hk_inline_zero(to + at, size) == to + at);
        else
            hk_inline_copy(to + at, from + at, size);
        memcpy(model + at, to + at, touched);
        FUZZ_CHECK(memcmp(model, to, ROOM) == 0, "(%zu bytes at %zu: beyond them)", size, at);
        for (size_t i = at; i < at + size; i++)
            FUZZ_CHECK(to[i] == (zeroes ? 0 : from[i]), "(%zu bytes at %zu, byte %zu)", size, at, i);
    }
}

enum { LINKS = 24 };

/* Checks the list against an array of numbers in order. */
static void check_list(struct hk_list *list, const struct hk_link *links, const unsigned *order, unsigned count)
{
    const struct hk_link *at = &list->head;
    for (unsigned i = 0; i < count; i++) {
        FUZZ_CHECK(at->next == &links[order[i]] && at->next->prev == at && hk_link_linked(at->next));
        at = at->next;
    }
    FUZZ_CHECK(at->next == &list->head && list->head.prev == at);
    FUZZ_CHECK(hk_list_empty(list) == (count == 0) && hk_list_looks_empty(list) == (count == 0));
    FUZZ_CHECK(hk_list_first(list) == (count == 0 ? NULL : &links[order[0]]));
}

static unsigned place_of(const unsigned *order, unsigned count, unsigned n)
{
    unsigned at = 0;
    while (at < count && order[at] != n)
        at++;
    return at;
}

void fuzz_list(struct fuzz_input *in)
{
    struct hk_list list;
    struct hk_link links[LINKS] = {{NULL, NULL}};
    unsigned order[LINKS], count = 0, next;
    struct hk_walk walk = {NULL, 0};
    hk_list_init(&list);
    while (fuzz_next(in)) {
        unsigned op = fuzz_byte(in), n = (unsigned)fuzz_below(in, LINKS), at = place_of(order, count, n);
        FUZZ_CHECK(hk_link_linked(&links[n]) == (at < count));
        if (at < count && op % 4 == 0) {
            walk = (struct hk_walk){&links[n], op};
        } else if (at < count) {
            next = at + 1 < count ? order[at + 1] : LINKS;
            bool here = walk.at == &links[n];
            hk_link_remove_under(&links[n], &walk);
            FUZZ_CHECK(!here || (walk.within == 0 && walk.at == (next < LINKS ? &links[next] : &list.head)));
            memmove(order + at, order + at + 1, (--count - at) * sizeof *order);
        } else {
            at = op % 3 == 0 ? 0 : op % 3 == 1 ? count : (unsigned)(op % (count + 1));
            op % 3 == 0   ? hk_list_push_front(&list, &links[n])
            : op % 3 == 1 ? hk_list_push_back(&list, &links[n])
                          : hk_link_insert_after(at == 0 ? &list.head : &links[order[at - 1]], &links[n]);
            memmove(order + at + 1, order + at, (count++ - at) * sizeof *order);
            order[at] = n;
        }
        check_list(&list, links, order, count);
    }
}

void fuzz_number(struct fuzz_input *in)
{
    static const char *const pieces[] = {"0",          "1",   "9", "18446744073709551615", " ", "-", "x",
                                         "4294967296", "007", NULL};
    char text[64];
    while (fuzz_next(in)) {
        fuzz_pieces(in, pieces, text, sizeof text);
        uint64_t value = UINT64_MAX;
        for (size_t i = 0; text[i] >= '0' && text[i] <= '9'; i++)
            value = (i == 0 ? 0 : value) * 10 + (uint64_t)(text[i] - '0');
        FUZZ_CHECK(hk_number_in(text) == value, "(\"%s\")", text);
    }
}

/* Adds a piece to a message, and adds the same piece to the model with snprintf(). Uses only formats that both support. */
static size_t add_piece(struct fuzz_input *in, struct hk_text *text, char *model, size_t room)
{
    char string[300];
    uint64_t word = fuzz_word(in);
    switch (fuzz_byte(in) % 9) {
    case 0: hk_text_add(text, "%d|", (int)word); return (size_t)snprintf(model, room, "%d|", (int)word);
    case 1: hk_text_add(text, "%u", (unsigned)word); return (size_t)snprintf(model, room, "%u", (unsigned)word);
    case 2: hk_text_add(text, "%lu", word); return (size_t)snprintf(model, room, "%lu", word);
    case 3: hk_text_add(text, "%zu%%", (size_t)word); return (size_t)snprintf(model, room, "%zu%%", (size_t)word);
    case 4: hk_text_add(text, "0x%zx", (size_t)word); return (size_t)snprintf(model, room, "0x%zx", (size_t)word);
    case 5: hk_text_add(text, "%x", (unsigned)word); return (size_t)snprintf(model, room, "%x", (unsigned)word);
    case 6: hk_text_add(text, "%ld", (long)word); return (size_t)snprintf(model, room, "%ld", (long)word);
    case 7:
        hk_text_add(text, "%c", 'a' + (int)(word % 26));
        return (size_t)snprintf(model, room, "%c", 'a' + (int)(word % 26));
    default:
        fuzz_text(in, string, sizeof string);
        hk_text_add(text, "<%s>", string);
        return (size_t)snprintf(model, room, "<%s>", string);
    }
}

void fuzz_message(struct fuzz_input *in)
{
    static char model[65536];
    struct hk_text kept, sent;
    size_t used = 0;
    fake_os_capture();
    hk_text_init(&sent, HK_STDERR_ASKED_FOR);
    hk_text_init(&kept, HK_NOWHERE);
    while (fuzz_next(in) && used < sizeof model - 1024) {
        const uint8_t *again = in->at;
        size_t more = add_piece(in, &sent, model + used, sizeof model - used);
        in->at = again;
        FUZZ_CHECK(add_piece(in, &kept, model + used, sizeof model - used) == more);
        used += more;
    }
    hk_text_flush(&sent);
    FUZZ_CHECK(fake_os.captured_bytes == used && memcmp(fake_os.captured, model, used) == 0);
    size_t room = sizeof kept.bytes < used ? sizeof kept.bytes : used;
    FUZZ_CHECK(kept.used == room && memcmp(kept.bytes, model, room) == 0);
}

/* Tests locks in one thread. A model says which locks are held. An unlock must clear the mark of a waiter. */
void fuzz_lock(struct fuzz_input *in)
{
    static struct hk_lock locks[3] = {HK_LOCK_INIT(HK_RANK_DRAIN), HK_LOCK_INIT(HK_RANK_LARGE),
                                      HK_LOCK_INIT(HK_RANK_META)};
    unsigned held = 0; /* The first `held` locks are held, in ascending rank. */
    while (fuzz_next(in)) {
        switch (fuzz_byte(in) % 4) {
        case 0:
            if (held < 3)
                hk_lock(&locks[held++]);
            break;
        case 1:
            if (held < 3)
                FUZZ_CHECK(hk_try_lock(&locks[held++]));
            break;
        case 2:
            if (held > 0)
                hk_unlock(&locks[--held]);
            break;
        default:
            if (held > 0)
                FUZZ_CHECK(!hk_try_lock(&locks[fuzz_below(in, held)]));
            break;
        }
        for (unsigned i = 0; i < 3; i++)
            FUZZ_CHECK((hk_load(locks[i].xstate) != 0) == (i < held) &&
                       (!HK_DEBUG || (hk_lock_is_held(locks[i].rank) || !(i < held))));
    }
    while (held > 0)
        hk_unlock(&locks[--held]);
}
