// SPDX-License-Identifier: BSL-1.0
// pool, object_pool and singleton_pool, beside those of Boost.

#include "pooled/compat/boost_pool.hpp"

#include "support/lives.hpp"
#include "unit/compat/boost_pool_sides.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

template <class Side>
class boost_pools : public testing::Test {
protected:
    using user = test::booked_user_allocator<boost_pools>;
    boost_pools() { user::open() = {}; }
    ~boost_pools() override {
        EXPECT_EQ(user::open().out.size(), 0U) << "memory was not given back to the user's allocator";
        EXPECT_EQ(user::open().errors, 0U) << "what was given back was not out";
    }
};
TYPED_TEST_SUITE(boost_pools, test::pool_sides, test::pool_side_names);

// The sizes that it can be asked for are small ones.
template <class UserAllocator>
struct small_user_allocator : UserAllocator {
    using size_type = std::uint32_t;
    using difference_type = std::int32_t;
    static char* malloc(size_type bytes) { return UserAllocator::malloc(bytes); }
};

// pool.

TYPED_TEST(boost_pools, pool_gives_distinct_chunks_of_the_requested_size) {
    typename TypeParam::template pool<typename TestFixture::user> pool(20);
    EXPECT_EQ(pool.get_requested_size(), 20U);
    std::vector<unsigned char*> chunks;
    for (int i = 0; i < 1000; ++i) {
        auto* const p = static_cast<unsigned char*>(pool.ordered_malloc());
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignof(void*), 0U);
        EXPECT_TRUE(pool.is_from(p));
        std::memset(p, i, 20);
        chunks.push_back(p);
    }
    for (std::size_t i = 0; i < chunks.size(); ++i)
        for (int b = 0; b < 20; ++b)
            ASSERT_EQ(chunks[i][b], static_cast<unsigned char>(i));
    int on_the_stack = 0;
    EXPECT_FALSE(pool.is_from(&on_the_stack));
    EXPECT_FALSE(pool.release_memory()) << "every chunk is in use";
    for (unsigned char* p : chunks)
        pool.ordered_free(p);
    EXPECT_TRUE(pool.release_memory());
    EXPECT_FALSE(pool.release_memory());
}

TYPED_TEST(boost_pools, pool_gives_its_memory_back_when_it_dies_whatever_is_out) {
    typename TypeParam::template pool<typename TestFixture::user> pool(48);
    for (int i = 0; i < 10'000; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    ASSERT_NE(pool.ordered_malloc(5000), nullptr);
    EXPECT_GT(TestFixture::user::open().out.size(), 0U);
}

TYPED_TEST(boost_pools, pool_gives_chunks_in_a_row) {
    typename TypeParam::template pool<typename TestFixture::user> pool(16);
    for (std::size_t n : {1U, 2U, 10U, 100U, 5000U}) {
        auto* const p = static_cast<unsigned char*>(pool.ordered_malloc(n));
        ASSERT_NE(p, nullptr);
        std::memset(p, 1, 16 * n);
        EXPECT_TRUE(pool.is_from(p + 16 * n - 1));
        pool.ordered_free(p, n);
        pool.free(pool.ordered_malloc(n), n);
    }
    EXPECT_EQ(pool.ordered_malloc(0), nullptr);
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
    EXPECT_EQ(pool.ordered_malloc(std::numeric_limits<std::size_t>::max() / 16 + 2), nullptr);
    EXPECT_EQ(pool.ordered_malloc(std::numeric_limits<std::size_t>::max()), nullptr);
}

TYPED_TEST(boost_pools, pool_grows_as_it_is_told) {
    typename TypeParam::template pool<typename TestFixture::user> pool(1024, 128, 500);
    auto const& books = TestFixture::user::open();
    EXPECT_EQ(pool.get_next_size(), 128U);
    EXPECT_EQ(pool.get_max_size(), 500U);
    ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_GE(books.smallest, 128U * 1024);
    EXPECT_EQ(pool.get_next_size(), 256U);
    for (int i = 0; i < 4000; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(pool.get_next_size(), 500U);
    EXPECT_GE(books.largest, 448U * 1024);
    EXPECT_LE(books.largest, 500U * 1024 + 17 * 1024);
    pool.set_next_size(100);
    EXPECT_EQ(pool.get_next_size(), 100U);
    pool.set_max_size(200);
    EXPECT_EQ(pool.get_max_size(), 200U);
}

TYPED_TEST(boost_pools, pool_gives_null_when_the_user_allocator_has_no_more_and_recovers) {
    typename TypeParam::template pool<typename TestFixture::user> pool(64);
    TestFixture::user::open().most_bytes = 0;
    EXPECT_EQ(pool.malloc(), nullptr);
    EXPECT_EQ(pool.ordered_malloc(), nullptr);
    EXPECT_EQ(pool.ordered_malloc(3), nullptr);
    TestFixture::user::open().most_bytes = std::numeric_limits<std::size_t>::max();
    void* const p = pool.malloc();
    ASSERT_NE(p, nullptr);
    pool.free(p);
}

TYPED_TEST(boost_pools, pool_asks_for_less_when_much_is_refused) {
    typename TypeParam::template pool<typename TestFixture::user> pool(1024, 512);
    TestFixture::user::open().most_bytes = 300 * 1024;
    EXPECT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().out.size(), 1U);
}

TYPED_TEST(boost_pools, pool_of_chunks_larger_than_a_slab_keeps_them) {
    typename TypeParam::template pool<typename TestFixture::user> pool(100'000, 4);
    std::vector<void*> chunks(20);
    for (int round = 0; round < 3; ++round) {
        for (void*& p : chunks) {
            p = pool.malloc();
            ASSERT_NE(p, nullptr);
            std::memset(p, round, 100'000);
        }
        for (void* p : chunks)
            pool.free(p);
    }
    EXPECT_LE(TestFixture::user::open().calls, 3U);
    ASSERT_NE(pool.malloc(), nullptr);
}

// object_pool.

TYPED_TEST(boost_pools, object_pool_destroys_what_is_out_when_it_dies) {
    test::life_log log;
    {
        typename TypeParam::template object_pool<test::counted<>, typename TestFixture::user> pool;
        for (int i = 0; i < 1000; ++i)
            ASSERT_NE(pool.construct(log), nullptr);
        test::counted<>* const gone = pool.construct(log);
        EXPECT_TRUE(pool.is_from(gone));
        pool.destroy(gone);
        EXPECT_EQ(log.alive(), 1000);
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(log.constructed(), 1001);
}

TYPED_TEST(boost_pools, object_pool_passes_arguments_on) {
    struct triple {
        triple() = default;
        triple(int x, std::string const& y, double z) : a(x), b(y), c(z) {}
        int a = 0;
        std::string b;
        double c = 0;
    };
    typename TypeParam::template object_pool<triple, typename TestFixture::user> pool;
    EXPECT_EQ(pool.construct()->a, 0);
    std::string text = "two";
    triple const* const p = pool.construct(1, text, 3.0);
    EXPECT_EQ(p->a, 1);
    EXPECT_EQ(p->b, "two");
    EXPECT_EQ(p->c, 3.0);
    EXPECT_EQ(text, "two");
    typename TypeParam::template object_pool<std::string> strings;
    EXPECT_EQ(*strings.construct(5U, 'x'), "xxxxx");
}

TYPED_TEST(boost_pools, object_pool_gives_raw_memory) {
    test::life_log log;
    {
        typename TypeParam::template object_pool<test::counted<>, typename TestFixture::user> pool;
        test::counted<>* const back = pool.malloc();
        pool.free(back);
        test::counted<>* const used = pool.malloc();
        EXPECT_TRUE(pool.is_from(used));
        ::new (static_cast<void*>(used)) test::counted<>(log);
    }
    EXPECT_EQ(log.constructed(), 1);
    EXPECT_EQ(log.alive(), 0);
}

TYPED_TEST(boost_pools, object_pool_is_as_before_when_a_constructor_throws) {
    test::life_log log;
    {
        typename TypeParam::template object_pool<test::counted<>, typename TestFixture::user> pool;
        pool.construct(log);
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(pool.construct(log)), test::constructor_failed);
        log.throw_at(0);
        EXPECT_EQ(log.alive(), 1);
        pool.construct(log);
    }
    EXPECT_EQ(log.alive(), 0);
}

TYPED_TEST(boost_pools, object_pool_gives_null_when_the_user_allocator_has_no_more) {
    typename TypeParam::template object_pool<std::string, typename TestFixture::user> pool;
    TestFixture::user::open().most_bytes = 0;
    EXPECT_EQ(pool.construct(), nullptr);
    EXPECT_EQ(pool.malloc(), nullptr);
    TestFixture::user::open().most_bytes = std::numeric_limits<std::size_t>::max();
    EXPECT_NE(pool.construct(), nullptr);
}

TYPED_TEST(boost_pools, object_pool_grows_as_it_is_told) {
    typename TypeParam::template object_pool<std::string, typename TestFixture::user> pool(64);
    EXPECT_EQ(pool.get_next_size(), 64U);
    pool.set_next_size(16'384);
    static_cast<void>(pool.construct());
    EXPECT_GE(TestFixture::user::open().largest, 16'384 * sizeof(std::string));
    EXPECT_EQ(pool.get_next_size(), 32'768U);
    typename TypeParam::template object_pool<std::string, typename TestFixture::user> limited(64, 128);
    static_cast<void>(limited.construct());
    EXPECT_EQ(limited.get_next_size(), 128U);
}

TYPED_TEST(boost_pools, object_pool_tells_its_own_objects) {
    typename TypeParam::template object_pool<int> pool;
    typename TypeParam::template object_pool<int> other;
    EXPECT_TRUE(pool.is_from(pool.construct(1)));
    EXPECT_FALSE(pool.is_from(other.construct(1)));
    int on_the_stack = 0;
    EXPECT_FALSE(pool.is_from(&on_the_stack));
}

// singleton_pool.

TYPED_TEST(boost_pools, singleton_pool_publishes_what_it_was_made_with) {
    struct one;
    using pool = typename TypeParam::template singleton_pool<one, 24>;
    static_assert(std::is_same_v<typename pool::tag, one>);
    static_assert(pool::requested_size == 24 && pool::next_size == 32);
    static_assert(
        std::is_same_v<typename pool::user_allocator, typename TypeParam::default_user_allocator_new_delete>);
    static_assert(std::is_same_v<typename pool::mutex, typename TypeParam::default_mutex>);
    static_assert(std::is_same_v<typename pool::size_type, std::size_t>);
    static_assert(std::is_same_v<typename pool::difference_type, std::ptrdiff_t>);
}

TYPED_TEST(boost_pools, singleton_pools_of_two_tags_are_two) {
    struct one;
    struct two;
    using first = typename TypeParam::template singleton_pool<one, 40, typename TestFixture::user>;
    using second = typename TypeParam::template singleton_pool<two, 40, typename TestFixture::user>;
    void* const p = first::malloc();
    void* const q = second::malloc();
    EXPECT_TRUE(first::is_from(p));
    EXPECT_FALSE(first::is_from(q));
    EXPECT_FALSE(second::is_from(p));
    EXPECT_FALSE(first::is_from(nullptr));
    first::free(p);
    second::ordered_free(q);
    EXPECT_TRUE(first::release_memory());
    EXPECT_TRUE(second::purge_memory());
}

TYPED_TEST(boost_pools, singleton_pool_releases_what_has_no_chunk_in_use) {
    struct one;
    using pool = typename TypeParam::template singleton_pool<one, 56, typename TestFixture::user>;
    EXPECT_FALSE(pool::release_memory());
    void* const p = pool::ordered_malloc();
    void* const q = pool::ordered_malloc(3);
    EXPECT_FALSE(pool::release_memory());
    pool::ordered_free(p);
    pool::ordered_free(q, 3);
    EXPECT_TRUE(pool::release_memory());
    EXPECT_FALSE(pool::release_memory());
    EXPECT_EQ(TestFixture::user::open().out.size(), 0U);
}

TYPED_TEST(boost_pools, singleton_pool_purges_chunks_in_use_and_works_on) {
    struct one;
    using pool = typename TypeParam::template singleton_pool<one, 80, typename TestFixture::user>;
    EXPECT_FALSE(pool::purge_memory());
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 3000; ++i) {
            void* const p = pool::malloc();
            ASSERT_NE(p, nullptr);
            std::memset(p, 0xab, 80);
            if (i % 3 == 0) pool::free(p);
        }
        for (std::size_t n : {2U, 17U, 500U, 2000U}) {
            void* const p = pool::ordered_malloc(n);
            ASSERT_NE(p, nullptr);
            std::memset(p, 0xcd, 80 * n);
            if (n == 17) pool::ordered_free(p, n);
        }
        EXPECT_TRUE(pool::purge_memory());
        EXPECT_EQ(TestFixture::user::open().out.size(), 0U);
        EXPECT_FALSE(pool::purge_memory());
    }
}

TYPED_TEST(boost_pools, singleton_pool_purges_chunks_larger_than_a_slab) {
    struct one;
    using pool = typename TypeParam::template singleton_pool<one, 70'000, typename TestFixture::user,
                                                             typename TypeParam::default_mutex, 3>;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 10; ++i)
            ASSERT_NE(pool::malloc(), nullptr);
        pool::free(pool::malloc());
        ASSERT_NE(pool::ordered_malloc(4), nullptr);
        EXPECT_TRUE(pool::purge_memory());
        EXPECT_EQ(TestFixture::user::open().out.size(), 0U);
    }
}

TYPED_TEST(boost_pools, singleton_pool_serves_a_user_allocator_with_small_sizes) {
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
    struct one;
    using pool =
        typename TypeParam::template singleton_pool<one, 32,
                                                    small_user_allocator<typename TestFixture::user>>;
    void* const p = pool::malloc();
    ASSERT_NE(p, nullptr);
    pool::free(p);
    EXPECT_EQ(pool::ordered_malloc(std::numeric_limits<std::uint32_t>::max()), nullptr);
    EXPECT_TRUE(pool::release_memory());
}

TYPED_TEST(boost_pools, singleton_pool_refuses_none_and_what_no_address_space_holds) {
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
    struct one;
    using pool = typename TypeParam::template singleton_pool<one, 32>;
    EXPECT_EQ(pool::ordered_malloc(0), nullptr);
    EXPECT_EQ(pool::ordered_malloc(std::numeric_limits<std::size_t>::max() / 32 + 2), nullptr);
    EXPECT_EQ(pool::ordered_malloc(std::numeric_limits<std::size_t>::max()), nullptr);
}

}  // namespace
