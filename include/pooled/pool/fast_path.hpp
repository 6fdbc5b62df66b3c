// SPDX-License-Identifier: BSL-1.0
#pragma once

// The code of every allocation and deallocation: find this thread's cache, pass its gate, move one address. No locked
// instruction, no branch that is usually taken; all other cases are calls.
//
// All pools share this code. A *place* says which pool is used, and how its cache is found, whose gate it enters; null: it cannot.
//
//   in_default_pool       an id that is a constant               t_state.default_gate
//   in_pool<sharing>      a given pool                           t_state.near_caches[slot], or the local pool's own cache
//   of_block<sharing>     the block's pool, from the page map    t_state.recent, else near[slot]
//
// An allocation:
//
//   allocate_or_throw                        the call that the compiler inlines
//     pop_cached
//       Place::enter                           this thread's cache, inside its gate (cache/thread_cache.hpp, cache/gate.hpp)
//       class_cache::pop_hot                   the block freed last, or by allocate_cold:
//       class_cache::pop_array                 the top of the array of addresses (cache/class_cache.hpp)
//       gate::leave
//     allocate_slow_or_throw                 otherwise, out of line
//       allocate_slow                          makes a block_request of class, bytes and alignment
//         pool_core::allocate_block              virtual: the copy that made the pool serves it (pool/concrete_core.hpp)
//           pop_cached                             for whom the inlined code finds no cache: another copy, a far pool, a large class
//           allocate_past_cache                    again after deferred objects were destroyed, or the program freed something
//             pool_memory::allocate                  (pool/memory.hpp)
//               cache_set::allocate                    (cache/cache_set.hpp)
//                 central::refill                        under the lock of the class (cache/central.hpp)
//                   slab::allocate                         the lowest set bits (heap/slab.hpp)
//                   slab_heap::allocate                    once per slab: an empty one (heap/slab_heap.hpp)
//               find_more                              when the class has no block, and the heap no slab
//                 steal, find_slab                       other threads' caches; slabs that they keep in use
//                 grow                                   a chunk from upstream (heap/upstream.hpp)
//
// A deallocation:
//
//   deallocate                               of_block: the pool and the class are found by the address (heap/page_map.hpp)
//     deallocate_object
//       Place::enter
//       class_cache::push_hot                  or by deallocate_cold: push_cold_below_stop, or move_stop_cold and again
//       gate::leave
//     deallocate_past_cache                  otherwise, out of line
//       pool_core::deallocate_verified         virtual (pool/concrete_core.hpp)
//         pool_memory::deallocate                (pool/memory.hpp)
//           cache_set::deallocate                  (cache/cache_set.hpp)
//             central::flush_half                    a half of the array, under the lock of the class (cache/central.hpp)
//               slab::deallocate                       sets bits (heap/slab.hpp)
//               slab_heap::deallocate                  a slab without a block in use (heap/slab_heap.hpp)
//
// With a class known at compile time its geometry folds into constants. Out of line are first use, stopped and closed caches, pools beyond
// the near slots, large blocks, and pools and blocks of another copy of the library's state (foreign.hpp), which have no cache here: the
// pool's core serves them.
//
// Any thread may call. O(1), besides what the pool's memory takes.

#include "pooled/cache/thread_cache.hpp"
#include "pooled/heap/page_map.hpp"
#include "pooled/instrument/hardened.hpp"
#include "pooled/pool/core.hpp"
#include "pooled/pool/foreign.hpp"
#include "pooled/pool/registry.hpp"
#if POOLED_HAS_CODE
#include "pooled/heap/slab.hpp"
#include "pooled/instrument/checked.hpp"
#include "pooled/instrument/malloc_backed.hpp"
#endif

POOLED_BEGIN_DETAIL

// `known` null: the default pool. The request's class, perhaps k_large, and what it asks for. Null when the bound is reached; throws
// what upstream throws.
[[nodiscard]] POOLED_API void* allocate_slow(pool_core* known, class_index c, std::size_t bytes,
                                             std::size_t align);
// The same; throws exhausted when the bound is reached.
[[nodiscard]] POOLED_API void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes,
                                                      std::size_t align);

// `c`: of the request. `bytes`: the size with which it was allocated, or 0: not known.
POOLED_API void deallocate_slow(std::uint32_t pool_id, class_index c, void* p, std::size_t bytes) noexcept;
// A block that the inlined code has verified, and that the thread's cache does not take.
POOLED_API void deallocate_past_cache(void* block, class_index c, std::uint32_t pool_id) noexcept;

// A block in use of which only the address is known: of any pool and size.
POOLED_API void deallocate_found(void* p) noexcept;

[[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* enter_cache(thread_cache* cache) noexcept {
    return cache != nullptr && cache->gate.enter() ? cache : nullptr;
}

// The calling thread's cache for a pool whose id was just read from the page map, or null. The processor predicts that it is
// the same pool as last time and continues; with an index, it would have to wait for the map's loads before it knows the
// cache (measured in E7: 2.55 against 2.88 ns).
[[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* find_recent(std::uint32_t pool_id) noexcept {
    if (POOLED_THREAD_EQUALS(t_state, recent_id, pool_id)) [[likely]] {
        thread_cache* const recent = POOLED_THREAD_GET(t_state, recent);
        if (recent == nullptr) __builtin_unreachable();
        return recent;
    }
    thread_cache* const cache = POOLED_THREAD_GET_AT(t_state, near_caches, near_slot(pool_id));
    if (cache != nullptr) {
        POOLED_THREAD_SET(t_state, recent_id, pool_id);
        POOLED_THREAD_SET(t_state, recent, cache);
    }
    return cache;
}

// Requires a gate that was entered.
[[nodiscard]] POOLED_ALWAYS_INLINE thread_cache& cache_of(gate& entered) noexcept {
    return reinterpret_cast<thread_cache&>(entered);
}

struct in_default_pool {
    static constexpr sharing k_sharing = sharing::shared;
    [[nodiscard]] static std::uint32_t id() noexcept { return k_default_pool_id; }
    [[nodiscard]] static pool_core* known_core() noexcept { return nullptr; }
    [[nodiscard]] POOLED_ALWAYS_INLINE static gate& own_gate() noexcept {
        gate* const one = POOLED_THREAD_GET(t_state, default_gate);
        if (one == nullptr) __builtin_unreachable();
        return *one;
    }
    // `n`: as that of the gate.
    [[nodiscard]] POOLED_ALWAYS_INLINE static thread_cache* enter(std::uint64_t n = 0) noexcept {
        gate& own = own_gate();
        return own.enter(n) ? &detail::cache_of(own) : nullptr;
    }
};

template <sharing Sharing>
class in_pool {
public:
    static constexpr sharing k_sharing = Sharing;
    explicit in_pool(pool_core& core) noexcept : m_core(core) {}
    [[nodiscard]] std::uint32_t id() const noexcept { return m_core.id(); }
    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] pool_core* known_core() const noexcept { return &m_core; }
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* enter() const noexcept {
        return detail::enter_cache(POOLED_THREAD_GET_AT(t_state, near_caches, m_core.slot()));
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
    [[nodiscard]] POOLED_ALWAYS_INLINE thread_cache* enter() const noexcept {
        return detail::enter_cache(detail::find_recent(id()));
    }

private:
    map_entry m_entry;
};

// The part inside the gate that the hot block did not serve. Out of line and, for a deallocation, the last call, so the inlined
// part needs no stack frame; nor does an allocation from above the array's floor, as what is below has a function of its own. aligned: a
// burst took 6.9 to 7.3 ns a block instead of 7.1 to 8.2, depending on where the linker put the functions (AMD Zen 4).
// `at`: thread_cache::offset_of() the class.
template <sharing Sharing, bool IsBelowFloor = false>
POOLED_COLD_PART void* allocate_cold(thread_cache& cache, std::size_t at) noexcept {
    class_cache& one = cache.class_at(at);
    void* const block = IsBelowFloor ? one.pop_array() : one.pop_above_floor();
    if (!IsBelowFloor && block == nullptr) [[unlikely]]
        return allocate_cold<Sharing, true>(cache, at);
    if constexpr (Sharing == sharing::shared) cache.gate.leave();
    return block;
}
// IsAtStop: what is done at the array's stop, which needs more registers.
template <bool IsAtStop>
POOLED_COLD_PART void deallocate_cold(void* block, std::size_t at, thread_cache& cache) noexcept;
POOLED_ALWAYS_INLINE void deallocate_to_array(void* block, std::size_t at, thread_cache& cache) noexcept {
    if (!cache.class_at(at).push_cold_below_stop(block)) [[unlikely]]
        return detail::deallocate_cold<true>(block, at, cache);
    cache.gate.leave();
}
template <bool IsAtStop>
POOLED_COLD_PART void deallocate_cold(void* block, std::size_t at, thread_cache& cache) noexcept {
    if constexpr (!IsAtStop) return detail::deallocate_to_array(block, at, cache);
    if (cache.class_at(at).move_stop_cold(block)) [[likely]]
        return detail::deallocate_cold<false>(block, at, cache);
    std::uint32_t const pool_id = cache.pool_id;  // once the gate is open, the cache may not exist
    cache.gate.leave();
    detail::deallocate_past_cache(block, static_cast<class_index>(at / sizeof(class_cache)), pool_id);
}

// An instrument must see each call, but for the hardened build's: the inlined code then finds no cache, and calls the pool's core
// (pool/concrete_core.hpp).
inline constexpr bool k_has_cache = POOLED_CHECKED == 0 && POOLED_SANITIZE == 0;

// A block from the cache of the place, or null.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* pop_cached(Place const& place, class_index c) noexcept {
    if (!k_has_cache || c == k_large) return nullptr;
    thread_cache* cache = nullptr;
    if constexpr (Place::k_sharing == sharing::local) {
        if (place.core().is_incremental()) [[unlikely]]
            return nullptr;
        cache = &place.core().local_cache();
    } else if (cache = place.enter(); cache == nullptr) [[unlikely]] {
        return nullptr;
    }
    void* block = cache->classes[c].pop_hot();
    if (block == nullptr) [[unlikely]]
        block = detail::allocate_cold<Place::k_sharing>(*cache, thread_cache::offset_of(c));
    else if constexpr (Place::k_sharing == sharing::shared)
        cache->gate.leave();
    if constexpr (k_hardened)
        if (block != nullptr) hardened::claim(block);
    return block;
}

// Throws exhausted when the bound is reached, and what upstream throws.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_or_throw(Place const& place, class_index c,
                                                           std::size_t bytes, std::size_t align) {
    void* const block = detail::pop_cached(place, c);
    return block != nullptr ? block : allocate_slow_or_throw(place.known_core(), c, bytes, align);
}

// The block of an object whose control block or header shows that it is in use. `bytes`: the size with which it was allocated, or 0 if
// the caller does not know it.
template <class Place>
POOLED_ALWAYS_INLINE void deallocate_object(Place const& place, class_index c, void* p,
                                            std::size_t bytes) noexcept {
    if constexpr (!k_has_cache) return deallocate_slow(place.id(), c, p, bytes);
    if constexpr (k_hardened) free_mark::put_on(p);
    thread_cache* cache = nullptr;
    if constexpr (Place::k_sharing == sharing::local) {
        cache = &place.core().local_cache();
        if (cache->gate.is_closed()) [[unlikely]]
            return deallocate_past_cache(p, c, place.id());
    } else if (cache = place.enter(); cache == nullptr) [[unlikely]] {
        return deallocate_past_cache(p, c, place.id());
    }
    std::size_t const at = thread_cache::offset_of(c);
    class_cache* one = &cache->class_at(at);
    if (!__builtin_constant_p(at)) asm("" : "+r"(one));  // or compilers would add it up for each use
    if (!one->push_hot(p)) [[unlikely]]
        return deallocate_cold<false>(p, at, *cache);
    if constexpr (Place::k_sharing == sharing::shared) cache->gate.leave();
}

// Any block.
template <class Place>
POOLED_ALWAYS_INLINE void deallocate(Place const& place, class_index c, void* p,
                                     std::size_t bytes = 0) noexcept {
    if constexpr (k_hardened)
        if (!hardened::admits(place.id(), c, p)) [[unlikely]]
            return deallocate_slow(place.id(), c, p, bytes);
    detail::deallocate_object(place, c, p, bytes);
}

// Any size. Always inlined, so that a constant size is a class known at compile time: GCC 12 does it or not, depending on the rest of the
// source, and Clang does not.
template <class Place>
[[nodiscard]] POOLED_ALWAYS_INLINE void* allocate_bytes_or_throw(Place const& place, std::size_t bytes,
                                                                 std::size_t align) {
    return detail::allocate_or_throw(place, class_for(bytes, align), bytes, align);
}

// The same; null when the bound is reached, or upstream has no more memory.
template <class Place>
[[nodiscard]] inline void* try_allocate_bytes(Place const& place, std::size_t bytes, std::size_t align) {
    POOLED_TRY {
        class_index const c = class_for(bytes, align);
        void* const block = detail::pop_cached(place, c);
        return block != nullptr ? block : allocate_slow(place.known_core(), c, bytes, align);
    }
    POOLED_CATCH(std::bad_alloc const&) { return nullptr; }
}

template <class Place>
POOLED_ALWAYS_INLINE void deallocate_bytes(Place const& place, void* p, std::size_t bytes,
                                           std::size_t align) noexcept {
    class_index const c = class_for(bytes, align);
    if (c == k_large) [[unlikely]]
        return deallocate_slow(place.id(), c, p, bytes);
    detail::deallocate(place, c, p, bytes);
}

// Memory for objects that are made later: as pool_core::reserve(); throws exhausted when the bound does not allow it.
POOLED_API void reserve_classes(pool_core& core, block_request a, class_index b, std::size_t count);

// The calling thread uses a local pool from now on.
POOLED_API void adopt(pool_core const& core);

// A program with other settings than its libpooled has does not link: they are a part of names. This name says what to do.
POOLED_STATE(char, libpooled_is_missing_or_has_other_settings_see_docs_compiled_library_md, {});
#if !POOLED_HAS_CODE
POOLED_USED inline constexpr char* k_settings =
    &libpooled_is_missing_or_has_other_settings_see_docs_compiled_library_md;
#endif

// End of the declarations.
#if POOLED_HAS_CODE

// An attempt, and others as long as find_more() finds something. Null, or an exception: what the last one gave or threw.
template <class Attempt, class FindMore>
[[nodiscard]] void* allocate_with_relief(Attempt const& attempt, FindMore const& find_more) {
    for (;;) {
        POOLED_TRY {
            void* const block = attempt();
            if (block != nullptr || !find_more()) return block;
        }
        POOLED_CATCH(std::bad_alloc const&) {
            if (!find_more()) POOLED_RETHROW;
        }
    }
}

// A block of a foreign core, as pool_core::allocate_block(). If it has none, objects that are deferred in this copy are destroyed.
[[nodiscard]] POOLED_NOINLINE inline void* allocate_elsewhere(pool_core& core, block_request const& what) {
    t_state().use_own_gate();
    std::uint64_t seen = ~std::uint64_t{0};
    void* const block = detail::allocate_with_relief(
        [&] { return core.allocate_block(what); }, [&] { return detail::destroy_some_deferred(core, seen); });
    if (block == nullptr || detail::expect_foreign(block)) return block;
    detail::deallocate_elsewhere(block);
    POOLED_THROW(std::bad_alloc());
}

POOLED_CODE void* allocate_slow(pool_core* known, class_index c, std::size_t bytes, std::size_t align) {
    pool_core* const made = known != nullptr ? known : g_registry.find(k_default_pool_id);
    pool_core& core = made != nullptr ? *made : g_registry.default_core();
    block_request const what(c, bytes, align);
    checks::on_request(core, bytes, align);
    if (g_registry.is_foreign(core)) [[unlikely]]
        return allocate_elsewhere(core, what);
    return core.allocate_block(what);
}
POOLED_CODE void* allocate_slow_or_throw(pool_core* known, class_index c, std::size_t bytes,
                                         std::size_t align) {
    void* const block = allocate_slow(known, c, bytes, align);
    if (block == nullptr) (known != nullptr ? *known : g_registry.default_core()).throw_exhausted(bytes);
    return block;
}

// The core of the pool whose id the page map here has for a block; null when it does not know the block.
[[nodiscard]] inline pool_core* find_core(std::uint32_t pool_id) noexcept {
    return pool_id != k_no_pool_id ? g_registry.find(pool_id) : nullptr;
}

// cold: GCC otherwise guesses which class the virtual function is of, and each source that drops objects contains the heap.
[[gnu::cold]] POOLED_CODE void deallocate_slow(std::uint32_t pool_id, class_index c, void* p,
                                               std::size_t bytes) noexcept {
    pool_core* const core = find_core(pool_id);
    core != nullptr ? core->deallocate_block(c, p, bytes) : deallocate_elsewhere(p);
}
[[gnu::cold]] POOLED_CODE void deallocate_past_cache(void* block, class_index c,
                                                     std::uint32_t pool_id) noexcept {
    pool_core* const core = find_core(pool_id);
    core != nullptr ? core->deallocate_verified(c, block) : deallocate_elsewhere(block);
}

POOLED_CODE void reserve_classes(pool_core& core, block_request a, class_index b, std::size_t count) {
    checks::on_request(core, a.bytes, a.align);
    if (core.reserve(a, b, count)) return;
    std::size_t const bytes = a.c < k_first_large ? k_geometry[a.c].block_bytes : a.bytes;
    core.throw_exhausted(saturating_multiply(count, bytes));
}

POOLED_CODE void adopt([[maybe_unused]] pool_core const& core) { checks::on_adopt(core); }

POOLED_CODE void deallocate_found(void* p) noexcept {
    map_entry const entry = malloc_blocks::find(p);
    if (entry.empty()) [[unlikely]]
        return detail::deallocate_elsewhere(p);
    class_index const c = entry.slab_at()->size_class;
    if (c >= k_inlined_classes && c <= k_exact) [[unlikely]]
        return deallocate_slow(entry.pool_id(), k_large, p, 0);
    if (c > k_exact) [[unlikely]]
        malloc_blocks::report_no_block("?", p);
    if (entry.is_local())
        detail::deallocate(of_block<sharing::local>(entry), c, p);
    else
        detail::deallocate(of_block<sharing::shared>(entry), c, p);
}

#endif

POOLED_END_DETAIL
