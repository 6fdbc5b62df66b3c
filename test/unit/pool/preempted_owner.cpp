// SPDX-License-Identifier: BSL-1.0
// A thread that is preempted inside the gate of its cache, as one of low priority may be for seconds: others go on.

#include "pooled/object_pool.hpp"
#include "pooled/pool.hpp"

#include "support/internals.hpp"
#include "support/preempted_holder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

// A thread that calls `use()`, enters the gate of its cache of the core, or is about to find it stopped, and stays there until leave(), or
// until it has waited for so long that a test would not end otherwise.
class preempted_owner {
public:
    template <class Use>
    preempted_owner(pooled::detail::pool_core& core, Use use)
        : m_thread([this, &core, use] {
              use();
              pooled::detail::thread_cache* const cache = pooled::detail::t_state().find(core.id());
              bool const is_inside = cache != nullptr && !pooled::detail::platform::is_barrier_refused();
              if (is_inside)
                  static_cast<void>(cache->gate.enter_or_stay());  // also while others are kept out
              std::unique_lock lock(m_mutex);
              m_state = is_inside ? state::inside : state::has_no_cache;
              m_changed.notify_all();
              m_changed.wait_for(lock, 20s, [this] { return m_state == state::may_leave; });
              m_was_in_the_way = m_state == state::inside;
              if (is_inside) cache->gate.leave();
          }) {
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, [this] { return m_state != state::outside; });
        m_has_cache = m_state == state::inside;
    }
    ~preempted_owner() { leave(); }
    [[nodiscard]] bool has_cache() const { return m_has_cache; }
    // False: something waited for it.
    bool leave() {
        if (m_thread.joinable()) {
            {
                std::scoped_lock const lock(m_mutex);
                m_state = state::may_leave;
            }
            m_changed.notify_all();
            m_thread.join();
        }
        return !m_was_in_the_way;
    }

private:
    enum class state { outside, inside, has_no_cache, may_leave };
    std::mutex m_mutex;
    std::condition_variable m_changed;
    state m_state = state::outside;
    bool m_has_cache = false;
    bool m_was_in_the_way = false;
    std::thread m_thread;
};

#define SKIP_WITHOUT_CACHES(owner) \
    if (!(owner).has_cache()) GTEST_SKIP() << "this build has no caches"

constexpr std::size_t k_bytes = 64;

void use(pooled::pool& pool, std::size_t count) {
    std::vector<void*> blocks(count);
    for (void*& p : blocks)
        p = pool.allocate(k_bytes);
    for (void* const p : blocks)
        pool.deallocate(p, k_bytes);
}

TEST(a_thread_preempted_inside_its_cache, stops_no_other_operation_on_the_pool) {
    pooled::pool pool;
    void* from_owner = nullptr;
    preempted_owner owner(test::core_of(pool), [&] {
        use(pool, 5'000);
        from_owner = pool.allocate(k_bytes);
    });
    SKIP_WITHOUT_CACHES(owner);
    use(pool, 200'000);  // grows
    pool.deallocate(from_owner, k_bytes);
    for (int i = 0; i < 5; ++i)
        std::thread([&] { use(pool, 1'000); }).join();
    EXPECT_EQ(pool.stats().in_use, 0U);
    pool.reserve<int>(10'000);
    std::thread([&] { use(pool, 200'000); }).join();  // with a reservation
    static_cast<void>(pool.trim());
    EXPECT_TRUE(owner.leave());
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(a_thread_preempted_inside_its_cache, stops_only_who_destroys_the_pool) {
    std::optional<pooled::pool> pool(std::in_place);
    pooled::pool other;
    preempted_owner owner(test::core_of(*pool), [&] { use(*pool, 100); });
    SKIP_WITHOUT_CACHES(owner);
    void* const out = pool->allocate(k_bytes);
    auto* const resource = pool->resource();
    std::atomic<bool> is_destroyed{false};
    std::thread destroyer([&] {
        pool.reset();
        is_destroyed = true;
    });
    for (int i = 0; i < 5; ++i) {
        std::thread([&] { use(other, 1'000); }).join();
        std::this_thread::sleep_for(1ms);  // it probably waits
    }
    resource->deallocate(out, k_bytes);
    use(other, 1'000);
    EXPECT_TRUE(owner.leave());
    destroyer.join();
    EXPECT_TRUE(is_destroyed);
}

TEST(a_thread_preempted_inside_its_cache, is_waited_for_by_nobody_but_who_reports_exhaustion) {
    constexpr std::size_t k_large = std::size_t{64} << 10;
    pooled::pool pool{{.max_bytes = 16 * k_large}};
    preempted_owner owner(test::core_of(pool), [&] { use(pool, 100); });
    SKIP_WITHOUT_CACHES(owner);
    std::atomic<bool> has_result{false};
    std::thread greedy([&] {
        std::vector<void*> all;
        while (void* const p = pool.try_allocate(k_large))
            all.push_back(p);
        has_result = true;
        for (void* const p : all)
            pool.deallocate(p, k_large);
    });
    for (int i = 0; i < 20; ++i) {
        std::thread([&] { pool.deallocate(pool.allocate(k_bytes), k_bytes); }).join();
        std::this_thread::sleep_for(1ms);
        static_cast<void>(pool.stats());
    }
    EXPECT_FALSE(has_result) << "what the owner has cached is not known";
    EXPECT_TRUE(owner.leave());
    greedy.join();
    EXPECT_EQ(pool.stats().in_use, 0U);
    EXPECT_TRUE(test::is_valid(pool));
}

// A reserve() that its blocks suffice for reports exhaustion otherwise.
TEST(a_thread_preempted_inside_its_cache, is_waited_for_by_who_would_have_to_refuse_a_reservation) {
    constexpr std::size_t k_count = 1'000;
    pooled::pool pool{{.max_bytes = pooled::pool::bytes_for(k_count, k_bytes)}};
    preempted_owner owner(test::core_of(pool), [&] { use(pool, k_count); });
    SKIP_WITHOUT_CACHES(owner);
    std::atomic<bool> is_over{false};
    std::thread reserving([&] {
        EXPECT_NO_THROW(pool.reserve_bytes(k_count, k_bytes));
        is_over = true;
    });
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(is_over) << "what the owner has cached is not known";
    EXPECT_TRUE(owner.leave());
    reserving.join();
    EXPECT_TRUE(test::is_valid(pool));
}

// Its cache did not exist when the pool began to look at all of them.
TEST(a_thread_preempted_inside_its_cache, and_that_came_while_another_one_searches_hides_no_block) {
    constexpr std::size_t k_large = 16'384 - pooled::detail::k_guard_bytes;
    pooled::pool pool{{.max_bytes = 1U << 20}};
    std::vector<void*> all;
    while (all.size() < 63)
        all.push_back(pool.allocate(k_large));
    ASSERT_FALSE(test::core_of(pool).caches().is_at_bound());
    test::preempted_holder holder(test::core_of(pool).caches()[0]);
    std::atomic<bool> has_result{false};
    std::thread searching([&] {
        std::vector<void*> got;
        while (void* const p = pool.try_allocate(k_large))
            got.push_back(p);
        has_result = true;
        EXPECT_EQ(got.size(), 2U);
        for (void* const p : got)
            pool.deallocate(p, k_large);
    });
    std::this_thread::sleep_for(30ms);  // it looks for a second one, and waits for that lock
    preempted_owner owner(test::core_of(pool), [&] {
        pool.deallocate(all.back(), k_large);
        all.pop_back();
    });
    EXPECT_TRUE(holder.leave());
    if (owner.has_cache()) {
        std::this_thread::sleep_for(20ms);
        EXPECT_FALSE(has_result) << "what the owner has cached is not known";
    }
    EXPECT_TRUE(owner.leave());
    searching.join();
    for (void* const p : all)
        pool.deallocate(p, k_large);
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(a_thread_preempted_inside_its_cache, does_not_keep_others_from_building_objects) {
    struct object {};
    pooled::object_pool<object> pool;
    auto const mine = pool.acquire();
    auto const use = [&] {
        for (int i = 0; i < 3'000; ++i)  // until objects are cached again
            static_cast<void>(pool.acquire());
    };
    preempted_owner owner(pooled::detail::object_pool_access::core(pool), use);
    SKIP_WITHOUT_CACHES(owner);
    std::vector<std::shared_ptr<object>> objects(100);
    for (auto& p : objects)
        p = pool.acquire();
    static_cast<void>(pool.stats());
    std::thread(use).join();
    objects.clear();
    EXPECT_TRUE(owner.leave());
    EXPECT_TRUE(test::is_valid(pool));
}

TEST(a_thread_preempted_inside_its_cache, keeps_only_what_it_has_deferred_itself) {
    struct object {
        std::shared_ptr<object> next;
    };
    pooled::pool pool{{.teardown = pooled::teardown::incremental}};
    preempted_owner owner(test::core_of(pool), [&] { pool.make_shared<object>().reset(); });
    SKIP_WITHOUT_CACHES(owner);
    std::thread([&] { pool.make_shared<object>().reset(); }).join();
    pool.make_shared<object>().reset();
    static_cast<void>(pool.drain());
    for (int i = 0; i < 100; ++i)
        pool.make_shared<object>().reset();
    EXPECT_TRUE(owner.leave());
    static_cast<void>(pool.drain());
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
