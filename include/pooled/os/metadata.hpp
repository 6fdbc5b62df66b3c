// SPDX-License-Identifier: BSL-1.0
#pragma once

// The arena for the library's own structures: pools, thread caches, descriptors of chunks. It never calls malloc, so a pool can
// implement malloc; it is never destroyed, so it works in static destructors; all pools share it.
//
//   region  | header | piece | piece | …      128 KiB at a multiple of 128 KiB, pieces of one size: the address of a piece
//                                             gives its region, and an unused region returns to the system
//   pieces over 33 KiB are pages of their own
//
// Invariants: a piece is aligned to two cache lines and is either in use or free in its region; live = pieces in use;
//             empty = regions of a size with live == 0;
//             a region is in the list of its size if and only if live < capacity.
// Any thread may call; one lock, taken only on slow paths, and not while the system is asked, but for reserve(). Who finds that its holder
// does not run takes a region of its own, and leaves what it frees to the lock's next holder. O(1).

#include "pooled/base/intrusive_list.hpp"
#include "pooled/base/push_list.hpp"
#include "pooled/base/sanitizer.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <new>

POOLED_BEGIN_DETAIL

class metadata_arena {
public:
    // `bytes` of uninitialised memory, aligned to two cache lines; null when the system has no more memory.
    [[nodiscard]] POOLED_API void* try_allocate(std::size_t bytes) noexcept;

    // Does what try_allocate() does; all bytes are zero.
    [[nodiscard]] void* try_allocate_zeroed(std::size_t bytes) noexcept {
        void* const p = try_allocate(bytes);
        if (p != nullptr && bytes <= k_largest_piece) __builtin_memset(p, 0, bytes);
        return p;
    }

    // Does the same, but throws std::bad_alloc instead of returning null.
    [[nodiscard]] void* allocate(std::size_t bytes) {
        if (void* const p = try_allocate(bytes)) return p;
        POOLED_THROW(std::bad_alloc());
    }

    // Requires a result of allocate with the same `bytes`.
    POOLED_API void deallocate(void* p, std::size_t bytes) noexcept;

    // Makes sure that `count` pieces of `bytes` are free: so many such allocations make no system call. Their memory stays. Throws
    // std::bad_alloc.
    POOLED_API void reserve(std::size_t bytes, std::size_t count);

private:
    friend record_access;
    static constexpr std::size_t k_region_bytes = std::size_t{128} << 10;
    // A local pool. The descriptor of a chunk of 2 MiB has 25 KiB.
    static constexpr std::size_t k_largest_piece = std::size_t{33} << 10;
    static constexpr std::size_t k_unit = 2 * k_cache_line;
    static constexpr std::size_t k_lists = k_largest_piece / k_unit;

    struct piece {
        piece* next;
    };

    struct region;

#if POOLED_HAS_CODE
    // Requires the lock. Adds the region of the piece, if it is no longer needed.
    void put(void* p, intrusive_list<region>& unused) noexcept;

    struct alignas(k_unit) region {
        list_links<region> links;
        piece* free = nullptr;  // pieces that were in use before
        std::uint32_t piece_bytes;
        std::uint32_t capacity;
        std::uint32_t live = 0;
        std::uint32_t cut = 0;  // number of pieces that were ever in use
        std::uint32_t epoch = g_forks_lost;

        region(std::size_t size, std::size_t pieces) noexcept
            : piece_bytes(static_cast<std::uint32_t>(size)), capacity(static_cast<std::uint32_t>(pieces)) {}

        // Requires live < capacity.
        [[nodiscard]] void* take() noexcept {
            ++live;
            if (free != nullptr) {
                piece* const p = free;
                free = p->next;
                return p;
            }
            return reinterpret_cast<std::byte*>(this + 1) + std::size_t{cut++} * piece_bytes;
        }
        void put(void* p) noexcept {
            free = ::new (p) piece{free};
            --live;
        }
    };

    static constexpr std::size_t piece_bytes(std::size_t bytes) noexcept {
        return round_up(bytes == 0 ? 1 : bytes, bytes > k_largest_piece ? platform::k_page_bytes : k_unit);
    }
    static constexpr std::size_t list_of(std::size_t piece_size) noexcept {
        return (piece_size / k_unit - 1) % k_lists;  // so that the compiler knows that the index is in range
    }

    // Everything that is cached and recycled can be reached from here, also by a leak checker.
    [[nodiscard]] static void* map(std::size_t bytes, std::size_t align) noexcept {
        void* const pages = platform::map_pages(bytes, align);
        sanitizer::add_root(pages, bytes);
        return pages;
    }
    static void unmap(void* p, std::size_t bytes) noexcept {
        sanitizer::remove_root(p, bytes);
        platform::unmap_pages(p, bytes);
    }

    // Requires the lock.
    void add_region(void* pages, std::size_t size) noexcept {
        std::size_t const pieces = (k_region_bytes - sizeof(region)) / size;
        m_regions[list_of(size)].push_front(*::new (pages) region(size, pieces));
        ++m_empty[list_of(size)];
    }
#endif
    static piece*& next_piece(piece& p) noexcept { return p.next; }

    detail::mutex m_mutex;
    std::array<intrusive_list<region>, k_lists> m_regions{};
    std::array<std::uint32_t, k_lists> m_empty{};     // regions without a piece in use
    std::array<std::uint32_t, k_lists> m_reserved{};  // pieces
    push_list<piece, next_piece> m_left;
};

POOLED_STATE(metadata_arena, g_metadata);

#if POOLED_HAS_CODE

POOLED_CODE void* metadata_arena::try_allocate(std::size_t bytes) noexcept {
    std::size_t const size = piece_bytes(bytes);
    if (size > k_largest_piece) return map(size, platform::k_page_bytes);
    intrusive_list<region>& list = m_regions[list_of(size)];
    fork_pass const pass;  // a thread that the system makes wait for pages has no lock
    for (void* pages = nullptr;;) {
        {
            try_scoped_lock const lock(m_mutex, false);
            if (!lock && pages != nullptr) return (::new (pages) region(size, 1))->take();  // in no list
            if (lock && pages != nullptr) add_region(pages, size);
            if (lock && !list.empty()) {
                region& r = *list.first();
                if (r.live == 0) --m_empty[list_of(size)];
                if (r.live + 1 == r.capacity) list.remove(r);
                return r.take();
            }
        }
        pages = map(k_region_bytes, k_region_bytes);
        if (pages == nullptr) return nullptr;
    }
}

POOLED_CODE void metadata_arena::deallocate(void* p, std::size_t bytes) noexcept {
    std::size_t const size = piece_bytes(bytes);
    if (size > k_largest_piece) return unmap(p, size);
    fork_pass const pass;  // a thread that the system makes wait for pages has no lock
    intrusive_list<region> unused;
    m_left.push(*::new (p) piece{nullptr});
    if (try_scoped_lock const lock(m_mutex, false); lock)
        decltype(m_left)::for_each(m_left.take_all(), [&](piece& one) { put(&one, unused); });
    for (region& r : unused)
        unmap(&r, k_region_bytes);
}

inline void metadata_arena::put(void* p, intrusive_list<region>& unused) noexcept {
    region& r = *reinterpret_cast<region*>(round_down(address_of(p), k_region_bytes));
    if (r.epoch != g_forks_lost) [[unlikely]]
        return;  // of the parent's arena
    std::size_t const l = list_of(r.piece_bytes);
    if (r.live == r.capacity) m_regions[l].push_front(r);
    r.put(p);
    if (r.live != 0) return;
    // One stays, and what reserve() made; none that was made for one piece, which would count there as a whole one.
    std::uint32_t const kept = (m_reserved[l] + r.capacity - 1) / r.capacity;
    if (r.capacity != 1 && m_empty[l] < detail::larger<std::uint32_t>(kept, 1))
        return static_cast<void>(++m_empty[l]);
    m_regions[l].remove(r);
    unused.push_front(r);
}

POOLED_CODE void metadata_arena::reserve(std::size_t bytes, std::size_t count) {
    std::size_t const size = piece_bytes(bytes);
    if (size > k_largest_piece) return;
    scoped_lock const lock(m_mutex);
    std::size_t const l = list_of(size);
    std::size_t free = 0;
    for (region* r = m_regions[l].first(); r != nullptr && free < count; r = m_regions[l].after(*r))
        free += r->capacity - r->live;
    for (; free < count; free += m_regions[l].first()->capacity) {
        void* const pages = map(k_region_bytes, k_region_bytes);
        if (pages == nullptr) POOLED_THROW(std::bad_alloc());
        add_region(pages, size);
    }
    m_reserved[l] = detail::larger(m_reserved[l], static_cast<std::uint32_t>(count));
}

#endif

POOLED_END_DETAIL
