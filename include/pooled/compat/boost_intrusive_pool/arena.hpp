// SPDX-License-Identifier: BSL-1.0
#pragma once

// The memory of a memorypool's items. A step of items is constructed completely or not at all.
//
//   item_arena, a block of the default pool, up to 32 KiB      | header | item | item | item | raw | raw |
//                                                                                     ▲ made
// A step uses up the raw slots of the newest arena first, so only that one has any.

#include "pooled/compat/boost_intrusive_pool/item.hpp"
#include "pooled/config.hpp"
#include "pooled/default_pool.hpp"
#include "pooled/detail/algorithm.hpp"
#include "pooled/detail/bits.hpp"
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
    bool is_orphaned = false;          // its pool no longer uses it: returned items are destroyed
    item_arena* next = nullptr;
};

// Default-initialises: writes nothing but what Item's constructor writes.
template <class Item>
item& construct_item(void* where, item_arena& arena) {
    item& it = *::new (where) Item;
    it.m_boost_intrusive_pool_owner = &arena;
    it.m_boost_intrusive_pool_refcount.set_idle();
    return it;
}

template <class Item>
class item_arenas {
public:
    // The maker of a growing_list. `may_grow`: the newest arena has space for as many items as exist; otherwise each step of one
    // item would have an arena of its own.
    item_arenas(item_home& home, bool may_grow) noexcept : m_home(home), m_may_grow(may_grow) {}

    void make(std::size_t count, std::size_t before) {
        refuse_more_than_there_is(count);
        for (;;) {
            if (m_first != nullptr)
                for (; count != 0 && m_first->built != m_first->slots; --count, ++m_first->built)
                    construct_item<Item>(next_slot(*m_first), *m_first);
            if (count == 0) return;
            std::size_t const most = pooled::detail::larger(count, m_may_grow ? before : 0);
            std::size_t const wanted = pooled::detail::smaller(most, k_most_slots);
            void* const memory = pooled::default_pool().allocate(bytes_of(wanted), k_align);
            m_first = ::new (memory) item_arena{.home = &m_home,
                                                .slots = static_cast<std::uint32_t>(wanted),
                                                .alive = static_cast<std::uint32_t>(wanted + 1),
                                                .next = m_first};
        }
    }

    // The newest first.
    void keep(void** out) noexcept {
        for (item_arena* a = m_first; a != nullptr && a->made != a->built; a = a->next) {
            for (std::uint32_t i = a->built; i != a->made; --i)
                *out++ = static_cast<item*>(slot(*a, i - 1));
            a->made = a->built;
        }
    }

    void undo() noexcept {
        while (m_first != nullptr && m_first->made == 0)
            destroy(*std::exchange(m_first, m_first->next));
        if (m_first != nullptr) destroy_from(*m_first, m_first->made);
    }

    void forget() noexcept {
        for (item_arena* each = m_first; each != nullptr; each = each->next)
            each->built = each->made;
    }

    // All arenas, the newest first; there are none then.
    [[nodiscard]] item_arena* take() noexcept { return std::exchange(m_first, nullptr); }

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
    [[nodiscard]] static Item* slot(item_arena& arena, std::size_t index) noexcept {
        auto* const where = reinterpret_cast<std::byte*>(&arena) + k_header + index * sizeof(Item);
        return std::launder(reinterpret_cast<Item*>(where));
    }

    // Prefetches an item to be made soon: without this, E4's bulk takes 1.2 to 1.9 times as long (Zen 4, Emerald Rapids).
    [[nodiscard]] static Item* next_slot(item_arena& arena) noexcept {
        auto const* const ahead = reinterpret_cast<std::byte const*>(&arena) + bytes_of(arena.built + 4);
        __builtin_prefetch(ahead, 1);
        __builtin_prefetch(ahead + pooled::detail::k_cache_line, 1);
        return slot(arena, arena.built);
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
