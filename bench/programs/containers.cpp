// Instantiates many templates of the standard library, so that it is as much work for a compiler as a large C++ file.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N>
struct Record {
    std::array<int, N> numbers{};
    std::string name = std::to_string(N);
    std::variant<int, std::string, std::vector<double>> value;
    auto key() const { return std::tie(name, numbers); }
    bool operator<(const Record &other) const { return key() < other.key(); }
};

template <int N>
class Index {
public:
    void add(Record<N> record)
    {
        byName[record.name].push_back(std::make_shared<Record<N>>(record));
        sorted.insert(std::move(record));
    }
    std::optional<std::string> find(const std::string &pattern) const
    {
        for (const auto &[name, records] : byName)
            if (name.find(pattern) != name.npos && !records.empty())
                return records.front()->name;
        return std::nullopt;
    }
    long sum() const
    {
        return std::accumulate(sorted.begin(), sorted.end(), 0L, [](long total, const Record<N> &r) {
            return total + std::visit([](const auto &v) -> long {
                if constexpr (std::is_same_v<std::decay_t<decltype(v)>, int>) return v;
                else return static_cast<long>(v.size());
            }, r.value) + r.numbers[0];
        });
    }
private:
    std::unordered_map<std::string, std::vector<std::shared_ptr<Record<N>>>> byName;
    std::multiset<Record<N>> sorted;
};

template <int... N>
long all(std::integer_sequence<int, N...>)
{
    std::map<std::string, std::function<long()>> works;
    (works.emplace(std::to_string(N), [] {
        Index<N + 1> index;
        std::mt19937 draw(N);
        std::deque<std::tuple<int, std::string>> queue;
        for (int i = 0; i < 100; i++)
            queue.emplace_back(i, std::to_string(draw()));
        std::sort(queue.begin(), queue.end());
        for (auto &[number, text] : queue)
            index.add({{number}, text, std::vector<double>(number, 0.5)});
        return index.sum() + static_cast<long>(index.find("9").value_or("").size());
    }), ...);
    long total = 0;
    for (auto &[name, work] : works)
        total += work();
    return total;
}

int main()
{
    std::ostringstream out;
    out << all(std::make_integer_sequence<int, RECORDS>());
    std::cout << out.str() << '\n';
}
