// SPDX-License-Identifier: BSL-1.0
// A bounded ring of bursts from one producer thread to one consumer thread: how packet code hands objects over.
//
//   tail - head <= Slots      both count bursts and only grow; burst i lies in slot i mod Slots
//
// A burst is moved into its slot and published with one store, and taken out with one: besides the objects, only
// their pointers and, once a burst, an index cross between the cores. spsc_ring.hpp moves one pointer at a time.
#pragma once

#include "support/spin_wait.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace bench {

template <class T, std::size_t Burst = 32, std::size_t Slots = 32>
class burst_ring {
    static_assert((Slots & (Slots - 1)) == 0, "the slot is found by masking");

public:
    static constexpr std::size_t k_burst = Burst;
    static constexpr std::size_t k_capacity = Burst * Slots;
    using burst = std::array<T, Burst>;

    // Producer only. Waits while the ring is full.
    void push(burst& values) {
        const std::size_t tail = m_tail.load(std::memory_order_relaxed);
        spin_until([&] {
            if (tail - m_producer.other != Slots) return true;
            m_producer.other = m_head.load(std::memory_order_acquire);  // pairs with the release in take
            return tail - m_producer.other != Slots;
        });
        burst& slot = m_slots[tail & (Slots - 1)];
        for (std::size_t i = 0; i < Burst; ++i)
            slot[i] = std::move(values[i]);
        m_tail.store(tail + 1, std::memory_order_release);  // pairs with the acquire in try_pop
    }

    // Consumer only. Waits while the ring is empty.
    void pop(burst& values) {
        spin_until([&] { return try_pop(values); });
    }

    // Consumer only. False when the ring is empty.
    bool try_pop(burst& values) {
        const std::size_t head = m_head.load(std::memory_order_relaxed);
        if (head == m_consumer.other) {
            m_consumer.other = m_tail.load(std::memory_order_acquire);  // pairs with the release in push
            if (head == m_consumer.other) return false;
        }
        take(head, values);
        return true;
    }

private:
    static constexpr std::size_t k_line = 128;  // two cache lines: adjacent ones are prefetched together

    struct alignas(k_line) side {
        std::size_t other = 0;  // the other side's index, as last seen
    };

    void take(std::size_t head, burst& values) {
        burst& slot = m_slots[head & (Slots - 1)];
        for (std::size_t i = 0; i < Burst; ++i)
            values[i] = std::move(slot[i]);
        m_head.store(head + 1, std::memory_order_release);  // pairs with the acquire in push
    }

    side m_producer;
    side m_consumer;
    alignas(k_line) std::atomic<std::size_t> m_tail{0};
    alignas(k_line) std::atomic<std::size_t> m_head{0};
    alignas(k_line) std::array<burst, Slots> m_slots{};
};

}  // namespace bench
