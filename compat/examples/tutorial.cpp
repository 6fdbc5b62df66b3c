// SPDX-License-Identifier: BSL-1.0
// Counts the mallocs that a pool avoids: how often malloc is called for a hundred items behind smart pointers, with and without
// pools. After the tutorial of f18m's boost-intrusive-pool, whose part the drop-in header takes.
//
// The program replaces operator new, through which every malloc of a C++ program's own code goes.
#include <pooled/compat/boost_intrusive_pool.hpp>
#include <pooled/pooled.hpp>

#include <boost/intrusive_ptr.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace {

std::size_t g_mallocs = 0;

constexpr std::size_t k_items = 100;

struct Message : memorypool::boost_intrusive_pool_item {
    void init(int n) { number = n; }
    int number = 0;
    char text[1024];  // left as it is
};

// Creates k_items objects, holds all of them at once, and prints how often malloc was called.
template <class Make>
std::size_t count_mallocs(char const* what, Make&& make) {
    std::vector<decltype(make(0))> held;
    held.reserve(k_items);
    std::size_t const before = g_mallocs;
    for (std::size_t i = 0; i < k_items; ++i)
        held.push_back(make(static_cast<int>(i)));
    std::size_t const counted = g_mallocs - before;
    std::printf("%-68s %3zu mallocs\n", what, counted);
    return counted;
}

bool is(std::size_t counted, std::size_t expected) {
    if (counted != expected) std::printf("    … %zu were expected\n", expected);
    return counted == expected;
}

bool without_pools() {
    std::printf("\n%zu items, no pool\n", k_items);
    std::size_t const two = count_mallocs("std::shared_ptr<Message>(new Message): item and control block",
                                          [](int) { return std::shared_ptr<Message>(new Message); });
    std::size_t const one = count_mallocs("std::make_shared<Message>(): both in one",
                                          [](int) { return std::make_shared<Message>(); });
    return is(two, 2 * k_items) && is(one, k_items);
}

bool with_a_pool_of_items() {
    std::printf("\n%zu items from a memorypool::boost_intrusive_pool<Message> of as many\n", k_items);
    std::size_t const before = g_mallocs;
    memorypool::boost_intrusive_pool<Message> pool(k_items + 1, 0);
    std::printf("%-68s %3zu mallocs\n", "the pool itself", g_mallocs - before);

    std::size_t const intrusive = count_mallocs("boost::intrusive_ptr<Message>, which counts in the item",
                                                [&](int n) { return pool.allocate_through_init(n); });
    // A shared_ptr costs a malloc more: the item is from the pool, the control block is not.
    std::size_t const control_blocks =
        count_mallocs("std::shared_ptr<Message> that keeps one of these: a control block each", [&](int n) {
            boost::intrusive_ptr<Message> item = pool.allocate_through_init(n);
            Message* const address = item.get();
            return std::shared_ptr<Message>(address, [item](Message*) {});
        });
    // The same again: the items have returned to the pool.
    std::size_t const again = count_mallocs("boost::intrusive_ptr<Message>, once more",
                                            [&](int n) { return pool.allocate_through_init(n); });
    return is(intrusive, 0) && is(control_blocks, k_items) && is(again, 0) && pool.capacity() == k_items + 1;
}

bool with_a_pool_of_blocks() {
    std::printf("\n%zu items in a pooled::pool\n", k_items);
    pooled::pool pool;
    std::size_t const shared = count_mallocs("pool.make_shared<Message>(), a plain std::shared_ptr",
                                             [&](int) { return pool.make_shared<Message>(); });
    std::size_t const unique =
        count_mallocs("pool.make_unique<Message>()", [&](int) { return pool.make_unique<Message>(); });
    return is(shared, 0) && is(unique, 0);
}

}  // namespace

void* operator new(std::size_t bytes) {
    ++g_mallocs;
    if (void* const p = std::malloc(bytes)) return p;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t align) {
    ++g_mallocs;
    auto const unit = static_cast<std::size_t>(align);
    if (void* const p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return p;
    throw std::bad_alloc();
}
// Not inlined: If GCC 12 inlines only one function of the pair, it warns that std::free does not match.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

int main() {
    bool const as_expected = without_pools() && with_a_pool_of_items() && with_a_pool_of_blocks();
    return as_expected ? 0 : 1;
}
