// SPDX-License-Identifier: BSL-1.0
// E7: N threads, each with an array of live objects of its own, replace random ones.
//
// replace   the same threads all the time
// rounds    ten rounds, each with threads of its own that end with it. The first creates its objects; each later one takes
//           over the array of another thread of the round before, and so frees what a thread created that has ended. A
//           pool that loses what ended threads held, or serves new threads worse, shows in the last rounds.
// crowd     32 threads a processor, each of which creates --live objects and drops them, again and again; before them as many as --threads
//           do the same (few_ns). A thread that is preempted while it holds a lock, or has others stopped, shows.
#pragma once

#include "contender/contender.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/random.hpp"
#include "support/registry.hpp"
#include "support/resident_memory.hpp"

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace bench::e7_random_replacement {

inline constexpr std::uint64_t k_operations = 100'000'000;  // of all threads together, and of all rounds
inline constexpr std::size_t k_rounds = 10;

// Objects that outlive their thread need a contender that any thread may free to.
template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {"replace", "rounds", "crowd"};
    return {"replace"};
}

template <class C, std::size_t Payload>
using objects = resident_vector<typename C::template pointer<packet<Payload>>>;

template <class C, std::size_t Payload>
class replacer {
public:
    // Takes over `inherited`; if that is empty, creates `live` objects.
    replacer(C& from, objects<C, Payload> inherited, std::size_t live, std::uint64_t seed)
        : m_from(from), m_objects(std::move(inherited)), m_random(seed) {
        if (!m_objects.empty()) return;
        m_objects.resize(live);
        for (auto& object : m_objects)
            object = from.template make<packet<Payload>>();
    }
    replacer(const replacer&) = delete;
    replacer& operator=(const replacer&) = delete;
    ~replacer() { drop_all(m_from, m_objects); }

    objects<C, Payload> bequeath() { return std::move(m_objects); }

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
    objects<C, Payload> m_objects;
    random_source m_random;
};

struct amounts {
    std::size_t live_each;
    std::uint64_t warm_up;
    std::uint64_t timed;
};

inline std::size_t live_of_each(const parameters& p) {
    const std::size_t wanted = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    return std::max<std::size_t>(1, wanted / p.threads);
}

// Threads are started, replace `timed` objects each, and end. Seconds from the first to the last replacement that is
// timed. When `left` is given, each thread takes over the objects there of the thread beside it, and leaves its own.
template <class C, std::size_t Payload>
double one_round(C& shared, const amounts& n, std::vector<objects<C, Payload>>* left, unsigned count,
                 std::uint64_t seed) {
    std::barrier barrier(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<objects<C, Payload>> now(count);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t) {
        threads.emplace_back([&, t] {
            // A contender for one thread only serves one thread: each thread makes its own.
            std::optional<C> own;
            if constexpr (!C::k_thread_safe) own.emplace();
            objects<C, Payload> inherited;
            if (left) inherited = std::move((*left)[(t + 1) % count]);
            replacer<C, Payload> mine(own ? *own : shared, std::move(inherited), n.live_each, seed + t);
            mine.replace(n.warm_up);
            barrier.arrive_and_wait();  // all are ready
            barrier.arrive_and_wait();  // the clock runs
            mine.replace(n.timed);
            barrier.arrive_and_wait();  // all are done: what follows is not timed
            if (left) now[t] = mine.bequeath();
        });
    }
    barrier.arrive_and_wait();
    const stopwatch watch;
    barrier.arrive_and_wait();
    barrier.arrive_and_wait();
    const double seconds = watch.seconds();
    for (std::thread& thread : threads)
        thread.join();
    if (left) *left = std::move(now);
    return seconds;
}

template <class C, std::size_t Payload>
measurement replace_at_random(const parameters& p) {
    const std::uint64_t each = std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / p.threads);
    start_and_join_one_thread();
    auto shared = std::make_unique<C>();
    const amounts n{live_of_each(p), each / 10, each};
    return {one_round<C, Payload>(*shared, n, nullptr, p.threads, k_seed), each * p.threads, {}};
}

// Between two rounds no thread but this one is alive, and it touches no object.
template <class C, std::size_t Payload>
measurement replace_in_rounds(const parameters& p) {
    const std::uint64_t share = scaled(k_operations, p.scale) / p.threads / k_rounds;
    const std::uint64_t each = std::max<std::uint64_t>(1, share);
    start_and_join_one_thread();
    auto shared = std::make_unique<C>();
    const amounts n{live_of_each(p), each / 10, each};
    std::vector<objects<C, Payload>> left(p.threads);
    measurement found{0, each * p.threads * k_rounds, {}};
    std::vector<double> ns;
    for (std::size_t round = 0; round < k_rounds; ++round) {
        const double seconds =
            one_round<C, Payload>(*shared, n, &left, p.threads, k_seed + round * p.threads);
        found.seconds += seconds;
        ns.push_back(seconds * 1e9 / static_cast<double>(each * p.threads));
    }
    for (auto& objects : left)
        drop_all(*shared, objects);
    found.extra = {{"last_over_first", ns.back() / ns.front()}};
    for (std::size_t round = 0; round < k_rounds; ++round)
        found.extra.emplace_back("round_" + std::to_string(round + 1) + "_ns", ns[round]);
    return found;
}

// Seconds in which `count` threads create and drop `live` objects each, `bursts` times.
template <class C, std::size_t Payload>
double bursts_of(C& shared, unsigned count, std::uint64_t bursts, std::size_t live) {
    std::barrier barrier(static_cast<std::ptrdiff_t>(count) + 1);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t)
        threads.emplace_back([&] {
            objects<C, Payload> mine(live);
            barrier.arrive_and_wait();
            for (std::uint64_t i = 0; i < bursts; ++i) {
                for (auto& object : mine)
                    object = shared.template make<packet<Payload>>();
                for (auto& object : mine)
                    shared.drop(object);
            }
        });
    barrier.arrive_and_wait();
    const stopwatch watch;
    for (std::thread& thread : threads)
        thread.join();
    return watch.seconds();
}

template <class C, std::size_t Payload>
measurement replace_in_crowd(const parameters& p) {
    const unsigned crowd = is_tiny(p.scale) ? 8 : 32 * std::max(1U, std::thread::hardware_concurrency());
    const std::size_t live = is_tiny(p.scale) ? std::min<std::size_t>(p.live, 1000) : p.live;
    start_and_join_one_thread();
    auto shared = std::make_unique<C>();
    const auto bursts_each = [&](unsigned count) {
        return std::max<std::uint64_t>(1, scaled(k_operations, p.scale) / live / count);
    };
    const std::uint64_t few_each = bursts_each(p.threads);
    const double few = bursts_of<C, Payload>(*shared, p.threads, few_each, live);
    const std::uint64_t each = bursts_each(crowd);
    const double seconds = bursts_of<C, Payload>(*shared, crowd, each, live);
    return {seconds,
            each * crowd * live,
            {{"few_ns", few * 1e9 / static_cast<double>(few_each * p.threads * live)}}};
}

template <contender C, std::size_t Payload>
measurement run_with(const parameters& p) {
    if constexpr (C::k_thread_safe) {
        if (p.variant == "crowd") return replace_in_crowd<C, Payload>(p);
        if (p.variant == "rounds") return replace_in_rounds<C, Payload>(p);
    }
    return replace_at_random<C, Payload>(p);
}

template <contender C>
measurement run(const parameters& p) {
    return p.payload == 48 ? run_with<C, 48>(p) : run_with<C, 1500>(p);
}

}  // namespace bench::e7_random_replacement
