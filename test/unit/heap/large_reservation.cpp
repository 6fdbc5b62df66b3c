// SPDX-License-Identifier: BSL-1.0
// What a reservation of large blocks serves, and how long it is listed.

#include "pooled/heap/large_reservation.hpp"

#include "pooled/heap/large_block.hpp"
#include "pooled/os/metadata.hpp"

#include <gtest/gtest.h>

#include <cstddef>

namespace {

using pooled::detail::g_metadata;
using pooled::detail::large_block;
using pooled::detail::large_reservation;
using pooled::detail::large_reservation_list;

large_reservation& refer(large_reservation_list& all, std::size_t bytes, std::size_t align) {
    return all.refer(bytes, align, g_metadata.allocate(sizeof(large_reservation)));
}

TEST(large_reservation, serves_the_other_forms_of_its_type_and_no_smaller_objects) {
    large_reservation const r{.bytes = 100'000, .align = 16};
    EXPECT_TRUE(r.serves(100'000, 16));
    EXPECT_TRUE(r.serves(99'900, 8));
    EXPECT_FALSE(r.serves(100'001, 16));
    EXPECT_FALSE(r.serves(50'000, 16));
    EXPECT_FALSE(r.serves(100'000, 32));
}

TEST(large_reservation_list, has_one_for_each_size_and_alignment_while_something_refers_to_it) {
    large_reservation_list all;
    large_reservation& first = refer(all, 100'000, 16);
    large_reservation& other = refer(all, 100'000, 64);
    EXPECT_NE(&first, &other);
    EXPECT_EQ(&refer(all, 100'000, 16), &first);
    EXPECT_EQ(all.find(100'000, 16), &first);
    EXPECT_EQ(all.find(100'001, 16), nullptr);
    all.drop_reference(first);
    EXPECT_EQ(all.find(100'000, 16), &first);
    all.drop_reference(first);
    EXPECT_EQ(all.find(100'000, 16), nullptr);
    EXPECT_EQ(all.first(), &other);
    all.drop_reference(other);
    EXPECT_EQ(all.first(), nullptr);
}

TEST(large_reservation_list, finds_an_idle_block_of_the_same_size_before_one_of_another_form) {
    large_reservation_list all;
    large_block idle;
    large_reservation& exact = refer(all, 100'000, 16);
    large_reservation& form = refer(all, 100'008, 16);
    EXPECT_EQ(all.find_idle(100'000, 16), nullptr);
    form.idle = &idle;
    EXPECT_EQ(all.find_idle(100'000, 16), &form);
    exact.idle = &idle;
    EXPECT_EQ(all.find_idle(100'000, 16), &exact);
    EXPECT_EQ(all.find_idle(50'000, 16), nullptr);
    all.drop_reference(exact);
    all.drop_reference(form);
}

}  // namespace
