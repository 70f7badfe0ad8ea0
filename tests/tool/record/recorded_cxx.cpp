// Uses every form of new and delete, new that throws, and containers. Prints how many blocks each form allocated.
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <new>
#include <string>
#include <unistd.h>
#include <vector>

namespace {
struct alignas(128) wide {
    char bytes[256];
};
unsigned long plain, aligned, deleted;

template <typename T> void pair()
{
    delete new T;
    delete[] new T[3];
    delete new (std::nothrow) T;
    delete[] new (std::nothrow) T[3];
    (alignof(T) > 16 ? aligned : plain) += 4;
    deleted += 4;
}
} // namespace

int main()
{
    for (int i = 0; i < 100; i++) {
        pair<int>();
        pair<wide>();
        ::operator delete(::operator new(50));
        ::operator delete(::operator new(50), std::nothrow);
        plain += 2;
        deleted += 2;
    }
    volatile std::size_t huge = PTRDIFF_MAX;
    int refused = 0;
    try {
        static_cast<void>(::operator new(huge));
    } catch (const std::bad_alloc &) {
        refused = 1; // malloc allocates the memory of the exception
    }
    refused += ::operator new(huge, std::nothrow) == nullptr;
    std::map<int, std::string> names;
    std::list<std::vector<int>> lists;
    for (int i = 0; i < 1000; i++) {
        names[i * 7 % 501] = std::string(static_cast<std::size_t>(i % 100), 'x');
        lists.emplace_back(static_cast<std::size_t>(i % 50 + 1));
    }
    char line[200];
    int length = std::snprintf(line, sizeof line, "{\"plain\": %lu, \"aligned\": %lu, \"deleted\": %lu, \"refused\": %d}\n", plain,
                               aligned, deleted, refused);
    return write(1, line, static_cast<std::size_t>(length)) == length ? 0 : 1;
}
