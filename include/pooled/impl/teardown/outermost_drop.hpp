// SPDX-License-Identifier: BSL-1.0
#pragma once

// outermost_drop: a drop to which drops further down the same stack are deferred, or a reclaim_scope. It lies on the stack that it
// represents. The table of those on other stacks than a thread's own (fibres, sigaltstack) is keyed by address, so a fibre finds
// its own, whichever thread runs it and whatever other fibres did meanwhile.
//
//   top + 4 KiB   ┐ a drop in this range is on the same stack: of several records that match, the lowest is the innermost
//   top           │ where the record was made
//   low           │ = top − 12 KiB: below it, drops are deferred to this record (a record that gathers: everywhere)
//   top − 32 KiB  ┘ the rest is for the frames of a single destructor
//
// Table: any thread may call; a lock for each 64 KiB of addresses (shared by those that have the same hash). O(1).

#include "pooled/config.hpp"
#include "pooled/detail/atomics.hpp"
#include "pooled/detail/intrusive_list.hpp"
#include "pooled/impl/os/mutex.hpp"
#include "pooled/impl/os/platform.hpp"
#include "pooled/impl/teardown/deferred_queue.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pooled::inline POOLED_ABI_NAMESPACE::detail {

enum class outermost_kind : unsigned char {
    immediate,  // because the stack is nearly used up
    unordered,  // of an object of an unordered pool: other objects of such pools are deferred to it
    scope,      // a reclaim_scope: all objects are deferred to it
};

struct outermost_drop {
    // How far plain recursion may go below an outermost drop.
    static constexpr std::uintptr_t k_depth = std::uintptr_t{12} << 10;
    // A drop at most this far below (above) a record, on a stack of unknown bounds, is on the same stack.
    static constexpr std::uintptr_t k_below = std::uintptr_t{32} << 10;
    static constexpr std::uintptr_t k_above = std::uintptr_t{4} << 10;
    static constexpr std::uintptr_t k_gathers = ~std::uintptr_t{0};  // above every stack pointer

    std::uintptr_t top = 0;
    std::uintptr_t low = 0;
    outermost_drop* outer = nullptr;   // on a thread's own stack: the record around this one
    list_links<outermost_drop> links;  // in the table
    bool is_on_own_stack = false;
    bool takes_unordered = false;  // objects of unordered pools are deferred to it at any depth
    bool is_relieving = false;     // objects are being destroyed for an allocation that found no memory
    deferred_queue queue;

    [[nodiscard]] bool covers(std::uintptr_t here) const noexcept {
        return here - (top - k_below) < k_below + k_above;
    }
};

#if POOLED_HAS_CODE
class outermost_drop_table {
public:
    constexpr outermost_drop_table() noexcept = default;
    outermost_drop_table(outermost_drop_table const&) = delete;
    outermost_drop_table& operator=(outermost_drop_table const&) = delete;

    void insert(outermost_drop& drop) noexcept {
        survive_fork();
        shard& s = shard_of(drop.top);
        scoped_lock const lock(s.lock);
        s.drops.push_front(drop);
    }

    // In a forked child, the record may have been removed already.
    void remove(outermost_drop& drop) noexcept {
        shard& s = shard_of(drop.top);
        scoped_lock const lock(s.lock);
        for (outermost_drop& each : s.drops)
            if (&each == &drop) return s.drops.remove(drop);
    }

    // The innermost record on the stack that `here` is on, or null.
    [[nodiscard]] POOLED_NOINLINE outermost_drop* find(std::uintptr_t here) noexcept {
        outermost_drop* found = nullptr;
        std::uintptr_t const first = (here - outermost_drop::k_above) >> k_shift;
        std::uintptr_t const last = (here + outermost_drop::k_below) >> k_shift;
        look(m_shards[index_of(first)], here, found);
        if (last != first) look(m_shards[index_of(last)], here, found);
        return found;
    }

private:
    static constexpr unsigned k_shift = 16;
    static constexpr std::size_t k_shards = 64;
    static_assert(outermost_drop::k_below + outermost_drop::k_above < std::uintptr_t{1} << k_shift);

    struct alignas(64) shard {
        mutex lock;
        intrusive_list<outermost_drop> drops;
    };

    [[nodiscard]] shard& shard_of(std::uintptr_t address) noexcept {
        return m_shards[index_of(address >> k_shift)];
    }
    // The stacks of threads lie at regular distances, so the hash uses all bits of the address (Fibonacci hashing, Knuth).
    [[nodiscard]] static std::size_t index_of(std::uintptr_t number) noexcept {
        static_assert(k_shards == 64);
        return static_cast<std::size_t>((std::uint64_t{number} * 0x9e37'79b9'7f4a'7c15U) >> 58);
    }
    static void look(shard& s, std::uintptr_t here, outermost_drop*& found) noexcept {
        scoped_lock const lock(s.lock);
        for (outermost_drop& d : s.drops)
            if (d.covers(here) && (found == nullptr || d.top < found->top)) found = &d;
    }

    inline void survive_fork() noexcept;
    // The child may reuse the stacks of the parent's other threads, so all records are removed. The drop that made a record of
    // this thread still empties its queue; a drop further down makes another record.
    void forget_all() noexcept {
        for (shard& s : m_shards) {
            scoped_lock const lock(s.lock);
            s.drops = {};
        }
    }

    atomic<std::uint32_t> m_survives_fork{0};
    std::array<shard, k_shards> m_shards{};
};

POOLED_STATE(outermost_drop_table, g_outermost_drops);

inline void outermost_drop_table::survive_fork() noexcept {
    if (m_survives_fork.load(std::memory_order_relaxed) != 0 ||
        m_survives_fork.exchange(1, std::memory_order_relaxed) != 0)
        return;
    bool const is_known = platform::at_fork(nullptr, nullptr, [] { g_outermost_drops.forget_all(); });
    // The drop continues without this; the next one tries again.
    if (!is_known) m_survives_fork.store(0, std::memory_order_relaxed);
}
#endif

}  // namespace pooled::inline POOLED_ABI_NAMESPACE::detail
