// SPDX-License-Identifier: BSL-1.0
// observed: a value with one writer that others may read.

#include "pooled/base/atomics.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>

namespace {

using pooled::detail::observed;
using pooled::detail::std_atomics;

static_assert(sizeof(observed<std::uint32_t>) == 4 && sizeof(observed<void*>) == sizeof(void*));
static_assert(std::is_same_v<std_atomics::atomic<int>, std::atomic<int>>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<void*>::is_always_lock_free);
static_assert(noexcept(std_atomics::light_barrier()));

TEST(observed, begins_at_zero_or_as_given) {
    EXPECT_EQ(observed<int>(), 0);
    EXPECT_EQ(observed<int*>(), nullptr);
    EXPECT_EQ(observed<std::int64_t>(-3), -3);
}

TEST(observed, is_assigned_added_to_and_subtracted_from) {
    observed<std::uint32_t> value(40);
    value.add(5);
    value.subtract(3);
    EXPECT_EQ(value, 42U);
    value = 7;
    EXPECT_EQ(value, 7U);
    observed<std::uint8_t> narrow(250);
    narrow.add(10);
    EXPECT_EQ(narrow, 4U) << "it wraps round as the type does";
}

TEST(observed, is_copied_as_its_value) {
    observed<int> a(1);
    observed<int> const b(a);
    a = 2;
    EXPECT_EQ(b, 1);
    observed<int> c;
    c = a;
    EXPECT_EQ(std::exchange(c, observed<int>(9)), 2);
    EXPECT_EQ(c, 9);
}

TEST(observed, is_read_by_others_while_its_writer_goes_on) {
    observed<std::uint64_t> value;
    std::thread writer([&] {
        for (int i = 0; i < 100'000; ++i)
            value.add(1);
    });
    for (std::uint64_t last = 0; last != 100'000;) {
        std::uint64_t const now = value;
        ASSERT_GE(now, last) << "no value is read that was not written";
        last = now;
    }
    writer.join();
}

}  // namespace
