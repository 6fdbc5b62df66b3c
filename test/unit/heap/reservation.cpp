// SPDX-License-Identifier: BSL-1.0
// A reservation serves the classes of one type and no others.

#include "pooled/heap/reservation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

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

// Headers and control blocks of one type differ by a few words.
TEST(reservation, of_blocks_without_a_class_serves_the_other_forms_of_its_type_and_no_smaller_objects) {
    struct {
        chunk head;
        std::array<slab, 20> records;
    } memory;
    chunk& head = memory.head;
    head.base = reinterpret_cast<std::byte*>(std::uintptr_t{0x7f12'0000'4000});  // NOLINT: never read
    head.granules = 20;
    head.bytes = 20 * k_granule_bytes;
    slab& s = head.record(0);
    s.granules = 20;
    reservation one{.classes = {k_exact, k_exact}, .free = {}, .next = nullptr};
    one.free.push_front(s);
    EXPECT_EQ(one.find_exact(20, head.bytes, 16), &s);
    EXPECT_EQ(one.find_exact(19, 19 * k_granule_bytes, 16), &s);
    EXPECT_EQ(one.find_exact(18, 18 * k_granule_bytes, 16), nullptr);
    EXPECT_EQ(one.find_exact(21, head.bytes, 16), nullptr);
    EXPECT_EQ(one.find_exact(20, head.bytes + 1, 16), nullptr);
    EXPECT_EQ(one.find_exact(20, head.bytes, 2 * k_granule_bytes), nullptr) << "it is not aligned like that";
}

}  // namespace
