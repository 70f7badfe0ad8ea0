/* Usage: test_destructors_cxx [threads]
 * Tests thread_local objects whose destructors allocate and free, together with pthread keys and with memory of other threads. */
#include "support/check.h"
#include "support/watchdog.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::mutex                                left_lock;
std::vector<std::unique_ptr<std::string>> left_behind; /* strings of ended threads, which the main thread frees */

struct logger {
    std::vector<std::string>   lines;
    std::map<int, std::string> table;

    void add(int n)
    {
        lines.push_back(std::string(static_cast<std::size_t>(n % 400), 'a'));
        table[n] = std::to_string(n) + " of a thread that will have died";
    }

    ~logger()
    {
        std::size_t bytes = 0;
        for (int i = 0; i < 50; i++) {
            add(10000 + i); /* The object grows during its destruction. */
        }
        for (const std::string &line : lines) {
            bytes += line.size();
        }
        CHECK(bytes > 0 && table.size() >= 50, "%zu bytes, %zu entries", bytes, table.size());
        {
            std::lock_guard<std::mutex> hold(left_lock);
            left_behind.push_back(std::make_unique<std::string>(300, 'z'));
        }
        check_thread_done();
    }
};

thread_local logger first;
thread_local logger second;

pthread_key_t key;

extern "C" void key_destructor(void *value)
{
    auto *text = static_cast<std::string *>(value);
    CHECK(text->size() == 1234, "%zu", text->size());
    delete text;
    std::vector<std::string> many(100, std::string(100, 'k'));
    CHECK(many.back().size() == 100, "%zu", many.back().size());
    check_thread_done();
}

void live(int n)
{
    if (n % 2) {
        pthread_setspecific(key, new std::string(1234, 'q'));
    }
    for (int i = 0; i < 100; i++) {
        (i % 2 ? first : second).add(n + i);
    }
    if (n % 2 == 0) {
        pthread_setspecific(key, new std::string(1234, 'q'));
    }
    check_thread_done();
}

/* A static object that is built before main and destroyed after the atexit handlers and other static objects. */
struct at_the_end {
    std::map<int, std::string> table;
    ~at_the_end()
    {
        for (int i = 0; i < 1000; i++) {
            table[i] = std::string(static_cast<std::size_t>(i), 'e');
        }
        table.clear();
    }
} at_the_end_object;

} // namespace

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? std::atoi(argv[1]) : 2000;
    watchdog_start(120, "destructors in C++");
    pthread_key_create(&key, key_destructor);
    for (int n = 0; n < threads; n += 2) {
        std::thread a(live, n);
        std::thread b(live, n + 1);
        a.join();
        b.join();
        for (const auto &text : left_behind) {
            CHECK(text->find_first_not_of('z') == std::string::npos, "left behind by %d", n);
        }
        CHECK(left_behind.size() == 4, "%zu destructors ran", left_behind.size());
        left_behind.clear();
    }
    at_the_end_object.table[0] = "used";
    first.add(1);
    second.add(2);
    return check_report("destructors_cxx");
}
