// This program caches pages by their address, without a bound. Another cache is emptied when it has 300 words.
#include <string>
#include <unistd.h>
#include <unordered_map>

using Cache = std::unordered_map<std::string, std::string>;
static Cache &pages = *new Cache, &words = *new Cache; // no destructor empties them at exit

static __attribute__((noinline)) void remember_page(const std::string &address)
{
    pages[address] = std::string(350, 'p'); // LEAK
}

static __attribute__((noinline)) void remember_word(const std::string &word)
{
    if (words.size() >= 300)
        words.clear();
    words[word] = std::string(500, 'w');
}

int main()
{
    for (unsigned round = 0; round < 2000; round++) {
        for (unsigned i = 0; i < 3; i++) {
            std::string name = "a long address with the number " + std::to_string(3 * round + i);
            remember_page(name);
            remember_word(name);
        }
        usleep(1000);
    }
}
