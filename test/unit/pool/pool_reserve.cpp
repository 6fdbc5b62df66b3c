// SPDX-License-Identifier: BSL-1.0
// After reserve, upstream is not asked again. (behaviour/zero_malloc.cpp counts mallocs and system calls.)

#include "pooled/pooled.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/internals.hpp"
#include "support/pool_kinds.hpp"
#include "support/sleeper.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace {

struct empty {};
struct empty_final final {};
struct word {
    std::uint64_t value = 1;
};
struct packet {
    char bytes[1500];
};
struct big {
    char bytes[30'000];
};
struct alignas(64) line {
    char bytes[64];
};
struct alignas(2048) page_half {
    char byte;
};
struct shares_itself : std::enable_shared_from_this<shares_itself> {
    int value = 0;
};
struct polymorphic {
    virtual ~polymorphic() = default;
};

template <class Pool>
class reserved : public testing::Test {
protected:
    test::counting_upstream upstream;
    Pool pool{{.upstream = &upstream}};

    // Makes `count` objects after a reserve for them, drops them, makes them again.
    template <class T>
    void expect_no_call_for(std::size_t count) {
        pool.template reserve<T>(count);
        std::size_t const calls = upstream.allocations();
        std::vector<std::shared_ptr<T>> all;
        for (int round = 0; round < 2; ++round) {
            for (std::size_t i = 0; i < count; ++i)
                all.push_back(pool.template make_shared<T>());
            all.clear();
        }
        EXPECT_EQ(upstream.allocations(), calls) << sizeof(T) << " bytes at " << alignof(T);
    }
};
TYPED_TEST_SUITE(reserved, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(reserved, memory_is_enough_for_any_kind_of_object) {
    this->template expect_no_call_for<char>(10'000);
    this->template expect_no_call_for<empty>(10'000);
    this->template expect_no_call_for<empty_final>(10'000);
    this->template expect_no_call_for<word>(10'000);
    this->template expect_no_call_for<word const>(10'000);
    this->template expect_no_call_for<std::string>(10'000);
    this->template expect_no_call_for<shares_itself>(10'000);
    this->template expect_no_call_for<polymorphic>(10'000);
    this->template expect_no_call_for<line>(10'000);
    this->template expect_no_call_for<packet>(2'000);
    this->template expect_no_call_for<page_half>(2'000);
    this->template expect_no_call_for<big>(100);
}

TYPED_TEST(reserved, memory_is_exact_for_one_object_and_none) {
    this->pool.template reserve<word>(0);
    EXPECT_EQ(this->upstream.allocations(), 0U);
    this->template expect_no_call_for<word>(1);
}

TYPED_TEST(reserved, memory_counts_what_is_free_already) {
    this->pool.template reserve<word>(10'000);
    std::size_t const calls = this->upstream.allocations();
    this->pool.template reserve<word>(10'000);
    this->pool.template reserve<word>(5'000);
    EXPECT_EQ(this->upstream.allocations(), calls);
}

TYPED_TEST(reserved, memory_comes_on_top_of_what_is_in_use) {
    std::vector<std::shared_ptr<word>> all;
    for (int i = 0; i < 5000; ++i)
        all.push_back(this->pool.template make_shared<word>());
    this->pool.template reserve<word>(10'000);
    std::size_t const calls = this->upstream.allocations();
    for (int i = 0; i < 10'000; ++i)
        all.push_back(this->pool.template make_shared<word>());
    EXPECT_EQ(this->upstream.allocations(), calls);
}

TYPED_TEST(reserved, blocks_are_enough_at_their_alignment) {
    this->pool.reserve_bytes(1000, 100, 256);
    std::size_t const calls = this->upstream.allocations();
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i)
        blocks.push_back(this->pool.allocate(100, 256));
    EXPECT_EQ(this->upstream.allocations(), calls);
    for (void* const p : blocks)
        this->pool.deallocate(p, 100, 256);
}

// As many of make_shared's blocks fill a slab at least: word and control block are 24, 32 or 64 bytes.
std::size_t bytes_of_shared_word() {
    return std::bit_ceil(pooled::detail::standard_control_block::k_bytes<word>);
}

TYPED_TEST(reserved, memory_fits_a_bound_exactly) {
    std::size_t const blocks = (std::size_t{1} << 20) / bytes_of_shared_word();
    TypeParam tight{{.max_bytes = std::size_t{1} << 20}};
    tight.template reserve<word>(blocks);
    std::vector<std::shared_ptr<word>> all;
    for (std::size_t i = 0; i < blocks; ++i)
        all.push_back(tight.template make_shared<word>());
    EXPECT_TRUE(test::is_valid(tight));
}

TEST(reserved_pool, finds_free_blocks_in_a_sleeping_threads_cache_before_it_asks_upstream) {
    test::counting_upstream upstream;
    pooled::pool pool{{.chunk_bytes = 1, .upstream = &upstream}};
    pool.reserve<word>(10'000);
    std::size_t const calls = upstream.allocations();
    // To the last block of the last slab.
    std::size_t const block_bytes = pooled::detail::standard_control_block::k_bytes<word>;
    std::size_t const count =
        upstream.bytes() / pooled::detail::k_slab_bytes * (pooled::detail::k_slab_bytes / block_bytes);
    test::sleeper other;
    other.run([&] {
        std::vector<std::shared_ptr<word>> all;
        for (std::size_t i = 0; i < count; ++i)
            all.push_back(pool.make_shared<word>());
    });
    EXPECT_GT(pool.stats().cached, 0U) << "the other thread has cached nothing: the test shows nothing";
    std::vector<std::shared_ptr<word>> all;
    for (std::size_t i = 0; i < count; ++i)
        all.push_back(pool.make_shared<word>());
    EXPECT_EQ(upstream.allocations(), calls);
}

TYPED_TEST(reserved, memory_of_an_absurd_count_is_refused_before_upstream_is_asked) {
    for (std::size_t const count : {~std::size_t{0}, ~std::size_t{0} / 2, ~std::size_t{0} / 24}) {
        EXPECT_THROW(this->pool.template reserve<word>(count), std::bad_alloc) << count;
        EXPECT_THROW(this->pool.reserve_bytes(count, 100'000), std::bad_alloc) << count;
    }
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(reserved, memory_is_given_back_when_upstream_fails_on_the_way) {
    for (std::size_t n = 1; n <= 5; ++n) {
        test::counting_upstream books;
        test::failing_upstream failing(books);  // one that fails once is asked for less
        failing.fail_from(n);
        TypeParam unlucky{{.chunk_bytes = 1, .upstream = &failing}};
        EXPECT_THROW(unlucky.template reserve<word>(100'000), test::injected_failure);
        EXPECT_EQ(books.bytes(), 0U) << n;
        EXPECT_TRUE(test::is_valid(unlucky));
        EXPECT_EQ(unlucky.stats().upstream_bytes, 0U);
    }
}

TYPED_TEST(reserved, memory_beyond_what_the_machine_has_is_refused_at_once) {
    TypeParam of_system{{.name = "of system"}};
    void* const kept = of_system.allocate(48);
    auto const before = of_system.stats();
    for (auto const& [count, bytes] : {std::pair{std::size_t{1} << 40, std::size_t{48}},
                                       {std::size_t{1} << 26, std::size_t{1} << 20},
                                       {std::size_t{1} << 30, std::size_t{100'000}}}) {
        try {
            of_system.reserve_bytes(count, bytes);
            ADD_FAILURE() << "reserved " << count << " * " << bytes;
        } catch (std::bad_alloc const& e) {
            EXPECT_NE(std::string(e.what()).find("cannot reserve"), std::string::npos) << e.what();
        }
    }
    EXPECT_THROW(of_system.template reserve<word>(std::size_t{1} << 42), std::bad_alloc);
    auto const after = of_system.stats();
    EXPECT_EQ(after.upstream_calls, before.upstream_calls);
    EXPECT_EQ(after.upstream_bytes, before.upstream_bytes);
    of_system.deallocate(kept, 48);
}

TYPED_TEST(reserved, memory_beyond_the_bound_is_refused_before_upstream_is_asked) {
    TypeParam tight{{.name = "tight", .max_bytes = std::size_t{1} << 30, .upstream = &this->upstream}};
    EXPECT_THROW(tight.template reserve<word>(std::size_t{1} << 26), pooled::exhausted);
    EXPECT_THROW(tight.reserve_bytes(std::size_t{1} << 20, 2000), pooled::exhausted);
    EXPECT_THROW(tight.reserve_bytes(20'000, 100'000), pooled::exhausted);
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(reserved, memory_that_was_refused_leaves_slabs_in_use_to_other_sizes) {
    TypeParam tight{{.name = "tight", .max_bytes = std::size_t{1} << 20}};
    std::vector<void*> blocks;
    for (int i = 0; i < 10; ++i)
        blocks.push_back(tight.allocate(64));
    EXPECT_THROW(tight.reserve_bytes((std::size_t{1} << 20) / 64 - 5, 64), pooled::exhausted);
    for (void* const p : blocks)
        tight.deallocate(p, 64);
    void* const large = tight.try_allocate(std::size_t{1} << 20);
    EXPECT_NE(large, nullptr) << "a slab is still reserved";
    tight.deallocate(large, std::size_t{1} << 20);
}

// One of its blocks has the largest class, the other one is a large block.
TYPED_TEST(reserved, memory_for_two_kinds_of_blocks_is_reserved_for_both_or_for_none) {
    struct at_the_border {
        char bytes[32'756];
    };
    this->template expect_no_call_for<at_the_border>(5);
    for (std::size_t n = 1; n <= 10; ++n) {
        test::counting_upstream books;
        test::failing_upstream failing(books, n);
        TypeParam unlucky{{.chunk_bytes = 1, .upstream = &failing}};
        EXPECT_THROW(unlucky.template reserve<at_the_border>(10), test::injected_failure) << n;
        EXPECT_EQ(books.bytes(), 0U) << n;
    }
}

TEST(reserved_large_blocks, stay_reserved_when_other_sizes_exhaust_the_pool) {
    pooled::pool pool{{.max_bytes = std::size_t{4} << 20}};
    pool.reserve_bytes(4, 100'000);
    std::vector<void*> others;
    while (void* const p = pool.try_allocate(48))
        others.push_back(p);
    EXPECT_EQ(pool.try_allocate(300'000), nullptr);
    std::vector<void*> reserved;
    for (int i = 0; i < 4; ++i)
        reserved.push_back(pool.try_allocate(100'000));
    for (void* const p : reserved) {
        EXPECT_NE(p, nullptr);
        pool.deallocate(p, 100'000);
    }
    for (void* const p : others)
        pool.deallocate(p, 48);
}

}  // namespace
