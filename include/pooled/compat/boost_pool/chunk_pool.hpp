// SPDX-License-Identifier: BSL-1.0
#pragma once

// What all pools of boost_pool.hpp are made of: one of our pools on memory of a UserAllocator, which hands out chunks of
// a given size, alone and n in a row, and can take all of them back at once.
//
// Pool is pooled::pool, for any thread, or pooled::local_pool, for one thread at a time. purge_memory() and the
// destructor are for one thread, with no other working on the pool. O(1), but release_memory() and purge_memory(): O(chunks).

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/compat/boost_pool/user_allocator.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/fast_path.hpp"
#include "pooled/pool/pool.hpp"
#include "pooled/pool/stats.hpp"

#include <algorithm>
#include <cstddef>

namespace pooled::compat::detail {

// Every block beyond the largest size class gets this alignment, so that purge_memory() knows where in its region it
// begins. Regions are whole granules: it seldom costs anything.
inline constexpr std::size_t k_large_align = pooled::detail::k_max_class_align;

// A size is a multiple of its type's alignment, and a chunk is known by its size alone: this is what any type of that size
// needs, up to a cache line, which costs no memory. At least a pointer's: Boost promises no less.
[[nodiscard]] constexpr std::size_t chunk_align(std::size_t chunk_bytes) noexcept {
    return std::clamp<std::size_t>(chunk_bytes & (~chunk_bytes + 1), alignof(void*),
                                   pooled::detail::k_cache_line);
}

template <class UserAllocator, class Pool>
class chunk_pool {
public:
    // Throws std::bad_alloc when there is no memory for the pool's own books. Takes none for chunks yet.
    chunk_pool(std::size_t chunk_bytes, std::size_t next_size, std::size_t max_size)
        : m_upstream(growth_for(chunk_bytes, next_size, max_size)),
          m_pool({.name = "boost_pool", .chunk_bytes = k_slab_bytes, .upstream = &m_upstream}) {}
    ~chunk_pool() { purge_memory(); }
    chunk_pool(chunk_pool const&) = delete;
    chunk_pool& operator=(chunk_pool const&) = delete;

    // Null when the user's allocator has no more.
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t align) {
        return m_pool.try_allocate(bytes, align_for(bytes, align));
    }

    // Requires a result of allocate with the same arguments; null is ignored.
    void deallocate(void* p, std::size_t bytes, std::size_t align) noexcept {
        m_pool.deallocate(p, bytes, align_for(bytes, align));
    }

    [[nodiscard]] bool is_from(void const* p) const noexcept { return m_pool.owns(p); }
    [[nodiscard]] pooled::detail::pool_core& core() const noexcept { return m_pool.core(); }

    // Both return whether the user's allocator got anything back. The first gives it what has no chunk in use, the second
    // all there is: chunks in use are then gone, too.
    bool release_memory() {
        m_pool.trim();
        return m_upstream.release();
    }
    bool purge_memory() {
        if (m_pool.stats().in_use != 0) take_back_all();
        return release_memory();
    }

    [[nodiscard]] user_upstream<UserAllocator>& upstream() noexcept { return m_upstream; }
    [[nodiscard]] user_upstream<UserAllocator> const& upstream() const noexcept { return m_upstream; }

private:
    [[nodiscard]] static constexpr std::size_t align_for(std::size_t bytes, std::size_t align) noexcept {
        return pooled::detail::class_for(bytes, align) == pooled::detail::k_large
                   ? std::max(align, k_large_align)
                   : align;
    }

    // A piece is what the pool asks for at a time: a slab of chunks, or a region for one chunk that is larger.
    [[nodiscard]] static typename user_upstream<UserAllocator>::growth
    growth_for(std::size_t chunk_bytes, std::size_t next_size, std::size_t max_size) noexcept {
        if (pooled::detail::class_for(chunk_bytes, 1) != pooled::detail::k_large)
            return {k_slab_bytes, k_slab_bytes / std::max<std::size_t>(chunk_bytes, 1), next_size, max_size};
        std::size_t const region = pooled::detail::saturating_add(chunk_bytes, k_large_align);
        return {region > k_size_max / 2 ? region : pooled::detail::round_up(region, k_granule_bytes), 1,
                next_size, max_size};
    }

    // Which chunks are in use is written nowhere. So all that are free are taken, in whichever thread's cache they lie;
    // then every chunk is in use, and every one is given back.
    void take_back_all() {
        m_upstream.refuse(true);
        pool_stats const stats = m_pool.stats();
        for (size_class_stats const& c : stats.classes)
            if (c.slab_bytes != 0)
                while (m_pool.try_allocate(c.block_bytes - pooled::detail::k_guard_bytes, 1) != nullptr) {}
        m_upstream.refuse(false);

        m_upstream.for_each_piece([this](std::byte* base, std::size_t bytes) {
            for (std::size_t at = 0; at < bytes;) {
                pooled::detail::map_entry const entry = pooled::detail::g_page_map.find(base + at);
                if (entry.empty() || entry.pool_id() != core().id()) return;
                if (entry.is_idle()) return;
                if (entry.is_large()) return pooled::detail::deallocate_found(entry.large_at()->payload);
                at += deallocate_slab(*entry.slab_at());
            }
        });
    }

    // Requires that all of its blocks are in use, or that it has no class. Returns its size.
    static std::size_t deallocate_slab(pooled::detail::slab const& s) noexcept {
        std::size_t const bytes = s.bytes;
        std::byte* const base = s.base;
        std::size_t const block_bytes =
            s.total != 0 ? pooled::detail::k_geometry[s.size_class].block_bytes : 0;
        for (std::size_t i = 0, total = s.total; i < total; ++i)
            pooled::detail::deallocate_found(base + i * block_bytes);
        return bytes;
    }

    user_upstream<UserAllocator> m_upstream;
    Pool m_pool;
};

}  // namespace pooled::compat::detail
