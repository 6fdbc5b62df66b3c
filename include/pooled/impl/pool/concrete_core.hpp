// SPDX-License-Identifier: BSL-1.0
#pragma once

// The core of a pool, as the copy of the library that made it serves it: the slow operations. What is called here runs the code of that
// copy, whoever calls. An instrument (impl/instrument/instrument.hpp) sees each block here, as it is given to a caller and as it returns.
//
// A source that makes no pool contains none of this. Any thread may call. O(1), besides what the pool's memory takes.

#include "pooled/config.hpp"

#if POOLED_HAS_CODE
#include "pooled/detail/bits.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/fast_path.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/cache/cache_set.hpp"
#include "pooled/impl/heap/slab.hpp"
#include "pooled/impl/instrument/dead_pools.hpp"
#include "pooled/impl/instrument/instrument.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/os/environment.hpp"
#include "pooled/impl/os/metadata.hpp"
#include "pooled/impl/plugins/copies.hpp"
#include "pooled/impl/pool/core_memory.hpp"
#include "pooled/impl/pool/exhaustion.hpp"
#include "pooled/impl/pool/extension.hpp"
#include "pooled/impl/pool/memory.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Hidden: each executable and shared library that makes pools has a table of functions of its own.
class POOLED_HIDDEN concrete_core final : public pool_core {
public:
    using pool_core::pool_core;

    [[nodiscard]] void* allocate_block(class_index c, std::size_t bytes, std::size_t align) override {
        return give(c, find_block(c), bytes, align);
    }
    [[nodiscard]] void* allocate_large(std::size_t bytes, std::size_t align) override {
        POOLED_CHECK(is_power_of_two(align), k_bad_alignment);
        return give(k_large, find_large(saturating_add(bytes, k_guard_bytes), align), bytes, align);
    }
    [[nodiscard]] void* take_free(class_index c, std::size_t bytes, std::size_t align) override {
        return give(c, caches().allocate(c, own_cache()), bytes, align);
    }
    void deallocate_block(class_index c, void* p, std::size_t bytes) noexcept override {
        put(c, instrument::taken(*this, c, p, bytes));
    }
    void deallocate_large(void* p, std::size_t bytes) noexcept override {
        put_large(instrument::taken(*this, k_large, p, bytes), find_cache());
    }
    void put(class_index c, void* block) noexcept override {
        if (put_cached(c, block)) return;
        if (!memory().deallocate(c, own_cache(), block) && counted(1)) destroy();
    }

    [[nodiscard]] bool reserve(class_index a, class_index b, std::size_t count, large_shape large) override {
        POOLED_CHECK(is_power_of_two(large.align), k_bad_alignment);
        // The calling thread's cache, and memory for those of threads that use the pool later, so that they make no system call.
        if (own_cache() != nullptr) {
            caches().reserve_arrays(a);
            caches().reserve_arrays(b);
        }
        large.bytes = saturating_add(large.bytes, k_guard_bytes);
        return memory().reserve(a, b, count, large);
    }
    std::size_t trim() noexcept override { return memory().trim(); }
    [[nodiscard]] bool owns(void const* p) const noexcept override {
        map_entry const entry = malloc_blocks::find(p);
        return !entry.empty() && entry.pool_id() == id();
    }
    void close() noexcept override { g_registry.close(*this); }
    void destroy() noexcept override { g_registry.destroy(*this); }

    // A block for the caller, which gets it or, if a tool has no memory for it, an exception. Null stays null.
    [[nodiscard]] void* give(class_index c, void* block, std::size_t bytes, std::size_t align) {
        void* const given = instrument::given(*this, c, block, bytes, align);
        if (given != nullptr || block == nullptr) [[likely]]
            return given;
        if (c != k_large)
            put(c, block);
        else
            put_large(block, find_cache());
        POOLED_THROW_OR(std::bad_alloc(), nullptr);
    }

private:
    // The calling thread's cache, which is made if it has none; null if it can have none.
    [[nodiscard]] thread_cache* own_cache() noexcept {
        return is_local() ? &local_cache() : g_registry.attach(*this);
    }
    // The calling thread's cache if it has one, otherwise null.
    [[nodiscard]] thread_cache* find_cache() noexcept {
        return is_local() ? &local_cache() : t_state.find(id());
    }

    // In pools beyond the near slots, and for other copies, whose inlined code finds no cache of this pool.
    [[nodiscard]] void* take_cached(class_index c) noexcept {
        far_pass const pass(id());
        thread_cache* const cache = find_cache();
        if (!pass || cache == nullptr || !cache->gate.enter()) return nullptr;
        void* const hot = cache->classes[c].pop_hot();
        void* const block = hot != nullptr ? hot : cache->classes[c].pop_cold();
        cache->gate.leave();
        return block;
    }
    [[nodiscard]] bool put_cached(class_index c, void* block) noexcept {
        far_pass const pass(id());
        thread_cache* const cache = find_cache();
        if (!pass || cache == nullptr || !cache->gate.enter()) return false;
        bool const is_pushed = cache->classes[c].push_hot(block) || cache->classes[c].push_cold(block);
        cache->gate.leave();
        return is_pushed;
    }

    [[nodiscard]] void* find_block(class_index c) {
        [[maybe_unused]] tracking::interruption const upstream_and_hooks{};
        if (pool_extension* const above = extension()) above->on_allocate();
        if (void* const block = take_cached(c)) return block;
        return with_exhaustion_hook(*this, k_geometry[c].block_bytes, [&] {
            return with_pressure(*this, [&] { return memory().allocate(c, own_cache()); });
        });
    }
    [[nodiscard]] void* find_large(std::size_t bytes, std::size_t align) {
        [[maybe_unused]] tracking::interruption const upstream_and_hooks{};
        if (pool_extension* const above = extension()) [[unlikely]]
            above->on_allocate();
        void* const cached = pool_memory::take_cached(bytes, align, find_cache());
        return cached != nullptr ? cached : find_another_large(bytes, align);
    }
    // For requests that no cached large block serves. Out of line, so the caller needs no stack frame for it.
    [[nodiscard]] POOLED_NOINLINE void* find_another_large(std::size_t bytes, std::size_t align) {
        return with_exhaustion_hook(*this, bytes, [&] {
            return with_pressure(*this, [&] { return memory().allocate_large(bytes, align, own_cache()); });
        });
    }

    void* do_allocate(std::size_t bytes, std::size_t align) override {
        POOLED_ACQUISITION_OF_MEMORY;
        return is_local() ? detail::allocate_bytes_or_throw(in_pool<sharing::local>(*this), bytes, align)
                          : detail::allocate_bytes_or_throw(in_pool<sharing::shared>(*this), bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        if (is_local())
            detail::deallocate_bytes(in_pool<sharing::local>(*this), p, bytes, align);
        else
            detail::deallocate_bytes(in_pool<sharing::shared>(*this), p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};
static_assert(sizeof(concrete_core) == sizeof(pool_core), "a local pool's cache lies right after it");

inline pool_core& pool_core::create(pool_options options, sharing kind, std::uint32_t id, registry& made_by) {
    constexpr std::size_t k_max_chunk_bytes = std::size_t{1} << 40;
    POOLED_CHECK(
        &made_by == &g_registry,
        "pooled: a shared library runs the functions of another one with its own state; link the other one "
        "without -Bsymbolic, or compile it with -fvisibility=hidden");
    options.huge_pages = detail::allows_huge_pages() && options.huge_pages;
    if (options.chunk_bytes > k_max_chunk_bytes)
        POOLED_THROW(std::invalid_argument(
            "pooled: pool_options::chunk_bytes is over 1 TiB; 0 takes the default of 2 MiB"));
    std::size_t const bytes = memory_at(kind) + sizeof(pool_memory);
    void* const at = g_metadata.allocate(bytes);
#if POOLED_CHECKED
    if (!g_dead_pools.on_open(at)) {
        g_metadata.deallocate(at, bytes);
        POOLED_THROW(std::bad_alloc());
    }
#endif
    void* const memory = static_cast<std::byte*>(at) + memory_at(kind);
    auto* const core =
        ::new (at) concrete_core(options, kind, id, made_by, *static_cast<pool_memory*>(memory));
    ::new (memory) pool_memory(options, core->name(), id, kind == sharing::shared);
    if (kind == sharing::local) {
        auto* const cache = ::new (static_cast<void*>(core + 1)) thread_cache;
        cache->pool_id = id;
        core->caches().link(*cache);
    }
    return *core;
}

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
