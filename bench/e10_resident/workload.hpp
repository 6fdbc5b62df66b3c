// SPDX-License-Identifier: BSL-1.0
// E10: resident memory of 48-byte objects behind smart pointers.
//
// live:    bytes per object with --live of them alive; then what stays when all are dropped, and after trim().
// one_way: 20,000,000 objects created by one thread and dropped by another, --live of them (100,000) alive at
//          any time: how far the process grows. A pool whose freed blocks never return to the creator's thread grows without limit.
#pragma once

#include "contender/contender.hpp"
#include "support/environment.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/spsc_ring.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace bench::e10_resident {

using object = packet<48>;

inline constexpr std::uint64_t k_one_way_objects = 20'000'000;

// A hand-off needs a contender that any thread may free to.
template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {"live", "one_way"};
    return {"live"};
}

inline double mib_above(std::size_t before) {
    return (static_cast<double>(resident_bytes()) - static_cast<double>(before)) / (1024.0 * 1024.0);
}

template <class C>
measurement live(const parameters& p) {
    const std::size_t count = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    C from;
    std::vector<typename C::template pointer<object>> objects(count);  // resident before the first reading
    const std::size_t before = resident_bytes();
    const stopwatch watch;
    for (auto& one : objects)
        one = from.template make<object>();
    measurement m{watch.seconds(), count, {}};
    m.extra.emplace_back("resident_bytes_per_object",
                         mib_above(before) * (1024.0 * 1024.0) / static_cast<double>(count));
    // Not cleared: the vector must stay as resident as it was.
    for (auto& one : objects)
        from.drop(one);
    m.extra.emplace_back("resident_mib_after_drop", mib_above(before));
    if constexpr (requires { from.trim(); }) {
        from.trim();
        m.extra.emplace_back("resident_mib_after_trim", mib_above(before));
    }
    return m;
}

template <class C>
measurement one_way(const parameters& p) {
    using pointer = typename C::template pointer<object>;
    const std::uint64_t count = is_tiny(p.scale) ? scaled(k_one_way_objects, p.scale) : k_one_way_objects;
    auto from = std::make_unique<C>();
    auto ring = std::make_unique<spsc_ring<pointer>>();
    std::vector<pointer> alive(std::min<std::uint64_t>(p.live, count));
    const std::size_t before = resident_bytes();
    double grown = 0;
    const stopwatch watch;

    std::thread consumer([&] {
        std::size_t oldest = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            pointer& place = alive[oldest];
            if (place) from->drop(place);
            place = ring->pop();
            if (++oldest == alive.size()) oldest = 0;
        }
        grown = mib_above(before);  // with the last hundred thousand alive and both threads running
    });
    for (std::uint64_t i = 0; i < count; ++i)
        ring->push(from->template make<object>());
    ring->flush();
    consumer.join();
    const double seconds = watch.seconds();
    drop_all(*from, alive);
    return {seconds, count, {{"growth_mib", grown}}};
}

template <contender C>
measurement run(const parameters& p) {
    start_and_join_one_thread();
    if constexpr (C::k_thread_safe) {
        if (p.variant == "one_way") return one_way<C>(p);
    }
    return live<C>(p);
}

}  // namespace bench::e10_resident
