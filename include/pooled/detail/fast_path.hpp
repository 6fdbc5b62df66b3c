// SPDX-License-Identifier: BSL-1.0
#pragma once

// The code of every allocation and deallocation: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; all other cases are calls (slow_path.hpp).
//
// All pools share this code. A *place* says which pool is used, and how its cache is found:
//
//   in_default_pool       an id that is a constant               t_state.near_caches[id]
//   in_pool<sharing>      a given pool                           t_state.near_caches[slot], or the local pool's own cache
//   of_block<sharing>     the block's pool, from the page map    t_state.recent, else near[slot]
//
// With a class known at compile time its geometry folds into constants.
//
// A pool or a block of another copy of the library's state has no cache here, and therefore takes the slow path: see
// impl/plugins/foreign.hpp.

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/page_map.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/instrument/checks.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/instrument/malloc_blocks.hpp"
#include "pooled/impl/instrument/tracking.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/registry.hpp"
#include "pooled/impl/pool/slow_path.hpp"

#include <cstddef>
#include <cstdint>
#include <new>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

struct in_default_pool {
    static constexpr sharing k_sharing = sharing::shared;
    [[nodiscard]] static std::uint32_t id() noexcept { return k_default_pool_id; }
    [[nodiscard]] static pool_core& core() { return g_registry.default_core(); }
    [[nodiscard]] static pool_core* known_core() noexcept { return nullptr; }
    static void check_use() noexcept {}  // it is never destroyed
    [[nodiscard]] static thread_cache* cache() noexcept { return t_state.near_caches[k_default_pool_id]; }
};

template <sharing Sharing>
class in_pool {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit in_pool(pool_core& core) noexcept : m_core(core) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_core.id(); }
    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] pool_core* known_core() const noexcept { return &m_core; }
    void check_use() const { checks::on_use(m_core); }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* cache() const noexcept {
        if constexpr (Sharing == sharing::shared)
            return t_state.near_caches[m_core.slot()];
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

// The part inside the gate that the hot block did not serve. Out of line and, for a deallocation, the last call, so the inlined
// part needs no stack frame. flatten: GCC 12 would call pop_cold(), one instruction more for each block of a burst. aligned: a burst
// took 6.9 to 7.3 ns a block in place of 7.1 to 8.2, depending on where the linker put the functions (AMD Zen 4).
// `at`: thread_cache::offset_of() the class.
[[gnu::flatten]] POOLED_COLD_PART inline void* allocate_cold(thread_cache& cache, std::size_t at) noexcept {
    void* const block = cache.class_at(at).pop_cold();
    cache.gate.leave();
    return block;
}
[[gnu::flatten]] POOLED_COLD_PART inline void* allocate_cold_local(thread_cache& cache,
                                                                   std::size_t at) noexcept {
    return cache.class_at(at).pop_cold();
}
POOLED_COLD_PART inline void deallocate_cold(thread_cache& cache, std::size_t at, void* block) noexcept {
    std::uint32_t const pool_id =
        cache.pool_id;  // after leaving the gate and giving up the block, the cache may no longer exist
    auto const c = static_cast<class_index>(at / sizeof(class_cache));
    class_cache& one = cache.class_at(at);
    one.prefetch_next(block, k_geometry[c].block_bytes);
    bool const is_pushed = one.push_cold(block);
    cache.gate.leave();
    if (!is_pushed) detail::deallocate_past_cache(pool_id, c, block);
}

// A block from this thread's cache, or null.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_cached(thread_cache* cache, class_index c) noexcept {
    if constexpr (Sharing == sharing::local) {
        void* const hot = cache->classes[c].pop_hot();
        return hot != nullptr ? hot : allocate_cold_local(*cache, thread_cache::offset_of(c));
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const hot = cache->classes[c].pop_hot();
        if (hot == nullptr) [[unlikely]]
            return allocate_cold(*cache, thread_cache::offset_of(c));
        cache->gate.leave();
        return hot;
    }
}

// False when the owner cannot enter the gate; the caller then keeps the block.
template <sharing Sharing>
[[nodiscard]] POOLED_ALWAYS_INLINE bool deallocate_cached(thread_cache* cache, class_index c,
                                                          void* block) noexcept {
    if constexpr (Sharing == sharing::local) {
        if (cache->gate.is_closed()) [[unlikely]]
            return false;
        if (!cache->classes[c].push_hot(block)) [[unlikely]]
            deallocate_cold(*cache, thread_cache::offset_of(c), block);
        return true;
    } else {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        if (!cache->classes[c].push_hot(block)) [[unlikely]] {
            deallocate_cold(*cache, thread_cache::offset_of(c), block);
            return true;
        }
        cache->gate.leave();
        return true;
    }
}

// Whether the block belongs to another copy of the library's state, in builds that watch blocks. Only its maps know the block.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE bool is_elsewhere([[maybe_unused]] Place const& place,
                                                     [[maybe_unused]] void const* p) noexcept {
    if constexpr (k_watches_blocks) {
        if (!malloc_blocks::find(p).empty()) return false;
        pool_core const* const core = g_registry.find(place.id());
        return core == nullptr || core->id() == k_no_pool_id || detail::is_foreign(*core);
    }
    return false;
}

// Called for a block that has returned to the pool.
template <class Place>
POOLED_ALWAYS_INLINE void put(Place const& place, class_index c, void* block) noexcept {
    if (!deallocate_cached<Place::k_sharing>(place.cache(), c, block)) [[unlikely]]
        deallocate_slow(place.id(), c, block);
}

// The block for the caller, made from the pool's block, which may be null. Throws std::bad_alloc if a tool's build has no
// memory.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* hand_out(Place const& place, class_index c, void* block,
                                                  std::size_t bytes, std::size_t align) {
    checks::on_allocate(block, bytes);
    tracking::on_allocate(place.id(), block, bytes);
    if constexpr (POOLED_SANITIZE != 0) {
        if (block == nullptr) return nullptr;
        void* const given = malloc_blocks::give(place.core(), block, bytes, align);
        if (given != nullptr) return given;
        checks::on_deallocate(place.id(), c, block, bytes);
        tracking::on_deallocate(block);
        detail::put(place, c, block);
        POOLED_THROW_OR(std::bad_alloc(), nullptr);
    }
    return block;
}

// Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate(Place const& place, class_index c, std::size_t bytes,
                                                  std::size_t align) {
    if constexpr (k_watches_blocks)
        if (pool_core& core = place.core(); detail::is_kept_elsewhere(core))
            return detail::allocate_foreign(core,
                                            [&] { return core.in_copy().allocate(core, c, bytes, align); });
    place.check_use();
    if constexpr (Place::k_sharing == sharing::local)
        if (place.core().is_incremental()) [[unlikely]]
            return detail::hand_out(place, c, allocate_slow(place.known_core(), c), bytes, align);
    void* const block = hardened::claimed(allocate_cached<Place::k_sharing>(place.cache(), c));
    return detail::hand_out(place, c, block != nullptr ? block : allocate_slow(place.known_core(), c), bytes,
                            align);
}

// Throws exhausted when the bound is reached.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_or_throw(Place const& place, class_index c,
                                                           std::size_t bytes, std::size_t align,
                                                           hardened::origin as = hardened::origin::unknown) {
    if constexpr (k_watches_blocks) {
        void* const given = detail::allocate(place, c, bytes, align);
        if (given == nullptr) place.core().throw_exhausted(bytes);
        return given;
    }
    if constexpr (Place::k_sharing == sharing::local)
        if (place.core().is_incremental()) [[unlikely]]
            return allocate_slow_or_throw(place.known_core(), c, bytes);
    void* const block = hardened::claimed(allocate_cached<Place::k_sharing>(place.cache(), c), as);
    return block != nullptr ? block : allocate_slow_or_throw(place.known_core(), c, bytes);
}

#if POOLED_HARDENED
// A block of another copy of the library's state, or a mistake.
POOLED_API void deallocate_refused(std::uint32_t pool_id, class_index c, void* p, std::size_t bytes) noexcept;
#endif

// `bytes`: the size with which it was allocated, or 0 if the caller does not know it.
template <class Place>
POOLED_ALWAYS_INLINE void
deallocate(Place const& place, class_index c, void* p, std::size_t bytes = 0,
           [[maybe_unused]] hardened::origin from = hardened::origin::unknown) noexcept {
    if (detail::is_elsewhere(place, p))
        return detail::deallocate_in(g_registry.find(place.id()), c, p, bytes);
    void* const block = malloc_blocks::take(place.id(), c, p, bytes);
    checks::on_deallocate(place.id(), c, block, bytes);
#if POOLED_HARDENED
    if (!hardened::admits(place.id(), c, block, from)) [[unlikely]]
        return detail::deallocate_refused(place.id(), c, block, bytes);
#endif
    tracking::on_deallocate(block);
    detail::put(place, c, block);
}

// As hand_out().
[[nodiscard]] inline void* hand_out_large(pool_core& core, void* block, std::size_t bytes,
                                          std::size_t align) {
    checks::on_allocate(block, bytes);
    tracking::on_allocate(core.id(), block, bytes);
    if constexpr (POOLED_SANITIZE != 0) {
        if (block == nullptr) return nullptr;
        void* const given = malloc_blocks::give(core, block, bytes, align);
        if (given != nullptr) return given;
        checks::on_deallocate(core.id(), k_large, block, bytes);
        tracking::on_deallocate(block);
        static_cast<void>(
            core.deallocate_large(block, detail::find_cache(core)));  // never the last: the pool is open
        POOLED_THROW_OR(std::bad_alloc(), nullptr);
    }
    return block;
}

// Beyond the largest size class. Null when the bound is reached; throws what upstream throws.
template <class Place>
[[nodiscard]] inline void* allocate_beyond_classes(Place const& place, std::size_t bytes, std::size_t align) {
    pool_core& core = place.core();
    if constexpr (k_watches_blocks)
        if (detail::is_kept_elsewhere(core))
            return detail::allocate_foreign(
                core, [&] { return core.in_copy().allocate_large(core, bytes, align); });
    place.check_use();
    return detail::hand_out_large(
        core, detail::allocate_large(core, saturating_add(bytes, k_guard_bytes), align), bytes, align);
}

// Any size; the same.
template <class Place>
[[nodiscard]] inline void* allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    checks::on_request(place.id(), bytes, align);
    class_index const c = class_for(bytes, align);
    if (c != k_large) [[likely]]
        return detail::allocate(place, c, bytes, align);
    return detail::allocate_beyond_classes(place, bytes, align);
}

// The same; null also when upstream has no more memory.
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

POOLED_API void deallocate_large(std::uint32_t pool_id, void* p, std::size_t bytes) noexcept;

template <class Place>
inline void deallocate_bytes(Place const& place, void* p, std::size_t bytes, std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]]
        return detail::deallocate_large(place.id(), p, bytes);
    detail::deallocate(place, c, p, bytes);
}

// For callers that know neither the pool nor the size. Requires a block in use.
POOLED_API void deallocate_found(void* p) noexcept;

#if POOLED_HAS_CODE

#if POOLED_HARDENED
POOLED_CODE void deallocate_refused(std::uint32_t pool_id, class_index c, void* p,
                                    std::size_t bytes) noexcept {
    pool_core* const core = g_registry.find(pool_id);
    if (core == nullptr || core->id() == k_no_pool_id || detail::is_foreign(*core))
        return detail::deallocate_in(core, c, p, bytes);
    hardened::report(pool_id, c, p);
}
#endif

POOLED_CODE void deallocate_large(std::uint32_t pool_id, void* p, std::size_t bytes) noexcept {
    pool_core* const core = g_registry.find(pool_id);
    if (core == nullptr || core->id() == k_no_pool_id) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    if (detail::is_foreign(*core)) [[unlikely]]
        return core->in_copy().deallocate_large(*core, p, bytes);
    void* const block = malloc_blocks::take(pool_id, k_large, p, bytes);
    checks::on_deallocate(pool_id, k_large, block, bytes);
    tracking::on_deallocate(block);
#if POOLED_HARDENED
    if constexpr (k_hardened)
        if (!g_page_map.find(block).empty() && !free_mark::put_on_if_off(block))
            hardened::report_freed(block);
#endif
    if (core->deallocate_large(block, detail::find_cache(*core))) g_registry.destroy(*core);
}

POOLED_CODE void deallocate_found(void* p) noexcept {
    map_entry const entry = malloc_blocks::find(p);
    if (entry.empty()) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    class_index const c = entry.slab_at()->size_class;
    if (c >= k_first_large && c <= k_exact) [[unlikely]]
        return detail::deallocate_large(entry.pool_id(), p, 0);
    if (c > k_exact) [[unlikely]]
        detail::fail_deallocation("?", p, "no block in use starts there (double free, or foreign memory)");
    if (entry.is_local())
        detail::deallocate(of_block<sharing::local>(entry), c, p);
    else
        detail::deallocate(of_block<sharing::shared>(entry), c, p);
}

template <class Core>
void* core_resource<Core>::do_allocate(std::size_t bytes, std::size_t align) {
    POOLED_ACQUISITION_OF_MEMORY;
    auto& core = static_cast<Core&>(*this);
    return core.is_local() ? detail::allocate_bytes_or_throw(in_pool<sharing::local>(core), bytes, align)
                           : detail::allocate_bytes_or_throw(in_pool<sharing::shared>(core), bytes, align);
}

template <class Core>
void core_resource<Core>::do_deallocate(void* p, std::size_t bytes, std::size_t align) {
    auto& core = static_cast<Core&>(*this);
    if (core.is_local())
        detail::deallocate_bytes(in_pool<sharing::local>(core), p, bytes, align);
    else
        detail::deallocate_bytes(in_pool<sharing::shared>(core), p, bytes, align);
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
