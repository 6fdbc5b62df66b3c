// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a memorypool's items. A step of items is constructed completely or not at all.
//
//   item_arena, a block of the default pool, up to 32 KiB      | header | raw | raw | item | item | item |
//                                                                                      ▲ made
// Items are constructed from the last to the first, which is linked last and therefore taken first. A step uses up the raw slots of the
// newest arena first, so only that one has any.

#include "pooled/compat/boost_intrusive_pool/item.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
#include "pooled/detail/recycle_node.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/os/platform.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace memorypool::inline POOLED_ABI_NAMESPACE::detail {

struct item_arena {
    item_home* home;
    std::uint32_t slots;
    std::uint32_t made = 0;            // slots in which an item was ever constructed
    std::uint32_t built = 0;           // the same, including the step under construction
    std::atomic<std::uint32_t> alive;  // slots - lost items + 1 while its pool uses it; later: items in it
    item_arena* next = nullptr;
};

// Default-initialises: writes nothing but what Item's constructor writes.
template <class Item>
item& construct_item(void* where, item_arena& arena) {
    item& it = *::new (where) Item;
    it.m_boost_intrusive_pool_owner = &arena;
    return it;
}

// One thread at a time.
template <class Item>
class item_arenas {
public:
    // `may_grow`: the newest arena has space for as many items as exist; otherwise each step of one item would have an arena of its
    // own.
    item_arenas(item_home& home, bool may_grow) noexcept : m_home(home), m_may_grow(may_grow) {}

    // A step of `count` items, which are pushed to `built`; to be ended by keep() or undo().
    void make(std::size_t count, pooled::detail::recycle_stack& built) {
        refuse_more_than_there_is(count);
        for (std::size_t left = count;;) {
            if (m_first != nullptr)
                for (; left != 0 && m_first->built != m_first->slots; --left, ++m_first->built)
                    built.push(
                        construct_item<Item>(next_slot(*m_first), *m_first).m_boost_intrusive_pool_refcount);
            if (left == 0) return;
            std::size_t const most = pooled::detail::larger(left, m_may_grow ? m_count : 0);
            std::size_t const wanted = pooled::detail::smaller(most, k_most_slots);
            void* const memory = pooled::default_pool().allocate(bytes_of(wanted), k_align);
            m_first = ::new (memory) item_arena{.home = &m_home,
                                                .slots = static_cast<std::uint32_t>(wanted),
                                                .alive = static_cast<std::uint32_t>(wanted + 1),
                                                .next = m_first};
        }
    }
    void keep() noexcept {
        for (item_arena* a = m_first; a != nullptr && a->made != a->built; a = a->next) {
            m_count += a->built - a->made;
            a->made = a->built;
        }
    }
    void undo() noexcept {
        while (m_first != nullptr && m_first->made == 0)
            destroy(*std::exchange(m_first, m_first->next));
        if (m_first != nullptr) destroy_from(*m_first, m_first->made);
    }
    // The step does not exist in this forked child: its items are lost, without a destructor.
    void forget() noexcept {
        for (item_arena* each = m_first; each != nullptr; each = each->next)
            each->built = each->made;
    }

    // Items that were made since take().
    [[nodiscard]] std::size_t count() const noexcept { return m_count; }
    // All arenas, the newest first; there are none then.
    [[nodiscard]] item_arena* take() noexcept {
        m_count = 0;
        return std::exchange(m_first, nullptr);
    }

    // Requires that no item in it is in use.
    static void destroy(item_arena& arena) noexcept {
        destroy_from(arena, 0);
        free(arena);
    }
    // In reverse, as an array. Item's own destructor, not a virtual call: it may be empty, and the loop with it.
    static void destroy_from(item_arena& arena, std::uint32_t first) noexcept {
        while (arena.built > first)
            slot(arena, --arena.built)->Item::~Item();
    }
    static void free(item_arena& arena) noexcept {
        pooled::default_pool().deallocate(&arena, bytes_of(arena.slots), k_align);
    }

private:
    static constexpr std::size_t k_align = pooled::detail::larger(alignof(Item), alignof(item_arena));
    static constexpr std::size_t k_header = pooled::detail::round_up(sizeof(item_arena), k_align);
    static constexpr std::size_t k_slots_bytes =
        pooled::detail::k_max_block_bytes -
        pooled::detail::smaller(k_header, pooled::detail::k_max_block_bytes);
    static constexpr std::size_t k_most_slots =
        pooled::detail::larger<std::size_t>(k_slots_bytes / sizeof(Item), 1);

    [[nodiscard]] static std::size_t bytes_of(std::size_t n) noexcept { return k_header + n * sizeof(Item); }
    // `index`: in the order of construction.
    [[nodiscard]] static std::byte* memory_at(item_arena& arena, std::size_t index) noexcept {
        return reinterpret_cast<std::byte*>(&arena) + bytes_of(arena.slots - 1 - index);
    }
    [[nodiscard]] static Item* slot(item_arena& arena, std::size_t index) noexcept {
        return std::launder(reinterpret_cast<Item*>(memory_at(arena, index)));
    }

    // Prefetches an item to be made soon: without this, E4's bulk takes 1.2 to 1.9 times as long (Zen 4, Emerald Rapids).
    [[nodiscard]] static void* next_slot(item_arena& arena) noexcept {
        std::byte* const next = memory_at(arena, arena.built);
        auto const ahead =
            reinterpret_cast<std::byte const*>(pooled::detail::address_of(next) - 4 * sizeof(Item));
        __builtin_prefetch(ahead, 1);
        __builtin_prefetch(ahead + pooled::detail::k_cache_line, 1);
        return next;
    }

    // Beyond 1 GiB the system is asked first for the whole amount. Arena by arena it would grant the memory, and kill the process
    // when it touches it.
    static void refuse_more_than_there_is(std::size_t count) {
        std::size_t const bytes = pooled::detail::saturating_multiply(count, sizeof(Item));
        if (bytes >= std::size_t{1} << 30 && !pooled::detail::platform::may_map(bytes))
            throw std::bad_alloc();
    }

    item_home& m_home;
    bool m_may_grow;
    item_arena* m_first = nullptr;
    std::size_t m_count = 0;
};

// Not inlined, so that the frequent path needs no stack frame. As in a hook, handles of itself in its destructor do not count.
POOLED_NOINLINE inline void delete_item(item& it) noexcept {
    it.m_boost_intrusive_pool_refcount.begin_hook();
    delete &it;
}

inline void return_to_pool(item& it) noexcept {
    item_arena* const arena = it.m_boost_intrusive_pool_owner;
    if (arena == nullptr) [[unlikely]]
        return delete_item(it);
    arena->home->take_back(it, *arena);
}

}  // namespace memorypool::inline POOLED_ABI_NAMESPACE::detail
