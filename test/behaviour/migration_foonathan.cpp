// SPDX-License-Identifier: BSL-1.0
// What foonathan/memory documents of memory_pool, allocate_shared and allocate_unique, on that library where it is installed and on what
// docs/migration/foonathan-memory.md puts in its place, where it is not a promise of every pool of ours. Those, and the differences that
// the page lists, are tests of our pools: documented.md.

#include "pooled/pooled.hpp"

#include "support/blocks.hpp"
#include "support/counting_upstream.hpp"
#include "support/failing_upstream.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#ifdef POOLED_TEST_HAS_FOONATHAN
#include <foonathan/memory/memory_pool.hpp>
#include <foonathan/memory/namespace_alias.hpp>
#include <foonathan/memory/smart_ptr.hpp>
#endif

#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

#ifdef POOLED_TEST_HAS_FOONATHAN
// A RawAllocator of foonathan's on an upstream of the tests.
class raw_allocator {
public:
    using is_stateful = std::true_type;
    explicit raw_allocator(std::pmr::memory_resource& upstream) noexcept : m_upstream(&upstream) {}
    void* allocate_node(std::size_t bytes, std::size_t align) { return m_upstream->allocate(bytes, align); }
    void deallocate_node(void* p, std::size_t bytes, std::size_t align) noexcept {
        m_upstream->deallocate(p, bytes, align);
    }

private:
    std::pmr::memory_resource* m_upstream;
};

template <class Kind>
struct foonathans {
    using memory_pool = memory::memory_pool<Kind, raw_allocator>;
    class pool {
    public:
        pool(std::size_t node, std::size_t count, std::pmr::memory_resource& upstream)
            : m_pool(node, memory_pool::min_block_size(node, count), raw_allocator(upstream)),
              m_capacity(m_pool.capacity_left()) {}
        [[nodiscard]] void* allocate() { return m_pool.allocate_node(); }
        void deallocate(void* p) noexcept { m_pool.deallocate_node(p); }
        [[nodiscard]] void* allocate(std::size_t n) { return m_pool.allocate_array(n); }
        void deallocate(void* p, std::size_t n) noexcept { m_pool.deallocate_array(p, n); }
        [[nodiscard]] bool owns(void* p) noexcept {
            bool const is_own = m_pool.try_deallocate_node(p);
            if (is_own) static_cast<void>(m_pool.allocate_node());
            return is_own;
        }
        template <class T, class... Args>
        [[nodiscard]] auto make_shared(Args&&... args) {
            return memory::allocate_shared<T>(m_pool, std::forward<Args>(args)...);
        }
        template <class T, class... Args>
        [[nodiscard]] auto make_unique(Args&&... args) {
            return memory::allocate_unique<T>(m_pool, std::forward<Args>(args)...);
        }
        // Requires that the pool has not grown.
        [[nodiscard]] std::size_t in_use() const {
            return (m_capacity - m_pool.capacity_left()) / m_pool.node_size();
        }

    private:
        memory_pool m_pool;
        std::size_t m_capacity;
    };
};
#endif

struct ours {
    class pool {
    public:
        pool(std::size_t node, std::size_t count, std::pmr::memory_resource& upstream)
            : m_pool({.name = "nodes", .upstream = &upstream}), m_node(node) {
            m_pool.reserve_bytes(count, node);
        }
        [[nodiscard]] void* allocate() { return m_pool.allocate(m_node); }
        void deallocate(void* p) noexcept { m_pool.deallocate(p, m_node); }
        [[nodiscard]] void* allocate(std::size_t n) { return m_pool.allocate(n * m_node); }
        void deallocate(void* p, std::size_t n) noexcept { m_pool.deallocate(p, n * m_node); }
        [[nodiscard]] bool owns(void* p) noexcept { return m_pool.owns(p); }
        template <class T, class... Args>
        [[nodiscard]] auto make_shared(Args&&... args) {
            return m_pool.make_shared<T>(std::forward<Args>(args)...);
        }
        template <class T, class... Args>
        [[nodiscard]] auto make_unique(Args&&... args) {
            return m_pool.make_unique<T>(std::forward<Args>(args)...);
        }
        [[nodiscard]] std::size_t in_use() const { return m_pool.stats().in_use; }

    private:
        pooled::pool m_pool;
        std::size_t m_node;
    };
};

template <class Side>
class nodes : public testing::Test {
protected:
    test::counting_upstream m_upstream;
};
template <class Side>
class node_arrays : public nodes<Side> {};

#ifdef POOLED_TEST_HAS_FOONATHAN
using sides = testing::Types<ours, foonathans<memory::node_pool>, foonathans<memory::array_pool>,
                             foonathans<memory::small_node_pool>>;
using array_sides = testing::Types<ours, foonathans<memory::array_pool>>;
#else
using sides = testing::Types<ours>;
using array_sides = testing::Types<ours>;
#endif
struct side_names {
    template <class Side>
    static std::string GetName(int index) {
        return std::is_same_v<Side, ours> ? "ours" : "foonathans" + std::to_string(index);
    }
};
TYPED_TEST_SUITE(nodes, sides, side_names);
TYPED_TEST_SUITE(node_arrays, array_sides, side_names);

constexpr std::size_t k_node = 256;  // a shared_ptr's block of the types below fits

TYPED_TEST(nodes, of_the_first_block_are_there_when_the_pool_is_made) {
    typename TypeParam::pool pool(k_node, 100, this->m_upstream);
    std::size_t const asked = this->m_upstream.allocations();
    EXPECT_GE(asked, 1U);
    std::vector<void*> out;
    for (int i = 0; i < 100; ++i)
        out.push_back(pool.allocate());
    EXPECT_EQ(this->m_upstream.allocations(), asked);
    for (void* const p : out)
        pool.deallocate(p);
}

TYPED_TEST(nodes, beyond_the_first_block_come_from_upstream) {
    typename TypeParam::pool pool(k_node, 100, this->m_upstream);
    std::size_t const asked = this->m_upstream.allocations();
    std::vector<void*> out;
    for (int i = 0; i < 20'000; ++i)
        out.push_back(pool.allocate());
    EXPECT_GT(this->m_upstream.allocations(), asked);
    EXPECT_LT(this->m_upstream.allocations(), asked + 200) << "it grows by many nodes at a time";
    for (void* const p : out)
        pool.deallocate(p);
}

TYPED_TEST(nodes, that_were_deallocated_in_any_order_are_used_again) {
    typename TypeParam::pool pool(k_node, 1000, this->m_upstream);
    std::vector<void*> out;
    for (int i = 0; i < 1000; ++i)
        out.push_back(pool.allocate());
    for (std::size_t i = 0; i < out.size(); ++i)
        pool.deallocate(out[i * 7 % out.size()]);
    std::size_t const asked = this->m_upstream.allocations();
    for (void*& p : out)
        p = pool.allocate();
    EXPECT_EQ(this->m_upstream.allocations(), asked);
    for (void* const p : out)
        pool.deallocate(p);
}

TYPED_TEST(nodes, of_the_pool_are_told_from_other_memory) {
    typename TypeParam::pool pool(k_node, 10, this->m_upstream);
    void* const p = pool.allocate();
    int other = 0;
    EXPECT_TRUE(pool.owns(p));
    EXPECT_FALSE(pool.owns(&other));
    pool.deallocate(p);
}

TYPED_TEST(nodes, that_upstream_refuses_are_reported_by_its_exception_and_the_pool_goes_on) {
    for (int calls = 1; calls < 4; ++calls) {
        test::failing_upstream upstream(this->m_upstream);
        upstream.fail_from(static_cast<std::size_t>(calls) + 1);
        typename TypeParam::pool pool(k_node, 10, upstream);
        std::vector<void*> out;
        EXPECT_THROW(while (out.size() < 100'000) out.push_back(pool.allocate()), test::injected_failure);
        EXPECT_GE(out.size(), 10U);
        for (void* const p : out)
            pool.deallocate(p);
        for (void*& p : out)
            p = pool.allocate();
        EXPECT_THROW(static_cast<void>(pool.allocate()), test::injected_failure);
        for (void* const p : out)
            pool.deallocate(p);
    }
}

TYPED_TEST(nodes, hold_a_shared_ptrs_object_and_counts_together) {
    test::life_log log;
    typename TypeParam::pool pool(k_node, 10, this->m_upstream);
    std::weak_ptr<test::counted<>> observer;
    {
        std::shared_ptr<test::counted<>> const one = pool.template make_shared<test::counted<>>(log);
        std::shared_ptr<test::counted<>> const copy = one;
        observer = one;
        EXPECT_EQ(one.use_count(), 2);
        EXPECT_EQ(pool.in_use(), 1U);
    }
    EXPECT_EQ(log.alive(), 0);
    EXPECT_TRUE(observer.expired());
    EXPECT_EQ(pool.in_use(), 1U) << "the weak_ptr keeps the node";
    observer.reset();
    EXPECT_EQ(pool.in_use(), 0U);
}

TYPED_TEST(nodes, of_an_object_whose_constructor_throws_are_free_again) {
    test::life_log log;
    typename TypeParam::pool pool(k_node, 10, this->m_upstream);
    static_cast<void>(pool.template make_shared<test::counted<>>(log));
    static_cast<void>(pool.template make_unique<test::counted<>>(log));
    std::size_t const asked = this->m_upstream.allocations();
    for (int i = 0; i < 1000; ++i) {
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(pool.template make_shared<test::counted<>>(log)),
                     test::constructor_failed);
        log.throw_at(1);
        EXPECT_THROW(static_cast<void>(pool.template make_unique<test::counted<>>(log)),
                     test::constructor_failed);
    }
    EXPECT_EQ(this->m_upstream.allocations(), asked);
    EXPECT_EQ(log.alive(), 0);
}

TYPED_TEST(node_arrays, are_contiguous_and_written_without_harm_to_others) {
    typename TypeParam::pool pool(64, 1000, this->m_upstream);
    std::vector<test::raw_block> out;
    for (std::size_t n = 1; n <= 20; ++n) {
        void* const p = pool.allocate(n);
        std::memset(p, static_cast<int>(n), n * 64);
        out.push_back({p, n * 64, 16});
        out.push_back({pool.allocate(), 64, 16});
    }
    EXPECT_FALSE(test::overlap(out));
    for (test::raw_block const& block : out)
        block.bytes == 64 ? pool.deallocate(block.p) : pool.deallocate(block.p, block.bytes / 64);
}

}  // namespace
