// SPDX-License-Identifier: BSL-1.0
#pragma once

// The two ways to count: rc_ptr among threads, local_rc_ptr on one. Both use one header format, so a sole pointer of either kind
// may pass its object to the other kind.

#include "pooled/config.hpp"
#include "pooled/detail/counted_object.hpp"
#include "pooled/impl/instrument/hardened.hpp"
#include "pooled/impl/teardown/block_type.hpp"

#include <atomic>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

// Drops the last of several owners, or the owner of an observed object: `word` is the header before the drop.
POOLED_NOINLINE inline void retire_last(count_header& h, std::uint64_t word) noexcept {
    if (is_plain(word)) return h.release_weak();
    g_block_types[word].retire_observed(&h);
}

struct among_threads {
    // Requires an owner.
    static void add_strong(count_header& h) noexcept {
        std::uint64_t const before = h.word.fetch_add(count_header::k_strong_one, std::memory_order_relaxed);
        if (count_header::strong_in(before) > count_header::k_strong_limit) [[unlikely]]
            count_overflow();
    }
    // Requires an owner or an observer.
    static void add_weak(count_header& h) noexcept {
        std::uint64_t const before = h.word.fetch_add(count_header::k_weak_one, std::memory_order_relaxed);
        if (count_header::weak_in(before) > count_header::k_weak_limit) [[unlikely]]
            count_overflow();
    }
    // Requires an observer. False when no owner is left.
    [[nodiscard]] static bool try_add_strong(count_header& h) noexcept {
        std::uint64_t now = h.word.load(std::memory_order_relaxed);
        do {
            if (count_header::strong_in(now) == 0) return false;
            if (count_header::strong_in(now) > count_header::k_strong_limit) [[unlikely]]
                count_overflow();
            // acquire: pairs with the release of an owner that dropped the object; what that owner did to the object is seen.
        } while (!h.word.compare_exchange_weak(now, now + count_header::k_strong_one,
                                               std::memory_order_acquire, std::memory_order_relaxed));
        return true;
    }
    POOLED_ALWAYS_INLINE static void release_strong(count_header& h) noexcept {
        // acquire: pairs with the release below by owners that dropped the object earlier.
        std::uint64_t now = h.word.load(std::memory_order_acquire);
        if (h.retires(now, count_header::k_sole)) return;
        instrument::expect_in_use(&h);
        now = h.word.fetch_sub(count_header::k_strong_one, std::memory_order_acq_rel);
        if (count_header::strong_in(now) == count_header::k_strong_one) retire_last(h, now);
    }
};

struct on_one_thread {
    static void add_strong(count_header& h) noexcept {
        std::uint64_t const before = h.word.load(std::memory_order_relaxed);
        if (count_header::strong_in(before) > count_header::k_strong_limit) [[unlikely]]
            count_overflow();
        h.word.store(before + count_header::k_strong_one, std::memory_order_relaxed);
    }
    static void add_weak(count_header& h) noexcept {
        std::uint64_t const before = h.word.load(std::memory_order_relaxed);
        if (count_header::weak_in(before) > count_header::k_weak_limit) [[unlikely]]
            count_overflow();
        h.word.store(before + count_header::k_weak_one, std::memory_order_relaxed);
    }
    [[nodiscard]] static bool try_add_strong(count_header& h) noexcept {
        if (count_header::strong_in(h.word.load(std::memory_order_relaxed)) == 0) return false;
        add_strong(h);
        return true;
    }
    POOLED_ALWAYS_INLINE static void release_strong(count_header& h) noexcept {
        std::uint64_t const now = h.word.load(std::memory_order_relaxed);
        if (h.retires(now, count_header::k_sole)) return;
        instrument::expect_in_use(&h);
        h.word.store(now - count_header::k_strong_one, std::memory_order_relaxed);
        if (count_header::strong_in(now) == count_header::k_strong_one) retire_last(h, now);
    }
};

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
