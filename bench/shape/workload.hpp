// SPDX-License-Identifier: BSL-1.0
// A user's own shape: objects of exactly POOLED_BENCH_SHAPE_BYTES bytes, for which this is compiled.
//
// burst:   each thread fills a vector with its share of --live objects, drops them all, and begins again.
// churn:   each thread replaces random ones of its share (E7).
// handoff: pairs of threads; one creates, the other drops each object once --live later ones have come.
#pragma once

#include "contender/contender.hpp"
#include "e7_random_replacement/workload.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"
#include "support/spsc_ring.hpp"

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace bench::shape {

inline constexpr std::size_t k_bytes = POOLED_BENCH_SHAPE_BYTES;
inline constexpr std::uint64_t k_operations = 10'000'000;  // of all threads together

using object = packet<k_bytes>;

// A hand-off needs a contender that any thread may free to.
template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {"burst", "churn", "handoff"};
    return {"burst", "churn"};
}

// Runs `work(thread, phase)` in `threads` threads, for phase 0, the warm-up, and then for phase 1, which is timed.
template <class Work>
double timed_in_threads(unsigned threads, Work work) {
    std::barrier barrier(static_cast<std::ptrdiff_t>(threads) + 1);
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; ++t) {
        running.emplace_back([&, t] {
            auto mine = work(t);
            mine(0);
            barrier.arrive_and_wait();  // all are warm
            barrier.arrive_and_wait();  // the clock runs
            mine(1);
            barrier.arrive_and_wait();  // all are done
        });
    }
    barrier.arrive_and_wait();
    const stopwatch watch;
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const double seconds = watch.seconds();
    for (std::thread& thread : running)
        thread.join();
    return seconds;
}

template <class C>
measurement burst(const parameters& p) {
    const std::size_t live_each = std::max<std::size_t>(1, p.live / p.threads);
    const std::uint64_t each = std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / p.threads);
    const std::uint64_t rounds = std::max<std::uint64_t>(1, each / live_each);
    auto shared = std::make_unique<C>();
    const double seconds = timed_in_threads(p.threads, [&](unsigned) {
        auto own = std::make_unique<std::optional<C>>();  // for a contender that serves one thread only
        if constexpr (!C::k_thread_safe) own->emplace();
        C& from = *own ? **own : *shared;
        std::vector<typename C::template pointer<object>> objects;
        objects.reserve(live_each);
        return [&from, rounds, live_each, own = std::move(own),
                objects = std::move(objects)](int phase) mutable {
            for (std::uint64_t round = 0; round < (phase == 0 ? 1 : rounds); ++round) {
                for (std::size_t i = 0; i < live_each; ++i)
                    objects.push_back(from.template make<object>());
                keep_alive(objects.data());
                drop_all(from, objects);
            }
        };
    });
    return {seconds, rounds * live_each * p.threads, {}};
}

// One end of a pair: what a thread of even number creates its neighbour drops.
template <class C>
class pair_end {
public:
    using pointer = typename C::template pointer<object>;

    pair_end(C& from, spsc_ring<pointer>& ring, bool creates, std::size_t live, std::uint64_t each)
        : m_from(from),
          m_ring(ring),
          m_creates(creates),
          m_live(live),
          m_each(each),
          m_alive(creates ? 0 : live) {}
    pair_end(pair_end&&) = default;
    ~pair_end() { drop_all(m_from, m_alive); }

    void operator()(int phase) {
        // The warm-up fills the queue of live objects, so that the timed part drops one for each that it takes.
        const std::uint64_t count = phase == 0 ? m_each / 10 + m_live : m_each;
        m_creates ? create(count) : take(count);
    }

private:
    void create(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i)
            m_ring.push(m_from.template make<object>());
        m_ring.flush();
    }

    void take(std::uint64_t count) {
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            pointer& place = m_alive[m_oldest];
            if (place) m_from.drop(place);
            place = m_ring.pop();
            sum += place->first();
            if (++m_oldest == m_alive.size()) m_oldest = 0;
        }
        if (sum != count) throw std::runtime_error("an object arrived with other contents");
    }

    C& m_from;
    spsc_ring<pointer>& m_ring;
    bool m_creates;
    std::size_t m_live;
    std::uint64_t m_each;
    std::vector<pointer> m_alive;  // of the end that drops: those not dropped yet, in a ring
    std::size_t m_oldest = 0;
};

template <class C>
measurement hand_off(const parameters& p) {
    if (p.threads % 2 != 0)
        throw std::invalid_argument("a hand-off is between pairs of threads: --threads must be even");
    using pointer = typename C::template pointer<object>;
    const unsigned pairs = p.threads / 2;
    const std::uint64_t each = std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / pairs);
    const std::size_t live_each = std::max<std::size_t>(1, p.live / pairs);
    auto shared = std::make_unique<C>();
    std::vector<std::unique_ptr<spsc_ring<pointer>>> rings;
    for (unsigned pair = 0; pair < pairs; ++pair)
        rings.push_back(std::make_unique<spsc_ring<pointer>>());
    const double seconds = timed_in_threads(p.threads, [&](unsigned t) {
        return pair_end<C>(*shared, *rings[t / 2], t % 2 == 0, live_each, each);
    });
    return {seconds, each * pairs, {}};
}

template <contender C>
measurement run(const parameters& p) {
    start_and_join_one_thread();
    if (p.variant == "churn") return e7_random_replacement::replace_at_random<C, k_bytes>(p);
    if constexpr (C::k_thread_safe) {
        if (p.variant == "handoff") return hand_off<C>(p);
    }
    return burst<C>(p);
}

}  // namespace bench::shape
