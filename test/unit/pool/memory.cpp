// SPDX-License-Identifier: BSL-1.0
// The memory of a pool alone, with two threads' caches made by hand: what a call does that a cache could not serve, and
// that nothing free is overlooked before upstream is asked for more or "exhausted" is reported.

#include "pooled/impl/pool/memory.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace {

using namespace pooled::detail;

constexpr class_index k_48 = class_for(48, 8);
constexpr class_index k_1500 = class_for(1500, 8);
constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr std::size_t k_large_bytes = 100'000;
constexpr std::size_t k_exact_bytes = k_max_large_block_bytes + 1;
constexpr std::uint32_t k_pool_id = 60'010;  // no pool of this program has it

static_assert(default_chunk_bytes(0) == k_default_chunk_bytes);
static_assert(default_chunk_bytes(k_granule_bytes) == k_granule_bytes);
static_assert(default_chunk_bytes(8 * k_mib) == k_mib / 2);

// The memory of a shared pool with the caches of two threads that do not run.
class pool_memory_test : public testing::Test {
protected:
    void make(std::size_t max_bytes = 0) {
        memory.emplace(pooled::pool_options{.max_bytes = max_bytes, .upstream = &failing}, "packets",
                       k_pool_id, true);
        std::scoped_lock const lock(memory->caches());
        for (std::size_t i = 0; i < 2; ++i) {
            caches[i].owner = &owners[i];
            memory->caches().link(caches[i]);
        }
    }
    pool_memory_test() {
        EXPECT_TRUE(platform::has_heavy_barrier());
        make();
    }
    ~pool_memory_test() override {
        EXPECT_TRUE(memory->is_valid());
        close();
        memory.reset();
        EXPECT_EQ(upstream_memory.bytes(), 0U);
    }
    void close() {
        std::scoped_lock const lock(memory->caches());
        while (thread_cache* const cache = memory->caches().first())
            memory->caches().retire(*cache);
    }

    // As the owner of the cache does: the fast path, then the slow one.
    [[nodiscard]] void* take(std::size_t i, class_index c, large_shape large = {}) {
        void* cached = nullptr;
        if (caches[i].gate.enter()) {
            cached = caches[i].pop(c);
            caches[i].gate.leave();
        }
        return cached != nullptr ? cached : memory->allocate(c, &caches[i], large);
    }
    void give(std::size_t i, class_index c, void* block) {
        if (caches[i].gate.enter()) {
            bool const is_cached = caches[i].push(c, block);
            caches[i].gate.leave();
            if (is_cached) return;
        }
        EXPECT_EQ(memory->deallocate(c, &caches[i], block), 0U);
    }
    [[nodiscard]] std::vector<void*> take_all(std::size_t i, class_index c) {
        std::vector<void*> all;
        while (void* const p = take(i, c))
            all.push_back(p);
        return all;
    }
    void give_all(std::size_t i, class_index c, std::vector<void*> const& all) {
        for (void* const p : all)
            give(i, c, p);
    }
    [[nodiscard]] void* take_large(std::size_t i) {
        return take(i, large_class_for(k_large_bytes, 16), {k_large_bytes, 16});
    }
    [[nodiscard]] pooled::pool_stats stats() {
        pooled::pool_stats sum;
        memory->fill(sum);
        return sum;
    }

    test::counting_upstream upstream_memory;
    test::failing_upstream failing{upstream_memory};
    std::array<thread_state, 2> owners{};
    std::array<thread_cache, 2> caches;
    std::optional<pool_memory> memory;
};

class bounded_pool_memory : public pool_memory_test {
protected:
    bounded_pool_memory() {
        close();
        make(k_mib);
    }
    // Replaces a block until threads use their caches again. Returns how often.
    std::size_t leave_bound(class_index c, void*& block) {
        std::size_t served = 0;
        for (; memory->caches().is_at_bound() && served < 100'000; ++served) {
            give(0, c, block);
            block = take(0, c);
            EXPECT_NE(block, nullptr);
        }
        return served;
    }
};

// The pool's mode at its bound.

// The first report stops all threads; the others are one look each.
TEST_F(bounded_pool_memory, asks_nobody_when_it_reports_exhaustion_again) {
    auto const all = take_all(0, k_48);
    std::uint32_t const epoch = memory->caches().bound_epoch();
    std::size_t const calls = failing.calls();
    for (std::size_t i = 0; i < 3000; ++i) {
        EXPECT_EQ(memory->allocate(k_48, &caches[i % 2]), nullptr);
        EXPECT_EQ(memory->allocate(k_1500, nullptr), nullptr);
        EXPECT_EQ(take_large(0), nullptr);
    }
    EXPECT_EQ(memory->caches().bound_epoch(), epoch);
    EXPECT_EQ(failing.calls(), calls);
    give_all(0, k_48, all);
}

TEST_F(bounded_pool_memory, uses_its_caches_again_once_it_has_served_some_thousand_requests) {
    auto all = take_all(0, k_48);
    std::size_t const served = leave_bound(k_48, all.back());
    EXPECT_GE(served, 1000U);
    EXPECT_LE(served, 10'000U);
    give_all(0, k_48, all);
    EXPECT_NE(stats().cached, 0U);
}

TEST_F(bounded_pool_memory, does_not_leave_that_mode_while_requests_fail) {
    auto all = take_all(0, k_48);
    std::uint32_t const epoch = memory->caches().bound_epoch();
    for (int i = 0; i < 20'000; ++i) {
        give(0, k_48, all.back());
        all.back() = take(0, k_48);
        ASSERT_NE(all.back(), nullptr);
        if (i % 500 == 0) {
            EXPECT_EQ(take(1, k_48), nullptr) << i;
        }
    }
    EXPECT_EQ(memory->caches().bound_epoch(), epoch);
    give_all(0, k_48, all);
}

TEST_F(pool_memory_test, keeps_at_most_64_mib_or_half_of_the_memory_free_in_spans_of_their_own) {
    for (std::size_t const count : {2U, 4U, 12U}) {
        std::vector<void*> all;
        while (all.size() < count)
            all.push_back(memory->allocate(k_exact, nullptr, {2 * k_exact_bytes, 16}));  // never touched
        std::size_t const most = upstream_memory.bytes();
        for (void* const p : all)
            EXPECT_EQ(memory->deallocate(k_exact, nullptr, p), 0U);
        EXPECT_LE(upstream_memory.bytes(), std::max(std::size_t{64} << 20, most / 2) + 3 * k_exact_bytes);
        memory->trim();
    }
}

TEST_F(pool_memory_test, has_a_slab_in_reserve_for_each_of_the_two_classes) {
    std::size_t const count =
        2 * (k_slab_bytes / k_geometry[k_1500].block_bytes);  // two slabs, if they are of one class
    ASSERT_TRUE(memory->reserve(k_48, k_1500, count));
    failing.fail_always(true);
    void* const small = take(0, k_48);
    std::vector<void*> all;
    while (all.size() < count - 1)
        all.push_back(take(0, k_1500));
    give(0, k_48, small);
    give_all(0, k_1500, all);
}

}  // namespace
