// SPDX-License-Identifier: BSL-1.0
#pragma once

// Boost.Pool's UserAllocator, where a pool's memory comes from: a struct with static malloc and free, and two types.
// The two that Boost defines are here, and the adaptor that makes any of them the upstream of one of our pools.
//
//   UserAllocator ─▶ | slack | extent | piece | piece | piece | …        pieces are aligned to 16 KiB; slack: up to 16 KiB
//
// As Boost's, a pool asks for room for `next_size` chunks, twice as many each time, no more than `max_size` at once
// (0: no limit), and keeps what it has until release_memory() or purge_memory(). Ours takes at least one piece, 64 KiB;
// is a request refused, it tries one piece. Memory for something larger than a piece is asked for and given back by itself.
//
// Invariants: available = the pieces of all extents that are not out; in_use <= carved <= count.
// Any thread may call. O(extents), and mostly the first of them.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/os/mutex.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <mutex>
#include <new>

namespace pooled::compat {

struct default_user_allocator_new_delete {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char* malloc(size_type bytes) { return new (std::nothrow) char[bytes]; }
    static void free(char* block) { delete[] block; }  // NOLINT: as malloc gave it
};

struct default_user_allocator_malloc_free {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char* malloc(size_type bytes) { return static_cast<char*>(std::malloc(bytes)); }
    static void free(char* block) { std::free(block); }
};

namespace detail {

using pooled::detail::k_granule_bytes;
using pooled::detail::k_size_max;
using pooled::detail::k_slab_bytes;

template <class UserAllocator>
class user_upstream final : public std::pmr::memory_resource {
public:
    // Sizes are counted in chunks; a piece holds `chunks_per_piece` of them.
    struct growth {
        std::size_t piece_bytes;
        std::size_t chunks_per_piece;
        std::size_t next_size;
        std::size_t max_size;
    };

    explicit user_upstream(growth const& g) noexcept : m_growth(g), m_start_size(g.next_size) {}
    ~user_upstream() override {
        while (m_extents != nullptr)
            give_back(m_extents);
    }
    user_upstream(user_upstream const&) = delete;
    user_upstream& operator=(user_upstream const&) = delete;

    // Gives wholly free extents back to the user's allocator. Returns whether there were any.
    bool release() {
        std::scoped_lock const lock(m_mutex);
        bool released = false;
        for (extent** link = &m_extents; *link != nullptr;) {
            if ((*link)->in_use != 0) {
                link = &(*link)->next;
                continue;
            }
            m_available -= (*link)->count;
            give_back(*link);
            released = true;
        }
        m_growth.next_size = m_start_size;
        return released;
    }

    // While it is refusing it has no memory for anyone.
    void refuse(bool is_refusing) {
        std::scoped_lock const lock(m_mutex);
        m_is_refusing = is_refusing;
    }

    // Calls visit(base, bytes) for each piece that was ever handed out, and each region of its own. `visit` may
    // deallocate what it is shown; nobody else may work on the pool meanwhile.
    template <class Visit>
    void for_each_piece(Visit&& visit) {
        for (extent *e = m_extents, *next = nullptr; e != nullptr; e = next) {
            next = e->next;
            for (std::size_t i = 0, end = e->carved; i < end; ++i)
                visit(e->piece_at(i), e->piece_bytes);
        }
    }

    [[nodiscard]] std::size_t next_size() const noexcept { return m_growth.next_size; }
    [[nodiscard]] std::size_t max_size() const noexcept { return m_growth.max_size; }
    void set_next_size(std::size_t n) noexcept { m_growth.next_size = m_start_size = n; }
    void set_max_size(std::size_t n) noexcept { m_growth.max_size = n; }

private:
    struct piece {
        piece* next;
    };

    // Lies right in front of its first piece.
    struct extent {
        char* raw;  // what the user's allocator gave
        extent* next;
        std::size_t piece_bytes;
        std::size_t count;
        std::size_t carved;
        std::size_t in_use;
        piece* free;

        [[nodiscard]] std::byte* piece_at(std::size_t i) noexcept {
            return reinterpret_cast<std::byte*>(this + 1) + i * piece_bytes;
        }
        [[nodiscard]] bool contains(void const* p) noexcept {
            return pooled::detail::address_of(p) - pooled::detail::address_of(piece_at(0)) <
                   count * piece_bytes;
        }
        [[nodiscard]] void* take() noexcept {
            ++in_use;
            if (free == nullptr) return piece_at(carved++);
            piece* const p = free;
            free = p->next;
            return p;
        }
    };

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        if (m_is_refusing) throw std::bad_alloc();
        if (bytes != m_growth.piece_bytes || align != k_granule_bytes) {
            extent* const alone = make(bytes, 1, align);
            if (alone == nullptr) throw std::bad_alloc();
            return alone->take();
        }
        if (m_available == 0) grow();
        extent* e = m_extents;
        while (e->in_use == e->count)
            e = e->next;
        --m_available;
        return e->take();
    }

    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        std::scoped_lock const lock(m_mutex);
        extent** link = &m_extents;
        while (!(*link)->contains(p))
            link = &(*link)->next;
        extent& e = **link;
        --e.in_use;
        if (bytes != m_growth.piece_bytes || align != k_granule_bytes) return give_back(*link);
        e.free = ::new (p) piece{e.free};
        ++m_available;
    }

    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    void grow() {
        std::size_t const wanted = std::max<std::size_t>(m_growth.next_size / m_growth.chunks_per_piece, 1);
        extent const* made = make(m_growth.piece_bytes, wanted, k_granule_bytes);
        if (made == nullptr && wanted != 1) made = make(m_growth.piece_bytes, 1, k_granule_bytes);
        if (made == nullptr) throw std::bad_alloc();
        m_available += made->count;
        std::size_t const doubled = m_growth.next_size > k_size_max / 2 ? k_size_max : m_growth.next_size * 2;
        if (m_growth.max_size == 0)
            m_growth.next_size = doubled;
        else if (m_growth.next_size < m_growth.max_size)
            m_growth.next_size = std::min(doubled, m_growth.max_size);
    }

    // Null when the user's allocator has no more, or could not be asked for so much.
    [[nodiscard]] extent* make(std::size_t piece_bytes, std::size_t count, std::size_t align) {
        using size_type = typename UserAllocator::size_type;
        std::size_t const total = pooled::detail::saturating_add(
            pooled::detail::saturating_multiply(piece_bytes, count), sizeof(extent) + align);
        if (total == k_size_max || total > std::numeric_limits<size_type>::max()) return nullptr;
        char* const raw = UserAllocator::malloc(static_cast<size_type>(total));
        if (raw == nullptr) return nullptr;
        std::size_t const before =
            pooled::detail::round_up(pooled::detail::address_of(raw) + sizeof(extent), align) -
            pooled::detail::address_of(raw) - sizeof(extent);
        m_extents = ::new (raw + before) extent{raw, m_extents, piece_bytes, count, 0, 0, nullptr};
        return m_extents;
    }

    static void give_back(extent*& link) {
        char* const raw = link->raw;
        link = link->next;
        UserAllocator::free(raw);
    }

    pooled::detail::mutex m_mutex;
    bool m_is_refusing = false;
    growth m_growth;
    std::size_t m_start_size;
    std::size_t m_available = 0;
    extent* m_extents = nullptr;  // the newest first
};

}  // namespace detail

}  // namespace pooled::compat
