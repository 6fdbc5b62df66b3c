// SPDX-License-Identifier: BSL-1.0
#pragma once

// What concerns all of an object_pool's objects at once: gathering and spreading them, counting them, taking away what is
// idle; and what a thread's end, a fork and the pool's end mean for them.

#include "pooled/base/bits.hpp"
#include "pooled/cache/thread_cache.hpp"
#include "pooled/object/object_stock.hpp"
#include "pooled/pool/core_caches.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

namespace pooled::detail {

// A thread caches up to two magazines and one object. Few of a bounded pool's, so that threads do not often have to gather
// what others hold. Every slot carries the next one: it will be written to as soon as it is popped.
[[nodiscard]] constexpr class_geometry idle_geometry(std::size_t bound) noexcept {
    constexpr std::size_t k_most = 64;
    constexpr std::size_t k_share = 32;
    std::size_t const magazine = std::clamp<std::size_t>(bound / k_share, 1, k_most);
    return {static_cast<std::uint32_t>(k_control_bytes), 0, static_cast<std::uint16_t>(magazine)};
}

[[nodiscard]] constexpr std::size_t bound_of(object_pool_options const& options) noexcept {
    std::size_t const bound = options.growth == 0 ? options.initial_objects : options.max_objects;
    return bound != 0 ? bound : std::numeric_limits<std::size_t>::max();
}

inline object_stock::object_stock(pool_core& core, object_pool_options const& options) noexcept
    : m_core(core),
      m_near(core.slot()),
      m_geometry(idle_geometry(bound_of(options))),
      m_bound(bound_of(options)),
      m_growth(std::max<std::size_t>(options.growth, 1)),
      m_is_gathered(core.is_local()),  // its one cache is empty when the stock is asked
      m_objects(options.initial_objects),
      m_used(!core.is_local()) {}

inline void object_stock::collect_caches() noexcept {
    m_core.for_each_cache([this](thread_cache& cache) {
        if (cache.recycled.held(m_geometry) != 0) m_used.collect(cache.recycled, m_geometry);
    });
}

inline void object_stock::gather() noexcept {
    std::scoped_lock const lock(m_core.lock());
    if (m_is_gathered) return;
    m_core.hold_caches();
    std::scoped_lock const own(m_used.mutex);
    m_is_gathered = true;
    m_calm = 0;
    collect_caches();
}

// Only for those who hold the pool's handle: it must not go meanwhile.
inline void object_stock::spread() noexcept {
    std::scoped_lock const lock(m_core.lock());
    {
        std::scoped_lock const own(m_used.mutex);
        if (!m_is_gathered || m_calm < k_calm || m_core.is_local()) return;
        m_is_gathered = false;
    }
    m_core.let_caches_go();
}

// Requires both locks, with all threads out of their caches.
inline slot* object_stock::take_idle_gathered() noexcept {
    collect_caches();
    slot* all = std::exchange(m_fresh, nullptr);
    m_fresh_count = 0;
    while (void* const idle = m_used.pop_one(nullptr, m_geometry)) {
        m_used.disown();
        auto& s = *static_cast<slot*>(idle);
        s.next() = all;
        all = &s;
    }
    return all;
}

inline void object_stock::outdate() noexcept {
    std::uint32_t const next = generation() + 1;
    m_generation.store(next != k_no_object ? next : next + 1, std::memory_order_relaxed);
}

inline slot* object_stock::take_idle(those_out what) noexcept {
    std::scoped_lock const lock(m_core.lock());
    bool const was_gathered = m_is_gathered;
    if (!was_gathered) m_core.hold_caches();
    slot* all = nullptr;
    {
        std::scoped_lock const own(m_used.mutex);
        all = take_idle_gathered();
        if (what == those_out::outdate) outdate();
    }
    if (!was_gathered) m_core.let_caches_go();
    return all;
}

inline slot* object_stock::close() noexcept {
    std::scoped_lock const lock(m_core.lock());
    if (!m_is_gathered) m_core.hold_caches();
    std::scoped_lock const own(m_used.mutex);
    m_is_gathered = true;
    outdate();
    return take_idle_gathered();
}

inline bool object_stock::abandon() noexcept {
    std::scoped_lock const own(m_used.mutex);
    m_is_abandoned = true;
    return m_objects == 0;
}

// Read without stopping anyone, so clamped: an object may be counted in two places at that moment.
inline object_counts object_stock::count() noexcept {
    std::scoped_lock const lock(m_core.lock(), m_used.mutex);
    std::size_t held = 0;
    m_core.for_each_cache([&](thread_cache& cache) { held += cache.recycled.held(m_geometry); });
    object_counts counts;
    counts.capacity = m_used.capacity() + m_fresh_count;
    counts.idle = m_fresh_count + m_used.free(m_geometry) + std::min(held, m_used.outside());
    counts.high_water = m_used.note_high_water(0);
    counts.waiting = m_line.size();
    return counts;
}

inline bool object_stock::is_valid() noexcept {
    if (!m_core.is_valid()) return false;
    std::scoped_lock const lock(m_core.lock());
    bool const was_gathered = m_is_gathered;
    if (!was_gathered) m_core.hold_caches();
    bool valid = true;
    {
        std::scoped_lock const own(m_used.mutex);
        std::size_t held = 0;
        m_core.for_each_cache([&](thread_cache& cache) {
            valid = valid && cache.recycled.is_valid(m_geometry);
            held += cache.recycled.held(m_geometry);
        });
        std::size_t fresh = 0;
        for (slot* s = m_fresh; s != nullptr; s = s->next())
            ++fresh;
        bool const nothing_idle = m_used.free(m_geometry) == 0 && fresh == 0 && held == 0;
        valid = valid && m_used.is_valid(m_geometry) && fresh == m_fresh_count && held <= m_used.outside() &&
                m_used.capacity() + fresh <= m_objects && m_objects <= m_bound &&
                (!was_gathered || held == 0 || m_core.is_local()) &&
                (m_line.empty() || (was_gathered && nothing_idle && m_objects == m_bound));
    }
    if (!was_gathered) m_core.let_caches_go();
    return valid;
}

inline void object_stock::on_retire(thread_cache& cache) noexcept {
    std::scoped_lock const own(m_used.mutex);
    m_used.retire(cache.recycled, m_geometry);
}

inline void object_stock::after_fork_in_child() noexcept {
    std::scoped_lock const own(m_used.mutex);
    m_line.forget_all();
}

}  // namespace pooled::detail
