// SPDX-License-Identifier: BSL-1.0
#pragma once

// How free blocks leave the caches of threads other than the caller, for whoever has too few and for the system.
//
//   cache of another thread ─ stop ─▶ its gate is taken ─ collect, under the lock of the class ─▶ central free list
//
// Requires the lock of the set. Waits neither for an owner inside its gate nor for the holder of a class's lock that does not run.
// O(threads + classes + blocks moved).

#include "pooled/cache/cache_set.hpp"

POOLED_BEGIN_DETAIL

inline bool cache_set::steal(class_index c, std::size_t least) noexcept {
    std::uint64_t blocks = 0;
    for_each([&](thread_cache const& one) {
        if (is_others(one)) blocks += one.classes[c].held();
    });
    if (blocks * k_geometry[c].block_bytes < least) return false;
    stop();
    bool has_any = false;
    if (try_scoped_lock const lock((*this)[c]); lock) {
        collect(c);
        (*this)[c].adopt();
        has_any = (*this)[c].free() != 0;
    }
    resume();
    return has_any;
}

template <class Work>
bool cache_set::with_all(Work&& work) noexcept {
    stop();
    bool result = try_lock_classes();
    if (result) {
        result = work();
        unlock_classes();
    }
    resume();
    return result;
}

inline void cache_set::collect_all() noexcept {
    for (class_index c = 0; c < k_class_count; ++c) {
        collect(c);
        (*this)[c].drain_recent();
    }
    drain_slots_locked();
}

inline void cache_set::steal_each() noexcept {
    stop();
    for (class_index c = 0; c < k_class_count; ++c) {
        if (!try_lock_class(c)) continue;
        unlock_at_end const lock((*this)[c]);
        collect(c);
        (*this)[c].drain_recent();
    }
    resume();
}

inline void cache_set::steal_from_idle() noexcept {
    auto const is_idle = [](thread_cache const& cache) {
        return is_others(cache) && cache.slow_calls_seen == cache.slow_calls &&
               detail::any_of(cache.classes, [](class_cache const& one) { return one.held() != 0; });
    };
    bool const is_any = detail::any_of(m_all, is_idle);
    if (is_any) stop();
    for_each([&](thread_cache& cache) {
        bool const is_emptied = is_any && is_idle(cache) && may_use(cache);
        for (class_index c = 0; is_emptied && c < k_class_count; ++c)
            collect_held(cache, c);
        cache.slow_calls_seen = cache.slow_calls;
    });
    if (is_any) resume();
}

POOLED_END_DETAIL
