// SPDX-License-Identifier: BSL-1.0
// free_list: addresses go to the thread's cache and to a list behind a lock, and are found in both.

#include "pooled/object/free_list.hpp"

#include "pooled/object/own_core.hpp"
#include "pooled/pool/extension.hpp"
#include "pooled/pool/pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>

namespace {

using own_core = pooled::detail::own_core<pooled::detail::sharing::shared>;
constexpr std::size_t k_count = 1000;

struct owner final : pooled::detail::pool_extension {
    explicit owner(pooled::detail::pool_core& c) noexcept : core(c), list(c) {}
    ~owner() = default;
    void on_retire(pooled::detail::thread_cache& cache) noexcept override { list.retire(cache); }
    pooled::detail::pool_core& core;
    pooled::detail::free_list list;
};

class free_list : public testing::Test {
protected:
    free_list() : m_owner(own_core::make<owner>({.name = "test"})), list(m_owner.list) {
        pooled::detail::free_list::list reserved;
        reserved.reserve(list.capacity_for(k_count));
        std::scoped_lock const lock(list.mutex());
        list.move_to(reserved);
        void** const out = list.add(k_count);
        for (std::size_t i = 0; i < k_count; ++i)
            out[i] = &things[i];
    }
    ~free_list() override {
        {
            std::scoped_lock const lock(list.mutex());
            static_cast<void>(list.take_all([](std::size_t) {}));
        }
        pooled::detail::g_registry.close(m_owner.core);
        own_core::destroy(m_owner, m_owner.core);
    }
    [[nodiscard]] void* take() {
        if (void* const p = list.take_cached(0)) return p;
        auto* const mine = list.attach();
        std::scoped_lock const lock(list.mutex());
        return list.pop(mine, k_count);
    }
    void put(void* p) {
        if (list.put_cached(p, false)) return;
        auto* const mine = list.attach();
        std::scoped_lock const lock(list.mutex());
        list.push(mine, p, k_count);
    }
    [[nodiscard]] std::size_t idle() {
        std::scoped_lock const lock(list.mutex());
        return list.idle();
    }
    std::array<char, k_count> things{};

private:
    owner& m_owner;

protected:
    pooled::detail::free_list& list;
};

TEST_F(free_list, gives_the_last_address_first_and_each_once) {
    EXPECT_EQ(take(), &things[k_count - 1]);
    std::set<void*> seen;
    while (void* const p = take())
        EXPECT_TRUE(seen.insert(p).second);
    EXPECT_EQ(seen.size(), k_count - 1);
    for (void* const p : seen)
        put(p);
    EXPECT_EQ(idle(), k_count - 1);
}

TEST_F(free_list, spare_addresses_stay_in_the_cache) {
    static_cast<void>(take());
    std::size_t count = 0;
    while (list.take_cached(3) != nullptr)
        ++count;
    EXPECT_GT(count, 0U);
    EXPECT_NE(list.take_cached(2), nullptr);
}

TEST_F(free_list, finds_what_other_threads_have_cached) {
    std::thread([this] {
        std::set<void*> mine;
        for (std::size_t i = 0; i < k_count; ++i)
            mine.insert(take());
        for (void* const p : mine)
            put(p);
        std::thread([this] {
            std::size_t count = 0;
            while (take() != nullptr)
                ++count;
            EXPECT_EQ(count, k_count);
        }).join();
    }).join();
}

TEST_F(free_list, thread_that_ends_returns_what_it_cached) {
    std::thread([this] { put(take()); }).join();
    EXPECT_EQ(idle(), k_count);
    std::scoped_lock const lock(list.mutex());
    std::size_t counted = 0;
    EXPECT_EQ(list.take_all([&](std::size_t count) { counted = count; }).size(), k_count);
    EXPECT_EQ(counted, k_count);
}

TEST_F(free_list, stale_addresses_are_refused) {
    void* const p = take();
    EXPECT_FALSE(list.put_cached(p, true));
    EXPECT_TRUE(list.put_cached(p, false));
    EXPECT_EQ(idle(), k_count);
}

// More pools than have a place of their own in a thread.
struct many_pools {
    std::array<pooled::pool, pooled::detail::k_near_slots> pools;
};
class far_free_list : many_pools, public free_list {};

TEST_F(free_list, of_a_pool_with_a_place_in_each_thread_has_one_way) {
    put(take());
    EXPECT_EQ(list.take_far(0), nullptr);
    EXPECT_FALSE(list.put_far(&things[0], false));
}

TEST_F(far_free_list, has_another_way_to_a_threads_cache) {
    void* const p = take();
    EXPECT_EQ(list.take_cached(0), nullptr);
    EXPECT_FALSE(list.put_cached(p, false));
    EXPECT_FALSE(list.put_far(p, true)) << "it is stale";
    EXPECT_TRUE(list.put_far(p, false));
    EXPECT_EQ(list.take_far(0), p);
    put(p);
    EXPECT_EQ(idle(), k_count);
}

// As registry::before_fork() does, which stops a thread's far caches by one gate.
TEST_F(far_free_list, leaves_a_threads_cache_alone_while_a_fork_stops_the_thread) {
    void* const p = take();
    EXPECT_TRUE(list.put_far(p, false));
    pooled::detail::t_state.far_gate.stop_for_fork();
    EXPECT_EQ(list.take_far(0), nullptr);
    EXPECT_FALSE(list.put_far(&things[0], false));
    pooled::detail::t_state.far_gate.resume();
    EXPECT_EQ(list.take_far(0), p);
    put(p);
}

}  // namespace
