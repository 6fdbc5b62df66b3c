// SPDX-License-Identifier: BSL-1.0
// Contender `two_rings`: the limit of a hand-off whose memory is reused. The same blocks go back and forth: the consumer
// returns them in bursts of 32 through a second ring. Raw pointers, no counts and no allocator.
//
//   producer --ring of the workload--> consumer --m_returned--> producer
//
// The producer takes returned blocks before blocks that were never used, so no more blocks circulate than are in transit
// at once, as with a pool.
#pragma once

#include "contender/contender.hpp"
#include "support/burst_ring.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace bench::e5_handoff {

class two_rings_contender {
public:
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = true;  // for one producer and one consumer
    template <class T>
    using pointer = T*;

    // Producer only.
    template <class T, class... Args>
    T* make(Args&&... args) {
        return ::new (take<(sizeof(T) + 63) / 64 * 64>()) T(std::forward<Args>(args)...);
    }

    // Consumer only.
    template <class T>
    void drop(T*& object) {
        std::destroy_at(object);
        m_dropped[m_dropped_count++] = object;
        if (m_dropped_count == k_burst) {
            m_returned.push(m_dropped);
            m_dropped_count = 0;
        }
        object = nullptr;
    }

private:
    // The workload's ring holds 1,024 and each thread a burst or two; twice as many never run out.
    static constexpr std::size_t k_blocks = 2048;
    using ring = burst_ring<void*, 32, k_blocks / 32>;  // holds them all: the consumer never waits
    static constexpr std::size_t k_burst = ring::k_burst;

    template <std::size_t Stride>
    void* take() {
        if (m_taken_left == 0 && !m_returned.try_pop(m_taken)) {
            if (m_memory.empty()) m_memory.resize(k_blocks * Stride);
            if (m_fresh != k_blocks) return &m_memory[m_fresh++ * Stride];
            m_returned.pop(m_taken);
        }
        if (m_taken_left == 0) m_taken_left = k_burst;
        return m_taken[--m_taken_left];
    }

    // Producer's.
    ring::burst m_taken{};
    std::size_t m_taken_left = 0;
    std::size_t m_fresh = 0;
    std::vector<std::byte> m_memory;
    // Consumer's, behind the ring's own padding.
    ring m_returned;
    ring::burst m_dropped{};
    std::size_t m_dropped_count = 0;
};

}  // namespace bench::e5_handoff
