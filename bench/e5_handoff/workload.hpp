// SPDX-License-Identifier: BSL-1.0
// E5: one thread creates objects and hands them over; another looks at each and drops it.
//
// bursts   in bursts of 32, as packet code does: the producer fills a burst and publishes it at once, the consumer takes
//          one at once
// single   one pointer at a time; what a ring does for each of them counts, and can be most of the time
#pragma once

#include "contender/contender.hpp"
#include "support/burst_ring.hpp"
#include "support/hand_over.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/spsc_ring.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>

namespace bench::e5_handoff {

inline constexpr std::uint64_t k_operations = 20'000'000;

// How objects are handed over. `put` and `take` move n of them, a multiple of k_unit: `make` gives each, `use` gets each.
template <class Pointer>
class by_bursts {
public:
    static constexpr std::uint64_t k_unit = burst_ring<Pointer>::k_burst;

    template <class Make>
    void put(std::uint64_t n, Make&& make) {
        typename burst_ring<Pointer>::burst burst{};
        for (std::uint64_t done = 0; done < n; done += k_unit) {
            for (Pointer& one : burst)
                one = make();
            m_ring.push(burst);
        }
    }

    template <class Use>
    void take(std::uint64_t n, Use&& use) {
        typename burst_ring<Pointer>::burst burst{};
        for (std::uint64_t done = 0; done < n; done += k_unit) {
            m_ring.pop(burst);
            for (Pointer& one : burst)
                use(one);
        }
    }

private:
    burst_ring<Pointer> m_ring;
};

template <class Pointer>
class one_by_one {
public:
    static constexpr std::uint64_t k_unit = 1;

    template <class Make>
    void put(std::uint64_t n, Make&& make) {
        for (std::uint64_t i = 0; i < n; ++i)
            m_ring.push(make());
        m_ring.flush();
    }

    template <class Use>
    void take(std::uint64_t n, Use&& use) {
        for (std::uint64_t i = 0; i < n; ++i) {
            Pointer one = m_ring.pop();
            use(one);
        }
    }

private:
    spsc_ring<Pointer> m_ring;
};

template <class C, std::size_t Payload, template <class> class Way>
measurement hand_off(const parameters& p) {
    using object = packet<Payload>;
    using pointer = typename C::template pointer<object>;
    using way = Way<pointer>;
    const auto whole = [](std::uint64_t n) { return (n + way::k_unit - 1) / way::k_unit * way::k_unit; };
    const std::uint64_t operations = whole(scaled(k_operations, p.scale));
    // The first hand-overs request memory and fill caches: not timed.
    const std::uint64_t warm_up = whole(operations / 10 + 1);
    start_and_join_one_thread();
    const auto hand_over = time_hand_over();

    auto from = std::make_unique<C>();
    auto ring = std::make_unique<way>();
    std::atomic<bool> consumer_ready{false};
    std::uint64_t sum = 0;
    double seconds = 0;

    processors apart(2);
    std::thread consumer([&] {
        consumer_ready.store(true, std::memory_order_release);  // pairs with the producer's wait
        apart.take_one(0);
        std::uint64_t seen = 0;  // `sum` lies beside what the producer reads for each object
        const auto use = [&](pointer& one) {
            seen += one->first();
            from->drop(one);
        };
        ring->take(warm_up, use);
        const stopwatch watch;
        ring->take(operations, use);
        seconds = watch.seconds();
        sum = seen;
    });
    std::thread producer([&] {
        while (!consumer_ready.load(std::memory_order_acquire))
            std::this_thread::yield();
        apart.take_one(1);
        ring->put(warm_up + operations, [&] { return from->template make<object>(); });
    });
    producer.join();
    consumer.join();
    if (sum != warm_up + operations) throw std::runtime_error("an object arrived with other contents");
    return {seconds, operations, {hand_over}};
}

template <contender C, template <class> class Way>
measurement hand_off_of_size(const parameters& p) {
    return p.payload == 48 ? hand_off<C, 48, Way>(p) : hand_off<C, 1500, Way>(p);
}

template <contender C>
measurement run(const parameters& p) {
    return p.variant == "bursts" ? hand_off_of_size<C, by_bursts>(p) : hand_off_of_size<C, one_by_one>(p);
}

}  // namespace bench::e5_handoff
