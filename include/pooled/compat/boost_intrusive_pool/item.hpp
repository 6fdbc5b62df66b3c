// SPDX-License-Identifier: BSL-1.0
#pragma once

// boost_intrusive_pool_item: the base class of what a memorypool::boost_intrusive_pool holds. It carries all that the pool
// and boost::intrusive_ptr need, so an item costs 24 bytes beyond what it is:
//
//   ┌──────────┬─────────────┬─────────────┬──────────────┐
//   │ vptr  8  │ count  4    │ place  4    │ next  8      │ user's members …
//   └──────────┴─────────────┴─────────────┴──────────────┘
//     count   handles in use; 1 while the item is idle, so taking and dropping it need not write it (0 with
//             BOOST_INTRUSIVE_POOL_DEBUG_CHECKS, so that a drop too many is seen)
//     place   distance to the start of its arena, in units of 8 bytes; 0: not of a pool, the last handle deletes it
//     next    while idle, the item below in its chain
//
// Handles may be copied and dropped by any thread. The last drop of an item with one handle takes no locked instruction:
// who holds the only handle is alone with the item.

#include "pooled/compat/boost_intrusive_pool/settings.hpp"
#include "pooled/config.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memorypool {

class boost_intrusive_pool_item;

namespace detail {

class item_core;
struct item_arena;
struct item_access;

// The last handle of `item` is gone: it goes back to its pool, or is deleted.
void return_to_pool(boost_intrusive_pool_item& item) noexcept;

}  // namespace detail

class boost_intrusive_pool_item {
public:
    boost_intrusive_pool_item() noexcept = default;
    virtual ~boost_intrusive_pool_item() = default;

    // Handles belong to an object, not to its value: a copy has none, and is of no pool.
    boost_intrusive_pool_item(boost_intrusive_pool_item const&) noexcept {}
    boost_intrusive_pool_item&
    operator=(boost_intrusive_pool_item const&) noexcept {  // NOLINT: nothing to assign
        return *this;
    }

    // Called when the last handle is gone, if the pool's method is RECYCLE_METHOD_DESTROY_FUNCTION. If it throws, the item is
    // destroyed and a new one constructed in its place.
    virtual void destroy() {}

    // How many handles there are. Exact when no other thread copies or drops one.
    [[nodiscard]] std::size_t use_count() const noexcept { return m_count.load(std::memory_order_relaxed); }

    // Whether it lives in a pool. False for one made by new, or on the stack.
    [[nodiscard]] bool is_in_memory_pool() const noexcept { return m_place != 0; }

    // Reports an item that was overwritten, or that has more than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT handles.
    void check() const;

private:
    friend struct detail::item_access;
    friend void intrusive_ptr_add_ref(boost_intrusive_pool_item const* item) noexcept;
    friend void intrusive_ptr_release(boost_intrusive_pool_item const* item) noexcept;

    mutable std::atomic<std::uint32_t> m_count{0};
    std::uint32_t m_place = 0;
    boost_intrusive_pool_item* m_next = nullptr;
};

static_assert(sizeof(boost_intrusive_pool_item) == 3 * sizeof(void*), "an item costs three words");

// What boost::intrusive_ptr finds by argument-dependent lookup.
inline void intrusive_ptr_add_ref(boost_intrusive_pool_item const* item) noexcept {
    [[maybe_unused]] std::uint32_t const before = item->m_count.fetch_add(1, std::memory_order_relaxed);
#if BOOST_INTRUSIVE_POOL_DEBUG_CHECKS
    POOLED_CHECK(before < BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT,
                 "memorypool: an item has more handles than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT; it was "
                 "overwritten, or handles leak");
#endif
}

inline void intrusive_ptr_release(boost_intrusive_pool_item const* item) noexcept {
    // acquire: pairs with the release in the decrement below; what other threads did through their handles is seen.
    std::uint32_t const count = item->m_count.load(std::memory_order_acquire);
#if BOOST_INTRUSIVE_POOL_DEBUG_CHECKS
    POOLED_CHECK(count != 0, "memorypool: a handle of an item is dropped that has none; it was overwritten");
#endif
    if (count != 1) {
        if (item->m_count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        item->m_count.store(1, std::memory_order_relaxed);  // an idle item has one, see above
    }
    detail::return_to_pool(const_cast<boost_intrusive_pool_item&>(*item));
}

namespace detail {

using item = boost_intrusive_pool_item;

// The pool's way to an item's private part.
struct item_access {
    static constexpr std::uint32_t k_idle_count = BOOST_INTRUSIVE_POOL_DEBUG_CHECKS ? 0 : 1;

    static void becomes_idle(item& it) noexcept {
        if constexpr (k_idle_count != 1) it.m_count.store(k_idle_count, std::memory_order_relaxed);
    }
    static void becomes_used(item& it) noexcept {
        if constexpr (k_idle_count != 1) it.m_count.store(1, std::memory_order_relaxed);
    }

    // Requires an item just constructed in a slot of the arena at `arena`.
    static void enter_pool(item& it, void const* arena) noexcept {
        it.m_place = static_cast<std::uint32_t>(
            (reinterpret_cast<std::byte const*>(&it) - static_cast<std::byte const*>(arena)) / 8);
        it.m_count.store(k_idle_count, std::memory_order_relaxed);
    }
    // Requires an item of a pool.
    [[nodiscard]] static item_arena& arena_of(item const& it) noexcept {
        auto* const here = const_cast<std::byte*>(reinterpret_cast<std::byte const*>(&it));
        return *reinterpret_cast<item_arena*>(here - std::size_t{it.m_place} * 8);
    }
    [[nodiscard]] static item*& next(item& it) noexcept { return it.m_next; }
    [[nodiscard]] static std::atomic<std::uint32_t>& count(item& it) noexcept { return it.m_count; }
};

}  // namespace detail

}  // namespace memorypool
