// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a pool that outlives its handle: a pool that is destroyed while blocks are in use is closed, and its core is
// destroyed when the last of them is returned.
//
// Only code of the copy of the library that made a core works on it (impl/plugins/copies.hpp): others, with a reference to the pool, call
// in_copy().
//
// Invariant: a closed core has no caches; remaining = blocks in use, once closed.
// Any thread may call; a core with a local cache is for one thread at a time.

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/instrument/dead_pools.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/options.hpp"
#include "pooled/stats.hpp"

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
class pool_core;

// What other copies of the library call for a core: see impl/plugins/in_copy.hpp.
struct core_functions {
    void* (*allocate)(pool_core& core, class_index c, std::size_t bytes, std::size_t align);
    void (*deallocate)(pool_core& core, class_index c, void* p, std::size_t bytes) noexcept;
    void* (*allocate_large)(pool_core& core, std::size_t bytes, std::size_t align);
    void (*deallocate_large)(pool_core& core, void* p, std::size_t bytes) noexcept;
    bool (*reserve)(pool_core& core, class_index a, class_index b, std::size_t count, large_shape large);
    std::size_t (*trim)(pool_core& core) noexcept;
    void (*close)(pool_core& core) noexcept;
    void (*destroy)(pool_core& core) noexcept;
    bool (*owns)(pool_core const& core, void const* p) noexcept;
};

// The core as a memory resource; two of the functions are in detail/fast_path.hpp. Functions of a template are compiled only
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

class alignas(thread_cache) pool_core final : public core_resource<pool_core> {
public:
    // Throws std::bad_alloc, and std::invalid_argument for options that make no sense.
    [[nodiscard]] static pool_core& create(pool_options options, sharing kind, std::uint32_t id,
                                           registry& made_by, core_functions const& functions);
    // Requires that no block is in use and that no thread can reach the core.
    void destroy() noexcept;

    // Runs the code of the copy that made the core.
    [[nodiscard]] core_functions const& in_copy() const noexcept { return m_functions; }
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
    [[nodiscard]] cache_set&
    caches() noexcept;  // in impl/pool/core_memory.hpp, as what is defined inline there
    // A hint, except for a thread that holds the lock of the caches.
    [[nodiscard]] bool is_closed() const noexcept { return m_is_closed.load(std::memory_order_relaxed); }
    // Requires a local pool: its one cache lies right after the core, one load less on the way to it.
    [[nodiscard]] thread_cache& local_cache() noexcept {
        return *std::launder(reinterpret_cast<thread_cache*>(this + 1));
    }

    // True when that was the last block of a closed pool: the caller must destroy the core.
    [[nodiscard]] bool deallocate(class_index c, thread_cache* cache, void* block) noexcept;
    [[nodiscard]] bool deallocate_large(void* p, thread_cache* cache) noexcept;

    // Called when the handle is destroyed. Blocks in use keep the core alive; true when there are none: the caller must destroy
    // it. Requires the registry's lock.
    [[nodiscard]] bool close() noexcept;

    [[nodiscard]] POOLED_API pool_stats stats();
    // Checks every structure, with other threads kept out.
    [[nodiscard]] POOLED_API bool is_valid();
    // As that of upstream.
    [[nodiscard]] POOLED_API bool may_give(std::size_t bytes) const;
    [[noreturn]] POOLED_API void throw_exhausted(std::size_t bytes) const;

    // acquire: pairs with the releases below; the constructed extension is seen.
    [[nodiscard]] pool_extension* extension() const noexcept {
        return m_extension.load(std::memory_order_acquire);
    }
    // Both take the lock of the caches, so that the extension does not change during a fork.
    POOLED_API void set_extension(pool_extension* one) noexcept;
    // False when the pool has an extension already.
    [[nodiscard]] POOLED_API bool set_extension_if_none(pool_extension& one) noexcept;

    // For lists whose addresses are in `recycled` of the caches: the lock of the caches, and what requires it.
    POOLED_API void lock_caches() noexcept;
    POOLED_API void unlock_caches() noexcept;
    POOLED_API void stop_caches() noexcept;
    POOLED_API void resume_caches() noexcept;
    [[nodiscard]] POOLED_API thread_cache* first_cache() noexcept;

    // Called when the owner of the cache has ended, or does not exist in this process. Requires the lock of the caches.
    void retire(thread_cache& cache) noexcept;

private:
    pool_core(pool_options const& options, sharing kind, std::uint32_t id, registry& made_by,
              core_functions const& functions, pool_memory& memory) noexcept;
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

    registry& m_made_by;
    core_functions const& m_functions;
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

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
