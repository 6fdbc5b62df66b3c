// SPDX-License-Identifier: BSL-1.0
// E12: every single create and every single drop is timed with the processor's counter.
//
// steady   --live objects, random ones of which are replaced
// bursts   --live objects are created, then dropped in the order of their creation, again and again
// preempted   bursts beside a thread of the lowest priority (Linux: SCHED_IDLE) that creates and drops one object after another, on a
//          processor that a third thread keeps busy: it is preempted all the time, and runs again after seconds. For 60 seconds times
//          the scale, as the worst call is what matters: `raw_new` at --scale 10 is the worst `new` of ten minutes
// preempted_3000   the same, but that thread creates 3,000 objects and drops them, again and again
// remote   one thread creates; another drops them, each when --live younger ones have arrived; handed over in bursts of 32
//
// No more live objects than 256 MiB hold. 1,500 bytes are the 1,504 that an allocator rounds them to.
//
// Results include the counter's own cost, which is also measured and reported (counter_…): the same loop around nothing.
// Its largest value shows how long interrupts and the hypervisor stop a program.
#pragma once

#include "contender/contender.hpp"
#include "support/burst_ring.hpp"
#include "support/hand_over.hpp"
#include "support/histogram.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"
#include "support/tick_counter.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace bench::e12_latency {

inline constexpr std::uint64_t k_operations = 20'000'000;
inline constexpr double k_seconds_preempted = 60;
inline constexpr std::size_t k_most_live_bytes = std::size_t{256} << 20;

// Another thread drops: only for contenders that any thread may free to.
template <class C>
std::vector<std::string_view> variants() {
#if defined(__linux__)
    if (C::k_thread_safe) return {"steady", "bursts", "remote", "preempted", "preempted_3000"};
#else
    if (C::k_thread_safe) return {"steady", "bursts", "remote"};
#endif
    return {"steady", "bursts"};
}

struct latencies {
    histogram create;
    histogram drop;
    bool counting = false;  // false while warming up
};

template <std::size_t Payload, class C>
auto timed_make(C& from, latencies& found) {
    const std::uint64_t start = ticks_before();
    auto object = from.template make<packet<Payload>>();
    keep_alive(std::to_address(object));
    const std::uint64_t end = ticks_after();
    if (found.counting) found.create.add(end - start);
    return object;
}

template <class C, class Pointer>
void timed_drop(C& from, Pointer& object, latencies& found) {
    const std::uint64_t start = ticks_before();
    from.drop(object);
    const std::uint64_t end = ticks_after();
    if (found.counting) found.drop.add(end - start);
}

template <std::size_t Payload, class C>
void steady(C& from, std::size_t live, std::uint64_t warm_up, std::uint64_t n, latencies& found) {
    std::vector<typename C::template pointer<packet<Payload>>> objects(live);
    for (auto& object : objects)
        object = from.template make<packet<Payload>>();
    random_source random;
    for (std::uint64_t i = 0; i < warm_up + n; ++i) {
        found.counting = i >= warm_up;
        auto& place = objects[random.below(static_cast<std::uint32_t>(live))];
        auto fresh = timed_make<Payload>(from, found);
        // Taken out of the array first: a miss there is not the allocator's.
        auto old = std::exchange(place, std::move(fresh));
        timed_drop(from, old, found);
    }
    drop_all(from, objects);
}

// `goes_on`: whether another burst follows so many creates.
template <std::size_t Payload, class C, class GoesOn>
void bursts(C& from, std::size_t live, std::uint64_t warm_up, GoesOn&& goes_on, latencies& found) {
    std::vector<typename C::template pointer<packet<Payload>>> objects(live);
    for (std::uint64_t done = 0; goes_on(done); done += live) {
        found.counting = done >= warm_up;
        for (auto& object : objects)
            object = timed_make<Payload>(from, found);
        for (auto& object : objects)
            timed_drop(from, object, found);
    }
}

template <std::size_t Payload, class C>
void remote(C& from, std::size_t live, std::uint64_t warm_up, std::uint64_t n, latencies& found) {
    using pointer = typename C::template pointer<packet<Payload>>;
    using ring_type = burst_ring<pointer>;
    const auto whole = [](std::uint64_t count) {
        return (count + ring_type::k_burst - 1) / ring_type::k_burst * ring_type::k_burst;
    };
    const std::uint64_t first =
        whole(std::max<std::uint64_t>(warm_up, live));  // until then nothing is dropped
    const std::uint64_t all = first + whole(n);
    auto ring = std::make_unique<ring_type>();
    auto dropped = std::make_unique<latencies>();  // its own, because the threads write at the same time

    processors apart(2);
    // Uses nothing of this stack, to which the producer writes for each object.
    std::thread consumer([&from, &apart, mine = ring.get(), to = dropped.get(), all, first, live] {
        apart.take_one(0);
        std::vector<pointer> objects(live);
        typename ring_type::burst burst{};
        std::size_t oldest = 0;
        for (std::uint64_t done = 0; done < all; done += ring_type::k_burst) {
            to->counting = done >= first;
            mine->pop(burst);
            for (pointer& one : burst) {
                pointer old = std::exchange(objects[oldest], std::move(one));
                if (old) timed_drop(from, old, *to);
                if (++oldest == live) oldest = 0;
            }
        }
        drop_all(from, objects);
    });
    apart.take_one(1);
    typename ring_type::burst burst{};
    for (std::uint64_t done = 0; done < all; done += ring_type::k_burst) {
        found.counting = done >= first;
        for (pointer& one : burst)
            one = timed_make<Payload>(from, found);
        ring->push(burst);
    }
    consumer.join();
    found.drop = dropped->drop;
}

#if defined(__linux__)
inline void run_on_processor(int which) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(which, &only);
    ::sched_setaffinity(0, sizeof(only), &only);
}

template <std::size_t Payload, class C>
void preempted(C& from, std::size_t held, std::size_t live, double seconds, latencies& found) {
    std::atomic<bool> stop{false};
    std::thread low([&] {
        run_on_processor(0);
        const sched_param none{};
        ::sched_setscheduler(0, SCHED_IDLE, &none);
        std::vector<typename C::template pointer<packet<Payload>>> objects(held);
        while (!stop.load(std::memory_order_relaxed)) {
            for (auto& object : objects) {
                object = from.template make<packet<Payload>>();
                keep_alive(std::to_address(object));
            }
            for (auto& object : objects)
                from.drop(object);
        }
    });
    std::thread busy([&] {
        run_on_processor(0);
        while (!stop.load(std::memory_order_relaxed)) {}
    });
    std::thread measured([&] {
        if (std::thread::hardware_concurrency() > 1) run_on_processor(1);
        const stopwatch watch;
        const auto goes_on = [&](std::uint64_t done) { return done <= live || watch.seconds() < seconds; };
        bursts<Payload>(from, live, live, goes_on, found);
    });
    measured.join();
    stop = true;
    busy.join();
    low.join();
}
#endif

inline histogram time_nothing(std::uint64_t n) {
    histogram found;
    for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t start = ticks_before();
        const std::uint64_t end = ticks_after();
        found.add(end - start);
    }
    return found;
}

inline void tell(measurement& to, const std::string& name, const histogram& of, double ns_per_tick) {
    const auto add = [&](const char* what, std::uint64_t ticks) {
        to.extra.emplace_back(name + "_" + what + "_ns", static_cast<double>(ticks) * ns_per_tick);
    };
    add("p50", of.percentile(0.5));
    add("p99", of.percentile(0.99));
    add("p999", of.percentile(0.999));
    add("p9999", of.percentile(0.9999));
    add("max", of.max());
}

template <contender C, std::size_t Payload>
measurement time_each(const parameters& p) {
    const std::uint64_t n = scaled(k_operations, p.scale);
    const std::uint64_t warm_up = n / 10 + 1;
    const std::size_t live =
        std::min(p.live, is_tiny(p.scale) ? std::size_t{1000} : k_most_live_bytes / Payload);
    start_and_join_one_thread();
    auto from = std::make_unique<C>();
    auto found = std::make_unique<latencies>();
    const tick_scale scale;
    const histogram nothing = time_nothing(std::max<std::uint64_t>(n / 10, 1000));
    std::vector<std::pair<std::string, double>> extra;
    if (p.variant == "remote") extra.push_back(time_hand_over());
    if (p.variant == "steady") steady<Payload>(*from, live, warm_up, n, *found);
    if (p.variant == "bursts") {
        const auto goes_on = [&](std::uint64_t done) { return done < warm_up + n; };
        bursts<Payload>(*from, live, warm_up, goes_on, *found);
    }
    if constexpr (C::k_thread_safe) {
        if (p.variant == "remote") remote<Payload>(*from, live, warm_up, n, *found);
#if defined(__linux__)
        const double seconds = k_seconds_preempted * p.scale;
        if (p.variant == "preempted") preempted<Payload>(*from, 1, live, seconds, *found);
        if (p.variant == "preempted_3000") preempted<Payload>(*from, 3000, live, seconds, *found);
#endif
    }
    const double ns_per_tick = scale.ns_per_tick();
    const double ticks = static_cast<double>(found->create.sum() + found->drop.sum());
    measurement result{ticks * ns_per_tick * 1e-9, found->create.count(), std::move(extra)};
    tell(result, "create", found->create, ns_per_tick);
    tell(result, "drop", found->drop, ns_per_tick);
    tell(result, "counter", nothing, ns_per_tick);
    return result;
}

template <contender C>
measurement run(const parameters& p) {
    switch (p.payload) {
    case 48:
        return time_each<C, 48>(p);
    case 1500:
        return time_each<C, 1500>(p);
    case 20'000:
        return time_each<C, 20'000>(p);
    default:
        return time_each<C, 60'000>(p);
    }
}

}  // namespace bench::e12_latency
