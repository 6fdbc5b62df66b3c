// SPDX-License-Identifier: BSL-1.0
// What pooled's pool resources promise beyond the standard, and what it leaves open.

#include "pooled/compat/pmr.hpp"

#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/in_child.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t k_most = std::numeric_limits<std::size_t>::max();

// Grants requests up to a size.
class frugal : public std::pmr::memory_resource {
public:
    explicit frugal(std::size_t most) : m_most(most) {}
    void set_most(std::size_t most) { m_most = most; }
    [[nodiscard]] std::size_t refused() const { return m_refused; }
    [[nodiscard]] test::counting_upstream const& books() const { return m_books; }

private:
    void* do_allocate(std::size_t bytes, std::size_t align) override {
        if (bytes > m_most) {
            ++m_refused;
            throw std::bad_alloc();
        }
        return m_books.allocate(bytes, align);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
        m_books.deallocate(p, bytes, align);
    }
    [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
    std::size_t m_most;
    std::size_t m_refused = 0;
    test::counting_upstream m_books;
};

template <class Resource>
class own_resource : public testing::Test {
protected:
    test::counting_upstream upstream;
};
using resources =
    testing::Types<pooled::compat::synchronized_pool_resource, pooled::compat::unsynchronized_pool_resource>;
struct resource_names {
    template <class Resource>
    static std::string GetName(int index) {
        return index == 0 ? "synchronized" : "unsynchronized";
    }
};
TYPED_TEST_SUITE(own_resource, resources, resource_names);

TYPED_TEST(own_resource, takes_nothing_from_upstream_before_the_first_allocation) {
    TypeParam const resource(&this->upstream);
    EXPECT_EQ(this->upstream.allocations(), 0U);
}

TYPED_TEST(own_resource, release_leaves_nothing_and_needs_no_new_pool) {
    TypeParam resource(&this->upstream);
    for (int round = 0; round < 100; ++round) {
        for (std::size_t bytes = 16; bytes < 100'000; bytes *= 2)
            static_cast<void>(resource.allocate(bytes));
        resource.release();
        ASSERT_EQ(this->upstream.bytes(), 0U);
    }
}

TYPED_TEST(own_resource, release_forgets_what_was_deallocated) {
    TypeParam resource(&this->upstream);
    std::vector<void*> out;
    for (int i = 0; i < 5000; ++i)
        out.push_back(resource.allocate(64));
    for (void* const p : out)
        resource.deallocate(p, 64);
    resource.release();
    EXPECT_EQ(this->upstream.bytes(), 0U);
    std::set<void*> again;
    for (int i = 0; i < 5000; ++i) {
        void* const p = resource.allocate(64);
        EXPECT_TRUE(this->upstream.contains(p));
        EXPECT_TRUE(again.insert(p).second) << "handed out twice";
    }
}

TYPED_TEST(own_resource, max_blocks_per_chunk_bounds_the_bytes_of_every_request_to_upstream) {
    // 96 bytes and more are what a chunk needs besides its blocks.
    for (std::size_t const most : {1UL, 3UL, 50UL, 1000UL, 4096UL, 10'000UL})
        for (std::size_t const bytes : {16UL, 48UL, 1024UL, 32'768UL}) {
            frugal source(std::max(most * bytes, std::size_t{1}) + 96);
            TypeParam resource({.max_blocks_per_chunk = most, .largest_required_pool_block = 0}, &source);
            std::size_t const blocks = std::min<std::size_t>(3 * most, 300);
            for (std::size_t i = 0; i < blocks; ++i)
                static_cast<void>(resource.allocate(bytes));
            EXPECT_EQ(source.refused(), 0U) << most << " of " << bytes;
        }
}

TYPED_TEST(own_resource, options_replace_zero_by_the_limits) {
    TypeParam const limits({.max_blocks_per_chunk = k_most, .largest_required_pool_block = k_most},
                           &this->upstream);
    TypeParam const zeros({.max_blocks_per_chunk = 0, .largest_required_pool_block = 0}, &this->upstream);
    EXPECT_EQ(limits.options().max_blocks_per_chunk, zeros.options().max_blocks_per_chunk);
    EXPECT_EQ(zeros.options().largest_required_pool_block, 32'768U);
}

TYPED_TEST(own_resource, options_round_the_largest_block_up_to_a_block) {
    TypeParam const resource({.max_blocks_per_chunk = 0, .largest_required_pool_block = 1000},
                             &this->upstream);
    EXPECT_EQ(resource.options().largest_required_pool_block, 1024U);
}

TYPED_TEST(own_resource, aligned_to_more_than_16_kib_comes_from_upstream) {
    TypeParam resource(&this->upstream);
    void* const p = resource.allocate(64, 32'768);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 32'768, 0U);
    EXPECT_EQ(this->upstream.blocks(), 1U);
    resource.deallocate(p, 64, 32'768);
    EXPECT_EQ(this->upstream.blocks(), 0U);
}

TYPED_TEST(own_resource, of_a_size_that_no_memory_has_throws_what_upstream_throws) {
    struct refused : std::bad_alloc {
        std::size_t bytes = 0;
    };
    struct refusing final : std::pmr::memory_resource {
        void* do_allocate(std::size_t bytes, std::size_t) override {
            refused error;
            error.bytes = bytes;
            throw error;
        }
        void do_deallocate(void*, std::size_t, std::size_t) override {}
        [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
            return this == &other;
        }
    } source;
    TypeParam resource(&source);
    for (std::size_t less = 0; less <= 128; ++less) {
        try {
            static_cast<void>(resource.allocate(k_most - less, 1024));
            FAIL() << "memory of no size";
        } catch (refused const& error) {
            EXPECT_GE(error.bytes, k_most - less);
        }
    }
    std::size_t const volatile half = k_most / 2 + 1;  // not known to the compiler, which warns
    EXPECT_THROW(static_cast<void>(resource.allocate(half)), refused);
}

TYPED_TEST(own_resource, whose_upstream_refuses_slabs_serves_single_blocks_until_that_fails_too) {
    frugal source(200);
    TypeParam resource(&source);
    std::vector<void*> out;
    for (int i = 0; i < 1000; ++i)
        out.push_back(resource.allocate(100));
    EXPECT_THROW(static_cast<void>(resource.allocate(200)), std::bad_alloc);
    source.set_most(0);
    for (void* const p : out)
        resource.deallocate(p, 100);
    for (int i = 0; i < 1000; ++i)
        ASSERT_NO_THROW(static_cast<void>(resource.allocate(100))) << "free blocks serve";
    EXPECT_THROW(static_cast<void>(resource.allocate(100)), std::bad_alloc);
}

TYPED_TEST(own_resource, whose_upstream_refuses_for_a_while_uses_slabs_and_small_chunks_together) {
    frugal source(k_most);
    TypeParam resource(&source);
    std::vector<void*> out;
    for (int i = 0; i < 100; ++i)
        out.push_back(resource.allocate(512));
    source.set_most(1000);
    for (int i = 0; i < 2000; ++i)
        out.push_back(resource.allocate(512));
    for (void* const p : out)
        resource.deallocate(p, 512);
    std::set<void*> const before(out.begin(), out.end());
    source.set_most(0);
    std::set<void*> again;
    for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_TRUE(again.insert(resource.allocate(512)).second);
    for (void* const p : out)
        EXPECT_TRUE(again.contains(p)) << "blocks of both kinds are used again";
    source.set_most(k_most);
    resource.release();
    EXPECT_EQ(source.books().bytes(), 0U);
    EXPECT_NE(resource.allocate(512), nullptr);
    EXPECT_GE(source.books().bytes(), 65'536U) << "after release() it asks for slabs again";
}

TYPED_TEST(own_resource, does_not_write_free_blocks_of_slabs_after_upstream_refused_one) {
    if (POOLED_CHECKED != 0) GTEST_SKIP() << "the checked build fills free blocks";
    frugal source(k_most);
    TypeParam resource(&source);
    auto* const of_slab = static_cast<unsigned char*>(resource.allocate(512));
    std::fill_n(of_slab, 512, static_cast<unsigned char>(7));
    source.set_most(1000);
    for (int i = 0; i < 2000; ++i)
        static_cast<void>(resource.allocate(512));
    resource.deallocate(of_slab, 512);
    EXPECT_TRUE(std::all_of(of_slab, of_slab + 512, [](unsigned char c) { return c == 7; }));
    EXPECT_EQ(resource.allocate(512), of_slab) << "and uses them first";
}

TYPED_TEST(own_resource, loses_nothing_wherever_upstream_fails) {
    for (std::size_t n = 1;; ++n) {
        test::failing_upstream failing(this->upstream, n);
        {
            TypeParam resource(&failing);
            std::vector<std::pair<void*, std::size_t>> out;
            for (std::size_t bytes = 16; bytes < 100'000; bytes = bytes * 3 / 2)
                for (int i = 0; i < 5; ++i)
                    try {
                        out.emplace_back(resource.allocate(bytes), bytes);
                    } catch (test::injected_failure const&) {}
            for (auto const& [p, bytes] : out)
                resource.deallocate(p, bytes);
        }
        EXPECT_EQ(this->upstream.bytes(), 0U);
        if (!failing.has_failed()) break;
    }
}

TYPED_TEST(own_resource, may_be_the_upstream_of_another) {
    TypeParam outer(&this->upstream);
    TypeParam inner(&outer);
    TypeParam small({.max_blocks_per_chunk = 4, .largest_required_pool_block = 0}, &inner);
    for (std::size_t bytes = 1; bytes < 100'000; bytes = bytes * 2 + 1) {
        small.deallocate(small.allocate(bytes), bytes);
        inner.deallocate(inner.allocate(bytes), bytes);
        static_cast<void>(small.allocate(bytes));
    }
    small.release();
    inner.release();
    outer.release();
    EXPECT_EQ(this->upstream.bytes(), 0U);
}

TYPED_TEST(own_resource, serves_a_forked_child) {
    TypeParam resource(&this->upstream);
    void* const kept = resource.allocate(100);
    auto const use = [&] {
        resource.deallocate(kept, 100);
        for (int i = 0; i < 3000; ++i)
            static_cast<void>(resource.allocate(static_cast<std::size_t>(i)));
        resource.release();
        return this->upstream.bytes() == 0;
    };
    EXPECT_EQ(test::in_child(use), 0);
}

// Upstream is called by one thread at a time: a resource for one thread serves.
TEST(own_synchronized, resource_works_on_an_upstream_for_one_thread) {
    std::pmr::monotonic_buffer_resource for_one_thread;
    pooled::compat::synchronized_pool_resource resource(&for_one_thread);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (std::size_t i = 0; i < 2000; ++i)
                static_cast<void>(resource.allocate(1 + i * 53 % 40'000));
        });
    for (std::thread& one : threads)
        one.join();
}

TEST(own_synchronized, resource_releases_what_other_threads_have_cached) {
    test::counting_upstream upstream;
    pooled::compat::synchronized_pool_resource resource(&upstream);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    std::atomic<bool> released{false};
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            std::vector<void*> out;
            for (int i = 0; i < 500; ++i)
                out.push_back(resource.allocate(64));
            for (void* const p : out)
                resource.deallocate(p, 64);
            ++ready;
            while (!released)
                std::this_thread::yield();
            EXPECT_TRUE(upstream.contains(resource.allocate(64))) << "not a block that was released";
        });
    while (ready != 3)
        std::this_thread::yield();
    resource.release();
    EXPECT_EQ(upstream.bytes(), 0U);
    released = true;
    for (std::thread& one : threads)
        one.join();
}

}  // namespace
