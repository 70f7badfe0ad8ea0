/* A block's canary is a secret after the requested bytes. It fills the bytes that rounding adds, at least 8. Only the block's thread uses the canary.
 *
 *   | requested bytes | mark, up to 8 bytes | zeros | word: key ^ slack |        slack = bytes of the block - requested bytes
 *
 * The word holds the slack, so that the requested size is known. The key depends on the address and on the secret. Mark and word begin with a zero
 * byte, so that a read of a string without a final 0 ends at the canary. A final 0 that is written one byte too far does not change the canary. */
#ifndef HK_CANARY_H
#define HK_CANARY_H

#include <string.h>

#include "guard/guard.h"

#define HK_CANARY_BYTES sizeof(uint64_t)
enum { HK_CANARY_CHECKED = 64 }; /* the number of bytes from the mark on that are checked */
#define HK_CANARY_BROKEN SIZE_MAX

HK_INLINE uint64_t hk_canary_key(const char *end)
{
    uint64_t key = ((uintptr_t)end ^ hk_guard.secret) * 0x9e3779b97f4a7c15u;
    return (key ^ key >> 32) << 8;
}
HK_INLINE uint64_t hk_canary_mark(void) { return (hk_guard.secret | 0x0101010101010101u) << 8; }

HK_INLINE uint64_t hk_load64(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
HK_INLINE void hk_store64(char *at, uint64_t word) { memcpy(at, &word, sizeof word); }

/* Writes the canary of a block. If the protection `zero` is in force, the bytes from block + size to end must be zero before the call. */
HK_INLINE void hk_canary_write(char *block, char *end, size_t size)
{
    hk_store64(block + size, hk_canary_mark());
    hk_store64(end - HK_CANARY_BYTES, hk_canary_key(end) ^ (size_t)(end - block - (ptrdiff_t)size) << 8);
}

/* Returns the slack of the block that ends at `end`, or HK_CANARY_BROKEN if the word was overwritten. */
HK_INLINE size_t hk_canary_slack(const char *end, size_t bytes)
{
    uint64_t word = hk_load64(end - HK_CANARY_BYTES) ^ hk_canary_key(end), slack = word >> 8;
    return (word & 0xff) == 0 && slack >= HK_CANARY_BYTES && slack <= bytes ? (size_t)slack : HK_CANARY_BROKEN;
}

/* Returns the requested size of the block, or HK_CANARY_BROKEN if a byte of the canary was overwritten. */
HK_INLINE size_t hk_canary_size(const char *block, const char *end)
{
    size_t slack = hk_canary_slack(end, (size_t)(end - block));
    if (HK_UNLIKELY(slack == HK_CANARY_BROKEN))
        return HK_CANARY_BROKEN;
    size_t between = slack - HK_CANARY_BYTES;
    const char *at = end - slack;
    uint64_t differs = hk_load64(at) ^ hk_canary_mark();
    if (between < sizeof differs)
        differs &= ((uint64_t)1 << between * 8) - 1;
    size_t zeros = HK_GUARDS(zero) ? HK_CANARY_CHECKED : 0, checked = between < zeros ? between : zeros;
    for (size_t i = sizeof differs; i + sizeof differs <= checked; i += sizeof differs)
        differs |= hk_load64(at + i);
    return differs == 0 ? (size_t)(end - block) - slack : HK_CANARY_BROKEN;
}

#endif
