// SPDX-License-Identifier: BSL-1.0
// E3: what a smart pointer to an int costs in time and memory, compiled without and with optimisation.
// After R. Grimm, "Memory and performance overhead of smart pointers".
//
// create: create and drop an int, 100,000,000 times.     pass:   hand a shared_ptr to a function.
// vector: fill a vector with pointers, sum, empty it.    memory: bytes per live object, a million of them.
//
// Each contender has its own loops: at -O0 a common wrapper would be measured as well.
#pragma once

#include "support/environment.hpp"
#include "support/measure.hpp"
#include "support/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bench::e3_pointer_overhead {

inline constexpr std::uint64_t k_operations = 100'000'000;
inline constexpr std::uint64_t k_live_objects = 1'000'000;

template <class C>
concept creates = requires(std::uint64_t n) { C::create_and_drop(n); };
template <class C>
concept passes = requires(std::uint64_t n) { C::pass(n); };
template <class C>
concept fills = requires(std::uint64_t n) { C::fill_sum_empty(n); };
// Pointers that can be held: the memory each takes can be counted.
template <class C>
concept holds = requires(typename C::pointer p) {
    p = C::make(1);
    C::drop(p);
};

template <class C>
std::vector<std::string_view> variants() {
    std::vector<std::string_view> names;
    if (creates<C>) names.push_back("create");
    if (passes<C>) names.push_back("pass");
    if (fills<C>) names.push_back("vector");
    if (holds<C>) names.push_back("memory");
    return names;
}

template <class C>
measurement memory(std::uint64_t objects) {
    std::vector<typename C::pointer> live(objects);  // constructed, so resident, before the first reading
    const std::size_t before = resident_bytes();
    const stopwatch watch;
    for (std::uint64_t i = 0; i < objects; ++i)
        live[i] = C::make(static_cast<int>(i));
    const double seconds = watch.seconds();
    const std::size_t after = resident_bytes();
    for (auto& p : live)
        C::drop(p);

    const double grown = static_cast<double>(after) - static_cast<double>(before);
    measurement m{seconds, objects, {}};
    m.extra.emplace_back("sizeof_pointer", static_cast<double>(sizeof(typename C::pointer)));
    if constexpr (requires { C::control_block_bytes(); }) {
        m.extra.emplace_back("control_block_bytes", static_cast<double>(C::control_block_bytes()));
    }
    m.extra.emplace_back("resident_bytes_per_object", grown / static_cast<double>(objects));
    return m;
}

template <class C>
measurement run(const parameters& p) {
    const std::uint64_t operations = scaled(k_operations, p.scale);
    start_and_join_one_thread();
    if constexpr (holds<C>) {
        if (p.variant == "memory") {
            return memory<C>(is_tiny(p.scale) ? scaled(k_live_objects, p.scale) : k_live_objects);
        }
    }
    // Caches and branch predictors are warm after a few thousand rounds: a hundredth is enough.
    const std::uint64_t warm_up = operations / 100 + 1;
    const auto timed = [&](auto loop) {
        loop(warm_up);
        const stopwatch watch;
        loop(operations);
        return measurement{watch.seconds(), operations, {}};
    };
    if constexpr (passes<C>) return timed([](std::uint64_t n) { C::pass(n); });
    if constexpr (fills<C>) return timed([](std::uint64_t n) { C::fill_sum_empty(n); });
    if constexpr (creates<C>) return timed([](std::uint64_t n) { C::create_and_drop(n); });
}

}  // namespace bench::e3_pointer_overhead
