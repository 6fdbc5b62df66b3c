// SPDX-License-Identifier: BSL-1.0
// After reserve<T>(n), any mixture of objects of T needs neither upstream nor malloc, whatever was before and whatever other
// types do meanwhile. Replaces malloc in its own program.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/internals.hpp"
#include "support/malloc_counter.hpp"
#include "support/pool_kinds.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <sys/resource.h>

namespace {

struct word {
    std::size_t value = 1;
};
struct packet {
    char bytes[300];
};
struct frame {
    char bytes[200'000];
};

template <class T, class Pool>
struct mixture {
    std::vector<std::shared_ptr<T>> shared;
    std::vector<pooled::unique_ptr<T>> unique;
    std::vector<decltype(std::declval<Pool&>().template make_rc<T>())> counted;

    explicit mixture(std::size_t count) {
        shared.reserve(count);
        unique.reserve(count);
        counted.reserve(count);
    }
    void make(Pool& pool, std::size_t count, std::size_t kinds) {
        for (std::size_t i = 0; i < count; ++i) {
            if (kinds == 1 || (kinds == 4 && i % 3 == 0))
                shared.push_back(pool.template make_shared<T>());
            else if (kinds == 2 || (kinds == 4 && i % 3 == 1))
                unique.push_back(pool.template make_unique<T>());
            else
                counted.push_back(pool.template make_rc<T>());
        }
    }
    void drop() {
        shared.clear();
        unique.clear();
        counted.clear();
    }
};

template <class Pool>
class reservation : public testing::Test {
protected:
    template <class T>
    void expect_nothing_taken(Pool& pool, std::size_t count) {
        mixture<T, Pool> objects(count);
        for (std::size_t const kinds : {1U, 2U, 3U, 4U}) {
            std::size_t const calls = upstream.allocations();
            auto const mallocs = test::malloc_calls_so_far();
            objects.make(pool, count, kinds);
            EXPECT_TRUE(!test::k_counts_malloc || test::malloc_calls_so_far() == mallocs) << kinds;
            EXPECT_EQ(upstream.allocations(), calls) << "kinds: " << kinds;
            objects.drop();
        }
    }
    test::counting_upstream upstream;
};
TYPED_TEST_SUITE(reservation, test::pool_kinds, test::pool_kind_names);

TYPED_TEST(reservation, serves_any_mixture_of_pointers) {
    TypeParam pool{{.upstream = &this->upstream}};
    pool.template reserve<word>(10'000);
    this->template expect_nothing_taken<word>(pool, 10'000);
    pool.template reserve<packet>(1'000);
    this->template expect_nothing_taken<packet>(pool, 1'000);
    pool.template reserve<frame>(5);
    this->template expect_nothing_taken<frame>(pool, 5);
    EXPECT_TRUE(test::is_valid(pool));
}

// Sizes at which the blocks of the pointers' kinds fall on either side of a region's size.
template <std::size_t Bytes>
struct sized {
    char bytes[Bytes];
};
TYPED_TEST(reservation, serves_any_mixture_of_pointers_to_large_objects_of_any_size) {
    TypeParam pool{{.upstream = &this->upstream}};
    auto const check = [&]<std::size_t Bytes>(sized<Bytes> const*) {
        pool.template reserve<sized<Bytes>>(2);
        this->template expect_nothing_taken<sized<Bytes>>(pool, 2);
        pool.trim();
    };
    check(static_cast<sized<32'740> const*>(nullptr));
    check(static_cast<sized<32'760> const*>(nullptr));
    check(static_cast<sized<45'040> const*>(nullptr));
    check(static_cast<sized<45'050> const*>(nullptr));
    check(static_cast<sized<49'130> const*>(nullptr));
    check(static_cast<sized<49'140> const*>(nullptr));
    check(static_cast<sized<65'520> const*>(nullptr));
    check(static_cast<sized<65'530> const*>(nullptr));
}

TYPED_TEST(reservation, is_kept_from_other_types) {
    TypeParam pool{{.upstream = &this->upstream}};
    pool.template reserve<word>(10'000);
    pool.template reserve<frame>(3);
    test::held_blocks others(pool, 1500);
    test::held_blocks large(pool, 180'000);
    others.take(3'000);
    large.take(5);
    this->template expect_nothing_taken<word>(pool, 10'000);
    this->template expect_nothing_taken<frame>(pool, 3);
}

// Free blocks that were there before count. When the objects among which they lie are dropped, too, their slabs are empty,
// and another type could take them.
TYPED_TEST(reservation, that_counted_free_blocks_is_kept_when_their_slabs_empty) {
    TypeParam pool{{.chunk_bytes = 64 << 10, .upstream = &this->upstream}};
    constexpr std::size_t k_count = 20'000;
    constexpr std::size_t k_reserved = 15'000;
    test::held_blocks blocks(pool, 48, 8);
    blocks.take(k_count);
    // One block in five hundred stays: nearly all are free, and no slab is.
    for (std::size_t i = 0; i < k_count; ++i)
        if (i % 500 != 0) pool.deallocate(blocks[i], 48, 8);
    pool.reserve_bytes(k_reserved, 48, 8);
    for (std::size_t i = 0; i < k_count; i += 500)
        pool.deallocate(blocks[i], 48, 8);
    blocks.clear();
    test::held_blocks others(pool, 1500);
    others.take(2'000);
    std::size_t const calls = this->upstream.allocations();
    blocks.take(k_reserved);
    EXPECT_EQ(this->upstream.allocations(), calls);
}

long page_faults() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
}

TYPED_TEST(reservation, that_is_touched_leaves_no_page_fault) {
    if (test::k_sanitized) GTEST_SKIP() << "a sanitizer's shadow memory faults, too";
    TypeParam pool{{.touch_reserved = true}};
    constexpr std::size_t k_count = 100'000;
    pool.template reserve<word>(k_count);
    pool.template reserve<frame>(10);
    static std::array<std::shared_ptr<word>, k_count> objects;
    static std::array<std::shared_ptr<frame>, 10> frames;
    for (auto& p : objects)
        p = nullptr;  // the array's own pages
    for (auto& p : frames)
        p = nullptr;
    long const before = page_faults();
    for (auto& p : objects)
        p = pool.template make_shared<word>();
    for (auto& p : frames)
        p = pool.template make_shared<frame>();
    // 100,000 words have 600 pages. The pool's own records may take some; the checked build's two maps have 8 pages each, a bit for 16
    // bytes, and each is read, then written.
    EXPECT_LE(page_faults() - before, POOLED_CHECKED ? 4 + 2 * 8 * 2 : 4);
    for (auto& p : objects)
        p.reset();
    for (auto& p : frames)
        p.reset();
}

}  // namespace
