// SPDX-License-Identifier: BSL-1.0
#pragma once

// boost_intrusive_pool_item: the base class of the items of a memorypool::boost_intrusive_pool, and the macros that a user may set:
// before the first include, the same way in every translation unit. An item takes 24 bytes beyond its own members:
//
//   | vptr 8 | owner 8 | count 4, generation 4 | user's members …
//
// Handles may be copied and dropped by any thread. The drop of an item's only handle runs no locked instruction.

#include "pooled/config.hpp"
#include "pooled/detail/recycle_node.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

#ifndef BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE
#define BOOST_INTRUSIVE_POOL_DEFAULT_POOL_SIZE 64  // items constructed at the start
#endif
#ifndef BOOST_INTRUSIVE_POOL_INCREASE_STEP
#define BOOST_INTRUSIVE_POOL_INCREASE_STEP 64  // items constructed when the last free one is taken
#endif
#ifndef BOOST_INTRUSIVE_POOL_NO_MAX_SIZE
#define BOOST_INTRUSIVE_POOL_NO_MAX_SIZE 0  // no limit to the number of items
#endif
// 1: checks for corruption at every copy and drop of a handle, and of every item that is taken.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_CHECKS
#ifdef NDEBUG
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 0
#else
#define BOOST_INTRUSIVE_POOL_DEBUG_CHECKS 1
#endif
#endif
// 1: a pool reports the second thread that takes an item or drops the last handle of one, although that is allowed.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS
#define BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS 0
#endif
// More handles of one item than this are reported as corruption.
#ifndef BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT
#define BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT 1000000
#endif

namespace memorypool::inline POOLED_ABI_NAMESPACE {

// The function to call on an item whose last handle is gone, before it is free again.
enum recycle_method_e {
    RECYCLE_METHOD_NONE,              // nothing
    RECYCLE_METHOD_DESTROY_FUNCTION,  // the item's virtual destroy()
    RECYCLE_METHOD_CUSTOM_FUNCTION,   // the function that was given to the pool
};

class boost_intrusive_pool_item;
namespace detail {

using item = boost_intrusive_pool_item;

// A pool, as its items see it.
struct item_home {
    // The last handle of an item is gone. Afterwards the pool may be, too.
    virtual void take_back(item& it) noexcept = 0;

protected:
    ~item_home() = default;
};

// Handles of an item. The highest bit is set while a hook runs on the item (init(), destroy(), a function of the user), which
// postpones its recycling until the hook returns. An idle item keeps the count 1, so that taking and dropping it need not write
// it; 0 with BOOST_INTRUSIVE_POOL_DEBUG_CHECKS, so that a drop too many is seen.
class handle_count : public pooled::detail::recycle_node {
public:
    static constexpr std::uint32_t k_idle = BOOST_INTRUSIVE_POOL_DEBUG_CHECKS ? 0 : 1;

    operator std::size_t() const noexcept {
        return is_linked() ? 0 : now() & ~k_hook;
    }  // NOLINT: reads as a number
    void add() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
    // True if that was the last one: the item is then idle and belongs to the caller.
    [[nodiscard]] bool drop() noexcept {
        // acquire: pairs with the release in the decrement; this thread sees what others did through their handles.
        std::uint32_t const before = count.load(std::memory_order_acquire);
        if (before != 1 && count.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
        if (before != k_idle) write(k_idle);
        return true;
    }
    // Requires that no other thread uses the item.
    [[nodiscard]] bool is_idle() const noexcept { return now() == k_idle; }
    void set_used() noexcept {
        if constexpr (k_idle != 1) write(1);
    }
    void begin_hook() noexcept { write(k_hook); }
    // The caller has `mine` handles besides those that the hook kept. False if none is left: the item is idle, and the caller's.
    [[nodiscard]] bool end_hook(std::uint32_t mine) noexcept {
        // acquire: pairs with the release of a handle that the hook gave to another thread.
        if (count.load(std::memory_order_acquire) == k_hook)
            write(mine);
        else if (count.fetch_sub(k_hook - mine, std::memory_order_acq_rel) != k_hook - mine)
            return true;
        if (mine == 0) write(k_idle);
        return mine != 0;
    }

private:
    static constexpr std::uint32_t k_hook = std::uint32_t{1} << 31;
    [[nodiscard]] std::uint32_t now() const noexcept { return count.load(std::memory_order_relaxed); }
    void write(std::uint32_t n) noexcept { count.store(n, std::memory_order_relaxed); }
};

}  // namespace detail

class boost_intrusive_pool_item {
public:
    boost_intrusive_pool_item() noexcept = default;
    virtual ~boost_intrusive_pool_item() = default;
    // Handles belong to an object, not to its value: a copy has none, and belongs to no pool.
    boost_intrusive_pool_item(boost_intrusive_pool_item const&) noexcept {}
    auto& operator=(boost_intrusive_pool_item const&) noexcept { return *this; }  // NOLINT: assigns nothing
    // Called when the last handle is gone, if the pool's method is RECYCLE_METHOD_DESTROY_FUNCTION.
    virtual void destroy() {}
    // The number of handles.
    [[nodiscard]] std::size_t use_count() const noexcept { return m_boost_intrusive_pool_refcount; }
    // Whether it belongs to a pool. False for an item from new, or on the stack.
    [[nodiscard]] bool is_in_memory_pool() const noexcept { return m_boost_intrusive_pool_owner != nullptr; }
    // Reports an item that was overwritten, or that has more than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT handles.
    void check() const {
        POOLED_CHECK(use_count() <= BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT,
                     "memorypool: an item has more handles than BOOST_INTRUSIVE_POOL_DEBUG_MAX_REFCOUNT; it "
                     "was overwritten, or handles leak");
    }
    // Public as in the original, and for reading only. `next` is always null, as it is there while an item is in use.
    static constexpr boost_intrusive_pool_item* m_boost_intrusive_pool_next = nullptr;
    detail::item_home* m_boost_intrusive_pool_owner = nullptr;
    mutable detail::handle_count m_boost_intrusive_pool_refcount;
};
static_assert(sizeof(boost_intrusive_pool_item) == 2 * sizeof(void*) + sizeof(detail::handle_count));

namespace detail {

// Not inlined, so that the frequent path needs no stack frame. As in a hook, handles of itself in its destructor do not count.
POOLED_NOINLINE inline void delete_item(item& it) noexcept {
    it.m_boost_intrusive_pool_refcount.begin_hook();
    delete &it;
}

}  // namespace detail

// What boost::intrusive_ptr finds by argument-dependent lookup.
inline void intrusive_ptr_add_ref(boost_intrusive_pool_item const* item) noexcept {
    item->m_boost_intrusive_pool_refcount.add();
    if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) item->check();
}

inline void intrusive_ptr_release(boost_intrusive_pool_item const* item) noexcept {
    if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0)
        POOLED_CHECK(item->use_count() != 0,
                     "memorypool: a handle of an item without handles is dropped; it was overwritten");
    if (!item->m_boost_intrusive_pool_refcount.drop()) return;
    auto& it = const_cast<boost_intrusive_pool_item&>(*item);
    if (it.is_in_memory_pool()) [[likely]]
        it.m_boost_intrusive_pool_owner->take_back(it);
    else
        detail::delete_item(it);
}

}  // namespace memorypool::inline POOLED_ABI_NAMESPACE
