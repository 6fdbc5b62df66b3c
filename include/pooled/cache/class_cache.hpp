// SPDX-License-Identifier: BSL-1.0
#pragma once

// One thread's cache of one size class: addresses of free blocks. The blocks themselves are not touched.
//
//   hot     the block that a pool's inlined code freed last: creating and dropping in a loop needs nothing else
//   array   the blocks freed before it, or taken from a slab, from first to top; the block freed last is reused first. Those that
//           were not freed here lie below the floor, until shortly before they are used: then they are prefetched. So one
//           comparison finds that the array is empty, and that it is time to prefetch. What the floor is to allocations, the stop is
//           to deallocations: another one finds that the array is full, in which order blocks are dropped, and a new least.
//
// Invariants: held = (hot ? 1 : 0) + size; first <= floor <= top <= limit; least <= stop <= limit;
//             least_held <= held at every moment since the last exchange
//             frees - allocations of this thread = held - net_taken   (net_taken: blocks taken from the central free list
//             minus blocks returned to it), so counting remote frees costs nothing.
// Only the owner (inside its gate, or under the class's lock), or a thread that has stopped the owner and holds the class's lock,
// changes it; net_taken also the owner at the bound, where nothing is held. Sizes may be read at any time. O(1) unless noted.

#include "pooled/os/metadata.hpp"

POOLED_BEGIN_DETAIL

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
        if (m_hot.own() != nullptr) [[unlikely]]
            return false;
        m_hot = block;
        return true;
    }

    // The block that was put into the array last; null when the top is at the floor. operator new and delete use the array alone: which of
    // a program's calls find a hot block, no processor predicts.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop_above_floor() noexcept {
        void** const top = m_top;
        if (top == m_floor) [[unlikely]]
            return nullptr;
        m_top = top - 1;
        if (top[-1] == nullptr) __builtin_unreachable();
        return top[-1];
    }
    // Null when the array is empty.
    [[nodiscard]] void* pop_array() noexcept {
        void* const block = pop_above_floor();
        return block != nullptr || !lower_floor() ? block : pop_above_floor();
    }
    // False when the top is at the stop, or below the least; the block is then still the caller's, who calls move_stop().
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_below_stop(void* block) noexcept {
        void** const top = m_top;
        if (static_cast<std::uint32_t>(address_of(top) - address_of(m_least.own())) >= m_span) [[unlikely]]
            return false;
        *top = block;
        m_top = top + 1;
        return true;
    }
    // False when the array is full. `before` was dropped before `block`: until the next stop, blocks are probably dropped in the order of
    // their addresses if these two are neighbours, and in another one if not.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool move_stop(void const* block, void const* before) noexcept {
        void** const top = m_top;
        if (top == m_limit) return false;
        std::uintptr_t const stop =
            detail::smaller(address_of(top) + k_stop * sizeof(void*), address_of(m_limit));
        m_least = detail::smaller(m_least.own(), top);
        m_span = static_cast<std::uint32_t>(stop - address_of(m_least.own()));
        std::uintptr_t const stride = address_of(block) - address_of(before);
        m_ahead = stride + 4096 <= 8192 ? static_cast<std::int32_t>(16 * stride) : 0;
        return true;
    }
    // False when the array is full.
    [[nodiscard]] bool push_array(void* block) noexcept {
        return push_below_stop(block) ||
               (move_stop(block, size() != 0 ? m_top[-1] : block) && push_below_stop(block));
    }
    // The same of a hot block, which moves to the array. If blocks are dropped in the order of their addresses, the one of the 16th drop from
    // now is prefetched for writing; what is dropped in another order causes no prefetch, which would take lines from other threads. A branch
    // instead cannot be predicted: 300 drops in random order took 6.5 ns each instead of 3.8 (Zen 4).
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_cold_below_stop(void* block) noexcept {
        __builtin_prefetch(
            reinterpret_cast<void const*>(address_of(block) + static_cast<std::uintptr_t>(m_ahead)), 1);
        bool const is_pushed = push_below_stop(m_hot);
        if (is_pushed) [[likely]]
            m_hot = block;
        return is_pushed;
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE bool move_stop_cold(void const* block) noexcept {
        return move_stop(block, m_hot);
    }
    [[nodiscard]] bool push_cold(void* block) noexcept {
        return push_cold_below_stop(block) || (move_stop_cold(block) && push_cold_below_stop(block));
    }
    // False when the array is full.
    [[nodiscard]] bool push(void* block) noexcept { return push_hot(block) || push_cold(block); }
    // Null when none is held.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* pop() noexcept {
        if (void* const hot = pop_hot()) return hot;
        void* const block = pop_above_floor();
        return block != nullptr ? block : pop_below_floor();
    }

    // Those of the array; the hot block is not counted.
    [[nodiscard]] std::uint32_t size() const noexcept { return count_below(m_top); }
    [[nodiscard]] std::uint32_t capacity() const noexcept { return count_below(m_limit); }
    // What pop() would give.
    [[nodiscard]] void const* next() const noexcept {
        void const* const hot = m_hot;
        return hot != nullptr ? hot : size() != 0 ? *(m_top - 1) : nullptr;
    }

#if POOLED_HAS_CODE
    [[nodiscard]] bool is_hot(void const* block) const noexcept { return m_hot == block; }
    // For any thread.
    [[nodiscard]] std::uint32_t held() const noexcept { return seen_size() + (m_hot != nullptr ? 1U : 0U); }

    // Allocates an array for `capacity` addresses, at least as many as it holds. False when there is no memory for it: nothing
    // changes. O(held).
    [[nodiscard]] bool reserve(std::uint32_t capacity) noexcept {
        auto** const array = static_cast<void**>(g_metadata.try_allocate(capacity * sizeof(void*)));
        if (array == nullptr) return false;
        std::uint32_t const held = size();
        std::uint32_t const least = count_below(m_least);
        std::uint32_t const floor = count_below(m_floor);
        detail::copy_n(first(), held, array);
        release();
        // release, twice: pair with the acquires in seen_size().
        m_top.publish(array + held);
        m_first.publish(array);
        m_floor = array + floor;
        m_limit = array + capacity;
        set_least(array + least);
        return true;
    }

    // Frees the array. Requires that what it holds is not used any more.
    void release() noexcept {
        if (m_first != nullptr) g_metadata.deallocate(m_first, capacity() * sizeof(void*));
        m_first = nullptr;
        m_top.publish(nullptr);  // release: pairs with the acquire in seen_size()
        m_limit = m_floor = nullptr;
        set_least(nullptr);
    }

    // Up to `n` addresses, those that were put into the array first.
    [[nodiscard]] span<void* const> oldest(std::uint32_t n) const noexcept {
        return {m_first, detail::smaller(n, size())};
    }
    // The same, which are copied to `to`.
    std::uint32_t drop_oldest(std::uint32_t n, void** to) noexcept {
        detail::copy_n(first(), n, to);
        return drop_oldest(n);
    }
    // Requires n <= the addresses in the array. O(held).
    std::uint32_t drop_oldest(std::uint32_t n) noexcept {
        drop_below(size() - n, n);
        return n;
    }
    // The `n` addresses that were put into the array before the last `kept`. Requires that it has as many. drop_below(): O(kept).
    [[nodiscard]] span<void* const> below(std::uint32_t kept, std::uint32_t n) const noexcept {
        return {m_top - kept - n, n};
    }
    void drop_below(std::uint32_t kept, std::uint32_t n) noexcept {
        void** const top = m_top;
        void** const gap = top - kept - n;
        detail::copy_n(gap + n, kept, gap);
        m_top = top - n;
        if (m_floor > gap) m_floor = m_floor - detail::smaller(n, static_cast<std::uint32_t>(m_floor - gap));
    }

    // Space for `n` addresses in an empty array, to be filled from the last, which is used first. Requires n <= capacity().
    [[nodiscard]] void** fill(std::uint32_t n) noexcept {
        m_top = m_floor = m_first + n;
        return m_first;
    }
    // After fill(): the blocks that are used first. For writing, because they may be in the cache of the processor that freed them.
    void prefetch() noexcept {
        std::uint32_t const end = detail::smaller(k_ahead - k_step, count_below(m_floor));
        for (std::uint32_t i = 0; i < end; ++i)
            __builtin_prefetch(m_floor[-1 - std::ptrdiff_t{i}], 1);
        static_cast<void>(lower_floor());
    }

    [[nodiscard]] std::int64_t net_taken() const noexcept { return m_net_taken; }
    void add_net_taken(std::int64_t count) noexcept { m_net_taken.add(count); }
    [[nodiscard]] std::uint64_t net_frees() const noexcept {
        std::int64_t const net = std::int64_t{held()} - m_net_taken;
        return net > 0 ? static_cast<std::uint64_t>(net) : 0;
    }

    // The fewest blocks that were held at once since begin_interval().
    [[nodiscard]] std::uint32_t least_held() const noexcept {
        return detail::smaller(count_below(m_least), seen_size());
    }
    void begin_interval() noexcept { set_least(m_top); }

    [[nodiscard]] bool is_valid() const noexcept {
        return m_first <= m_floor && m_floor <= m_top && m_top <= m_limit &&
               (m_first != nullptr) == (capacity() != 0) && m_first <= m_least && m_least <= m_limit &&
               m_span <= address_of(m_limit) - address_of(m_least.own());
    }

#endif

private:
    friend record_access;
    // Requires that the top is at the floor. False when the array is empty.
    POOLED_NOINLINE bool lower_floor() noexcept {
        void** const old = m_floor;
        std::uint32_t const left = count_below(old);
        if (left == 0) return false;
        if (left >= k_ahead)
            for (std::uint32_t i = k_ahead - k_step; i < k_ahead; ++i)
                __builtin_prefetch(old[-1 - std::ptrdiff_t{i}], 1);
        m_floor = old - detail::smaller(k_step, left);
        return true;
    }
    POOLED_NOINLINE void* pop_below_floor() noexcept { return lower_floor() ? pop_above_floor() : nullptr; }
    void set_least(void** least) noexcept {
        m_least = least;
        m_span = 0;
    }
    [[nodiscard]] void** first() const noexcept { return m_first; }
#if POOLED_HAS_CODE
    // size(), for any thread: the owner may get or free its array without a lock, and the first and the top be of different ones. None
    // counts then. acquire, twice: the top is of the first's array or of a later one, and if that, the first is not the same any more, unless
    // the next array begins where the last one did: in between there is no top.
    [[nodiscard]] std::uint32_t seen_size() const noexcept {
        void** const first = m_first.acquire();
        void** const top = m_top.acquire();
        bool const is_of_first = first != nullptr && top != nullptr && first == m_first;
        return is_of_first ? static_cast<std::uint32_t>(top - first) : 0;
    }
#endif
    [[nodiscard]] std::uint32_t count_below(void** end) const noexcept {
        return static_cast<std::uint32_t>(end - first());
    }

    // How many blocks ahead those that are used next are prefetched. A burst of a million objects of 48 bytes takes 10.4 ns each with 8,
    // 9.4 with 32 and no less with 64 (Zen 5): the stores to 8 blocks fit the processor's queue, which waits for the first one's line.
    static constexpr std::uint32_t k_ahead = 32;
    static constexpr std::uint32_t k_step = 8;  // so many at a time; 4 and 16 take as long
    // From one stop to the next. With 16, 300 drops of 1,500 bytes took 4.2 ns each instead of 3.8 (Zen 4).
    static constexpr std::uintptr_t k_stop = 128;

    observed<void*> m_hot;
    observed<void**> m_top;
    void** m_floor = nullptr;
    observed<void**> m_first;
    void** m_limit = nullptr;
    observed<void**> m_least;  // the lowest top when an interval began, or the stop moved
    std::uint32_t m_span = 0;  // bytes from there to the stop
    std::int32_t m_ahead = 0;  // bytes from a block that is dropped to the one that is prefetched
    observed<std::int64_t> m_net_taken;
};

static_assert(sizeof(class_cache) == k_class_cache_bytes);

POOLED_END_DETAIL
