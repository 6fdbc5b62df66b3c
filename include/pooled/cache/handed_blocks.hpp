// SPDX-License-Identifier: BSL-1.0
#pragma once

// Large blocks on their way from the threads that freed them to those that allocate. A thread that frees what others allocated leaves
// blocks here without the lock of the class, and a thread that has none takes them. For each class there are three batches, each in two
// cache lines of its own:
//
//   freeing threads ─ push ─▶ leaving ─ when it is full ─▶ sent ─ when the last one is empty ─▶ here ─ take ─▶ allocating threads
//
// So two threads that hand blocks over contend for the lines of `sent` once in a batch, and not for a lock. Whoever has the lock of the
// class and finds its list empty takes all (take_all).
//
// Invariant: a block here is in no list and no cache, and counts as outside its central list; at most k_most_bytes of a class in a batch,
//            so of a class of longer blocks none. While `sent` is empty, only who has the leaving side writes to it; and only who has
//            the side that is here, while it is not.
// Any thread may call, and waits for none: a side that another thread has for long is left alone. O(1), but for take_all().

#include "pooled/base/size_class.hpp"
#include "pooled/os/platform.hpp"

POOLED_BEGIN_DETAIL

class handed_blocks {
public:
    static constexpr std::uint32_t k_most_blocks = 2 * k_cache_line / sizeof(void*) - 1;
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
        for (void* const block : blocks) {
            if (of.leaving.count == most && !send(of)) break;
            bool is_there = false;
            for (std::uint32_t i = 0; i < of.leaving.count; ++i)
                is_there = is_there || of.leaving.blocks[i] == block;
            if (is_there) [[unlikely]]
                break;
            of.leaving.blocks[of.leaving.count] = block;
            of.leaving.count.add(1);
            ++pushed;
        }
        if (of.leaving.count == most) static_cast<void>(send(of));
        of.leaving.leave();
        return pushed;
    }
    // Up to `most`. Returns how many.
    [[nodiscard]] std::uint32_t take(class_index c, std::uint32_t most, void** to) noexcept {
        one_class& of = m_classes[c - k_first_large];
        if (!of.here.try_enter()) return 0;
        if (of.here.count == 0) {
            // acquire: pairs with the release in send(); what was sent is seen.
            std::uint32_t const count = of.sent_count.load(std::memory_order_acquire);
            move(of.sent, of.here.blocks, count);
            of.here.count = count;
            if (count != 0) of.sent_count.store(0, std::memory_order_release);
        }
        std::uint32_t const taken = pop(of.here, most, to);
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
            all += pop(of.leaving, k_most_blocks, to + all);
            of.leaving.leave();
        }
        if (all != 0) of.taken.fetch_add(all, std::memory_order_relaxed);
        return all;
    }
    [[nodiscard]] std::uint32_t count(class_index c) const noexcept {
        one_class const& of = m_classes[c - k_first_large];
        return of.leaving.count + of.sent_count.load(std::memory_order_relaxed) + of.here.count;
    }
    // How many take_all() has returned since the last call.
    [[nodiscard]] std::uint32_t end_taken(class_index c) noexcept {
        auto& taken = m_classes[c - k_first_large].taken;
        bool const is_any = taken.load(std::memory_order_relaxed) != 0;
        return is_any ? taken.exchange(0, std::memory_order_relaxed) : 0;
    }

private:
    // Null but for those that are in it.
    using batch = std::array<observed<void*>, k_most_blocks>;
    struct alignas(2 * k_cache_line) side {
        std_atomics::atomic<std::uint32_t> is_entered{0};
        observed<std::uint32_t> count;
        batch blocks{};

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
        side leaving;
        side here;
        alignas(2 * k_cache_line) std_atomics::atomic<std::uint32_t> sent_count{0};
        std_atomics::atomic<std::uint32_t> taken{0};
        batch sent{};
    };
    // The batch that is full. False: the last one has not been taken.
    static bool send(one_class& of) noexcept {
        // acquire: pairs with the release in take(), which has read the last one.
        if (of.sent_count.load(std::memory_order_acquire) != 0) return false;
        std::uint32_t const count = of.leaving.count;
        move(of.leaving.blocks, of.sent, count);
        of.leaving.count = 0;
        of.sent_count.store(count, std::memory_order_release);
        return true;
    }
    static void move(batch& from, batch& to, std::uint32_t count) noexcept {
        for (std::uint32_t i = 0; i < count; ++i) {
            to[i] = from[i];
            from[i] = nullptr;
        }
    }
    // Those that came last.
    static std::uint32_t pop(side& from, std::uint32_t most, void** to) noexcept {
        std::uint32_t count = from.count;
        std::uint32_t const popped = detail::smaller(count, most);
        for (std::uint32_t i = 0; i < popped; ++i) {
            to[i] = from.blocks[--count];
            from.blocks[count] = nullptr;
        }
        from.count = count;
        return popped;
    }

    std::array<one_class, k_classes> m_classes{};
};

POOLED_END_DETAIL
