// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a boost_intrusive_pool is behind its handle: its free items, when it grows, and what becomes of an item that is dropped.
// It lies in a block of a pool_core of its own, whose thread caches it uses, and is destroyed when the pool is gone and the
// last item was returned.
//
// No lock is held while a function of the user runs or memory is allocated. One thread grows the pool at a time, m_grower:
// it alone touches m_arenas; everything else is guarded by the lock of m_free.
//
// Invariants: capacity − in use = what m_free has
//             a thread leaves no free item behind only when the pool cannot grow, or is growing
// take() and take_back(): O(1); a step of growth and clear(): O(items).

#include "pooled/base/atomics.hpp"
#include "pooled/compat/boost_intrusive_pool/arena.hpp"
#include "pooled/compat/boost_intrusive_pool/item.hpp"
#include "pooled/config.hpp"
#include "pooled/object/free_list.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/fast_path.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace memorypool::detail {

using pooled::detail::free_list;
using pooled::detail::g_registry;
using pooled::detail::observed;
using pooled::detail::t_state;
using pooled::detail::thread_cache;

struct pool_limits {
    std::size_t initial;
    std::size_t step;  // 0: bounded
    std::size_t max;   // BOOST_INTRUSIVE_POOL_NO_MAX_SIZE: none
};

template <class Item>
class item_stock final : public item_home, public pooled::detail::pool_extension {
public:
    using recycle_function = std::function<void(Item&)>;

    // With the initial items. Throws std::bad_alloc, and what Item's constructor throws.
    [[nodiscard]] static item_stock& create(pool_limits limits, recycle_method_e method,
                                            recycle_function&& function) {
        auto& core = g_registry.make({.name = "memorypool"}, pooled::detail::sharing::shared);
        void* const memory =
            pooled::detail::try_allocate_bytes(place(core), sizeof(item_stock), alignof(item_stock));
        if (memory == nullptr) {
            g_registry.close(core);
            throw std::bad_alloc();
        }
        auto& made = *::new (memory) item_stock(core, limits, method, std::move(function));
        core.set_extension(&made);
        try {
            if (limits.initial != 0) made.grow(limits.initial);
        } catch (...) {
            made.close();
            throw;
        }
        return made;
    }

    // The handle goes.
    void close() noexcept {
        m_is_closed = true;
        clear();
        g_registry.close(m_core);
        drop_reference();
    }

    // A free item; null when there is none and the pool may not grow, or when it is asked by the constructor of an item
    // that it is making. Throws what growing throws; the pool is then as before. Only want of memory while growing ahead
    // is no failure yet: the last free item is given.
    [[nodiscard]] POOLED_ALWAYS_INLINE Item* take() {
        check_thread();
        void* found = m_free.take_cached(m_spare);
        if (found == nullptr) [[unlikely]]
            if (found = take_slow(); found == nullptr) return nullptr;
        item& it = *static_cast<item*>(found);
        if constexpr (BOOST_INTRUSIVE_POOL_DEBUG_CHECKS != 0) check_idle(it);
        it.m_boost_intrusive_pool_refcount.set_used();
        return downcast(it);
    }

    void take_back(item& it, item_arena& arena) noexcept override {
        check_thread();
        if (m_method != RECYCLE_METHOD_NONE) [[unlikely]]
            return recycle(it, arena);
        put(it, arena);
    }

    // Lets go of all items: the free ones are destroyed, those in use when they are returned. Capacity is 0 then.
    void clear() noexcept {
        item_arena* arenas = nullptr;
        bool is_whole = false;
        std::unique_lock lock(m_free.mutex());
        while (m_grower != nullptr) {
            POOLED_CHECK(
                m_grower != &t_state,
                "memorypool: clear() was called by the constructor of an item that the pool is making");
            wait_for_growth(lock);
        }
        free_list::list const idle = m_free.take_all([&](std::size_t count) {
            arenas = m_arenas.take();
            is_whole = orphan_unless_whole(arenas, count);
        });
        m_steps = 0;
        m_is_short_of_memory = false;
        set_capacity(0);
        lock.unlock();
        if (!is_whole)
            for (void* const it : idle)
                destroy_orphan(*static_cast<item*>(it));
        while (item_arena* const arena = arenas) {
            arenas = arena->next;
            is_whole ? item_arenas<Item>::destroy(*arena) : one_less(*arena);
        }
    }

    // Not while other threads drop handles.
    void set_method(recycle_method_e method, recycle_function&& function) noexcept {
        m_method = method;
        m_function = std::move(function);
    }

    [[nodiscard]] pool_limits const& limits() const noexcept { return m_limits; }
    [[nodiscard]] std::size_t capacity() const noexcept { return m_capacity; }
    [[nodiscard]] std::size_t steps() const noexcept { return m_steps; }
    [[nodiscard]] std::size_t idle() noexcept {
        std::scoped_lock const lock(m_free.mutex());
        return std::min<std::size_t>(m_free.idle(), m_capacity);
    }
    [[nodiscard]] bool is_exhausted() noexcept {
        return idle() == 0 && (next_step() == 0 || m_is_short_of_memory);
    }

    // Reports counts that make no sense, and a damaged item that this thread would be given next.
    void check() noexcept {
        thread_cache* const mine = m_free.attach();
        std::scoped_lock const lock(m_free.mutex());
        POOLED_CHECK(m_free.room_for(m_capacity) == 0, "memorypool: the pool's counts were overwritten");
        if (void* const next = m_free.peek(mine)) check_idle(*static_cast<item*>(next));
    }

private:
    using place = pooled::detail::in_pool<pooled::detail::sharing::shared>;

    item_stock(pooled::detail::pool_core& core, pool_limits limits, recycle_method_e method,
               recycle_function&& function) noexcept
        : m_core(core), m_free(core), m_method(method), m_limits(limits), m_function(std::move(function)) {
        set_capacity(0);
    }
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
            void const* first = nullptr;
            bool const is_first = m_first_thread.compare_exchange_strong(first, &t_state);
            POOLED_CHECK(is_first || first == &t_state, "memorypool: a second thread uses the pool, and "
                                                        "BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS is 1");
        }
    }

    // Requires an item without a handle. Afterwards the pool may be gone.
    POOLED_ALWAYS_INLINE void put(item& it, item_arena& arena) noexcept {
        if (!m_free.put_cached(&it, arena.is_orphaned)) [[unlikely]]
            put_slow(it, arena);
    }

    // Who took the last item, or found none, makes more; others that find none wait for that.
    POOLED_NOINLINE void* take_slow() {
        if (void* const it = m_free.take_far(m_spare)) return it;
        thread_cache* const mine = m_free.attach();
        std::unique_lock lock(m_free.mutex());
        void* found = nullptr;
        for (;; wait_for_growth(lock)) {
            found = m_free.pop(mine, m_capacity);
            bool const is_enough = found != nullptr && (m_grower != nullptr || m_free.idle() != 0);
            if (is_enough || next_step() == 0 || m_grower == &t_state) return found;
            if (m_grower == nullptr) break;
        }
        m_grower = &t_state;
        std::size_t const step = next_step();
        lock.unlock();
        try {
            grow(step);
        } catch (std::bad_alloc const&) {
            m_is_short_of_memory = true;
            if (found == nullptr) throw;
        } catch (...) {
            if (found != nullptr)
                put_slow(*static_cast<item*>(found),
                         *static_cast<item*>(found)->m_boost_intrusive_pool_owner);
            throw;
        }
        return found != nullptr ? found : take_slow();
    }

    POOLED_NOINLINE void put_slow(item& it, item_arena& arena) noexcept {
        if (m_free.put_far(&it, arena.is_orphaned)) return;
        thread_cache* const mine = m_free.attach();
        {
            std::scoped_lock const lock(m_free.mutex());
            if (!arena.is_orphaned) return m_free.push(mine, &it, m_capacity);
        }
        destroy_orphan(it);
    }

    // Calls what the user wants called. If that takes a handle, the item stays in use; if it throws, nobody knows what
    // state the item is in, and another is constructed in its place.
    POOLED_NOINLINE void recycle(item& it, item_arena& arena) noexcept {
        bool has_thrown = false;
        it.m_boost_intrusive_pool_refcount.begin_hook();
        try {
            if (m_method == RECYCLE_METHOD_DESTROY_FUNCTION)
                it.destroy();
            else if (!m_is_closed)
                m_function(*downcast(it));  // belongs to the pool: not after that is gone
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
            lose_item(arena);
        }
    }
    void lose_item(item_arena& arena) noexcept {
        std::unique_lock lock(m_free.mutex());
        if (!arena.is_orphaned) set_capacity(m_capacity - 1);
        lock.unlock();
        one_less(arena);  // not the last: an arena that is not orphaned counts for one
    }

    // Without the lock, by m_grower, or before anybody else knows the pool.
    void grow(std::size_t count) {
        free_list::list room;
        try {
            m_arenas.make(*this, count, m_limits.step != 0 ? std::size_t{m_capacity} : 0);
            room.reserve(m_free.room_for(m_capacity + count));
        } catch (...) {
            m_arenas.undo();
            end_growth([] {});
            throw;
        }
        end_growth([&] {
            m_free.move_to(room);
            m_arenas.keep(m_free.add(count));
            m_steps.add(1);
            m_is_short_of_memory = false;
            set_capacity(m_capacity + count);
        });
    }
    template <class Function>
    void end_growth(Function&& last) noexcept {
        {
            std::scoped_lock const lock(m_free.mutex());
            last();
            m_grower = nullptr;
            m_growths.store(m_growths.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        m_growths.notify_all();
    }
    template <class Lock>
    void wait_for_growth(Lock& lock) noexcept {
        std::uint32_t const growths = m_growths.load(std::memory_order_relaxed);
        lock.unlock();
        m_growths.wait(growths, std::memory_order_relaxed);
        lock.lock();
    }

    // What the next step makes; 0: the pool may not grow. A bounded pool that was cleared comes back to its initial size.
    [[nodiscard]] std::size_t next_step() const noexcept {
        std::size_t const capacity = m_capacity;
        std::size_t const wanted = m_limits.step == 0 && capacity == 0 ? m_limits.initial : m_limits.step;
        if (m_limits.max == BOOST_INTRUSIVE_POOL_NO_MAX_SIZE) return wanted;
        return std::min(wanted, m_limits.max - std::min(m_limits.max, capacity));
    }
    void set_capacity(std::size_t capacity) noexcept {
        m_capacity = capacity;
        m_spare = next_step() != 0 ? 1 : 0;
    }

    // True when all that was made in the arenas is idle.
    [[nodiscard]] bool orphan_unless_whole(item_arena* first, std::size_t idle) noexcept {
        for (item_arena* arena = first; arena != nullptr; arena = arena->next)
            idle -= arena->made;
        for (item_arena* arena = idle != 0 ? first : nullptr; arena != nullptr; arena = arena->next) {
            arena->is_orphaned = true;
            m_references.fetch_add(1, std::memory_order_relaxed);
        }
        return idle == 0;
    }
    void destroy_orphan(item& it) noexcept {
        item_arena& arena = *it.m_boost_intrusive_pool_owner;
        std::destroy_at(downcast(it));
        one_less(arena);
    }
    void one_less(item_arena& arena) noexcept {
        // acquire, release: who frees the arena comes after all who were in it.
        if (arena.alive.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        item_arenas<Item>::free(arena);
        drop_reference();
    }
    void drop_reference() noexcept {
        // acquire, release: who destroys the stock comes after all who used it.
        if (m_references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        auto& core = m_core;
        core.set_extension(nullptr);
        this->~item_stock();
        pooled::detail::deallocate_bytes(place(core), this, sizeof(item_stock), alignof(item_stock));
    }

    void on_retire(thread_cache& cache) noexcept override { m_free.retire(cache); }
    void after_fork_in_child() noexcept override {
        if (m_grower != &t_state) m_grower = nullptr;
    }

    pooled::detail::pool_core& m_core;
    free_list m_free;
    observed<recycle_method_e> m_method;
    observed<std::uint32_t> m_spare;  // of a cache, for take_slow(): 1 while the pool may grow
    observed<bool> m_is_closed;
    observed<bool> m_is_short_of_memory;  // the last step failed for want of it
    pool_limits const m_limits;
    recycle_function m_function;
    observed<std::size_t> m_capacity;
    observed<std::size_t> m_steps;
    item_arenas<Item> m_arenas;
    void const* m_grower = nullptr;            // the thread that constructs items, outside any lock
    std::atomic<std::uint32_t> m_growths{0};   // that ended
    std::atomic<std::size_t> m_references{1};  // the handle, and each orphaned arena
    std::atomic<void const*> m_first_thread{nullptr};
};

}  // namespace memorypool::detail
