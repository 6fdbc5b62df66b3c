// SPDX-License-Identifier: BSL-1.0
#pragma once

// Where threads exchange blocks while a pool is at its bound and no thread may keep any: one in each of 16 slots, chosen by the number of
// the processor. Without it, every request and every return would take the lock of its class, for which the processors contend.
//
//   word:  | address / 8 (45 bits) | size class (8 bits) | how many blocks were put there, modulo 2^11 |     the last part alone: empty
//
// A request that finds no block compares the words with those that it saw before it looked elsewhere: if they were empty and none has
// changed, and no block was on its way from a slot to its slab, there was no block at one moment. A word that changed 2,048 times looks
// unchanged, so whoever is about to empty a slot counts that in another one. (2,048 threads would have to be preempted between both.)
//
// Any thread may call. O(1).

#include "pooled/base/size_class.hpp"
#include "pooled/os/fork_gate.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class bound_slots {
public:
    static constexpr std::size_t k_count = 16;
    struct view {
        std::array<std::uint64_t, k_count> words;
        std::array<std::uint64_t, k_count> takes;
        std::uint64_t deferrals;
        bool is_draining;
    };

    // A block of class `c`, from the slot of the calling thread's processor if possible. Null: none, and `seen` is what there was.
    [[nodiscard]] void* pop(class_index c, view& seen) noexcept {
        std::size_t const mine = platform::processor();
        for (std::size_t i = 0; i < k_count; ++i) {
            std::size_t const at = (mine + i) % k_count;
            // acquire: before the word, so that who takes what is put there later has not counted yet.
            seen.takes[at] = m_slots[at].takes.load(std::memory_order_acquire);
            std::uint64_t const word = m_slots[at].word.load(std::memory_order_acquire);
            seen.words[at] = word;
            if (!is_empty(word) && class_of(word) == c)
                if (void* const block = empty(at, word)) return block;
        }
        // acquire: pairs with the releases in drain(), leave_deferral() and end_deferred(); what they did to the lists and the heap is seen.
        seen.deferrals = m_deferrals.load(std::memory_order_acquire);
        seen.is_draining = has_deferred() || is_draining();
        return nullptr;
    }
    // Whether all were empty when pop() saw them, and at every moment since.
    [[nodiscard]] bool were_empty(view const& seen) const noexcept {
        // Pairs with that in enter_deferral(): the caller has looked elsewhere before.
        std::atomic_thread_fence(std::memory_order_acquire);
        for (std::size_t at = 0; at < k_count; ++at)
            // acquire: pairs with the release in empty(); who emptied it has counted before.
            if (!is_empty(seen.words[at]) ||
                m_slots[at].word.load(std::memory_order_acquire) != seen.words[at] ||
                m_slots[at].takes.load(std::memory_order_relaxed) != seen.takes[at])
                return false;
        return !seen.is_draining && m_deferrals.load(std::memory_order_relaxed) == seen.deferrals;
    }

    // 0: the slot of the calling thread's processor has a block. Otherwise how many blocks were put there, this one included.
    [[nodiscard]] std::uint64_t push(class_index c, void* block) noexcept {
        auto& mine = m_slots[platform::processor() % k_count].word;
        std::uint64_t word = mine.load(std::memory_order_relaxed);
        if (!is_empty(word)) return 0;
        std::uint64_t const puts = word % k_puts + 1;
        std::uint64_t const full = std::uint64_t{address_of(block) / k_unit} << k_address_shift |
                                   std::uint64_t{c} << k_class_shift | puts % k_puts;
        // release: pairs with the acquires above and in empty(); what this owner did to the block is seen.
        return mine.compare_exchange_strong(word, full, std::memory_order_release) ? puts : 0;
    }

    // Empties the slots: visit(c, block) for each block. No fork happens meanwhile, in which the child would lose a block.
    template <class Visit>
    void drain(Visit&& visit) noexcept {
        g_fork_gate.enter();
        m_draining.fetch_add(1, std::memory_order_relaxed);  // before the release in empty()
        for (std::size_t at = 0; at < k_count; ++at) {
            std::uint64_t const word = m_slots[at].word.load(std::memory_order_relaxed);
            if (is_empty(word)) continue;
            if (void* const block = empty(at, word)) visit(class_of(word), block);
        }
        m_draining.fetch_sub(1, std::memory_order_release);  // pairs with the acquire in pop()
        g_fork_gate.leave();
    }

    // Before and after a thread defers a block, or takes one that was deferred (cache/defer.hpp). Meanwhile it may have those of others in
    // its hands. Whoever has had the lock of each class since deferrals() says so.
    void enter_deferral() noexcept {
        m_draining.fetch_add(1, std::memory_order_relaxed);
        // acquire: pairs with the release in begin(); what was done to the caller's cache is seen. release: pairs with the acquire in pop();
        // who has counted this deferral sees that it is not over.
        m_deferrals.fetch_add(1, std::memory_order_acq_rel);
        std::atomic_thread_fence(std::memory_order_release);  // who finds the list empty sees that
    }
    void leave_deferral() noexcept {
        m_deferrals.fetch_add(1, std::memory_order_release);
        m_draining.fetch_sub(1, std::memory_order_release);
    }
    // The pool is at its bound from now on, all caches are empty, and the caller has the locks of all classes.
    void begin() noexcept { end_deferred(m_deferrals.fetch_add(1, std::memory_order_release) + 1); }
    [[nodiscard]] std::uint64_t deferrals() const noexcept {
        return m_deferrals.load(std::memory_order_acquire);
    }
    void end_deferred(std::uint64_t count) noexcept { m_settled.store(count, std::memory_order_release); }
    [[nodiscard]] bool has_deferred() const noexcept {
        return m_settled.load(std::memory_order_acquire) != m_deferrals.load(std::memory_order_relaxed);
    }

    // Whether a block is on its way from a slot to its list, or in the hands of who defers. acquire: pairs with the release in drain().
    [[nodiscard]] bool is_draining() const noexcept {
        return m_draining.load(std::memory_order_acquire) != 0;
    }

private:
    friend record_access;
    static constexpr std::size_t k_unit = 8;  // of the addresses of blocks
    static constexpr unsigned k_class_shift = 11;
    static constexpr std::uint64_t k_puts = std::uint64_t{1} << k_class_shift;
    static constexpr unsigned k_address_shift = k_class_shift + 8;

    [[nodiscard]] static bool is_empty(std::uint64_t word) noexcept { return word < k_puts; }
    [[nodiscard]] static class_index class_of(std::uint64_t word) noexcept {
        return static_cast<class_index>(word >> k_class_shift & 0xff);
    }
    // Null when another thread was faster. acq_rel: pairs with the release in push(), and with the acquire in pop(): whoever sees the
    // slot empty sees what this thread did before.
    [[nodiscard]] void* empty(std::size_t at, std::uint64_t word) noexcept {
        m_slots[at].takes.fetch_add(1, std::memory_order_relaxed);
        if (!m_slots[at].word.compare_exchange_strong(word, word % k_puts, std::memory_order_acq_rel))
            return nullptr;
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(word >> k_address_shift) * k_unit);
    }

    struct alignas(k_cache_line) slot {
        std_atomics::atomic<std::uint64_t> word{0};
        std_atomics::atomic<std::uint64_t> takes{0};
    };
    std::array<slot, k_count> m_slots{};
    std_atomics::atomic<std::uint32_t> m_draining{0};  // threads
    std_atomics::atomic<std::uint64_t> m_deferrals{0};
    std_atomics::atomic<std::uint64_t> m_settled{0};  // of these, unless there are fewer
};

POOLED_END_DETAIL
