// SPDX-License-Identifier: BSL-1.0
#pragma once

// synchronized_pool_resource and unsynchronized_pool_resource, replacements for those of std::pmr: the same constructors,
// members and effects, in namespace pooled::compat.
//
//   #include <pooled/compat/pmr.hpp>                              // beside <memory_resource>
//   pooled::compat::synchronized_pool_resource pool;              // was std::pmr::synchronized_pool_resource
//   std::pmr::vector<int> v(&pool);
//
// Blocks come from a pooled::pool, or a local_pool, on memory of the upstream resource, and from upstream itself where the pool does
// not serve. docs/migration/pmr.md lists the differences. A source that is compiled for libpooled does not include the
// implementation, so it compiles about as fast as with the standard's classes.
//
//   allocate ─▶ over largest_required_pool_block, or aligned to more than 16 KiB? ─▶ a piece of upstream
//            └▶ a block of its size class ─▶ from the pool's caches and slabs
//                                         └▶ from a small chunk, where a slab of 64 KiB is too large
//
//   piece        | the caller's bytes | padding | links, bytes, align |       recorded, so that release() finds it
//   small chunk  a piece of a few blocks. Free ones are linked through their first word
//
// A slab is too large for an upstream that has less, such as a buffer on the stack, and for pool_options::max_blocks_per_chunk below
// its blocks. A class that took small chunks once takes no new slabs until release(). Only then must a deallocation find out where
// its block is from; it looks into the page map.
// O(1), besides what upstream takes; the first use of a small chunk: O(its blocks).

#include "pooled/base/algorithm.hpp"
#include "pooled/base/bits.hpp"
#include "pooled/base/intrusive_list.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/config.hpp"
#include "pooled/options.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/fast_path.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <type_traits>

POOLED_BEGIN_NAMESPACE
namespace compat {

namespace details {

template <detail::sharing Sharing>
class resource_pool;

template <detail::sharing Sharing>
class pool_resource : public std::pmr::memory_resource {
public:
    // Throws std::bad_alloc when memory for the pool's own structures, or pool ids (65536 at once), run out. Takes no memory from
    // upstream yet, which must outlive the resource.
    pool_resource(std::pmr::pool_options const& options, std::pmr::memory_resource* upstream);
    pool_resource() : pool_resource(std::pmr::pool_options(), std::pmr::get_default_resource()) {}
    explicit pool_resource(std::pmr::memory_resource* upstream)
        : pool_resource(std::pmr::pool_options(), upstream) {}
    explicit pool_resource(std::pmr::pool_options const& options)
        : pool_resource(options, std::pmr::get_default_resource()) {}
    pool_resource(pool_resource const&) = delete;
    pool_resource& operator=(pool_resource const&) = delete;
    ~pool_resource() override;

    // Returns all memory to upstream, including that of blocks in use. O(memory / 64 KiB + requests that upstream serves directly).
    void release();

    [[nodiscard]] std::pmr::memory_resource* upstream_resource() const noexcept;

    // The options in effect: zeros and values that are too large are replaced by the limits, and largest_required_pool_block is
    // rounded up to the size of a block.
    [[nodiscard]] std::pmr::pool_options options() const noexcept;

protected:
    void* do_allocate(std::size_t bytes, std::size_t align) override;
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override;
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

private:
    resource_pool<Sharing>& m_pool;
};

}  // namespace details

// Any thread may call.
class synchronized_pool_resource : public details::pool_resource<detail::sharing::shared> {
public:
    using pool_resource::pool_resource;
};

// For one thread at a time.
class unsynchronized_pool_resource : public details::pool_resource<detail::sharing::local> {
public:
    using pool_resource::pool_resource;
};

namespace details {

using detail::class_index;
using detail::k_geometry;
using detail::k_slab_bytes;

// As a memory_resource, it is the upstream of its pool, which records its chunks itself: the upstream resource with a lock. As in the
// standard libraries, one thread at a time calls that, so a monotonic_buffer_resource can serve a synchronized pool.
template <detail::sharing Sharing>
class resource_pool final : public std::pmr::memory_resource {
    static constexpr bool k_is_shared = Sharing == detail::sharing::shared;
    // The most blocks of the smallest class that a pool ever asks upstream for at once.
    static constexpr std::size_t k_most_blocks = detail::k_default_chunk_bytes / detail::k_min_block_bytes;
    static constexpr std::size_t k_first_bytes = 1024;  // of a class's first small chunk

public:
    resource_pool(std::pmr::pool_options const& options, std::pmr::memory_resource* upstream)
        : m_options(effective(options)),
          m_upstream(upstream),
          m_pool({.name = k_is_shared ? "synchronized_pool_resource" : "unsynchronized_pool_resource",
                  .chunk_bytes = chunk_bytes_for(m_options.max_blocks_per_chunk),
                  .upstream = this,
                  .release_unused_after = std::chrono::milliseconds::zero()}) {
        forget_small_chunks();
    }
    ~resource_pool() override { release(); }

    // As of the standard libraries' resources, the constructor calls no operator new of the program. Out of line: GCC warns where it
    // inlines one of them alone.
    POOLED_NOINLINE static void* operator new(std::size_t bytes) {
        if (void* const p = std::malloc(bytes)) return p;
        POOLED_THROW(std::bad_alloc());
    }
    POOLED_NOINLINE static void operator delete(void* p) noexcept { std::free(p); }

    [[nodiscard]] std::pmr::memory_resource* upstream() const noexcept { return m_upstream; }
    [[nodiscard]] std::pmr::pool_options const& options() const noexcept { return m_options; }

    void release() noexcept {
        core().discard();
        detail::scoped_lock const lock(m_mutex);
        forget_small_chunks();
        while (piece* const one = m_pieces.first())
            give_back(*one);
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE void* take(std::size_t bytes, std::size_t align) {
        class_index const c = detail::class_for(bytes, align);
        if (is_direct(bytes, c)) [[unlikely]]
            return take_direct(bytes, align);
        if (!has_small_chunks(c)) [[likely]] {
            POOLED_TRY { return detail::allocate_or_throw(place(), c, bytes, align); }
            POOLED_CATCH(std::bad_alloc const&) {}  // upstream refused a slab
        }
        return take_small(c, bytes, align);
    }
    POOLED_ALWAYS_INLINE void put(void* p, std::size_t bytes, std::size_t align) noexcept {
        class_index const c = detail::class_for(bytes, align);
        if (is_direct(bytes, c)) [[unlikely]]
            return put_direct(p, bytes);
        if (has_small_chunks(c)) [[unlikely]] {
            if (!m_pool.owns(p)) return put_small(c, p);
            m_returned[c].fetch_add(1, std::memory_order_relaxed);
        }
        detail::deallocate(place(), c, p, bytes);
    }

private:
    struct piece {
        detail::list_links<piece> links;
        std::size_t bytes;
        std::size_t align;
    };
    struct free_block {
        free_block* next;
    };
    struct small_class {
        free_block* first;
        std::size_t next_count;  // of blocks, in the next small chunk
    };

    [[nodiscard]] static std::pmr::pool_options effective(std::pmr::pool_options options) noexcept {
        auto const limited = [](std::size_t value, std::size_t most) {
            return value == 0 ? most : detail::smaller(value, most);
        };
        options.max_blocks_per_chunk = limited(options.max_blocks_per_chunk, k_most_blocks);
        class_index const c =
            detail::class_for(limited(options.largest_required_pool_block, detail::k_max_block_bytes), 1);
        options.largest_required_pool_block =
            c >= detail::k_first_large ? detail::k_max_block_bytes : k_geometry[c].block_bytes;
        return options;
    }
    // Whole slabs; 0 lets chunks double up to the limit.
    [[nodiscard]] static std::size_t chunk_bytes_for(std::size_t most_blocks) noexcept {
        if (most_blocks == k_most_blocks) return 0;
        std::size_t const bytes = most_blocks * detail::k_min_block_bytes;
        return detail::larger(detail::round_down(bytes, k_slab_bytes), k_slab_bytes);
    }

    [[nodiscard]] detail::pool_core& core() const noexcept { return detail::pool_access::core(m_pool); }
    [[nodiscard]] POOLED_ALWAYS_INLINE detail::in_pool<Sharing> place() const noexcept {
        return detail::in_pool<Sharing>(core());
    }
    [[nodiscard]] POOLED_ALWAYS_INLINE bool is_direct(std::size_t bytes, class_index c) const noexcept {
        return bytes > m_options.largest_required_pool_block || c >= detail::k_first_large;
    }
    // A thread that deallocates a block got it from the thread that set this, so a relaxed load sees it.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool has_small_chunks(class_index c) const noexcept {
        return m_has_small_chunks[c].load(std::memory_order_relaxed);
    }
    [[nodiscard]] static std::size_t blocks_of_slab(class_index c) noexcept {
        return k_slab_bytes / k_geometry[c].block_bytes;
    }

    // For a class that has small chunks, or when upstream refused a slab: no block of the class was free in the pool then. Those that were
    // returned since are used first.
    [[nodiscard]] POOLED_NOINLINE void* take_small(class_index c, std::size_t bytes, std::size_t align) {
        std::uint32_t returned = m_returned[c].load(std::memory_order_relaxed);
        while (returned != 0)
            if (m_returned[c].compare_exchange_weak(returned, returned - 1, std::memory_order_relaxed)) {
                POOLED_TRY { return detail::allocate_or_throw(place(), c, bytes, align); }
                POOLED_CATCH(std::bad_alloc const&) {}  // another thread was faster
                break;
            }
        detail::scoped_lock const lock(m_mutex);
        small_class& mine = m_small[c];
        if (mine.first == nullptr) add_small_chunk(c);
        free_block* const first = mine.first;
        mine.first = first->next;
        return first;
    }
    POOLED_NOINLINE void put_small(class_index c, void* p) noexcept {
        detail::scoped_lock const lock(m_mutex);
        push(c, p);
    }
    [[nodiscard]] POOLED_NOINLINE void* take_direct(std::size_t bytes, std::size_t align) {
        detail::scoped_lock const lock(m_mutex);
        return take_piece(bytes, align);
    }
    POOLED_NOINLINE void put_direct(void* p, std::size_t bytes) noexcept {
        detail::scoped_lock const lock(m_mutex);
        give_back(*std::launder(reinterpret_cast<piece*>(static_cast<std::byte*>(p) + record_offset(bytes))));
    }

    // All of these require the lock.

    // Each chunk of a class has twice as many blocks as the one before, and fewer when upstream refuses. Throws what upstream throws
    // when asked for a single block.
    void add_small_chunk(class_index c) {
        small_class& mine = m_small[c];
        for (std::size_t count = mine.next_count;; count /= 2) {
            POOLED_TRY {
                std::size_t const block_bytes = k_geometry[c].block_bytes;
                void* const chunk = take_piece(count * block_bytes, k_geometry[c].align);
                mine.next_count = limited_count(c, 2 * count);
                m_has_small_chunks[c].store(true, std::memory_order_relaxed);
                for (std::size_t i = count; i-- != 0;)
                    push(c, static_cast<std::byte*>(chunk) + i * block_bytes);
                return;
            }
            POOLED_CATCH(std::bad_alloc const&) {
                if (count == 1) POOLED_RETHROW;
            }
        }
    }
    [[nodiscard]] std::size_t limited_count(class_index c, std::size_t count) const noexcept {
        return detail::clamp<std::size_t>(count, 1,
                                          detail::smaller(m_options.max_blocks_per_chunk, blocks_of_slab(c)));
    }
    void push(class_index c, void* p) noexcept { m_small[c].first = ::new (p) free_block{m_small[c].first}; }
    void forget_small_chunks() noexcept {
        for (class_index c = 0; c != m_small.size(); ++c) {
            m_small[c].first = nullptr;
            m_returned[c].store(0, std::memory_order_relaxed);
            m_small[c].next_count = limited_count(c, k_first_bytes / k_geometry[c].block_bytes);
            m_has_small_chunks[c].store(blocks_of_slab(c) > m_options.max_blocks_per_chunk,
                                        std::memory_order_relaxed);
        }
    }

    [[nodiscard]] static constexpr std::size_t record_offset(std::size_t bytes) noexcept {
        return detail::round_down(detail::saturating_add(bytes, alignof(piece) - 1), alignof(piece));
    }
    // A size beyond the address space is requested, too: the standard lets a pool resource throw only what upstream throws.
    [[nodiscard]] void* take_piece(std::size_t bytes, std::size_t align) {
        std::size_t const record_at = record_offset(bytes);
        std::size_t all = detail::saturating_add(record_at, sizeof(piece));
        bool const is_beyond = all > detail::k_size_max / 2;
        // As libstdc++'s pools ask: no upstream can grant the largest alignment, and many would grant a size that wraps when rounded up.
        if (is_beyond) all = detail::k_size_max;
        align = is_beyond ? std::bit_floor(all) : detail::larger(align, alignof(piece));
        void* const p = m_upstream->allocate(all, align);
        if (is_beyond) {
            m_upstream->deallocate(p, all, align);
            POOLED_THROW_OR(std::bad_alloc(), nullptr);
        }
        m_pieces.push_front(*::new (static_cast<std::byte*>(p) + record_at) piece{{}, bytes, align});
        return p;
    }
    void give_back(piece& one) noexcept {
        m_pieces.remove(one);
        std::size_t const record_at = record_offset(one.bytes);
        m_upstream->deallocate(reinterpret_cast<std::byte*>(&one) - record_at, record_at + sizeof(piece),
                               one.align);
    }

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        detail::scoped_lock const lock(m_mutex);
        return m_upstream->allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        detail::scoped_lock const lock(m_mutex);
        m_upstream->deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }

    std::pmr::pool_options m_options;
    std::pmr::memory_resource* m_upstream;
    detail::mutex m_mutex{!k_is_shared};
    detail::intrusive_list<piece> m_pieces;
    std::array<std::atomic<bool>, detail::k_first_large> m_has_small_chunks;
    std::array<std::atomic<std::uint32_t>, detail::k_first_large>
        m_returned;  // to the pool since then, and not taken
    std::array<small_class, detail::k_first_large> m_small;
    std::conditional_t<k_is_shared, pooled::pool, pooled::local_pool> m_pool;
};

template <detail::sharing Sharing>
pool_resource<Sharing>::pool_resource(std::pmr::pool_options const& options,
                                      std::pmr::memory_resource* upstream)
    : m_pool(*new resource_pool<Sharing>(options, upstream)) {}
template <detail::sharing Sharing>
pool_resource<Sharing>::~pool_resource() {
    delete &m_pool;
}
template <detail::sharing Sharing>
void pool_resource<Sharing>::release() {
    m_pool.release();
}
template <detail::sharing Sharing>
std::pmr::memory_resource* pool_resource<Sharing>::upstream_resource() const noexcept {
    return m_pool.upstream();
}
template <detail::sharing Sharing>
std::pmr::pool_options pool_resource<Sharing>::options() const noexcept {
    return m_pool.options();
}
template <detail::sharing Sharing>
void* pool_resource<Sharing>::do_allocate(std::size_t bytes, std::size_t align) {
    return m_pool.take(bytes, align);
}
template <detail::sharing Sharing>
void pool_resource<Sharing>::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    m_pool.put(p, bytes, align);
}

}  // namespace details

}  // namespace compat
POOLED_END_NAMESPACE
