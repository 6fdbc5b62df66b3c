// SPDX-License-Identifier: BSL-1.0
// A bounded ring from one producer thread to one consumer thread: the hand-off of E5 (one at a time), E6 and E10.
//
//   tail - head <= Slots      both only grow; slot of index i is i mod Slots
//
// Each side works on its own copy of both indices and publishes its own only every k_batch moves, so that the
// cache line of an index crosses between the cores once a batch: the ring should cost little in comparison
// with the objects. A side that must wait publishes first, or both would wait forever.
#pragma once

#include "support/spin_wait.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace bench {

template <class T, std::size_t Slots = 1024>
class spsc_ring {
    static_assert((Slots & (Slots - 1)) == 0, "the slot is found by masking");

public:
    // Producer only. Waits while the ring is full.
    void push(T&& value) {
        if (m_producer.own - m_producer.other == Slots) wait_for_room();
        m_slots[m_producer.own & (Slots - 1)] = std::move(value);
        if ((++m_producer.own & (k_batch - 1)) == 0) flush();
    }

    // Producer only: publishes what it pushed. Needed after the last push.
    void flush() { m_tail.store(m_producer.own, std::memory_order_release); }  // pairs with pop's acquire

    // Consumer only. Waits while the ring is empty.
    T pop() {
        if (m_consumer.own == m_consumer.other) wait_for_value();
        T value = std::move(m_slots[m_consumer.own & (Slots - 1)]);
        if ((++m_consumer.own & (k_batch - 1)) == 0) publish_head();
        return value;
    }

private:
    static constexpr std::size_t k_batch = 32;
    static constexpr std::size_t k_line = 128;  // two cache lines: adjacent ones are prefetched together

    struct alignas(k_line) side {
        std::size_t own = 0;    // this side's index
        std::size_t other = 0;  // the other side's, as last seen
    };

    void publish_head() {
        m_head.store(m_consumer.own, std::memory_order_release);
    }  // pairs with wait_for_room

    [[gnu::noinline]] void wait_for_room() {
        flush();
        spin_until([&] {
            m_producer.other = m_head.load(std::memory_order_acquire);  // pairs with publish_head
            return m_producer.own - m_producer.other != Slots;
        });
    }

    [[gnu::noinline]] void wait_for_value() {
        publish_head();
        spin_until([&] {
            m_consumer.other = m_tail.load(std::memory_order_acquire);  // pairs with flush
            return m_consumer.own != m_consumer.other;
        });
    }

    side m_producer;
    side m_consumer;
    alignas(k_line) std::atomic<std::size_t> m_tail{0};
    alignas(k_line) std::atomic<std::size_t> m_head{0};
    alignas(k_line) std::array<T, Slots> m_slots{};
};

}  // namespace bench
