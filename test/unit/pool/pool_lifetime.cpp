// SPDX-License-Identifier: BSL-1.0
// A pool may be destroyed before its blocks: memory lives until the last one is returned, and is then released.

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/lives.hpp"
#include "support/pool_kinds.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

template <class Pool>
class destroyed : public testing::Test {
protected:
    test::counting_upstream upstream;
    std::optional<Pool> pool{std::in_place, pooled::pool_options{.upstream = &upstream}};
    test::life_log log;
};
TYPED_TEST_SUITE(destroyed, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(destroyed, pool_keeps_the_memory_of_a_shared_ptr) {
    auto p = this->pool->template make_shared<test::counted<>>(this->log);
    std::weak_ptr<test::counted<>> const weak = p;
    this->pool.reset();
    EXPECT_EQ(this->log.alive(), 1);
    EXPECT_TRUE(this->upstream.contains(p.get()));
    auto copy = p;
    p.reset();
    EXPECT_EQ(weak.lock(), copy);
    copy.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_GT(this->upstream.bytes(), 0U) << "a weak_ptr counts as out";
}

TYPED_TEST(destroyed, pool_goes_with_the_last_unique_ptr) {
    auto one = this->pool->template make_unique<test::counted<>>(this->log);
    test::life_log::scope const scope(this->log);
    auto many = this->pool->template make_unique<test::counted<>[]>(100);
    this->pool.reset();
    one.reset();
    EXPECT_GT(this->upstream.bytes(), 0U);
    many.reset();
    EXPECT_EQ(this->log.alive(), 0);
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_goes_with_the_last_large_block) {
    auto large = this->pool->template make_shared<test::counted<100'000>>(this->log);
    auto small = this->pool->template make_shared<test::counted<>>(this->log);
    this->pool.reset();
    small.reset();
    EXPECT_GT(this->upstream.bytes(), 0U);
    large.reset();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_is_outlived_by_pmr_containers) {
    {
        std::pmr::map<int, std::pmr::string> map(this->pool->resource());
        for (int i = 0; i < 1000; ++i)
            map.emplace(i, std::string(static_cast<std::size_t>(i % 200), 'x'));
        this->pool.reset();
        EXPECT_EQ(map.at(199).size(), 199U);
        map.erase(7);
        EXPECT_GT(this->upstream.bytes(), 0U);
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_is_outlived_by_containers_with_its_allocator) {
    using alloc = pooled::pool_allocator<int, TypeParam>;
    {
        std::list<int, alloc> list{alloc(*this->pool)};
        std::vector<int, alloc> vector{alloc(*this->pool)};
        std::vector<int, alloc> const empty{alloc(*this->pool)};
        for (int i = 0; i < 50'000; ++i) {
            list.push_back(i);
            vector.push_back(i);
        }
        this->pool.reset();
        EXPECT_EQ(list.back(), 49'999);
        EXPECT_EQ(vector.back(), 49'999);
        list.pop_front();
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_may_be_destroyed_by_its_own_object) {
    struct owner {
        std::unique_ptr<TypeParam> pool;
    };
    auto own = std::make_unique<TypeParam>(pooled::pool_options{.upstream = &this->upstream});
    TypeParam& from = *own;
    auto p = from.template make_shared<owner>(std::move(own));
    p.reset();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_leaves_its_number_to_a_new_one_without_confusion) {
    for (int i = 0; i < 300; ++i) {
        TypeParam next{{.upstream = &this->upstream}};
        auto p = next.template make_shared<int>(i);
        EXPECT_TRUE(next.owns(p.get()));
        EXPECT_FALSE(this->pool->owns(p.get()));
        EXPECT_EQ(*p, i);
    }
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(destroyed, pool_with_blocks_out_keeps_its_number_from_new_ones) {
    auto old = this->pool->template make_shared<int>(1);
    this->pool.reset();
    for (int i = 0; i < 100; ++i) {
        TypeParam next;
        auto p = next.template make_shared<int>(i);
        ASSERT_FALSE(next.owns(old.get()));
    }
    EXPECT_EQ(*old, 1);
    old.reset();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TEST(many_pools, live_side_by_side_and_keep_their_blocks_apart) {
    std::size_t const count = test::k_sanitized ? 1000 : 3000;
    test::counting_upstream upstream;
    std::vector<std::unique_ptr<pooled::pool>> pools;
    std::vector<std::shared_ptr<std::size_t>> objects;
    for (std::size_t i = 0; i < count; ++i) {
        pools.push_back(std::make_unique<pooled::pool>(
            pooled::pool_options{.max_bytes = 16 << 10, .upstream = &upstream}));
        objects.push_back(pools.back()->make_shared<std::size_t>(i));
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(*objects[i], i);
        ASSERT_TRUE(pools[i]->owns(objects[i].get()));
        ASSERT_FALSE(pools[(i + 1) % count]->owns(objects[i].get()));
        ASSERT_EQ(pools[i]->stats().in_use, 1U);
    }
    // Another thread, whose table of pools starts empty, uses them from the last to the first.
    std::thread([&] {
        for (std::size_t i = count; i-- != 0;) {
            objects[i].reset();
            ASSERT_EQ(*pools[i]->make_shared<std::size_t>(i), i);
        }
    }).join();
    for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(pools[i]->stats().in_use, 0U) << i;
    pools.clear();
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(many_pools, die_in_any_order_and_their_numbers_are_used_again_by_every_thread) {
    test::sleeper other;
    std::vector<std::unique_ptr<pooled::pool>> pools(100);
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = static_cast<std::size_t>(round) % 3; i < pools.size(); i += 3)
            pools[i] = std::make_unique<pooled::pool>();
        auto const use = [&] {
            for (auto const& pool : pools) {
                if (pool == nullptr) continue;
                auto const p = pool->make_shared<int>(1);
                ASSERT_TRUE(pool->owns(p.get()));
            }
        };
        use();
        other.run(use);
        for (auto const& pool : pools) {
            if (pool == nullptr) continue;
            ASSERT_EQ(pool->stats().in_use, 0U);
            ASSERT_EQ(pool->stats().threads, 2U);
        }
    }
}

TEST(destroyed_pool, takes_blocks_home_from_any_thread_awake_asleep_or_ended) {
    test::counting_upstream upstream;
    std::optional<pooled::pool> pool(std::in_place, pooled::pool_options{.upstream = &upstream});
    test::sleeper asleep;
    test::sleeper other;
    std::vector<std::shared_ptr<int>> objects;
    asleep.run([&] {
        for (int i = 0; i < 1000; ++i)
            objects.push_back(pool->make_shared<int>(i));
    });
    std::thread([&] { objects.push_back(pool->make_shared<int>(1)); }).join();
    pool.reset();
    other.run([&] { objects.resize(500); });
    asleep.run([&] { objects.resize(100); });
    std::thread([&] { objects.resize(50); }).join();
    EXPECT_GT(upstream.bytes(), 0U);
    objects.clear();
    EXPECT_EQ(upstream.bytes(), 0U);
}

TEST(destroyed_pool, takes_a_block_home_from_a_thread_local_destructor) {
    struct keeper {
        std::shared_ptr<int> p;
    };
    test::counting_upstream upstream;
    {
        pooled::pool pool{{.upstream = &upstream}};
        std::thread([&] {
            static thread_local keeper late;  // its destructor runs after the thread's last statement
            late.p = pool.make_shared<int>(1);
            auto const early = pool.make_shared<int>(2);
        }).join();
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_EQ(pool.stats().cached, 0U);
    }
    EXPECT_EQ(upstream.bytes(), 0U);
}

}  // namespace
