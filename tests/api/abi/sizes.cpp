/* Usage: test_sizes
 * Tests frees with a size. A correct program may pass the size of a block to its free. HAKMEM must accept that size, however the block was
 * allocated or resized. With -DOWN_NEW the program has its own operator new, whose blocks are larger than requested, but no delete. */
#include "support/check.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/resource.h>
#include <thread>
#include <vector>

extern "C" void free_sized(void *block, std::size_t size) __attribute__((weak));
extern "C" void free_aligned_sized(void *block, std::size_t alignment, std::size_t size) __attribute__((weak));

#ifdef OWN_NEW
void *operator new(std::size_t size) { return std::malloc(size + size / 2 + 64); }
#endif

namespace
{

constexpr std::size_t KIB = 1024, MOST = 5 * 1024 * KIB;

template <typename Action> void each_size(Action action)
{
    for (std::size_t size = 1; size < MOST; size += size / 7 + 1) {
        for (std::size_t near : {size - 1, size, (size | 4095), (size | 4095) + 1, (size | 4095) + 2}) {
            action(near);
        }
    }
}

/* This pointer is volatile because a compiler would otherwise remove pairs of allocation and free. */
void *volatile seen;

void plain(std::size_t size)
{
    seen = ::operator new(size);
    ::operator delete(seen, size);
    seen = ::operator new[](size);
    ::operator delete[](seen, size);
    seen = ::operator new(size, std::nothrow);
    ::operator delete(seen, size);
}

void aligned(std::size_t size)
{
    for (std::size_t alignment = 1; alignment <= 512 * KIB; alignment *= 4) {
        const auto at = static_cast<std::align_val_t>(alignment);
        seen = ::operator new(size, at);
        ::operator delete(seen, size, at);
        seen = ::operator new[](size, at);
        ::operator delete[](seen, size, at);
        seen = ::operator new(size, at); /* Code in C++14 deletes this block without its alignment. */
        ::operator delete(seen, size);
    }
}

void resized(std::size_t from, std::size_t to)
{
    seen = std::realloc(std::malloc(from), to);
    CHECK(seen != nullptr, "realloc from %zu to %zu", from, to);
    free_sized(seen, to);
}

void by_free(std::size_t size)
{
    seen = std::malloc(size);
    free_sized(seen, size);
    seen = std::calloc(1, size);
    free_sized(seen, size);
    for (std::size_t alignment : {std::size_t{16}, 4 * KIB, 64 * KIB}) {
        seen = std::aligned_alloc(alignment, size);
        free_aligned_sized(seen, alignment, size);
    }
    for (std::size_t to : {size + 1, size / 2 + 1, size * 2 / 3 + 1, size * 5 / 4 + 1, size / 20 + 1}) {
        resized(size, to);
    }
}

/* Tests blocks that another thread deletes, some of them after the end of the thread that allocated them. */
void across_threads()
{
    std::vector<std::pair<void *, std::size_t>> blocks;
    std::thread([&] { each_size([&](std::size_t size) { blocks.emplace_back(::operator new(size), size); }); }).join();
    std::thread([&] {
        for (std::size_t i = 0; i < blocks.size(); i += 2) {
            ::operator delete(blocks[i].first, blocks[i].second);
        }
    }).join();
    for (std::size_t i = 1; i < blocks.size(); i += 2) {
        ::operator delete(blocks[i].first, blocks[i].second);
    }
}

/* Allocates many blocks of a size, so that bins and depots fill and are flushed. If address space is short, mappings replace slabs. */
void many(std::size_t size)
{
    std::vector<void *> blocks(size < 4096 ? 3000 : 40);
    for (void *&block : blocks) {
        block = ::operator new(size);
    }
    for (void *block : blocks) {
        ::operator delete(block, size);
    }
}

void all()
{
    each_size([](std::size_t size) {
        plain(size);
        aligned(size);
        by_free(size);
    });
    for (std::size_t size : {16U, 700U, 5000U, 33000U, 50000U, 150000U, 500000U}) {
        many(size);
    }
    across_threads();
}

} // namespace

int main()
{
    all();
    const rlimit scarce = {1024 * KIB * KIB, 1024 * KIB * KIB};
    setrlimit(RLIMIT_AS, &scarce);
    all();
    return 0;
}
