// SPDX-License-Identifier: BSL-1.0
// memorypool::boost_intrusive_pool_item: what an item costs, how its handles count, and which classes can be items.

#include "unit/compat/boost_intrusive_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace {

using memorypool::boost_intrusive_pool_item;
using test::intrusive_handle;
using test::intrusive_item;
using test::intrusive_pool;
using test::take;

using boost_intrusive_pool_item_of_a_pool = test::intrusive_pool_test;

template <std::size_t Bytes>
struct payload : boost_intrusive_pool_item {
    std::array<char, Bytes> buffer;
};

// The memory that the default pool has for as many items as fill many slabs.
template <std::size_t Bytes>
double bytes_beyond_the_payload() {
    constexpr std::size_t k_items = std::min((std::size_t{16} << 20) / Bytes, std::size_t{100'000});
    pooled::default_pool().trim();
    auto const taken = [] {
        auto const now = pooled::default_pool().stats();
        std::uint64_t bytes = 0;
        for (auto const& one : now.classes)
            bytes += one.slab_bytes;
        return bytes;
    };
    auto const before = taken();
    memorypool::boost_intrusive_pool<payload<Bytes>> const pool(k_items, 0);
    return static_cast<double>(taken() - before) / k_items - Bytes;
}

TEST(boost_intrusive_pool_item_size, is_24_bytes_beyond_the_payload) {
    EXPECT_EQ(sizeof(boost_intrusive_pool_item), 24U);
    EXPECT_EQ(sizeof(payload<1024>), 1024U + 24U);
}

TEST(boost_intrusive_pool_item_size, in_memory_is_at_most_an_eighth_and_24_bytes_beyond_the_payload) {
    auto const expect = [](std::size_t payload, double beyond) {
        EXPECT_LE(beyond, 24 + 0.12 * static_cast<double>(payload)) << payload;
        EXPECT_GE(beyond, 24) << payload;
    };
    expect(16, bytes_beyond_the_payload<16>());
    expect(48, bytes_beyond_the_payload<48>());
    expect(1024, bytes_beyond_the_payload<1024>());
    expect(1500, bytes_beyond_the_payload<1500>());
    expect(2048, bytes_beyond_the_payload<2048>());
    expect(4096, bytes_beyond_the_payload<4096>());
    expect(9000, bytes_beyond_the_payload<9000>());
    expect(17400, bytes_beyond_the_payload<17400>());
}

TEST_F(boost_intrusive_pool_item_of_a_pool, counts_its_handles) {
    intrusive_pool pool(2);
    intrusive_handle a = pool.allocate();
    EXPECT_EQ(a->use_count(), 1U);
    {
        intrusive_handle const b = a;
        EXPECT_EQ(a->use_count(), 2U);
        boost::intrusive_ptr<boost_intrusive_pool_item> const base = b;
        boost::intrusive_ptr<intrusive_item const> const constant = b;
        EXPECT_EQ(a->use_count(), 4U);
    }
    EXPECT_EQ(a->use_count(), 1U);
    intrusive_handle const moved = std::move(a);
    EXPECT_EQ(moved->use_count(), 1U);
    intrusive_handle const from_pointer(moved.get());
    EXPECT_EQ(moved->use_count(), 2U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, goes_back_through_a_handle_of_any_type) {
    intrusive_pool pool(1, 0);
    boost::intrusive_ptr<boost_intrusive_pool_item> base = pool.allocate();
    base.reset();
    boost::intrusive_ptr<intrusive_item const> constant = pool.allocate();
    ASSERT_NE(constant, nullptr);
    constant.reset();
    EXPECT_EQ(pool.unused_count(), 1U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, knows_that_it_is_in_one) {
    intrusive_pool pool(1);
    EXPECT_TRUE(pool.allocate()->is_in_memory_pool());
    intrusive_handle const plain(new intrusive_item);
    EXPECT_FALSE(plain->is_in_memory_pool());
    intrusive_item const on_the_stack;
    EXPECT_FALSE(on_the_stack.is_in_memory_pool());
    EXPECT_EQ(on_the_stack.use_count(), 0U);
    plain->check();
    on_the_stack.check();
}

TEST_F(boost_intrusive_pool_item_of_a_pool, has_the_public_members_of_the_original) {
    intrusive_pool pool(1);
    intrusive_handle const a = pool.allocate();
    EXPECT_EQ(a->m_boost_intrusive_pool_next, nullptr);
    EXPECT_NE(a->m_boost_intrusive_pool_owner, nullptr);
    EXPECT_EQ(a->m_boost_intrusive_pool_refcount, 1U);
    intrusive_handle const plain(new intrusive_item);
    EXPECT_EQ(plain->m_boost_intrusive_pool_owner, nullptr);
    EXPECT_EQ(plain->m_boost_intrusive_pool_refcount, 1U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, made_by_new_is_deleted_as_what_it_is) {
    struct derived : intrusive_item {
        std::string text = "long enough to be allocated by the string itself, so that a leak is seen";
    };
    boost::intrusive_ptr<boost_intrusive_pool_item> base(new derived);
    base.reset();
    EXPECT_EQ(log.alive(), 0);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, copies_are_items_of_their_own) {
    intrusive_pool pool(2);
    intrusive_handle const a = pool.allocate_through_init(5);
    intrusive_handle const second = a;
    intrusive_item const copy = *a;
    EXPECT_EQ(copy.value, 5);
    EXPECT_EQ(copy.use_count(), 0U);
    EXPECT_FALSE(copy.is_in_memory_pool());

    intrusive_handle const b = pool.allocate();
    *b = *a;
    EXPECT_EQ(b->value, 5);
    EXPECT_EQ(b->use_count(), 1U);
    EXPECT_EQ(a->use_count(), 2U);
    EXPECT_EQ(pool.inuse_count(), 2U);
}

TEST_F(boost_intrusive_pool_item_of_a_pool, may_make_a_handle_of_itself_in_its_destructor) {
    struct curious : boost_intrusive_pool_item {
        ~curious() override { boost::intrusive_ptr<curious> const self(this); }
    };
    { boost::intrusive_ptr<curious> const plain(new curious); }
}

struct before {
    virtual ~before() = default;
    std::uint64_t a = 1;
    std::uint64_t b = 2;
};
struct second_base : before, boost_intrusive_pool_item {
    int value = 3;
};
struct virtual_base : virtual boost_intrusive_pool_item {
    int value = 4;
};
struct diamond : virtual_base, before {
    int more = 5;
};
struct alignas(256) aligned : boost_intrusive_pool_item {
    int value = 6;
};
struct alignas(16384) very_aligned : boost_intrusive_pool_item {
    int value = 6;
};
struct large : boost_intrusive_pool_item {
    std::array<char, 100'000> buffer;
};
struct half_an_arena : boost_intrusive_pool_item {
    std::array<char, 16'000> buffer;
};
struct empty_item : boost_intrusive_pool_item {};

template <class Item>
class items_of_class : public testing::Test {};
using item_classes = testing::Types<second_base, virtual_base, diamond, aligned, very_aligned, large,
                                    half_an_arena, empty_item>;
TYPED_TEST_SUITE(items_of_class, item_classes);

TYPED_TEST(items_of_class, every_shape_are_pooled) {
    auto const blocks = test::blocks_in_use();
    {
        memorypool::boost_intrusive_pool<TypeParam> pool(3, 5, 0, memorypool::RECYCLE_METHOD_CUSTOM_FUNCTION,
                                                         [](TypeParam& it) { it.check(); });
        for (int round = 0; round < 3; ++round) {
            auto handles = take(pool, 40);
            for (auto const& it : handles) {
                EXPECT_EQ(reinterpret_cast<std::uintptr_t>(it.get()) % alignof(TypeParam), 0U);
                EXPECT_EQ(it->use_count(), 1U);
                EXPECT_TRUE(it->is_in_memory_pool());
            }
            EXPECT_EQ(pool.inuse_count(), 40U);
            pool.check();
            handles.resize(static_cast<std::size_t>(round));
            if (round == 1) pool.clear();
            pool.check();
        }
    }
    EXPECT_EQ(test::blocks_in_use(), blocks);
}

TEST(boost_intrusive_pool_item_construction, leaves_what_the_constructor_does_not_write) {
    struct untouched : boost_intrusive_pool_item {
        untouched() {}  // NOLINT: writes nothing on purpose
        unsigned char buffer[256];
    };
    struct implicit : boost_intrusive_pool_item {
        unsigned char buffer[256];
    };
    auto const count_zeros = [](auto& pool) {
        auto handles = take(pool, 50);
        for (auto const& it : handles)
            for (unsigned char& byte : it->buffer)
                byte = 0xA5;
        handles.clear();
        pool.clear();  // the blocks return to the default pool
        std::size_t zeros = 0;
        for (auto const& it : take(pool, 50)) {
            unsigned char* bytes = it->buffer;
            asm volatile(""
                         : "+r"(bytes)
                         :
                         : "memory");  // the compiler must not know that they were not written
            for (int i = 0; i < 256; ++i)
                zeros += bytes[i] == 0 ? 1 : 0;
        }
        return zeros;
    };
    memorypool::boost_intrusive_pool<untouched> a(50, 0);
    memorypool::boost_intrusive_pool<implicit> b(50, 0);
    // A few bytes of a block are the default pool's while it is free.
    EXPECT_LT(count_zeros(a), 200U);
    EXPECT_LT(count_zeros(b), 200U);
}

}  // namespace
