// SPDX-License-Identifier: BSL-1.0
// A reservation serves the classes of one type and no others.

#include "pooled/heap/reservation.hpp"

#include <gtest/gtest.h>

namespace {

using namespace pooled::detail;

TEST(reservation, serves_its_one_or_two_classes_alone) {
    reservation const none;
    reservation const one{.classes = {3, 3}, .free = {}, .next = nullptr};
    reservation const two{.classes = {3, 5}, .free = {}, .next = nullptr};
    for (class_index c = 0; c < k_class_count; ++c) {
        EXPECT_FALSE(none.serves(c));
        EXPECT_EQ(one.serves(c), c == 3);
        EXPECT_EQ(two.serves(c), c == 3 || c == 5);
    }
    EXPECT_TRUE(none.free.empty());
}

}  // namespace
