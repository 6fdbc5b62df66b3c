// SPDX-License-Identifier: BSL-1.0
// Eight bytes that lead to an object and to its header, whatever base they point to.

#include "pooled/smart/handle.hpp"

#include "support/death_tests.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace {

using pooled::detail::count_header;
using pooled::detail::handle;

struct first {
    int a = 1;
};
struct second {
    int b = 2;
};
struct object : first, second {};
struct block {
    count_header header{};
    object value;
};
static_assert(sizeof(block) == sizeof(count_header) + sizeof(object), "nothing lies between them");
static_assert(sizeof(handle<object>) == 8);
struct incomplete;
static_assert(sizeof(handle<incomplete>) == 8);

TEST(handle, is_empty_at_first_and_when_made_of_an_empty_one) {
    handle<object> const none;
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(none.get(), nullptr);
    handle<first> const seen(none, static_cast<first*>(nullptr));
    EXPECT_TRUE(seen.empty());
    EXPECT_EQ(seen.offset(), 0U);
}

TEST(handle, leads_to_the_object_its_start_and_its_header) {
    block b;
    handle<object> const h(&b.value, &b.value);
    EXPECT_FALSE(h.empty());
    EXPECT_EQ(h.get(), &b.value);
    EXPECT_EQ(h.offset(), 0U);
    EXPECT_EQ(h.start(), reinterpret_cast<std::uintptr_t>(&b.value));
    EXPECT_EQ(&h.header(), &b.header);
}

TEST(handle, leads_there_from_a_base_too_and_back) {
    block b;
    handle<object> const whole(&b.value, &b.value);
    handle<second> const base(whole, static_cast<second*>(whole.get()));
    EXPECT_EQ(base.get(), static_cast<second*>(&b.value));
    EXPECT_EQ(base.offset(), sizeof(first));
    EXPECT_EQ(&base.header(), &b.header);
    handle<object> const again(base, static_cast<object*>(base.get()));
    EXPECT_EQ(again.offset(), 0U);
    EXPECT_EQ(&again.header(), &b.header);
    EXPECT_EQ(handle<second>(base.get(), &b.value).start(), whole.start());
}

TEST(handle, refuses_a_base_that_lies_64_kib_into_its_object) {
    test::start_death_tests_anew();
    auto* const start = reinterpret_cast<std::byte*>(0x1000);  // NOLINT: never read
    EXPECT_EQ(handle<std::byte>(start + 65'535, start).offset(), 65'535U);
    EXPECT_DEATH(handle<std::byte>(start + 65'536, start), "64 KiB or more into its object");
}

}  // namespace
