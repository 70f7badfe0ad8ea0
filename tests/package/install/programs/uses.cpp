// Exits with 0 if HAKMEM serves operator new and the containers, even when they throw exceptions.
#include <hakmem.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

int main(int argc, char **argv)
{
    std::map<std::string, std::vector<int>> table;
    for (int i = 0; i < 1000; i++)
        table["a key that no small string holds " + std::to_string(i)].resize(static_cast<std::size_t>(i));
    if (table.size() != 1000)
        return 1;
    auto number = std::make_unique<long>(7);
    if (hak_malloc_usable_size(number.get()) < sizeof(long))
        return 2;
    struct alignas(256) Wide { char bytes[256]; };
    auto wide = std::make_unique<Wide>();
    if (reinterpret_cast<std::uintptr_t>(wide.get()) % 256 != 0)
        return 3;
    std::pmr::vector<int> numbers(100, 1, hakmem::process_resource());
    if (hak_malloc_usable_size(numbers.data()) < 100 * sizeof(int))
        return 6;
    std::size_t volatile huge = SIZE_MAX / 4;
    try {
        void *volatile block = ::operator new(huge);
        ::operator delete(block);
        return 4;
    } catch (const std::bad_alloc &) {
    }
    std::printf("%s\n", hak_version());
    return argc > 1 && std::strcmp(argv[1], hak_version()) != 0 ? 5 : 0;
}
