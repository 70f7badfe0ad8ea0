// This server has a map of sessions by their number. No session is ever removed. The recent pages are in a ring of 200.
#include <csignal>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

struct Session {
    char name[180];
};

static std::map<unsigned, Session> sessions;
static std::vector<std::string> recent(200);

static __attribute__((noinline)) void open_session(unsigned number)
{
    sessions[number] = Session{}; // LEAK
}

static __attribute__((noinline)) void show_page(unsigned number)
{
    std::string page(900, 'p');
    page += std::to_string(number);
    recent[number % recent.size()] = std::move(page);
}

int main()
{
    for (unsigned round = 0; round < 2000; round++) {
        for (unsigned i = 0; i < 4; i++) {
            open_session(4 * round + i);
            show_page(4 * round + i);
        }
        usleep(1000);
    }
    std::raise(SIGTERM); // ends the server before a destructor empties the map
}
