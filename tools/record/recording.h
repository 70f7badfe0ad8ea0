/* Recording: defines the format of a recording, which is the file of one recorded process, and encodes events.
 * docs/RECORDING.md describes the format.
 *
 *   file    a head of 64 KiB, then chunks of 64 KiB; 64 KiB is a multiple of every system's page size, so that each part can be mapped by itself
 *   chunk   struct rec_chunk, then events, which end at an event head of zero
 *   event   a head of 2 bytes, then the fields order, address, size and extra, whose lengths the head gives
 *
 * Integers are little-endian. The recorder writes the fields of an event before the head, because the process may be killed at any
 * instruction. So a chunk always ends with a complete event. */
#ifndef REC_RECORDING_H
#define REC_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REC_MAGIC 0x0231434552414b48ull /* "HAKREC1", 2 */
#define REC_CHUNK_MAGIC 0x4b4e4843u     /* "CHNK" */
#define REC_HEAD_BYTES ((size_t)65536)
#define REC_CHUNK_BYTES ((size_t)65536)
#define REC_PAGE ((size_t)4096) /* the unit of touched memory; a page of the system has one or several units */
#define REC_LARGE_BLOCK ((size_t)128 << 10) /* the touched pages of blocks of this size or more are counted */
#define REC_ALWAYS_FROM ((size_t)64 << 10)  /* a sample takes all blocks of this size or more */
#define REC_SAMPLE_MOST 65536u
#define REC_SIZE_MOST (((uint64_t)1 << 56) - 1) /* recorded instead of larger sizes, which no allocator serves */
#define REC_PROGRAM_BYTES 256

/* The numbers of the kinds are part of the format. */
enum rec_kind {
    REC_END,    /* marks the end of the chunk, and is not an event */
    REC_THREAD, /* the next events belong to the thread with the number `size`, and their order begins at `address` */
    REC_MALLOC,
    REC_CALLOC,
    REC_ALIGNED, /* memalign and similar functions; extra is the logarithm of the alignment, as in REC_NEW_ALIGNED */
    REC_NEW,
    REC_NEW_ALIGNED,
    REC_FREE, /* extra is the number of touched pages + 1 if the block is large, also for the next two kinds and REC_REALLOC */
    REC_DELETE,       /* operator delete without a size */
    REC_DELETE_SIZED, /* operator delete with a size */
    REC_REALLOC,      /* noted before a realloc that resizes the block at `address` to `size` bytes */
    REC_MOVED,        /* noted after the realloc; `address` is the new address, or 0 if realloc returned NULL */
    REC_THREAD_END,
    REC_KINDS
};

struct rec_head {
    uint64_t magic;
    uint32_t head_bytes, chunk_bytes;
    uint32_t sample; /* one block in `sample` is recorded, chosen by its address; 1: all blocks */
    uint32_t ended;  /* 1 if the process ended by exit or _exit */
    uint64_t pid;
    uint64_t began_ns; /* by the real-time clock */
    uint64_t chunks;   /* number of chunks that have been begun */
    uint64_t lost;     /* 1 if the recording stopped because the file could not grow */
    /* Figures of the process, which are updated when some of the chunks begin, and when the process ends. */
    uint64_t peak_rss_kib, file_rss_kib, first_anon_kib;
    uint64_t faults, cpu_us, wall_us, began_us;
    char program[REC_PROGRAM_BYTES];
};

struct rec_chunk {
    uint32_t magic;
    uint32_t closed; /* 1 if `sum` is valid */
    uint64_t sum;    /* checksum of all bytes after this structure */
    uint64_t at_ns;  /* time of the monotonic clock when the chunk was begun */
    uint64_t used;   /* bytes that ended threads have used; not needed to read the chunk */
};

struct rec_event {
    uint64_t order; /* place among the events of all threads; REC_THREAD does not use it */
    uint64_t address, size;
    uint32_t extra;
    uint32_t thread;
    uint8_t kind;
    bool weight_one; /* the sample has the block because of its size, so the block stands for itself only */
};

/* The bit fields in the head of an event. The kind has the lowest bits. */
enum {
    REC_KIND_BITS = 4,
    REC_ORDER_AT = 4,   /* 2 bits; the distance to the order of the last event, minus 1, has 0, 1, 4 or 8 bytes */
    REC_ADDRESS_AT = 6, /* 3 bits; number of bytes of the address, a zigzag difference to the last address */
    REC_SIZE_AT = 9,    /* 3 bits; the number of bytes of the size */
    REC_EXTRA_AT = 12,  /* 2 bits; extra has 0, 1, 2 or 4 bytes */
    REC_UNIT_AT = 14,   /* the unit of the difference of addresses is one byte (1) or 16 bytes (0) */
    REC_WEIGHT_AT = 15  /* weight_one */
};
#define REC_EVENT_MOST ((size_t)2 + 8 + 7 + 7 + 4)
#define REC_EVENT_ROOM (REC_EVENT_MOST + 16) /* fields are written as whole words, and zeros must follow the event */

/* The order and the address of the next event are stored relative to this base. A REC_THREAD event sets the base. */
struct rec_base {
    uint64_t order, address;
};

static inline unsigned rec_bytes_of(uint64_t value)
{
    return value == 0 ? 0 : (71 - (unsigned)__builtin_clzll(value)) / 8;
}

static inline uint64_t rec_zigzag(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t rec_unzigzag(uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

static inline uint8_t *rec_put_word(uint8_t *to, uint64_t value, unsigned bytes)
{
    memcpy(to, &value, sizeof value);
    return to + bytes;
}

/* Writes the event to `at`, where REC_EVENT_ROOM zero bytes must be free, and returns the end of the event. */
static inline uint8_t *rec_encode(uint8_t *at, struct rec_base *base, const struct rec_event *event)
{
    uint64_t step = event->order - base->order - 1, apart = event->address - base->address;
    unsigned order_code = step == 0 ? 0 : step < 256 ? 1 : step <= UINT32_MAX ? 2 : 3;
    unsigned unit = (apart & 15) != 0;
    uint64_t folded = rec_zigzag(unit != 0 ? apart : (uint64_t)((int64_t)apart >> 4));
    uint64_t size = event->size < REC_SIZE_MOST ? event->size : REC_SIZE_MOST;
    unsigned address_bytes = rec_bytes_of(folded), size_bytes = rec_bytes_of(size);
    unsigned extra_code = event->extra == 0 ? 0 : event->extra < 256 ? 1 : event->extra < 65536 ? 2 : 3;
    uint8_t *to = at + 2;
    to = rec_put_word(to, step, (unsigned)(0x8410 >> order_code * 4 & 15));
    to = rec_put_word(to, folded, address_bytes);
    to = rec_put_word(to, size, size_bytes);
    to = rec_put_word(to, event->extra, (unsigned)(0x4210 >> extra_code * 4 & 15));
    uint16_t head = (uint16_t)(event->kind | order_code << REC_ORDER_AT | address_bytes << REC_ADDRESS_AT |
                               size_bytes << REC_SIZE_AT | extra_code << REC_EXTRA_AT | unit << REC_UNIT_AT |
                               (unsigned)event->weight_one << REC_WEIGHT_AT);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    memcpy(at, &head, sizeof head);
    base->order = event->order;
    base->address = event->address;
    return to;
}

/* Reads a field, and moves *at to the end of the field. Reads a whole word if `limit` allows it, because a copy of `bytes` bytes is slow. */
static inline uint64_t rec_take_word(const uint8_t **at, const uint8_t *limit, unsigned bytes)
{
    uint64_t value = 0;
    if ((size_t)(limit - *at) >= sizeof value)
        __builtin_memcpy(&value, *at, sizeof value);
    else
        memcpy(&value, *at, bytes);
    *at += bytes;
    return bytes == 0 ? 0 : value & UINT64_MAX >> (64 - 8 * bytes);
}

/* Reads the event at `at`, and returns its end. Returns NULL if the event goes beyond `limit`, or if its order is not after that of the base. */
static inline const uint8_t *rec_decode(const uint8_t *at, const uint8_t *limit, struct rec_base *base,
                                        struct rec_event *event)
{
    if (limit - at < 2)
        return NULL;
    unsigned head = (unsigned)rec_take_word(&at, limit, 2);
    unsigned order_bytes = 0x8410u >> (head >> REC_ORDER_AT & 3) * 4 & 15;
    unsigned address_bytes = head >> REC_ADDRESS_AT & 7, size_bytes = head >> REC_SIZE_AT & 7;
    unsigned extra_bytes = 0x4210u >> (head >> REC_EXTRA_AT & 3) * 4 & 15;
    if (limit - at < (ptrdiff_t)(order_bytes + address_bytes + size_bytes + extra_bytes))
        return NULL;
    uint64_t step = rec_take_word(&at, limit, order_bytes);
    uint64_t apart = rec_unzigzag(rec_take_word(&at, limit, address_bytes));
    *event = (struct rec_event){.order = base->order + 1 + step,
                                .address = base->address + ((head >> REC_UNIT_AT & 1) != 0 ? apart : apart << 4),
                                .kind = (uint8_t)(head & ((1u << REC_KIND_BITS) - 1)),
                                .weight_one = head >> REC_WEIGHT_AT != 0};
    event->size = rec_take_word(&at, limit, size_bytes);
    event->extra = (uint32_t)rec_take_word(&at, limit, extra_bytes);
    bool later = base->order == UINT64_MAX ? step < UINT64_MAX : event->order > base->order;
    *base = (struct rec_base){event->order, event->address};
    return later ? at : NULL;
}

/* Returns the checksum of the bytes that follow struct rec_chunk. */
static inline uint64_t rec_sum(const void *chunk)
{
    const uint8_t *bytes = (const uint8_t *)chunk + sizeof(struct rec_chunk);
    uint64_t sum = 0x9e3779b97f4a7c15ull, word;
    for (size_t i = 0; i < REC_CHUNK_BYTES - sizeof(struct rec_chunk); i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word) * 0xff51afd7ed558ccdull;
        sum ^= sum >> 29;
    }
    return sum;
}

/* Returns true if the block at this address is in the sample. The sample has one of `sample` blocks. */
static inline bool rec_sampled(uint64_t address, uint32_t sample)
{
    return sample <= 1 || (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15ull >> 32) < UINT32_MAX / sample;
}

#endif
