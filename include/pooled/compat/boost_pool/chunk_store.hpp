// SPDX-License-Identifier: BSL-1.0
#pragma once

// The base of all pools of boost_pool.hpp: chunks of one size, cut from regions of a UserAllocator. For one thread.
//
//   UserAllocator ─▶ | slack | region | chunk | chunk | chunk | …        regions in a list, highest address first
//
//   m_hot    a free chunk, or null: alternating free and malloc need nothing else
//   m_free   | null | p | p | p |                    addresses of free chunks; m_top is the last, which is used next
//   m_fresh  chunks of the newest region that were never in use: up to m_fresh_end
//
// The size of a chunk is fixed by the constructor, so an allocation looks nothing up. Boost links free chunks through
// themselves; here their addresses lie in an array from std::malloc, 8 bytes a chunk. An array is as fast for pairs, and several
// times as fast after a shuffled free (bench/boost_pool), since neither side waits for memory that is not needed. As everywhere
// in the library, a write after free cannot corrupt the pool. A new region is not written to.
//
// Invariants: chunks of all regions = in use + free + fresh; m_free has space for all of them, so deallocate() never fails.
// O(1), but: rows of chunks O(free) and, when they have to be sorted, O(free * log free); release_memory() likewise;
// is_from() O(regions). Trivially destructible: an owner that is destroyed calls purge_memory().

#include "pooled/config.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/geometry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

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
        set_next_size(next_size);
        set_max_size(max_size);
    }
    chunk_store(chunk_store const&) = delete;
    chunk_store& operator=(chunk_store const&) = delete;

    // A chunk; null when the user's allocator has no more.
    [[nodiscard]] POOLED_ALWAYS_INLINE void* allocate() {
        if (void* const hot = m_hot; hot != nullptr) [[likely]] {
            m_hot = nullptr;
            return hot;
        }
        void** const top = m_top;
        void* const p = *top;
        if (p == nullptr) [[unlikely]]
            return allocate_fresh();
        m_top = top - 1;
        return p;
    }
    // Null is ignored.
    POOLED_ALWAYS_INLINE void deallocate(void* p) noexcept {
        POOLED_EXPENSIVE_CHECK(
            p == nullptr || is_in_use(p),
            "pooled::compat: free() of an address that is not a chunk in use of this pool");
        if (m_hot != nullptr) [[unlikely]] {
            if (p != nullptr)
                push(m_hot);
            else
                p = m_hot;
        }
        m_hot = p;
    }

    // Up to `n` free or fresh chunks for `out`, without asking the user's allocator. Returns how many.
    [[nodiscard]] std::size_t take(void** out, std::size_t n) noexcept {
        std::size_t taken = 0;
        settle();
        for (; taken < n && *m_top != nullptr; ++taken)
            out[taken] = *m_top--;
        for (; taken < n && m_fresh != m_fresh_end; ++taken)
            out[taken] = take_fresh(1);
        return taken;
    }

    // Contiguous chunks for `n` times the requested size; null when there is no memory, and for n = 0. They may be freed together
    // or one by one.
    [[nodiscard]] void* allocate_row(std::size_t n) {
        if (n == 0 || n > most_chunks()) return nullptr;
        std::size_t const row = row_chunks(n);
        if (row == 1) return allocate();
        settle();
        if (void* const p = take_row(row, row)) return p;  // the row that was freed last
        if (fresh() >= row) return take_fresh(row);
        if (static_cast<std::size_t>(m_top - m_free) + fresh() >= row) {
            if (void* const p = take_row(row, k_size_max)) return p;
            spill_fresh();  // free chunks and fresh ones can form a row together
            sort();
            if (void* const p = take_row(row, k_size_max)) return p;
        }
        return grow(row) ? take_fresh(row) : nullptr;
    }
    // The first of them is used first. Null is ignored.
    void deallocate_row(void* p, std::size_t n) noexcept {
        if (p == nullptr || n == 0) return;
        settle();
        for (std::size_t i = row_chunks(n); i-- != 0;)
            push(static_cast<std::byte*>(p) + i * m_bytes);
    }

    // Whether `p` points into a chunk.
    [[nodiscard]] bool is_from(void const* p) const noexcept {
        for (region const* r = m_regions; r != nullptr; r = r->next)
            if (r->has(p)) return true;
        return false;
    }

    // Both return whether any memory was returned to the user's allocator. The first returns the regions that have no chunk in use,
    // the second all of them, including chunks in use.
    bool release_memory() noexcept;
    bool purge_memory() noexcept;

    // Calls visit(chunk) for each chunk in use, highest address first. `visit` may deallocate others, which are then not
    // visited any more, but not allocate. Afterwards only purge_memory() may be called.
    template <class Visit>
    void for_each_in_use(Visit&& visit);

    [[nodiscard]] std::size_t requested_size() const noexcept { return m_requested; }
    [[nodiscard]] std::size_t next_size() const noexcept { return m_next_size; }
    [[nodiscard]] std::size_t max_size() const noexcept { return m_max_size; }
    constexpr void set_next_size(std::size_t n) noexcept {
        m_next_size = m_start_size = (std::min)(n, most_chunks());
    }
    constexpr void set_max_size(std::size_t n) noexcept { m_max_size = (std::min)(n, most_chunks()); }

private:
    struct region {
        region* next;
        char* raw;  // as the user's allocator gave it
        std::byte* begin;
        std::byte* end;

        [[nodiscard]] bool has(void const* p) const noexcept {
            return std::less_equal<void const*>()(begin, p) && std::less<void const*>()(p, end);
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
        return std::max<std::size_t>((n * m_requested + m_bytes - 1) / m_bytes, 1);
    }
    [[nodiscard]] std::size_t fresh() const noexcept {
        return static_cast<std::size_t>(m_fresh_end - m_fresh) / m_bytes;
    }
    // Requires n <= fresh().
    [[nodiscard]] POOLED_ALWAYS_INLINE void* take_fresh(std::size_t n) noexcept {
        void* const p = m_fresh;
        m_fresh += n * m_bytes;
        return p;
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_fresh() {
        if (m_fresh == m_fresh_end && !grow(1)) [[unlikely]]
            return nullptr;
        return take_fresh(1);
    }

    POOLED_ALWAYS_INLINE void push(void* p) noexcept {
        void** const top = m_top + 1;
        *top = p;
        m_top = top;
    }
    // The hot chunk goes where the others are.
    void settle() noexcept {
        if (m_hot != nullptr) push(m_hot);
        m_hot = nullptr;
    }
    void spill_fresh() noexcept {
        while (m_fresh != m_fresh_end) {
            m_fresh_end -= m_bytes;
            push(m_fresh_end);
        }
    }
    [[nodiscard]] bool is_in_use(void* p) const noexcept {
        return is_from(p) && p != m_hot && std::find(m_free, m_top + 1, p) == m_top + 1;
    }

    // Lowest address at the end, where it is used first. Requires that there is no hot chunk. Rows are freed in this order, and what
    // was sorted before lies in front: a few sorted runs, each of which usually has its place between two addresses, are moved there.
    void sort() noexcept {
        auto const before = std::greater<void*>();
        void** const end = m_top + 1;
        void** sorted = std::is_sorted_until(m_free + 1, end, before);
        for (int runs = 0; sorted != end; ++runs) {
            void** next = std::is_sorted_until(sorted, end, before);
            if (runs == 16) std::sort(sorted, next = end, before);
            void** const place = std::upper_bound(m_free + 1, sorted, *sorted, before);
            if (place == sorted || before(*(next - 1), *place))
                std::rotate(place, sorted, next);
            else
                std::sort(m_free + 1, next, before);
            sorted = next;
        }
    }

    [[nodiscard]] void* take_row(std::size_t row, std::size_t most_looked_at) noexcept;
    [[nodiscard]] bool grow(std::size_t least);
    [[nodiscard]] bool add_region(std::size_t count);
    [[nodiscard]] bool reserve(std::size_t chunks) noexcept;

    void* m_hot = nullptr;
    void** m_top = &m_none;
    std::byte* m_fresh = nullptr;
    std::byte* m_fresh_end = nullptr;
    std::size_t m_bytes;
    void** m_free = &m_none;  // begins with null
    region* m_regions = nullptr;
    std::size_t m_chunks = 0;    // of all regions
    std::size_t m_capacity = 0;  // of m_free
    std::size_t m_align;
    std::size_t m_requested;
    std::size_t m_next_size = 0;
    std::size_t m_start_size = 0;
    std::size_t m_max_size = 0;
    user_memory m_user;
    void* m_none = nullptr;  // what m_free is before there is memory
};

// From the free chunks that are used next: `row` of them that lie side by side in the array as they do in memory.
inline void* chunk_store::take_row(std::size_t row, std::size_t most_looked_at) noexcept {
    void** first = m_top;
    for (void** at = m_top; *at != nullptr && most_looked_at != 0; --at, --most_looked_at) {
        if (at != first && *at != static_cast<std::byte*>(at[1]) + m_bytes) first = at;
        if (static_cast<std::size_t>(first - at) + 1 != row) continue;
        void* const p = *first;
        m_top = std::copy(first + 1, m_top + 1, at) - 1;
        return p;
    }
    return nullptr;
}

// Memory for at least so many contiguous chunks, which are then fresh. False when the user's allocator has no more.
POOLED_NOINLINE inline bool chunk_store::grow(std::size_t least) {
    std::size_t count = (std::max)({m_next_size, least, std::size_t{1}});
    if (!add_region(count)) {
        // As Boost: half is tried once, and the next call begins with that. Who refuses a large request may have much memory left,
        // so a search for the largest that is granted could take all of it for one chunk.
        if (count == least) return false;
        m_next_size = count = (std::max)(count / 2, least);
        if (!add_region(count)) return false;
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
    return true;
}

inline bool chunk_store::add_region(std::size_t count) {
    std::size_t const overhead = sizeof(region) + m_align - 1;
    std::size_t const bytes =
        pooled::detail::saturating_add(pooled::detail::saturating_multiply(count, m_bytes), overhead);
    if (bytes >= (std::min)(m_user.most_bytes, k_size_max / 2)) return false;
    char* const raw = m_user.allocate(bytes);
    if (raw == nullptr) return false;
    if (!reserve(m_chunks + count)) {
        m_user.deallocate(raw);
        return false;
    }
    m_chunks += count;
    spill_fresh();  // a row did not fit
    std::size_t const before =
        pooled::detail::round_up(pooled::detail::address_of(raw) + sizeof(region), m_align) -
        pooled::detail::address_of(raw);
    m_fresh = reinterpret_cast<std::byte*>(raw) + before;
    m_fresh_end = m_fresh + count * m_bytes;
    region** link = &m_regions;
    while (*link != nullptr && std::greater<void*>()((*link)->begin, m_fresh))
        link = &(*link)->next;
    *link = ::new (m_fresh - sizeof(region)) region{*link, raw, m_fresh, m_fresh_end};
    return true;
}

// Space for the addresses of so many free chunks.
inline bool chunk_store::reserve(std::size_t chunks) noexcept {
    if (chunks <= m_capacity) return true;
    std::size_t const capacity = (std::max)(chunks, 2 * m_capacity);
    if (capacity >= k_size_max / sizeof(void*)) return false;
    bool const is_first = m_free == &m_none;
    void* const grown = std::realloc(is_first ? nullptr : m_free, (capacity + 1) * sizeof(void*));
    if (grown == nullptr) return false;
    std::size_t const size = static_cast<std::size_t>(m_top - m_free);
    m_free = static_cast<void**>(grown);
    if (is_first) m_free[0] = nullptr;
    m_top = m_free + size;
    m_capacity = capacity;
    return true;
}

inline bool chunk_store::release_memory() noexcept {
    bool is_any = false;
    settle();
    sort();
    void** at = m_free + 1;
    for (region** link = &m_regions; *link != nullptr;) {
        region* const r = *link;
        void** const first = at;
        while (at <= m_top && r->has(*at))
            ++at;
        std::size_t const chunks = static_cast<std::size_t>(r->end - r->begin) / m_bytes;
        bool const is_newest = m_fresh_end == r->end;
        if (static_cast<std::size_t>(at - first) + (is_newest ? fresh() : 0) != chunks) {
            link = &r->next;
            continue;
        }
        std::fill(first, at, nullptr);
        if (is_newest) m_fresh = m_fresh_end = nullptr;
        m_chunks -= chunks;
        *link = r->next;
        m_user.deallocate(r->raw);
        is_any = true;
    }
    m_top = std::remove(m_free + 1, m_top + 1, nullptr) - 1;
    m_next_size = m_start_size;
    return is_any;
}

inline bool chunk_store::purge_memory() noexcept {
    bool const is_any = m_regions != nullptr;
    while (region* const r = m_regions) {
        m_regions = r->next;
        m_user.deallocate(r->raw);
    }
    if (m_free != &m_none) (std::free)(m_free);
    m_hot = nullptr;
    m_top = m_free = &m_none;
    m_fresh = m_fresh_end = nullptr;
    m_chunks = m_capacity = 0;
    m_next_size = m_start_size;
    return is_any;
}

// The free chunks are sorted once; those that are freed meanwhile lie behind them in a heap, highest address first.
template <class Visit>
void chunk_store::for_each_in_use(Visit&& visit) {
    settle();
    sort();
    void** sorted = m_free + 1;
    void** const heap = m_top + 1;
    for (region const* r = m_regions; r != nullptr; r = r->next) {
        std::byte* chunk = m_fresh_end == r->end ? m_fresh : r->end;
        while (chunk != r->begin) {
            chunk -= m_bytes;
            if (sorted != heap && *sorted == chunk) {
                ++sorted;
                continue;
            }
            while (heap <= m_top && std::greater<void*>()(*heap, chunk))
                std::pop_heap(heap, m_top-- + 1, std::less<void*>());
            if (heap <= m_top && *heap == chunk) continue;
            void** pushed = m_top;
            visit(static_cast<void*>(chunk));
            for (settle(); pushed != m_top; ++pushed)
                std::push_heap(heap, pushed + 2, std::less<void*>());
        }
    }
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
