// A service in small: what lives long stands in containers on HAKMEM's heap, what one request needs in an arena that is thrown away as a whole.
// A resource in between counts: so a program knows what each of its parts holds, in bytes that it asked for.
#include <hakmem.hpp>

#include <cstdio>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

namespace
{

// Counts what one part of the program has, and passes each call on to HAKMEM.
class counted : public std::pmr::memory_resource
{
  public:
    std::size_t bytes() const { return bytes_; }
    std::size_t peak() const { return peak_; }

  private:
    void *do_allocate(std::size_t size, std::size_t alignment) override
    {
        void *block = hakmem::process_resource()->allocate(size, alignment);
        bytes_ += size;
        peak_ = bytes_ > peak_ ? bytes_ : peak_;
        return block;
    }
    void do_deallocate(void *block, std::size_t size, std::size_t alignment) override
    {
        bytes_ -= size;
        hakmem::process_resource()->deallocate(block, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    std::size_t bytes_ = 0, peak_ = 0;
};

using users = std::pmr::map<std::pmr::string, int>;

// One request: words of its own, of which one is remembered.
void serve(int number, users &known, std::pmr::memory_resource *heap)
{
    std::pmr::monotonic_buffer_resource arena(64 << 10, heap);
    std::pmr::vector<std::pmr::string> words(&arena);
    for (int i = 0; i < 500; i++)
        words.emplace_back("a word that one request needs, number " + std::to_string(i));
    known[words[static_cast<std::size_t>(number % 500)]]++;
}

} // namespace

int main()
{
    counted for_users, for_requests;
    users known(&for_users);
    for (int number = 0; number < 2000; number++)
        serve(number, known, &for_requests);
    std::printf("users: %zu, %zu bytes; requests: %zu bytes now, %zu at the peak\n", known.size(), for_users.bytes(), for_requests.bytes(),
                for_requests.peak());

    // A container without a virtual call: the allocator has no state, and no byte of its own.
    std::vector<double, hakmem::allocator<double>> samples(1000, 0.5);
    hak_stats stats;
    if (hak_get_stats(&stats, sizeof stats) != 0)
        return 1;
    std::printf("HAKMEM %s served %llu allocations; samples has room for %zu bytes\n", hak_version(), static_cast<unsigned long long>(stats.mallocs),
                hak_malloc_usable_size(samples.data()));
}
