// SPDX-License-Identifier: BSL-1.0
// Contender `raw`: the limit. Raw pointers to the objects of a fixed array, used in turn: the ring alone.
#pragma once

#include "contender/contender.hpp"

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace bench::e5_handoff {

struct raw_contender {
    static constexpr bool k_counted = false;
    static constexpr bool k_thread_safe = true;  // for one producer and any consumers
    template <class T>
    using pointer = T*;

    template <class T, class... Args>
    T* make(Args&&... args) {
        // Twice the ring: when a slot's turn comes again its last object has been taken out of the ring.
        constexpr std::size_t k_slots = 2048;
        constexpr std::size_t k_stride = (sizeof(T) + 63) / 64 * 64;
        if (m_memory.empty()) m_memory.resize(k_slots * k_stride);
        return ::new (&m_memory[m_next++ % k_slots * k_stride]) T(std::forward<Args>(args)...);
    }
    template <class T>
    void drop(T*& object) {
        std::destroy_at(object);
        object = nullptr;
    }

private:
    std::size_t m_next = 0;
    std::vector<std::byte> m_memory;
};

}  // namespace bench::e5_handoff
