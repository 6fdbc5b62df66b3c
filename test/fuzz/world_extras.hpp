// SPDX-License-Identifier: BSL-1.0
#pragma once

// What extended inputs do besides: arrays of every handle, containers, pools on another pool, hooks, deferred objects in other
// hands, object pools that are destroyed before their objects, and a unique_ptr that becomes an rc_ptr.

#include "fuzz/world.hpp"

#include <algorithm>

namespace fuzz {

inline void world::extend(pooled::pool_options& options) {
    options.teardown = static_cast<pooled::teardown>(m_input.below(3));  // of the local pool, too
    if (options.upstream == nullptr && m_input.below(4) == 0) options.upstream = m_base.resource();
    if (options.upstream == nullptr) options.touch_reserved = m_input.below(4) == 0;
    if (m_input.flag())
        options.on_exhausted = {
            .call = [](std::size_t, void* calls) noexcept { ++*static_cast<std::size_t*>(calls); },
            .context = &m_hook_calls};
}

inline void world::extend(pooled::object_pool_options& options) {
    options.growth_factor = 1 + static_cast<double>(m_input.below(3)) / 2;
    if (m_input.below(4) == 0) options.upstream = m_base.resource();
}

inline void world::extended_step() {
    switch (m_input.below(10)) {
    case 0:
    case 1:
    case 2:
        return make_array();
    case 3:
        return drop_array(m_arrays[m_input.below(m_arrays.size())]);
    case 4:
    case 5:
        return change_vector();
    case 6:
        return convert();
    case 7:
        if (pool_place& place = any_pool(); place.shared && m_pending.size() < 3)
            m_pending.push_back(place.shared->take_pending());
        return;
    case 8:
        if (m_pending.empty()) return;
        if (m_input.flag())
            m_pending.back().drain(m_input.below(4));
        else
            m_pending.pop_back();
        return;
    default:
        if (m_input.flag()) return leave_recycler();
        if (!m_orphans.empty()) m_orphans.pop_back();
        return;
    }
}

template <class Pool>
world::bytes_handle world::make_bytes(Pool& pool, std::size_t kind, std::size_t count) {
    using bytes = std::byte[];  // NOLINT(modernize-avoid-c-arrays)
    switch (kind) {
    case 0:
        return pool.template make_unique<bytes>(count);
    case 1:
        return pool.template try_make_unique<bytes>(count);
    case 2:
        return pool.template try_make_unique_for_overwrite<bytes>(count);
    case 3:
        return pool.template make_shared<bytes>(count);
    case 4:
        return pool.template try_make_shared<bytes>(count);
    case 5:
        return pool.template make_shared_for_overwrite<bytes>(count);
    case 6:
        return pool.template make_rc<bytes>(count);
    case 7:
        return pool.template try_make_rc_for_overwrite<bytes>(count);
    default:
        return pool.template make_local_rc<bytes>(count);
    }
}

inline void world::make_array() {
    array_place& to = m_arrays[m_input.below(m_arrays.size())];
    drop_array(to);
    pool_place& place = any_pool();
    std::size_t const kind = m_input.below(9);
    std::size_t const count = m_input.byte() << m_input.below(10);
    std::size_t const failures = m_upstream.failures();
    try {
        to.held = with(place, [&](auto& pool) { return make_bytes(pool, kind, count); });
    } catch (std::bad_alloc const&) {
        to.held = std::monostate();
    }
    std::byte* const first = std::visit(
        [](auto const& one) -> std::byte* {
            if constexpr (requires { one.get(); })
                return one.get();
            else
                return nullptr;
        },
        to.held);
    if (first == nullptr) {
        to.held = std::monostate();
        check(place.options.max_bytes != 0 || m_upstream.failures() != failures,
              "an array is refused for a reason");
        return;
    }
    to.bytes = {first, count};
    to.number = m_next_number++;
    to.pool = place.number;
    bool const is_for_overwrite = kind == 2 || kind == 5 || kind == 7;
    check(is_for_overwrite ||
              std::ranges::all_of(to.bytes, [](std::byte one) { return one == std::byte{0}; }),
          "the elements of an array are value-initialised");
    fill(to.bytes, to.number);
    ++m_shadow.blocks(to.pool);
}

inline void world::drop_array(array_place& place) {
    if (place.held.index() == 0) return;
    check_filled(place.bytes, place.number);
    place.held = std::monostate();
    --m_shadow.blocks(place.pool);
}

// A vector has one block while its capacity is not 0. Its pool may have been destroyed: it is then only dropped.
inline void world::change_vector() {
    vector_place& place = m_vectors[m_input.below(m_vectors.size())];
    std::size_t const how = m_input.below(6);
    std::size_t const count = m_input.byte() * 8;
    auto const is_open = [&](std::uint32_t number) {
        return std::ranges::any_of(m_pools, [&](pool_place const& p) { return p.number == number; });
    };
    auto const blocks = [&] { return std::size_t{place.held && place.held->capacity() != 0}; };
    if (!place.held || how == 0 || !is_open(place.pool)) {
        if (place.held) m_shadow.blocks(place.pool) -= blocks();
        place.held.reset();
        pool_place& from = m_pools[m_input.below(k_pools - 1)];
        place.held.emplace(pooled::pool_allocator<std::uint64_t>(*from.shared));
        place.pool = from.number;
    }
    numbers& all = *place.held;
    std::size_t const before = blocks();
    std::size_t const size = all.size();
    try {
        if (how < 3)
            for (std::size_t i = 0; i < count; ++i)
                all.push_back(all.size());
        else if (how == 3)
            all.resize(std::min(size, count));
        else if (how == 4)
            numbers(all).swap(all);
        else
            all.shrink_to_fit();
    } catch (std::bad_alloc const&) {}
    for (std::size_t i = 0; i < all.size(); ++i)
        check(all[i] == i, "a container keeps its elements");
    m_shadow.blocks(place.pool) += blocks();
    m_shadow.blocks(place.pool) -= before;
}

inline void world::convert() {
    handle& place = any_place();
    if (auto* const owner = std::get_if<unique_handle>(&place); owner != nullptr && *owner) {
        rc_handle counted(std::move(*owner));
        place = std::move(counted);
    }
}

inline void world::leave_recycler() {
    for (recycled_handle& one : m_recycled) {
        if (one.index() == 0) continue;
        m_orphans.push_back(std::exchange(one, std::monostate()));
        --m_recycled_out;
    }
    m_recycler.reset();
    check(recycled::alive == m_orphans.size(), "objects in use outlive their pool, and no others do");
    m_recycler.emplace(recycler_options());
}

inline void world::drop_extras() {
    m_pending.clear();
    m_orphans.clear();
    for (array_place& one : m_arrays)
        drop_array(one);
    for (vector_place& one : m_vectors) {
        if (one.held) m_shadow.blocks(one.pool) -= one.held->capacity() != 0 ? 1 : 0;
        one.held.reset();
    }
}

}  // namespace fuzz
