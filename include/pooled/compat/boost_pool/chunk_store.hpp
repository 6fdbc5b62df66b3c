// SPDX-License-Identifier: BSL-1.0
#pragma once

// The base of all pools of boost_pool.hpp: chunks of one size, cut from regions of a UserAllocator. For one thread.
//
//   m_recent │ null │ p │ p │ …     chunks that were freed one by one; the last, at m_top, is used next
//   m_head ─▶ group ─▶ group ─▶ …   bitmaps of 64 chunks each; a set bit is a free chunk. All groups with a free chunk are listed
//   UserAllocator ─▶ | group | group | … | slack | chunk | chunk | chunk | …        regions, in an array by address
//
// The size of a chunk is fixed by the constructor, so an allocation looks nothing up. Boost links free chunks through
// themselves; here their addresses lie in an array from std::malloc, 8 bytes each, until a row is wanted that the bitmaps do not
// have. Then their bits are set. A row is a run of set bits, where Boost's is a run of a list that must be ordered. Nothing reads
// or writes a free chunk, so a write after free cannot corrupt the pool, and a shuffled free waits for no memory.
//
// Invariant: a chunk is in use, recent, or marked. deallocate() never fails: a chunk for which m_recent cannot grow is marked.
// O(1), but: marking a recent chunk and is_from() O(log regions); rows O(listed groups + length / 64); release_memory()
// O(chunks / 64).

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/geometry.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <utility>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

using pooled::detail::k_size_max;

// A UserAllocator at run time. Its exceptions propagate.
struct user_memory {
    char* (*allocate)(std::size_t bytes);
    void (*deallocate)(char* block);
    std::size_t most_bytes;  // that its size_type can represent
};
template <class UserAllocator>
inline constexpr user_memory k_user_memory{[](std::size_t bytes) {
                                               return (UserAllocator::malloc)(
                                                   static_cast<typename UserAllocator::size_type>(bytes));
                                           },
                                           [](char* block) { (UserAllocator::free)(block); },
                                           (std::numeric_limits<typename UserAllocator::size_type>::max)()};

// A chunk's size is a multiple of its type's alignment, and only the size is known here: this is the largest alignment of any
// type of that size, up to a cache line, and at least that of a pointer, which Boost guarantees.
[[nodiscard]] constexpr std::size_t chunk_align(std::size_t chunk_bytes) noexcept {
    return std::clamp<std::size_t>(chunk_bytes & (~chunk_bytes + 1), alignof(void*),
                                   pooled::detail::k_cache_line);
}

class chunk_store {
public:
    // `next_size`, `max_size`: how many chunks to ask the user's allocator for, at first and at most (0: no limit).
    constexpr chunk_store(user_memory const& user, std::size_t requested, std::size_t align,
                          std::size_t next_size, std::size_t max_size) noexcept
        : m_bytes(chunk_bytes(requested, align)), m_align(align), m_requested(requested), m_user(user) {
        for (int bits = 3; bits < 64; bits *= 2)  // Newton: each step doubles the bits that are right
            m_inverse *= 2 - (m_bytes >> m_shift) * m_inverse;
        set_next_size(next_size);
        set_max_size(max_size);
    }
    ~chunk_store() { purge_memory(); }
    chunk_store(chunk_store const&) = delete;
    chunk_store& operator=(chunk_store const&) = delete;

    // A chunk; null when the user's allocator has no more.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* allocate() {
        if (void* const recent = *m_top; recent != nullptr) {
            --m_top;
            return recent;
        }
        std::uint64_t const free = m_head->free;
        if (free == 0) [[unlikely]]
            return allocate_from_next();
        m_head->free = free & (free - 1);
        return m_head_chunks + static_cast<std::size_t>(std::countr_zero(free)) * m_bytes;
    }
    // Null is ignored.
    POOLED_ALWAYS_INLINE void deallocate(void* p) noexcept {
        POOLED_EXPENSIVE_CHECK(
            p == nullptr || is_in_use(p),
            "pooled::compat: free() of an address that is not a chunk in use of this pool");
        if (p == nullptr) return;
        if (m_top == m_limit) [[unlikely]]
            return deallocate_beyond(p);
        *++m_top = p;
    }

    // Contiguous chunks for `n` times the requested size; null when there is no memory, and for n = 0. They may be freed together
    // or one by one.
    [[nodiscard]] void* allocate_row(std::size_t n) {
        if (n == 0 || n > most_chunks()) return nullptr;
        std::size_t const row = row_chunks(n);
        if (row == 1) return allocate();
        if (void* const p = take_row(row)) return p;
        if (settle())
            if (void* const p = take_row(row)) return p;
        region const* const grown = grow(row);
        if (grown == nullptr) return nullptr;
        mark(*grown, 0, row, false);
        return grown->begin;
    }
    // Null is ignored.
    void deallocate_row(void* p, std::size_t n) noexcept {
        if (p == nullptr || n == 0) return;
        std::size_t const row = row_chunks(n);
        if (row == 1) return deallocate(p);
        region const& r = region_of(p);
        mark(r, index(r.begin, p), row, true);
    }

    // Whether `p` points into a chunk.
    [[nodiscard]] bool is_from(void const* p) const noexcept {
        region const* const r = last_before(p);
        return r != nullptr && r->has(p) && !std::less<void const*>()(p, r->begin);
    }

    // Both return whether any memory was returned to the user's allocator. The first returns the regions that have no chunk in use,
    // the second all of them, including chunks in use.
    bool release_memory() noexcept;
    bool purge_memory() noexcept;

    // Calls visit(chunk) for each chunk in use, highest address first. `visit` may deallocate others, which are then not
    // visited any more, but not allocate.
    template <class Visit>
    void for_each_in_use(Visit&& visit) {
        settle();
        for (region const* r = m_regions + m_region_count; r-- != m_regions;)
            for (std::size_t i = chunks(*r); i-- != 0;)
                if (!is_marked(*r, i)) {
                    visit(static_cast<void*>(r->begin + i * m_bytes));
                    settle();
                }
    }

    [[nodiscard]] std::size_t requested_size() const noexcept { return m_requested; }
    [[nodiscard]] std::size_t next_size() const noexcept { return m_next_size; }
    [[nodiscard]] std::size_t max_size() const noexcept { return m_max_size; }
    constexpr void set_next_size(std::size_t n) noexcept {
        m_next_size = m_start_size = (std::min)(n, most_chunks());
    }
    constexpr void set_max_size(std::size_t n) noexcept { m_max_size = (std::min)(n, most_chunks()); }

private:
    static constexpr std::size_t k_bits = 64;

    struct group {
        std::uint64_t free;
        group* next;  // null: not in the list
    };
    struct region {
        group* groups;  // what the user's allocator gave
        std::byte* begin;
        std::byte* end;

        [[nodiscard]] bool has(void const* p) const noexcept {
            return std::less_equal<void const*>()(groups, p) && std::less<void const*>()(p, end);
        }
    };

    [[nodiscard]] static constexpr std::size_t chunk_bytes(std::size_t requested,
                                                           std::size_t align) noexcept {
        std::size_t const least = (std::max)(requested, sizeof(void*));
        return least > k_size_max - align ? pooled::detail::round_down(k_size_max, align)
                                          : pooled::detail::round_up(least, align);
    }
    // As Boost computes it: that a region can have.
    [[nodiscard]] constexpr std::size_t most_chunks() const noexcept {
        return (m_user.most_bytes - 2 * sizeof(void*)) / m_bytes;
    }
    // Requires 0 < n <= most_chunks(). Chunks for n times the requested size, which may be less than theirs.
    [[nodiscard]] std::size_t row_chunks(std::size_t n) const noexcept {
        if (m_requested == m_bytes) return n;
        std::size_t const odd = m_bytes >> m_shift;
        std::size_t const row = (n * m_requested + m_bytes - 1) >> m_shift;
        return std::max<std::size_t>(odd == 1 ? row : row / odd, 1);
    }
    // Requires that `p` is so many whole chunks behind `begin`. A product with the inverse of the odd factor, modulo 2^64, divides.
    [[nodiscard]] std::size_t index(std::byte const* begin, void const* p) const noexcept {
        return (static_cast<std::size_t>(static_cast<std::byte const*>(p) - begin) >> m_shift) * m_inverse;
    }
    [[nodiscard]] std::size_t chunks(region const& r) const noexcept { return index(r.begin, r.end); }
    [[nodiscard]] group* groups_end(region const& r) const noexcept {
        return r.groups + (chunks(r) + k_bits - 1) / k_bits;
    }
    [[nodiscard]] static bool is_marked(region const& r, std::size_t i) noexcept {
        return (r.groups[i / k_bits].free >> i % k_bits & 1) != 0;
    }
    [[nodiscard]] bool is_in_use(void* p) const noexcept {
        if (!is_from(p)) return false;
        region const& r = *last_before(p);
        std::size_t const i = index(r.begin, p);
        return r.begin + i * m_bytes == p && !is_marked(r, i) &&
               std::find(m_recent, m_top + 1, p) == m_top + 1;
    }

    // The region with the highest address that is not above `p`; null if there is none.
    [[nodiscard]] region* last_before(void const* p) const noexcept {
        region* const r =
            std::upper_bound(m_regions, m_regions + m_region_count, p,
                             [](void const* q, region const& s) { return std::less<>()(q, s.groups); });
        return r == m_regions ? nullptr : r - 1;
    }
    // Requires that `p` is a chunk or a group.
    [[nodiscard]] POOLED_ALWAYS_INLINE region const& region_of(void const* p) noexcept {
        if (!m_near->has(p)) m_near = last_before(p);
        return *m_near;
    }

    // Makes `n` chunks from the i-th free, or not. Groups that were not listed follow the head, in order.
    POOLED_ALWAYS_INLINE void mark(region const& r, std::size_t i, std::size_t n, bool is_free) noexcept {
        group* before = m_head;
        for (group* g = r.groups + i / k_bits; n != 0; ++g, i = 0) {
            std::size_t const first = i % k_bits;
            std::size_t const count = (std::min)(n, k_bits - first);
            std::uint64_t const bits = ~std::uint64_t{0} >> (k_bits - count) << first;
            n -= count;
            g->free = is_free ? g->free | bits : g->free & ~bits;
            if (is_free && g->next == nullptr) before = insert(g, before);
        }
    }
    static group* insert(group* g, group* before) noexcept {
        g->next = before->next;
        return before->next = g;
    }

    POOLED_ALWAYS_INLINE void give_back(void* p) noexcept {
        region const& r = region_of(p);
        mark(r, index(r.begin, p), 1, true);
    }
    // All chunks that are free are then in groups. Whether some were not.
    POOLED_NOINLINE bool settle() noexcept {
        bool const is_any = *m_top != nullptr;
        while (*m_top != nullptr)
            give_back(*m_top--);
        return is_any;
    }
    // Beyond what m_recent has space for: it grows; without memory for that, the chunk is marked.
    POOLED_NOINLINE void deallocate_beyond(void* p) noexcept {
        std::size_t const size = static_cast<std::size_t>(m_top - m_recent) + 1;
        std::size_t const capacity = 2 * size + 64;
        void* const grown =
            std::realloc(m_recent == &m_bottom ? nullptr : m_recent, capacity * sizeof(void*));
        if (grown == nullptr) return give_back(p);
        m_recent = static_cast<void**>(grown);
        m_recent[0] = nullptr;
        m_recent[size] = p;
        m_top = m_recent + size;
        m_limit = m_recent + capacity - 1;
    }
    void clear_list() noexcept { m_none.next = m_head = &m_none; }

    [[nodiscard]] void* allocate_from_next();
    [[nodiscard]] void* take_row(std::size_t n) noexcept;
    [[nodiscard]] void* take_row_from(group* g, std::size_t n) noexcept;
    [[nodiscard]] region const* grow(std::size_t least);
    [[nodiscard]] region const* add_region(std::size_t count);

    void** m_top = &m_bottom;
    void** m_limit = &m_bottom;
    void** m_recent = &m_bottom;  // begins with null
    group* m_head = &m_none;      // listed, even if it has no free chunk
    std::byte* m_head_chunks = nullptr;
    std::size_t m_bytes;
    std::size_t m_shift = static_cast<std::size_t>(std::countr_zero(m_bytes));
    std::size_t m_inverse = m_bytes >> m_shift;  // of itself, modulo 8
    region* m_near = nullptr;  // the last one that was looked up; maybe one that was released since
    region* m_regions = nullptr;
    std::size_t m_region_count = 0;
    std::size_t m_region_capacity = 0;
    std::size_t m_align;
    std::size_t m_requested;
    std::size_t m_next_size = 0;
    std::size_t m_start_size = 0;
    std::size_t m_max_size = 0;
    user_memory m_user;
    group m_none{0, &m_none};  // the end of the list, and its head while it is new
    void* m_bottom = nullptr;  // what m_recent is before it has memory
};

// From the next group of the list, which becomes the head.
POOLED_NOINLINE inline void* chunk_store::allocate_from_next() {
    do {
        if (m_head->next == &m_none && grow(1) == nullptr) return nullptr;
        m_head = std::exchange(m_head->next, nullptr);
    } while (m_head->free == 0);  // a row took what it had
    region const& r = region_of(m_head);
    m_head_chunks = r.begin + static_cast<std::size_t>(m_head - r.groups) * k_bits * m_bytes;
    return allocate();
}

inline void* chunk_store::take_row(std::size_t n) noexcept {
    for (group *before = m_head, *g = m_head;;) {
        if (void* const p = take_row_from(g, n)) return p;
        group* const next = g->next;
        if (next == &m_none) return nullptr;
        if (g->free == 0 && g != m_head) {
            before->next = next;
            g->next = nullptr;
        } else {
            before = g;
        }
        g = next;
    }
}

// Of a row that begins in `g`.
inline void* chunk_store::take_row_from(group* g, std::size_t n) noexcept {
    std::uint64_t const free = g->free;
    std::uint64_t starts = n > k_bits ? 0 : free;  // of rows that end in `g`, too
    for (std::size_t length = 1, more; length < n && starts != 0; length += more) {
        more = (std::min)(length, n - length);
        starts &= starts >> more;
    }
    if (starts == 0 && free >> (k_bits - 1) == 0) return nullptr;
    region const& r = region_of(g);
    std::size_t first = static_cast<std::size_t>(g - r.groups) * k_bits;
    if (starts != 0) {
        first += static_cast<std::size_t>(std::countr_zero(starts));
    } else {
        // A row that begins in a group before this one was found there, or is too short.
        if (~free == 0 && g != r.groups && g[-1].free >> (k_bits - 1) != 0) return nullptr;
        std::size_t found = static_cast<std::size_t>(std::countl_one(free));
        first += k_bits - found;
        group const* const end = groups_end(r);
        for (++g; found < n && g != end; ++g) {
            found += static_cast<std::size_t>(std::countr_one(g->free));
            if (~g->free != 0) break;
        }
        if (found < n) return nullptr;
    }
    mark(r, first, n, false);
    return r.begin + first * m_bytes;
}

// Memory for at least so many contiguous chunks, all of which are then free. Null when the user's allocator has no more.
POOLED_NOINLINE inline chunk_store::region const* chunk_store::grow(std::size_t least) {
    std::size_t count = (std::max)({m_next_size, least, std::size_t{1}});
    region const* grown = add_region(count);
    if (grown == nullptr) {
        // As Boost: half is tried once, and the next call begins with that. Who refuses a large request may have much memory left,
        // so a search for the largest that is granted could take all of it for one chunk.
        if (count == least) return nullptr;
        m_next_size = count = (std::max)(count / 2, least);
        grown = add_region(count);
        if (grown == nullptr) return nullptr;
    }
    std::size_t const most = most_chunks();
    std::size_t const doubled = count > most / 2 ? most : 2 * count;
    m_next_size = count;
    if (m_max_size == 0) {
        m_next_size = doubled;
    } else {  // counted in requested sizes, as Boost does
        std::size_t const wanted = std::max<std::size_t>(m_requested, 1);
        if (pooled::detail::saturating_multiply(count, m_bytes) / wanted < m_max_size)
            m_next_size =
                (std::min)(doubled, pooled::detail::saturating_multiply(m_max_size, wanted) / m_bytes);
    }
    return grown;
}

inline chunk_store::region const* chunk_store::add_region(std::size_t count) {
    std::size_t const groups = count / k_bits + 1;
    std::size_t const overhead = groups * sizeof(group) + m_align;
    std::size_t const bytes =
        pooled::detail::saturating_add(pooled::detail::saturating_multiply(count, m_bytes), overhead);
    if (bytes >= (std::min)(m_user.most_bytes, k_size_max / 2)) return nullptr;
    if (m_region_count == m_region_capacity) {
        std::size_t const capacity = 2 * m_region_capacity + 8;
        void* const regions = std::realloc(m_regions, capacity * sizeof(region));
        if (regions == nullptr) return nullptr;
        m_near = m_regions = static_cast<region*>(regions);
        m_region_capacity = capacity;
    }
    char* const raw = m_user.allocate(bytes);
    if (raw == nullptr) return nullptr;
    group* const first = reinterpret_cast<group*>(raw);
    for (std::size_t i = 0; i != groups; ++i)
        ::new (first + i) group{};
    std::size_t const before = pooled::detail::round_up(pooled::detail::address_of(first + groups), m_align) -
                               pooled::detail::address_of(raw);
    std::byte* const begin = reinterpret_cast<std::byte*>(raw) + before;
    region* const below = last_before(raw);
    region* const place = below == nullptr ? m_regions : below + 1;
    std::copy_backward(place, m_regions + m_region_count, m_regions + m_region_count + 1);
    ++m_region_count;
    m_near = ::new (place) region{first, begin, begin + count * m_bytes};
    mark(*place, 0, count, true);
    return place;
}

inline bool chunk_store::release_memory() noexcept {
    settle();
    clear_list();
    region* kept = m_regions;
    for (region const *r = m_regions, *end = m_regions + m_region_count; r != end; ++r) {
        group* const groups = groups_end(*r);
        std::size_t free = 0;
        for (group* g = r->groups; g != groups; ++g)
            free += static_cast<std::size_t>(std::popcount(g->free));
        if (free == chunks(*r)) {
            m_user.deallocate(reinterpret_cast<char*>(r->groups));
            continue;
        }
        for (group* g = groups; g-- != r->groups;)
            insert(g, &m_none);
        *kept++ = *r;
    }
    bool const is_any = kept != m_regions + m_region_count;
    m_region_count = static_cast<std::size_t>(kept - m_regions);
    m_next_size = m_start_size;
    return is_any;
}

inline bool chunk_store::purge_memory() noexcept {
    bool const is_any = m_region_count != 0;
    while (m_region_count != 0)
        m_user.deallocate(reinterpret_cast<char*>(m_regions[--m_region_count].groups));
    (std::free)(std::exchange(m_regions, nullptr));
    m_region_capacity = 0;
    if (m_recent != &m_bottom) (std::free)(m_recent);
    m_top = m_limit = m_recent = &m_bottom;
    clear_list();
    m_next_size = m_start_size;
    return is_any;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
