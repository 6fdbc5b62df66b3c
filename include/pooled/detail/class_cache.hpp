// SPDX-License-Identifier: BSL-1.0
#pragma once

// One thread's cache of one size class: addresses of free blocks. The blocks themselves are not touched.
//
//   hot     the block freed last: creating and dropping in a loop needs nothing else
//   array   the blocks freed before it, or taken from a slab; used from the end, so the block freed last is reused first
//
// Invariants: held = (hot ? 1 : 0) + size; size <= capacity; least_held <= held at every moment since the last exchange
//             frees - allocations of this thread = held - net_taken   (net_taken: blocks taken from the central free list
//             minus blocks returned to it), so counting remote frees costs nothing.
// Only the owner (inside its gate, or under the class's lock), or a thread that has stopped the owner and holds the class's lock,
// changes it; net_taken also the owner at the bound, where nothing is held. Sizes may be read at any time. O(1) unless noted.

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/instrument/free_mark.hpp"
#include "pooled/impl/os/metadata.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class class_cache {
public:
    // The block freed last, or null.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_hot() noexcept {
        void* const hot = m_hot;
        if (hot != nullptr) [[likely]]
            m_hot = nullptr;
        return hot;
    }

    // False when there already is a hot block.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_hot(void* block) noexcept {
        if (m_hot != nullptr) [[unlikely]]
            return false;
        m_hot = block;
        return true;
    }

    // pop_hot() and push_hot() in two steps.
    [[nodiscard]] POOLED_ALWAYS_INLINE observed<void*> const& hot() const noexcept { return m_hot; }
    POOLED_ALWAYS_INLINE void set_hot(void* block) noexcept { m_hot = block; }

    // Requires that there is no hot block. Null when the array is empty.
    [[nodiscard]] void* pop_cold() noexcept {
        std::uint32_t const size = m_size;
        if (size == 0) [[unlikely]]
            return nullptr;
        void* const* const array = m_array;
        if (size > k_ahead) [[likely]]
            __builtin_prefetch(array[size - 1 - k_ahead], 1);
        m_size = size - 1;
        return array[size - 1];
    }

    // `hot`: the hot block, which moves to the array. False when the array is full; the block is then still the caller's.
    [[nodiscard]] bool push_cold(void* block, void* hot) noexcept {
        std::uint32_t const size = m_size;
        if (size == m_capacity) [[unlikely]]
            return false;
        if (size < m_least) [[unlikely]]
            m_least = size;
        m_array[size] = hot;
        m_size = size + 1;
        m_hot = block;
        return true;
    }

    // Before push_cold(). Objects are often dropped in the order of their addresses: the block of the 16th drop from now is
    // prefetched for writing. Those that are dropped in another order cause no prefetch, which would take lines from other threads.
    // `c`: whose cache this is.
    POOLED_ALWAYS_INLINE static void prefetch_next(void const* block, void const* hot,
                                                   [[maybe_unused]] class_index c) noexcept {
        std::uintptr_t const stride = address_of(block) - address_of(hot);
        std::uintptr_t ahead = 16 * stride;
        if constexpr (k_hardened) {
            std::size_t const block_bytes = k_geometry[c].block_bytes;
            // Neighbours lie up to 15 blocks apart. 24 was the best of 8, 12, 16, 24 and 32 drops (1500 bytes, Zen 4).
            if (stride + 15 * block_bytes > 30 * block_bytes) return;
            ahead = 24 * block_bytes;
        } else if (stride + 4096 > 8192)
            return;
        __builtin_prefetch(reinterpret_cast<void const*>(address_of(block) + ahead), 1);
    }

    // For recycled objects: inlined whole, without least_held(). Null if no more than `least` addresses are held. False if
    // `most` are held, or as many as there is space for.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_above(std::uint32_t least) noexcept {
        if (least == 0 || m_size >= least)
            if (void* const hot = pop_hot()) return hot;
        std::uint32_t const size = m_size;
        if (size <= least) return nullptr;
        if (size > k_ahead) __builtin_prefetch(m_array[size - 1 - k_ahead], 1);
        m_size = size - 1;
        return m_array[size - 1];
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_below(std::uint32_t most, void* address) noexcept {
        if (most != 0 && push_hot(address)) return true;
        std::uint32_t const size = m_size;
        if (size + 1 >= most || size == m_capacity) return false;
        m_array[size] = m_hot;
        m_size = size + 1;
        m_hot = address;
        return true;
    }

#if POOLED_HAS_CODE
    [[nodiscard]] void* pop() noexcept {
        void* const hot = pop_hot();
        return hot != nullptr ? hot : pop_cold();
    }
    [[nodiscard]] bool push(void* block) noexcept { return push_hot(block) || push_cold(block, m_hot); }

    [[nodiscard]] bool is_hot(void const* block) const noexcept { return m_hot == block; }
    [[nodiscard]] std::uint32_t held() const noexcept { return m_size + (m_hot != nullptr ? 1U : 0U); }
    [[nodiscard]] std::uint32_t capacity() const noexcept { return m_capacity; }

    // Allocates an array for `capacity` addresses, at least as many as it holds. False when there is no memory for it: nothing
    // changes. O(held).
    [[nodiscard]] bool reserve(std::uint32_t capacity) noexcept {
        auto** const array = static_cast<void**>(g_metadata.try_allocate(capacity * sizeof(void*)));
        if (array == nullptr) return false;
        detail::copy_n(m_array, std::uint32_t{m_size}, array);
        release();
        m_array = array;
        m_capacity = capacity;
        return true;
    }

    // Frees the array. Requires that what it holds is not used any more.
    void release() noexcept {
        if (m_array != nullptr) g_metadata.deallocate(m_array, m_capacity * sizeof(void*));
        m_array = nullptr;
        m_capacity = 0;
    }

    // Up to `n` addresses, those that were put into the array first.
    [[nodiscard]] span<void* const> oldest(std::uint32_t n) const noexcept {
        return {m_array, detail::smaller<std::uint32_t>(n, m_size)};
    }
    // Requires n <= the addresses in the array. O(held).
    std::uint32_t drop_oldest(std::uint32_t n) noexcept {
        detail::copy_n(m_array + n, m_size - n, m_array);
        m_size = m_size - n;
        return n;
    }

    // Space for `n` addresses at the end of an empty array, to be filled from the last, which is used first. Requires
    // n <= capacity().
    [[nodiscard]] void** fill(std::uint32_t n) noexcept {
        m_size = n;
        return m_array;
    }

    // Prefetches the blocks that are used first, before pop_cold() prefetches any, after the array was filled. For writing,
    // because they may be in the cache of the processor that freed them.
    static void prefetch(void* const* array, std::uint32_t n) noexcept {
        for (std::uint32_t i = 1; i <= k_ahead && i <= n; ++i)
            __builtin_prefetch(array[n - i], 1);
    }

    [[nodiscard]] std::int64_t net_taken() const noexcept { return m_net_taken; }
    void add_net_taken(std::int64_t count) noexcept { m_net_taken.add(count); }
    [[nodiscard]] std::uint64_t net_frees() const noexcept {
        std::int64_t const net = std::int64_t{held()} - m_net_taken;
        return net > 0 ? static_cast<std::uint64_t>(net) : 0;
    }

    // The fewest blocks that were held at once since begin_interval().
    [[nodiscard]] std::uint32_t least_held() const noexcept {
        return detail::smaller<std::uint32_t>(m_least, m_size);
    }
    void begin_interval() noexcept { m_least = m_size; }

    [[nodiscard]] bool is_valid() const noexcept {
        return m_size <= m_capacity && (m_array != nullptr) == (m_capacity != 0);
    }

#endif

private:
    // How many blocks ahead those that are used next are prefetched. A burst of a million objects of 48 bytes takes 10.4 ns each with 8,
    // 9.4 with 32 and no less with 64 (Zen 5): the stores to 8 blocks fit the processor's queue, which waits for the first one's line.
    // In the hardened build's order, 16 is better for 1500 bytes (1.2 times the plain build's creation; 8: 1.3; Zen 4).
    static constexpr std::uint32_t k_ahead = k_hardened ? 16 : 32;

    observed<void*> m_hot;
    void** m_array = nullptr;
    observed<std::uint32_t> m_size;
    std::uint32_t m_capacity = 0;
    observed<std::int64_t> m_net_taken;
    observed<std::uint32_t> m_least;  // fewest in the array when an interval or a push_cold() began
};

static_assert(sizeof(class_cache) == 40);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
