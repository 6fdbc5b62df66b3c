// SPDX-License-Identifier: BSL-1.0
#pragma once

// What every allocation and deallocation runs: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; everything else is a call.
//
// One path for all pools; a place says which pool, and how its cache is found:
//
//   in_default_pool       an id that is a constant               t_state.near[id]
//   in_pool<sharing>      a given pool                           t_state.near[slot], or the local pool's own cache
//   of_block<sharing>     the pool that a block is of, asked     t_state.recent, else near[slot]
//                         of the page map
//
// With a class known at compile time its geometry folds into constants.
//
// A pool, or a block, of another copy of the library's state has no cache here, and so takes the slow path: see
// pool/foreign.hpp.

#include "pooled/base/size_class.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/config.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/pool/checks.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/pool/registry.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::detail {

struct in_default_pool {
    static constexpr sharing k_sharing = sharing::shared;
    [[nodiscard]] static std::uint32_t id() noexcept { return k_default_pool_id; }
    [[nodiscard]] static pool_core& core() { return g_registry.default_core(); }
    [[nodiscard]] static pool_core* known_core() noexcept { return nullptr; }
    [[nodiscard]] static thread_cache* cache() noexcept { return t_state.near[k_default_pool_id]; }
};

template <sharing Sharing>
class in_pool {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit in_pool(pool_core& core) noexcept : m_core(core) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_core.id(); }
    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] pool_core* known_core() const noexcept { return &m_core; }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* cache() const noexcept {
        if constexpr (Sharing == sharing::shared)
            return t_state.near[m_core.slot()];
        else
            return &m_core.local_cache();
    }

private:
    pool_core& m_core;
};

template <sharing Sharing>
class of_block {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit of_block(map_entry entry) noexcept : m_entry(entry) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_entry.pool_id(); }
    [[nodiscard]] pool_core& core() const noexcept { return *g_registry.find(id()); }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* cache() const noexcept {
        if constexpr (Sharing == sharing::shared)
            return t_state.find_recent(id());
        else
            return &core().local_cache();
    }

private:
    map_entry m_entry;
};

// What is left to do once the gate is passed and the hot block did not serve. Out of line and, for a deallocation, in tail
// position, so that the inlined part needs no stack frame.
// flatten: GCC 12 would call pop_cold(), one instruction more for each block of a burst.
[[gnu::flatten]] POOLED_NOINLINE inline void* allocate_cold(thread_cache& cache, class_index c) noexcept {
    void* const block = cache.classes[c].pop_cold();
    cache.gate.leave();
    return block;
}
[[gnu::flatten]] POOLED_NOINLINE inline void* allocate_cold_local(thread_cache& cache,
                                                                  class_index c) noexcept {
    return cache.classes[c].pop_cold();
}
// The calling thread's cache, made if it has none; null if it can have none.
[[nodiscard]] inline thread_cache* own_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : g_registry.attach(core);
}

// Past the thread's cache.
POOLED_NOINLINE inline void deallocate_past_cache(std::uint32_t pool_id, class_index c,
                                                  void* block) noexcept {
    pool_core& core = *g_registry.find(pool_id);
    if (core.deallocate(c, detail::own_cache(core), block)) g_registry.destroy(core);
}
POOLED_NOINLINE inline void deallocate_cold(thread_cache& cache, class_index c, void* block) noexcept {
    std::uint32_t const pool_id =
        cache.pool_id;  // outside the gate, with the block given up, the cache may be gone
    bool const is_pushed = cache.classes[c].push_cold(block);
    cache.gate.leave();
    if (!is_pushed) detail::deallocate_past_cache(pool_id, c, block);
}

// A block that this thread has cached, or null.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_cached(thread_cache* cache, class_index c) noexcept {
    if constexpr (Sharing == sharing::local) {
        void* const hot = cache->classes[c].pop_hot();
        return hot != nullptr ? hot : allocate_cold_local(*cache, c);
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const hot = cache->classes[c].pop_hot();
        if (hot == nullptr) [[unlikely]]
            return allocate_cold(*cache, c);
        cache->gate.leave();
        return hot;
    }
}

// False when the owner cannot enter; the block is then still the caller's.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE bool deallocate_cached(thread_cache* cache, class_index c,
                                                          void* block) noexcept {
    if constexpr (Sharing == sharing::local) {
        return !cache->gate.is_closed() && cache->classes[c].push_hot(block);
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        if (!cache->classes[c].push_hot(block)) [[unlikely]] {
            deallocate_cold(*cache, c, block);
            return true;
        }
        cache->gate.leave();
        return true;
    }
}

// The same in pools beyond the near slots.
[[nodiscard]] inline void* allocate_far(std::uint32_t pool_id, class_index c) noexcept {
    far_pass const pass(pool_id);
    thread_cache* const cache = t_state.find(pool_id);
    if (!pass || cache == nullptr || !cache->gate.enter()) return nullptr;
    void* const hot = cache->classes[c].pop_hot();
    void* const block = hot != nullptr ? hot : cache->classes[c].pop_cold();
    cache->gate.leave();
    return block;
}
[[nodiscard]] inline bool deallocate_far(std::uint32_t pool_id, class_index c, void* block) noexcept {
    far_pass const pass(pool_id);
    thread_cache* const cache = t_state.find(pool_id);
    if (!pass || cache == nullptr || !cache->gate.enter()) return false;
    bool const is_pushed = cache->classes[c].push_hot(block) || cache->classes[c].push_cold(block);
    cache->gate.leave();
    return is_pushed;
}

// What `allocate` gives; when it finds nothing, deferred objects are destroyed until it does.
template <class Allocate>
[[nodiscard]] void* with_pressure(pool_core& core, Allocate&& allocate) {
    std::uint64_t seen = ~std::uint64_t{0};
    auto const destroyed_some = [&core, &seen] {
        // acquire: pairs with the release of the teardown layer, which sets it.
        pressure_hook const hook = g_pressure_hook.load(std::memory_order_acquire);
        return hook != nullptr && hook(core, seen);
    };
    for (;;) {
        POOLED_TRY {
            void* const block = allocate();
            if (block != nullptr || !destroyed_some()) return block;
        }
        POOLED_CATCH(std::bad_alloc const&) {
            if (!destroyed_some()) POOLED_RETHROW;
        }
    }
}

// A block that `allocate` has from a foreign core. What is deferred in this copy is destroyed if there is none.
template <class Allocate>
[[nodiscard]] void* allocate_foreign(pool_core& core, Allocate&& allocate) {
    void* const block = detail::with_pressure(core, allocate);
    if (block == nullptr || detail::expect_foreign(block)) return block;
    detail::deallocate_elsewhere(block);
    POOLED_THROW(std::bad_alloc());
}

// The default pool, for null.
[[nodiscard]] inline pool_core& core_or_default(pool_core* core) {
    return core != nullptr ? *core : g_registry.default_core();
}

// Everything that the inlined code leaves over: pools beyond the near slots, foreign ones, first use, stopped and closed
// caches. Null when the bound is reached; throws what upstream throws.
POOLED_NOINLINE inline void* allocate_slow(pool_core* known, class_index c) {
    pool_core& core = detail::core_or_default(known);
    if (detail::is_foreign(core)) [[unlikely]]
        return detail::allocate_foreign(core, [&] { return core.in_copy().allocate(core, c); });
    if (pool_extension* const above = core.extension()) above->on_allocate();
    if (core.id() >= k_far_slot && !core.is_local())
        if (void* const block = allocate_far(core.id(), c)) return block;
    return with_pressure(core, [&] { return core.memory().allocate(c, own_cache(core)); });
}
POOLED_NOINLINE inline void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes) {
    void* const block = allocate_slow(known, c);
    if (block == nullptr) detail::core_or_default(known).throw_exhausted(bytes);
    return checks::on_allocate(block);
}

// `core` null: the page map does not know the block.
POOLED_NOINLINE inline void deallocate_in(pool_core* core, class_index c, void* block) noexcept {
    if (core == nullptr || core->id() == k_no_pool_id) [[unlikely]]
        return detail::deallocate_elsewhere(block);
    if (detail::is_foreign(*core)) [[unlikely]]
        return core->in_copy().deallocate(*core, c, block);
    std::uint32_t const id = core->id();
    if (id >= k_far_slot && !core->is_local())
        if (deallocate_far(id, c, block)) return;
    detail::deallocate_past_cache(id, c, block);
}
POOLED_NOINLINE inline void deallocate_slow(std::uint32_t pool_id, class_index c, void* block) noexcept {
    detail::deallocate_in(g_registry.find(pool_id), c, block);
}

// A local pool's cache is at hand whatever its core is like.
[[nodiscard]] POOLED_ALWAYS_INLINE bool needs_slow_path(pool_core const& local) noexcept {
    return local.is_incremental() || (POOLED_CHECKED != 0 && detail::is_foreign(local));
}

// For the checked build, which leaves the checks of a block to the copy that has it.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_elsewhere([[maybe_unused]] Place const& place,
                                                     void const* block) noexcept {
    if constexpr (POOLED_CHECKED == 0) return false;
    if (!g_page_map.find(block).empty()) return false;
    pool_core const* const core = g_registry.find(place.id());
    return core == nullptr || core->id() == k_no_pool_id || detail::is_foreign(*core);
}

// Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate(Place const& place, class_index c) {
    if constexpr (Place::k_sharing == sharing::local)
        if (detail::needs_slow_path(place.core())) [[unlikely]]
            return checks::on_allocate(allocate_slow(place.known_core(), c));
    void* const block = allocate_cached<Place::k_sharing>(place.cache(), c);
    return checks::on_allocate(block != nullptr ? block : allocate_slow(place.known_core(), c));
}

// Throws exhausted when the bound is reached. `bytes` is for the message.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_or_throw(Place const& place, class_index c,
                                                           std::size_t bytes) {
    if constexpr (Place::k_sharing == sharing::local)
        if (detail::needs_slow_path(place.core())) [[unlikely]]
            return allocate_slow_or_throw(place.known_core(), c, bytes);
    void* const block = allocate_cached<Place::k_sharing>(place.cache(), c);
    return block != nullptr ? checks::on_allocate(block)
                            : allocate_slow_or_throw(place.known_core(), c, bytes);
}

template <class Place>
POOLED_ALWAYS_INLINE void deallocate(Place const& place, class_index c, void* block) noexcept {
    if (detail::is_elsewhere(place, block)) return detail::deallocate_slow(place.id(), c, block);
    checks::on_deallocate(place.id(), c, block);
    if (!deallocate_cached<Place::k_sharing>(place.cache(), c, block)) [[unlikely]]
        deallocate_slow(place.id(), c, block);
}

// The calling thread's cache, or null: it is not made.
[[nodiscard]] inline thread_cache* find_cache(pool_core& core) noexcept {
    return core.is_local() ? &core.local_cache() : t_state.find(core.id());
}

POOLED_NOINLINE inline void* allocate_large(pool_core& core, std::size_t bytes, std::size_t align) {
    if (detail::is_foreign(core)) [[unlikely]]
        return detail::allocate_foreign(core,
                                        [&] { return core.in_copy().allocate_large(core, bytes, align); });
    if (pool_extension* const above = core.extension()) above->on_allocate();
    pool_memory& memory = core.memory();
    if (void* const p = memory.take_aside(bytes, align, find_cache(core))) [[likely]]
        return p;
    return with_pressure(core, [&] { return memory.allocate_large(bytes, align, own_cache(core)); });
}

// Any size. Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] inline void* allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    class_index const c = class_for(bytes, align);
    if (c != k_large) [[likely]]
        return allocate(place, c);
    return detail::allocate_large(place.core(), bytes, align);
}

// The same; null also when upstream has no more.
template <class Place>
[[nodiscard]] inline void* try_allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    POOLED_TRY { return detail::allocate_bytes(place, bytes, align); }
    POOLED_CATCH(std::bad_alloc const&) { return nullptr; }
}

template <class Place>
[[nodiscard]] inline void* allocate_bytes_or_throw(Place const& place, std::size_t bytes, std::size_t align) {
    void* const p = detail::allocate_bytes(place, bytes, align);
    if (p == nullptr) [[unlikely]]
        place.core().throw_exhausted(bytes);
    return p;
}

POOLED_NOINLINE inline void deallocate_large(std::uint32_t pool_id, void* p, std::size_t bytes) noexcept {
    pool_core* const core = g_registry.find(pool_id);
    if (core == nullptr || core->id() == k_no_pool_id) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    if (detail::is_foreign(*core)) [[unlikely]]
        return core->in_copy().deallocate_large(*core, p, bytes);
    checks::on_deallocate_large(pool_id, p, bytes);
    if (core->deallocate_large(p, detail::find_cache(*core))) g_registry.destroy(*core);
}

template <class Place>
inline void deallocate_bytes(Place const& place, void* p, std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]]
        return detail::deallocate_large(place.id(), p, bytes);
    detail::deallocate(place, c, p);
}

// For callers that know neither the pool nor the size. Requires a block in use.
POOLED_NOINLINE inline void deallocate_found(void* p) noexcept {
    map_entry const entry = g_page_map.find(p);
    if (entry.empty()) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    if (entry.is_large()) return detail::deallocate_large(entry.pool_id(), p, 0);
    class_index const c = entry.slab_at()->size_class;
    if (c >= k_class_count) [[unlikely]]
        detail::fail_deallocation("?", p, "no block in use starts there (double free, or foreign memory)");
    if (entry.is_local())
        detail::deallocate(of_block<sharing::local>(entry), c, p);
    else
        detail::deallocate(of_block<sharing::shared>(entry), c, p);
}

inline void* pool_core::do_allocate(std::size_t bytes, std::size_t align) {
    return is_local() ? detail::allocate_bytes_or_throw(in_pool<sharing::local>(*this), bytes, align)
                      : detail::allocate_bytes_or_throw(in_pool<sharing::shared>(*this), bytes, align);
}

inline void pool_core::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    if (is_local())
        detail::deallocate_bytes(in_pool<sharing::local>(*this), p, bytes, align);
    else
        detail::deallocate_bytes(in_pool<sharing::shared>(*this), p, bytes, align);
}

}  // namespace pooled::detail
