// Usage: plain
// A C++ program that does not use HAKMEM's header. Its threads pass containers and strings to each other, throw exceptions, and use a memory resource
// of the standard library. Exits with 1 if a sum is wrong.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{

constexpr int THREADS = 4, ROUNDS = 2000;

struct order
{
    std::string name;
    std::vector<std::shared_ptr<std::string>> lines;
};

class queue
{
  public:
    void put(std::unique_ptr<order> one)
    {
        {
            std::lock_guard<std::mutex> held(lock_);
            orders_.push_back(std::move(one));
        }
        some_.notify_one();
    }
    std::unique_ptr<order> take()
    {
        std::unique_lock<std::mutex> held(lock_);
        some_.wait(held, [this] { return !orders_.empty(); });
        std::unique_ptr<order> one = std::move(orders_.front());
        orders_.pop_front();
        return one;
    }

  private:
    std::mutex lock_;
    std::condition_variable some_;
    std::deque<std::unique_ptr<order>> orders_;
};

void produce(queue &to, int thread)
{
    for (int i = 0; i < ROUNDS; i++) {
        auto one = std::make_unique<order>();
        one->name = "order " + std::to_string(thread) + " of a customer, " + std::to_string(i);
        for (int line = 0; line <= i % 10; line++)
            one->lines.push_back(std::make_shared<std::string>(static_cast<std::size_t>(line * 100 + 30), 'l'));
        to.put(std::move(one));
    }
}

// Refuses each order with an odd number of lines by an exception with its own text.
std::size_t lines_of(const order &one)
{
    if (one.lines.size() % 2 == 1)
        throw std::runtime_error(one.name + std::string(200, '!'));
    return one.lines.size();
}

void consume(queue &from, std::size_t &lines, std::size_t &refused)
{
    std::unordered_map<std::string, std::shared_ptr<std::string>> kept;
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::map<int, std::pmr::string> texts(&pool);
    for (int i = 0; i < ROUNDS; i++) {
        std::unique_ptr<order> one = from.take();
        texts.emplace(i, std::pmr::string(one->name.c_str(), &pool));
        kept[one->name] = one->lines.back();
        try {
            lines += lines_of(*one);
        } catch (const std::runtime_error &error) {
            refused += std::string(error.what()).size() > 200 ? 1 : 0;
        }
    }
}

} // namespace

int main()
{
    queue all;
    std::vector<std::thread> threads;
    std::vector<std::size_t> lines(THREADS), refused(THREADS);
    for (int t = 0; t < THREADS; t++) {
        threads.emplace_back([&all, t] { produce(all, t); });
        threads.emplace_back([&, t] { consume(all, lines[static_cast<std::size_t>(t)], refused[static_cast<std::size_t>(t)]); });
    }
    for (std::thread &thread : threads)
        thread.join();
    std::size_t sum = 0, bad = 0;
    for (int t = 0; t < THREADS; t++) {
        sum += lines[static_cast<std::size_t>(t)];
        bad += refused[static_cast<std::size_t>(t)];
    }
    std::printf("%zu lines, %zu orders refused\n", sum, bad);
    return sum == THREADS * ROUNDS / 10 * 30 && bad == THREADS * ROUNDS / 2 ? 0 : 1;
}
