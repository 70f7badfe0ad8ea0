/* Usage: test_cxx_heaps
 * Tests hakmem::heap, heap_allocator and heap_resource with standard containers. Checks the heap of each block, also after moves and swaps,
 * exceptions at a limit, and a reset of a heap that has containers. Every block must be freed. */
#include <hakmem.hpp>

#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace
{

int failures;

void must_at(int line, bool good, const char *what)
{
    if (!good) {
        failures++;
        std::fprintf(stderr, "heaps.cpp:%d: %s\n", line, what);
    }
}

#define MUST(...) must_at(__LINE__, (__VA_ARGS__), #__VA_ARGS__)

constexpr std::size_t mib = 1 << 20;
template <class T> using vector = std::vector<T, hakmem::heap_allocator<T>>;

static_assert(!std::is_copy_constructible_v<hakmem::heap> && std::is_nothrow_move_constructible_v<hakmem::heap>);
static_assert(std::is_nothrow_move_assignable_v<hakmem::heap> && sizeof(hakmem::heap) == sizeof(void *));
static_assert(!std::allocator_traits<hakmem::heap_allocator<int>>::is_always_equal::value);

bool is_empty(const hakmem::heap &heap) { return heap.stats().live_blocks == 0; }

void owns_and_moves()
{
    hakmem::heap first("first"), second("second", 8 * mib);
    hak_heap_t *const handle = first.get();
    hakmem::heap moved(std::move(first));
    MUST(moved.get() == handle && std::string(moved.stats().name) == "first" && second.stats().limit == 8 * mib);
    hak_heap_t *const ended = second.get();
    second = std::move(moved);
    MUST(second.get() == handle && hak_heap_reset(ended) == -1);
    hak_heap_t *const released = second.release();
    MUST(second.get() == nullptr && hak_heap_destroy(released) == 0);
}

void containers()
{
    hakmem::heap one("one"), two("two");
    const hakmem::heap_allocator<int> in_one(one), in_two(two);
    MUST(in_one == hakmem::heap_allocator<long>(one) && in_one != in_two);
    vector<int> numbers(in_one), others({1, 2, 3}, in_two);
    for (int i = 0; i < 100000; i++)
        numbers.push_back(i);
    MUST(hak_heap_of(numbers.data()) == one.get() && hak_heap_of(others.data()) == two.get());
    vector<int> copy = numbers;
    MUST(hak_heap_of(copy.data()) == one.get() && copy == numbers);
    others = std::move(numbers);
    MUST(hak_heap_of(others.data()) == one.get() && others.size() == 100000 && is_empty(two));
    vector<int> mine({7}, in_two);
    std::swap(mine, others);
    MUST(hak_heap_of(mine.data()) == one.get() && hak_heap_of(others.data()) == two.get());
    std::map<int, std::string, std::less<int>, hakmem::heap_allocator<std::pair<const int, std::string>>> tree(
        hakmem::heap_allocator<std::pair<const int, std::string>>{two});
    std::list<double, hakmem::heap_allocator<double>> list(hakmem::heap_allocator<double>{two});
    for (int i = 0; i < 3000; i++) {
        tree[i * 7 % 3001] = std::to_string(i);
        list.push_back(i);
    }
    MUST(two.stats().live_blocks > 6000);
    struct alignas(256) wide {
        char bytes[256];
    };
    vector<wide> widest(10, hakmem::heap_allocator<wide>{one});
    MUST(reinterpret_cast<std::uintptr_t>(widest.data()) % 256 == 0);
    const auto shared = std::allocate_shared<int>(in_two, 42);
    MUST(*shared == 42 && hak_heap_of(shared.get()) == two.get());
}

void resources()
{
    hakmem::heap heap("resource"), other;
    {
        hakmem::heap_resource resource(heap), same(heap), unlike(other);
        MUST(resource == resource && resource != unlike);
#ifdef __cpp_rtti
        MUST(resource == same);
#endif
        std::pmr::unordered_map<std::pmr::string, std::pmr::vector<int>> table(&resource);
        for (int i = 0; i < 2000; i++)
            table[std::pmr::string("a key that is longer than what lies in the object ", &resource) + std::to_string(i % 300).c_str()].push_back(i);
        MUST(table.size() == 300 && heap.stats().live_blocks > 900);
        std::pmr::monotonic_buffer_resource arena(&resource);
        MUST(hak_heap_of(arena.allocate(100000)) == heap.get());
        std::thread([&] { table.clear(); }).join(); // in any thread
    }
    MUST(is_empty(heap) && is_empty(other));
    std::printf("the heap handed out %llu blocks\n", static_cast<unsigned long long>(heap.stats().mallocs));
}

#ifdef __cpp_exceptions
void limits()
{
    hakmem::heap small("small", 2 * mib);
    vector<std::uint64_t> numbers{hakmem::heap_allocator<std::uint64_t>(small)};
    bool refused = false;
    try {
        for (;;)
            numbers.push_back(1);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    MUST(refused && !numbers.empty() && small.stats().peak <= 2 * mib && small.stats().refused > 0);
    small.set_limit(0);
    numbers.resize(mib);
    MUST(small.stats().physical >= 8 * mib);
}
#endif

// Tests containers that are not destroyed one by one. A reset of their heap frees their memory.
void left_to_reset()
{
    hakmem::heap heap("query");
    for (int query = 0; query < 50; query++) {
        using rows = vector<int>;
        rows *const left = hakmem::heap_allocator<rows>(heap).allocate(1);
        new (left) rows(1000 + 100 * static_cast<std::size_t>(query), hakmem::heap_allocator<int>(heap));
        MUST(heap.stats().live_blocks == 2);
        heap.reset();
        MUST(is_empty(heap) && heap.stats().physical == 0);
    }
    MUST(heap.stats().resets == 50);
}

} // namespace

int main()
{
    owns_and_moves();
    containers();
    resources();
#ifdef __cpp_exceptions
    limits();
#endif
    left_to_reset();
    return failures == 0 ? 0 : 1;
}
