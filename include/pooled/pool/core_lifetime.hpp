// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of pool_core that deals with its own life: made, asked how it is, closed, destroyed by the last block that
// comes home.

#include "pooled/base/bits.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/core_caches.hpp"
#include "pooled/pool/core_large.hpp"
#include "pooled/pool/core_memory.hpp"
#include "pooled/pool/registry.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

namespace pooled::detail {

static_assert(sizeof(pool_core) % alignof(thread_cache) == 0, "a local pool's cache follows its core");

inline constexpr std::size_t k_max_chunk_bytes = std::size_t{1} << 40;

// A bounded pool takes its memory in at least sixteen pieces, so that a large block still finds room beside small ones.
[[nodiscard]] constexpr std::size_t default_chunk_bytes(std::size_t max_bytes) noexcept {
    if (max_bytes == 0) return k_default_chunk_bytes;
    return std::clamp(max_bytes / 16, k_granule_bytes, k_default_chunk_bytes);
}

template <std::size_t... Classes>
pool_core::pool_core(pool_options const& options, sharing kind, std::uint32_t id,
                     std::index_sequence<Classes...>) noexcept
    : m_id(id),
      m_slot(near_slot(id)),
      m_kind(kind),
      m_teardown(options.teardown),
      m_slab_bytes(options.max_bytes != 0 && options.max_bytes < k_small_pool_bytes ? k_small_slab_bytes
                                                                                    : k_slab_bytes),
      m_chunk_bytes(
          round_up(options.chunk_bytes != 0 ? options.chunk_bytes : default_chunk_bytes(options.max_bytes),
                   m_slab_bytes)),
      m_mutex(kind == sharing::shared),
      m_upstream(options.upstream, options.max_bytes, options.huge_pages),
      m_central{((void)Classes, central(kind == sharing::shared))...} {
    std::size_t length = std::min(options.name.size(), m_name.size() - 1);
    // Not in the middle of a character: its further bytes in UTF-8 are 10xxxxxx.
    if (length < options.name.size())
        while (length != 0 && (static_cast<unsigned char>(options.name[length]) & 0xc0) == 0x80)
            --length;
    options.name.copy(m_name.data(), length);
}

inline pool_core& pool_core::create(pool_options const& options, sharing kind, std::uint32_t id) {
    if (options.chunk_bytes > k_max_chunk_bytes)
        throw std::invalid_argument(
            "pooled: pool_options::chunk_bytes is over 1 TiB; 0 takes the default of 2 MiB");
    void* const memory = g_metadata.allocate(bytes_of(kind));
    auto* const core = ::new (memory) pool_core(options, kind, id, std::make_index_sequence<k_class_count>());
    if (kind == sharing::local) {
        auto* const cache = ::new (static_cast<void*>(core + 1)) thread_cache;
        cache->pool_id = id;
        core->link(*cache);
    }
    return *core;
}

inline void pool_core::close() noexcept {
    std::int64_t outside = 0;
    {
        // The registry's too: no thread may end with one of these caches now.
        std::scoped_lock const lock(g_registry.lock(), m_mutex);
        m_closed.store(true, std::memory_order_relaxed);
        m_large_closed = true;
        stop_caches();
        for (class_index c = 0; c < k_class_count; ++c) {
            std::scoped_lock const class_lock(m_central[c].mutex);
            collect_caches(c);
            m_central[c].is_closed = true;
            outside += static_cast<std::int64_t>(m_central[c].outside());
        }
        outside += static_cast<std::int64_t>(m_large_count);
        while (thread_cache* const cache = m_caches) {
            unlink(*cache);
            cache->core = nullptr;
            cache->door.close();
        }
    }
    came_home(-outside);
}

// Counts blocks that come home to a closed pool; close() itself takes away what was out when it looked, so the count
// reaches 0 exactly once. acq_rel: what every thread did to its block happens before the core is destroyed.
inline void pool_core::came_home(std::int64_t count) noexcept {
    if (m_remaining.fetch_add(count, std::memory_order_acq_rel) + count == 0) destroy();
}

// Nobody can reach the core but the caller: no block is out, so none can come home.
inline void pool_core::destroy() noexcept {
    while (m_chunks != nullptr)
        release_chunk(*m_chunks);
    release_large();
    g_registry.remove(*this);  // after the address map has forgotten it: a new pool may have the id now
    if (pool_extension* const e = extension()) e->on_destroy();
    std::size_t const bytes = bytes_of(m_kind);
    this->~pool_core();
    g_metadata.deallocate(this, bytes);
}

inline pool_stats pool_core::stats() {
    pool_stats sum;
    sum.name = name();
    std::scoped_lock const lock(m_mutex);
    for (class_index c = 0; c < k_class_count; ++c) {
        class_geometry const g = k_geometry[c];
        central& stock = m_central[c];
        size_class_stats& one = sum.classes[c];
        one.block_bytes = g.block_bytes;
        std::scoped_lock const class_lock(stock.mutex);
        std::uint64_t run_left = 0;
        one.remote_frees = stock.retired_remote_frees();
        for (thread_cache const* cache = m_caches; cache != nullptr; cache = cache->next) {
            one.cached += cache->classes[c].held(g);
            run_left += cache->classes[c].run_left();
            one.remote_frees += cache->classes[c].net_frees(g);
        }
        one.in_use = stock.outside() - std::min(stock.outside(), one.cached);
        one.free = stock.free(g);
        one.high_water = stock.note_high_water(run_left);
        one.slab_bytes = stock.slab_bytes();
        one.magazines_exchanged = stock.exchanges();

        sum.in_use += one.in_use;
        sum.free += one.free;
        sum.cached += one.cached;
        sum.high_water += one.high_water;
        sum.magazines_exchanged += one.magazines_exchanged;
        sum.remote_frees += one.remote_frees;
        sum.bytes_in_use += one.in_use * g.block_bytes;
    }
    sum.large_in_use = m_large_count;
    sum.large_bytes = m_large_bytes;
    sum.in_use += m_large_count;
    sum.bytes_in_use += m_large_bytes;
    sum.upstream_bytes = m_upstream.used();
    sum.upstream_calls = m_upstream.calls();
    sum.max_bytes = m_upstream.is_bounded() ? m_upstream.max_bytes() : 0;
    for (thread_cache const* cache = m_caches; cache != nullptr; cache = cache->next)
        ++sum.threads;
    return sum;
}

inline bool pool_core::is_valid() {
    std::scoped_lock const lock(m_mutex);
    stop_caches();
    bool valid = true;
    std::uint64_t slab_bytes = 0;
    for (class_index c = 0; c < k_class_count; ++c) {
        std::scoped_lock const class_lock(m_central[c].mutex);
        valid = valid && m_central[c].is_valid(k_geometry[c]) && held_in_caches(c) <= m_central[c].outside();
        for (thread_cache const* cache = m_caches; cache != nullptr; cache = cache->next)
            valid = valid && cache->classes[c].is_valid(k_geometry[c]);
        slab_bytes += m_central[c].slab_bytes();
    }
    resume_caches();
    for (slab const* s = m_free_slabs; s != nullptr; s = s->next)
        slab_bytes += s->bytes;
    std::uint64_t chunk_bytes = 0;
    for (chunk const* c = m_chunks; c != nullptr; c = c->next)
        chunk_bytes += c->bytes;
    return valid && slab_bytes == chunk_bytes && chunk_bytes <= m_upstream.used() &&
           m_upstream.used() <= m_upstream.max_bytes();
}

POOLED_NOINLINE inline void pool_core::throw_exhausted(std::size_t bytes) const {
    throw exhausted(name(), bytes, m_upstream.used(), m_upstream.max_bytes());
}

}  // namespace pooled::detail
