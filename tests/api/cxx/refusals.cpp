/* Usage: test_refusals  (with HAKMEM_LIMIT=64m)
 * Tests containers when memory is refused. Their functions must throw std::bad_alloc or std::bad_array_new_length, and keep the contents. The new
 * handler must be called as operator new calls it, and later requests must succeed. */
#include <hakmem.hpp>

#include <cstdint>
#include <cstdio>
#include <list>
#include <string>
#include <typeinfo>
#include <vector>

namespace
{

int failures;

void must_at(int line, bool good, const char *what)
{
    if (!good) {
        failures++;
        std::fprintf(stderr, "refusals.cpp:%d: %s\n", line, what);
    }
}

#define MUST(...) must_at(__LINE__, (__VA_ARGS__), #__VA_ARGS__)

constexpr std::size_t mib = 1 << 20, limit = 64 * mib;

template <class Exception, class Work> bool refused(Work work)
{
    try {
        work();
    } catch (const std::bad_alloc &thrown) {
        return typeid(thrown) == typeid(Exception);
    }
    return false;
}

volatile std::size_t huge = SIZE_MAX; // volatile, because a compiler warns about a constant
int handler_calls;
std::vector<char, hakmem::allocator<char>> reserve;

void test_sizes()
{
    hakmem::allocator<std::uint64_t> words;
    MUST(refused<std::bad_array_new_length>([&] { (void)words.allocate(SIZE_MAX / 8 + 1); }));
    MUST(refused<std::bad_array_new_length>([&] { (void)words.allocate(SIZE_MAX); }));
    MUST(!refused<std::bad_array_new_length>([&] { (void)words.allocate(SIZE_MAX / 8); }));
    MUST(refused<std::bad_alloc>([&] { (void)words.allocate(huge / 16 + 1); }));
}

template <class Vector> void keeps_its_contents(Vector &numbers)
{
    numbers.assign(1000, 42);
    const int *where = numbers.data();
    MUST(refused<std::bad_alloc>([&] { numbers.reserve(2 * limit); }));
    MUST(refused<std::bad_alloc>([&] { numbers.resize(limit); }));
    MUST(numbers.size() == 1000 && numbers.data() == where && numbers[999] == 42);
    numbers.push_back(43);
    MUST(numbers.size() == 1001 && numbers.back() == 43);
}

/* Fills the list until memory is refused, and again after the list was cleared. */
template <class List> void until_full(List list)
{
    for (int round = 0; round < 2; round++) {
        MUST(refused<std::bad_alloc>([&] {
            for (;;)
                list.emplace_back(mib / 4 + list.size(), 'x');
        }));
        MUST(list.size() > 32 && list.back().back() == 'x');
        list.clear();
    }
}

void give_up()
{
    handler_calls++;
    if (handler_calls == 3)
        std::set_new_handler(nullptr);
}

void give_reserve()
{
    handler_calls++;
    std::vector<char, hakmem::allocator<char>>().swap(reserve);
}

void test_handler()
{
    hakmem::allocator<char> bytes;
    handler_calls = 0;
    std::set_new_handler(give_up);
    MUST(refused<std::bad_alloc>([&] { (void)bytes.allocate(2 * limit); }));
    MUST(handler_calls == 3);

    /* A call whose new handler frees memory must succeed. */
    handler_calls = 0;
    reserve.resize(40 * mib);
    std::set_new_handler(give_reserve);
    char *block = bytes.allocate(40 * mib);
    std::set_new_handler(nullptr);
    MUST(handler_calls == 1 && block != nullptr);
    bytes.deallocate(block, 40 * mib);

    handler_calls = 0;
    std::set_new_handler(give_up);
    MUST(refused<std::bad_array_new_length>([] { (void)hakmem::allocator<int>().allocate(SIZE_MAX); }));
    MUST(handler_calls == 0);
    std::set_new_handler(nullptr);
}

#ifdef __cpp_lib_memory_resource
void test_resource()
{
    std::pmr::memory_resource *resource = hakmem::process_resource();
    MUST(refused<std::bad_alloc>([&] { (void)resource->allocate(2 * limit); }));
    MUST(refused<std::bad_alloc>([&] { (void)resource->allocate(2 * limit, 4096); }));
    MUST(refused<std::bad_alloc>([&] { (void)resource->allocate(huge, 64); }));
    std::pmr::vector<int> numbers(resource);
    keeps_its_contents(numbers);
    until_full(std::pmr::list<std::pmr::string>(resource));
}
#endif

} // namespace

int main()
{
    test_sizes();
    std::vector<int, hakmem::allocator<int>> numbers;
    keeps_its_contents(numbers);
    using text = std::basic_string<char, std::char_traits<char>, hakmem::allocator<char>>;
    until_full(std::list<text, hakmem::allocator<text>>());
    test_handler();
#ifdef __cpp_lib_memory_resource
    test_resource();
#endif
    return failures > 0 ? 1 : 0;
}
