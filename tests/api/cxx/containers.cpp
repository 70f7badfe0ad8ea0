/* Usage: test_containers [leak]
 * Tests standard containers on hakmem::allocator and on the process resource. Checks their contents and alignment, with threads and static
 * objects. HAKMEM must serve all their blocks and get every block back, which the test counts. With `leak` it keeps one block, which the test
 * must notice. */
#include <hakmem.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
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
        std::fprintf(stderr, "containers.cpp:%d: %s\n", line, what);
    }
}

#define MUST(...) must_at(__LINE__, (__VA_ARGS__), #__VA_ARGS__)

template <class T> using vector = std::vector<T, hakmem::allocator<T>>;
using string = std::basic_string<char, std::char_traits<char>, hakmem::allocator<char>>;
template <class K, class V> using map = std::map<K, V, std::less<K>, hakmem::allocator<std::pair<const K, V>>>;

struct hasher {
    std::size_t operator()(const string &text) const { return std::hash<std::string_view>()(text); }
};
template <class V>
using table = std::unordered_map<string, V, hasher, std::equal_to<string>, hakmem::allocator<std::pair<const string, V>>>;

constexpr int count = 20000;
const char *const long_text = "longer than what a string holds without a block of its own: ";

using allocator = hakmem::allocator<int>;
using traits = std::allocator_traits<allocator>;
static_assert(sizeof(vector<int>) == sizeof(std::vector<int>), "an empty class costs no byte");
static_assert(std::is_empty_v<allocator> && std::is_nothrow_default_constructible_v<allocator>);
static_assert(std::is_nothrow_copy_constructible_v<allocator> && std::is_nothrow_copy_assignable_v<allocator>);
static_assert(std::is_nothrow_constructible_v<allocator, const hakmem::allocator<string> &>);
static_assert(traits::is_always_equal::value && traits::propagate_on_container_move_assignment::value);
static_assert(std::is_same_v<traits::rebind_alloc<long>, hakmem::allocator<long>>);
static_assert(std::is_nothrow_move_constructible_v<vector<int>> && std::is_nothrow_move_assignable_v<vector<int>>);
static_assert(std::is_nothrow_swappable_v<vector<int>>);
static_assert(hakmem::allocator<int>() == hakmem::allocator<long>() && !(hakmem::allocator<int>() != hakmem::allocator<long>()));
static_assert(noexcept(allocator().deallocate(nullptr, 0)) && !noexcept(allocator().allocate(1)));
static_assert(std::is_constructible_v<hakmem::allocator<int>, const hakmem::allocator<void> &>);

#if defined(__cpp_lib_constexpr_vector) && defined(__cpp_lib_constexpr_dynamic_alloc)
constexpr int sum_to(int last)
{
    vector<int> numbers;
    for (int i = 1; i <= last; i++)
        numbers.push_back(i);
    return std::accumulate(numbers.begin(), numbers.end(), 0);
}
static_assert(sum_to(100) == 5050, "a container in a constant expression");
#endif

hak_stats now()
{
    hak_stats stats;
    MUST(hak_get_stats(&stats, sizeof stats) == 0);
    return stats;
}

/* Runs `work`. HAKMEM must serve at least `least` blocks for `work`, and all except `most_kept` of them must be freed. */
template <class Work> void balanced(int line, std::uint64_t least, Work work, std::uint64_t most_kept = 0)
{
    const hak_stats before = now();
    work();
    const hak_stats after = now();
    must_at(line, after.mallocs - before.mallocs >= least, "HAKMEM served the containers");
    must_at(line, after.mallocs - before.mallocs <= after.frees - before.frees + most_kept, "each block came back");
}

#define BALANCED(least, ...) balanced(__LINE__, least, __VA_ARGS__)

void test_sequences()
{
    vector<int> numbers(allocator{});
    for (int i = 0; i < count; i++)
        numbers.push_back(i);
    vector<int> copy = numbers, moved = std::move(numbers);
    MUST(copy == moved && std::accumulate(moved.begin(), moved.end(), 0) == (count - 1) * (count / 2));
    copy.resize(10);
#ifdef __cpp_exceptions // without exceptions, libstdc++ does not shrink
    copy.shrink_to_fit();
    MUST(hak_malloc_usable_size(copy.data()) >= 10 * sizeof(int) && hak_malloc_usable_size(copy.data()) < 200);
#endif
    copy.swap(moved);
    MUST(copy.size() == count && moved.size() == 10);

    std::list<long, hakmem::allocator<long>> list(copy.begin(), copy.begin() + 1000);
    std::list<long, hakmem::allocator<long>> other(3, 7);
    list.splice(list.end(), other);
    MUST(list.size() == 1003 && list.back() == 7 && other.empty());
    std::deque<string, hakmem::allocator<string>> deque(100, string(long_text));
    deque.emplace_front("first");
    MUST(deque.size() == 101 && deque.front() == "first" && deque.back() == long_text);
    vector<bool> bits(5000, true);
    MUST(bits[4999]);
}

void test_maps()
{
    map<int, string> names;
    table<vector<int>> lists;
    for (int i = 0; i < count / 10; i++) {
        string name = long_text;
        name += std::to_string(i).c_str();
        names.emplace(i, name);
        lists[name].assign(static_cast<std::size_t>(i % 50), i);
    }
    MUST(names.size() == count / 10 && lists.size() == names.size());
    for (const auto &[number, name] : names)
        MUST(lists.at(name).size() == static_cast<std::size_t>(number % 50));
    auto node = names.extract(17);
    node.key() = -1;
    names.insert(std::move(node));
    MUST(names.begin()->first == -1 && names.count(17) == 0);
    std::set<int, std::less<int>, allocator> sorted{3, 1, 2};
    MUST(*sorted.begin() == 1);
}

void test_shared_pointer()
{
    auto shared = std::allocate_shared<string>(hakmem::allocator<void>(), long_text);
    std::weak_ptr<string> weak = shared;
    MUST(*shared == long_text && hak_malloc_usable_size(shared->data()) > 0);
    shared.reset();
    MUST(weak.expired());
}

template <std::size_t Alignment> struct alignas(Alignment) aligned {
    unsigned char bytes[Alignment];
};

bool at(const void *pointer, std::size_t alignment) { return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0; }

template <std::size_t Alignment> void test_over_aligned()
{
    vector<aligned<Alignment>> many;
    map<int, aligned<Alignment>> tree;
    for (int i = 0; i < 40; i++) {
        many.emplace_back();
        MUST(at(many.data(), Alignment));
        MUST(at(&tree[i], Alignment));
        std::memset(many.back().bytes, i, Alignment);
    }
    MUST(many[39].bytes[Alignment - 1] == 39 && many[0].bytes[0] == 0);
}

#ifdef __cpp_lib_memory_resource

void test_pmr()
{
    std::pmr::vector<std::pmr::string> texts(hakmem::process_resource());
    for (int i = 0; i < 1000; i++)
        texts.emplace_back(long_text);
    MUST(texts[999].get_allocator().resource() == hakmem::process_resource());
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> lists(hakmem::process_resource());
    lists[texts[0]].push_back(1);
    std::pmr::unordered_map<int, std::pmr::string> names(hakmem::process_resource());
    names.emplace(1, long_text);
    MUST(names.at(1) == lists.begin()->first);

    /* Because the resources are equal, a move takes the blocks over. */
    hakmem::memory_resource own;
    const std::pmr::string *first = texts.data();
    std::pmr::vector<std::pmr::string> taken(&own);
    taken = std::move(texts);
#ifdef __cpp_rtti
    MUST(own == *hakmem::process_resource() && taken.data() == first);
#else
    MUST(own == own && taken.size() == 1000 && first != nullptr);
#endif
    MUST(own != *std::pmr::new_delete_resource() && *std::pmr::new_delete_resource() != own);
}

void test_pools()
{
    std::pmr::unsynchronized_pool_resource pool(hakmem::process_resource());
    std::pmr::monotonic_buffer_resource line(hakmem::process_resource());
    std::pmr::list<int> pooled(&pool);
    std::pmr::vector<int> lined(&line);
    for (int i = 0; i < count; i++) {
        pooled.push_back(i);
        lined.push_back(i);
    }
    MUST(pooled.back() == lined.back());
}

void test_pmr_alignment()
{
    std::pmr::memory_resource *resource = hakmem::process_resource();
    for (std::size_t alignment = 1; alignment <= std::size_t(4) << 20; alignment *= 2)
        for (std::size_t size : {std::size_t(0), std::size_t(1), std::size_t(100), alignment + 1, std::size_t(2) << 20}) {
            void *block = resource->allocate(size, alignment);
            MUST(at(block, alignment));
            std::memset(block, 0x5A, size);
            resource->deallocate(block, size, alignment);
        }
}

void test_default_resource()
{
    std::pmr::memory_resource *before = std::pmr::set_default_resource(hakmem::process_resource());
    {
        std::pmr::vector<int> numbers(1000, 1);
        MUST(hak_malloc_usable_size(numbers.data()) >= 1000 * sizeof(int));
    }
    std::pmr::set_default_resource(before);
}

#endif

void test_threads()
{
    vector<map<int, string>> maps(4);
    vector<std::thread> threads;
    for (map<int, string> &one : maps)
        threads.emplace_back([&one] {
            for (int i = 0; i < 1000; i++)
                one.emplace(i, long_text);
        });
    for (std::thread &thread : threads)
        thread.join();
    std::thread([taken = std::move(maps)]() mutable {
        MUST(taken[3].size() == 1000);
        taken.clear();
    }).join();
}

/* An object that is filled before main and emptied after it. */
struct early {
    vector<string> texts;
    early() : texts(100, string(long_text)) {}
    ~early()
    {
        texts.emplace_back("after main");
        MUST(texts.size() == 101);
        if (failures > 0)
            std::_Exit(1);
    }
} before_main;

} // namespace

int main(int arguments, char **argument)
{
    BALANCED(1000, test_sequences);
    BALANCED(4000, test_maps);
    BALANCED(2, test_shared_pointer);
    BALANCED(40, test_over_aligned<32>);
    BALANCED(40, test_over_aligned<64>);
    BALANCED(40, test_over_aligned<4096>);
    BALANCED(40, test_over_aligned<131072>);
#ifdef __cpp_lib_memory_resource
    BALANCED(1000, test_pmr);
    BALANCED(5, test_pools);
    BALANCED(100, test_pmr_alignment);
    BALANCED(1, test_default_resource);
#else
    std::puts("left out: this C++ library has no <memory_resource>");
#endif
    // The C library keeps the stacks of ended threads, and tables for them on the heap.
    BALANCED(4000, test_threads, 40);
    void *kept = nullptr;
    BALANCED(1, [&] {
        vector<int> numbers(100);
        if (arguments > 1 && std::strcmp(argument[1], "leak") == 0)
            kept = hakmem::allocator<char>().allocate(10);
    });
    hak_free(kept);
    MUST(before_main.texts.size() == 100);
    return failures > 0 ? 1 : 0;
}
