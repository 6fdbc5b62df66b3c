// SPDX-License-Identifier: BSL-1.0
// Boost.Pool's classes compared with those of compat/boost_pool.hpp. Variants are the classes; objects have 48 bytes.
//
//   step 1   pairs: allocated and freed at once
//   step n   bursts: n allocated, each written to, and freed in the same order; then in reverse, and in shuffled order
//
// and programs, with step n:
//
//   vector   n push_back to a vector on pool_allocator          list     of n on fast_pool_allocator, built and cleared
//   string   of n characters on pool_allocator                  objects  n in an object_pool, destroyed with it
//
// Each burst is on the same pool, so all but the first find it as the last shuffled one left it. Boost's object_pool and
// pool_allocator free by walking a list: a burst of a million would take hours there, so these have short ones.
#pragma once

#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench::boost_pool {

inline constexpr std::uint64_t k_pairs = 100'000'000;
inline constexpr std::uint64_t k_in_bursts = 20'000'000;

using object = packet<48>;
struct tag;

// The functions that allocate an object and free it.
template <class Pool>
struct of_instance {
    void* get() { return (pool.malloc)(); }
    void put(void* p) { (pool.free)(p); }
    Pool pool{sizeof(object)};
};
template <class Pool>
struct of_objects {
    void* get() { return pool.construct(); }
    void put(void* p) { pool.destroy(static_cast<object*>(p)); }
    Pool pool;
};
template <class Pool>
struct of_singleton {
    static void* get() { return (Pool::malloc)(); }
    static void put(void* p) { (Pool::free)(p); }
};
template <class Allocator>
struct of_allocator {
    static void* get() { return Allocator::allocate(1); }
    static void put(void* p) { Allocator::deallocate(static_cast<object*>(p), 1); }
};

template <class From>
void pairs(From& from, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
        void* const p = from.get();
        keep_alive(p);
        from.put(p);
    }
}

// Seconds for a burst of `held.size()`, which is freed in the order that `mix` leaves.
template <class From, class Mix>
double burst(From& from, std::vector<void*>& held, Mix&& mix) {
    const stopwatch allocating;
    for (void*& p : held) {
        p = from.get();
        *static_cast<unsigned char*>(p) = 1;
    }
    double seconds = allocating.seconds();
    mix();
    const stopwatch freeing;
    for (void* const p : held)
        from.put(p);
    seconds += freeing.seconds();
    keep_alive(held.data());
    return seconds;
}

template <class From>
measurement measure(const parameters& p) {
    start_and_join_one_thread();
    From from;
    if (p.step == 1) {
        const std::uint64_t n = scaled(k_pairs, p.scale);
        pairs(from, n / 100 + 1);
        const stopwatch watch;
        pairs(from, n);
        return {watch.seconds(), n, {}};
    }
    std::vector<void*> held(is_tiny(p.scale) ? std::min<std::size_t>(p.step, 1'000) : p.step);
    random_source random;
    const auto shuffle = [&] {
        for (std::size_t i = held.size() - 1; i > 0; --i)
            std::swap(held[i], held[random.below(static_cast<std::uint32_t>(i + 1))]);
    };
    const std::uint64_t rounds = std::max<std::uint64_t>(scaled(k_in_bursts, p.scale) / (3 * held.size()), 1);
    double in_order = 0;
    double reversed = 0;
    double shuffled = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
        in_order += burst(from, held, [] {});
        reversed += burst(from, held, [&] { std::reverse(held.begin(), held.end()); });
        shuffled += burst(from, held, shuffle);
    }
    const std::uint64_t each = rounds * held.size();
    const auto ns = [each](double seconds) { return seconds * 1e9 / static_cast<double>(each); };
    return {in_order + reversed + shuffled,
            3 * each,
            {{"ns_in_order", ns(in_order)}, {"ns_reversed", ns(reversed)}, {"ns_shuffled", ns(shuffled)}}};
}

// Calls use(n), which has n operations, as often as `p` says.
template <class Use>
measurement repeat(const parameters& p, std::size_t n, Use&& use) {
    start_and_join_one_thread();
    n = is_tiny(p.scale) ? std::min<std::size_t>(n, 1'000) : n;
    const std::uint64_t rounds = std::max<std::uint64_t>(scaled(k_in_bursts, p.scale) / n, 1);
    use(n);
    const stopwatch watch;
    for (std::uint64_t i = 0; i < rounds; ++i)
        use(n);
    return {watch.seconds(), rounds * n, {}};
}

struct destroyed : object {
    ~destroyed() { keep_alive(this); }
};

template <class C>
measurement run(const parameters& p) {
    const std::string_view variant = p.variant;
    if (variant == "pool") return measure<of_instance<typename C::pool>>(p);
    if (variant == "object_pool") return measure<of_objects<typename C::template object_pool<object>>>(p);
    if (variant == "singleton_pool")
        return measure<of_singleton<typename C::template singleton_pool<tag, sizeof(object)>>>(p);
    if (variant == "null_mutex")
        return measure<of_singleton<typename C::template null_mutex<tag, sizeof(object)>>>(p);
    if (variant == "pool_allocator")
        return measure<of_allocator<typename C::template pool_allocator<object>>>(p);
    if (variant == "fast_pool_allocator")
        return measure<of_allocator<typename C::template fast_pool_allocator<object>>>(p);
    if (variant == "vector")
        return repeat(p, p.step, [](std::size_t n) {
            std::vector<int, typename C::template pool_allocator<int>> numbers;
            for (std::size_t i = 0; i < n; ++i)
                numbers.push_back(static_cast<int>(i));
            keep_alive(numbers.data());
        });
    if (variant == "string")
        return repeat(p, 1, [&p](std::size_t) {
            const std::basic_string<char, std::char_traits<char>, typename C::template pool_allocator<char>>
                text(p.step, 'x');
            keep_alive(text.data());
        });
    if (variant == "list") {
        std::list<int, typename C::template fast_pool_allocator<int>> numbers;
        return repeat(p, p.step, [&numbers](std::size_t n) {
            for (std::size_t i = 0; i < n; ++i)
                numbers.push_back(static_cast<int>(i));
            numbers.clear();
        });
    }
    return repeat(p, p.step, [](std::size_t n) {
        typename C::template object_pool<destroyed> objects;
        for (std::size_t i = 0; i < n; ++i)
            keep_alive(objects.construct());
    });
}

}  // namespace bench::boost_pool
