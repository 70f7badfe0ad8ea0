// service TURNS [in-order]
// Models a service of two threads. Each thread keeps an index of sessions and buffers that grow, and hands messages to the other one, which frees
// them. The threads wait for each other at the end of each turn, so all runs request the same memory.
// With in-order, the threads never work at the same time, so the costs are also the same in each run.
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct Message {
    std::string topic;
    std::vector<std::uint32_t> values;
};
using Batch = std::vector<std::unique_ptr<Message>>;

struct Session {
    std::string user;
    std::map<int, std::string> settings;
    std::deque<std::shared_ptr<const Message>> recent;
};

class Draw {
public:
    explicit Draw(std::uint64_t seed) : state(seed) {}
    unsigned operator()(unsigned below)
    {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<unsigned>(state >> 33) % below;
    }

private:
    std::uint64_t state;
};

class Meeting {
public:
    void wait()
    {
        std::unique_lock lock(mutex);
        unsigned mine = turn;
        if (++waiting == 2) {
            waiting = 0;
            turn++;
            changed.notify_all();
        }
        changed.wait(lock, [&] { return turn != mine; });
    }

private:
    std::mutex mutex;
    std::condition_variable changed;
    unsigned waiting = 0, turn = 0;
};

class Worker {
public:
    Worker(unsigned number, std::array<Batch, 2> &mail, Meeting &meeting)
        : number(number), draw(number + 1), mail(mail), meeting(meeting) {}

    void run(unsigned turns, bool in_order)
    {
        for (unsigned turn = 0; turn < turns; turn++) {
            Batch others;
            first_or_second(in_order, [&] { write(turn); });
            first_or_second(in_order, [&] { others = std::move(mail[1 - number]); });
            first_or_second(in_order, [&] { read(std::move(others)); });
        }
    }
    unsigned long sum() const { return total + sessions.size() + columns.size(); }

private:
    template <class Work>
    void first_or_second(bool in_order, Work work)
    {
        if (in_order && number == 1)
            meeting.wait();
        work();
        if (in_order && number == 0)
            meeting.wait();
        meeting.wait();
    }

    void write(unsigned turn)
    {
        Batch mine = written(6000);
        serve(8000);
        grow(turn);
        mail[number] = std::move(mine);
    }

    Batch written(unsigned count)
    {
        Batch batch;
        for (unsigned i = 0; i < count; i++) {
            auto message = std::make_unique<Message>();
            message->topic = "topic/" + std::to_string(draw(1000)) + "/of some length";
            message->values.assign(1 + draw(60), i);
            batch.push_back(std::move(message));
        }
        return batch;
    }

    void serve(unsigned count)
    {
        for (unsigned i = 0; i < count; i++) {
            unsigned user = draw(30000);
            Session &session = sessions[user];
            session.user = "user number " + std::to_string(user);
            session.settings[static_cast<int>(draw(12))] = std::string(10 + draw(80), 'x');
            session.recent.push_back(std::make_shared<const Message>(Message{session.user, std::vector<std::uint32_t>(draw(20))}));
            if (session.recent.size() > 4)
                session.recent.pop_front();
            if (draw(8) == 0)
                sessions.erase(draw(30000));
        }
    }

    // Adds a column, which grows to 4 MiB by doubling, and removes the oldest column if there are more than eight.
    void grow(unsigned turn)
    {
        std::vector<std::uint64_t> column;
        for (std::uint64_t i = 0; i < 400000; i++)
            column.push_back(i * turn);
        columns.push_back(std::move(column));
        if (columns.size() > 8)
            columns.pop_front();
    }

    void read(Batch batch)
    {
        for (const auto &message : batch)
            total += message->topic.size() + message->values.size();
    }

    unsigned number;
    Draw draw;
    std::array<Batch, 2> &mail;
    Meeting &meeting;
    std::unordered_map<unsigned, Session> sessions;
    std::deque<std::vector<std::uint64_t>> columns;
    unsigned long total = 0;
};

} // namespace

int main(int argc, char **argv)
{
    unsigned turns = static_cast<unsigned>(std::atoi(argv[1]));
    bool in_order = argc > 2;
    std::array<Batch, 2> mail;
    Meeting meeting;
    Worker one(0, mail, meeting), other(1, mail, meeting);
    std::thread beside([&] { other.run(turns, in_order); });
    one.run(turns, in_order);
    beside.join();
    std::printf("%lu %lu\n", one.sum(), other.sum());
}
