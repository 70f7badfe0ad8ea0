// Leaks blocks of operator new. The profile must name the function that called new, not the operator.
#include <cstdio>
#include <initializer_list>
#include <new>

enum { BYTES = 1 << 20, BLOCKS = 60 };
#define SAMPLED_HEAP __attribute__((noinline))

static char *volatile sink;

extern "C" SAMPLED_HEAP void news() { sink = new char[BYTES]; }
extern "C" SAMPLED_HEAP void news_nothrow() { sink = new (std::nothrow) char[BYTES]; }
extern "C" SAMPLED_HEAP void news_aligned() { sink = new (std::align_val_t{64}) char[BYTES]; }

int main()
{
    for (int i = 0; i < BLOCKS; i++) {
        news();
        news_nothrow();
        news_aligned();
    }
    for (const char *name : {"news", "news_nothrow", "news_aligned"})
        std::printf("live %s %zu\n", name, static_cast<size_t>(BLOCKS) * BYTES);
    return 0;
}
