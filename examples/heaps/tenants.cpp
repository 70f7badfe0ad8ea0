// A query engine in small. Each of three tenants has a heap with a name and a limit; a query's rows, hash table and result lie in the heap of its tenant,
// and go with it when the query ends, all at once. A query that wants too much fails, and no other tenant notices.
#include <hakmem.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{

constexpr std::size_t mib = 1 << 20;

struct row {
    std::uint64_t key;
    std::pmr::string text;
};

class tenant
{
  public:
    tenant(const char *name, std::size_t limit) : heap_(name, limit) {}

    // Scans `rows` rows, groups them by key, and returns how many groups there are; 0 if the tenant's memory does not suffice.
    std::size_t query(std::size_t rows)
    {
        std::size_t groups = 0;
        try {
            groups = grouped(rows);
        } catch (const std::bad_alloc &) {
            failed_++;
        }
        heap_.reset();
        return groups;
    }
    std::size_t failed() const { return failed_; }
    hak_heap_stats stats() const { return heap_.stats(); }

  private:
    std::size_t grouped(std::size_t rows)
    {
        hakmem::heap_resource resource(heap_);
        std::pmr::vector<row> table(&resource);
        std::pmr::unordered_map<std::uint64_t, std::pmr::vector<const row *>> groups(&resource);
        for (std::size_t i = 0; i < rows; i++)
            table.push_back({i * i % 1009, std::pmr::string("a text that does not fit into the object, number " + std::to_string(i), &resource)});
        for (const row &each : table)
            groups[each.key].push_back(&each);
        return groups.size();
    }

    hakmem::heap heap_;
    std::size_t failed_ = 0;
};

void print(const tenant &of)
{
    const hak_heap_stats stats = of.stats();
    std::printf("%-8s limit %3llu MiB  peak %3llu MiB  now %llu bytes  %llu queries, %zu without memory\n", stats.name,
                static_cast<unsigned long long>(stats.limit / mib), static_cast<unsigned long long>(stats.peak / mib),
                static_cast<unsigned long long>(stats.physical), static_cast<unsigned long long>(stats.resets), of.failed());
}

} // namespace

int main(int argc, char **argv)
{
    std::array<tenant, 3> tenants = {tenant("small", 4 * mib), tenant("medium", 16 * mib), tenant("large", 64 * mib)};
    std::vector<std::thread> threads;
    for (tenant &each : tenants)
        threads.emplace_back([&each] {
            for (std::size_t query = 1; query <= 20; query++)
                (void)each.query(query * 2500); // the last takes about 10 MiB
        });
    for (std::thread &each : threads)
        each.join();
    for (const tenant &each : tenants)
        print(each);
    if (argc > 1)
        return hak_report(argv[1]) == 0 ? 0 : 1;
}
