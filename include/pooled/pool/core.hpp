// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a pool that outlives its handle: a pool that is destroyed while blocks are in use is closed, and its core is
// destroyed when the last of them is returned.
//
// Only code of the copy of the library that made a core works on it (os/copies.hpp): others, with a reference to the pool, call
// in_copy().
//
// Invariant: a closed core has no caches; remaining = blocks in use, once closed.
// Any thread may call; a core with a local cache is for one thread at a time.

#include "pooled/base/algorithm.hpp"
#include "pooled/base/atomics.hpp"
#include "pooled/base/error.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/os/environment.hpp"
#include "pooled/os/metadata.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/pool/dead_pools.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/memory.hpp"
#include "pooled/pool/options.hpp"
#include "pooled/pool/stats.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <stdexcept>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Which threads a pool serves.
enum class sharing : bool { local, shared };

inline constexpr std::size_t k_max_chunk_bytes = std::size_t{1} << 40;

class registry;

class pool_core;

// What other copies of the library call for a core: see pool/in_copy.hpp.
struct core_functions {
    void* (*allocate)(pool_core& core, class_index c, std::size_t bytes, std::size_t align);
    void (*deallocate)(pool_core& core, class_index c, void* p, std::size_t bytes) noexcept;
    void* (*allocate_large)(pool_core& core, std::size_t bytes, std::size_t align);
    void (*deallocate_large)(pool_core& core, void* p, std::size_t bytes) noexcept;
    bool (*reserve)(pool_core& core, class_index a, class_index b, std::size_t count,
                    pool_memory::large_shape large);
    std::size_t (*trim)(pool_core& core) noexcept;
    void (*close)(pool_core& core) noexcept;
    void (*destroy)(pool_core& core) noexcept;
    bool (*owns)(pool_core const& core, void const* p) noexcept;
};

// The core as a memory resource; two of the functions are in pool/fast_path.hpp. Functions of a template are compiled only
// where a pool is made. Those of a class would be compiled in every source that sees them, and the whole heap with them.
template <class Core>
class core_resource : public std::pmr::memory_resource {
    friend Core;
    core_resource() = default;

    void* do_allocate(std::size_t bytes, std::size_t align) override;
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override;
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};

class pool_core final : public core_resource<pool_core> {
public:
    // Throws std::bad_alloc, and std::invalid_argument for options that make no sense.
    [[nodiscard]] static pool_core& create(pool_options options, sharing kind, std::uint32_t id,
                                           registry& made_by, core_functions const& functions) {
        options.huge_pages = detail::allows_huge_pages() && options.huge_pages;
        if (options.chunk_bytes > k_max_chunk_bytes)
            POOLED_THROW(std::invalid_argument(
                "pooled: pool_options::chunk_bytes is over 1 TiB; 0 takes the default of 2 MiB"));
        void* const memory = g_metadata.allocate(bytes_of(kind));
#if POOLED_CHECKED
        if (!g_dead_pools.on_open(memory)) {
            g_metadata.deallocate(memory, bytes_of(kind));
            POOLED_THROW(std::bad_alloc());
        }
#endif
        auto* const core = ::new (memory) pool_core(options, kind, id, made_by, functions);
        if (kind == sharing::local) {
            auto* const cache = ::new (static_cast<void*>(core + 1)) thread_cache;
            cache->pool_id = id;
            core->caches().link(*cache);
        }
        return *core;
    }
    // Requires that no block is in use and that no thread can reach the core.
    void destroy() noexcept {
        if (pool_extension* const above = extension()) above->on_destroy();
        if (is_local()) local_cache().release();
        std::size_t const bytes = bytes_of(m_kind);
#if POOLED_CHECKED
        auto const name = m_name;
        this->~pool_core();
        g_dead_pools.on_destroy(this, bytes, name);
#else
        this->~pool_core();
        g_metadata.deallocate(this, bytes);
#endif
    }

    // Runs the code of the copy that made the core.
    [[nodiscard]] core_functions const& in_copy() const noexcept { return m_functions; }
    [[nodiscard]] registry& made_by() const noexcept { return m_made_by; }
    [[nodiscard]] std::uint32_t id() const noexcept { return m_id; }
    [[nodiscard]] std::uint32_t slot() const noexcept { return m_slot; }
    [[nodiscard]] bool is_local() const noexcept { return m_kind == sharing::local; }
    [[nodiscard]] bool is_incremental() const noexcept { return m_teardown == pooled::teardown::incremental; }
    [[nodiscard]] bool is_immediate() const noexcept { return m_teardown == pooled::teardown::immediate; }
    [[nodiscard]] bool has_upstream() const noexcept { return !m_memory.from().is_system(); }
    [[nodiscard]] char const* name() const noexcept { return m_name.data(); }
    [[nodiscard]] exhaustion_hook const& on_exhausted() const noexcept { return m_on_exhausted; }
    [[nodiscard]] pool_memory& memory() noexcept { return m_memory; }
    [[nodiscard]] cache_set& caches() noexcept { return m_memory.caches(); }
    // A hint, except for a thread that holds the lock of the caches.
    [[nodiscard]] bool is_closed() const noexcept { return m_is_closed.load(std::memory_order_relaxed); }
    // Requires a local pool: its one cache lies right behind the core, one load less on the way to it.
    [[nodiscard]] thread_cache& local_cache() noexcept {
        return *std::launder(reinterpret_cast<thread_cache*>(this + 1));
    }

    // True when that was the last block of a closed pool: the caller must destroy the core.
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept {
        return !m_memory.deallocate(c, cache, block) && counted(1);
    }
    [[nodiscard]] bool deallocate_large(void* p, thread_cache* cache) noexcept {
        return !m_memory.deallocate_large(p, m_id, name(), cache) && counted(1);
    }

    // Called when the handle is destroyed. Blocks in use keep the core alive; true when there are none: the caller must destroy
    // it. Requires the registry's lock.
    [[nodiscard]] bool close() noexcept {
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

    [[nodiscard]] POOLED_API pool_stats stats();
    [[noreturn]] POOLED_API void throw_exhausted(std::size_t bytes) const;

    // acquire: pairs with the releases below; the constructed extension is seen.
    [[nodiscard]] pool_extension* extension() const noexcept {
        return m_extension.load(std::memory_order_acquire);
    }
    // Both take the lock of the caches, so that the extension does not change during a fork.
    void set_extension(pool_extension* one) noexcept {
        scoped_lock const lock(caches().mutex());
        m_extension.store(one, std::memory_order_release);
    }
    // False when the pool has an extension already.
    [[nodiscard]] bool set_extension_if_none(pool_extension& one) noexcept {
        scoped_lock const lock(caches().mutex());
        if (extension() != nullptr) return false;
        m_extension.store(&one, std::memory_order_release);
        return true;
    }

    // Called when the owner of the cache has ended, or does not exist in this process. Requires the lock of the caches.
    void retire(thread_cache& cache) noexcept {
        if (pool_extension* const above = extension()) above->on_retire(cache);
        caches().retire(cache);
    }

private:
    pool_core(pool_options const& options, sharing kind, std::uint32_t id, registry& made_by,
              core_functions const& functions) noexcept
        : m_made_by(made_by),
          m_functions(functions),
          m_id(id),
          m_slot(near_slot(id)),
          m_kind(kind),
          m_teardown(options.teardown),
          m_on_exhausted(options.on_exhausted),
          m_memory(options, m_name.data(), id, kind == sharing::shared) {
        std::size_t length = detail::smaller(options.name.size(), m_name.size() - 1);
        // Does not cut within a character, whose further bytes are 10xxxxxx in UTF-8.
        if (length < options.name.size())
            while (length != 0 && (static_cast<unsigned char>(options.name[length]) & 0xc0) == 0x80)
                --length;
        options.name.copy(m_name.data(), length);
    }
    ~pool_core() override = default;
    pool_core(pool_core const&) = delete;
    pool_core& operator=(pool_core const&) = delete;

    // Counts blocks that are returned to a closed pool; close() itself subtracts what was in use when it looked, so the
    // count reaches 0 exactly once. acq_rel: what every thread did to its block happens before the core is destroyed.
    [[nodiscard]] bool counted(std::int64_t count) noexcept {
        return m_remaining.fetch_add(count, std::memory_order_acq_rel) + count == 0;
    }

    [[nodiscard]] static constexpr std::size_t bytes_of(sharing kind) noexcept {
        return sizeof(pool_core) + (kind == sharing::local ? sizeof(thread_cache) : 0);
    }

    registry& m_made_by;
    core_functions const& m_functions;
    std::uint32_t m_id;
    std::uint32_t m_slot;
    sharing m_kind;
    pooled::teardown m_teardown;
    std_atomics::atomic<bool> m_is_closed{false};
    std_atomics::atomic<pool_extension*> m_extension{nullptr};
    std_atomics::atomic<std::int64_t> m_remaining{0};  // blocks in use, once closed
    std::array<char, 48> m_name{};
    exhaustion_hook m_on_exhausted;
    alignas(thread_cache) pool_memory m_memory;
};

#if POOLED_HAS_CODE

POOLED_CODE pool_stats pool_core::stats() {
    pool_stats sum;
    sum.name = name();
    m_memory.fill(sum);
    return sum;
}

POOLED_CODE void pool_core::throw_exhausted(std::size_t bytes) const {
    upstream const& from = m_memory.from();
    POOLED_THROW(exhausted(name(), bytes, from.used(), from.max_bytes()));
}

#endif

static_assert(sizeof(pool_core) % alignof(thread_cache) == 0, "a local pool's cache follows its core");

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
