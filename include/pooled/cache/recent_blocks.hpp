// SPDX-License-Identifier: BSL-1.0
#pragma once

// The addresses of the blocks of a size class that threads flushed last. A refill takes the newest, which are most likely still in
// the processor's caches; the oldest go to the bitmaps of their slabs.
//
//   | … oldest | … | newest | … |      a ring, which begins at m_begin
//
// Without it, the next list of a thousand nodes comes from elsewhere, a slab a node (measured: docs/mechanisms.md, E1).
//
// Invariant: count <= capacity, a power of two or 0.
// Guarded by the lock of the class; the count may be read at any time. O(addresses moved).

#include "pooled/os/metadata.hpp"

POOLED_BEGIN_DETAIL

class recent_blocks {
public:
    static constexpr std::size_t k_least = 128;
    static constexpr std::size_t k_most = 2048;

    recent_blocks() = default;
    recent_blocks& operator=(recent_blocks&&) = delete;
    ~recent_blocks() {
        if (m_ring != nullptr) g_metadata.deallocate(m_ring, m_capacity * sizeof(void*));
    }

    [[nodiscard]] std::uint32_t count() const noexcept { return m_count; }
    [[nodiscard]] std::size_t capacity() const noexcept { return m_capacity; }

    // Room for `count` addresses, at most k_most. Without memory for that, nothing changes.
    void reserve(std::size_t count) noexcept {
        std::size_t const capacity = std::bit_ceil(detail::clamp(count, k_least, k_most));
        if (capacity <= m_capacity) return;
        auto** const ring = static_cast<void**>(g_metadata.try_allocate(capacity * sizeof(void*)));
        if (ring == nullptr) return;
        std::uint32_t const kept = m_count;
        for (std::uint32_t i = 0; i < kept; ++i)
            ring[i] = m_ring[at(i)];
        if (m_ring != nullptr) g_metadata.deallocate(m_ring, m_capacity * sizeof(void*));
        m_ring = ring;
        m_capacity = static_cast<std::uint32_t>(capacity);
        m_begin = 0;
    }

    // Requires room for them. The last one is the newest.
    void push(span<void* const> blocks) noexcept {
        auto const count = static_cast<std::uint32_t>(blocks.size());
        std::uint32_t const first = at(m_count);
        std::uint32_t const run = detail::smaller(count, m_capacity - first);
        detail::copy_n(blocks.begin(), run, m_ring + first);
        detail::copy_n(blocks.begin() + run, count - run, m_ring);
        m_count = m_count + count;
    }

    // Moves up to `most` of the newest to `to`, the newest last. Returns how many.
    std::uint32_t pop(void** to, std::uint32_t most) noexcept {
        std::uint32_t const popped = detail::smaller<std::uint32_t>(m_count, most);
        std::uint32_t const left = m_count - popped;
        for (std::uint32_t i = 0; i < popped; ++i)
            to[i] = m_ring[at(left + i)];
        m_count = left;
        return popped;
    }

    // The one that is popped next, for writing: it may be in the cache of the processor that freed it.
    void prefetch_newest() const noexcept {
        if (m_count != 0) __builtin_prefetch(m_ring[at(m_count - 1)], 1);
    }

    // Passes the oldest on until at most `kept` are left: put(span) with some of them, in order, once or more.
    template <class Put>
    void drain(std::size_t kept, Put&& put) noexcept {
        while (m_count > kept) {
            std::uint32_t const first = at(0);
            auto const run =
                static_cast<std::uint32_t>(detail::smaller<std::size_t>(m_count - kept, m_capacity - first));
            span<void* const> const oldest(m_ring + first, run);
            m_count = m_count - run;
            m_begin = at(run);
            put(oldest);
        }
    }

    [[nodiscard]] bool contains(void const* block) const noexcept {
        for (std::uint32_t i = 0; i < m_count; ++i)
            if (m_ring[at(i)] == block) return true;
        return false;
    }

    // Forgets all addresses.
    void clear() noexcept { m_count = 0; }

private:
    friend record_access;
    [[nodiscard]] std::uint32_t at(std::uint32_t i) const noexcept {
        return (m_begin + i) & (m_capacity - 1);
    }

    void** m_ring = nullptr;
    std::uint32_t m_capacity = 0;
    std::uint32_t m_begin = 0;
    observed<std::uint32_t> m_count;
};

POOLED_END_DETAIL
