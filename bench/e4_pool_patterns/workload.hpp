// SPDX-License-Identifier: BSL-1.0
// E4: the two allocation patterns of f18m's boost-intrusive-pool, on items with a buffer of 1,024 bytes.
//
// bulk:  100,000 items are created, used and held in a vector, which is then cleared.
// mixed: items are created, used and held in a std::unordered_map by their number i; every 33rd is dropped at once; after
//        item i, where i is a multiple of 7, 31, 40 or 53, item i-1 is erased. At the end the map is destroyed.
// mixed_resident: the same, but the map takes nothing from the malloc. In `mixed`, a pool beside glibc's malloc pays for nodes of
//        that one, and a malloc that is preloaded for its own.
//
// The clock covers everything that a run does, for every contender alike: the pool is made, serves and is destroyed. The vector
// is reserved once for all runs, and the map is new in each. Ten runs are averaged. One before them is not: what it costs a
// process to touch its memory for the first time depends on the kernel, not on the pool, and is reported separately
// (`ns_first_run`). A malloc that returns memory to the system after each run, as glibc's does, pays for it again in the next one,
// and that counts. The map's nodes between the items of `mixed` mostly keep glibc from it.
#pragma once

#include "contender/contender.hpp"
#include "e4_pool_patterns/points.hpp"
#include "support/measure.hpp"
#include "support/registry.hpp"
#include "support/resident_memory.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <utility>

namespace bench::e4_pool_patterns {

inline constexpr std::uint64_t k_runs = 10;

// The constructor writes nothing: the buffer is for the user to fill. Base is what the contender's handle needs.
template <class Base>
struct item : Base {
    item() {}  // NOLINT: `= default` would have make_shared<item>() zero the buffer
    item(const item&) = delete;
    item& operator=(const item&) = delete;
    unsigned char buffer[1024];
};
struct no_base {};

// A contender of this folder has an item type, and is constructed with the pool's sizes; any other creates plain items.
template <class C>
struct item_of {
    using type = item<no_base>;
};
template <class C>
    requires requires { typename C::item_base; }
struct item_of<C> {
    using type = item<typename C::item_base>;
};

template <class C>
C make_contender(const point& p) {
    if constexpr (std::constructible_from<C, std::size_t, std::size_t>)
        return C(p.initial, p.step);
    else
        return C();
}

// What the published benchmark does to an item.
template <class Pointer>
void process(const Pointer& it) {
    auto* const buffer = it->buffer;
    keep_alive(buffer);  // its bytes count as written: to the compiler they were indeterminate
    ++buffer[10];
    ++buffer[20];
    keep_alive(buffer);
}

template <class C>
using pointer_of = typename C::template pointer<typename item_of<C>::type>;

template <class C>
void bulk(const point& p, resident_vector<pointer_of<C>>& held) {
    C from = make_contender<C>(p);
    for (std::uint64_t i = 0; i < p.items; ++i) {
        held.push_back(from.template make<typename item_of<C>::type>());
        process(held.back());
    }
    held.clear();
}

// What the map takes for an item: a node has at most 48 bytes, and the arrays of buckets, each about twice as large as the one
// before, have together at most 40.
inline constexpr std::size_t k_map_bytes = 96;

template <class C, class Map, class... Memory>
void mixed(const point& p, Memory*... of_map) {
    C from = make_contender<C>(p);
    Map held(of_map...);
    for (int i = 0; i < static_cast<int>(p.items); ++i) {
        pointer_of<C> it = from.template make<typename item_of<C>::type>();
        process(it);
        if (i % 33 != 0)
            held.emplace(i, std::move(it));
        else
            from.drop(it);
        if (i % 7 == 0 || i % 31 == 0 || i % 40 == 0 || i % 53 == 0) held.erase(i - 1);
    }
}

template <class Run>
measurement mean_of_runs(const parameters& p, const point& at, Run&& one_run) {
    const std::uint64_t runs = std::min(k_runs, scaled(k_runs, p.scale));
    const stopwatch cold;
    one_run();
    const double first = cold.seconds();
    const stopwatch watch;
    for (std::uint64_t run = 0; run < runs; ++run)
        one_run();
    const double items = static_cast<double>(at.items);
    return {watch.seconds(),
            at.items * runs,
            {{"initial_size", static_cast<double>(at.initial)},
             {"items", items},
             {"runs", static_cast<double>(runs)},
             {"ns_first_run", first * 1e9 / items}}};
}

// A tiny run checks arithmetic: the pool shrinks with the items.
inline point scaled_down(point at, double scale) {
    if (!is_tiny(scale)) return at;
    at.items = scaled(at.items, scale, 100);
    at.initial = std::min<std::size_t>(at.initial, at.items);
    return at;
}

template <class C>
measurement run(const parameters& p) {
    static_assert(C::k_counted, "items are dropped by their handles");
    start_and_join_one_thread();
    if (p.variant != "bulk") {
        const point at = scaled_down(point_of(k_mixed, p.step), p.scale);
        if (p.variant == "mixed")
            return mean_of_runs(p, at, [&] { mixed<C, std::unordered_map<int, pointer_of<C>>>(at); });
        resident_vector<std::byte> memory(at.items * k_map_bytes);
        return mean_of_runs(p, at, [&] {
            // What the map frees is used again in the next run only.
            std::pmr::monotonic_buffer_resource of_map(memory.data(), memory.size(),
                                                       std::pmr::null_memory_resource());
            mixed<C, std::pmr::unordered_map<int, pointer_of<C>>>(at, &of_map);
        });
    }
    const point at = scaled_down(point_of(k_bulk, p.step), p.scale);
    resident_vector<pointer_of<C>> held;
    held.reserve(at.items);
    return mean_of_runs(p, at, [&] { bulk<C>(at, held); });
}

}  // namespace bench::e4_pool_patterns
