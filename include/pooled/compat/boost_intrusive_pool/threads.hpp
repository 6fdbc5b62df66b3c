// SPDX-License-Identifier: BSL-1.0
#pragma once

// The threads that use memorypools, and what must happen to all pools at once: when a thread ends, and around fork.
//
//   thread_state (thread_local)
//     entries[16]  ── pool's number % 16 ──▶ {pool, cache}      a wrong pool there: the list is searched
//     owned        ──▶ cache ──▶ cache ──▶ …
//
// A cache belongs to its thread until that ends. When the pool closes, it empties the cache, takes it off its list and
// shuts its gate for good; a thread that meets a shut gate never trusts the cache's pool, whose address may be another
// pool's by then.
//
// Locks, in the order in which they may be waited for: the registry's, a pool's.

#include "pooled/compat/boost_intrusive_pool/stock.hpp"
#include "pooled/config.hpp"
#include "pooled/os/mutex.hpp"
#include "pooled/os/platform.hpp"

#include <array>
#include <cstdint>
#include <type_traits>

namespace memorypool::detail {

struct thread_state {
    struct entry {
        item_core const* pool = nullptr;
        item_cache* cache = nullptr;
    };
    std::array<entry, 16> entries{};
    item_cache* owned = nullptr;
    bool is_armed = false;   // the exit hook will run
    bool has_ended = false;  // it has run: no caches any more

    [[nodiscard]] entry& entry_of(std::uint32_t number) noexcept { return entries[number % entries.size()]; }

    // The thread's cache of the pool with that number, or null; its gate may be shut.
    [[nodiscard]] POOLED_ALWAYS_INLINE item_cache* find(item_core const& pool,
                                                        std::uint32_t number) noexcept {
        entry const& e = entry_of(number);
        return e.pool == &pool ? e.cache : nullptr;
    }
};
static_assert(std::is_trivially_destructible_v<thread_state>, "it is in use until the thread is gone");

POOLED_EXPORT inline constinit thread_local thread_state t_items{};

class item_registry {
public:
    constexpr item_registry() noexcept = default;
    item_registry(item_registry const&) = delete;
    item_registry& operator=(item_registry const&) = delete;

    // Makes the pool known, and gives it its number.
    void add(item_core& core);

    // Takes the pool off the list and its caches from their threads, then calls last() with all of it locked.
    template <class Function>
    void remove(item_core& core, Function&& last) noexcept;

    // The calling thread's cache of the pool, made if it has none; null when it can have none: the pool is closed, the
    // thread has ended, the system has no memory, or it cannot run the gate's barrier.
    [[nodiscard]] item_cache* attach(item_core& core) noexcept;

private:
    [[nodiscard]] item_cache* attach_slow(item_core& core) noexcept;
    [[nodiscard]] item_cache* new_cache(thread_state& state) const noexcept;
    static void on_thread_exit(void* state) noexcept;
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    pooled::detail::mutex m_mutex;
    item_core* m_first = nullptr;
    std::uint32_t m_next_number = 0;
    bool m_is_ready = false;     // what the next two need was set up
    bool m_has_barrier = false;  // the gate's barrier can be had
    pooled::detail::platform::thread_exit_hook m_exit_hook;
};

POOLED_EXPORT inline constinit item_registry g_item_registry;
static_assert(std::is_trivially_destructible_v<item_registry>, "it is in use until the process is gone");

}  // namespace memorypool::detail
