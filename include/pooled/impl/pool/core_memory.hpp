// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a core does with its memory. A source that uses the compiled library has no need of it, nor of the heap.
//
//   pool_core ─ thread_cache of a local pool ─ pool_memory      one block of the metadata arena

#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/dead_pools.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/pool/memory.hpp"

#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

static_assert(alignof(pool_memory) <= alignof(thread_cache), "it follows a core or a local pool's cache");

#if POOLED_HAS_CODE

inline cache_set& pool_core::caches() noexcept { return m_memory.caches(); }

inline pool_core::pool_core(pool_options const& options, sharing kind, std::uint32_t id, registry& made_by,
                            pool_memory& memory) noexcept
    : m_made_by(made_by),
      m_id(id),
      m_slot(near_slot(id)),
      m_kind(kind),
      m_teardown(options.teardown),
      m_has_upstream(options.upstream != nullptr),
      m_on_exhausted(options.on_exhausted),
      m_memory(memory) {
    std::size_t length = detail::smaller(options.name.size(), m_name.size() - 1);
    // Does not cut within a character, whose further bytes are 10xxxxxx in UTF-8.
    if (length < options.name.size())
        while (length != 0 && (static_cast<unsigned char>(options.name[length]) & 0xc0) == 0x80)
            --length;
    options.name.copy(m_name.data(), length);
}

inline void pool_core::free() noexcept {
    if (pool_extension* const above = extension()) above->on_destroy();
    if (is_local()) local_cache().release();
    std::size_t const bytes = memory_at(m_kind) + sizeof(pool_memory);
    m_memory.~pool_memory();
#if POOLED_CHECKED
    auto const name = m_name;
    this->~pool_core();
    g_dead_pools.on_destroy(this, bytes, name);
#else
    this->~pool_core();
    g_metadata.deallocate(this, bytes);
#endif
}

inline bool pool_core::end_handle() noexcept {
    std::int64_t in_use = 0;
    {
        scoped_lock const lock(caches().mutex());
        m_is_closed.store(true, std::memory_order_relaxed);
#if POOLED_CHECKED
        g_dead_pools.on_close(this);
#endif
        in_use = m_memory.close();
    }
    return counted(-in_use);
}

inline void pool_core::put_large(void* block, thread_cache* cache) noexcept {
    unsigned const count = m_memory.deallocate_large(block, m_id, name(), cache);
    if (count != 0 && counted(count)) destroy();
}

POOLED_CODE pool_stats pool_core::stats() {
    pool_stats sum;
    sum.name = name();
    m_memory.fill(sum);
    return sum;
}

POOLED_CODE bool pool_core::is_valid() { return m_memory.is_valid(); }
POOLED_CODE bool pool_core::may_give(std::size_t bytes) const { return m_memory.from().may_give(bytes); }

POOLED_CODE void pool_core::throw_exhausted(std::size_t bytes) const {
    upstream const& from = m_memory.from();
    POOLED_THROW(exhausted(name(), bytes, from.used(), from.max_bytes()));
}

POOLED_CODE void pool_core::set_extension(pool_extension* one) noexcept {
    scoped_lock const lock(caches().mutex());
    m_extension.store(one, std::memory_order_release);
}
POOLED_CODE bool pool_core::set_extension_if_none(pool_extension& one) noexcept {
    scoped_lock const lock(caches().mutex());
    if (extension() != nullptr) return false;
    m_extension.store(&one, std::memory_order_release);
    return true;
}

inline void pool_core::retire(thread_cache& cache) noexcept {
    if (pool_extension* const above = extension()) above->on_retire(cache);
    caches().retire(cache);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
