// SPDX-License-Identifier: BSL-1.0
// Create and drop one object at a time on one thread: the shortest path through an allocator.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"

#include <memory>

namespace bench::create_drop {

inline constexpr std::uint64_t k_operations = 100'000'000;

template <std::size_t Payload, class C>
void create_and_drop(C& from, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
        auto object = from.template make<packet<Payload>>();
        keep_alive(std::to_address(object));
        from.drop(object);
    }
}

template <contender C>
measurement run(const parameters& p) {
    const std::uint64_t operations = scaled(k_operations, p.scale);
    start_and_join_one_thread();
    C from;
    const auto loop = [&](std::uint64_t n) {
        p.payload == 48 ? create_and_drop<48>(from, n) : create_and_drop<1500>(from, n);
    };
    loop(operations / 100 + 1);  // warms caches and predictors, and the pool requests its first chunk
    const stopwatch watch;
    loop(operations);
    return {watch.seconds(), operations, {}};
}

}  // namespace bench::create_drop
