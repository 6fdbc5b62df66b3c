// SPDX-License-Identifier: BSL-1.0
// The allocator behind make_shared: empty, so that the control block stays small; allocates and constructs in the requested way.

#include "pooled/smart/control_block.hpp"

#include "pooled/pooled.hpp"

#include "support/internals.hpp"
#include "support/lives.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

namespace {

using namespace pooled::detail;

using from_shared = from_pool<sharing::shared>;
template <class T, initialise How = initialise::by_value>
using in_shared = control_block_allocator<T, from_shared, T, How>;

static_assert(std::is_empty_v<in_shared<int>> && std::is_empty_v<control_block_allocator<int, from_default>>);
static_assert(std::allocator_traits<in_shared<int>>::is_always_equal::value);
static_assert(std::is_same_v<std::allocator_traits<in_shared<int>>::rebind_alloc<std::string>,
                             control_block_allocator<std::string, from_shared, int>>,
              "what it is rebound to still knows the object");

class control_block_test : public testing::Test {
protected:
    control_block_test() { t_making = &test::core_of(pool); }
    ~control_block_test() override {
        EXPECT_EQ(pool.stats().in_use, 0U);
        EXPECT_EQ(log.alive(), 0);
        t_making = nullptr;
    }
    pooled::pool pool;
    test::life_log log;
};

TEST_F(control_block_test, is_equal_to_all_of_its_kind) {
    EXPECT_EQ(in_shared<int>(), in_shared<int>());
    EXPECT_EQ(in_shared<int>(), (control_block_allocator<char, from_shared, int>(in_shared<int>())));
}

TEST_F(control_block_test, holds_counts_and_object_in_one_block_without_a_pointer_to_the_pool) {
    auto p = std::allocate_shared<test::counted<>>(in_shared<test::counted<>>(), log);
    EXPECT_EQ(pool.stats().in_use, 1U);
    EXPECT_EQ(pool.stats().bytes_in_use,
              k_geometry[class_for(standard_control_block::k_bytes<test::counted<>>, 8)].block_bytes);
    std::weak_ptr<test::counted<>> const observer = p;
    p.reset();
    EXPECT_EQ(log.alive(), 0);
    EXPECT_EQ(pool.stats().in_use, 1U) << "observed";
}

TEST_F(control_block_test, goes_back_when_the_constructor_throws) {
    log.throw_at(1);
    EXPECT_THROW(static_cast<void>(std::allocate_shared<test::counted<>>(in_shared<test::counted<>>(), log)),
                 test::constructor_failed);
}

TEST_F(control_block_test, is_initialised_by_value_or_by_default_or_as_it_is_told) {
    int number = 42;
    int* const place = &number;
    in_shared<int>().construct(place);
    EXPECT_EQ(*place, 0);
    struct aggregate {
        int number;
        std::string text;
    } made{42, {}};
    std::destroy_at(&made);
    in_shared<aggregate, initialise::by_default>().construct(&made);
    EXPECT_EQ(made.text, "") << "what has a constructor is constructed";
    in_shared<int const>().construct(static_cast<int const*>(place), 7);
    EXPECT_EQ(*place, 7);
}

TEST_F(control_block_test, of_arrays_destroys_elements_at_once_also_within_a_scope) {
    auto* const memory = in_shared<test::counted<>>().allocate(1);
    ::new (memory) test::counted<>(log);
    pooled::reclaim_scope const scope;
    control_block_allocator<test::counted<>, from_shared, void>().destroy(memory);
    EXPECT_EQ(log.destroyed(), 1);
    control_block_allocator<test::counted<>, from_shared, void>().deallocate(memory, 1);
    EXPECT_EQ(pool.stats().in_use, 0U);
}

TEST_F(control_block_test, of_an_object_stays_while_a_scope_defers_it) {
    auto p = std::allocate_shared<test::counted<>>(in_shared<test::counted<>>(), log);
    {
        pooled::reclaim_scope const scope;
        p.reset();
        EXPECT_EQ(log.alive(), 1);
        EXPECT_EQ(pool.stats().in_use, 1U);
    }
    EXPECT_EQ(pool.stats().in_use, 0U);
}

}  // namespace
