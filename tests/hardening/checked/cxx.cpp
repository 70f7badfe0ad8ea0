/* Tests C++ on libhakmem-hardened.so. Strings, vectors and streams must work, and a copy beyond the end of a vector must end the program. */
#include <algorithm>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "support/check.h"

static void containers()
{
    std::string text;
    std::vector<int> numbers;
    std::ostringstream stream;
    for (int i = 0; i < 200000; i++) {
        text += "0123456789"[i % 10];
        numbers.push_back(i);
        stream << i << ' ';
    }
    std::vector<int> copied(numbers.size());
    std::copy(numbers.begin(), numbers.end(), copied.begin());
    std::rotate(copied.begin(), copied.begin() + 1, copied.end());
    CHECK(copied.front() == 1 && copied.back() == 0, "rotated");
    CHECK(text.substr(100000).size() == 100000 && text.find("90", 150000) == 150009, "text");
    CHECK(stream.str().size() == 1288890, "stream");
    numbers.insert(numbers.begin(), copied.begin(), copied.end());
    CHECK(numbers.size() == 400000 && numbers[200000] == 0, "inserted");
}

static bool is_refused(std::size_t more)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        std::vector<char> from(8192, 'x'), to(4096);
        close(STDERR_FILENO);
        std::copy(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(4096 + more), to.begin());
        _exit(to[0] == 'x' ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main()
{
    containers();
    CHECK(!is_refused(0), "a whole vector");
    CHECK(is_refused(1), "one byte too many");
    return check_report("checked_cxx");
}
