// SPDX-License-Identifier: BSL-1.0
// E5: one thread creates objects and moves them through a ring; another looks at each and drops it.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/spsc_ring.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

namespace bench::e5_handoff {

inline constexpr std::uint64_t k_operations = 20'000'000;

template <class C, std::size_t Payload>
measurement hand_off(const parameters& p) {
    using object = packet<Payload>;
    using pointer = typename C::template pointer<object>;
    const std::uint64_t operations = scaled(k_operations, p.scale);
    // The first hand-overs fetch memory and fill caches: not timed.
    const std::uint64_t warm_up = operations / 10 + 1;
    start_and_join_one_thread();

    auto from = std::make_unique<C>();
    auto ring = std::make_unique<spsc_ring<pointer>>();
    std::atomic<bool> consumer_ready{false};
    std::uint64_t sum = 0;
    double seconds = 0;

    std::thread consumer([&] {
        consumer_ready.store(true, std::memory_order_release);  // pairs with the producer's wait
        const auto take = [&](std::uint64_t n) {
            for (std::uint64_t i = 0; i < n; ++i) {
                pointer one = ring->pop();
                sum += one->first();
                from->drop(one);
            }
        };
        take(warm_up);
        const stopwatch watch;
        take(operations);
        seconds = watch.seconds();
    });
    std::thread producer([&] {
        while (!consumer_ready.load(std::memory_order_acquire))
            std::this_thread::yield();
        for (std::uint64_t i = 0; i < warm_up + operations; ++i)
            ring->push(from->template make<object>());
        ring->flush();
    });
    producer.join();
    consumer.join();
    if (sum != warm_up + operations) throw std::runtime_error("an object arrived with other contents");
    return {seconds, operations, {}};
}

template <contender C>
measurement run(const parameters& p) {
    return p.payload == 48 ? hand_off<C, 48>(p) : hand_off<C, 1500>(p);
}

}  // namespace bench::e5_handoff
