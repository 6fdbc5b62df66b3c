// SPDX-License-Identifier: BSL-1.0
// Events of a simulation, on foonathan/memory's memory_pool before (-DMIGRATION_BEFORE) and on pooled::pool after. The tests
// build and run both.
#include <cstddef>
#include <cstdio>
#include <deque>
#include <list>
#include <memory>

#ifdef MIGRATION_BEFORE
#include <foonathan/memory/container.hpp>
#include <foonathan/memory/memory_pool.hpp>
#include <foonathan/memory/smart_ptr.hpp>
#include <foonathan/memory/std_allocator.hpp>
#else
#include <pooled/pooled.hpp>
#endif

struct Event {
    explicit Event(int at) : time(at) {}
    int time;
    char data[100] = {};
};

int main() {
    constexpr std::size_t k_events = 1000;
    int sum = 0;

#ifdef MIGRATION_BEFORE
    namespace memory = foonathan::memory;
    // The node of a shared_ptr is larger than the object; this much is reserved for each.
    constexpr std::size_t k_node = sizeof(Event) + 64;
    memory::memory_pool<> pool(k_node, memory::memory_pool<>::min_block_size(k_node, k_events));
    auto make_event = [&](int at) { return memory::allocate_shared<Event>(pool, at); };
    auto make_owned = [&](int at) { return memory::allocate_unique<Event>(pool, at); };
    std::list<int, memory::std_allocator<int, memory::memory_pool<>>> times(pool);
#else
    pooled::pool pool({.name = "events"});
    pool.reserve<Event>(k_events);
    auto make_event = [&](int at) { return pool.make_shared<Event>(at); };
    auto make_owned = [&](int at) { return pool.make_unique<Event>(at); };
    std::list<int, pooled::pool_allocator<int>> times(pool);
#endif

    std::deque<std::shared_ptr<Event>> pending;
    for (int at = 0; at < 10'000; ++at) {
        pending.push_back(make_event(at));
        times.push_back(at);
        if (pending.size() < k_events / 2) continue;
        auto const copy = make_owned(pending.front()->time);
        sum += copy->time - times.front();
        pending.pop_front();
        times.pop_front();
    }
    std::printf("%zu events pending, difference %d\n", pending.size(), sum);
    return sum == 0 && pending.size() == times.size() && pending.size() == k_events / 2 - 1 ? 0 : 1;
}
