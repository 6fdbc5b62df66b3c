// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where the library's own structures live: pools, thread caches, chunk descriptors, leaves of the address map. Never
// malloc, so that a pool can stand under one; immortal, so that it works in static destructors; shared by all pools.
//
//   arena  256 KiB of pages at a time ──cut──▶ multiples of 64 B up to 64 KiB, a free list for each size
//   larger pieces are pages of their own
//
// Invariant: a piece is cache-line aligned and belongs to exactly one of: a caller, one free list, the uncut rest.
// Any thread may call; one lock, taken only on slow paths. O(1).

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/config.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <cstddef>
#include <mutex>
#include <new>

namespace pooled::detail {

class metadata_arena {
public:
    constexpr metadata_arena() noexcept = default;
    metadata_arena(metadata_arena const&) = delete;
    metadata_arena& operator=(metadata_arena const&) = delete;

    // `bytes` of uninitialised memory, cache-line aligned; null when the system has no more.
    [[nodiscard]] void* try_allocate(std::size_t bytes) noexcept {
        std::size_t const size = piece_bytes(bytes);
        if (size > k_largest_piece) return platform::map_pages(size, platform::k_page_bytes);
        std::scoped_lock const lock(m_mutex);
        piece*& list = m_free[list_of(size)];
        if (list != nullptr) {
            piece* const p = list;
            list = p->next;
            return p;
        }
        return cut(size);
    }

    // The same; throws std::bad_alloc.
    [[nodiscard]] void* allocate(std::size_t bytes) {
        if (void* const p = try_allocate(bytes)) return p;
        throw std::bad_alloc();
    }

    // Requires a result of allocate with the same `bytes`.
    void deallocate(void* p, std::size_t bytes) noexcept {
        std::size_t const size = piece_bytes(bytes);
        if (size > k_largest_piece) return platform::unmap_pages(p, size);
        std::scoped_lock const lock(m_mutex);
        piece*& list = m_free[list_of(size)];
        list = ::new (p) piece{list};
    }

    // Sets aside room for `count` pieces of `bytes`, so that the next as many allocations ask the system for nothing.
    // Throws std::bad_alloc.
    void reserve(std::size_t bytes, std::size_t count) {
        std::size_t const size = piece_bytes(bytes);
        std::scoped_lock const lock(m_mutex);
        piece*& list = m_free[list_of(size)];
        for (piece* p = list; p != nullptr && count != 0; p = p->next)
            --count;
        for (; count != 0; --count) {
            void* const p = cut(size);
            if (p == nullptr) throw std::bad_alloc();
            list = ::new (p) piece{list};
        }
    }

    [[nodiscard]] detail::mutex& lock() noexcept { return m_mutex; }  // for fork only

private:
    struct piece {
        piece* next;
    };
    static constexpr std::size_t k_arena_bytes = std::size_t{256} << 10;
    static constexpr std::size_t k_largest_piece = std::size_t{64} << 10;
    static constexpr std::size_t k_lists = k_largest_piece / k_cache_line;

    static constexpr std::size_t piece_bytes(std::size_t bytes) noexcept {
        return round_up(bytes == 0 ? 1 : bytes,
                        bytes > k_largest_piece ? platform::k_page_bytes : k_cache_line);
    }
    static constexpr std::size_t list_of(std::size_t piece_size) noexcept {
        return (piece_size / k_cache_line - 1) % k_lists;  // the compiler then sees the index in range
    }

    // Requires the lock. What is left of an arena too small for `size` becomes a piece of its own, not lost.
    void* cut(std::size_t size) noexcept {
        if (m_left < size) {
            auto* const fresh =
                static_cast<std::byte*>(platform::map_pages(k_arena_bytes, platform::k_page_bytes));
            if (fresh == nullptr) return nullptr;
            if (m_left != 0) {
                piece*& list = m_free[list_of(m_left)];
                list = ::new (m_next) piece{list};
            }
            m_next = fresh;
            m_left = k_arena_bytes;
        }
        void* const p = m_next;
        m_next += size;
        m_left -= size;
        return p;
    }

    detail::mutex m_mutex;
    std::array<piece*, k_lists> m_free{};
    std::byte* m_next = nullptr;
    std::size_t m_left = 0;
};

POOLED_EXPORT inline constinit metadata_arena g_metadata;

}  // namespace pooled::detail
