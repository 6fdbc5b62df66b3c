// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a boost_intrusive_pool that outlives its handle: a list of items, and what happens to a dropped one. It lives until the
// pool is gone and the last item was returned. No lock is held while a function of the user runs.

#include "pooled/compat/boost_intrusive_pool/arena.hpp"
#include "pooled/config.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/own_core.hpp"
#include "pooled/detail/recycle_list.hpp"
#include "pooled/impl/object/recycle_operations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <utility>

namespace memorypool::inline POOLED_ABI_NAMESPACE::detail {

using pooled::detail::observed;
using pooled::detail::recycle_stack;
using pooled::detail::sharing;
using own_core = pooled::detail::own_core<sharing::shared>;

struct growth_limits {
    std::size_t initial;
    std::size_t step;  // 0: at most `initial`
    std::size_t max;   // 0: none

    [[nodiscard]] pooled::detail::recycle_limits for_list() const noexcept {
        std::size_t const most = step == 0 ? initial : (std::numeric_limits<std::size_t>::max)();
        return {.bound = max != 0 ? pooled::detail::smaller(max, most) : most,
                .growth = step,
                .initial = initial,
                .grows_early = true,
                .node_at = sizeof(item) - sizeof(handle_count),  // the last member
                .idle_count = handle_count::k_idle};
    }
};

template <class Item>
class item_stock final : public item_home, public pooled::detail::recycle_list {
public:
    using recycle_function = std::function<void(Item&)>;

    // With the initial items. Throws std::bad_alloc, and what Item's constructor throws.
    [[nodiscard]] static auto& create(growth_limits limits, recycle_method_e method,
                                      recycle_function&& function) {
        auto& made = own_core::make<item_stock>({.name = "memorypool"}, limits, method, std::move(function));
        try {
            if (std::size_t const count = made.set_aside(limits.initial)) made.grow(count, nullptr);
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
        static_cast<void>(recycle_list::close());  // no item is left
        core().close();
        drop_reference();
    }

    // A free item with one handle, which the caller owns. Null when there is none and no step may be made, or when a constructor of an
    // item calls. Throws what a step throws; the list is then unchanged. A step that runs out of memory is not yet a failure while one
    // item is left.
    [[nodiscard]] POOLED_ALWAYS_INLINE Item* take() {
        check_thread();
        void* p = this->template pop<sharing::shared, true>();
        if (p == nullptr) [[unlikely]] {
            p = take_slow();
            if (p == nullptr) return nullptr;
        }
        item& it = *static_cast<item*>(p);
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) check_idle(it);
        it.m_boost_intrusive_pool_refcount.set_used();
        return downcast(it);
    }

    void take_back(item& it, item_arena& arena) noexcept override {
        check_thread();
        m_method == RECYCLE_METHOD_NONE ? put_back(it) : recycle(it, arena);
    }

    // Gives up all items: destroys the free ones; those in use are destroyed when they are returned.
    void clear() noexcept {
        recycle_stack idle = take_idle(in_use::disown);
        bool const is_whole = idle.size() == m_arenas.count();  // nothing is in use, and nothing was lost
        item_arena* arenas = m_arenas.take();
        for (item_arena const* each = is_whole ? nullptr : arenas; each != nullptr; each = each->next)
            m_references.fetch_add(1, std::memory_order_relaxed);
        m_steps = 0;
        m_is_short_of_memory = false;
        add({}, 0);
        if (!is_whole)
            while (void* const p = object_of(idle.pop()))
                destroy_orphan(*static_cast<item*>(p));
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
        inspect_next([](recycle_list const& list, void const* p) {
            item const& it = *static_cast<item const*>(p);
            // Under the lock: clear() changes the list's generation.
            check_idle(it, it.m_boost_intrusive_pool_refcount.generation == list.generation());
        });
    }
    [[nodiscard]] growth_limits const& limits() const noexcept { return m_item_limits; }
    [[nodiscard]] std::size_t steps() const noexcept { return m_steps; }
    // No item is free, and no step may be made, or there was no memory for the last one.
    [[nodiscard]] bool is_exhausted() noexcept {
        return is_used_up() || (m_is_short_of_memory && count().idle == 0);
    }

private:
    friend own_core;

    item_stock(pooled::detail::pool_core& core, growth_limits limits, recycle_method_e method,
               recycle_function&& function) noexcept
        : recycle_list(core, limits.for_list()),
          m_item_limits(limits),
          m_arenas(*this, limits.step != 0),
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

    static void check_idle(item const& it, bool is_of_list = true) noexcept {
        bool const is_idle =
            is_of_list && it.is_in_memory_pool() && it.m_boost_intrusive_pool_refcount.is_idle();
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

    POOLED_NOINLINE void* take_slow() {
        for (;;) {
            auto const g = recycle_list::take();
            if (g.to_build == 0) return g.object;
            grow(g.to_build, g.object);
            if (g.object != nullptr) return g.object;
        }
    }
    // By the one thread that builds, which has `found` or null. Throws what a step throws, but for std::bad_alloc if there is `found`;
    // that is put back otherwise.
    void grow(std::size_t count, void* found) {
        recycle_stack built;
        try {
            m_arenas.make(count, built);
        } catch (std::bad_alloc const&) {
            m_arenas.undo();
            m_is_short_of_memory = true;
            add({}, count);
            if (found == nullptr) throw;
            return;
        } catch (...) {
            m_arenas.undo();
            add({}, count, found);
            throw;
        }
        m_arenas.keep();
        m_steps.add(1);
        m_is_short_of_memory = false;
        add(std::move(built), 0);
    }

    // Requires an item without a handle. Afterwards the pool may be gone.
    POOLED_ALWAYS_INLINE void put_back(item& it) noexcept {
        if (!this->template push<sharing::shared>(&it, it.m_boost_intrusive_pool_refcount)) [[unlikely]]
            put_slow(it);
    }
    // Not inlined, so that the frequent path needs no stack frame.
    POOLED_NOINLINE void put_slow(item& it) noexcept {
        if (!put(&it)) destroy_orphan(it);
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
        if (!has_thrown) return put_back(it);
        std::uint32_t const generation = it.m_boost_intrusive_pool_refcount.generation;
        Item* const where = downcast(it);
        std::destroy_at(where);
        try {
            item& again = construct_item<Item>(where, arena);
            again.m_boost_intrusive_pool_refcount.set(handle_count::k_idle, generation);
            put_back(again);
        } catch (...) {
            lose(generation);
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
        if (m_references.fetch_sub(1, std::memory_order_acq_rel) == 1) own_core::destroy(*this, core());
    }
    void after_fork_in_child() noexcept override {
        if (forget_builder()) m_arenas.forget();
    }

    growth_limits const m_item_limits;
    item_arenas<Item> m_arenas;
    observed<std::size_t> m_steps;
    observed<bool> m_is_short_of_memory;  // the last step failed because memory ran out
    observed<recycle_method_e> m_method;
    observed<bool> m_is_closed;
    recycle_function m_function;
    std::atomic<std::size_t> m_references{1};  // the handle, and each orphaned arena
    std::atomic<void const*> m_thread{nullptr};
};

}  // namespace memorypool::inline POOLED_ABI_NAMESPACE::detail
