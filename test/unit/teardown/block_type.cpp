// SPDX-License-Identifier: BSL-1.0
// The numbered table of block types: one number a type, whoever asks; full at 16256. Counts near their limit: smart/counting.cpp.

#include "pooled/impl/teardown/block_type.hpp"

#include "pooled/pooled.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

using pooled::detail::block_type;
using pooled::detail::block_types;
using pooled::detail::copy_directory;
using pooled::detail::type_tag;

constexpr block_type k_any{.retire = nullptr,
                           .retire_observed = nullptr,
                           .finish = nullptr,
                           .finish_observed = nullptr,
                           .free = nullptr,
                           .object_offset = 8,
                           .object_bytes = 1};

TEST(the_table_of_block_types, takes_16256_and_then_says_no) {
    auto const table = std::make_unique<block_types>();
    auto const numbers = std::make_unique<copy_directory>();
    std::set<type_tag> seen;
    for (std::size_t i = 0; i < 16'256; ++i) {
        pooled::detail::atomic<type_tag> tag{pooled::detail::k_no_type};
        type_tag const given = table->add(k_any, tag, *numbers);
        ASSERT_NE(given, pooled::detail::k_no_type);
        ASSERT_EQ(tag.load(), given);
        seen.insert(given);
    }
    EXPECT_EQ(seen.size(), 16'256U);
    EXPECT_EQ(*seen.rbegin() >> pooled::detail::k_type_shift, 16'383U);
    for (int i = 0; i < 3; ++i) {
        pooled::detail::atomic<type_tag> tag{pooled::detail::k_no_type};
        EXPECT_EQ(table->add(k_any, tag, *numbers), pooled::detail::k_no_type);
        EXPECT_EQ(tag.load(), pooled::detail::k_no_type);
    }
}

// Its number is one that this copy has not given. Who deferred it knows where the object lies in the block.
TEST(the_table_of_block_types, refuses_to_finish_what_another_copy_deferred) {
    auto const table = std::make_unique<block_types>();
    table->set_foreign(pooled::detail::k_foreign_type);
    std::uint64_t header = 16'000 * pooled::detail::k_type_one;
    char const* const report = "an object that one shared library deferred is to be destroyed by another one";
    EXPECT_DEATH((*table)[header].finish(&header), report);
    EXPECT_DEATH((*table)[header].finish_observed(&header), report);
}

// Threads make their first objects of the same types at the same moment.
template <int N>
struct object {
    int value = N;
};
template <int... N>
[[nodiscard]] int made_wrong(std::integer_sequence<int, N...>) {
    return (0 + ... + int{pooled::make_rc<object<N>>()->value != N});
}

TEST(the_table_of_block_types, serves_first_objects_made_by_several_threads_at_once) {
    std::atomic<int> wrong{0};
    std::latch start(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            start.arrive_and_wait();
            wrong += made_wrong(std::make_integer_sequence<int, 40>{});
        });
    for (auto& t : threads)
        t.join();
    EXPECT_EQ(wrong, 0);
}

TEST(the_table_of_block_types, tells_types_of_one_layout_apart) {
    struct a {
        explicit a(int& n) : count(n) {}
        ~a() { count += 1; }
        int& count;
    };
    struct b {
        explicit b(int& n) : count(n) {}
        ~b() { count += 100; }
        int& count;
    };
    int count = 0;
    pooled::rc_ptr<void> p = pooled::make_rc<a>(count);
    p = pooled::make_rc<b>(count);
    EXPECT_EQ(count, 1);
    p = nullptr;
    EXPECT_EQ(count, 101);
}

}  // namespace
