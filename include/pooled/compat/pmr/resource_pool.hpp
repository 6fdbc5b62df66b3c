// SPDX-License-Identifier: BSL-1.0
#pragma once

// The implementation of a pool_resource: a pool of this library, and pieces of upstream for requests that the pool does not
// serve. The members of pool_resource are defined at the end.
//
//   allocate ─▶ over largest_required_pool_block, or aligned to more than 16 KiB? ─▶ a piece of upstream
//            └▶ a block of its size class ─▶ from the pool's caches and slabs
//                                         └▶ from small chunks, where a slab is too large: see small_chunks.hpp
//
// A class that took small chunks once sets m_is_small until release(). Only then must a deallocation find out where its block is
// from; it looks into the page map. O(1), but for release(): O(memory / 64 KiB + pieces).

#include "pooled/compat/pmr/pool_resource.hpp"
#include "pooled/compat/pmr/small_chunks.hpp"
#include "pooled/compat/pmr/upstream_memory.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/duration.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/pool.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory_resource>
#include <mutex>
#include <new>
#include <type_traits>

namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail {

template <pooled::detail::sharing Sharing>
class resource_pool {
    static constexpr bool k_is_shared = Sharing == pooled::detail::sharing::shared;
    using class_index = pooled::detail::class_index;

public:
    // Throws as the constructors of pool_resource.
    [[nodiscard]] static resource_pool& create(std::pmr::pool_options const& options,
                                               std::pmr::memory_resource* upstream) {
        void* const memory = pooled::detail::g_metadata.allocate(sizeof(resource_pool));
        POOLED_TRY { return *::new (memory) resource_pool(options, upstream); }
        POOLED_CATCH(...) {
            pooled::detail::g_metadata.deallocate(memory, sizeof(resource_pool));
            POOLED_RETHROW;
        }
    }
    // Returns all memory.
    void destroy() noexcept {
        release();
        this->~resource_pool();
        pooled::detail::g_metadata.deallocate(this, sizeof(resource_pool));
    }
    resource_pool(resource_pool const&) = delete;
    resource_pool& operator=(resource_pool const&) = delete;

    [[nodiscard]] std::pmr::memory_resource* upstream() const noexcept { return m_upstream.upstream(); }
    [[nodiscard]] std::pmr::pool_options const& options() const noexcept { return m_options; }

    // Returns all memory to upstream, including that of blocks in use.
    void release() {
        std::scoped_lock const lock(m_mutex);
        pooled::detail::pool_access::core(m_pool).memory().discard();
        forget_small_chunks();
        m_upstream.release();
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE void* allocate(std::size_t bytes, std::size_t align) {
        class_index const c = pooled::detail::class_for(bytes, align);
        if (is_direct(bytes, c)) [[unlikely]]
            return m_upstream.allocate_piece(bytes, align);
        if (is_small(c)) [[unlikely]]
            return allocate_small(c, bytes, align);
        POOLED_TRY { return pooled::detail::allocate_or_throw(place(), c, bytes, align); }
        POOLED_CATCH(std::bad_alloc const&) { return allocate_small(c, bytes, align); }
    }

    POOLED_ALWAYS_INLINE void deallocate(void* p, std::size_t bytes, std::size_t align) {
        class_index const c = pooled::detail::class_for(bytes, align);
        if (is_direct(bytes, c)) [[unlikely]]
            return m_upstream.deallocate_piece(p, bytes);
        if (is_small(c) && !m_pool.owns(p)) [[unlikely]] {
            std::scoped_lock const lock(m_mutex);
            return m_small.push(c, p);
        }
        pooled::detail::deallocate(place(), c, p, bytes);
    }

private:
    using pool_type = std::conditional_t<k_is_shared, pooled::pool, pooled::local_pool>;

    resource_pool(std::pmr::pool_options const& options, std::pmr::memory_resource* upstream)
        : m_options(effective(options)),
          m_upstream(upstream, k_is_shared),
          m_mutex(k_is_shared),
          m_pool({.name = k_is_shared ? "synchronized_pool_resource" : "unsynchronized_pool_resource",
                  .chunk_bytes = chunk_bytes_for(m_options.max_blocks_per_chunk),
                  .upstream = &m_upstream,
                  .release_unused_after = std::chrono::milliseconds::zero()}) {
        forget_small_chunks();
    }
    ~resource_pool() = default;

    // The most blocks of the smallest class that a pool ever asks upstream for at once.
    static constexpr std::size_t k_most_blocks =
        pooled::detail::k_default_chunk_bytes / pooled::detail::k_min_block_bytes;

    [[nodiscard]] static std::pmr::pool_options effective(std::pmr::pool_options options) noexcept {
        std::size_t const blocks = options.max_blocks_per_chunk;
        options.max_blocks_per_chunk =
            blocks == 0 ? k_most_blocks : pooled::detail::smaller(blocks, k_most_blocks);
        std::size_t const largest = options.largest_required_pool_block;
        class_index const c = pooled::detail::class_for(largest, 1);
        bool const is_pooled = largest != 0 && c != pooled::detail::k_large;
        options.largest_required_pool_block =
            is_pooled ? pooled::detail::k_geometry[c].block_bytes : pooled::detail::k_max_block_bytes;
        return options;
    }
    // Whole slabs; 0 lets chunks double up to the limit.
    [[nodiscard]] static std::size_t chunk_bytes_for(std::size_t most_blocks) noexcept {
        if (most_blocks == k_most_blocks) return 0;
        return pooled::detail::larger(
            pooled::detail::round_down(most_blocks * pooled::detail::k_min_block_bytes, k_slab_bytes),
            k_slab_bytes);
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE bool is_direct(std::size_t bytes, class_index c) const noexcept {
        return bytes > m_options.largest_required_pool_block || c == pooled::detail::k_large;
    }
    // A thread that deallocates a block got it from the thread that set this, so a relaxed load sees it.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool is_small(class_index c) const noexcept {
        return m_is_small[c].load(std::memory_order_relaxed);
    }
    // A slab has more blocks of the class than max_blocks_per_chunk allows.
    [[nodiscard]] bool is_limited(class_index c) const noexcept {
        return k_slab_bytes / pooled::detail::k_geometry[c].block_bytes > m_options.max_blocks_per_chunk;
    }

    // For a class that has small chunks, or when upstream refused a slab. Free blocks of the pool are used first.
    [[nodiscard]] POOLED_NOINLINE void* allocate_small(class_index c, std::size_t bytes, std::size_t align) {
        std::scoped_lock const lock(m_mutex);
        if (void* const p = m_small.pop(c)) return p;
        pooled::detail::pool_core& core = pooled::detail::pool_access::core(m_pool);
        if (!is_limited(c))
            if (void* const p = core.take_free(c, bytes, align)) return p;
        void* const p = m_small.grow(c, m_options.max_blocks_per_chunk, m_upstream);
        m_is_small[c].store(true, std::memory_order_relaxed);
        return p;
    }
    void forget_small_chunks() noexcept {
        m_small.forget();
        for (class_index c = 0; c < pooled::detail::k_class_count; ++c)
            m_is_small[c].store(is_limited(c), std::memory_order_relaxed);
    }

    [[nodiscard]] POOLED_ALWAYS_INLINE pooled::detail::in_pool<Sharing> place() const noexcept {
        return pooled::detail::in_pool<Sharing>(pooled::detail::pool_access::core(m_pool));
    }

    static constexpr std::size_t k_slab_bytes = pooled::detail::k_slab_bytes;

    std::pmr::pool_options m_options;
    upstream_memory m_upstream;
    pooled::detail::optional_mutex m_mutex;  // of m_small, and release()
    pool_type m_pool;
    std::array<std::atomic<bool>, pooled::detail::k_class_count> m_is_small{};
    small_chunks m_small;
};

template <pooled::detail::sharing Sharing>
pool_resource<Sharing>::pool_resource(std::pmr::pool_options const& options,
                                      std::pmr::memory_resource* upstream)
    : m_pool(resource_pool<Sharing>::create(options, upstream)) {}

template <pooled::detail::sharing Sharing>
pool_resource<Sharing>::~pool_resource() {
    m_pool.destroy();
}

template <pooled::detail::sharing Sharing>
void pool_resource<Sharing>::release() {
    m_pool.release();
}

template <pooled::detail::sharing Sharing>
std::pmr::memory_resource* pool_resource<Sharing>::upstream_resource() const noexcept {
    return m_pool.upstream();
}

template <pooled::detail::sharing Sharing>
std::pmr::pool_options pool_resource<Sharing>::options() const noexcept {
    return m_pool.options();
}

template <pooled::detail::sharing Sharing>
void* pool_resource<Sharing>::do_allocate(std::size_t bytes, std::size_t align) {
    return m_pool.allocate(bytes, align);
}

template <pooled::detail::sharing Sharing>
void pool_resource<Sharing>::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    m_pool.deallocate(p, bytes, align);
}

#if defined(POOLED_BUILDS_LIBRARY)
template class pool_resource<pooled::detail::sharing::shared>;
template class pool_resource<pooled::detail::sharing::local>;
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::compat::detail
