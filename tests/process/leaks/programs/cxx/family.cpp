// This program builds small trees. A child has a shared_ptr to its parent, so that the two keep each other. Trees without children are freed.
#include <memory>
#include <unistd.h>
#include <vector>

struct Person {
    std::shared_ptr<Person> parent, child;
    char name[240];
};

static __attribute__((noinline)) std::shared_ptr<Person> new_person()
{
    return std::make_shared<Person>(); // LEAK
}

static __attribute__((noinline)) void read_family(bool has_child)
{
    auto parent = new_person();
    if (has_child) {
        parent->child = new_person();
        parent->child->parent = parent;
    }
}

static __attribute__((noinline)) void draw(std::vector<int> &shape)
{
    shape = std::vector<int>(300, 7);
}

int main()
{
    std::vector<std::vector<int>> shapes(100);
    for (unsigned round = 0; round < 2000; round++) {
        for (unsigned i = 0; i < 12; i++)
            read_family(i == 5);
        draw(shapes[round % shapes.size()]);
        usleep(1000);
    }
}
