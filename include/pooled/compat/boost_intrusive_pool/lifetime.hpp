// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a memorypool that deals with ends: of an item's use, of all items (clear), of the pool.
//
// When the pool lets go of an arena that still has items in use, the arena is orphaned: its free items are destroyed at once,
// each of the others when its last handle goes, and the arena with the last of them. Orphans keep the core alive.

#include "pooled/compat/boost_intrusive_pool/caches.hpp"
#include "pooled/compat/boost_intrusive_pool/core.hpp"
#include "pooled/compat/boost_intrusive_pool/growth.hpp"
#include "pooled/compat/boost_intrusive_pool/registry.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace memorypool {

namespace detail {

POOLED_NOINLINE inline void delete_item(item& it) noexcept { delete &it; }

// What is rare is called last, so that the common way needs no stack frame.
POOLED_NOINLINE inline void return_to_pool(item& it) noexcept {
    if (!it.is_in_memory_pool()) [[unlikely]]
        return delete_item(it);
    item_arena& arena = item_access::arena_of(it);
    item_core& core = *arena.home;
    core.check_thread();
    if (core.method() != RECYCLE_METHOD_NONE) [[unlikely]]
        return core.recycle(it, arena);
    core.put(it, arena);
}

// Calls what the user wants called. If the function takes a handle, the item stays in use.
POOLED_NOINLINE inline void item_core::recycle(item& it, item_arena& arena) noexcept {
    bool has_thrown = false;
    try {
        if (method() == RECYCLE_METHOD_DESTROY_FUNCTION)
            it.destroy();
        else if (!m_is_closed)
            call_function(it);  // belongs to the pool: not after that is gone
    } catch (...) {
        has_thrown = true;
    }
    std::atomic<std::uint32_t>& count = item_access::count(it);
    // acquire: pairs with the release of a handle that the function gave to another thread.
    if (count.load(std::memory_order_acquire) != 1) {
        if (count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        count.store(1, std::memory_order_relaxed);
    }
    item* const clean = has_thrown ? renew(it, arena) : &it;
    if (clean != nullptr) put(*clean, arena);
}

// A new item in the place of one that nobody knows the state of. If it cannot be constructed, the pool has one item less.
inline item* item_core::renew(item& it, item_arena& arena) noexcept {
    std::byte* const place = reinterpret_cast<std::byte*>(&it) - (m_layout.first - m_layout.header);
    destroy(it);
    try {
        return construct(place, 1, arena);
    } catch (...) {
        {
            section const all(*this, t_items.find(*this, m_number));
            if (!arena.is_orphaned) {
                ++arena.holes;
                ++m_holes;
                m_capacity.subtract(1);
                return nullptr;
            }
        }
        one_less(arena);
        return nullptr;
    }
}

inline void item_core::destroy_orphan(item& it, item_arena& arena) noexcept {
    destroy(it);
    one_less(arena);
}

inline void item_core::one_less(item_arena& orphan) noexcept {
    // acquire, release: who frees the arena comes after all who were in it.
    if (orphan.alive.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    delete_arena(orphan);
    drop_reference();
}

inline void item_core::drop_reference() noexcept {
    // acquire, release: who frees the core comes after all who used it.
    if (m_references.fetch_sub(1, std::memory_order_acq_rel) == 1) dispose();
}

// Requires `stopped`, and that nobody is growing. The pool has no items then.
inline item_core::contents item_core::take_contents() noexcept {
    collect_caches();
    contents const old{m_stock, m_arenas, m_stock.idle() == m_capacity && m_holes == 0};
    m_stock = item_stock();
    m_arenas = nullptr;
    m_capacity = 0;
    m_steps = 0;
    m_holes = 0;
    m_is_short_of_memory = false;
    set_limits();
    if (old.is_whole) return old;
    for (item_arena* arena = old.arenas; arena != nullptr; arena = arena->next) {
        arena->is_orphaned = true;
        // One more than it has: let_go() is not done with it.
        arena->alive.store(arena->made - arena->holes + 1, std::memory_order_relaxed);
        m_references.fetch_add(1, std::memory_order_relaxed);
    }
    return old;
}

// With no lock held: destructors run. The items of a pool with none in use are destroyed where they lie, one after the
// other, and their chains not followed.
inline void item_core::let_go(contents old) noexcept {
    if (!old.is_whole)
        old.idle.take_each(m_layout.first, m_layout.stride,
                           [this](item& it) { destroy_orphan(it, item_access::arena_of(it)); });
    while (item_arena* const arena = old.arenas) {
        old.arenas = arena->next;
        if (old.is_whole) {
            destroy_slots(slot(*arena, 0), arena->made);
            delete_arena(*arena);
        } else {
            one_less(*arena);
        }
    }
}

inline void item_core::clear() noexcept {
    contents old{};
    for (bool is_done = false; !is_done;) {
        std::uint32_t epoch = 0;
        {
            stopped const all(*this);
            POOLED_CHECK(
                m_grower != &t_items,
                "memorypool: clear() was called by the constructor of an item that the pool is making");
            is_done = m_grower == nullptr;
            if (is_done)
                old = take_contents();
            else
                ++m_waiting;
            epoch = m_epoch.load(std::memory_order_relaxed);
        }
        if (!is_done) await_growth(epoch);
    }
    let_go(old);
}

inline void item_core::close() noexcept {
    contents old{};
    g_item_registry.remove(*this, [&] {
        m_is_closed = true;
        old = take_contents();
    });
    let_go(old);
    drop_reference();
}

inline void item_core::check() noexcept {
    stopped const all(*this);
    std::size_t capacity = 0;
    for (item_arena const* arena = m_arenas; arena != nullptr; arena = arena->next) {
        bool const is_whole = arena->home == this && !arena->is_orphaned && arena->handed <= arena->made &&
                              arena->made <= arena->slots && arena->holes <= arena->made;
        POOLED_CHECK(is_whole, "memorypool: the head of an arena was overwritten");
        capacity += arena->made - arena->holes;
    }
    POOLED_CHECK(capacity == m_capacity, "memorypool: the pool's capacity is not that of its arenas");
    POOLED_CHECK(m_stock.idle() + idle_in_caches() <= capacity,
                 "memorypool: more items are free than there are");
    auto const look = [this](item& it) {
        bool const is_free = it.is_in_memory_pool() && item_access::arena_of(it).home == this &&
                             it.use_count() == item_access::k_idle_count;
        POOLED_CHECK(is_free,
                     "memorypool: a free item was overwritten, or used after its last handle had gone");
    };
    m_stock.for_each(m_layout.first, m_layout.stride, look);
    for (item_cache const* cache = m_caches; cache != nullptr; cache = cache->next)
        cache->for_each(m_layout.stride, look);
}

}  // namespace detail

// Not inlined: GCC 12 sees no arena in front of an item made by new, and warns.
POOLED_NOINLINE inline void boost_intrusive_pool_item::check() const {
    POOLED_CHECK(use_count() <= BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT,
                 "memorypool: an item has more handles than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT; it was "
                 "overwritten, or handles leak");
    bool const has_home = !is_in_memory_pool() || detail::item_access::arena_of(*this).home != nullptr;
    POOLED_CHECK(has_home, "memorypool: the place of an item in its pool was overwritten");
}

}  // namespace memorypool
