// SPDX-License-Identifier: BSL-1.0
#pragma once

// What one thread keeps of the idle objects of one pool: the one released last, and an array of addresses behind it.
//
//   hot      released last, acquired first: acquire-and-release never reads the array
//   array    the others, oldest first; outside the objects, from g_metadata
//
// Stands in for cache/class_cache.hpp, whose interface this is.
//
// Invariant: held = (hot ? 1 : 0) + size of the array;  size <= capacity Only the owner (inside its gate, or under the
// pool's lock) or a thread that stopped the owner changes it; held() may be read at any time. O(1), but take_oldest,
// take_all and reserve, which are O(capacity).

#include "pooled/base/atomics.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/os/metadata.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pooled::detail {

class alignas(k_cache_line) idle_cache {
public:
    // The block freed last, or null.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_hot() noexcept {
        void* const hot = m_hot;
        if (hot != nullptr) [[likely]]
            m_hot = nullptr;
        return hot;
    }

    // False when there is a hot block already.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_hot(void* block) noexcept {
        if (m_hot != nullptr) [[unlikely]]
            return false;
        m_hot = block;
        return true;
    }

    // Requires that there is no hot block. From the array; null when it is empty.
    [[nodiscard]] void* pop_cold() noexcept {
        std::uint32_t const size = m_size;
        if (size == 0) return nullptr;
        m_size = size - 1;
        return m_array[size - 1];
    }

    // Requires a hot block: that one moves to the array, and `block` is hot. False when the array is full, or there is none;
    // the block is then still the caller's.
    [[nodiscard]] bool push_cold(void* block) noexcept {
        std::uint32_t const size = m_size;
        if (size == m_capacity) return false;
        m_array[size] = m_hot;
        m_size = size + 1;
        m_hot = block;
        return true;
    }

    [[nodiscard]] void* pop() noexcept {
        void* const hot = pop_hot();
        return hot != nullptr ? hot : pop_cold();
    }
    [[nodiscard]] bool push(void* block) noexcept { return push_hot(block) || push_cold(block); }

    [[nodiscard]] std::uint32_t held() const noexcept { return (m_hot != nullptr ? 1U : 0U) + m_size; }
    // Of the array.
    [[nodiscard]] std::uint32_t capacity() const noexcept { return m_capacity; }

    // A new array of that capacity, not less than what the present one holds. False when there is no memory; nothing
    // has changed then.
    [[nodiscard]] bool reserve(std::uint32_t capacity) noexcept {
        if (capacity == m_capacity) return true;
        void* const memory = g_metadata.try_allocate(bytes_of(capacity));
        if (memory == nullptr) return false;
        void** const array = static_cast<void**>(memory);
        std::copy_n(m_array, m_size, array);
        free_array();
        m_array = array;
        m_capacity = capacity;
        return true;
    }

    // Moves the `n` oldest of the array, or all if there are fewer, to `out`, oldest first. Returns how many.
    std::uint32_t take_oldest(void** out, std::uint32_t n) noexcept {
        std::uint32_t const size = m_size;
        std::uint32_t const count = std::min(n, size);
        std::copy_n(m_array, count, out);
        std::copy(m_array + count, m_array + size, m_array);
        m_size = size - count;
        return count;
    }

    // Moves everything, the hot one last, to `out`, of capacity() + 1. Returns how many.
    std::uint32_t take_all(void** out) noexcept {
        std::uint32_t count = take_oldest(out, m_size);
        if (void* const hot = pop_hot()) out[count++] = hot;
        return count;
    }

    // Requires that nothing is held. Frees the array.
    void release() noexcept {
        free_array();
        m_array = nullptr;
        m_capacity = 0;
    }

private:
    [[nodiscard]] static std::size_t bytes_of(std::uint32_t capacity) noexcept {
        return std::size_t{capacity} * sizeof(void*);
    }
    void free_array() noexcept {
        if (m_array != nullptr) g_metadata.deallocate(m_array, bytes_of(m_capacity));
    }

    observed<void*> m_hot;
    void** m_array = nullptr;
    observed<std::uint32_t> m_size;
    std::uint32_t m_capacity = 0;
};
static_assert(sizeof(idle_cache) == k_cache_line);

}  // namespace pooled::detail
