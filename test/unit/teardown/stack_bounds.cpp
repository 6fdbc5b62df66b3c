// SPDX-License-Identifier: BSL-1.0
// The bounds of a thread's own stack hold what the thread has there, and nothing else.

#include "pooled/impl/teardown/stack_bounds.hpp"

#include "support/small_stack.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>

namespace {

using pooled::detail::find_stack_bounds;
using pooled::detail::stack_bounds;

std::uintptr_t here() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

TEST(stack_bounds, hold_the_frame_of_the_main_thread) {
    stack_bounds const bounds = find_stack_bounds();
#if defined(POOLED_TEST_EMULATED)
    if (bounds.bytes() == 0)
        GTEST_SKIP() << "with large pages, the emulator does not list the stack in /proc/self/maps";
#endif
    EXPECT_TRUE(bounds.contains(here()));
    EXPECT_FALSE(bounds.contains(reinterpret_cast<std::uintptr_t>(std::make_unique<int>(1).get())));
}

TEST(stack_bounds, are_those_that_a_thread_was_made_with) {
    test::on_stack_of(test::k_small_stack, [] {
        stack_bounds const bounds = find_stack_bounds();
        EXPECT_TRUE(bounds.contains(here()));
        EXPECT_LE(bounds.bytes(), 2 * test::k_small_stack);
        EXPECT_GE(bounds.bytes(), test::k_small_stack / 2);
    });
}

TEST(stack_bounds, leave_errno_alone) {
    errno = 42;
    static_cast<void>(find_stack_bounds());
    EXPECT_EQ(errno, 42);
}

TEST(stack_bounds, that_are_not_known_contain_nothing) {
    EXPECT_FALSE(stack_bounds{}.contains(here()));
    EXPECT_FALSE(stack_bounds{}.contains(0));
}

}  // namespace
