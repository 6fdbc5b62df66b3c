// SPDX-License-Identifier: BSL-1.0
#pragma once

// The threads' caches of one object pool: the fast path of acquire and release, which takes no lock, and the operations that
// stop all owners.
//
// A thread uses its cache behind the cache's gate; see detail/gate.hpp. Any thread may call, unless noted. pop and
// push: O(1); stop and for_each: O(threads).

#include "pooled/config.hpp"
#include "pooled/detail/core.hpp"
#include "pooled/detail/slot.hpp"
#include "pooled/detail/thread_cache.hpp"
#include "pooled/impl/plugins/foreign.hpp"
#include "pooled/impl/pool/registry.hpp"

#include <atomic>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

class object_caches {
public:
    POOLED_API explicit object_caches(pool_core& core) noexcept;

    [[nodiscard]] pool_core& core() const noexcept { return m_core; }
    [[nodiscard]] bool is_local() const noexcept { return m_core.is_local(); }

    // Objects of an earlier generation are destroyed when they are released.
    [[nodiscard]] std::uint32_t generation() const noexcept {
        return m_generation.load(std::memory_order_relaxed);
    }
    // Requires stopped caches.
    void next_generation() noexcept {
        std::uint32_t const next = generation() + 1;
        m_generation.store(next != k_no_object ? next : next + 1, std::memory_order_relaxed);
    }

    // An idle object that the calling thread has cached, or null.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE slot* pop() noexcept {
        if constexpr (Sharing == sharing::shared)
            return pop_from(t_state.near_caches[m_index]);
        else
            return static_cast<slot*>(m_core.local_cache().recycled.pop_above(0));
    }

    // False when the cache is stopped, full or missing, or when the object is of an earlier generation; it is then still the
    // caller's. Otherwise the pool may no longer exist.
    template <sharing Sharing>
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push(slot& s) noexcept {
        if constexpr (Sharing == sharing::shared)
            return push_to(t_state.near_caches[m_index], s);
        else
            return s.generation == generation() && m_core.local_cache().recycled.push_below(k_all, &s);
    }

    // The same in a process with so many pools that those do not find this pool's caches. Otherwise null and false.
    [[nodiscard]] slot* pop_far() noexcept {
        far_pass const pass(m_core.id());
        return m_index == k_far_slot && pass ? pop_from(t_state.find(m_core.id())) : nullptr;
    }
    [[nodiscard]] bool push_far(slot& s) noexcept {
        far_pass const pass(m_core.id());
        return m_index == k_far_slot && pass && push_to(t_state.find(m_core.id()), s);
    }

    // The calling thread's cache, made if it has none; null when it can have none. One of a foreign core grows in its own
    // copy only.
    [[nodiscard]] thread_cache* attach() noexcept {
        if (detail::is_foreign(m_core)) return nullptr;
        return m_core.is_local() ? &m_core.local_cache() : g_registry.attach(m_core);
    }

    // Keeps all owners out, including later ones, until resume(). Both require the core's lock.
    void stop() noexcept;
    void resume() noexcept;

    // Requires the core's lock.
    template <class Visit>
    void for_each(Visit&& visit) noexcept;

private:
    [[nodiscard]] static POOLED_ALWAYS_INLINE slot* pop_from(thread_cache* cache) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return nullptr;
        void* const p = cache->recycled.pop_above(0);
        cache->gate.leave();
        return static_cast<slot*>(p);
    }

    // The generation is compared inside the gate: it changes while all are stopped, so no object of an earlier one enters a cache
    // afterwards.
    [[nodiscard]] POOLED_ALWAYS_INLINE bool push_to(thread_cache* cache, slot& s) noexcept {
        if (cache == nullptr || !cache->gate.enter()) [[unlikely]]
            return false;
        bool const is_pushed = s.generation == generation() && cache->recycled.push_below(k_all, &s);
        cache->gate.leave();
        return is_pushed;
    }

    static constexpr std::uint32_t k_all = ~std::uint32_t{0};  // as many as the cache has space for

    pool_core& m_core;
    std::uint32_t m_index;  // in thread_state::near_caches
    std::atomic<std::uint32_t> m_generation{k_no_object + 1};
};

#if POOLED_HAS_CODE

POOLED_CODE object_caches::object_caches(pool_core& core) noexcept : m_core(core), m_index(core.slot()) {
    m_core.caches().add_recycled();
}
inline void object_caches::stop() noexcept { m_core.caches().hold(cache_set::hold_for::extension); }
inline void object_caches::resume() noexcept { m_core.caches().let_go(cache_set::hold_for::extension); }
template <class Visit>
void object_caches::for_each(Visit&& visit) noexcept {
    m_core.caches().for_each([&](thread_cache& cache) { visit(cache.recycled); });
}

#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
