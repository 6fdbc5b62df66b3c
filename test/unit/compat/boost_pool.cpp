// SPDX-License-Identifier: BSL-1.0
// What compat/boost_pool.hpp promises beyond Boost: threads, odd user allocators, bad input, misuse from within.

#include "pooled/compat/boost_pool.hpp"

#include "pooled/pool.hpp"

#include "support/in_child.hpp"
#include "support/lives.hpp"
#include "support/sanitizer.hpp"
#include "support/sleeper.hpp"
#include "unit/compat/boost_pool_sides.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace compat = pooled::compat;

template <class Tag>
class books_closed {
public:
    using user = test::booked_user_allocator<Tag>;
    books_closed() { user::open() = {}; }
    ~books_closed() {
        EXPECT_EQ(user::open().out.size(), 0U) << "memory was not given back to the user's allocator";
        EXPECT_EQ(user::open().errors, 0U);
    }
};

// Threads.

TEST(our_singleton_pool, serves_four_threads_that_free_one_anothers_chunks) {
    struct tag;
    using pool = compat::singleton_pool<tag, 64>;
    constexpr int k_threads = 4;
    int const rounds = test::k_sanitized ? 20'000 : 200'000;
    std::array<std::atomic<std::uint64_t*>, 256> slots{};
    std::atomic<int> errors{0};
    std::latch start(k_threads);  // all of them make the pool
    std::vector<std::thread> threads;
    for (int t = 0; t < k_threads; ++t)
        threads.emplace_back([&, t] {
            start.arrive_and_wait();
            std::uint64_t random = static_cast<std::uint64_t>(t) + 1;
            for (int i = 0; i < rounds; ++i) {
                random = random * 6364136223846793005U + 1442695040888963407U;
                auto* const chunk = static_cast<std::uint64_t*>(pool::malloc());
                for (int w = 0; w < 8; ++w)
                    chunk[w] = random;
                // acq_rel: passes the chunk's words on, and takes over those of the one that comes back.
                std::uint64_t* const old = slots[random >> 56].exchange(chunk, std::memory_order_acq_rel);
                if (old == nullptr) continue;
                for (int w = 1; w < 8; ++w)
                    if (old[w] != old[0]) ++errors;
                pool::free(old);
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    for (auto& slot : slots)
        pool::free(slot.load());
    EXPECT_EQ(errors, 0);
    EXPECT_TRUE(pool::release_memory());
    EXPECT_FALSE(pool::release_memory()) << "some chunk had not been returned";
}

TEST(our_singleton_pool, purges_and_releases_what_lies_in_other_threads_caches) {
    struct tag;
    books_closed<tag> const books;
    using pool = compat::singleton_pool<tag, 64, test::booked_user_allocator<tag>>;
    test::sleeper other;
    other.run([] {
        for (int i = 0; i < 100; ++i)
            pool::free(pool::malloc());
    });
    EXPECT_TRUE(pool::release_memory());
    EXPECT_EQ(test::booked_user_allocator<tag>::open().out.size(), 0U);
    std::vector<void*> out;
    other.run([&] {
        for (int i = 0; i < 1000; ++i)
            out.push_back(pool::malloc());
        for (int i = 0; i < 500; ++i)
            pool::free(out[static_cast<std::size_t>(i)]);
    });
    EXPECT_TRUE(pool::purge_memory());
    EXPECT_EQ(test::booked_user_allocator<tag>::open().out.size(), 0U);
    other.run([] {
        void* const p = pool::malloc();
        EXPECT_NE(p, nullptr);
        pool::free(p);
    });
    other.end();
    EXPECT_TRUE(pool::release_memory());
}

TEST(our_singleton_pool, with_a_null_mutex_is_for_one_thread_at_a_time) {
    struct tag;
    using pool = compat::singleton_pool<tag, 64, compat::default_user_allocator_malloc_free,
                                        compat::details::pool::null_mutex>;
    void* const p = pool::malloc();
    void* q = nullptr;
    std::thread([&] {
        pool::free(p);
        q = pool::malloc();
    }).join();
    pool::free(q);
    EXPECT_TRUE(pool::purge_memory());
}

TEST(our_singleton_pool, finds_the_chunk_that_another_thread_freed_before_it_says_that_there_is_none) {
    struct tag;
    books_closed<tag> const books;
    using user = test::booked_user_allocator<tag>;
    using pool = compat::singleton_pool<tag, 64, user, compat::details::pool::default_mutex, 4>;
    std::array<void*, 4> chunks{};
    for (void*& p : chunks)
        p = pool::malloc();
    user::open().most_bytes = 0;
    EXPECT_EQ(pool::malloc(), nullptr);
    std::thread([&] { pool::free(chunks[2]); }).join();
    EXPECT_EQ(pool::malloc(), chunks[2]);
    EXPECT_EQ(pool::malloc(), nullptr);
    for (void* p : chunks)
        pool::free(p);
    EXPECT_TRUE(pool::release_memory());
}

TEST(our_singleton_pool, serves_a_forked_child_whatever_its_threads_were_at) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a fork of several threads";
    struct tag;
    using pool = compat::singleton_pool<tag, 64>;
    std::atomic<bool> stop{false};
    std::thread other([&] {
        std::vector<void*> chunks(100);
        while (!stop) {
            for (void*& p : chunks)
                p = pool::malloc();
            for (void* p : chunks)
                pool::free(p);
            pool::release_memory();
        }
    });
    for (int i = 0; i < 50; ++i) {
        pool::free(pool::malloc());
        auto const use = [] {
            std::array<void*, 200> chunks{};
            for (void*& p : chunks)
                p = pool::malloc();
            for (void* p : chunks)
                pool::free(p);
            pool::release_memory();
            return true;
        };
        ASSERT_EQ(test::in_child(use), 0);
    }
    stop = true;
    other.join();
}

// Odd user allocators.

TEST(our_pool, asks_for_less_at_each_call_while_the_user_allocator_refuses) {
    struct tag;
    books_closed<tag> const books;
    using user = test::booked_user_allocator<tag>;
    compat::pool<user> pool(64, 4096);
    user::open().most_bytes = 200;
    int refusals = 0;
    while (pool.malloc() == nullptr)
        ASSERT_LT(++refusals, 12);
    for (int i = 1; i < 10; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_EQ(user::open().out.size(), 10U);
    user::open().most_bytes = 250;
    ASSERT_NE(pool.ordered_malloc(2), nullptr);
    EXPECT_EQ(pool.ordered_malloc(4), nullptr);
    user::open().most_bytes = 0;
    std::size_t const next = pool.get_next_size();
    EXPECT_EQ(pool.malloc(), nullptr);
    EXPECT_EQ(pool.get_next_size(), next / 2) << "as Boost";
}

TEST(our_singleton_pool, serves_from_a_user_allocator_that_refuses_a_page) {
    struct tag;
    books_closed<tag> const books;
    using user = test::booked_user_allocator<tag>;
    using pool = compat::singleton_pool<tag, 64, user>;
    user::open().most_bytes = 4095;
    std::vector<void*> chunks(500);
    for (void*& p : chunks) {
        p = pool::malloc();
        ASSERT_NE(p, nullptr);
    }
    for (void* p : chunks)
        pool::free(p);
    EXPECT_TRUE(pool::release_memory());
}

TEST(our_pool, keeps_blocks_aligned_on_a_user_allocator_that_is_not) {
    struct skewed {
        using size_type = std::size_t;
        using difference_type = std::ptrdiff_t;
        static char* malloc(size_type bytes) {
            auto* const p = static_cast<char*>(std::malloc(bytes + 24));
            return p == nullptr ? nullptr : p + 24;
        }
        static void free(char* p) { std::free(p - 24); }
    };
    compat::pool<skewed> pool(128);
    for (int i = 0; i < 3000; ++i) {
        void* const p = pool.malloc();
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0U);
        std::memset(p, 1, 128);
    }
    void* const row = pool.ordered_malloc(1000);
    ASSERT_NE(row, nullptr);
    std::memset(row, 1, 128'000);
}

TEST(our_pool, lives_within_a_small_arena) {
    struct arena {
        using size_type = std::size_t;
        using difference_type = std::ptrdiff_t;
        static std::size_t& used() {
            static std::size_t value = 0;
            return value;
        }
        static char* malloc(size_type bytes) {
            static std::array<char, 300'000> memory;
            if (bytes > memory.size() - used()) return nullptr;
            used() += bytes;
            return memory.data() + used() - bytes;
        }
        static void free(char*) {}
    };
    compat::pool<arena> pool(1000);
    int chunks = 0;
    while (void* const p = pool.malloc()) {
        std::memset(p, 1, 1000);
        ++chunks;
    }
    EXPECT_GT(chunks, 180);
    EXPECT_GT(arena::used(), 200'000U);
}

TEST(our_pool, needs_little_of_a_user_allocator_at_first) {
    struct tag;
    books_closed<tag> const books;
    compat::pool<test::booked_user_allocator<tag>> pool(16);
    EXPECT_NE(pool.malloc(), nullptr);
    EXPECT_LE(test::booked_user_allocator<tag>::open().largest, 81U * 1024);
}

TEST(our_pool, grows_from_the_beginning_when_it_has_given_memory_back) {
    compat::pool<> pool(1024, 128);
    for (int i = 0; i < 1000; ++i)
        ASSERT_NE(pool.malloc(), nullptr);
    EXPECT_GT(pool.get_next_size(), 256U);
    EXPECT_TRUE(pool.purge_memory());
    EXPECT_EQ(pool.get_next_size(), 128U);
}

TEST(our_pool, may_stand_on_a_pool_of_ours) {
    struct nested {
        using size_type = std::size_t;
        using difference_type = std::ptrdiff_t;
        static pooled::local_pool& below() {
            static pooled::local_pool pool;
            return pool;
        }
        static char* malloc(size_type bytes) {
            auto* const p = static_cast<std::size_t*>(below().try_allocate(bytes + 16));
            if (p == nullptr) return nullptr;
            *p = bytes + 16;
            return reinterpret_cast<char*>(p) + 16;
        }
        static void free(char* p) { below().deallocate(p - 16, *reinterpret_cast<std::size_t*>(p - 16)); }
    };
    {
        compat::pool<nested> pool(48);
        void* first = nullptr;
        for (int i = 0; i < 5000; ++i)
            first = pool.malloc();
        EXPECT_TRUE(pool.is_from(first));
        EXPECT_TRUE(pool.purge_memory());
        EXPECT_NE(pool.malloc(), nullptr);
    }
    EXPECT_EQ(nested::below().stats().in_use, 0U);
}

// Bad input.

TEST(our_pools, ignore_null) {
    struct tag;
    compat::pool<> pool(8);
    pool.free(nullptr);
    pool.ordered_free(nullptr, 10);
    compat::singleton_pool<tag, 8>::free(nullptr);
    compat::singleton_pool<tag, 8>::ordered_free(nullptr, 3);
    compat::object_pool<int> objects;
    objects.free(nullptr);
    objects.destroy(nullptr);
    EXPECT_FALSE(objects.is_from(nullptr));
}

TEST(our_pool, never_writes_to_a_free_chunk) {
    compat::pool<> pool(48);
    std::vector<char*> chunks(1000);
    for (char*& p : chunks) {
        p = static_cast<char*>(pool.malloc());
        std::memset(p, 0x5a, 48);
    }
    for (char* p : chunks)
        pool.free(p);
    pool.ordered_free(pool.ordered_malloc(300), 300);
    for (char const* p : chunks)
        for (int i = 0; i < 48; ++i)
            ASSERT_EQ(p[i], 0x5a);
}

TEST(our_pools, take_odd_sizes) {
    struct tag;
    compat::pool<> nothing(0, 0);
    EXPECT_NE(nothing.malloc(), nothing.malloc());
    compat::pool<> huge(static_cast<std::size_t>(-1) / 2);
    EXPECT_EQ(huge.malloc(), nullptr);
    EXPECT_EQ(huge.ordered_malloc(5), nullptr);
    compat::pool<> largest(static_cast<std::size_t>(-1));
    EXPECT_EQ(largest.malloc(), nullptr);
    test::booked_user_allocator<tag>::open().most_bytes = 100'000;
    compat::pool<test::booked_user_allocator<tag>> many(64, static_cast<std::size_t>(-1));
    int refusals = 0;
    while (many.malloc() == nullptr)
        ASSERT_LT(++refusals, 64) << "half of it each time";
    compat::pool<> byte(1, 1, 1);
    for (int i = 0; i < 10'000; ++i)
        ASSERT_NE(byte.malloc(), nullptr);
    using empty = compat::singleton_pool<tag, 0>;
    void* const p = empty::malloc();
    EXPECT_TRUE(empty::is_from(p));
    empty::free(p);
}

// Objects.

TEST(our_object_pool, aligns_any_type) {
    struct alignas(256) wide {
        char bytes[256];
    };
    struct alignas(64) large {
        char bytes[50'048];
    };
    compat::object_pool<wide> pool;
    compat::object_pool<large> large_pool;
    compat::object_pool<char> small;
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.construct()) % 256, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large_pool.construct()) % 64, 0U);
        EXPECT_NE(small.construct('c'), nullptr);
    }
}

TEST(our_object_pool, destroys_the_newest_first) {
    struct noting {
        noting(std::vector<int>& log, int n) : m_log(log), m_number(n) {}
        ~noting() { m_log.push_back(m_number); }
        std::vector<int>& m_log;
        int m_number;
    };
    std::vector<int> log;
    {
        compat::object_pool<noting> pool;
        for (int i = 1; i <= 4; ++i)
            pool.construct(log, i);
        pool.destroy(pool.construct(log, 5));
    }
    EXPECT_EQ(log, (std::vector<int>{5, 4, 3, 2, 1}));
}

TEST(our_object_pool, may_be_used_by_the_destructors_of_its_objects) {
    test::life_log log;
    struct node {
        node(compat::object_pool<node>& pool, test::life_log& l) : m_pool(pool), life(l) {}
        ~node() {
            m_pool.destroy(left);
            m_pool.destroy(right);
        }
        compat::object_pool<node>& m_pool;
        test::counted<> life;
        node* left = nullptr;
        node* right = nullptr;
    };
    {
        compat::object_pool<node> pool;
        node* const leaf = pool.construct(pool, log);
        node* const root = pool.construct(pool, log);
        root->left = leaf;
        root->right = pool.construct(pool, log);
        node* const other = pool.construct(pool, log);
        other->left = pool.construct(pool, log);
        pool.destroy(other);
        EXPECT_EQ(log.alive(), 3);
        root->right = nullptr;
    }
    EXPECT_EQ(log.alive(), 0);
}

TEST(our_object_pool, destroys_each_object_once_when_its_destructors_destroy_older_ones) {
    test::life_log log;
    struct node {
        node(compat::object_pool<node>& pool, test::life_log& l) : m_pool(pool), life(l) {}
        ~node() {
            for (node*& one : others)
                m_pool.destroy(std::exchange(one, nullptr));
        }
        compat::object_pool<node>& m_pool;
        test::counted<> life;
        std::array<node*, 3> others{};
    };
    std::uint64_t random = 1;
    auto const below = [&](std::size_t n) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>(random >> 33) % n;
    };
    {
        compat::object_pool<node> pool(8, 64);  // many regions
        std::vector<node*> nodes;
        for (int i = 0; i < 4000; ++i)
            nodes.push_back(pool.construct(pool, log));
        std::ranges::sort(nodes);
        for (int i = 0; i < 500; ++i)
            pool.destroy(std::exchange(nodes[below(nodes.size())], nullptr));
        for (std::size_t i = nodes.size() - 1; i > 100; --i)
            if (nodes[i] != nullptr && below(2) == 0)
                for (node*& one : nodes[i]->others)
                    one = std::exchange(nodes[below(i)], nullptr);
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(log.constructed(), 4000);
}

TEST(our_object_pool, moves_what_can_only_be_moved_into_its_objects) {
    compat::object_pool<std::unique_ptr<int>> pool;
    EXPECT_EQ(**pool.construct(std::make_unique<int>(3)), 3);
}

TEST(our_object_pool, frees_in_any_order_what_it_gave) {
    test::life_log log;
    struct tag;
    books_closed<tag> const books;
    {
        compat::object_pool<test::counted<100>, test::booked_user_allocator<tag>> pool;
        std::vector<test::counted<100>*> out;
        for (int i = 0; i < 20'000; ++i)
            out.push_back(pool.construct(log));
        for (std::size_t step : {7U, 3U, 2U})
            for (std::size_t i = 0; i < out.size(); i += step)
                pool.destroy(std::exchange(out[i], nullptr));
    }
    EXPECT_EQ(log.alive(), 0);
}

}  // namespace
