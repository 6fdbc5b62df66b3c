// SPDX-License-Identifier: BSL-1.0
// E13: large objects. The constructor writes the first byte only, so what is measured is the allocator: whether it keeps
// the memory, or requests pages from the system and returns them each time.
//
// create_drop   one at a time
// queue         32 alive, the oldest dropped when a new one has been created
// hand_over     created by one thread, dropped by another, handed over in bursts of 4, at most 32 in the ring
#pragma once

#include "contender/contender.hpp"
#include "support/burst_ring.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace bench::e13_large {

inline constexpr std::uint64_t k_operations = 10'000'000;
inline constexpr double k_most_seconds = 10;
inline constexpr std::size_t k_queue = 32;

template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {"create_drop", "queue", "hand_over"};
    return {"create_drop", "queue"};
}

// The number of operations, unless they take longer than `seconds`: contenders differ by a factor of ten thousand.
struct amount {
    std::uint64_t operations;
    double seconds;
};

// Calls `batch(n)`, which does n operations, until enough are done. Returns their number and their time.
template <class Batch>
measurement repeat(const amount& enough, Batch&& batch) {
    constexpr std::uint64_t k_batch = 64;  // operations between two readings of the clock
    measurement found;
    const stopwatch watch;
    do {
        batch(k_batch);
        found.ops += k_batch;
        found.seconds = watch.seconds();
    } while (found.ops < enough.operations && found.seconds < enough.seconds);
    return found;
}

template <class Object, class C>
measurement create_and_drop(C& from, const amount& warm_up, const amount& timed) {
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto object = from.template make<Object>();
            keep_alive(std::to_address(object));
            from.drop(object);
        }
    };
    repeat(warm_up, batch);
    return repeat(timed, batch);
}

template <class Object, class C>
measurement keep_a_queue(C& from, const amount& warm_up, const amount& timed) {
    std::array<typename C::template pointer<Object>, k_queue> queue{};
    for (auto& one : queue)
        one = from.template make<Object>();
    std::size_t oldest = 0;
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto fresh = from.template make<Object>();
            keep_alive(std::to_address(fresh));
            from.drop(queue[oldest]);
            queue[oldest] = std::move(fresh);
            oldest = (oldest + 1) % k_queue;
        }
    };
    repeat(warm_up, batch);
    const measurement found = repeat(timed, batch);
    for (auto& one : queue)
        from.drop(one);
    return found;
}

// The producer's time: it waits for the consumer when the ring is full. An empty pointer marks the end.
template <class Object, class C>
measurement hand_over(C& from, const amount& warm_up, const amount& timed) {
    using ring_type = burst_ring<typename C::template pointer<Object>, 4, k_queue / 4>;
    auto ring = std::make_unique<ring_type>();
    std::uint64_t sum = 0;
    std::thread consumer([&] {
        typename ring_type::burst burst{};
        for (ring->pop(burst); burst[0]; ring->pop(burst)) {
            for (auto& one : burst) {
                sum += one->first();
                from.drop(one);
            }
        }
    });
    typename ring_type::burst burst{};
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; i += ring_type::k_burst) {
            for (auto& one : burst)
                one = from.template make<Object>();
            ring->push(burst);
        }
    };
    const std::uint64_t before = repeat(warm_up, batch).ops;
    const measurement found = repeat(timed, batch);
    burst = {};
    ring->push(burst);
    consumer.join();
    if (sum != before + found.ops) throw std::runtime_error("an object arrived with other contents");
    return found;
}

template <std::size_t Payload, class C>
measurement use(const parameters& p) {
    using object = packet<Payload>;
    const amount timed{scaled(k_operations, p.scale), k_most_seconds * p.scale};
    // Memory is requested, and a malloc adapts its thresholds.
    const amount warm_up{timed.operations / 10 + 1, timed.seconds / 10};
    start_and_join_one_thread();
    auto from = std::make_unique<C>();
    if constexpr (C::k_thread_safe) {
        if (p.variant == "hand_over") return hand_over<object>(*from, warm_up, timed);
    }
    return p.variant == "create_drop" ? create_and_drop<object>(*from, warm_up, timed)
                                      : keep_a_queue<object>(*from, warm_up, timed);
}

template <contender C>
measurement run(const parameters& p) {
    switch (p.payload) {
    case 65536:
        return use<65536, C>(p);
    case 262144:
        return use<262144, C>(p);
    case 1048576:
        return use<1048576, C>(p);
    default:
        return use<8388608, C>(p);
    }
}

}  // namespace bench::e13_large
