// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a pool that outlives its handle: a pool that is destroyed while blocks are in use is closed, and its core is
// destroyed when the last of them is returned.
//
// The slow operations are virtual: the copy of the library that made a core (impl/plugins/copies.hpp) serves it, with its page map, its
// registry and its threads' caches. impl/pool/concrete_core.hpp has them.
//
//   pool_core ─ thread_cache of a local pool ─ pool_memory      one block of the metadata arena
//
// Invariant: a closed core has no caches; remaining = blocks in use, once closed.
// Any thread may call; a core with a local cache is for one thread at a time.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/options.hpp"
#include "pooled/stats.hpp"
#if POOLED_HAS_CODE
#include "pooled/detail/algorithm.hpp"
#include "pooled/error.hpp"
#include "pooled/impl/instrument/checked_memory.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/pool/memory.hpp"
#endif

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Which threads a pool serves.
enum class sharing : bool { local, shared };

class registry;
class cache_set;
class pool_memory;

class [[gnu::visibility("default")]] alignas(thread_cache) pool_core : public std::pmr::memory_resource {
public:
    // Throws std::bad_alloc, and std::invalid_argument for options that make no sense.
    [[nodiscard]] static pool_core& create(pool_options options, sharing kind, std::uint32_t id,
                                           registry& made_by);

    // A block for a request of class `c`, which is that of class_for(), from the calling thread's cache or, if that has none, from the
    // pool's memory. Null when the bound is reached; throws what upstream throws.
    [[nodiscard]] virtual void* allocate_block(class_index c, std::size_t bytes, std::size_t align) = 0;
    // Only if a free block of the class is there, and no slab must be taken; otherwise null. Not k_large.
    [[nodiscard]] virtual void* take_free(class_index c, std::size_t bytes, std::size_t align) = 0;
    // What those gave. `bytes`: the size with which it was allocated, or 0: not known.
    virtual void deallocate_block(class_index c, void* p, std::size_t bytes) noexcept = 0;
    // A block that the caller has verified, of a class below k_first_large.
    virtual void put(class_index c, void* block) noexcept = 0;
    // `count` objects of one type, each of them a block of class `a` or `b`, which are those of any_class_for(); `large`: the
    // request, if one of them is large. False when the bound does not allow it; throws what upstream throws.
    [[nodiscard]] virtual bool reserve(class_index a, class_index b, std::size_t count,
                                       large_shape large) = 0;
    virtual std::size_t trim() noexcept = 0;
    [[nodiscard]] virtual bool owns(void const* p) const noexcept = 0;
    // The pool's handle is destroyed: no thread allocates from it any more. Destroys the core if no block is in use.
    virtual void close() noexcept = 0;
    // Requires a closed core without a block in use.
    virtual void destroy() noexcept = 0;

    [[nodiscard]] registry& made_by() const noexcept { return m_made_by; }
    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return m_slot; }
    [[nodiscard]] bool is_local() const noexcept { return m_kind == sharing::local; }
    [[nodiscard]] bool is_incremental() const noexcept { return m_teardown == pooled::teardown::incremental; }
    [[nodiscard]] bool is_immediate() const noexcept { return m_teardown == pooled::teardown::immediate; }
    [[nodiscard]] bool has_upstream() const noexcept { return m_has_upstream; }
    [[nodiscard]] char const* name() const noexcept { return m_name.data(); }
    [[nodiscard]] exhaustion_hook const& on_exhausted() const noexcept { return m_on_exhausted; }
    [[nodiscard]] pool_memory& memory() noexcept { return m_memory; }
    [[nodiscard]] cache_set& caches() noexcept;
    // A hint, except for a thread that holds the lock of the caches.
    [[nodiscard]] bool is_closed() const noexcept { return m_is_closed.load(std::memory_order_relaxed); }
    // Requires a local pool: its one cache lies right after the core, one load less on the way to it.
    [[nodiscard]] thread_cache& local_cache() noexcept {
        return *std::launder(
            reinterpret_cast<thread_cache*>(reinterpret_cast<std::byte*>(this) + sizeof(pool_core)));
    }

    // Called by close(). Blocks in use keep the core alive; true when there are none: the caller must destroy it. Requires the
    // registry's lock.
    [[nodiscard]] bool end_handle() noexcept;
    // Called by destroy(), when no thread can reach the core.
    void free() noexcept;
    // A block that returned and that no thread's cache takes, of the class that its slab has. `cache`: the calling thread's, or null.
    void deallocate_past_cache(class_index c, void* block, thread_cache* cache) noexcept;

    [[nodiscard]] POOLED_API pool_stats stats();
    // Checks every structure, with other threads kept out.
    [[nodiscard]] POOLED_API bool is_valid();
    // As that of upstream.
    [[nodiscard]] POOLED_API bool may_give(std::size_t bytes) const;
    [[noreturn]] POOLED_API void throw_exhausted(std::size_t bytes) const;

    // acquire: pairs with the release below; the constructed extension is seen.
    [[nodiscard]] pool_extension* extension() const noexcept {
        return m_extension.load(std::memory_order_acquire);
    }
    // False when the pool has another extension than `old`. Takes the lock of the caches, so that it does not change during a fork.
    POOLED_API bool exchange_extension(pool_extension* old, pool_extension* one) noexcept;

    // Called when the owner of the cache has ended, or does not exist in this process. Requires the lock of the caches.
    void retire(thread_cache& cache) noexcept;

protected:
    pool_core(pool_options const& options, sharing kind, std::uint32_t id, registry& made_by,
              pool_memory& memory) noexcept;
    ~pool_core() override = default;
    pool_core(pool_core const&) = delete;
    pool_core& operator=(pool_core const&) = delete;

    // Counts blocks that are returned to a closed pool; close() itself subtracts what was in use when it looked, so the
    // count reaches 0 exactly once. acq_rel: what every thread did to its block happens before the core is destroyed.
    [[nodiscard]] bool counted(std::int64_t count) noexcept {
        return m_remaining.fetch_add(count, std::memory_order_acq_rel) + count == 0;
    }

    // A local pool's cache lies right after its core.
    [[nodiscard]] static constexpr std::size_t memory_at(sharing kind) noexcept {
        return sizeof(pool_core) + (kind == sharing::local ? sizeof(thread_cache) : 0);
    }

private:
    registry& m_made_by;
    std::uint32_t m_id;
    std::uint32_t m_slot;
    sharing m_kind;
    pooled::teardown m_teardown;
    bool m_has_upstream;
    std_atomics::atomic<bool> m_is_closed{false};
    std_atomics::atomic<pool_extension*> m_extension{nullptr};
    std_atomics::atomic<std::int64_t> m_remaining{0};  // blocks in use, once closed
    std::array<char, 48> m_name{};
    exhaustion_hook m_on_exhausted;
    pool_memory& m_memory;  // after the core and the local cache
};

#if POOLED_HAS_CODE

static_assert(alignof(pool_memory) <= alignof(thread_cache), "it follows a core or a local pool's cache");

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
    auto const name = m_name;
    this->~pool_core();
    g_dead_pools.free(this, bytes, name);
}

inline bool pool_core::end_handle() noexcept {
    std::int64_t in_use = 0;
    {
        scoped_lock const lock(caches());
        m_is_closed.store(true, std::memory_order_relaxed);
        g_dead_pools.close(this);
        in_use = m_memory.close();
    }
    return counted(-in_use);
}

inline void pool_core::deallocate_past_cache(class_index c, void* block, thread_cache* cache) noexcept {
    unsigned const count = m_memory.deallocate(c, cache, block);
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

POOLED_CODE bool pool_core::exchange_extension(pool_extension* old, pool_extension* one) noexcept {
    scoped_lock const lock(caches());
    if (extension() != old) return false;
    m_extension.store(one, std::memory_order_release);
    return true;
}

inline void pool_core::retire(thread_cache& cache) noexcept {
    if (pool_extension* const above = extension()) above->on_retire(cache);
    caches().retire(cache);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
