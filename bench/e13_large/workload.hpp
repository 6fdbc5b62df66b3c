// SPDX-License-Identifier: BSL-1.0
// E13: large objects. The constructor writes the first byte only, so what is measured is the allocator: whether it keeps
// the memory, or requests pages from the system and returns them each time.
//
// create_drop   one at a time
// queue         32 alive, the oldest dropped when a new one has been created
// hand_over     created by one thread, dropped by another, handed over in bursts of 4, at most 32 in the ring
//
// three_sizes, three_sizes_queue   the first two with three sizes in turn: --payload and the next two of 64 KiB, 256 KiB,
//                                  1 MiB, 8 MiB, after which 64 KiB comes again. The oldest in the queue then has another
//                                  size than the new one. An allocator that remembers one size does worse
#pragma once

#include "contender/contender.hpp"
#include "support/burst_ring.hpp"
#include "support/hand_over.hpp"
#include "support/measure.hpp"
#include "support/payload.hpp"
#include "support/registry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace bench::e13_large {

inline constexpr std::uint64_t k_operations = 10'000'000;
inline constexpr double k_most_seconds = 10;
inline constexpr std::size_t k_queue = 32;

template <class C>
std::vector<std::string_view> variants() {
    if (C::k_thread_safe) return {};  // all of them
    return {"create_drop", "queue", "three_sizes", "three_sizes_queue"};
}

// The number of operations, unless they take longer than `seconds`: contenders differ by a factor of ten thousand.
struct amount {
    std::uint64_t operations;
    double seconds;
};

// Calls `batch(n)`, which does n operations, until enough are done. Returns their number and their time.
template <class Batch>
measurement repeat(const amount& enough, Batch&& batch) {
    constexpr std::uint64_t k_batch =
        60;  // operations between two readings of the clock: bursts of 4, turns of 3
    measurement found;
    const stopwatch watch;
    do {
        batch(k_batch);
        found.ops += k_batch;
        found.seconds = watch.seconds();
    } while (found.ops < enough.operations && found.seconds < enough.seconds);
    return found;
}

template <class Object, class C>
measurement create_and_drop(C& from, const amount& warm_up, const amount& timed) {
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto object = from.template make<Object>();
            keep_alive(std::to_address(object));
            from.drop(object);
        }
    };
    repeat(warm_up, batch);
    return repeat(timed, batch);
}

template <class Object, class C>
measurement keep_a_queue(C& from, const amount& warm_up, const amount& timed) {
    std::array<typename C::template pointer<Object>, k_queue> queue{};
    for (auto& one : queue)
        one = from.template make<Object>();
    std::size_t oldest = 0;
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i) {
            auto fresh = from.template make<Object>();
            keep_alive(std::to_address(fresh));
            from.drop(queue[oldest]);
            queue[oldest] = std::move(fresh);
            oldest = (oldest + 1) % k_queue;
        }
    };
    repeat(warm_up, batch);
    const measurement found = repeat(timed, batch);
    for (auto& one : queue)
        from.drop(one);
    return found;
}

// The producer's time: it waits for the consumer when the ring is full. An empty pointer marks the end.
template <class Object, class C>
measurement hand_over(C& from, const amount& warm_up, const amount& timed) {
    using ring_type = burst_ring<typename C::template pointer<Object>, 4, k_queue / 4>;
    const auto word = time_hand_over();
    auto ring = std::make_unique<ring_type>();
    std::uint64_t sum = 0;
    processors apart(2);
    // Uses nothing of this stack, to which the producer writes for each object.
    std::thread consumer([&, mine = ring.get()] {
        apart.take_one(0);
        std::uint64_t seen = 0;
        typename ring_type::burst burst{};
        for (mine->pop(burst); burst[0]; mine->pop(burst)) {
            for (auto& one : burst) {
                seen += one->first();
                from.drop(one);
            }
        }
        sum = seen;
    });
    apart.take_one(1);
    typename ring_type::burst burst{};
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; i += ring_type::k_burst) {
            for (auto& one : burst)
                one = from.template make<Object>();
            ring->push(burst);
        }
    };
    const std::uint64_t before = repeat(warm_up, batch).ops;
    measurement found = repeat(timed, batch);
    found.extra.push_back(word);
    burst = {};
    ring->push(burst);
    consumer.join();
    if (sum != before + found.ops) throw std::runtime_error("an object arrived with other contents");
    return found;
}

// Objects of three sizes, in turn: object i has size i mod 3.
template <class C, std::size_t... Sizes>
class three_sizes {
public:
    static_assert(sizeof...(Sizes) == 3);
    static constexpr std::uint64_t k_turn = 3;  // objects

    explicit three_sizes(C& from) : m_from(from) {}
    three_sizes(const three_sizes&) = delete;
    three_sizes& operator=(const three_sizes&) = delete;
    ~three_sizes() {
        std::apply([&](auto&... rings) { (drop_all(rings), ...); }, m_alive);
    }

    // One of each, created and dropped.
    void create_and_drop() { (create_and_drop_one<Sizes>(), ...); }

    // One of each, created in a queue of 32 all together.
    void queue() {
        queue_one<0>();
        queue_one<1>();
        queue_one<2>();
        m_at = (m_at + 1) % k_each;
    }

private:
    // Object i is created in turn t = i / 3 and lies in ring i mod 3 at t mod 11. Then object i - 32 is dropped, which lies
    // in the next ring at the same place, or, since 32 = 3 * 11 - 1, in ring 0 at the next place.
    static constexpr std::size_t k_each = (k_queue + 1) / k_turn;
    static_assert(k_each * k_turn == k_queue + 1);

    template <std::size_t Bytes>
    using ring = std::array<typename C::template pointer<packet<Bytes>>, k_each>;

    template <std::size_t Bytes>
    auto create() {
        auto object = m_from.template make<packet<Bytes>>();
        keep_alive(std::to_address(object));
        return object;
    }

    template <std::size_t Bytes>
    void create_and_drop_one() {
        auto object = create<Bytes>();
        m_from.drop(object);
    }

    template <std::size_t Which>
    void queue_one() {
        constexpr std::array<std::size_t, 3> k_bytes{Sizes...};
        auto fresh = create<k_bytes[Which]>();
        if constexpr (Which < 2)
            drop(std::get<Which + 1>(m_alive)[m_at]);
        else
            drop(std::get<0>(m_alive)[(m_at + 1) % k_each]);
        std::get<Which>(m_alive)[m_at] = std::move(fresh);
    }

    template <class Pointer>
    void drop(Pointer& object) {
        if (object) m_from.drop(object);  // the first 32 follow no others
    }
    template <class Ring>
    void drop_all(Ring& objects) {
        for (auto& object : objects)
            drop(object);
    }

    C& m_from;
    std::tuple<ring<Sizes>...> m_alive{};
    std::size_t m_at = 0;
};

template <class C, std::size_t... Sizes>
measurement use_three(C& from, const parameters& p, const amount& warm_up, const amount& timed) {
    three_sizes<C, Sizes...> objects(from);
    const bool queued = p.variant == "three_sizes_queue";
    const auto batch = [&](std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; i += objects.k_turn)
            queued ? objects.queue() : objects.create_and_drop();
    };
    repeat(warm_up, batch);
    return repeat(timed, batch);
}

template <std::size_t Payload, std::size_t Second, std::size_t Third, class C>
measurement use(const parameters& p) {
    using object = packet<Payload>;
    const amount timed{scaled(k_operations, p.scale), k_most_seconds * p.scale};
    // Memory is requested, and a malloc adapts its thresholds.
    const amount warm_up{timed.operations / 10 + 1, timed.seconds / 10};
    start_and_join_one_thread();
    auto from = std::make_unique<C>();
    if (p.variant.starts_with("three_sizes"))
        return use_three<C, Payload, Second, Third>(*from, p, warm_up, timed);
    if constexpr (C::k_thread_safe) {
        if (p.variant == "hand_over") return hand_over<object>(*from, warm_up, timed);
    }
    return p.variant == "create_drop" ? create_and_drop<object>(*from, warm_up, timed)
                                      : keep_a_queue<object>(*from, warm_up, timed);
}

template <contender C>
measurement run(const parameters& p) {
    switch (p.payload) {
    case 65536:
        return use<65536, 262144, 1048576, C>(p);
    case 262144:
        return use<262144, 1048576, 8388608, C>(p);
    case 1048576:
        return use<1048576, 8388608, 65536, C>(p);
    default:
        return use<8388608, 65536, 262144, C>(p);
    }
}

}  // namespace bench::e13_large
