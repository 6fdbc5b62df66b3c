// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a boost_intrusive_pool that outlives its handle: which items are free, and what happens to a dropped one. It lives
// until the pool is gone and the last item was returned. No lock is held while a function of the user runs.

#include "pooled/compat/boost_intrusive_pool/arena.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/own_core.hpp"
#include "pooled/impl/object/growing_list.hpp"
#include "pooled/impl/pool/extension.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace memorypool::inline POOLED_ABI_NAMESPACE::detail {

using pooled::detail::growth_limits;
using pooled::detail::observed;
using own_core = pooled::detail::own_core<pooled::detail::sharing::shared>;

template <class Item>
class item_stock final : public item_home, public pooled::detail::pool_extension {
public:
    using recycle_function = std::function<void(Item&)>;

    // With the initial items. Throws std::bad_alloc, and what Item's constructor throws.
    [[nodiscard]] static auto& create(growth_limits limits, recycle_method_e method,
                                      recycle_function&& function) {
        auto& made = own_core::make<item_stock>({.name = "memorypool"}, limits, method, std::move(function));
        try {
            made.m_items.make_initial();
        } catch (...) {
            made.close();
            throw;
        }
        return made;
    }

    // The pool's handle is destroyed.
    void close() noexcept {
        m_is_closed = true;
        clear();
        m_core.close();
        drop_reference();
    }

    // A free item with one handle, which the caller owns. Returns null and throws as growing_list::take() does.
    [[nodiscard]] POOLED_ALWAYS_INLINE Item* take() {
        check_thread();
        auto* const it = static_cast<item*>(m_items.take());
        if (it == nullptr) return nullptr;
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) check_idle(*it);
        it->m_boost_intrusive_pool_refcount.set_used();
        return downcast(*it);
    }

    void take_back(item& it, item_arena& arena) noexcept override {
        check_thread();
        m_method == RECYCLE_METHOD_NONE ? put(it, arena) : recycle(it, arena);
    }

    // Gives up all items: destroys the free ones; those in use are destroyed when they are returned.
    void clear() noexcept {
        item_arena* arenas = nullptr;
        bool is_whole = false;  // nothing is in use
        auto const idle = m_items.take_all([&](item_arenas<Item>& all, std::size_t count) {
            arenas = all.take();
            for (item_arena const* each = arenas; each != nullptr; each = each->next)
                count -= each->made;
            is_whole = count == 0;
            for (item_arena* each = is_whole ? nullptr : arenas; each != nullptr; each = each->next) {
                each->is_orphaned = true;
                m_references.fetch_add(1, std::memory_order_relaxed);
            }
        });
        if (!is_whole)
            for (void* const it : idle)
                destroy_orphan(*static_cast<item*>(it));
        while (item_arena* const arena = arenas) {
            arenas = arena->next;
            is_whole ? item_arenas<Item>::destroy(*arena)
                     : count_less(*arena, arena->slots - arena->made + 1);
        }
    }

    // Must not run while other threads drop handles.
    void set_method(recycle_method_e method, recycle_function&& function) noexcept {
        m_method = method;
        m_function = std::move(function);
    }

    void check() noexcept {
        m_items.check([](void* next) { check_idle(*static_cast<item*>(next)); });
    }
    [[nodiscard]] auto& items() noexcept { return m_items; }

private:
    friend own_core;

    item_stock(pooled::detail::pool_core& core, growth_limits limits, recycle_method_e method,
               recycle_function&& function) noexcept
        : m_core(core),
          m_items(core, limits, item_arenas<Item>(*this, limits.step != 0)),
          m_method(method),
          m_function(std::move(function)) {}
    ~item_stock() = default;

    // An item that is known to be an Item. The base class may be virtual, then only the object knows where it begins.
    [[nodiscard]] static POOLED_ALWAYS_INLINE Item* downcast(item& it) noexcept {
        if constexpr (requires { static_cast<Item*>(&it); })
            return static_cast<Item*>(&it);
        else
            return dynamic_cast<Item*>(&it);
    }

    static void check_idle(item const& it) noexcept {
        bool const is_idle = it.is_in_memory_pool() && it.m_boost_intrusive_pool_refcount.is_idle();
        POOLED_CHECK(is_idle,
                     "memorypool: a free item was overwritten, or used after its last handle had gone");
    }
    void check_thread() noexcept {
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS != 0) {
            void const* const me = &pooled::detail::t_state;
            void const* first = nullptr;
            bool const is_first = m_thread.compare_exchange_strong(first, me) || first == me;
            POOLED_CHECK(is_first, "memorypool: a second thread uses the pool, and "
                                   "BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS is 1");
        }
    }

    // Requires an item without a handle. Afterwards the pool may be gone.
    POOLED_ALWAYS_INLINE void put(item& it, item_arena& arena) noexcept {
        if (!m_items.put_cached(&it, arena.is_orphaned)) [[unlikely]]
            put_slow(it, arena);
    }
    // Not inlined, so that the frequent path needs no stack frame.
    POOLED_NOINLINE void put_slow(item& it, item_arena& arena) noexcept {
        if (!m_items.put_slow(&it, arena.is_orphaned)) destroy_orphan(it);
    }

    // Calls the user's hook. If it keeps a handle, the item stays in use; if it throws, the item's state is unknown, and another is
    // constructed in its place.
    POOLED_NOINLINE void recycle(item& it, item_arena& arena) noexcept {
        bool has_thrown = false;
        it.m_boost_intrusive_pool_refcount.begin_hook();
        try {
            if (m_method == RECYCLE_METHOD_DESTROY_FUNCTION)
                it.destroy();
            else if (!m_is_closed)
                m_function(*downcast(it));  // belongs to the pool: not called after the pool is gone
        } catch (...) {
            has_thrown = true;
        }
        if (it.m_boost_intrusive_pool_refcount.end_hook(0)) return;
        if (!has_thrown) return put(it, arena);
        Item* const where = downcast(it);
        std::destroy_at(where);
        try {
            put(construct_item<Item>(where, arena), arena);
        } catch (...) {
            m_items.lose(arena.is_orphaned);
            count_less(arena, 1);
        }
    }

    void destroy_orphan(item& it) noexcept {
        item_arena& arena = *it.m_boost_intrusive_pool_owner;
        std::destroy_at(downcast(it));
        count_less(arena, 1);
    }
    void count_less(item_arena& arena, std::uint32_t n) noexcept {
        // acquire, release: the thread that frees the arena comes after all that used it.
        if (arena.alive.fetch_sub(n, std::memory_order_acq_rel) != n) return;
        item_arenas<Item>::free(arena);
        drop_reference();
    }
    void drop_reference() noexcept {
        // acquire, release: the thread that destroys the stock comes after all that used it.
        if (m_references.fetch_sub(1, std::memory_order_acq_rel) == 1) own_core::destroy(*this, m_core);
    }
    void on_retire(pooled::detail::thread_cache& cache) noexcept override { m_items.on_retire(cache); }
    void after_fork_in_child() noexcept override { m_items.after_fork_in_child(); }

    pooled::detail::pool_core& m_core;
    pooled::detail::growing_list<item_arenas<Item>> m_items;
    observed<recycle_method_e> m_method;
    observed<bool> m_is_closed;
    recycle_function m_function;
    std::atomic<std::size_t> m_references{1};  // the handle, and each orphaned arena
    std::atomic<void const*> m_thread{nullptr};
};

}  // namespace memorypool::inline POOLED_ABI_NAMESPACE::detail
