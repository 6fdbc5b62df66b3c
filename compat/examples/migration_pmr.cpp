// SPDX-License-Identifier: BSL-1.0
// A book of orders in containers of std::pmr. Only the pool resource changes:
//
//   before   std::pmr::synchronized_pool_resource               (-DMIGRATION_BEFORE)
//   after    pooled::compat::synchronized_pool_resource
//
// The tests build and run both.
#include <array>
#include <cstddef>
#include <cstdio>
#include <list>
#include <map>
#include <memory_resource>
#include <string>
#include <thread>

#ifdef MIGRATION_BEFORE
using std::pmr::synchronized_pool_resource;
using std::pmr::unsynchronized_pool_resource;
#else
#include <pooled/compat/pmr.hpp>
using pooled::compat::synchronized_pool_resource;
using pooled::compat::unsynchronized_pool_resource;
#endif

int main() {
    // Shared by two threads, each with containers of its own.
    synchronized_pool_resource shared({.max_blocks_per_chunk = 0, .largest_required_pool_block = 4096});
    std::array<std::size_t, 2> left{};
    std::array<std::thread, 2> workers;
    for (std::size_t worker = 0; worker < workers.size(); ++worker)
        workers[worker] = std::thread([&, worker] {
            std::pmr::map<int, std::pmr::string> orders(&shared);
            for (int i = 0; i < 5000; ++i)
                orders[i] =
                    std::pmr::string("an order with a text that does not fit a short string", &shared);
            for (int i = 0; i < 5000; i += 2)
                orders.erase(i);
            left[worker] = orders.size();
        });
    for (std::thread& worker : workers)
        worker.join();

    // For one thread, in a buffer on the stack; no other memory is used.
    alignas(std::max_align_t) std::array<std::byte, 64 << 10> buffer;
    std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size(),
                                               std::pmr::null_memory_resource());
    std::size_t sum = 0;
    {
        unsynchronized_pool_resource local({.max_blocks_per_chunk = 64, .largest_required_pool_block = 256},
                                           &memory);
        std::pmr::list<std::size_t> queue(&local);
        for (std::size_t i = 0; i < 10'000; ++i) {
            queue.push_back(i);
            if (queue.size() <= 100) continue;
            sum += queue.front();
            queue.pop_front();
        }
    }

    std::printf("%zu and %zu orders left, sum %zu\n", left[0], left[1], sum);
    return left[0] == 2500 && left[1] == 2500 && sum == 9900UL * 9899 / 2 ? 0 : 1;
}
