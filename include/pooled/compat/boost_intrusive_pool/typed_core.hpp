// SPDX-License-Identifier: BSL-1.0
#pragma once

// What item_core does not know: how items of one class are constructed and destroyed, and the user's recycle function.

#include "pooled/base/bits.hpp"
#include "pooled/compat/boost_intrusive_pool/core.hpp"
#include "pooled/compat/boost_intrusive_pool/growth.hpp"
#include "pooled/compat/boost_intrusive_pool/item.hpp"
#include "pooled/compat/boost_intrusive_pool/lifetime.hpp"
#include "pooled/compat/boost_intrusive_pool/registry.hpp"
#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/pool/default_pool.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <utility>

namespace memorypool::detail {

// An item that is known to be an Item. The base class may be virtual, then only the object knows where it begins.
template <class Item>
[[nodiscard]] POOLED_ALWAYS_INLINE Item* downcast(item* it) noexcept {
    if constexpr (requires { static_cast<Item*>(it); })
        return static_cast<Item*>(it);
    else
        return dynamic_cast<Item*>(it);
}

template <class Item>
class typed_core final : public item_core {
public:
    static constexpr std::size_t k_stride = sizeof(Item);

    // A pool with its initial items. Throws std::bad_alloc, and what Item's constructor throws.
    [[nodiscard]] static typed_core& create(pool_limits limits, recycle_method_e method,
                                            std::function<void(Item&)> function) {
        void* const memory = pooled::default_pool().allocate(sizeof(typed_core), alignof(typed_core));
        auto* const core = ::new (memory) typed_core(limits, method, std::move(function));
        g_item_registry.add(*core);
        try {
            core->make_initial();
        } catch (...) {
            core->close();
            throw;
        }
        return *core;
    }

    // Not while other threads drop handles.
    void set_method(recycle_method_e method, std::function<void(Item&)> function) noexcept {
        item_core::set_method(method);
        m_function = std::move(function);
    }

private:
    typed_core(pool_limits limits, recycle_method_e method, std::function<void(Item&)> function) noexcept
        : item_core(limits, k_layout, method), m_function(std::move(function)) {}
    ~typed_core() override = default;

    static constexpr std::size_t k_align = std::max(alignof(Item), alignof(item_arena));
    static constexpr item_layout k_layout{
        .first = 0,  // not known yet
        .header = pooled::detail::round_up(sizeof(item_arena), k_align),
        .stride = k_stride,
        .align = k_align,
    };

    item* construct(std::byte* slots, std::uint32_t count, item_arena& arena) override {
        std::uint32_t made = 0;
        item* first = nullptr;
        try {
            for (; made != count; ++made) {
                // Default-initialised: what Item's constructor does not write is not written.
                item* const it = ::new (static_cast<void*>(slots + made * k_stride)) Item;
                item_access::enter_pool(*it, &arena);
                if (made == 0) first = it;
            }
        } catch (...) {
            destroy_slots(slots, made);
            throw;
        }
        return first;
    }

    void destroy(item& it) noexcept override { std::destroy_at(downcast<Item>(&it)); }

    // In reverse, as an array. Item's own destructor, not a virtual call: it may be empty, and the loop with it.
    void destroy_slots(std::byte* slots, std::uint32_t count) noexcept override {
        while (count-- != 0)
            std::launder(reinterpret_cast<Item*>(slots + count * k_stride))->Item::~Item();
    }

    void call_function(item& it) override {
        if (m_function) m_function(*downcast<Item>(&it));
    }

    void dispose() noexcept override {
        this->~typed_core();
        pooled::default_pool().deallocate(this, sizeof(typed_core), alignof(typed_core));
    }

    std::function<void(Item&)> m_function;
};

}  // namespace memorypool::detail
