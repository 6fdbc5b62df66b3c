// SPDX-License-Identifier: BSL-1.0
#pragma once

// What a boost_intrusive_pool is behind its handle. It knows items by their base class; typed_core knows what they are.
//
//   item_cache (one a thread) ◀─ chains, runs ─▶ item_stock ◀─ steps of new items ─ arenas ◀─ the default pool's blocks
//
// Who may touch what:
//   a thread's own cache     inside its gate
//   everything               as a `section`: under m_mutex, or, while there is only one cache, inside that cache's gate.
//                            So a pool that one thread uses never runs a locked instruction. The next thread that comes
//                            ends this, with one barrier on every thread of the process
//   another thread's cache   under m_mutex with all gates stopped (a steal)
// No lock is held, and no gate passed, while a constructor, a destructor or a recycle function of the user runs.
//
// Invariants: capacity = Σ (made − holes) of the arenas
//             capacity − in use = idle = stock.idle + Σ idle of the caches
//             a thread leaves idle == 0 behind only when the pool cannot grow, or is growing
// Exact when no other thread is at work. take() and put() are O(1); a step of growth, a steal and clear() are O(items moved).

#include "pooled/base/atomics.hpp"
#include "pooled/base/geometry.hpp"
#include "pooled/compat/boost_intrusive_pool/settings.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/compat/boost_intrusive_pool/threads.hpp"
#include "pooled/config.hpp"
#include "pooled/os/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace memorypool::detail {

// What the user asked for.
struct pool_limits {
    std::size_t initial;
    std::size_t step;  // 0: bounded
    std::size_t max;   // BOOST_INTRUSIVE_POOL_NO_MAX_SIZE: none
};

// Where items lie in an arena: at first + i · stride from its start.
struct item_layout {
    std::size_t first;  // of the base class; the slots begin at `header`
    std::size_t header;
    std::size_t stride;
    std::size_t align;
};

// Beyond this a step asks the system first whether there is as much memory at all. It would else be had arena by arena, and
// the process be killed for touching it.
inline constexpr std::size_t k_large_step_bytes = std::size_t{1} << 30;

class item_core {
public:
    item_core(item_core const&) = delete;
    item_core& operator=(item_core const&) = delete;

    // A free item; null when there is none and the pool may not grow, or when it is asked by the constructor of an item
    // that it is making. Throws what growing throws; the pool is then as before. Only want of memory while growing ahead
    // is no failure yet: the last free item is given. `Stride` is the layout's, for the compiler to know.
    template <std::size_t Stride>
    [[nodiscard]] POOLED_ALWAYS_INLINE item* take() {
        check_thread();
        item_cache* const mine = t_items.find(*this, m_number);
        if (mine != nullptr && mine->door.enter()) [[likely]] {
            item* const it = mine->take_quickly(Stride);
            mine->door.leave();
            if (it != nullptr) [[likely]]
                return it;
        }
        return take_slow();
    }

    // Requires an item of the arena, no handle of which is left.
    POOLED_ALWAYS_INLINE void put(item& it, item_arena& arena) noexcept {
        item_access::becomes_idle(it);
        item_cache* const mine = t_items.find(*this, m_number);
        if (mine != nullptr && mine->door.enter()) [[likely]] {
            bool const is_put = !arena.is_orphaned && mine->put_quickly(it);
            mine->door.leave();
            if (is_put) [[likely]]
                return;
        }
        put_slow(it, arena);
    }

    // Items up front, once. Throws std::bad_alloc and what their constructors throw.
    void make_initial() {
        if (m_limits.initial != 0) grow(m_limits.initial, growth::initial);
    }

    // Lets go of all items: the free ones are destroyed, those in use when they are returned. Capacity is 0 then.
    void clear() noexcept;

    // The handle goes; the core follows when the last item was returned.
    void close() noexcept;

    // Not while other threads drop handles.
    void set_method(recycle_method_e method) noexcept { m_method = method; }
    [[nodiscard]] recycle_method_e method() const noexcept { return m_method; }

    [[nodiscard]] pool_limits const& limits() const noexcept { return m_limits; }
    [[nodiscard]] std::size_t capacity() const noexcept { return m_capacity; }
    [[nodiscard]] std::size_t steps() const noexcept { return m_steps; }
    [[nodiscard]] std::size_t idle() const noexcept;
    [[nodiscard]] bool is_exhausted() const noexcept;

    // Walks every structure, with all threads kept out, and reports what is wrong.
    void check() noexcept;

protected:
    item_core(pool_limits limits, item_layout layout, recycle_method_e method) noexcept
        : m_method(method),
          m_limits(limits),
          m_layout(layout),
          m_large_step(k_large_step_bytes / layout.stride) {}
    virtual ~item_core() = default;

    // Constructs items in `count` neighbouring slots, all or none, and returns the first.
    virtual item* construct(std::byte* slots, std::uint32_t count, item_arena& arena) = 0;
    virtual void destroy(item& it) noexcept = 0;
    virtual void destroy_slots(std::byte* slots, std::uint32_t count) noexcept = 0;
    virtual void call_function(item& it) = 0;
    virtual void dispose() noexcept = 0;

private:
    friend class item_registry;
    friend void return_to_pool(item& it) noexcept;
    class section;
    class stopped;
    class step_of_items;
    enum class growth : unsigned char { initial, step };

    [[nodiscard]] item* take_slow();
    void put_slow(item& it, item_arena& arena) noexcept;
    void await_growth(std::uint32_t epoch) const noexcept;
    void recycle(item& it, item_arena& arena) noexcept;
    [[nodiscard]] item* renew(item& it, item_arena& arena) noexcept;

    // Require a section.
    [[nodiscard]] item* find(item_cache* mine) noexcept;
    [[nodiscard]] item* find_in_caches(item_cache* mine) noexcept;
    [[nodiscard]] bool is_dry(item_cache const* mine) const noexcept;
    [[nodiscard]] std::size_t idle_in_caches() const noexcept;
    [[nodiscard]] std::size_t next_step() const noexcept;

    // Require m_mutex.
    void end_sole(item_cache const* mine) noexcept;
    void set_limits() noexcept;
    template <class Visit>
    void for_each_other_gate(Visit&& visit) noexcept;
    void stop_caches() noexcept;
    void resume_caches() noexcept;
    void collect_caches() noexcept;
    void link(item_cache& cache) noexcept;
    void unlink(item_cache& cache) noexcept;
    void retire(item_cache& cache) noexcept;

    // Require to be m_grower, or a pool that nobody else knows.
    void grow(std::size_t count, growth kind);
    void grow_ahead(std::size_t count, item& found);
    void end_growth(step_of_items* made, growth kind) noexcept;
    [[nodiscard]] item_arena& new_arena(std::size_t wanted, std::size_t before);
    void delete_arena(item_arena& arena) noexcept;

    struct contents {
        item_stock idle;
        item_arena* arenas;
        bool is_whole;  // no item is in use
    };
    [[nodiscard]] contents take_contents() noexcept;
    void let_go(contents old) noexcept;
    void destroy_orphan(item& it, item_arena& arena) noexcept;
    void one_less(item_arena& orphan) noexcept;
    void drop_reference() noexcept;

    void check_thread() noexcept {
#if BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS
        thread_state const* first = nullptr;
        POOLED_CHECK(
            m_first_thread.compare_exchange_strong(first, &t_items, std::memory_order_relaxed) ||
                first == &t_items,
            "memorypool: a second thread uses the pool, and BOOST_INTRUSIVE_POOL_DEBUG_THREAD_ACCESS is 1");
#endif
    }

    [[nodiscard]] std::byte* slot(item_arena& arena, std::size_t index) const noexcept {
        return reinterpret_cast<std::byte*>(&arena) + m_layout.header + index * m_layout.stride;
    }

    // What take() and put() read, and nobody writes while threads are at work.
    std::uint32_t m_number = 0;  // of the entry that threads keep for this pool
    observed<recycle_method_e> m_method;
    observed<item_cache*> m_sole;  // the only cache there is, until somebody else comes

    pool_limits const m_limits;
    item_layout m_layout;
    std::size_t const m_large_step;  // items of which the system is asked whether there is memory for so many

    alignas(pooled::detail::k_cache_line) observed<std::size_t> m_capacity;
    observed<std::size_t> m_steps;
    std::size_t m_holes = 0;
    item_stock m_stock;
    item_arena* m_arenas = nullptr;  // only the first may have raw slots

    thread_state const* m_grower = nullptr;  // who is constructing items, outside any lock
    std::uint32_t m_waiting = 0;             // threads that wait for the end of it
    std::atomic<std::uint32_t> m_epoch{0};   // changes then
    observed<bool> m_is_short_of_memory;     // the last step failed for want of it

    mutable pooled::detail::mutex m_mutex;
    std::uint32_t m_cache_count = 0;
    item_cache* m_caches = nullptr;
    observed<bool> m_is_closed;
    std::atomic<std::size_t> m_references{1};  // the handle, and each orphaned arena
    std::atomic<thread_state const*> m_first_thread{nullptr};
    item_core* m_next = nullptr;  // in the registry, guarded by its lock
    item_core* m_previous = nullptr;
};

// Excludes every other thread from all but its own cache, and steals from the caller's; see the top.
class item_core::section {
public:
    POOLED_ALWAYS_INLINE section(item_core& core, item_cache* mine) noexcept : m_core(core) {
        if (mine != nullptr && core.m_sole == mine && mine->door.enter()) [[likely]] {
            m_door = &mine->door;
            if (core.m_sole == mine) [[likely]]
                return;
            m_door->leave();
            m_door = nullptr;
        }
        lock(mine);
    }
    POOLED_ALWAYS_INLINE ~section() {
        if (m_door != nullptr) [[likely]]
            m_door->leave();
        else
            m_core.m_mutex.unlock();
    }
    section(section const&) = delete;
    section& operator=(section const&) = delete;

private:
    POOLED_NOINLINE void lock(item_cache const* mine) noexcept {
        m_core.m_mutex.lock();
        m_core.end_sole(mine);
    }

    item_core& m_core;
    gate<>* m_door = nullptr;
};

// Excludes every other thread from everything.
class item_core::stopped {
public:
    explicit stopped(item_core& core) noexcept : m_core(core) {
        core.m_mutex.lock();
        core.stop_caches();
    }
    ~stopped() {
        m_core.resume_caches();
        m_core.m_mutex.unlock();
    }
    stopped(stopped const&) = delete;
    stopped& operator=(stopped const&) = delete;

private:
    item_core& m_core;
};

}  // namespace memorypool::detail
