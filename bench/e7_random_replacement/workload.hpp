// SPDX-License-Identifier: BSL-1.0
// E7: N threads, each with an array of live objects of its own, replace random ones.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace bench::e7_random_replacement {

inline constexpr std::uint64_t k_operations = 100'000'000;  // of all threads together

template <class C, std::size_t Payload>
class replacer {
public:
    replacer(C& from, std::size_t live, unsigned thread)
        : m_from(from), m_objects(live), m_random(k_seed + thread) {
        for (auto& object : m_objects)
            object = from.template make<packet<Payload>>();
    }
    replacer(const replacer&) = delete;
    replacer& operator=(const replacer&) = delete;
    ~replacer() { drop_all(m_from, m_objects); }

    // Choices come from the generator as they are needed: it takes about a nanosecond, where a table of them
    // would push the objects under test out of the cache. Every contender gets the same ones.
    void replace(std::uint64_t n) {
        random_source random = m_random;
        const auto live = static_cast<std::uint32_t>(m_objects.size());
        for (std::uint64_t i = 0; i < n; ++i) {
            auto& object = m_objects[random.below(live)];
            auto fresh = m_from.template make<packet<Payload>>();  // first: so does `p = make_shared<T>()`
            m_from.drop(object);
            object = std::move(fresh);
        }
        m_random = random;
    }

private:
    C& m_from;
    std::vector<typename C::template pointer<packet<Payload>>> m_objects;
    random_source m_random;
};

template <class C, std::size_t Payload>
measurement replace_at_random(const parameters& p) {
    const std::uint64_t each = std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / p.threads);
    const std::size_t wanted = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    const std::size_t live_each = std::max<std::size_t>(1, wanted / p.threads);
    start_and_join_one_thread();

    auto shared = std::make_unique<C>();
    std::barrier barrier(static_cast<std::ptrdiff_t>(p.threads) + 1);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < p.threads; ++t) {
        threads.emplace_back([&, t] {
            // A contender for one thread only serves one thread: each thread makes its own.
            std::optional<C> own;
            if constexpr (!C::k_thread_safe) own.emplace();
            replacer<C, Payload> mine(own ? *own : *shared, live_each, t);
            mine.replace(each / 10);
            barrier.arrive_and_wait();  // all are ready
            barrier.arrive_and_wait();  // the clock runs
            mine.replace(each);
            barrier.arrive_and_wait();  // all are done: what follows is not timed
        });
    }
    barrier.arrive_and_wait();
    const stopwatch watch;
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const double seconds = watch.seconds();
    for (std::thread& thread : threads)
        thread.join();
    return {seconds, each * p.threads, {}};
}

template <contender C>
measurement run(const parameters& p) {
    return p.payload == 48 ? replace_at_random<C, 48>(p) : replace_at_random<C, 1500>(p);
}

}  // namespace bench::e7_random_replacement
