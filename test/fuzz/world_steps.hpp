// SPDX-License-Identifier: BSL-1.0
#pragma once

// The longer steps of a world, and which byte means which step. The rest is in world.hpp.

#include "fuzz/world.hpp"
#include "support/internals.hpp"

namespace fuzz {

template <std::size_t Bytes, std::size_t Align>
handle world::make_in(pool_place& place, std::size_t kind, bool tries, bool fails,
                      std::array<handle, 2>& owned, shadow::children const& ids) {
    using type = sized_node<shadow, Bytes, Align>;
    auto const make_id = [&] { return m_shadow.born(place.number, ids); };
    return with(place, [&]<class Pool>(Pool& pool) -> handle {
        if (kind == 0) {
            if (tries)
                return shared_handle(pool.template try_make_shared<type>(m_shadow, fails, make_id, owned));
            return shared_handle(pool.template make_shared<type>(m_shadow, fails, make_id, owned));
        }
        if constexpr (std::is_same_v<Pool, pooled::pool>) {
            if (kind == 1) {
                if (tries) return rc_handle(pool.template try_make_rc<type>(m_shadow, fails, make_id, owned));
                return rc_handle(pool.template make_rc<type>(m_shadow, fails, make_id, owned));
            }
        }
        if (tries) return unique_handle(pool.template try_make_unique<type>(m_shadow, fails, make_id, owned));
        return unique_handle(pool.template make_unique<type>(m_shadow, fails, make_id, owned));
    });
}

inline void world::make() {
    pool_place& place = any_pool();
    handle& to = any_place();
    clear(to);
    std::size_t const kind = m_input.below(3);
    std::size_t const which = m_input.byte();
    bool const tries = (which & 8) != 0;
    bool const fails = (which & 240) == 240;

    std::array<handle*, 2> from{};
    std::array<handle, 2> owned{};
    shadow::children ids{k_nobody, k_nobody};
    for (std::size_t i = 0; i < k_children; ++i) {
        from[i] = &any_place();
        owned[i] = std::exchange(*from[i], std::monostate());
        ids[i] = id_of(owned[i]);
    }

    std::size_t const failures = m_upstream.failures();
    std::size_t const hook_calls = m_hook_calls;
    bool const was_unused =
        m_shadow.blocks(place.number) == 0 && m_shadow.pending() == 0 && !place.is_reserved;
    bool is_refused = false;
    handle made;
    try {
        made = with_size(which, [&]<std::size_t Bytes, std::size_t Align> {
            return make_in<Bytes, Align>(place, kind, tries, fails, owned, ids);
        });
    } catch (refused const&) {
        is_refused = true;
    } catch (pooled::exhausted const&) {
        check(!tries && place.options.max_bytes != 0, "only a bounded pool is exhausted");
    } catch (std::bad_alloc const&) {
        check(!tries, "try_ forms do not throw for want of memory");
    }
    check(!is_refused || fails, "a constructor throws when it is to");
    if (get(made) != nullptr) {
        check(!fails, "what a constructor throws is passed on");
        to = std::move(made);
        return;
    }
    check(is_refused || m_upstream.failures() != failures || (place.options.max_bytes != 0 && !was_unused),
          "an allocation fails for a reason");
    check(is_refused || place.options.on_exhausted.call == nullptr || m_hook_calls != hook_calls,
          "a pool's hook is called before an allocation fails");
    // Strong guarantee: the objects to be owned are as before.
    for (std::size_t i = 0; i < k_children; ++i) {
        check(id_of(owned[i]) == ids[i], "a failed make_ leaves its arguments alone");
        if (ids[i] != k_nobody) *from[i] = std::move(owned[i]);
    }
}

inline void world::allocate() {
    raw_block& one = m_raw[m_input.below(k_raw)];
    deallocate(one);
    pool_place& place = any_pool();
    std::size_t const bytes = m_input.byte() << m_input.below(11);
    std::size_t const align = std::size_t{1} << m_input.below(14);
    bool const tries = m_input.flag();
    std::size_t const failures = m_upstream.failures();
    void* at = nullptr;
    std::pmr::memory_resource* from = nullptr;
    try {
        with(place, [&](auto& pool) {
            from = pool.resource();
            at = tries ? pool.try_allocate(bytes, align) : pool.allocate(bytes, align);
        });
    } catch (std::bad_alloc const&) {
        check(!tries, "try_allocate does not throw");
    }
    if (at == nullptr) {
        check(place.options.max_bytes != 0 || m_upstream.failures() != failures,
              "an allocation fails for a reason");
        return;
    }
    check(pooled::detail::address_of(at) % align == 0, "blocks are aligned");
    with(place, [&](auto& pool) { check(pool.owns(at), "a pool owns its blocks"); });
    one = {.at = at,
           .bytes = bytes,
           .align = align,
           .number = m_next_number++,
           .pool = place.number,
           .from = from};
    fill({static_cast<std::byte*>(at), bytes}, one.number);
    ++m_shadow.blocks(place.number);
}

inline void world::acquire() {
    recycled_handle& place = m_recycled[m_input.below(m_recycled.size())];
    release(place);
    std::size_t const how = m_input.below(4);
    if (how == 0) {
        if (auto got = m_recycler->try_acquire()) place = std::move(got);
    } else if (how == 1) {
        if (auto got = m_recycler->try_acquire_unique()) place = std::move(got);
    } else if (how == 2) {
        if (auto got = m_recycler->try_acquire_rc()) place = std::move(got);
    } else if (auto got = m_recycler->acquire_for(std::chrono::nanoseconds(0))) {
        place = std::move(got);
    }
    bool const is_full = m_recycler_bound != 0 && m_recycled_out == m_recycler_bound;
    check((place.index() == 0) == is_full,
          "acquiring fails exactly when as many are in use as the bound allows");
    if (place.index() != 0) ++m_recycled_out;
}

inline void world::compare() {
    for (handle const& one : m_places)
        if (node const* const object = get(one)) object->check_contents();
    for (pool_place const& place : m_pools)
        with(place, [&](auto& pool) {
            check(test::is_valid(pool), "a pool's structures are valid");
            pooled::pool_stats const stats = pool.stats();
            check(place.options.max_bytes == 0 || stats.upstream_bytes <= place.options.max_bytes,
                  "a bound is hard");
            if (m_shadow.pending() == 0)
                check(stats.in_use == m_shadow.blocks(place.number),
                      "a pool knows how many blocks are in use");
        });
    check(test::is_valid(*m_recycler), "an object pool's structures are valid");
    auto const stats = m_recycler->stats();
    check(stats.in_use == m_recycled_out, "an object pool knows how many objects are in use");
    check(stats.capacity == recycled::alive - m_orphans.size(),
          "an object pool knows how many objects there are");
    check(m_recycler_bound == 0 || stats.capacity <= m_recycler_bound, "the bound on objects is hard");
}

inline void world::step() {
    if (m_is_extended && m_input.below(4) == 0) return extended_step();
    switch (m_input.below(32)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        return make();
    case 8:
    case 9:
    case 10:
        return clear(any_place());
    case 11:
    case 12:
        return copy();
    case 13:
        return move();
    case 14:
        return observe();
    case 15:
        return lock();
    case 16:
        return unobserve(any_weak());
    case 17:
    case 18:
    case 19:
        return allocate();
    case 20:
        return deallocate(m_raw[m_input.below(k_raw)]);
    case 21:
    case 22:
        return acquire();
    case 23:
        return release(m_recycled[m_input.below(m_recycled.size())]);
    case 24:
        return trim(any_pool());
    case 25:
        return reserve();
    case 26:
        if (pool_place& place = any_pool(); place.shared || m_is_extended)
            with(place, [&](auto& pool) { pool.drain(m_input.below(8)); });
        return;
    case 27: {
        pool_place& place = any_pool();
        if (place.options.teardown != pooled::teardown::immediate) ++m_closed_unordered;
        if (place.options.teardown == pooled::teardown::incremental) ++m_closed_deferring;
        return reopen(place);
    }
    case 28:
        return m_upstream.fail(m_input.below(4), m_input.below(4));
    case 29:
        return drop_in_scope();
    case 30:
        if (m_input.below(4) == 0) {
            close_recycler();
            m_recycler.emplace(recycler_options());
        } else if (m_input.flag()) {
            m_recycler->trim();
        } else {
            m_recycler->clear();
        }
        return;
    default:
        return compare();
    }
}

inline void world::finish() {
    compare();
    for (handle& one : m_places)
        clear(one);
    drop_extras();
    drain();
    if (m_closed_deferring == 0) check(m_shadow.pending() == 0, "draining destroys all that was deferred");
    compare();
    for (weak_place& one : m_weak)
        unobserve(one);
    bool const pools_first = m_next_pool % 2 == 0;
    if (pools_first) {
        for (pool_place& place : m_pools) {
            place.shared.reset();
            place.local.reset();
        }
    }
    for (raw_block& one : m_raw)
        deallocate(one);
    close_recycler();
    for (pool_place& place : m_pools) {
        place.shared.reset();
        place.local.reset();
    }
    check(m_shadow.alive() == 0 && m_shadow.pending() == 0, "every object is destroyed in the end");
}

}  // namespace fuzz
