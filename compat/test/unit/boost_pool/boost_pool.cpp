// SPDX-License-Identifier: BSL-1.0

// What compat/boost_pool.hpp promises beyond Boost: threads, odd user allocators, bad input, misuse from within.

#include "pooled/compat/boost_pool.hpp"

#include "pooled/pool.hpp"

#include "compat/test/unit/boost_pool/boost_pool_sides.hpp"
#include "support/in_child.hpp"
#include "support/lives.hpp"
#include "support/sanitizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <type_traits>
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

TEST(our_default_mutex, keeps_out_a_thread_that_starts_while_it_is_held) {
    if (test::k_sanitized) GTEST_SKIP() << "sanitizers do not follow a fork of several threads";
    auto const holds = [] {  // a child has one thread, and knows it
        compat::details::pool::default_mutex mutex;
        int value = 0;
        int seen = 0;
        mutex.lock();
        std::thread late([&] {
            mutex.lock();
            seen = value;
            mutex.unlock();
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        value = 1;
        mutex.unlock();
        late.join();
        mutex.lock();
        bool const is_taken = !mutex.try_lock();
        mutex.unlock();
        return seen == 1 && is_taken && mutex.try_lock();
    };
    EXPECT_EQ(test::in_child(holds), 0);
}

TEST(our_singleton_pool, has_a_mutex_that_is_no_constant) {
    static int made = 0;
    static int depth = 0;
    static int locks = 0;  // a fork locks it, too
    struct tag;
    struct made_at_run_time {
        made_at_run_time() { ++made; }
        ~made_at_run_time() { ADD_FAILURE() << "a thread that runs until the end may hold it"; }
        void lock() { ++locks, ++depth; }
        void unlock() { --depth; }
    };
    using pool = compat::singleton_pool<tag, 64, compat::default_user_allocator_new_delete, made_at_run_time>;
    int const before = locks;
    pool::free(pool::malloc());
    EXPECT_EQ(locks, before + 2);
    EXPECT_EQ(made, 1) << "one mutex";
    EXPECT_EQ(depth, 0);
    EXPECT_TRUE(pool::purge_memory());
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
        for (int i = 0; i < 100; ++i)
            pool.destroy(std::exchange(nodes[nodes.size() - 1 - below(1000)], nullptr));
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(log.constructed(), 4000);
}

TEST(our_object_pool, moves_what_can_only_be_moved_into_its_objects) {
    compat::object_pool<std::unique_ptr<int>> pool;
    EXPECT_EQ(**pool.construct(std::make_unique<int>(3)), 3);
}

// simple_segregated_storage, beside Boost's.

constexpr std::size_t k_chunk = 16;
constexpr std::size_t k_chunks = 8;

template <class Side>
class boost_storage : public testing::Test {
protected:
    using storage = typename Side::template simple_segregated_storage<std::size_t>;

    [[nodiscard]] void* chunk(std::size_t i) { return m_block.data() + i * k_chunk; }
    // The indices of all that the storage gives.
    [[nodiscard]] std::vector<std::size_t> drained(storage& from) {
        std::vector<std::size_t> given;
        while (!from.empty())
            given.push_back(
                static_cast<std::size_t>(static_cast<std::byte*>((from.malloc)()) - m_block.data()) /
                k_chunk);
        return given;
    }
    using order = std::vector<std::size_t>;

    alignas(void*) std::array<std::byte, k_chunk * k_chunks> m_block;
};
TYPED_TEST_SUITE(boost_storage, test::pool_sides, test::pool_side_names);

TYPED_TEST(boost_storage, is_empty_at_first_and_is_not_copied) {
    typename TestFixture::storage const nothing;
    EXPECT_TRUE(nothing.empty());
    static_assert(!std::is_copy_constructible_v<typename TestFixture::storage>);
    static_assert(std::is_same_v<typename TestFixture::storage::size_type, std::size_t>);
}

TYPED_TEST(boost_storage, divides_a_block_into_chunks_in_ascending_order) {
    typename TestFixture::storage all;
    all.add_block(this->chunk(4), 3 * k_chunk + 8, k_chunk);
    all.add_block(this->chunk(0), k_chunk, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 4, 5, 6}));
}

TYPED_TEST(boost_storage, segregate_links_chunks_and_ends_where_it_is_told) {
    void* const first = TestFixture::storage::segregate(this->chunk(0), 3 * k_chunk, k_chunk, this->chunk(7));
    EXPECT_EQ(first, this->chunk(0));
    EXPECT_EQ(*static_cast<void**>(this->chunk(1)), this->chunk(2));
    EXPECT_EQ(*static_cast<void**>(this->chunk(2)), this->chunk(7));
    TestFixture::storage::segregate(this->chunk(3), k_chunk, k_chunk);
    EXPECT_EQ(*static_cast<void**>(this->chunk(3)), nullptr);
}

TYPED_TEST(boost_storage, adds_an_ordered_block_where_it_belongs) {
    typename TestFixture::storage all;
    for (std::size_t const at : {4U, 0U, 6U, 2U})
        all.add_ordered_block(this->chunk(at), 2 * k_chunk, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 2, 3, 4, 5, 6, 7}));
}

TYPED_TEST(boost_storage, gives_the_chunk_freed_last_first_or_keeps_the_order) {
    typename TestFixture::storage all;
    for (std::size_t const at : {2U, 0U, 1U})
        (all.free)(this->chunk(at));
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{1, 0, 2}));
    for (std::size_t const at : {2U, 0U, 3U, 1U})
        all.ordered_free(this->chunk(at));
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 2, 3}));
}

TYPED_TEST(boost_storage, gives_chunks_side_by_side_if_the_list_has_them_so) {
    typename TestFixture::storage all;
    for (std::size_t const at : {0U, 2U, 3U, 5U, 6U, 7U})
        all.ordered_free(this->chunk(at));
    EXPECT_EQ(all.malloc_n(0, k_chunk), nullptr);
    EXPECT_EQ(all.malloc_n(4, k_chunk), nullptr);
    EXPECT_EQ(all.malloc_n(3, k_chunk), this->chunk(5));
    EXPECT_EQ(all.malloc_n(2, k_chunk), this->chunk(2));
    EXPECT_EQ(all.malloc_n(1, k_chunk), this->chunk(0));
    EXPECT_EQ(all.malloc_n(1, k_chunk), nullptr);
    (all.free)(this->chunk(0));
    (all.free)(this->chunk(1));
    EXPECT_EQ(all.malloc_n(2, k_chunk), nullptr) << "the list is not ordered";
}

TYPED_TEST(boost_storage, takes_chunks_back_together) {
    typename TestFixture::storage all;
    all.free_n(this->chunk(4), 3, k_chunk);
    all.free_n(this->chunk(0), 0, k_chunk);
    all.ordered_free_n(this->chunk(0), 2, k_chunk);
    all.ordered_free_n(this->chunk(2), 0, k_chunk);
    EXPECT_EQ(this->drained(all), (typename TestFixture::order{0, 1, 4, 5, 6}));
}

TYPED_TEST(boost_storage, shows_its_list_to_a_class_that_derives_from_it) {
    struct open : TestFixture::storage {
        using TestFixture::storage::find_prev;
        using TestFixture::storage::nextof;
        [[nodiscard]] void* begin() const { return this->first; }
    } all;
    all.add_block(this->chunk(2), 2 * k_chunk, k_chunk);
    EXPECT_EQ(all.begin(), this->chunk(2));
    EXPECT_EQ(open::nextof(all.begin()), this->chunk(3));
    EXPECT_EQ(all.find_prev(this->chunk(0)), nullptr);
    EXPECT_EQ(all.find_prev(nullptr), nullptr);
    EXPECT_EQ(all.find_prev(this->chunk(2)), this->chunk(2));
    EXPECT_EQ(all.find_prev(this->chunk(5)), this->chunk(3));
}

#ifdef POOLED_TEST_HAS_BOOST_POOL
TEST(our_storage, does_at_random_what_boosts_does) {
    constexpr std::size_t k_count = 64;
    struct side {
        alignas(void*) std::array<std::byte, k_chunk * k_count> block;
        [[nodiscard]] void* at(std::size_t i) { return block.data() + i * k_chunk; }
        [[nodiscard]] std::size_t index(void* p) const {
            return p == nullptr
                       ? k_count
                       : static_cast<std::size_t>(static_cast<std::byte*>(p) - block.data()) / k_chunk;
        }
    } a;
    side b;
    pooled::compat::simple_segregated_storage<std::size_t> ours;
    boost::simple_segregated_storage<std::size_t> boosts;
    ours.add_block(a.at(0), sizeof(a.block), k_chunk);
    boosts.add_block(b.at(0), sizeof(b.block), k_chunk);
    std::vector<bool> is_out(k_count);
    std::mt19937 random(1);
    for (int step = 0; step < 20'000; ++step) {
        std::size_t const n = random() % 5 + 1;
        if (random() % 2 == 0) {
            std::size_t const at = a.index(ours.malloc_n(n, k_chunk));
            ASSERT_EQ(at, b.index(boosts.malloc_n(n, k_chunk))) << step;
            for (std::size_t i = 0; at != k_count && i < n; ++i)
                is_out[at + i] = true;
            continue;
        }
        std::size_t const at = random() % k_count;
        if (!is_out[at]) continue;
        std::size_t row = 1;
        while (row < n && at + row < k_count && is_out[at + row])
            ++row;
        for (std::size_t i = 0; i < row; ++i)
            is_out[at + i] = false;
        if (step / 1000 % 2 == 0) {  // then the list loses its order for a while
            ours.ordered_free_n(a.at(at), row, k_chunk);
            boosts.ordered_free_n(b.at(at), row, k_chunk);
        } else {
            ours.free_n(a.at(at), row, k_chunk);
            boosts.free_n(b.at(at), row, k_chunk);
        }
    }
}
#endif

}  // namespace
