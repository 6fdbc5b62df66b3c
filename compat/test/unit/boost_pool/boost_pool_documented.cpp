// SPDX-License-Identifier: BSL-1.0
// What Boost.Pool's documentation says of its classes, sentence by sentence, on Boost's own and on ours.

#include "pooled/compat/boost_pool.hpp"

#include "compat/test/unit/boost_pool/boost_pool_sides.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

template <class Side>
class boost_pool_documented : public testing::Test {
protected:
    using user = test::booked_user_allocator<boost_pool_documented>;
    using user_pool = typename Side::template pool<user>;
    boost_pool_documented() { user::open() = {}; }
    ~boost_pool_documented() override {
        EXPECT_EQ(user::open().out.size(), 0U) << "memory was not given back to the user's allocator";
        EXPECT_EQ(user::open().errors, 0U);
    }
};
TYPED_TEST_SUITE(boost_pool_documented, test::pool_sides, test::pool_side_names);

// Throws what it is set to.
struct throwing {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    enum class what { nothing, bad_alloc, other };
    static what& mode() {
        static what value = what::nothing;
        return value;
    }
    static char* malloc(size_type bytes) {
        if (mode() == what::bad_alloc) throw std::bad_alloc();
        if (mode() == what::other) throw std::runtime_error("broken");
        return static_cast<char*>(std::malloc(bytes));
    }
    static void free(char* p) { std::free(p); }
};

// Its blocks lie side by side.
struct arena {
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    static char* malloc(size_type bytes) {
        alignas(16) static std::array<char, 4096> memory;
        static std::size_t used = 0;
        if (bytes > memory.size() - used) return nullptr;
        used += (bytes + 7) / 8 * 8;
        return memory.data() + used - (bytes + 7) / 8 * 8;
    }
    static void free(char*) {}
};

// pool: growth.

TYPED_TEST(boost_pool_documented, pool_asks_for_32_chunks_at_first_and_has_no_limit) {
    typename TestFixture::user_pool const pool(48);
    EXPECT_EQ(pool.get_next_size(), 32U);
    EXPECT_EQ(pool.get_max_size(), 0U);
    EXPECT_EQ(pool.get_requested_size(), 48U);
    EXPECT_EQ(TestFixture::user::open().calls, 0U) << "nothing is asked for before it is needed";
}

TYPED_TEST(boost_pool_documented, pool_doubles_what_it_asks_for_each_time) {
    typename TestFixture::user_pool pool(48);
    auto const& books = TestFixture::user::open();
    std::size_t chunks = 0;
    for (std::size_t n : {32U, 64U, 128U, 256U}) {
        std::size_t const calls = books.calls;
        for (std::size_t i = 0; i < n; ++i, ++chunks)
            ASSERT_NE(pool.malloc(), nullptr);
        EXPECT_EQ(books.calls, calls + 1) << chunks;
        EXPECT_GE(books.largest, n * 48);
        EXPECT_LE(books.largest, n * 48 + 128);
        EXPECT_EQ(pool.get_next_size(), 2 * n);
    }
}

TYPED_TEST(boost_pool_documented, pool_asks_for_no_more_than_max_size_at_a_time) {
    typename TestFixture::user_pool pool(64, 8, 20);
    for (int i = 0; i < 8 + 16 + 3 * 20; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 5U);
    EXPECT_LE(TestFixture::user::open().largest, 20U * 64 + 128);
    EXPECT_EQ(pool.get_next_size(), 20U);
}

TYPED_TEST(boost_pool_documented, pool_of_small_chunks_counts_max_size_in_requested_sizes) {
    typename TestFixture::user_pool pool(2, 32, 256);
    for (int i = 0; i < 500; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(pool.get_next_size(), 64U);
}

TYPED_TEST(boost_pool_documented, set_next_size_counts_the_next_time_that_memory_is_asked_for) {
    typename TestFixture::user_pool pool(16);
    ASSERT_NE(pool.malloc(), nullptr);
    pool.set_next_size(100);
    for (int i = 0; i < 32; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 2U);
    EXPECT_GE(TestFixture::user::open().largest, 100U * 16);
    EXPECT_EQ(pool.get_next_size(), 200U);
}

TYPED_TEST(boost_pool_documented, sizes_are_cut_to_what_one_request_can_hold) {
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
    for (std::size_t bytes : {1U, 8U, 20U, 48U, 4096U}) {
        typename TestFixture::user_pool pool(bytes, k_most, k_most);
        std::size_t const chunk = std::max<std::size_t>((bytes + 7) / 8 * 8, 8);
        EXPECT_EQ(pool.get_next_size(), (k_most - 16) / chunk);
        EXPECT_EQ(pool.get_max_size(), (k_most - 16) / chunk);
        pool.set_next_size(7);
        pool.set_max_size(9);
        EXPECT_EQ(pool.get_next_size(), 7U);
        EXPECT_EQ(pool.get_max_size(), 9U);
    }
}

TYPED_TEST(boost_pool_documented, pool_tries_half_when_the_user_allocator_refuses) {
    typename TestFixture::user_pool pool(64, 64);
    TestFixture::user::open().most_bytes = 40U * 64;
    EXPECT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 2U);
    EXPECT_EQ(pool.get_next_size(), 64U) << "twice what was served";
}

TYPED_TEST(boost_pool_documented, pool_gives_null_when_half_is_refused_too_and_begins_with_half_next_time) {
    typename TestFixture::user_pool pool(1024, 1U << 24);
    TestFixture::user::open().most_bytes = 1U << 20;
    for (std::size_t calls = 2; calls <= 20; calls += 2) {
        EXPECT_EQ(pool.ordered_malloc(calls % 4 == 0 ? 1 : 2), nullptr);
        EXPECT_EQ(TestFixture::user::open().calls, calls);
        EXPECT_EQ(pool.get_next_size(), (1U << 24) >> (calls / 2));
    }
    EXPECT_EQ(TestFixture::user::open().out.size(), 0U);
    TestFixture::user::open().most_bytes = k_most;
    EXPECT_NE(pool.malloc(), nullptr);
}

TYPED_TEST(boost_pool_documented, what_the_user_allocator_throws_is_passed_on) {
    typename TypeParam::template pool<throwing> pool(64);
    typename TypeParam::template object_pool<int, throwing> objects;
    struct tag;
    using single = typename TypeParam::template singleton_pool<tag, 64, throwing>;
    using allocator = typename TypeParam::template fast_pool_allocator<int, throwing>;
    throwing::mode() = throwing::what::bad_alloc;
    EXPECT_THROW(static_cast<void>(pool.malloc()), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pool.ordered_malloc()), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(pool.ordered_malloc(3)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(objects.construct(1)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(single::malloc()), std::bad_alloc);
    throwing::mode() = throwing::what::other;
    EXPECT_THROW(static_cast<void>(pool.malloc()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(objects.malloc()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(single::ordered_malloc(2)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(allocator::allocate(1)), std::runtime_error);
    throwing::mode() = throwing::what::nothing;
    EXPECT_NE(pool.malloc(), nullptr);
    EXPECT_NE(objects.construct(1), nullptr);
    EXPECT_NE(single::malloc(), nullptr);
    EXPECT_TRUE(single::purge_memory());
}

// pool: chunks.

TYPED_TEST(boost_pool_documented, chunks_are_at_least_as_large_as_a_pointer_and_no_larger_than_needed) {
    for (std::size_t bytes : {1U, 7U, 8U, 12U, 24U}) {
        TestFixture::user::open().largest = 0;
        typename TestFixture::user_pool pool(bytes);
        std::size_t const chunk = (bytes + 7) / 8 * 8;
        std::vector<std::uintptr_t> at;
        for (int i = 0; i < 32; ++i)
            at.push_back(reinterpret_cast<std::uintptr_t>(pool.ordered_malloc()));
        for (std::size_t i = 1; i < at.size(); ++i)
            EXPECT_EQ(at[i] - at[i - 1], chunk) << "a new pool's chunks ascend without gaps";
        EXPECT_LE(TestFixture::user::open().largest, 32 * chunk + 128);
        EXPECT_EQ(pool.get_requested_size(), bytes);
    }
}

TYPED_TEST(boost_pool_documented, a_row_that_is_longer_than_next_size_is_asked_for_in_full) {
    typename TestFixture::user_pool pool(16, 4);
    ASSERT_NE(pool.ordered_malloc(100), nullptr);
    EXPECT_GE(TestFixture::user::open().largest, 1600U);
    EXPECT_EQ(pool.get_next_size(), 200U);
    ASSERT_NE(pool.ordered_malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 2U);
}

TYPED_TEST(boost_pool_documented, a_row_is_never_made_of_chunks_of_two_requests) {
    typename TypeParam::template pool<arena> pool(16, 4, 4);
    std::vector<char*> chunks(8);
    for (char*& p : chunks)
        p = static_cast<char*>(pool.ordered_malloc());
    for (char* p : chunks)
        pool.ordered_free(p);
    auto* const row = static_cast<char*>(pool.ordered_malloc(5));
    ASSERT_NE(row, nullptr);
    for (char const* p : chunks)
        EXPECT_NE(row, p);
}

TYPED_TEST(boost_pool_documented, free_of_no_chunks_does_nothing) {
    typename TestFixture::user_pool pool(16);
    void* const p = pool.ordered_malloc(2);
    pool.free(p, 0);
    pool.ordered_free(p, 0);
    EXPECT_FALSE(pool.release_memory());
    pool.free(p, 2);
}

TYPED_TEST(boost_pool_documented, pool_of_large_chunks_keeps_them) {
    typename TestFixture::user_pool pool(100'000, 4);
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
}

// pool: membership and giving memory back.

TYPED_TEST(boost_pool_documented, is_from_knows_what_was_and_what_may_be_allocated) {
    typename TestFixture::user_pool pool(16, 32);
    typename TestFixture::user_pool other(16);
    auto* const p = static_cast<char*>(pool.malloc());
    void* const q = other.malloc();
    EXPECT_TRUE(pool.is_from(p));
    EXPECT_TRUE(pool.is_from(p + 31 * 16)) << "it was never allocated, but may be";
    EXPECT_FALSE(pool.is_from(q));
    pool.free(p);
    EXPECT_TRUE(pool.is_from(p)) << "it may be allocated again";
    EXPECT_TRUE(pool.purge_memory());
    EXPECT_FALSE(pool.is_from(p));
}

TYPED_TEST(boost_pool_documented, purge_memory_frees_every_block) {
    typename TestFixture::user_pool pool(64, 4, 4);
    EXPECT_FALSE(pool.purge_memory());
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 30; ++i)
            ASSERT_NE(pool.malloc(), nullptr);
        pool.free(pool.malloc());
        EXPECT_TRUE(pool.purge_memory());
        EXPECT_EQ(TestFixture::user::open().out.size(), 0U);
        EXPECT_FALSE(pool.purge_memory());
        EXPECT_FALSE(pool.release_memory());
    }
}

// object_pool.

TYPED_TEST(boost_pool_documented, object_pool_destroys_each_object_that_is_not_freed) {
    struct noting {
        explicit noting(std::vector<noting const*>& log) : m_log(log) {}
        ~noting() { m_log.push_back(this); }
        std::vector<noting const*>& m_log;
    };
    std::vector<noting const*> log;
    std::vector<noting const*> expected;
    {
        typename TypeParam::template object_pool<noting, typename TestFixture::user> pool(4, 16);
        std::vector<noting*> out(500);
        for (noting*& p : out)
            p = pool.construct(log);
        for (std::size_t i = 0; i < out.size(); ++i)
            if (i % 7 == 0 || i / 50 == 3)
                pool.destroy(out[i]);
            else
                expected.push_back(out[i]);
        log.clear();
    }
    std::sort(expected.begin(), expected.end());
    std::sort(log.begin(), log.end());
    EXPECT_EQ(log, expected);
}

TYPED_TEST(boost_pool_documented, object_pool_free_calls_no_destructor_and_destroy_does) {
    test::life_log log;
    {
        typename TypeParam::template object_pool<test::counted<>, typename TestFixture::user> pool;
        test::counted<>* const freed = pool.construct(log);
        pool.free(freed);
        EXPECT_EQ(log.destroyed(), 0);
        pool.destroy(pool.construct(log));
        EXPECT_EQ(log.destroyed(), 1);
    }
    EXPECT_EQ(log.destroyed(), 1) << "what was freed is not destroyed with the pool";
}

TYPED_TEST(boost_pool_documented, object_pool_caps_its_doubling) {
    typename TypeParam::template object_pool<long long, typename TestFixture::user> pool(8, 16);
    for (int i = 0; i < 8 + 16 + 16; ++i)
        ASSERT_NE(pool.construct(1L), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 3U);
    EXPECT_EQ(pool.get_next_size(), 16U);
    pool.set_next_size(5);
    EXPECT_EQ(pool.get_next_size(), 5U);
    using of_long = typename TypeParam::template object_pool<long long>;
    static_assert(std::is_same_v<typename of_long::element_type, long long>);
    static_assert(std::is_same_v<typename of_long::size_type, std::size_t>);
    static_assert(std::is_same_v<typename of_long::difference_type, std::ptrdiff_t>);
    static_assert(!std::is_convertible_v<std::size_t, of_long>, "explicit");
}

TYPED_TEST(boost_pool_documented, object_pool_passes_arguments_on) {
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

TYPED_TEST(boost_pool_documented, object_pool_gives_raw_memory) {
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

TYPED_TEST(boost_pool_documented, object_pool_is_as_before_when_a_constructor_throws) {
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

TYPED_TEST(boost_pool_documented, object_pool_gives_null_when_the_user_allocator_has_no_more) {
    typename TypeParam::template object_pool<std::string, typename TestFixture::user> pool;
    TestFixture::user::open().most_bytes = 0;
    EXPECT_EQ(pool.construct(), nullptr);
    EXPECT_EQ(pool.malloc(), nullptr);
    TestFixture::user::open().most_bytes = k_most;
    EXPECT_NE(pool.construct(), nullptr);
}

TYPED_TEST(boost_pool_documented, object_pool_tells_its_own_objects) {
    typename TypeParam::template object_pool<int> pool;
    typename TypeParam::template object_pool<int> other;
    EXPECT_TRUE(pool.is_from(pool.construct(1)));
    EXPECT_FALSE(pool.is_from(other.construct(1)));
    int on_the_stack = 0;
    EXPECT_FALSE(pool.is_from(&on_the_stack));
}

// singleton_pool.

template <class Side>
struct before_main {
    struct tag;
    using pool = typename Side::template singleton_pool<tag, 40>;
    static inline void* const chunk = pool::malloc();
};

TYPED_TEST(boost_pool_documented, singleton_pool_works_before_main) {
    ASSERT_NE(before_main<TypeParam>::chunk, nullptr);
    EXPECT_TRUE(before_main<TypeParam>::pool::is_from(before_main<TypeParam>::chunk));
}

TYPED_TEST(boost_pool_documented, singleton_pools_of_other_parameters_are_others) {
    struct tag;
    using default_mutex = typename TypeParam::default_mutex;
    using from = typename TestFixture::user;
    using one = typename TypeParam::template singleton_pool<tag, 40, from, default_mutex, 32>;
    using two = typename TypeParam::template singleton_pool<tag, 40, from, default_mutex, 33>;
    using three = typename TypeParam::template singleton_pool<tag, 40, from, default_mutex, 32, 5>;
    using four = typename TypeParam::template singleton_pool<tag, 40, from, typename TypeParam::null_mutex>;
    using five = typename TypeParam::template singleton_pool<struct another_tag, 40, from>;
    void* const p = one::malloc();
    EXPECT_TRUE(one::is_from(p));
    EXPECT_FALSE(two::is_from(p) || three::is_from(p) || four::is_from(p) || five::is_from(p));
    EXPECT_TRUE(one::purge_memory());
}

TYPED_TEST(boost_pool_documented, singleton_pool_is_made_of_its_sizes) {
    struct tag;
    using pool = typename TypeParam::template singleton_pool<tag, 64, typename TestFixture::user,
                                                             typename TypeParam::null_mutex, 8, 16>;
    for (int i = 0; i < 8 + 16 + 16; ++i)
        ASSERT_NE(pool::malloc(), nullptr);
    EXPECT_EQ(TestFixture::user::open().calls, 3U);
    EXPECT_LE(TestFixture::user::open().largest, 16U * 64 + 128);
    EXPECT_TRUE(pool::purge_memory());
    using by_default = typename TypeParam::template singleton_pool<tag, 24>;
    static_assert(std::is_same_v<typename by_default::tag, tag>);
    static_assert(by_default::requested_size == 24 && by_default::next_size == 32);
    static_assert(std::is_same_v<typename by_default::user_allocator,
                                 typename TypeParam::default_user_allocator_new_delete>);
    static_assert(std::is_same_v<typename by_default::mutex, typename TypeParam::default_mutex>);
    static_assert(std::is_same_v<typename by_default::size_type, std::size_t>);
    static_assert(std::is_same_v<typename by_default::difference_type, std::ptrdiff_t>);
}

TYPED_TEST(boost_pool_documented, singleton_pool_releases_what_has_no_chunk_in_use) {
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

// The sizes that it can be asked for are small ones.
template <class UserAllocator>
struct small_user_allocator : UserAllocator {
    using size_type = std::uint32_t;
    using difference_type = std::int32_t;
    static char* malloc(size_type bytes) { return UserAllocator::malloc(bytes); }
};

TYPED_TEST(boost_pool_documented, singleton_pool_serves_a_user_allocator_with_small_sizes) {
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

TYPED_TEST(boost_pool_documented, pools_refuse_none_and_what_no_address_space_holds) {
    struct one;
    using single = typename TypeParam::template singleton_pool<one, 32>;
    typename TestFixture::user_pool pool(16);
    EXPECT_EQ(pool.ordered_malloc(0), nullptr);
    if (test::k_checks_nothing<TypeParam>) GTEST_SKIP() << "Boost before 1.81";
#if defined(POOLED_TEST_SANITIZER_ADDRESS) || defined(__SANITIZE_ADDRESS__)
    if (!std::is_same_v<TypeParam, test::ours>)
        GTEST_SKIP() << "AddressSanitizer: Boost asks malloc for so much";
#endif
    EXPECT_EQ(single::ordered_malloc(0), nullptr);
    for (std::size_t const n : {k_most / 32 + 2, k_most / 16 + 2, k_most}) {
        EXPECT_EQ(pool.ordered_malloc(n), nullptr);
        EXPECT_EQ(single::ordered_malloc(n), nullptr);
    }
}

TYPED_TEST(boost_pool_documented, singleton_pool_is_synchronized) {
    struct tag;
    using pool = typename TypeParam::template singleton_pool<tag, 64, typename TestFixture::user>;
    std::array<std::atomic<unsigned char*>, 64> slots{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = 0; i < 10'000; ++i) {
                auto* const p =
                    static_cast<unsigned char*>(i % 2 == 0 ? pool::malloc() : pool::ordered_malloc(1));
                std::memset(p, t + 1, 64);
                unsigned char* const old = slots[i % slots.size()].exchange(p);  // mostly another thread's
                if (old == nullptr) continue;
                EXPECT_EQ(old[0], old[63]);
                pool::free(old);
                if (i % 64 != 0) continue;
                void* const row = pool::ordered_malloc(5);
                std::memset(row, t, 5 * 64);
                EXPECT_TRUE(pool::is_from(row));
                pool::ordered_free(row, 5);
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    for (auto& slot : slots)
        pool::free(slot.load());
    if constexpr (std::is_same_v<TypeParam, test::ours>) {  // Boost's keeps what is not in order
        EXPECT_TRUE(pool::release_memory());
        EXPECT_EQ(TestFixture::user::open().out.size(), 0U) << "some chunk had not been returned";
    }
    pool::purge_memory();
}

TYPED_TEST(boost_pool_documented, singleton_pool_locks_its_mutex_for_each_call) {
    struct tag;
    struct counting {
        static int& locks() {
            static int n = 0;
            return n;
        }
        void lock() {
            EXPECT_FALSE(std::exchange(is_locked, true));
            ++locks();
        }
        void unlock() { EXPECT_TRUE(std::exchange(is_locked, false)); }
        bool is_locked = false;
    };
    using pool = typename TypeParam::template singleton_pool<tag, 64, throwing, counting>;
    int const before = counting::locks();  // a fork locks it, too
    throwing::mode() = throwing::what::bad_alloc;
    EXPECT_THROW(static_cast<void>(pool::malloc()), std::bad_alloc);
    throwing::mode() = throwing::what::nothing;
    pool::free(pool::malloc());
    pool::ordered_free(pool::ordered_malloc());
    pool::ordered_free(pool::ordered_malloc(3), 3);
    EXPECT_FALSE(pool::is_from(nullptr));
    EXPECT_EQ(counting::locks(), before + 8);
    EXPECT_TRUE(pool::release_memory());
    EXPECT_FALSE(pool::purge_memory());
    EXPECT_EQ(counting::locks(), before + 10);
}

// A mutex and its guard.

TYPED_TEST(boost_pool_documented, guard_holds_the_mutex_while_it_lives) {
    struct counting {
        int depth = 0;
        void lock() { ++depth; }
        void unlock() { --depth; }
    } mutex;
    {
        typename TypeParam::template guard<counting> const held(mutex);
        EXPECT_EQ(mutex.depth, 1);
    }
    EXPECT_EQ(mutex.depth, 0);
}

}  // namespace
