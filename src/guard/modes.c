/* Translates HAKMEM_SAFE_FREE and HAKMEM_HARDENED into protections, and puts the protections in force. */
#include "guard/states.h"
#include "slab/slab_heap.h"
#include "span/chunks.h"
#include "span/meta_regions.h"
#include "tcache/layout.h"

/* The words are stored as arrays of text, because pointers to text would have to be relocated by the loader. */
static const char words[HK_PROTECTIONS][12] = {
#define HK_PROTECTION(word, meaning) #word,
#include "guard/protections.def"
};

#define BIT(word) ((uint32_t)1 << HK_PROTECTION_##word)
#define ALL (((uint32_t)1 << HK_PROTECTIONS) - 1)

static const char known_words[] = "1 for all"
#define HK_PROTECTION(word, meaning) ", " #word
#include "guard/protections.def"
    ;

static uint32_t hardened_words(const char *text)
{
    uint32_t found = 0;
    for (const char *end; text != NULL && *text != 0; text = *end == 0 ? NULL : end + 1) {
        end = strchrnul(text, ',');
        size_t length = (size_t)(end - text);
        uint32_t named = length == 1 && *text == '1' ? ALL : 0;
        for (unsigned n = 0; n < HK_PROTECTIONS; n++)
            if (strlen(words[n]) == length && memcmp(words[n], text, length) == 0)
                named = (uint32_t)1 << n;
        if (named == 0 && (length != 1 || *text != '0'))
            hk_message(HK_TEXT_hardened_word, (int)length, text, known_words);
        found |= named;
    }
    return found != 0 ? found | BIT(check) : 0;
}

HK_EACH_PROCESS void hk_guard_begin(void)
{
    bool checks = hk_options.safe_free == HK_SAFE_FREE_ON || hk_options.safe_free == HK_SAFE_FREE_STRICT;
    bool tracks = hk_options.trace_remote == HK_TRACE_REMOTE_ON;
    bool by_library = hk_options.hardened == NULL && HK_HARDENED_LIBRARY; /* this library defaults to all protections */
    uint32_t hardened = by_library ? ALL : hardened_words(hk_options.hardened);
    hk_guard.words = hardened | (checks ? BIT(check) | BIT(kinds) : 0) | (tracks ? BIT(check) : 0);
    if (hk_guard.words == 0)
        return;
    if (!hk_os.random(&hk_guard.secret, sizeof hk_guard.secret))
        hk_guard.secret =
            hk_os.clock_ns() * 0x9e3779b97f4a7c15u ^ (uintptr_t)__builtin_frame_address(0) ^ (uintptr_t)&hk_guard >> 12;
    hk_guard.leaves = hk_options.safe_free == HK_SAFE_FREE_ON && hardened == 0;
    hk_guard.contents =
        (hk_guard.words & (BIT(canary) | BIT(zero) | BIT(neighbors) | BIT(pages) | BIT(quarantine))) != 0;
    hk_large_freed_are_intact = !hk_guard.contents;
    hk_page_heap_guarded = HK_GUARDS(pages);
    hk_meta_guarded = HK_GUARDS(metadata);
    hk_bins_random = HK_GUARDS(random) ? hk_guard.secret : 0;
    hk_quarantine_seed = hk_guard.secret;
    hk_slab_heap_joins = false; /* no joined blocks, because the guard takes a block's size from its class */
    if (HK_GUARDS(empty) && !hk_empties_begin())
        hk_message(HK_TEXT_empty_memory);
    hk_guard.least = HK_GUARDS(empty);
    hk_guard.canary = hk_guard.contents ? sizeof(uint64_t) : 0;
    hk_guard.small = HK_FINE_MAX - hk_guard.canary;
    hk_guard.frees_plainly = !hk_guard.contents && !hk_remote_track.on;
    hk_guard.on = true;
    hk_mode_set(HK_MODE_GUARD);
}
