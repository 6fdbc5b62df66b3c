// SPDX-License-Identifier: BSL-1.0
// E9: recycled objects. Each thread acquires a buffer, reads from it and releases it; with 64 KiB that are expensive to
// build, the question is what recycling saves, with 48 bytes what it costs: acquire and release against create and drop.
//
//   loop   one buffer at a time
//   held   sixteen in use by each thread, the oldest released first
#pragma once

#include "contender/contender.hpp"
#include "e9_recycled/buffer.hpp"
#include "support/measure.hpp"
#include "support/registry.hpp"

#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace bench::e9_recycled {

// Building each time takes a thousand times as long: each gets about a second.
inline constexpr std::uint64_t k_recycled = 50'000'000;
inline constexpr std::uint64_t k_built_anew = 100'000;
inline constexpr std::size_t k_held = 16;

template <class C>
inline constexpr bool k_recycles = requires { C::k_recycles; };

template <class T, class C>
void acquire_and_release(C& from, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
        auto one = from.template make<T>();
        keep_alive(std::to_address(one));
        from.drop(one);
    }
}

template <class T, class C>
void acquire_and_hold(C& from, std::uint64_t n) {
    std::array<typename C::template pointer<T>, k_held> held{};
    for (std::uint64_t i = 0; i < n; ++i) {
        auto& oldest = held[i % k_held];
        if (i >= k_held) from.drop(oldest);
        oldest = from.template make<T>();
        keep_alive(std::to_address(oldest));
    }
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(n, k_held); ++i)
        from.drop(held[i]);
}

template <class T, contender C>
measurement use(const parameters& p) {
    const bool is_quick = k_recycles<C> || sizeof(T) < sizeof(costly_buffer);
    const std::uint64_t operations = scaled(is_quick ? k_recycled : k_built_anew, p.scale, 2 * k_held);
    start_and_join_one_thread();
    auto from = std::make_unique<C>();
    const auto work = [&](std::uint64_t n) {
        p.variant == "loop" ? acquire_and_release<T>(*from, n) : acquire_and_hold<T>(*from, n);
    };
    const std::uint64_t warm_up = operations / 20 + 2 * k_held;
    double seconds = 0;
    g_built = 0;
    if (p.threads == 1) {
        work(warm_up);
        const stopwatch watch;
        work(operations);
        seconds = watch.seconds();
    } else {
        std::barrier phase(static_cast<std::ptrdiff_t>(p.threads) + 1);
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < p.threads; ++t)
            threads.emplace_back([&] {
                work(warm_up);
                phase.arrive_and_wait();
                work(operations);
                phase.arrive_and_wait();
            });
        phase.arrive_and_wait();
        const stopwatch watch;
        phase.arrive_and_wait();
        seconds = watch.seconds();
        for (std::thread& thread : threads)
            thread.join();
    }
    measurement found{seconds, operations * p.threads, {}};
    if (sizeof(T) == sizeof(costly_buffer))
        found.extra.emplace_back("buffers built", static_cast<double>(g_built.load()));
    return found;
}

template <contender C>
measurement run(const parameters& p) {
    return p.payload == 48 ? use<object<48>, C>(p) : use<object<65536>, C>(p);
}

}  // namespace bench::e9_recycled
