/* Usage: test_linked_cxx…
 * Tests each way of linking HAKMEM to a C++ program, with containers, exceptions and threads. */
#include "hakmem.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::map<int, std::string> before_main = {{1, std::string(100, 'a')}, {2, std::string(50000, 'b')}};

bool work(int seed)
{
    std::map<int, std::vector<std::string>> table;
    for (int i = 0; i < 2000; i++) {
        table[(i * 7 + seed) % 100].push_back(std::string(static_cast<std::size_t>(i % 500), 'x'));
    }
    std::size_t bytes = 0;
    for (const auto &row : table) {
        for (const auto &text : row.second) {
            bytes += text.size();
        }
    }
    bool threw = false;
    try {
        throw std::runtime_error(std::string(1000, 'e'));
    } catch (const std::exception &error) {
        threw = std::string(error.what()).size() == 1000;
    }
    bool refused = false;
    try {
        volatile std::size_t size = PTRDIFF_MAX;
        ::operator delete(::operator new(size));
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    return threw && refused && bytes == 499000;
}

} // namespace

int main()
{
    alarm(60);
    bool  good = work(1) && before_main.at(2).size() == 50000;
    void *p = ::operator new(100);
    good = good && hak_malloc_usable_size(p) >= 100;
    hak_free(p); /* If operator new is not HAKMEM's, this free reports a foreign block. */
    std::vector<std::thread> threads;
    std::vector<int>         results(4, 0);
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([t, &results] { results[static_cast<std::size_t>(t)] = work(t); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    for (int result : results) {
        good = good && result;
    }
    pid_t pid = fork();
    if (pid == 0) {
        std::exit(work(9) ? 0 : 1);
    }
    int status = -1;
    good = good && waitpid(pid, &status, 0) == pid && status == 0;
    std::printf("linked C++: HAKMEM %s, %s\n", hak_version(), good ? "good" : "FAILED");
    return good ? 0 : 1;
}
