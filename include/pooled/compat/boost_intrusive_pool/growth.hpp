// SPDX-License-Identifier: BSL-1.0
#pragma once

// The part of a memorypool that makes items: a step at a time, all of it or nothing, with no lock held while the user's
// constructors run.
//
// Arenas are blocks of the default pool of up to 32 KiB, so a pool that is made and destroyed again and again meets warm
// memory. A step smaller than an arena uses up the slots of the last one first.

#include "pooled/base/bits.hpp"
#include "pooled/base/size_class.hpp"
#include "pooled/compat/boost_intrusive_pool/caches.hpp"
#include "pooled/compat/boost_intrusive_pool/core.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/os/platform.hpp"
#include "pooled/pool/default_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace memorypool::detail {

[[nodiscard]] inline bool is_available(std::size_t bytes) noexcept {
    if (bytes == pooled::detail::k_size_max) return false;
    void* const pages = platform::map_pages(bytes, platform::k_page_bytes);
    if (pages != nullptr) platform::unmap_pages(pages, bytes);
    return pages != nullptr;
}

// The items of a step in the making.
class item_core::step_of_items {
public:
    explicit step_of_items(item_core& core) noexcept : m_core(core) {}
    step_of_items(step_of_items const&) = delete;
    step_of_items& operator=(step_of_items const&) = delete;

    // Throws std::bad_alloc and what the constructors throw, and has then undone what it did.
    POOLED_ALWAYS_INLINE void make(std::size_t count) {
        try {
            make_each(count);
        } catch (...) {
            undo();
            throw;
        }
    }

    // Requires a section. They are taken in the order of their addresses, arena by arena.
    void hand_over() noexcept {
        if (m_core.m_layout.first == 0) m_core.m_layout.first = m_first;
        std::size_t count = m_in_old;
        if (m_in_old != 0) m_core.m_stock.add_fresh(*m_core.m_arenas, m_in_old);
        while (item_arena* const arena = m_new) {
            m_new = arena->next;
            arena->next = m_core.m_arenas;
            m_core.m_arenas = arena;
            count += arena->made;
            m_core.m_stock.add_fresh(*arena, std::exchange(arena->made, 0));
        }
        m_core.m_capacity.add(count);
    }

private:
    // All the memory first: when that fails nothing was constructed.
    POOLED_ALWAYS_INLINE void make_each(std::size_t count) {
        if (count >= m_core.m_large_step &&
            !is_available(pooled::detail::saturating_multiply(count, m_core.m_layout.stride)))
            throw std::bad_alloc();
        item_arena* const old = m_core.m_arenas;
        std::uint32_t const in_old = part_of(count, old != nullptr ? old->slots - old->made : 0);
        if (count != in_old) get_arenas(count - in_old);
        if (in_old != 0) construct(*old, in_old);
        m_in_old = in_old;
        count -= in_old;
        for (item_arena* arena = m_new; arena != nullptr; arena = arena->next) {
            std::uint32_t const here = part_of(count, arena->slots);
            construct(*arena, here);
            arena->made = here;
            count -= here;
        }
    }

    POOLED_NOINLINE void undo() noexcept {
        if (m_in_old != 0)
            m_core.destroy_slots(m_core.slot(*m_core.m_arenas, m_core.m_arenas->made), m_in_old);
        while (item_arena* const arena = m_new) {
            m_new = arena->next;
            m_core.destroy_slots(m_core.slot(*arena, 0), arena->made);
            m_core.delete_arena(*arena);
        }
    }

    [[nodiscard]] static std::uint32_t part_of(std::size_t count, std::uint32_t slots) noexcept {
        return static_cast<std::uint32_t>(std::min<std::size_t>(count, slots));
    }

    POOLED_NOINLINE void get_arenas(std::size_t count) {
        for (std::size_t left = count; left != 0;) {
            item_arena& arena = m_core.new_arena(left, m_core.m_capacity + count - left);
            (m_last != nullptr ? m_last->next : m_new) = &arena;
            m_last = &arena;
            left -= part_of(left, arena.slots);
        }
    }

    void construct(item_arena& arena, std::uint32_t count) {
        item const* const first = m_core.construct(m_core.slot(arena, arena.made), count, arena);
        if (m_core.m_layout.first != 0) return;
        m_first = static_cast<std::size_t>(reinterpret_cast<std::byte const*>(first) -
                                           reinterpret_cast<std::byte const*>(&arena)) -
                  arena.made * m_core.m_layout.stride;
    }

    item_core& m_core;
    std::size_t m_first = 0;     // see item_layout: known only once there is an object
    std::uint32_t m_in_old = 0;  // in slots that the pool's newest arena had left, from its `made` on
    item_arena* m_new = nullptr;
    item_arena* m_last = nullptr;
};

// What the next step makes; 0: the pool may not grow. A bounded pool that was cleared comes back to its initial size.
inline std::size_t item_core::next_step() const noexcept {
    std::size_t const capacity = m_capacity;
    std::size_t const wanted = m_limits.step == 0 && capacity == 0 ? m_limits.initial : m_limits.step;
    if (m_limits.max == BOOST_INTRUSIVE_POOL_NO_MAX_SIZE) return wanted;
    return std::min(wanted, m_limits.max - std::min(m_limits.max, capacity));
}

POOLED_ALWAYS_INLINE void item_core::end_growth(step_of_items* made, growth kind) noexcept {
    bool is_awaited = false;
    {
        section const all(*this, t_items.find(*this, m_number));
        if (made != nullptr) {
            made->hand_over();
            if (kind == growth::step) m_steps.add(1);
            if (m_sole == nullptr) set_limits();
        }
        m_grower = nullptr;
        is_awaited = m_waiting != 0;
        if (is_awaited) [[unlikely]] {
            m_waiting = 0;
            m_epoch.store(m_epoch.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
    }
    if (is_awaited) m_epoch.notify_all();
}

inline void item_core::grow(std::size_t count, growth kind) {
    step_of_items made(*this);
    try {
        made.make(count);
    } catch (std::bad_alloc const&) {
        m_is_short_of_memory = true;
        end_growth(nullptr, kind);
        throw;
    } catch (...) {
        end_growth(nullptr, kind);
        throw;
    }
    m_is_short_of_memory = false;
    end_growth(&made, kind);
}

// With the last free item in hand, which goes back if a constructor throws.
inline void item_core::grow_ahead(std::size_t count, item& found) {
    try {
        grow(count, growth::step);
    } catch (std::bad_alloc const&) {
        return;
    } catch (...) {
        put(found, item_access::arena_of(found));
        throw;
    }
}

// Room for `wanted` items, or for a part of them. While the pool is small and may grow, room for as many as it has
// `before`: a step of one item would else have an arena to itself.
inline item_arena& item_core::new_arena(std::size_t wanted, std::size_t before) {
    std::size_t const most =
        std::max<std::size_t>((pooled::detail::k_max_block_bytes - m_layout.header) / m_layout.stride, 1);
    std::size_t const ahead = m_limits.step == 0 ? 0 : before;
    std::size_t const slots = std::min(std::max(wanted, ahead), most);
    void* const memory =
        pooled::default_pool().allocate(m_layout.header + slots * m_layout.stride, m_layout.align);
    return *::new (memory) item_arena{.home = this, .slots = static_cast<std::uint32_t>(slots)};
}

inline void item_core::delete_arena(item_arena& arena) noexcept {
    pooled::default_pool().deallocate(&arena, m_layout.header + arena.slots * m_layout.stride,
                                      m_layout.align);
}

}  // namespace memorypool::detail
