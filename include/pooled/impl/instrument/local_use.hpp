// SPDX-License-Identifier: BSL-1.0
#pragma once

// The checked build's record of which thread uses a local pool: the thread that last allocated from it or adopted it or, once that
// thread has ended, the next one that uses it. A block that another thread returns is reported. The record cannot see whether a
// program synchronized the two threads, so a program must announce the transfer: by local_pool::adopt(), or by an allocation.
//
// Threads have numbers, and a bit for each says that it has ended, because the system reuses pthread_t and kernel ids. Any thread
// may call; O(1). Not compiled in other builds.

#include "pooled/config.hpp"
#include "pooled/detail/size_class.hpp"
#include "pooled/impl/os/platform.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#if POOLED_CHECKED && POOLED_HAS_CODE

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

POOLED_STATE(thread_local std::uint32_t, t_thread_number, {0});  // readable until the thread is gone

class thread_numbers {
public:
    // Of the calling thread; not 0.
    [[nodiscard]] std::uint32_t mine() noexcept {
        std::uint32_t& number = t_thread_number;
        if (number == 0) {
            number = m_last.fetch_add(1, std::memory_order_relaxed) + 1;
            bit_of(number).fetch_and(~mask_of(number), std::memory_order_relaxed);
            // Not a thread_local object with a destructor, for which the C library calls malloc. Unarmed, it counts as ended.
            if (!m_hook.arm(reinterpret_cast<void*>(std::uintptr_t{number}))) on_end(number);
        }
        return number;
    }
    // Once, before the first pool.
    void create_hook() noexcept;
    // acquire: pairs with the release in on_end().
    [[nodiscard]] bool has_ended(std::uint32_t number) noexcept {
        return (bit_of(number).load(std::memory_order_acquire) & mask_of(number)) != 0;
    }

private:
    static constexpr std::uint32_t k_threads = 1U << 23;  // then a number's bit is used again

    // release: pairs with the acquire in has_ended().
    void on_end(std::uint32_t number) noexcept {
        bit_of(number).fetch_or(mask_of(number), std::memory_order_release);
    }
    [[nodiscard]] std::atomic<std::uint64_t>& bit_of(std::uint32_t number) noexcept {
        return m_ended[number % k_threads / 64];
    }
    [[nodiscard]] static constexpr std::uint64_t mask_of(std::uint32_t number) noexcept {
        return std::uint64_t{1} << (number % 64);
    }

    platform::thread_exit_hook m_hook;
    std::atomic<std::uint32_t> m_last{0};
    std::array<std::atomic<std::uint64_t>, k_threads / 64> m_ended{};
};

POOLED_STATE(thread_numbers, g_thread_numbers);

inline void thread_numbers::create_hook() noexcept {
    m_hook.create([](void* number) {
        g_thread_numbers.on_end(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(number)));
    });
}

class local_users {
public:
    // The calling thread allocates from the pool.
    void on_allocate(std::uint32_t pool_id) noexcept {
        m_users[pool_id].store(g_thread_numbers.mine(), std::memory_order_relaxed);
    }
    // False when another thread uses the pool.
    [[nodiscard]] bool on_deallocate(std::uint32_t pool_id) noexcept {
        std::uint32_t const user = m_users[pool_id].load(std::memory_order_relaxed);
        if (user == g_thread_numbers.mine()) return true;
        if (!g_thread_numbers.has_ended(user)) return false;
        on_allocate(pool_id);
        return true;
    }

private:
    std::array<std::atomic<std::uint32_t>, k_max_pools> m_users{};
};

POOLED_STATE(local_users, g_local_users);

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail

#endif
