// SPDX-License-Identifier: BSL-1.0
// Which record a drop on a stack of unknown bounds belongs to: one that lies a little above it, the innermost of several.

#include "pooled/impl/teardown/teardown.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using pooled::detail::outermost_drop;
using pooled::detail::outermost_drop_table;

constexpr std::uintptr_t k_stack = std::uintptr_t{0x7f00'1234'0000};

struct record : outermost_drop {
    record(outermost_drop_table& in, std::uintptr_t at) : table(in) {
        top = at;
        table.insert(*this);
    }
    ~record() { table.remove(*this); }
    record(record const&) = delete;
    record& operator=(record const&) = delete;
    outermost_drop_table& table;
};

class outermost_drops : public testing::Test {
protected:
    outermost_drop_table table;
};

TEST_F(outermost_drops, are_found_by_drops_below_them) {
    record const one(table, k_stack);
    EXPECT_EQ(table.find(k_stack), &one);
    EXPECT_EQ(table.find(k_stack - outermost_drop::k_below), &one);
    EXPECT_EQ(table.find(k_stack + outermost_drop::k_above - 1), &one);
}

TEST_F(outermost_drops, are_not_found_from_other_stacks) {
    record const one(table, k_stack);
    EXPECT_EQ(table.find(k_stack - outermost_drop::k_below - 1), nullptr);
    EXPECT_EQ(table.find(k_stack + outermost_drop::k_above), nullptr);
}

TEST_F(outermost_drops, of_one_stack_give_the_innermost) {
    record const outer(table, k_stack);
    record const inner(table, k_stack - 8192);
    EXPECT_EQ(table.find(k_stack - 10'000), &inner);
    EXPECT_EQ(table.find(k_stack - 1000), &outer) << "the inner one is too far below";
}

TEST_F(outermost_drops, are_found_across_the_border_of_two_locks) {
    std::uintptr_t const border = k_stack & ~std::uintptr_t{0xffff};
    record const above(table, border + 100);
    EXPECT_EQ(table.find(border - 100), &above);
}

}  // namespace
