// SPDX-License-Identifier: BSL-1.0
#pragma once

// Large blocks on their way from the threads that freed them to those that allocate. A thread that frees what others allocated leaves
// blocks here without the lock of the class, and a thread that has none takes them. For each class there are three batches, each in cache
// lines of its own:
//
//   freeing threads ─ push ─▶ leaving ─ when it is full ─▶ sent ─ when the last one is empty ─▶ here ─ take ─▶ allocating threads
//
// The batches change places, so two threads that hand blocks over contend for one word once in a batch, and not for a lock. Whoever has
// the lock of the class and finds its list empty takes all (take_all).
//
// Invariant: a block here is in no list and no cache, and counts as outside its central list; at most k_most_bytes of a class in a batch,
//            so of a class of longer blocks none. Each of the three places has one of the three batches. `sent` is filled by whoever has
//            the leaving side, and emptied by whoever has the side that is here.
// Any thread may call, and waits for none: a side that another thread has for long is left alone. O(1), but for take_all().

#include "pooled/base/size_class.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class handed_blocks {
public:
    static constexpr std::uint32_t k_most_blocks = 2 * k_cache_line / sizeof(void*);
    static constexpr std::size_t k_most_bytes = std::size_t{4} << 20;
    static constexpr std::uint32_t k_batches = 3;
    static constexpr std::size_t k_classes = k_class_count - k_first_large;

    // Leaves the first of them here. Returns how many: the others come when the last batch was taken, or are twice among these.
    // Requires a large class.
    [[nodiscard]] std::uint32_t push(class_index c, span<void* const> blocks) noexcept {
        one_class& of = m_classes[c - k_first_large];
        auto const most = detail::smaller<std::uint32_t>(
            static_cast<std::uint32_t>(k_most_bytes / k_geometry[c].block_bytes), k_most_blocks);
        if (most == 0 || !of.leaving.try_enter()) return 0;
        std::uint32_t pushed = 0;
        std::uint32_t count = of.leaving.count;
        for (void* const block : blocks) {
            if (count == most && !send(of, count)) break;
            batch& to = batch_of(c, of.leaving);
            bool is_there = false;
            for (std::uint32_t i = 0; i < count; ++i)
                is_there = is_there || to[i] == block;
            if (is_there) [[unlikely]]
                break;
            to[count++] = block;
            ++pushed;
        }
        if (count == most) static_cast<void>(send(of, count));
        of.leaving.count = count;
        of.leaving.leave();
        return pushed;
    }
    // Up to `most`. Returns how many.
    [[nodiscard]] std::uint32_t take(class_index c, std::uint32_t most, void** to) noexcept {
        one_class& of = m_classes[c - k_first_large];
        if (!of.here.try_enter()) return 0;
        if (of.here.count == 0 && of.sent.load(std::memory_order_relaxed) >= k_batches) {
            std::uint32_t const full = of.sent.exchange(of.here.at, std::memory_order_acq_rel);
            of.here.at = full % k_batches;
            of.here.count = full / k_batches;
        }
        std::uint32_t const taken = pop(c, of.here, most, to);
        of.here.leave();
        return taken;
    }
    // Requires the lock of the class, and room for k_batches times k_most_blocks. Returns how many.
    [[nodiscard]] std::uint32_t take_all(class_index c, void** to) noexcept {
        one_class& of = m_classes[c - k_first_large];
        if (count(c) == 0) return 0;
        std::uint32_t all = take(c, k_most_blocks, to);
        all += take(c, k_most_blocks, to + all);
        if (of.leaving.count != 0 && of.leaving.try_enter()) {
            all += pop(c, of.leaving, k_most_blocks, to + all);
            of.leaving.leave();
        }
        if (all != 0) of.taken.fetch_add(all, std::memory_order_relaxed);
        return all;
    }
    [[nodiscard]] std::uint32_t count(class_index c) const noexcept {
        one_class const& of = m_classes[c - k_first_large];
        return of.leaving.count + of.sent.load(std::memory_order_relaxed) / k_batches + of.here.count;
    }
    // How many take_all() has returned since the last call.
    [[nodiscard]] std::uint32_t end_taken(class_index c) noexcept {
        auto& taken = m_classes[c - k_first_large].taken;
        bool const is_any = taken.load(std::memory_order_relaxed) != 0;
        return is_any ? taken.exchange(0, std::memory_order_relaxed) : 0;
    }

private:
    friend record_access;
    // Null but for those that are in it.
    using batch = std::array<observed<void*>, k_most_blocks>;
    struct alignas(2 * k_cache_line) side {
        std_atomics::atomic<std::uint32_t> is_entered{0};
        observed<std::uint32_t> count;
        std::uint32_t at = 0;  // its batch

        // acquire: pairs with the release in leave(); what the last thread did here is seen.
        [[nodiscard]] bool try_enter() noexcept {
            for (unsigned attempt = 0; attempt < k_attempts; ++attempt) {
                if (is_entered.load(std::memory_order_relaxed) == 0 &&
                    is_entered.exchange(1, std::memory_order_acquire) == 0)
                    return true;
                platform::relax();
            }
            return false;
        }
        void leave() noexcept { is_entered.store(0, std::memory_order_release); }
    };
    static constexpr unsigned k_attempts = 16;

    struct one_class {
        side leaving{{}, {}, 0};
        side here{{}, {}, 1};
        alignas(2 * k_cache_line) std_atomics::atomic<std::uint32_t> sent{
            2};  // a batch, and k_batches times its count
        std_atomics::atomic<std::uint32_t> taken{0};
    };
    // The batch that is full. False: the last one has not been taken.
    static bool send(one_class& of, std::uint32_t& count) noexcept {
        if (of.sent.load(std::memory_order_relaxed) >= k_batches) return false;
        // release: pairs with the acquire in take(); what is in the batch is seen. acquire: with the release there, for the empty one.
        of.leaving.at = of.sent.exchange(of.leaving.at + k_batches * count, std::memory_order_acq_rel);
        count = 0;
        return true;
    }
    [[nodiscard]] batch& batch_of(class_index c, side const& of) noexcept {
        return m_batches[(c - k_first_large) * k_batches + of.at];
    }
    // Those that came last.
    std::uint32_t pop(class_index c, side& from, std::uint32_t most, void** to) noexcept {
        batch& of = batch_of(c, from);
        std::uint32_t count = from.count;
        std::uint32_t const popped = detail::smaller(count, most);
        for (std::uint32_t i = 0; i < popped; ++i) {
            to[i] = of[--count];
            of[count] = nullptr;
        }
        from.count = count;
        return popped;
    }

    alignas(2 * k_cache_line) std::array<batch, k_classes * k_batches> m_batches{};
    std::array<one_class, k_classes> m_classes{};
};

POOLED_END_DETAIL
