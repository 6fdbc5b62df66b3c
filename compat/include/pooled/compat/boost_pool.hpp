// SPDX-License-Identifier: BSL-1.0
#pragma once

// Boost.Pool's public names in namespace pooled::compat, for programs written for it: change one include and one namespace.
// Boost itself is not needed.
//
//   std::list<int, pooled::compat::fast_pool_allocator<int>> numbers;
//   pooled::compat::object_pool<Order> orders;
//   using Buffers = pooled::compat::singleton_pool<struct BufferTag, 4096>;
//
//   default_user_allocator_new_delete, …_malloc_free                                             any thread
//   pool, object_pool, simple_segregated_storage                                                 one thread at a time
//   singleton_pool, pool_allocator, fast_pool_allocator                                          any thread
//
// Nothing here is [[nodiscard]]: programs written for Boost must compile as they are. compat/README.md lists the differences.
// `malloc` and `free` stand in parentheses where they are declared and called: a program may define macros of these names.
// The interface is that of Boost.Pool, by Stephen Cleary and its later maintainers.

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/os/raw_mutex.hpp"
#include "pooled/os/single_threaded.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#if !defined(_WIN32)
#include <pthread.h>
#endif

POOLED_BEGIN_NAMESPACE
namespace compat {

struct default_user_allocator_new_delete {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char*(malloc)(size_type bytes) { return new (std::nothrow) char[bytes]; }
    static void(free)(char* block) { delete[] block; }  // NOLINT: as malloc gave it
};

struct default_user_allocator_malloc_free {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    static char*(malloc)(size_type bytes) { return static_cast<char*>((std::malloc)(bytes)); }
    static void(free)(char* block) { (std::free)(block); }
};

namespace details {

// A chunk's size is a multiple of its type's alignment, and only the size is known here: this is the largest alignment of any
// type of that size, up to a cache line, and at least that of a pointer, which Boost guarantees.
[[nodiscard]] constexpr std::size_t chunk_align(std::size_t chunk_bytes) noexcept {
    return std::clamp<std::size_t>(chunk_bytes & (~chunk_bytes + 1), alignof(void*), detail::k_cache_line);
}
template <class T>
[[nodiscard]] constexpr std::size_t chunk_align_of() noexcept {
    return (std::max)(chunk_align(sizeof(T)), alignof(T));
}

}  // namespace details

// Chunks of one size, cut from regions of a UserAllocator. For one thread.
//
//   m_recent │ p │ p │ p │ …        chunks that were freed one by one; the last, below m_top, is used next
//   m_head ─▶ group ─▶ group ─▶ …   bitmaps of 64 chunks each; a set bit is a free chunk. All groups with a free chunk are listed
//   UserAllocator ─▶ | group | group | … | slack | chunk | chunk | chunk | …        regions, in an array by address
//
// Boost links free chunks through themselves; here their addresses lie in an array from std::malloc, 8 bytes each, until a row is
// wanted that the bitmaps do not have. Then their bits are set. A row is a run of set bits, where Boost's is a run of a list that
// must be ordered. Nothing reads or writes a free chunk, so a write after free cannot corrupt the pool, and a shuffled free waits
// for no memory.
//
// Invariant: a chunk is in use, recent, or marked. free() never fails: a chunk for which m_recent cannot grow is marked.
// O(1), but: marking a recent chunk and is_from() O(log regions); rows O(listed groups + length / 64); release_memory()
// O(chunks / 64). What the UserAllocator throws propagates.
template <class UserAllocator = default_user_allocator_new_delete>
class pool {
public:
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // `requested_size`: bytes of a chunk. `next_size`, `max_size`: how many chunks to ask the user's allocator for, at first
    // and at most (0: no limit). `align`: of the chunks; if it is not given, the largest that a type of that size can need, up to 64.
    explicit constexpr pool(size_type requested_size, size_type next_size = 32, size_type max_size = 0)
        : pool(requested_size, next_size, max_size, details::chunk_align(requested_size)) {}
    constexpr pool(size_type requested_size, size_type next_size, size_type max_size, std::size_t align)
        : m_bytes(chunk_bytes(requested_size, align)), m_align(align), m_requested(requested_size) {
        set_next_size(next_size);
        set_max_size(max_size);
    }
    // Frees all memory.
    ~pool() { purge_memory(); }
    pool(pool const&) = delete;
    pool& operator=(pool const&) = delete;

    // A chunk, or contiguous chunks for `n` times the requested size; null when there is no memory, and for n = 0. Contiguous
    // chunks may be freed together or one by one. The ordered_ forms are the same as the others here.
    POOLED_ALWAYS_INLINE void*(malloc)() {
        if (m_top != m_recent) {
            void* const recent = *--m_top;
            if (recent == nullptr || m_top == m_limit)
                __builtin_unreachable();  // so a free() in the same function does not compare
            return recent;
        }
        std::uint64_t const free = m_head->free;
        if (free == 0) [[unlikely]]
            return allocate_from_next();
        m_head->free = free & (free - 1);
        return m_head_chunks + static_cast<std::size_t>(std::countr_zero(free)) * m_bytes;
    }
    void* ordered_malloc() { return (malloc)(); }
    void* ordered_malloc(size_type n) {
        if (n == 0 || n > most_chunks()) return nullptr;
        std::size_t const row = row_chunks(n);
        if (row == 1) return (malloc)();
        void* p = take_row(row);
        if (p == nullptr && settle()) p = take_row(row);
        if (p == nullptr && grow(row)) p = take_row(row);
        return p;
    }

    // Null is ignored.
    POOLED_ALWAYS_INLINE void(free)(void* chunk) noexcept {
        POOLED_EXPENSIVE_CHECK(
            chunk == nullptr || is_in_use(chunk),
            "pooled::compat: free() of an address that is not a chunk in use of this pool");
        if (chunk == nullptr) return;
        if (m_top == m_limit) [[unlikely]]
            return free_beyond(chunk);
        *m_top++ = chunk;
    }
    void ordered_free(void* chunk) noexcept { (free)(chunk); }
    void(free)(void* chunks, size_type n) noexcept {
        if (chunks == nullptr || n == 0) return;
        std::size_t const row = row_chunks(n);
        if (row == 1) return (free)(chunks);
        mark_free(chunks, row);
    }
    void ordered_free(void* chunks, size_type n) noexcept { (free)(chunks, n); }

    // Whether `p` points into memory that this pool has made chunks of.
    bool is_from(void const* p) const noexcept {
        region const* const r = first_above(p);
        return r != m_regions && r[-1].has(p) && !std::less<void const*>()(p, r[-1].begin);
    }

    // Both return whether any memory was returned to the user's allocator. The first returns the regions that have no chunk in use,
    // the second all of them, including chunks in use.
    bool release_memory() noexcept {
        settle();
        return release(false);
    }
    bool purge_memory() noexcept {
        m_top = m_recent;
        return release(true);
    }

    size_type get_requested_size() const noexcept { return static_cast<size_type>(m_requested); }
    // How many chunks to ask the user's allocator for, the next time and at most (0: no limit).
    size_type get_next_size() const noexcept { return static_cast<size_type>(m_next_size); }
    constexpr void set_next_size(size_type n) noexcept {
        m_next_size = m_start_size = std::min<std::size_t>(n, most_chunks());
    }
    size_type get_max_size() const noexcept { return static_cast<size_type>(m_max_size); }
    constexpr void set_max_size(size_type n) noexcept {
        m_max_size = std::min<std::size_t>(n, most_chunks());
    }

private:
    template <class T, class From>
    friend class object_pool;

    static constexpr std::size_t k_bits = 64;
    static constexpr std::size_t k_most_bytes = (std::numeric_limits<size_type>::max)();

    struct group {
        std::uint64_t free;
        group* next;  // null: not in the list
    };
    struct region {
        // What the user's allocator gave. The last group has a bit for no chunk, which is never set.
        group* groups;
        std::byte* begin;
        std::byte* end;

        [[nodiscard]] bool has(void const* p) const noexcept {
            return std::less_equal<void const*>()(groups, p) && std::less<void const*>()(p, end);
        }
    };

    [[nodiscard]] static constexpr std::size_t chunk_bytes(std::size_t requested,
                                                           std::size_t align) noexcept {
        std::size_t const least = (std::max)(requested, sizeof(void*));
        return detail::round_down(detail::saturating_add(least, align - 1), align);
    }
    // As Boost computes it: that a region can have.
    [[nodiscard]] constexpr std::size_t most_chunks() const noexcept {
        return (k_most_bytes - 2 * sizeof(void*)) / m_bytes;
    }
    // Requires 0 < n <= most_chunks(). Chunks for n times the requested size, which may be less than theirs.
    [[nodiscard]] std::size_t row_chunks(std::size_t n) const noexcept {
        if (m_requested == m_bytes) return n;
        return std::max<std::size_t>((n * m_requested + m_bytes - 1) / m_bytes, 1);
    }
    // Requires a chunk of the region, or its end.
    [[nodiscard]] std::size_t index(region const& r, void const* p) const noexcept {
        return static_cast<std::size_t>(static_cast<std::byte const*>(p) - r.begin) / m_bytes;
    }
    [[nodiscard]] static bool is_marked(region const& r, std::size_t i) noexcept {
        return (r.groups[i / k_bits].free >> i % k_bits & 1) != 0;
    }
    [[nodiscard]] bool is_in_use(void* p) const noexcept {
        if (!is_from(p)) return false;
        region const& r = first_above(p)[-1];
        std::size_t const i = index(r, p);
        return r.begin + i * m_bytes == p && !is_marked(r, i) && std::find(m_recent, m_top, p) == m_top;
    }

    [[nodiscard]] region* first_above(void const* p) const noexcept {
        return std::upper_bound(m_regions, m_regions + m_region_count, p,
                                [](void const* q, region const& r) { return std::less<>()(q, r.groups); });
    }
    // Requires that `p` is a chunk or a group.
    [[nodiscard]] POOLED_ALWAYS_INLINE region const& region_of(void const* p) noexcept {
        if (!m_near->has(p)) m_near = first_above(p) - 1;
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
    POOLED_ALWAYS_INLINE void mark_free(void* chunks, std::size_t n) noexcept {
        region const& r = region_of(chunks);
        mark(r, index(r, chunks), n, true);
    }
    static group* insert(group* g, group* before) noexcept {
        g->next = before->next;
        return before->next = g;
    }
    // When m_recent is full.
    POOLED_NOINLINE void free_beyond(void* chunk) noexcept {
        auto const size = static_cast<std::size_t>(m_top - m_recent);
        std::size_t const capacity = 2 * size + 64;
        void* const grown = (std::realloc)(m_recent, capacity * sizeof(void*));
        if (grown == nullptr) return mark_free(chunk, 1);
        m_recent = static_cast<void**>(grown);
        m_top = m_recent + size;
        m_limit = m_recent + capacity;
        *m_top++ = chunk;
    }
    // Marks the recent chunks. Whether there were any.
    POOLED_NOINLINE bool settle() noexcept {
        bool const is_any = m_top != m_recent;
        while (m_top != m_recent)
            mark_free(*--m_top, 1);
        return is_any;
    }

    // From the next group of the list, which becomes the head.
    [[nodiscard]] POOLED_NOINLINE void* allocate_from_next() {
        do {
            if (m_head->next == &m_none && !grow(1)) return nullptr;
            m_head = std::exchange(m_head->next, nullptr);
        } while (m_head->free == 0);  // a row took what it had
        region const& r = region_of(m_head);
        m_head_chunks = r.begin + static_cast<std::size_t>(m_head - r.groups) * k_bits * m_bytes;
        return (malloc)();
    }

    // The first row of the first group in the list that has one; null if none has.
    [[nodiscard]] void* take_row(std::size_t n) noexcept {
        for (group *before = m_head, *g = m_head;;) {
            group* const next = g->next;
            if (g->free != 0) {
                if (void* const p = take_row_from(g, n)) return p;
                before = g;
            } else if (g != m_head) {
                before->next = next;
                g->next = nullptr;
            }
            if (next == &m_none) return nullptr;
            g = next;
        }
    }
    // Of a row that begins in `g`.
    [[nodiscard]] void* take_row_from(group const* g, std::size_t n) noexcept {
        std::uint64_t const free = g->free;
        std::uint64_t starts = n > k_bits ? 0 : free;  // of rows that end in `g`, too
        for (std::size_t length = 1, more; length < n && starts != 0; length += more) {
            more = (std::min)(length, n - length);
            starts &= starts >> more;
        }
        auto found = static_cast<std::size_t>(std::countl_one(free));  // of a row that does not
        if (starts == 0 && found == 0) return nullptr;
        region const& r = region_of(g);
        auto first = static_cast<std::size_t>(g - r.groups) * k_bits;
        if (starts != 0) {
            first += static_cast<std::size_t>(std::countr_zero(starts));
        } else {
            // A row that begins in the group before was found there, or is too short.
            if (found == k_bits && g != r.groups && g[-1].free >> (k_bits - 1) != 0) return nullptr;
            first += k_bits - found;
            for (std::size_t more = k_bits; found < n && more == k_bits; found += more)
                more = static_cast<std::size_t>(std::countr_one((++g)->free));
            if (found < n) return nullptr;
        }
        mark(r, first, n, false);
        return r.begin + first * m_bytes;
    }

    // A region of at least so many chunks, all free. False when the user's allocator has no more.
    [[nodiscard]] POOLED_NOINLINE bool grow(std::size_t least) {
        std::size_t count = (std::max)({m_next_size, least, std::size_t{1}});
        if (!add_region(count)) {
            // As Boost: half is tried once, and the next call begins with that. Who refuses a large request may have much memory
            // left, so a search for the largest that is granted could take all of it for one chunk.
            if (count == least) return false;
            m_next_size = count = (std::max)(count / 2, least);
            if (!add_region(count)) return false;
        }
        // max_size counts requested sizes, as in Boost.
        std::size_t const most =
            m_max_size == 0 ? most_chunks() : m_max_size * std::max<std::size_t>(m_requested, 1) / m_bytes;
        m_next_size = (std::max)(count, (std::min)(2 * count, most));
        return true;
    }
    [[nodiscard]] bool add_region(std::size_t count) {
        std::size_t const groups = count / k_bits + 1;
        std::size_t const bytes = detail::saturating_add(count * m_bytes, groups * sizeof(group) + m_align);
        if (bytes >= (std::min)(k_most_bytes, detail::k_size_max / 2)) return false;
        if (m_region_count == m_region_capacity) {
            std::size_t const capacity = 2 * m_region_capacity + 8;
            void* const grown = (std::realloc)(m_regions, capacity * sizeof(region));
            if (grown == nullptr) return false;
            m_near = m_regions = static_cast<region*>(grown);
            m_region_capacity = capacity;
        }
        char* const raw = (UserAllocator::malloc)(static_cast<size_type>(bytes));
        if (raw == nullptr) return false;
        group* const first = reinterpret_cast<group*>(raw);
        for (std::size_t i = 0; i != groups; ++i)
            ::new (first + i) group{};
        std::size_t const before =
            detail::round_up(detail::address_of(first + groups), m_align) - detail::address_of(raw);
        std::byte* const begin = reinterpret_cast<std::byte*>(raw) + before;
        region* const place = first_above(raw);
        std::copy_backward(place, m_regions + m_region_count, m_regions + m_region_count + 1);
        ++m_region_count;
        m_near = ::new (place) region{first, begin, begin + count * m_bytes};
        mark(*place, 0, count, true);
        return true;
    }
    // Requires that no chunk is recent. Returns all regions, or those that have no chunk in use. Whether there were any.
    bool release(bool is_all) noexcept {
        m_none.next = m_head = &m_none;
        std::size_t const before = std::exchange(m_region_count, 0);
        for (std::size_t i = 0; i != before; ++i) {
            region const r = m_regions[i];
            std::size_t const chunks = index(r, r.end);
            std::size_t in_use = chunks;
            group* const listed = m_none.next;
            for (std::size_t g = chunks / k_bits + 1; g-- != 0;) {
                in_use -= static_cast<std::size_t>(std::popcount(r.groups[g].free));
                insert(r.groups + g, &m_none);
            }
            if (is_all || in_use == 0) {
                m_none.next = listed;
                (UserAllocator::free)(reinterpret_cast<char*>(r.groups));
            } else {
                m_regions[m_region_count++] = r;
            }
        }
        if (m_region_count == 0) {
            (std::free)(std::exchange(m_regions, nullptr));
            (std::free)(std::exchange(m_recent, nullptr));
            m_top = m_limit = nullptr;
            m_region_capacity = 0;
        }
        m_next_size = m_start_size;
        return m_region_count != before;
    }

    // Calls visit(chunk) for each chunk in use, highest address first. `visit` may deallocate others, which are then not
    // visited any more, but not allocate.
    template <class Visit>
    void for_each_in_use(Visit&& visit) {
        settle();
        for (region const* r = m_regions + m_region_count; r-- != m_regions;)
            for (std::size_t i = index(*r, r->end); i-- != 0;)
                if (!is_marked(*r, i)) {
                    visit(static_cast<void*>(r->begin + i * m_bytes));
                    if (m_top != m_recent) settle();
                }
    }

    void** m_top = nullptr;
    void** m_recent = nullptr;
    void** m_limit = nullptr;
    group* m_head = &m_none;  // listed, even if it has no free chunk
    std::byte* m_head_chunks = nullptr;
    std::size_t m_bytes;
    region* m_near = nullptr;  // the last one that was looked up; maybe one that was released since
    region* m_regions = nullptr;
    std::size_t m_region_count = 0;
    std::size_t m_region_capacity = 0;
    std::size_t m_align;
    std::size_t m_requested;
    std::size_t m_next_size = 0;
    std::size_t m_start_size = 0;
    std::size_t m_max_size = 0;
    group m_none{0, &m_none};  // the end of the list, and its head while it is new
};

// Objects that are destroyed at the latest with their pool.
template <class T, class UserAllocator = default_user_allocator_new_delete>
class object_pool : pool<UserAllocator> {
    using chunks = pool<UserAllocator>;

public:
    using element_type = T;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;

    // How many objects to ask the user's allocator for, at first and at most (0: no limit).
    explicit object_pool(size_type next_size = 32, size_type max_size = 0)
        : chunks(sizeof(T), next_size, max_size, details::chunk_align_of<T>()) {}

    // Destroys the objects in use, highest address first: if nothing was freed, from newest to oldest. A destructor may destroy
    // objects that are not destroyed yet.
    ~object_pool() {
        if constexpr (!std::is_trivially_destructible_v<T>)
            this->for_each_in_use([](void* chunk) { static_cast<T*>(chunk)->~T(); });
    }

    // Memory for an object. The caller must construct the object or call free() before the pool is destroyed. Null when there is no
    // memory.
    T*(malloc)() { return static_cast<T*>((this->chunks::malloc)()); }

    // Requires a result of malloc() without an object; null is ignored.
    void(free)(T* memory) { (this->chunks::free)(memory); }

    // An object; null when there is no memory. Throws what the constructor throws, the pool is then as before.
    template <class... Args>
    T* construct(Args&&... args) {
        T* const memory = (this->malloc)();
        if (memory == nullptr) return nullptr;
        try {
            return ::new (static_cast<void*>(memory)) T(std::forward<Args>(args)...);
        } catch (...) {
            (this->free)(memory);
            throw;
        }
    }

    // Null is ignored.
    void destroy(T* object) {
        if (object == nullptr) return;
        object->~T();
        (this->free)(object);
    }

    using chunks::get_next_size;
    using chunks::is_from;
    using chunks::set_next_size;
};

namespace details::pool {  // where Boost has them

struct null_mutex {
    static void lock() noexcept {}
    static void unlock() noexcept {}
};
// Locks for nothing but a comparison while the process has one thread, as the C library's mutex does for Boost. One that is locked so may be
// unlocked otherwise, and the other way round: who starts a thread orders what was before, and who joins the last one sees what it did.
class process_mutex : public detail::raw_mutex {
public:
    POOLED_ALWAYS_INLINE void lock() noexcept {
        if (!detail::is_single_threaded()) return detail::raw_mutex::lock();
        if (m_state.load(std::memory_order_relaxed) != k_free) [[unlikely]]
            return static_cast<void>(wait(k_attempts));
        m_state.store(k_held, std::memory_order_relaxed);
    }
    POOLED_ALWAYS_INLINE void unlock() noexcept {
        detail::is_single_threaded() ? m_state.store(k_free, std::memory_order_relaxed)
                                     : detail::raw_mutex::unlock();
    }
};
// Boost's macros.
#if defined(BOOST_DISABLE_THREADS) || defined(BOOST_NO_MT) || defined(BOOST_POOL_NO_MT)
using default_mutex = null_mutex;
#else
using default_mutex = process_mutex;
#endif

template <class Mutex>
using guard = std::lock_guard<Mutex>;

}  // namespace details::pool

// One pool for each set of template arguments, never destroyed. Mutex is locked for each call, so any thread may call;
// details::pool::null_mutex does not lock, and one thread at a time uses the pool. A forked child may continue. O(1) where pool is.
// `Align`: types that need a larger one than others of their size have a pool of their own.
template <class Tag, unsigned RequestedSize, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0,
          std::size_t Align = details::chunk_align(RequestedSize)>
class POOLED_EXPORT singleton_pool {
public:
    using tag = Tag;
    using mutex = Mutex;
    using user_allocator = UserAllocator;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    static constexpr unsigned requested_size = RequestedSize;
    static constexpr unsigned next_size = NextSize;

    singleton_pool() = delete;

    // As those of pool.
    static void*(malloc)() { return (locked()->malloc)(); }
    static void* ordered_malloc() { return (locked()->malloc)(); }
    static void* ordered_malloc(size_type n) { return locked()->ordered_malloc(n); }
    static void(free)(void* chunk) { (locked()->free)(chunk); }
    static void ordered_free(void* chunk) { (locked()->free)(chunk); }
    static void(free)(void* chunks, size_type n) { (locked()->free)(chunks, n); }
    static void ordered_free(void* chunks, size_type n) { (locked()->free)(chunks, n); }
    static bool is_from(void* p) { return locked()->is_from(p); }
    static bool release_memory() { return locked()->release_memory(); }
    static bool purge_memory() { return locked()->purge_memory(); }

private:
    // A mutex of the user that cannot be a constant is made by its first use, and lies elsewhere.
    static constexpr bool k_is_constant = requires { typename std::bool_constant<(Mutex(), true)>; };
    struct shared {
        std::conditional_t<k_is_constant, Mutex, details::pool::null_mutex> mutex;
        compat::pool<UserAllocator> pool{RequestedSize, NextSize, MaxSize, Align};
    };
    union never_destroyed {
        constexpr never_destroyed() : all() {}
        constexpr ~never_destroyed() {}
        shared all;
    };
    // The pool, and its mutex until the end of the expression.
    class locked {
    public:
        compat::pool<UserAllocator>* operator->() const noexcept {
            compat::pool<UserAllocator>* one = &s_shared.all.pool;
            // By a register: relative to the instruction's address, a load waits for the store before it (0.5 against 3.6 ns for an
            // allocation and its deallocation, Intel Sapphire Rapids).
            asm("" : "+r"(one));
            return one;
        }

    private:
        details::pool::guard<Mutex> m_guard{the_mutex()};
    };

    POOLED_ALWAYS_INLINE static Mutex& the_mutex() {
        static_cast<void>(&s_has_fork_handlers);  // so it is there
        if constexpr (k_is_constant) {
            return s_shared.all.mutex;
        } else {
            static Mutex& made = *::new (s_memory) Mutex;
            return made;
        }
    }
    // False without memory for them; a fork is then as in Boost, which has none.
    static bool add_fork_handlers() {
        if constexpr (std::is_same_v<Mutex, details::pool::null_mutex>) return true;
#if defined(_WIN32)
        return true;
#else
        // Not by the compiled library: what a plugin registers itself goes when it is closed.
        return ::pthread_atfork([] { the_mutex().lock(); }, [] { the_mutex().unlock(); },
                                [] { the_mutex().unlock(); }) == 0;
#endif
    }

    // A constant, so no call asks whether it was made. The mutex and the first members of the pool share a cache line.
    alignas(detail::k_cache_line) static inline constinit never_destroyed s_shared{};
    alignas(Mutex) static inline constinit std::byte s_memory[k_is_constant ? 1 : sizeof(Mutex)]{};
    static inline bool const s_has_fork_handlers = add_fork_handlers();  // before main()
};

namespace details {

// Stateless and always equal. T may be incomplete until a member is used, and void for rebinding.
template <class T, class Tag, class UserAllocator, class Mutex, unsigned NextSize, unsigned MaxSize>
class singleton_allocator {
public:
    using value_type = T;
    using user_allocator = UserAllocator;
    using mutex = Mutex;
    using pointer = T*;
    using const_pointer = T const*;
    using reference = std::add_lvalue_reference_t<T>;
    using const_reference = std::add_lvalue_reference_t<T const>;
    using size_type = typename UserAllocator::size_type;
    using difference_type = typename UserAllocator::difference_type;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    static constexpr unsigned next_size = NextSize;

    template <class Other>
    [[nodiscard]] friend constexpr bool
    operator==(singleton_allocator const&,
               singleton_allocator<Other, Tag, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {
        return true;
    }

    template <class Other>
    static Other* address(Other& object) {
        return &object;
    }
    static size_type max_size() { return (std::numeric_limits<size_type>::max)(); }

    template <class Other, class... Args>
    static void construct(Other* where, Args&&... args) {
        ::new (static_cast<void*>(where)) Other(std::forward<Args>(args)...);
    }
    template <class Other>
    static void destroy(Other* object) {
        object->~Other();
    }

    // Memory for n objects; n may be 0. Throws std::bad_array_new_length if they exceed the address space, else std::bad_alloc.
    static T* allocate(size_type n = 1) {
        if (n > detail::k_size_max / sizeof(T)) throw std::bad_array_new_length();
        void* const p = n > 1 ? chunks<>::ordered_malloc(n) : (chunks<>::malloc)();
        if (p == nullptr) [[unlikely]]
            throw std::bad_alloc();
        return static_cast<T*>(p);
    }
    static T* allocate(size_type n, void const*) { return allocate(n); }

    // Requires a result of allocate with the same n.
    static void deallocate(T* p, size_type n = 1) noexcept {
        n > 1 ? (chunks<>::free)(p, n) : (chunks<>::free)(p);
    }

private:
    // A template, so that a class with an allocator of itself as a member can be written.
    template <class Other = T>
    using chunks =
        singleton_pool<Tag, sizeof(Other), UserAllocator, Mutex, NextSize, MaxSize, chunk_align_of<Other>()>;
};

}  // namespace details

// For containers and std::allocate_shared, on the singleton_pool of their tag and of T's size, and as thread-safe as that. The two
// differ only in their pools.
struct pool_allocator_tag {};
template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class pool_allocator
    : public details::singleton_allocator<T, pool_allocator_tag, UserAllocator, Mutex, NextSize, MaxSize> {
public:
    template <class Other>
    struct rebind {
        using other = pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize>;
    };

    constexpr pool_allocator() noexcept = default;
    template <class Other>
    constexpr pool_allocator(  // NOLINT: allocators convert
        pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {}
};

struct fast_pool_allocator_tag {};
template <class T, class UserAllocator = default_user_allocator_new_delete,
          class Mutex = details::pool::default_mutex, unsigned NextSize = 32, unsigned MaxSize = 0>
class fast_pool_allocator : public details::singleton_allocator<T, fast_pool_allocator_tag, UserAllocator,
                                                                Mutex, NextSize, MaxSize> {
public:
    template <class Other>
    struct rebind {
        using other = fast_pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize>;
    };

    constexpr fast_pool_allocator() noexcept = default;
    template <class Other>
    constexpr fast_pool_allocator(  // NOLINT: allocators convert
        fast_pool_allocator<Other, UserAllocator, Mutex, NextSize, MaxSize> const&) noexcept {}
};

// A list of free chunks in memory that the caller provides. As in Boost, each free chunk contains the address of the next one, so
// this class, unlike all others of the library, writes to free chunks and reads them. A list is ordered if the addresses ascend; the
// ordered_ functions keep it so. `chunk_bytes` is a multiple of sizeof(void*), and blocks are aligned for a pointer. O(1), but:
// segregate, add_block and free_n O(chunks of the block); the ordered_ functions also, and malloc_n, O(free chunks).
template <class SizeType = std::size_t>
class simple_segregated_storage {
public:
    using size_type = SizeType;

    simple_segregated_storage() = default;
    simple_segregated_storage(simple_segregated_storage const&) = delete;
    simple_segregated_storage& operator=(simple_segregated_storage const&) = delete;

    // Links the chunks of a block of `bytes`, the last one to `end`; a rest that is no whole chunk stays unused. Returns the block.
    // Requires bytes >= chunk_bytes.
    static void* segregate(void* block, size_type bytes, size_type chunk_bytes, void* end = nullptr) {
        for (size_type i = bytes / chunk_bytes; i-- != 0;) {
            void* const chunk = static_cast<std::byte*>(block) + i * chunk_bytes;
            nextof(chunk) = end;
            end = chunk;
        }
        return end;
    }

    // The block's chunks are used next; or each at its place in the order. The same is required as for segregate.
    void add_block(void* block, size_type bytes, size_type chunk_bytes) {
        first = segregate(block, bytes, chunk_bytes, first);
    }
    void add_ordered_block(void* block, size_type bytes, size_type chunk_bytes) {
        void*& link = link_to(block);
        link = segregate(block, bytes, chunk_bytes, link);
    }

    bool empty() const { return first == nullptr; }

    // Requires that the list is not empty.
    void*(malloc)() {
        void* const chunk = first;
        first = nextof(chunk);
        return chunk;
    }
    void(free)(void* chunk) {
        nextof(chunk) = first;
        first = chunk;
    }
    void ordered_free(void* chunk) {
        void*& link = link_to(chunk);
        nextof(chunk) = link;
        link = chunk;
    }

    // The first `n` chunks of the list that follow each other in it as in memory; null if there are none, and for n = 0.
    void* malloc_n(size_type n, size_type chunk_bytes) {
        if (n == 0) return nullptr;
        for (void** link = &first; *link != nullptr;) {
            void* const row = *link;
            void* last = row;
            size_type found = 1;
            for (; found != n && nextof(last) == static_cast<std::byte*>(last) + chunk_bytes; ++found)
                last = nextof(last);
            if (found == n) {
                *link = nextof(last);
                return row;
            }
            link = &nextof(last);
        }
        return nullptr;
    }
    // Nothing for n = 0.
    void free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_block(chunks, n * chunk_bytes, chunk_bytes);
    }
    void ordered_free_n(void* chunks, size_type n, size_type chunk_bytes) {
        if (n != 0) add_ordered_block(chunks, n * chunk_bytes, chunk_bytes);
    }

protected:
    // Of the free chunks that are before `p` in an ordered list, the last; null if there is none.
    void* find_prev(void* p) {
        void* before = nullptr;
        for (void* at = first; at != nullptr && !std::greater<void*>()(at, p); at = nextof(at))
            before = at;
        return before;
    }
    static void*& nextof(void* chunk) { return *static_cast<void**>(chunk); }

    void* first = nullptr;  // of the list; null if that is empty. The name is Boost's

private:
    void*& link_to(void* p) {
        void* const before = find_prev(p);
        return before != nullptr ? nextof(before) : first;
    }
};

}  // namespace compat
POOLED_END_NAMESPACE
